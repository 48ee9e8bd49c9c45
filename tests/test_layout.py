"""Layout of fixes: lines that edits make too long are broken as black breaks them, and nothing else changes."""

from __future__ import annotations

import ast
import json
import random
from typing import TYPE_CHECKING

import black
import pytest

from linting import few
from torchperf_lint.cli import main
from torchperf_lint.engine import layout
from torchperf_lint.engine.edit_merge import apply_edits
from torchperf_lint.engine.findings import Edit
from torchperf_lint.engine.layout import laid_out
from torchperf_lint.engine.line_length import LineLengths
from torchperf_lint.syntax.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MODES = {
    length: black.Mode(line_length=length, target_versions={black.TargetVersion.PY310}) for length in (40, 60, 79, 88)
}


def added(text: str, length: int, argument: str = "new=1") -> str:
    """The text with `, new=1` at the mark `@@`, laid out."""
    before, _, after = text.partition("@@")
    return edited((before + after), length, (len(before.encode()), f", {argument}"))


def edited(text: str, length: int, *insertions: tuple[int, str]) -> str:
    """The text with the insertions, laid out; what is not in the edits is unchanged."""
    source = Source("f.py", text.encode())
    edits = tuple(Edit(place, place, new.encode()) for place, new in insertions)
    result = apply_edits(source.utf8, laid_out(source, edits, length)).decode()
    assert ast.dump(ast.parse(result)) == ast.dump(ast.parse(apply_edits(source.utf8, edits)))
    return result


