"""Notebooks: one program of cells, what IPython alone understands, and fixes that change sources of cells only."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from git_project import begun, committed
from linting import ROOT
from torchperf_lint import fix, lint
from torchperf_lint.cli import main
from torchperf_lint.engine import notebooks
from torchperf_lint.report import FORMATS
from torchperf_lint.syntax.notebook import Notebook
from torchperf_lint.syntax.source import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable

SETUP = """\
import torch
model = torch.nn.Linear(2, 1).cuda()
loader = torch.utils.data.DataLoader(data, batch_size=8, num_workers=2, pin_memory=True, persistent_workers=True)"""
LOOP = """\
for inputs, targets in loader:
    inputs = inputs.cuda()
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()"""
FIXED = LOOP.replace("inputs.cuda()", "inputs.cuda(non_blocking=True)")


def code(source: str | list[str]) -> dict[str, object]:
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}


def lines(source: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", source)


def notebook(*sources: str | list[str] | dict[str, object], **also: object) -> dict[str, object]:
    cells = [each if isinstance(each, dict) else code(each) for each in sources]
    about = {"language_info": {"name": "python"}, "kernelspec": {"name": "python3"}}
    return {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5, **also}


MARKDOWN = {"cell_type": "markdown", "metadata": {}, "source": ["# Ünï"]}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(*sources: str | list[str] | dict[str, object], name: str = "train.ipynb", **form: object) -> bytes:
    data = (json.dumps(notebook(*sources), **{"indent": 1, "ensure_ascii": False, **form}) + "\n").encode()  # type: ignore[arg-type]
    Path(name).write_bytes(data)
    return data


def found(*arguments: str) -> list[tuple[int, int, int, str]]:
    return [
        (each.cell or 0, each.start.row, each.start.column, each.code)
        for each in lint("train.ipynb", isolated=True, cache=False, select=[*arguments] or None)
    ]


def test_cells_are_one_program_in_their_order(here):
    write(MARKDOWN, lines(SETUP), lines(LOOP))
    assert found() == [(3, 2, 14, "TPL203")]
    write(MARKDOWN, lines(SETUP.replace(".cuda()", "")), lines(LOOP.replace(".cuda()", "")))
    assert found() == []


def test_the_project_is_seen_and_does_not_see_the_notebook(here):
    Path("transfer.py").write_text("def on_gpu(data):\n    return data.cuda()\n", encoding="utf-8")
    loop = LOOP.replace("inputs.cuda()", "on_gpu(inputs)")
    write(lines(SETUP), f"from transfer import on_gpu\n{loop}\n    print(loss.item())")
    assert found() == [(2, 7, 11, "TPL105")]
    assert lint(".", isolated=True, cache=False) == lint(["train.ipynb"], isolated=True, cache=False)
    assert lint("transfer.py", isolated=True, cache=False) == ()


def test_the_order_of_files_changes_nothing_and_nothing_is_stored_wrongly(here, capsys):
    write(lines(SETUP), lines(LOOP))
    Path("a.py").write_text(f"{SETUP}\n{LOOP}\n", encoding="utf-8")
    Path("z.py").write_text("from a import model\n" + LOOP, encoding="utf-8")
    printed = []
    for options in (["--no-cache"], [], [], ["-j", "2", "--no-cache"]):
        assert main(["--isolated", "--output-format", "concise", *options]) == 1
        printed.append(capsys.readouterr().out)
    assert len(set(printed)) == 1
    assert "train.ipynb:cell 2:2:14: TPL203" in printed[0]


@pytest.mark.parametrize(
    "special",
    [
        "%matplotlib inline",
        "!pip install -q torch",
        "!pip install \\\n    torch \\\n    torchvision",
        "files = !ls *.py",
        "value = %env HOME",
        "?torch",
        "torch.nn??",
        "%timeit -n 10 -r 3 model(x)",
        "%time y = model(x)",
        "if True:\n    !ls\nelse:\n    %cd ..",
        "x = (10\n   % 3)",
        "x = '''\n%not magic\n!nor this?\n'''",
        "y = 'is it?'  # is it?",
        "await model(x)",
        "print(1);",
    ],
)
def test_what_ipython_understands_comes_before_and_in_a_cell(here, special):
    write(special, lines(SETUP), f"{special}\n{LOOP}")
    height = special.count("\n") + 1
    assert found() == [(3, height + 2, 14, "TPL203")]
    fix("train.ipynb", isolated=True, cache=False, write=True)
    assert json.loads(Path("train.ipynb").read_bytes()) == notebook(special, lines(SETUP), f"{special}\n{FIXED}")


@pytest.mark.parametrize("magic", ["%%time", "%%capture out", "%%timeit -n 3"])
def test_a_cell_magic_before_python(here, magic):
    write(lines(SETUP), f"{magic}\n{LOOP}")
    assert found() == [(2, 3, 14, "TPL203")]


@pytest.mark.parametrize(
    "magic", ["%%bash", "%%html", "%%writefile train.py", "%%script python", "%%cython", "%%python", "%%python3", "%%!"]
)
@pytest.mark.parametrize("text", [f"for x in 'y\n{LOOP}", LOOP], ids=["no Python", "Python"])
def test_a_cell_magic_before_something_else(here, magic, text):
    write(lines(SETUP), f"{magic}\n{text}", lines(LOOP))
    assert found() == [(3, 2, 14, "TPL203")]


def test_line_ends_of_any_kind_are_counted(here):
    write(SETUP.replace("\n", "\r\n"), "x = 1\r" + LOOP.replace("\n", "\r\n"))
    assert found() == [(2, 3, 14, "TPL203")]
    (fixed,) = fix("train.ipynb", isolated=True, cache=False)
    assert fixed.after == fixed.before.replace("inputs.cuda()", "inputs.cuda(non_blocking=True)")
    assert main(["--isolated", "--no-cache", "train.ipynb"]) == 1


def test_columns_behind_a_magic_are_those_of_the_cell(here):
    write(lines(SETUP), LOOP.replace("inputs = inputs.cuda()", "%time inputs = inputs.cuda()"))
    assert found() == [(2, 2, 20, "TPL203")]


def test_what_a_shell_gives_is_no_number(here):
    """With a number in the place of `!nvidia-smi`, TPL202 would see a tensor of one constant."""
    asked = "size = !nvidia-smi\n    t = torch.as_tensor(size).cuda()"
    write(lines(SETUP), LOOP.replace("inputs = inputs.cuda()", asked))
    assert "TPL202" not in [code for *_, code in found("TPL2")]


@pytest.mark.parametrize(
    "form",
    [
        {"indent": 1},
        {"indent": None},
        {"indent": None, "separators": (",", ":")},
        {"indent": 4, "ensure_ascii": True},
        {"indent": "\t"},
    ],
    ids=str,
)
@pytest.mark.parametrize("as_list", [True, False])
@pytest.mark.parametrize("tail", [b"\n", b"", b"\r\n\n"])
def test_a_fix_changes_the_source_of_its_cell_and_no_other_byte(here, form, as_list, tail):
    loop = f"title = 'é \U0001d538'\n{LOOP}"
    before = write(MARKDOWN, lines(SETUP), lines(loop) if as_list else loop, code([]), **form).rstrip(b"\n") + tail
    Path("train.ipynb").write_bytes(before)
    assert main(["--isolated", "--no-cache", "--fix", "-q", "train.ipynb"]) == 0
    assert Path("train.ipynb").read_bytes() == before.replace(b"inputs.cuda()", b"inputs.cuda(non_blocking=True)")


def test_lines_that_do_not_change_keep_their_escapes(here):
    before = write(lines(SETUP), lines(f"title = 'e'\n{LOOP}")).replace(b"'e'", rb"'\u00e9\/'")
    before = before.replace(b'"cells": [', b'"cells" :\r\n [ ')
    Path("train.ipynb").write_bytes(before)
    fix("train.ipynb", isolated=True, cache=False, write=True)
    assert Path("train.ipynb").read_bytes() == before.replace(b"inputs.cuda()", b"inputs.cuda(non_blocking=True)")


@pytest.mark.parametrize("as_list", [True, False])
@pytest.mark.parametrize("opening", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_characters_that_do_not_change_keep_their_escapes(here, as_list, opening, end):
    """Also in the line that changes, on both sides of the change."""
    loop = f"title = 'TITLE'\n{LOOP}".replace("inputs.cuda()", "inputs.cuda()  # NEAR").replace("\n", end)
    before = opening + write(lines(SETUP), lines(loop) if as_list else loop, ensure_ascii=True)
    spelt = rb"\u00e9\/\u005f\ud835\udD38"
    before = before.replace(b"TITLE", spelt).replace(b"NEAR", spelt).replace(b" inputs.", rb" \u0069nputs.")
    before = before.replace(b"\n", b"\r\n")
    Path("train.ipynb").write_bytes(before)
    fix("train.ipynb", isolated=True, cache=False, write=True)
    assert Path("train.ipynb").read_bytes() == before.replace(b"nputs.cuda()", b"nputs.cuda(non_blocking=True)")


def test_a_fix_that_adds_a_line_adds_one_string(here):
    loop = f"total = 0.0\n{FIXED}\n    total += loss.item()\nreturn total"
    body = "".join(f"    {line}" for line in loop.splitlines(keepends=True))
    write(
        lines(f"{SETUP}\noptimizer = torch.optim.SGD(model.parameters())"), lines(f"def train():\n{body}"), ["train()"]
    )
    (fixed,) = fix("train.ipynb", isolated=True, cache=False, unsafe=True)
    added = [line for line in fixed.after.splitlines() if line not in fixed.before.splitlines()]
    assert added == [
        r"""    "        total += loss.detach().double()\n",""",
        r"""    "    total = float(total)\n",""",
    ]
    assert [len(cell["source"]) for cell in json.loads(fixed.after)["cells"]] == [4, 10, 1]


def test_what_is_put_behind_the_last_row_of_a_cell_belongs_to_it():
    read = Notebook("x.ipynb", json.dumps(notebook(lines("a\nb"), "%%bash\nx", ["c"])).encode())
    behind = read.program.replace(b"b\n", b"b\nafter\n").replace(b"c\n", b"c\nlast\n")
    after = json.loads(read.written(behind) or b"")
    assert [cell["source"] for cell in after["cells"]] == [["a\n", "b\n", "after"], "%%bash\nx", ["c\n", "last"]]


def test_suppressions_work(here):
    write(lines(SETUP), LOOP.replace(".cuda()", ".cuda()  # noqa: TPL203"))
    assert found() == []
    write(lines(SETUP), LOOP.replace(".cuda()", ".cuda()  # noqa: TPL203, TPL101"))
    assert found() == [(2, 2, 29, "TPL001")]
    write("# torchperf-lint: ignore-file", lines(SETUP), lines(LOOP))
    assert found() == []


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_tells_cell_and_line(here, capsys, form):
    write(MARKDOWN, lines(SETUP), lines(LOOP))
    assert main(["--isolated", "--no-cache", "--output-format", form, "train.ipynb"]) == 1
    out = capsys.readouterr().out
    if form.startswith("json"):
        (each,) = [json.loads(out)[0]] if form == "json" else [json.loads(line) for line in out.splitlines()]
        assert (each["filename"], each["cell"], each["location"]) == ("train.ipynb", 3, {"row": 2, "column": 14})
        assert each["because"][0]["cell"] == 3
        assert each["fix"]["edits"][0]["location"] == {"row": 2, "column": 26}
    else:
        told = {
            "grouped": "  cell 3:2:14  error",
            "summary": " train.ipynb:cell 3:2:14 TPL203",
            "html": "cell 3, row 2, column 14",
        }
        assert told.get(form, "cell 3, line 2: ") in out or "train.ipynb:cell 3:2:14: " in out
    if form == "sarif":
        (result,) = json.loads(out)["runs"][0]["results"]
        assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "train.ipynb"
        assert "fixes" not in result, "its regions would be taken for lines of the file"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "not checked: its JSON is broken: Expecting value in line 1, column 1"),
        (b'{"cells": [}', "not checked: its JSON is broken: Expecting value in line 1, column 12"),
        (b"[1]", "not checked: it is no notebook: its JSON is not an object"),
        (b"{}", "not checked: it is no notebook: it has no list of cells"),
        (b'{"cells": [3]}', "not checked: it is no notebook: cell 1 is not an object"),
        (
            b'{"cells": [{"cell_type": "code", "source": 3}]}',
            "not checked: it is no notebook: the source of cell 1 is not text",
        ),
        (b'{"nbformat": 3, "worksheets": []}', "not checked: a notebook of format 3; formats from 4 on are read"),
        (b'{"cells": "\xff"}', "not checked: it cannot be decoded as utf-8 in line 1"),
        (b"[" * 100_000, "not checked: its JSON cannot be read"),
        (
            json.dumps(notebook("x = 1", MARKDOWN, "y = (\n\nz")).encode(),
            "cell 3, line 1: syntax error: '(' was never closed",
        ),
    ],
    ids=range(10),
)
def test_a_broken_notebook_is_one_line(here, capsys, data, told):
    Path("broken.ipynb").write_bytes(data)
    for options in ([], ["--fix"], ["--diff"]):
        assert main(["--isolated", "--no-cache", "-q", "broken.ipynb", *options]) == 2
        assert capsys.readouterr().err == f"broken.ipynb: error: {told}\n"
    assert Path("broken.ipynb").read_bytes() == data


@pytest.mark.parametrize(
    ("spoilt", "told"),
    [
        ("def f(:\n    pass\n", "line 1: syntax error: "),
        ("x = 1\ntotal = (\n", "line 2: syntax error: '(' was never closed"),
        ("%matplotlib inline\n  x = 1\r\n%time y = (\r", "line 2: syntax error: unexpected indent"),
        ("s = '\ud800'", "line 1: half of a surrogate pair"),
        ("x = 1\nif x:\n    return x", "line 3: syntax error: 'return' outside function"),
    ],
    ids=range(5),
)
def test_a_cell_that_does_not_parse_leaves_the_others(here, capsys, spoilt, told):
    before = write(lines(SETUP), code(spoilt), lines(LOOP), spoilt, "x = 1  # noqa: TPL101", ensure_ascii=True)
    for options in ([], ["--fix"]):
        assert main([*CONCISE, *options, "train.ipynb"]) == 2
        shown = capsys.readouterr()
        if not options:
            assert shown.out.splitlines()[0].startswith("train.ipynb:cell 3:2:14: TPL203 [*] `inputs.cuda()`")
            assert "1 finding" in shown.out
        assert shown.err.startswith(f"train.ipynb: error: cell 2, {told}")
        assert "(and 1 more)\n" in shown.err
    assert Path("train.ipynb").read_bytes() == before.replace(b"inputs.cuda()", b"inputs.cuda(non_blocking=True)")


@pytest.mark.parametrize("magic", ["", "%%memit\n"])
def test_what_a_cell_of_which_nothing_is_known_might_use_stays(magic):
    data = json.dumps(notebook(f"{magic}plt.plot(losses[0], model.fit; x²" + "\n# ünï\r")).encode()
    read = Notebook("x.ipynb", data)
    assert read.program.decode() == (
        "# %% cell 1\n__cell_0__("
        + ("memit, " if magic else "")
        + "plt, __cell_0__.plot, losses, model, __cell_0__.fit,"
        " ünï)\n" + ("\n" if magic else "") + "\r\n"
    )
    assert read.written(read.program) == data
    assert bool(read.spoilt) == (not magic)


def test_a_bare_magic_before_python_is_no_error():
    read = Notebook("x.ipynb", json.dumps(notebook("time y = model(x)")).encode())
    assert read.spoilt == []
    assert b"__cell_0__(time, y, model, x)" in read.program


NESTED = f'total = 0.0\n{LOOP}\n\n    total += 1  # a\r\nx = """\n  text\n  """'


def indented(source: str) -> str:
    return "".join(f"  {row}" if row.strip() else row for row in source.splitlines(keepends=True))


def prompted(first: str, others: str) -> Callable[[str], str]:
    return lambda source: first + source.replace("\n", f"\n{others}")


@pytest.mark.parametrize("before", ["", "\n \n"])
@pytest.mark.parametrize(
    ("written", "column"),
    [
        (indented, 16),
        (lambda source: indented(f"%time x = 1\n{source}"), 16),
        (lambda source: f"%%time\n{indented(source)}", 16),
        (lambda source: indented(f"%%time\n{indented(source)}"), 18),
        (prompted(">>> ", "... "), 18),
        (prompted("  >>> ", "  ... "), 20),
        (prompted("In [12]: ", "    ...: "), 23),
    ],
    ids=range(7),
)
def test_what_ipython_strips_from_rows_is_no_syntax_error(here, written, column, before):
    cell = before + written(NESTED)
    data = write(lines(SETUP), lines(cell), "x = 1  # noqa: TPL101")
    above = cell[: cell.index("inputs.cuda()")].count("\n")
    assert found() == [(2, above + 1, column, "TPL203"), (3, 1, 8, "TPL001")]
    assert main(["--isolated", "--no-cache", "--fix", "-q", "train.ipynb"]) == 0
    after = data.replace(b"inputs.cuda()", b"inputs.cuda(non_blocking=True)").replace(b"  # noqa: TPL101", b"")
    assert Path("train.ipynb").read_bytes() == after


@pytest.mark.parametrize(("source", "added"), [("  a\n\n  b", "  new"), (">>> a\n>>> \n... b", "... new")])
def test_a_new_row_gets_what_ipython_strips(source, added):
    read = Notebook("x.ipynb", json.dumps(notebook(source)).encode())
    after = json.loads(read.written(read.program.replace(b"b\n", b"new\nb\n")) or b"")
    *rows, last = source.split("\n")
    assert after["cells"][0]["source"].split("\n") == [*rows, added, last]


def test_edits_of_a_report_put_back_what_ipython_strips(here):
    loop = f"{FIXED}\n    total += loss.item()".replace("\n", "\n    ")
    body = f"def train():\n    total = 0.0\n    {loop}\n    return total"
    write(lines(f"{SETUP}\noptimizer = torch.optim.SGD(model.parameters())"), indented(body), "train()")
    (each,) = lint("train.ipynb", isolated=True, cache=False)
    cell = indented(body)
    for edit in sorted(each.fix.edits, reverse=True):
        rows = cell.splitlines(keepends=True)
        start, end = (len("".join(rows[: row - 1])) + column - 1 for row, column in (edit.start, edit.end))
        cell = cell[:start] + edit.content + cell[end:]
    assert cell.count("\n") == body.count("\n") + 1
    fix("train.ipynb", isolated=True, cache=False, write=True, unsafe=True)
    assert json.loads(Path("train.ipynb").read_bytes())["cells"][1]["source"] == cell


@pytest.mark.parametrize(
    "bare", ["pip install torch", "cd ..", "ls -l *.py\n", "matplotlib inline", "  conda install x"]
)
def test_a_magic_may_stand_bare_in_a_cell_of_one_row(here, bare):
    data = write(bare, lines(SETUP), lines(LOOP))
    assert found() == [(3, 2, 14, "TPL203")]
    assert main(["--isolated", "--no-cache", "--fix", "-q", "train.ipynb"]) == 0
    assert Path("train.ipynb").read_bytes() == data.replace(b"inputs.cuda()", b"inputs.cuda(non_blocking=True)")
    write(f"{bare.strip()}\nx = 1", lines(SETUP))
    assert main(["--isolated", "--no-cache", "-q", "train.ipynb"]) == 2


def test_known_findings_stay_known_beside_a_cell_that_does_not_parse(here, capsys):
    write(lines(SETUP), lines(LOOP))
    main(["--isolated", "--baseline", "known.json", "--write-baseline", "-q"])
    write(lines(SETUP), "x = (", lines(LOOP))
    assert places(capsys, "--baseline", "known.json") == []
    write(lines(SETUP), "x = (")
    main([*CONCISE, "--baseline", "known.json"])
    assert "matches no finding any more" not in capsys.readouterr().err


def test_a_comment_about_the_encoding_is_one_like_others(here):
    write(f"# coding: ascii\n{SETUP}", f"title = '\U0001d538'; {LOOP}".replace("; for", "\nfor"))
    assert found() == [(2, 3, 14, "TPL203")]
    (fixed,) = fix("train.ipynb", isolated=True, cache=False)
    assert fixed.after == fixed.before.replace("inputs.cuda()", "inputs.cuda(non_blocking=True)")


def test_other_languages_are_passed_over_in_a_folder(here, capsys):
    other = notebook("x <- 1")
    other["metadata"] = {"kernelspec": {"language": "R"}}
    Path("r.ipynb").write_text(json.dumps(other), encoding="utf-8")
    assert main(["--isolated", "-q", "."]) == 0
    assert main(["--isolated", "-q", "r.ipynb"]) == 2
    assert "a notebook for R, not for Python" in capsys.readouterr().err


def test_a_language_without_a_name_is_python(here):
    write(lines(SETUP), lines(LOOP))
    data = Path("train.ipynb").read_bytes().replace(b'"name": "python"', b'"name": ""')
    Path("train.ipynb").write_bytes(data)
    assert found() == [(2, 2, 14, "TPL203")]


CONCISE = ("--isolated", "--no-cache", "--output-format", "concise")


def places(capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    """Where findings are reported."""
    capsys.readouterr()
    main([*CONCISE, "-q", *options])
    return [line.partition(": ")[0] for line in capsys.readouterr().out.splitlines()]


def test_the_overview_counts_a_notebook_as_one_file(here, capsys):
    write(lines(SETUP), lines(LOOP), MARKDOWN, lines(LOOP))
    assert main([*CONCISE[:2], "--output-format", "summary"]) == 1
    out = capsys.readouterr().out
    assert "By file\n  2  train.ipynb (2 errors)\n" in out
    main([*CONCISE[:2], "--output-format", "html"])
    page = capsys.readouterr().out
    assert "2 findings<small>at 2 places in 1 file</small>" in page
    assert page.count('href="#file-') == page.count('id="file-') == 1
    assert "cell 4, row 2, column 14" in page
    assert '<p class="place">train.ipynb:cell 4:' in page, "evidence"


def test_a_baseline_holds_where_cells_move(here, capsys):
    magic = LOOP.replace("inputs = inputs.cuda()", "%time inputs = inputs.cuda()")
    write(lines(SETUP), lines(magic))
    assert main(["--isolated", "--baseline", "known.json", "--write-baseline", "-q"]) == 0
    known = ("--baseline", "known.json")
    assert places(capsys, *known) == []
    write("%matplotlib inline", MARKDOWN, lines(SETUP), f"x = 1\n{magic}")
    assert places(capsys, *known) == []
    write(lines(SETUP), lines(magic), lines(magic))
    assert places(capsys, *known) == ["train.ipynb:cell 3:2:20"]
    write(lines(SETUP), lines(magic.replace("cuda()", "cuda(0)")))
    assert places(capsys, *known) == ["train.ipynb:cell 2:2:20"]
    write(lines(SETUP))
    main([*CONCISE, *known])
    assert "known.json has 1 entry that matches no finding any more (train.ipynb: TPL203)" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["--fix", "--diff", "library", "standard input"])
def test_known_findings_of_a_notebook_are_not_fixed(here, capsys, form):
    write(lines(SETUP), lines(LOOP))
    main(["--isolated", "--baseline", "known.json", "--write-baseline", "-q"])
    new = LOOP.replace("inputs.cuda()", "inputs.cuda(0)")
    before = write(lines(SETUP), lines(new), lines(LOOP))
    after = before.replace(b"inputs.cuda(0)", b"inputs.cuda(0, non_blocking=True)")
    arguments = ["--isolated", "--no-cache", "--baseline", "known.json", "-q"]
    if form == "library":
        (fixed,) = fix("train.ipynb", isolated=True, cache=False, baseline="known.json")
        assert (fixed.after.encode(), fixed.remaining) == (after, ())
    elif form == "standard input":
        command = [sys.executable, "-m", "torchperf_lint", *arguments, "--fix", "-", "--stdin-filename", "train.ipynb"]
        done = subprocess.run(command, input=before, capture_output=True, check=False, env={"PYTHONPATH": str(ROOT)})
        assert (done.stdout, done.returncode) == (after, 0)
    elif form == "--fix":
        assert main([*arguments, "--fix"]) == 0
        assert Path("train.ipynb").read_bytes() == after
    else:
        capsys.readouterr()
        assert main([*arguments, "--diff"]) == 1
        added = [line for line in capsys.readouterr().out.splitlines() if line.startswith("+ ")]
        assert len(added) == 1
        assert "inputs.cuda(0, non_blocking=True)" in added[0]


def test_known_findings_stay_known_where_no_fix_can_be_written(here, capsys, monkeypatch):
    write(lines(SETUP), lines(LOOP))
    main(["--isolated", "--baseline", "known.json", "--write-baseline", "-q"])
    before = write(lines(SETUP), lines(LOOP.replace("inputs.cuda()", "inputs.cuda(0)")), lines(LOOP))
    monkeypatch.setattr(notebooks, "_written", lambda notebook, program: None)
    monkeypatch.setattr(notebooks, "_writable", lambda report, notebook: report)
    assert places(capsys, "--baseline", "known.json", "--fix") == ["train.ipynb:cell 2:2:14"]
    assert Path("train.ipynb").read_bytes() == before


def test_a_notebook_that_has_changed_counts_as_a_whole(here, capsys):
    begun()
    write(lines(SETUP), lines(LOOP))
    write(lines(SETUP), lines(LOOP), name="other.ipynb")
    committed()
    assert places(capsys, "--changed-since", "HEAD") == []
    write(lines(SETUP), lines(LOOP), "y = 1")
    assert places(capsys, "--changed-since", "HEAD") == ["train.ipynb:cell 2:2:14"]
    assert main([*CONCISE, "-q", "--changed-since", "HEAD", "--fix"]) == 0
    assert b"non_blocking" in Path("train.ipynb").read_bytes()
    assert b"non_blocking" not in Path("other.ipynb").read_bytes()


def test_severities_hold_in_notebooks(here, capsys):
    write(lines(SETUP), f"{FIXED}\nx = 1  # noqa: TPL101")
    assert places(capsys) == places(capsys, "--min-severity", "warning") == ["train.ipynb:cell 2:6:8"]
    assert places(capsys, "--min-severity", "error") == []
    assert main([*CONCISE, "--fail-on", "warning"]) == 1
    assert main([*CONCISE, "--fail-on", "error"]) == 0
    before = write(lines(SETUP), f"{LOOP}\nx = 1  # noqa: TPL101")
    assert main([*CONCISE, "--min-severity", "error", "--fix"]) == 0
    assert Path("train.ipynb").read_bytes() == before.replace(b"inputs.cuda()", b"inputs.cuda(non_blocking=True)")


def test_no_comments_are_written_into_notebooks(here, capsys):
    before = write(lines(SETUP), lines(LOOP))
    Path("a.py").write_text(f"{SETUP}\n{LOOP}\n", encoding="utf-8")
    assert main([*CONCISE, "--add-noqa"]) == 1
    assert capsys.readouterr().err == (
        "Silenced 1 finding by `# noqa` in 1 file.\n"
        "train.ipynb: warning: 1 finding is not silenced: no comments are written into notebooks\n"
    )
    assert Path("train.ipynb").read_bytes() == before
    assert places(capsys) == ["train.ipynb:cell 2:2:14"]


def test_standard_input(here):
    data = write(lines(SETUP), lines(LOOP))
    command = [sys.executable, "-m", "torchperf_lint", "--isolated", "--fix", "-", "--stdin-filename", "train.ipynb"]
    done = subprocess.run(command, input=data, capture_output=True, check=False, env={"PYTHONPATH": str(ROOT)})
    assert done.stdout == data.replace(b"inputs.cuda()", b"inputs.cuda(non_blocking=True)")


@pytest.mark.parametrize(
    "sources",
    [
        (),
        ("",),
        ("\n",),
        ("x\n", "", "y"),
        ("%%bash\n\n",),
        ("%%time",),
        ("!ls \\\n",),
        ("# %% cell 1\n__cell_0__", "!ls"),
        ("x = '\0'",),
        ("'''\n%a", "!b\n'''"),
        ("a\r\nb",),
        ("%",),
        ("?",),
        ("x = !", "é?"),
    ],
    ids=repr,
)
def test_the_program_leads_back_to_the_notebook(sources):
    data = json.dumps(notebook(*sources)).encode()
    read = Notebook("x.ipynb", data)
    assert read.written(read.program) in (data, None)
    if "\0" not in "".join(sources):
        assert read.written(read.program) == data
    assert read.program.count(b"\n") == sum(each.count("\n") + (not each.endswith("\n")) + 1 for each in sources)


def test_a_program_that_lost_a_cell_is_not_written():
    read = Notebook("x.ipynb", json.dumps(notebook("a = 1", "!ls", "b")).encode())
    assert read.written(read.program.replace(b"# %% cell 2\n", b"")) is None
    assert read.written(read.program.replace(b"__cell_0__", b"")) is None
    assert read.written(b"first\n" + read.program) is None


def test_unreadable_is_what_is_raised():
    with pytest.raises(Unreadable, match="its JSON is broken"):
        Notebook("x.ipynb", b"{")
