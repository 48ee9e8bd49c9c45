"""`--add-noqa`: comments and nothing else are added, no finding is left, and the program is the same."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_rules import HINTS, TARGET, finds
from git_project import begun, committed
from linting import ROOT
from test_cli import lint, write  # noqa: F401
from torchperf_lint.engine import registry
from torchperf_lint.engine.noqa_comments import with_noqa
from torchperf_lint.engine.replacing import UNFINISHED
from torchperf_lint.engine.runner import check_source
from word_rules import RULES as WORDS
from word_rules import word_rules  # noqa: F401

ITEM, CPU = finds("item", "TPL190"), finds("cpu", "TPL290")
RULES = (ITEM, CPU)


@pytest.fixture(autouse=True)
def _two_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "all_rules", lambda: RULES)


def commented(text: str | bytes) -> str | bytes:
    """The text with comments; it parses to the same tree, and nothing is found in it."""
    data = text.encode() if isinstance(text, str) else text
    found = check_source("f.py", data, RULES, TARGET, HINTS)
    assert found.failure is None
    done = with_noqa("f.py", data, found.diagnostics)
    assert (done.silenced, done.left) == (len(found.diagnostics), ())
    assert ast.dump(ast.parse(done.data)) == ast.dump(ast.parse(data))
    assert check_source("f.py", done.data, RULES, TARGET, HINTS).diagnostics == ()
    assert with_noqa("f.py", done.data, ()).data == done.data
    return done.data.decode() if isinstance(text, str) else done.data


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x.item()\n", "x.item()  # noqa: TPL190\n"),
        ("x.item()", "x.item()  # noqa: TPL190"),
        ("x.item() \n", "x.item()   # noqa: TPL190\n".replace("   #", "  #")),
        ("x.item()   \n", "x.item()   # noqa: TPL190\n"),
        ("x.item()\t\n", "x.item()\t  # noqa: TPL190\n"),
        ("x.item(), x.cpu(), y.item()\n", "x.item(), x.cpu(), y.item()  # noqa: TPL190, TPL290\n"),
        ("x.item(); x.cpu()\n", "x.item(); x.cpu()  # noqa: TPL190, TPL290\n"),
        # What is there already.
        ("x.item()  # noqa: E501\n", "x.item()  # noqa: E501, TPL190\n"),
        ("x.item()  #noqa:E501,W291 long\n", "x.item()  #noqa:E501,W291,TPL190 long\n"),
        ("x.item(), x.cpu()  # noqa: TPL190\n", "x.item(), x.cpu()  # noqa: TPL190, TPL290\n"),
        ("x.item(), x.cpu()  # NOQA : E501 W291\n", "x.item(), x.cpu()  # NOQA : E501 W291 TPL190 TPL290\n"),
        ("x.item()  # read once\n", "x.item()  # read once  # noqa: TPL190\n"),
        ("x.item()  # é # type: ignore \n", "x.item()  # é # type: ignore   # noqa: TPL190\n".replace("e   #", "e  #")),
        ("x.item()  # noqa: TPL190\n", "x.item()  # noqa: TPL190\n"),
        ("x.item()  # noqa\n", "x.item()  # noqa\n"),
        (
            "x.item(), x.cpu()  # torchperf-lint: ignore[TPL190]\n",
            "x.item(), x.cpu()  # torchperf-lint: ignore[TPL190]  # noqa: TPL290\n",
        ),
        ("x.item()  # noqa-me\n", "x.item()  # noqa-me  # noqa: TPL190\n"),
        ("x.item()  # ends in a backslash \\\n", "x.item()  # ends in a backslash \\  # noqa: TPL190\n"),
        # Statements of several rows.
        ("f(\n    x.item(),\n)\n", "f(\n    x.item(),  # noqa: TPL190\n)\n"),
        ("f(x.item(),\n\n  # why\n  1)\n", "f(x.item(),  # noqa: TPL190\n\n  # why\n  1)\n"),
        ("y = x.item() + \\\n    1\n", "y = x.item() + \\\n    1  # noqa: TPL190\n"),
        ("y = 1 + \\\n    x.item()\n", "y = 1 + \\\n    x.item()  # noqa: TPL190\n"),
        ("y = x.item(), '''a\n# b\n''', 2\n", "y = x.item(), '''a\n# b\n''', 2  # noqa: TPL190\n"),
        ("y = '''a\n''', x.item()\n", "y = '''a\n''', x.item()  # noqa: TPL190\n"),
        ("y = '''a\n''', x.item(), '''\n'''\n", "y = '''a\n''', x.item(), '''\n'''  # noqa: TPL190\n"),
        ("y = f(x.item(), '''\n''',\n 1)\n", "y = f(x.item(), '''\n''',  # noqa: TPL190\n 1)\n"),
        ("y = f'''{x.item()}\n'''\n", "y = f'''{x.item()}\n'''  # noqa: TPL190\n"),
        ("y = 'a\\\nb', x.item()\n", "y = 'a\\\nb', x.item()  # noqa: TPL190\n"),
        ("if x.item():\n    pass\n", "if x.item():  # noqa: TPL190\n    pass\n"),
        ("if (x.item()\n    > 1):\n  pass\n", "if (x.item()  # noqa: TPL190\n    > 1):\n  pass\n"),
        # Line ends and encodings.
        ("x.item()\r\ny = 1\r\n", "x.item()  # noqa: TPL190\r\ny = 1\r\n"),
        ("x.item()\ry = 1\r", "x.item()  # noqa: TPL190\ry = 1\r"),
        (
            "x.item()\r\nx.cpu()\nx.item()\r",
            "x.item()  # noqa: TPL190\r\nx.cpu()  # noqa: TPL290\nx.item()  # noqa: TPL190\r",
        ),
        ("x.item()\f\n", "x.item()\f  # noqa: TPL190\n"),
        ("if 1:\n\tx.item()\n", "if 1:\n\tx.item()  # noqa: TPL190\n"),
        (b"\xef\xbb\xbfx.item()\n", b"\xef\xbb\xbfx.item()  # noqa: TPL190\n"),
        (
            "# coding: latin-1\ny = 'é', x.item()  # é\n".encode("latin-1"),
            "# coding: latin-1\ny = 'é', x.item()  # é  # noqa: TPL190\n".encode("latin-1"),
        ),
        (
            "# coding: shift_jis\ny = '表', x.item()\n".encode("shift_jis"),
            "# coding: shift_jis\ny = '表', x.item()  # noqa: TPL190\n".encode("shift_jis"),
        ),
    ],
)
def test_comments_and_nothing_else_are_added(before, after):
    assert commented(before) == after


@pytest.mark.skipif(sys.version_info < (3, 12), reason="a comment within an f-string is of Python 3.12")
def test_no_comment_stands_within_an_f_string():
    text = "y = f'''{\n    x.item()\n}'''\n"
    assert commented(text) == text.replace("}'''", "}'''  # noqa: TPL190")


GAPS = st.sampled_from(["", " ", "\n", "  # why\n", "  # noqa: E501\n", "\n\n# own\n", " \\\n", "  #noqa:E501,W1 é\n"])
LEAVES = st.sampled_from(
    ["x.item()", "x.cpu()", "1", "'''a\n# b\n'''", "f'{x.item()}'", "f'''{x.cpu()}\n'''", "'a\\\nb'", "'é#'"]
)
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds("({1},{0}{2})".format, GAPS, inner, inner),
        st.builds("f({0}{1}{0})".format, GAPS, inner),
        st.builds("{0} + \\\n  {1}".format, inner, inner),
    ),
    max_leaves=5,
)
STATEMENTS = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "y = ", "if x:\n\ty = ", "y = 1; z = ", "@g\ndef f(a=1): return "]),
    EXPRESSIONS,
    st.sampled_from(
        ["", "  # why", " # noqa: E501", ";", "  # torchperf-lint: ignore[TPL290]", "\t ", "  # noqa : W1 W2"]
    ),
)


@pytest.mark.slow
@given(st.lists(STATEMENTS, min_size=1, max_size=3), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_of_any_text_that_parses(statements, end, is_ended):
    text = ("\n".join(statements) + "\n" * is_ended).replace("\n", end)
    try:
        ast.parse(text)
    except SyntaxError:
        return
    data = text.encode()
    found = check_source("f.py", data, RULES, TARGET, HINTS, report_unused=False)
    done = with_noqa("f.py", data, found.diagnostics)
    assert ast.dump(ast.parse(done.data)) == ast.dump(ast.parse(data))
    assert done.left == ()
    assert check_source("f.py", done.data, RULES, TARGET, HINTS, report_unused=False).diagnostics == ()
    assert done.data.count(end.encode()) == data.count(end.encode())


def test_text_that_cannot_be_written_back_stays_as_it_is():
    data = "# coding: utf-7\ny = '+AOk-', x.item()\n".encode("ascii")
    found = check_source("f.py", data, RULES, TARGET, HINTS).diagnostics
    done = with_noqa("f.py", data, found)
    if found:
        assert (done.data, done.silenced, done.left) == (data, 0, found)


# -- the command line -------------------------------------------------------------------------------------------------


@pytest.fixture
def faced(word_rules, lint, monkeypatch):  # noqa: F811
    """The command line with the rules about words, not with the two above."""
    monkeypatch.setattr(registry, "all_rules", lambda: WORDS)
    return lint


def test_after_it_a_run_is_clean(faced):
    path = write("a.py", b"x = slow\r\nrisky\r\n")
    write("sub/b.py", "y = (slow,\n     risky)  # noqa: E501\n")
    write("clean.py", "x = 1")
    path.chmod(0o754)
    assert faced("--add-noqa") == (0, "", "Silenced 4 findings by `# noqa` in 2 files.\n")
    assert path.read_bytes() == b"x = slow  # noqa: TPL102\r\nrisky  # noqa: TPL201\r\n"
    assert path.stat().st_mode & 0o777 == 0o754
    assert Path("sub/b.py").read_text() == "y = (slow,  # noqa: TPL102\n     risky)  # noqa: E501, TPL201\n"
    assert Path("clean.py").read_text() == "x = 1"
    assert faced() == (0, "No findings.\n", "")
    assert faced("--add-noqa") == (0, "", "Silenced 0 findings by `# noqa` in 0 files.\n")
    assert not [name for name in os.listdir() if name.startswith(UNFINISHED)]


def test_only_what_would_be_reported_is_silenced(faced):
    begun()
    path = write("a.py", "slow\nrisky\n")
    write("b.py", "slow\nrisky\n")
    committed()
    path.write_text("slow\nrisky\nslow()\nrisky()\n")
    assert faced("--add-noqa", "-q", "--changed-since", "HEAD", "--select", "TPL1") == (0, "", "")
    assert path.read_text() == "slow\nrisky\nslow()  # noqa: TPL102\nrisky()\n"
    assert faced("--add-noqa", "-q", "--min-severity", "error") == (0, "", "")
    assert Path("b.py").read_text() == "slow  # noqa: TPL102\nrisky\n"
    assert faced("--baseline", "known.json", "--write-baseline", "-q")[0] == 0
    write("b.py", "slow\nrisky\n")
    assert faced("--add-noqa", "-q", "--baseline", "known.json") == (0, "", "")
    assert Path("b.py").read_text() == "slow  # noqa: TPL102\nrisky\n"


def test_an_unused_suppression_stays_a_finding(faced):
    path = write("a.py", "x = 1  # noqa: TPL102\n")
    status, out, err = faced("--add-noqa")
    assert (status, out) == (1, "")
    assert err.splitlines() == [
        "Silenced 0 findings by `# noqa` in 0 files.",
        "a.py:1: warning: TPL001 is not silenced: `--fix` takes the comment out",
    ]
    assert path.read_text() == "x = 1  # noqa: TPL102\n"


def test_a_file_that_cannot_be_written_or_read_is_told_and_costs_no_other(faced):
    locked = write("a.py", "slow\n")
    locked.chmod(0o444)
    write("b.py", "slow\n")
    write("broken.py", "slow(\n")
    status, _, err = faced("--add-noqa")
    assert status == 2
    assert "a.py: error: cannot be written: the file is read-only" in err
    assert "broken.py:1:5: error: syntax error: " in err
    assert locked.read_text() == "slow\n"
    assert Path("b.py").read_text() == "slow  # noqa: TPL102\n"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--fix"], "--add-noqa takes the findings as they are: it cannot stand beside --fix"),
        (["--diff"], "it cannot stand beside --diff"),
        (["-"], "--add-noqa is for files: it cannot stand beside the path `-`"),
    ],
)
def test_options_that_cannot_be_met_are_one_line(faced, options, told):
    path = write("a.py", "slow\n")
    status, out, err = faced("--add-noqa", *options)
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert told in err
    assert path.read_text() == "slow\n"


def test_flake8_reads_the_comments_too(tmp_path):
    """Where the reported row takes a comment, it stands there: flake8 looks nowhere else."""
    import subprocess

    from training_loop import LOOP

    path = tmp_path / "train.py"
    path.write_text(
        LOOP.replace(
            "(outputs.argmax(1) == targets).sum().item()", "int(\n" + 12 * " " + "outputs.sum().item()\n        )"
        )
    )
    command = [sys.executable, "-m", "torchperf_lint", "--isolated", "--add-noqa", "-q", "train.py"]
    subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    assert "# noqa: TPL" in path.read_text()
    done = subprocess.run(
        [sys.executable, "-m", "flake8", "--isolated", "--select", "TPL", "train.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