BROKEN = {
    "on one line": ("x = call(a, b@@)", "x = call(\n    a, b, new=1\n)"),
    "one per line": ("x = call(aaaa, bbbb@@)", "x = call(\n    aaaa,\n    bbbb,\n    new=1,\n)"),
    "on a line of their own": (
        "x = call(\n    aaaaaaa, bbbbbb@@\n)",
        "x = call(\n    aaaaaaa,\n    bbbbbb,\n    new=1,\n)",
    ),
    "an element of its own": (
        "x = [\n    call(aaaaa, b@@),\n    c,\n]",
        "x = [\n    call(\n        aaaaa,\n        b,\n        new=1,\n    ),\n    c,\n]",
    ),
    "a long list": (
        "f([aaaaaa, bbbbbb]@@)",
        "f(\n    [\n        aaaaaa,\n        bbbbbb,\n    ],\n    new=1,\n)",
    ),
    "a call before one without arguments": ("x = f(aaa@@).tolist()", "x = f(\n    aaa, new=1\n).tolist()"),
    "nested": ("x = f(g(aaa@@), b)", "x = f(\n    g(aaa, new=1), b\n)"),
    "nested and long": (
        "x = f(g(aaaaaa@@), bb)",
        "x = f(\n    g(\n        aaaaaa,\n        new=1,\n    ),\n    bb,\n)",
    ),
    "nested alone": (
        "x = f(g(aaaaaaa, b@@))",
        "x = f(\n    g(\n        aaaaaaa,\n        b,\n        new=1,\n    )\n)",
    ),
    "decorator": ("@decorator(aa@@)\ndef f(): ...", "@decorator(\n    aa, new=1\n)\ndef f(): ..."),
    "header": ("for x in call(a@@):\n    pass", "for x in call(\n    a, new=1\n):\n    pass"),
    "method": ("x = self.a.call(bb@@)", "x = self.a.call(\n    bb, new=1\n)"),
    "comment after": ("x = call(a@@)  # why", "x = call(\n    a, new=1\n)  # why"),
    "lambda": ("x = f(lambda a: cc@@)", "x = f(\n    lambda a: cc,\n    new=1,\n)"),
    "stars": ("x = call(*aaa, **bb@@)", "x = call(\n    *aaa,\n    **bb,\n    new=1,\n)"),
    "texts": ("x = f('a, (', '#'@@)", "x = f(\n    'a, (',\n    '#',\n    new=1,\n)"),
    "parentheses": ("x = call((a), (b)@@)", "x = call(\n    (a), (b), new=1\n)"),
    "comprehension": ("f([a for a in bb]@@)", "f(\n    [a for a in bb],\n    new=1,\n)"),
    "wide characters": ("x = f('你好世界'@@)", "x = f(\n    '你好世界',\n    new=1,\n)"),
    "tabs": ("if a:\n\tcall(b, cccc@@)", "if a:\n\tcall(\n\t\tb,\n\t\tcccc,\n\t\tnew=1,\n\t)"),
    "CRLF": ("x = call(a, b@@)\r\ny = 2\r\n", "x = call(\r\n    a, b, new=1\r\n)\r\ny = 2\r\n"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_line_that_becomes_too_long_is_broken(name: str) -> None:
    before, after = BROKEN[name]
    assert added(before, 20) == after


LEFT = {
    "fits": ("x = f(a@@)", 20),
    "too long before": ("x = call(aaaaaa, bbbbbb@@)", 20),
    "comment in the brackets": ("x = call(  # why\n    aaaaaa, bbbb@@\n)", 20),
    "comment behind arguments": ("x = call(\n    a, bbbb@@  # why\n)", 20),
    "pragma": ("x = call(a, b@@)  # noqa: E501", 30),
    "our pragma": ("x = call(a, b@@)  # torchperf-lint: ignore[TPL101]", 50),
    "within a string": ('x = """\n    call(aaaaa, b@@),\n"""', 20),
    "within an f-string": ('x = f"""{call(\n    call(aaaaa, b@@),\n)}"""', 20),
    "continued line": ("x = a + \\\n    call(aaaaa@@)", 20),
    "continued statement": ("x = call(a, b@@); \\\n    y = 2", 20),
    "two statements": ("x = call(a, b@@); y = 2", 20),
    "operators": ("x = aa + call(a, b@@)", 20),
    "no brackets": ("xxxxxxxxxxxxx = aaaaa, bbb@@", 26),
}


@pytest.mark.parametrize("name", LEFT)
def test_other_lines_stay_as_the_edits_leave_them(name: str) -> None:
    text, length = LEFT[name]
    new = ", new" if name == "no brackets" else ", new=1"
    assert added(text, length, new.removeprefix(", ")) == text.replace("@@", new)


def test_a_longer_name_breaks_the_line_as_well() -> None:
    source = Source("f.py", b"xx = f(aaaaaaaaaaa)\n")
    edits = laid_out(source, [Edit(0, 2, b"long"), Edit(5, 6, b"long.f")], 20)
    assert apply_edits(source.utf8, edits) == b"long = long.f(\n    aaaaaaaaaaa\n)\n"


@pytest.mark.parametrize(
    ("call", "result"),
    [
        ("ff()", "aaaaaaa, bbbbbb = (\n    ff()\n)"),
        ("ff(c, d)", "aaaaaaa, bbbbbb = (\n    ff(c, d)\n)"),
    ],
)
def test_a_call_whose_names_leave_it_no_room_is_in_parentheses(call: str, result: str) -> None:
    text = f"bbbbbb = {call}"
    assert edited(text, 20, (0, "aaaaaaa, ")) == result


def test_names_that_fill_more_than_a_line_are_on_lines_of_their_own() -> None:
    result = "(\n    aaaaaaaa,\n    bbbbbbbb,\n    cccc,\n) = f(ddd)"
    assert edited("cccc = f(ddd)", 20, (0, "aaaaaaaa, bbbbbbbb, ")) == result


def test_edits_of_several_lines_are_broken_together() -> None:
    text = "x = call(a, b)\ny = 1\nz = call(a, b)\n"
    want = "x = call(\n    a, b, new=1\n)\ny = 1\nz = call(\n    a, b, new=1\n)\n"
    assert edited(text, 18, (13, ", new=1"), (34, ", new=1")) == want


def test_one_insertion_of_several_lines_is_broken() -> None:
    new = "x = call(aaaaaaa, b)\ny = call(aaaaaaa, b)\n"
    want = "x = call(\n    aaaaaaa, b\n)\ny = call(\n    aaaaaaa, b\n)\nz = 1\n"
    assert edited("z = 1\n", 19, (0, new)) == want


def test_edits_that_overlap_are_returned_as_they_are() -> None:
    edits = (Edit(0, 3, b"a" * 30), Edit(2, 4, b"b" * 30))
    assert laid_out(Source("f.py", b"abcdef\n"), edits, 20) == edits


def test_text_that_does_not_parse_is_left() -> None:
    edits = (Edit(0, 0, b"f(((" + b"b" * 30),)
    assert laid_out(Source("f.py", b"abcdef\n"), edits, 20) == edits


def test_another_encoding_is_kept() -> None:
    source = Source("f.py", "# coding: latin-1\nx = call('é', b)\n".encode("latin-1"))
    place = source.utf8.index(b", b)") + 3
    edits = laid_out(source, [Edit(place, place, b", new=1")], 20)
    assert (
        source.encode(apply_edits(source.utf8, edits)).decode("latin-1").endswith("x = call(\n    'é', b, new=1\n)\n")
    )


# -- as black does it --------------------------------------------------------------------------------------------------


class _Programs:
    """Random statements with calls in all positions."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.pick = self._random.choice

    def name(self) -> str:
        return self.pick(("a", "model", "batch_size", "loader", "criterion", "self", "x", "data_loader"))

    def dotted(self) -> str:
        return ".".join(self.name() for _ in range(self.pick((1, 1, 2, 3))))

    def atom(self) -> str:
        return self.pick((self.dotted(), "1", '"text of it"', "None", '"a, b("', "0.5"))

    def value(self, depth: int) -> str:
        if depth > 2 or self._random.random() < 0.4:
            return self.atom()
        kinds: tuple[Callable[[], str], ...] = (
            lambda: self.call(depth + 1),
            lambda: self.call(depth + 1),
            lambda: f"{self.atom()} + {self.atom()}",
            lambda: f"[{self.value(depth + 1)}, {self.value(depth + 1)}]",
            lambda: f"[{self.call(depth + 1)} for x in {self.name()}]",
            lambda: f"{self.dotted()}[{self.atom()}]",
            lambda: f"lambda x: {self.atom()}",
            lambda: f"{self.call(depth + 1)}.{self.name()}()",
            lambda: f"({self.atom()} + 1)",
            lambda: f"not {self.atom()}",
            lambda: f"{self.atom()} if {self.atom()} else {self.atom()}",
            lambda: "()",
        )
        return self.pick(kinds)()

    def call(self, depth: int = 0) -> str:
        given = [self.value(depth) for _ in range(self.pick((0, 1, 1, 2, 3)))]
        given += ["*" + self.name()] * self.pick((0, 0, 0, 0, 1))
        given += [f"k{place}_{self.name()}={self.value(depth)}" for place in range(self.pick((0, 0, 1, 2)))]
        given += ["**" + self.name()] * self.pick((0, 0, 0, 0, 1))
        return f"{self.dotted()}({', '.join(given)})"

    def statement(self) -> str:
        form = self.pick(
            (
                *("{c}", "{d} = {c}", "{d}[{a}] = {c}", "x, y = {c}", "{d} = {d} = {c}", "x += {c}", "x: int = {c}"),
                *("if {c}:\n    pass", "for x in {c}:\n    pass", "while {c}:\n    pass", "with {c}:\n    pass"),
                *("@{c}\ndef f(): pass", "def f():\n    return {c}", "class A:\n    def g(self):\n        x = {c}"),
                *("x = {c}  # a comment", "if a:\n    pass\nelif {c}:\n    pass", "xs = [{c}, {c}]", "x = {c}.{d}()"),
            )
        )
        return form.format(c=self.call(), d=self.dotted(), a=self.atom())


ENOUGH = 20


@pytest.mark.parametrize("seed", few(range(20)))
def test_what_is_broken_is_as_black_breaks_it(seed: int) -> None:
    programs = _Programs(seed)
    broken = 0
    while broken < ENOUGH:
        length = programs.pick(tuple(MODES))
        mode = MODES[length]
        text = black.format_str(programs.statement(), mode=mode)
        source = Source("f.py", text.encode())
        calls = [each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Call) and each.args]
        calls = [each for each in calls if each.lineno == each.end_lineno]
        if not calls:
            continue
        call = programs.pick(calls)
        assert call.end_col_offset is not None
        end = source.offset(call.lineno, call.end_col_offset) - 1
        new = programs.pick((", pin_memory=True", ", non_blocking=True", ", worker_init_fn=make(seed, worker)"))
        edits = (Edit(end, end, new.encode()),)
        plain = apply_edits(source.utf8, edits).decode()
        result = edited(text, length, (end, new))
        if result != plain:
            broken += 1
            assert result == black.format_str(plain, mode=mode)


# -- in projects -------------------------------------------------------------------------------------------------------

TRAIN = """\
import torch
from torch.utils.data import DataLoader

from data import photos


def train(model, optimizer):
    model.cuda()
    loader = DataLoader(photos, batch_size=8, shuffle=True, drop_last=True)
    for images in loader:
        optimizer.zero_grad()
        model(images.cuda(non_blocking=True)).mean().backward()
        optimizer.step()
"""
DATA = """\
import torch
from torch.utils.data import TensorDataset

photos = TensorDataset(torch.randn(8, 8))
"""
LINE = "    loader = DataLoader(photos, batch_size=8, shuffle=True, drop_last=True)\n"
ON_ONE_LINE = "    loader = DataLoader(photos, batch_size=8, shuffle=True, drop_last=True, pin_memory=True)\n"
BROKEN_LINE = """\
    loader = DataLoader(
        photos, batch_size=8, shuffle=True, drop_last=True, pin_memory=True
    )
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, the root of a repository with a loader whose fix passes 88 columns."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "data.py").write_text(DATA)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_project_is_fixed_for_its_lines(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "pyproject.toml").write_text("[tool.black]\nline-length = 79\n")
    options = ["-j", "1", "--select", "TPL402", "--unsafe-fixes"]
    main([*options, "--output-format", "json", "train.py"])
    (found,) = json.loads(capsys.readouterr().out)
    assert any("\n" in edit["content"] for edit in found["fix"]["edits"])
    main([*options, "--diff", "train.py"])
    diff = capsys.readouterr().out
    assert main([*options, "--fix", "train.py"]) == 0
    fixed = (project / "train.py").read_text()
    assert fixed == TRAIN.replace(LINE, BROKEN_LINE)
    assert "".join(f"+{line}" for line in BROKEN_LINE.splitlines(keepends=True)) in diff
    assert black.format_str(fixed, mode=black.Mode(line_length=79)) == fixed


STATED = {
    "black": ({"pyproject.toml": "[tool.black]\nline-length = 79\n"}, 79),
    "black's own": ({"pyproject.toml": "[tool.black]\n", ".flake8": "[flake8]\nmax-line-length = 120\n"}, 88),
    "ruff": ({"pyproject.toml": "[tool.ruff]\nline-length = 120\n"}, 120),
    "ruff.toml": ({"ruff.toml": "line-length = 100\n"}, 100),
    ".ruff.toml": ({".ruff.toml": "line-length = 101\n"}, 101),
    "setup.cfg": ({"setup.cfg": "[flake8]\nmax-line-length = 90\n"}, 90),
    "tox.ini": ({"tox.ini": "[pycodestyle]\nmax_line_length = 91 \n"}, 91),
    ".flake8": ({".flake8": "[flake8]\nmax-line-length: 92\n"}, 92),
    "pycodestyle": ({"pyproject.toml": "[tool.pycodestyle]\nmax-line-length = 93\n"}, 93),
    "the smallest": ({"pyproject.toml": "[tool.black]\nline-length = 79\n", "ruff.toml": "line-length = 77\n"}, 77),
    "isort": ({"pyproject.toml": "[tool.isort]\nline-length = 60\n"}, 88),
    "nearest": ({"pyproject.toml": "[tool.black]\nline-length = 79\n", "in/ruff.toml": "line-length = 95\n"}, 95),
    "farther": ({"pyproject.toml": "[tool.black]\nline-length = 79\n", "in/setup.cfg": "[metadata]\n"}, 79),
    "no number": (
        {"pyproject.toml": "[tool.ruff]\nline-length = true\n", ".flake8": "[flake8]\nmax-line-length=x\n"},
        88,
    ),
    "malformed": ({"pyproject.toml": "[tool.black\nline-length = 79\n", "setup.cfg": "max-line-length = 90\n"}, 88),
    "not in tables": ({"pyproject.toml": "tool = 1\n# line black\n", "ruff.toml": "lint = 2 # line\n"}, 88),
    "nothing": ({}, 88),
}


@pytest.mark.parametrize("name", STATED)
def test_the_project_states_the_length_of_lines(name: str, project: Path) -> None:
    files, length = STATED[name]
    (project / "in").mkdir()
    for file, text in files.items():
        (project / file).write_text(text)
    assert LineLengths().of("in/train.py") == length


def test_no_folder_above_the_root_is_asked(project: Path) -> None:
    (project / "ruff.toml").write_text("line-length = 60\n")
    (project / "in" / ".git").mkdir(parents=True)
    assert LineLengths().of("in/train.py") == 88


def test_nothing_is_read_where_configuration_does_not_count(project: Path) -> None:
    (project / "ruff.toml").write_text("line-length = 200\n")
    main(["-j", "1", "--isolated", "--select", "TPL402", "--unsafe-fixes", "--fix", "train.py"])
    assert (project / "train.py").read_text() == TRAIN.replace(LINE, BROKEN_LINE)
    (project / "train.py").write_text(TRAIN)
    main(["-j", "1", "--select", "TPL402", "--unsafe-fixes", "--fix", "train.py"])
    assert (project / "train.py").read_text() == TRAIN.replace(LINE, ON_ONE_LINE)


def test_a_line_that_was_too_long_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "y = f'" + "{x.item()}" * 100 + "'\n"
    edits = (Edit(7, 7, b"not_"),)
    monkeypatch.setattr(layout, "_Changed", None)
    assert laid_out(Source("f.py", text.encode()), edits, 88) == edits
