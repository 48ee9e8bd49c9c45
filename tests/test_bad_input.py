"""Input that cannot be linted: one clear line each, everything else is still done, and never a traceback."""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from fake_rules import HINTS, TARGET, finds, swaps
from torchperf_lint.engine import jobs, registry, runner
from torchperf_lint.engine.files import DEFAULT_EXCLUDE, discover
from torchperf_lint.engine.fixer import fix_source
from torchperf_lint.engine.jobs import Action, Result
from torchperf_lint.engine.project import check_paths
from torchperf_lint.engine.runner import check_source

if TYPE_CHECKING:
    from pathlib import Path

ITEM = finds("item", fix=swaps("0"))
GOOD = "y = x.item()\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one good file, `good.py`, and this process's jobs knowing the fake rule."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "all_rules", lambda: (ITEM,))
    jobs._rules.cache_clear()
    (tmp_path / "good.py").write_text(GOOD)
    yield tmp_path
    jobs._rules.cache_clear()


def run(*paths: str, action: Action = Action.CHECK) -> list[Result]:
    return list(check_paths(paths or ["."], lambda path: [ITEM], TARGET, HINTS, action=action))


def failures(results: list[Result]) -> list[str]:
    """The lines for the user; the good file's finding must be among the results."""
    assert [each.path for each in results if each.report.diagnostics] == ["good.py"]
    lines = [str(each.report.failure) for each in results if each.report.failure]
    assert not any("\n" in line for line in lines)
    return lines


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"y = x.item(\n", "bad.py:1:11: error: syntax error: '(' was never closed"),
        (b"if x.item():\ny\n", "bad.py:2:1: error: syntax error: expected an indented block after 'if' statement"),
        (b"x.item()\n\ty\n", "bad.py:2"),
        (b"print x.item()\n", "bad.py:1"),
        (b"x.item()\0\n", "bad.py:1:9: error: syntax error"),
        (b"'\xff'\nx.item()\n", "bad.py:1: error: cannot be decoded as utf-8"),
        (b"x.item()\n'\xff'\n", "bad.py:2: error: cannot be decoded as utf-8"),
        (b"# coding: nonsense\nx.item()\n", "bad.py: error: unknown encoding: nonsense"),
        (b"# coding: utf-16\nx.item()\n", "bad.py"),
        (b"# coding: rot13\nx.item()\n", "bad.py"),
        (b"# coding: undefined\nx.item()\n", "bad.py: error: cannot be decoded as undefined"),
        (b"# coding: punycode\nx.item()\n", "bad.py"),
        (b"# coding: idna\nx.item()..\xff\n", "bad.py"),
        (b"# coding: hex\nx.item()\n", "bad.py: error: cannot be decoded as hex"),
        (b"# coding: raw_unicode_escape\nx.item(), '\\ud800'\n", "bad.py: error: cannot be decoded as raw_unicode"),
        (b"# coding: mbcs\nx.item()\n", "bad.py: error: "),
        (b"\xef\xbb\xbf# coding: latin-1\nx.item()\n", "bad.py: error: encoding problem: utf-8"),
        ("x.item()\n".encode("utf-16"), "bad.py"),
        (b"def f(:\n", "bad.py:1:7: error: syntax error"),
        (b"\x7fELF item \x00\xff", "bad.py"),
        (b"x = 0777 # item\n", "bad.py:1"),
        (b"x.item()\n" + b"9" * 5000 + b"\n", "bad.py"),
    ],
)
def test_bytes_that_are_no_python(here: Path, data: bytes, line: str) -> None:
    (here / "bad.py").write_bytes(data)
    lines = failures(run())
    assert len(lines) == 1
    assert all(each.startswith(line) and ": error: " in each for each in lines)
    failures([each for each in run(action=Action.TRY) if each.path != "good.py"] + run("good.py"))
    assert fix_source("bad.py", data, [ITEM], TARGET, HINTS, True).data == data


@pytest.mark.parametrize("encoding", ["idna", "utf-7", "unicode_escape", "raw_unicode_escape", "cp1252", "koi8-r"])
def test_source_in_any_encoding_that_python_reads(encoding: str) -> None:
    data = f"# coding: {encoding}\n# a{'b' * 70}..\ny = x.item()\n".encode()
    report = check_source("odd.py", data, [ITEM], TARGET, HINTS)
    assert report.failure is None
    assert [(each.row, each.column) for each in report.diagnostics] == [(3, 5)]
    fixed = fix_source("odd.py", data, [ITEM], TARGET, HINTS, True)
    assert fixed.data == (data if fixed.withdrawn else data.replace(b"x.item()", b"0"))


NEWER = [
    ((3, 11), "try:\n    pass\nexcept* item:\n    pass\n", "`except*`"),
    ((3, 11), "a = item[*b]\n", "`*` in a subscript or an annotation"),
    ((3, 12), "type item = int\n", "`type` statement"),
    ((3, 12), "def f[T](item: T): pass\n", "type parameters"),
    ((3, 12), "class A[*T]:\n    item = 1\n", "type parameters"),
    ((3, 12), "x = f'{a['item']}'\n", "an f-string's braces"),
    ((3, 12), "x = f'{chr(10)} {'\\n'.join(item)}'\n", "an f-string's braces"),
    ((3, 13), "type X[T = item] = T\n", "default of a type parameter"),
    ((3, 14), "try:\n    pass\nexcept A, item:\n    pass\n", "`except` of several types without parentheses"),
    ((3, 14), "x = t'{item}'\n", "t-string"),
    ((3, 15), "lazy import item\n", "lazy import"),
    ((3, 11), "try: pass\nexcept* (\n    A,\n    item,\n): pass\n", "`except*`"),
    ((3, 11), "a = (\n    item[\n        *b\n    ]\n)\n", "`*` in a subscript or an annotation"),
    ((3, 11), "def f(\n    *item: *Ts,\n) -> None:  # both\n    pass\n", "`*` in a subscript or an annotation"),
    ((3, 12), "class item[\n  T\n]: pass\n", "type parameters"),
    ((3, 12), "if a:\n    class A[T: (\n        item, str)](\n        B[T]):\n        x = 1\n", "type parameters"),
    ((3, 12), "async def f[\n    T](item: T) -> T:  # of any type\n    pass\n", "type parameters"),
    ((3, 12), "type item = \\\n    int\n", "`type` statement"),
    ((3, 12), "type \\\n    item = int\n", "`type` statement"),
    ((3, 12), "if b: pass\nelif f'{a['item']}' == b:\n    pass\n", "an f-string's braces"),
    ((3, 12), "if b: pass\nelse: x = f'{a['item']}'\n", "an f-string's braces"),
    ((3, 12), "try: pass\nfinally: f'{a[\n  'item']}'\n", "an f-string's braces"),
    ((3, 12), "match f'{a['item']}':\n    case 1:\n        pass\n", "an f-string's braces"),
    ((3, 12), "match b:\n    case 1 if f'{a['item']}':\n        pass\n", "an f-string's braces"),
    ((3, 12), "case = f'{a['item']}'\n", "an f-string's braces"),
    ((3, 12), 'x = f"{\n  a["item"]\n}"\n', "an f-string's braces"),
    ((3, 12), 'f(a,\n  f"{",".join(\n  item)}", lambda: 0)\n', "an f-string's braces"),
    ((3, 12), 'x = (\n  f"{a}}}"\n  f"{a["item"]:>{len("}")}} it\'s"\n)\n', "an f-string's braces"),
    ((3, 12), "x = rf'''\nit's {{\n{a['(']}\\{\n b['''item''']  # one\n}'''\n", "an f-string's braces"),
    ((3, 13), "if a:\n    type X[\n        T = item\n    ] = T\n", "default of a type parameter"),
    ((3, 14), "x = [\n    1, t'{\n    item}', 2\n]\n", "t-string"),
    ((3, 14), "try: pass\nexcept A, \\\n    item: pass\n", "`except` of several types without parentheses"),
]


@pytest.mark.parametrize(("version", "text", "construct"), NEWER)
def test_grammar_that_is_newer_than_this_python(here: Path, version: Any, text: str, construct: str) -> None:
    (here / "bad.py").write_text("é = ''\n" + text + GOOD, encoding="utf-8")
    if sys.version_info >= version:
        assert not [each for each in run() if each.report.failure]
        return
    (line,) = failures(run())
    this, needed = ".".join(map(str, sys.version_info[:2])), ".".join(map(str, version))
    assert 2 <= int(line.split(":")[1]) <= 1 + text.count("\n")  # where this Python stops
    assert f"error: needs Python {needed} or newer (this is {this}): " in line
    assert line.endswith(construct)


@pytest.mark.parametrize(
    "text",
    [
        "x = '\\x', item\n",
        "x = b'é', item\n",
        "x = item if\n",
        "match = item[*\n",
        "x = f'{a!r:>{b}}' f\"{a['item']}\" + '\\N{no such name}'\n",
        "try:\n    pass\nexcept (A, item):\n    pass\nx = 0777\n",
        "x = f'''{a\n}''', item)\n",
        "x = [\n    item,\n    f'{a}' b,\n]\n",
        'x = """\ntype X[T] = int\n""" item\n',
        "type X[T] = int\n'''item\n",
        "def f(a,\n      item)\n    pass\n",
        "type item = (int\n",
    ],
)
def test_a_mistake_is_no_newer_grammar(here: Path, text: str) -> None:
    (here / "bad.py").write_text(text, encoding="utf-8")
    (line,) = failures(run())
    assert "needs Python" not in line
    assert "syntax error" in line


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "y = " + "(" * 2000 + "x.item()" + ")" * 2000,
        "y = " + "[" * 2000 + "x.item()" + "]" * 2000,
        "y = x.item" + "()" * 1000,
        "y = x" + ".item()" * 50_000,
        "y = x" + ".item()" * 600,
        "y = " + "-" * 100_000 + "x.item()",
        "y = " + "not " * 900 + "x.item()",
        "y = x.item()" + " + 1" * 1000,
        "y = x.item()" + " + x.item()" * 300,
        "y = x.item()" + " if a else b" * 900,
        "\n".join(" " * depth + "if x.item():" for depth in range(99)) + "\n" + " " * 99 + "pass",
        "\n".join(" " * depth + "if x:" for depth in range(2000)) + "\n" + " " * 2000 + "x.item()",
        "if a:\n  x.item()\n" + "elif b:\n  pass\n" * 900,
        "y = " + "lambda: " * 900 + "x.item()",
        "y = f'" + "{x.item()}" * 3000 + "'",
    ],
)
def test_deep_nesting_costs_the_file_at_most(here: Path, text: str) -> None:
    (here / "bad.py").write_text(text + "\n")
    results = run()
    assert [each.path for each in results] == ["bad.py", "good.py"]
    lines = [str(each.report.failure) for each in results if each.report.failure]
    assert all("internal error" not in line and "\n" not in line for line in lines)
    assert results[1].report.diagnostics


def test_two_thousand_brackets_say_so(here: Path) -> None:
    (here / "bad.py").write_text("y = " + "[" * 2000 + "x.item()" + "]" * 2000)
    (line,) = failures(run())
    assert "too many nested parentheses" in line or "too deeply nested" in line


@pytest.mark.slow
def test_ten_megabytes_are_linted() -> None:
    data = b"".join(b"v%d = '%s'\n" % (n, b"text " * 100) for n in range(20_000)) + GOOD.encode()
    assert len(data) > 10_000_000
    report = check_source("big.py", data, [ITEM], TARGET, HINTS)
    assert report.failure is None
    assert [each.row for each in report.diagnostics] == [20_001]


@pytest.mark.slow
def test_more_than_twenty_megabytes_are_refused_unless_nothing_can_be_found() -> None:
    data = b"x = 1\n" * 3_400_000
    assert len(data) > runner.LARGEST
    assert check_source("big.py", data, [ITEM], TARGET, HINTS) == runner.FileReport()
    report = check_source("big.py", data + GOOD.encode(), [ITEM], TARGET, HINTS)
    assert str(report.failure) == "big.py: error: larger than 20 MB, not checked"


def test_a_folder_that_cannot_be_read(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "closed").mkdir()
    scandir = os.scandir

    def closed(path: str) -> Any:  # not chmod: nothing is closed to root
        if path == "closed":
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", closed)
    assert failures(run()) == ["closed: error: cannot be read: Permission denied"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is closed to root")
def test_a_folder_and_a_file_that_are_closed_by_their_mode(here: Path) -> None:
    (here / "closed").mkdir(mode=0)
    (here / "bad.py").touch(mode=0)
    assert failures(run()) == [f"{name}: error: cannot be read: Permission denied" for name in ("bad.py", "closed")]


def test_a_file_that_cannot_be_read(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "bad.py").write_text(GOOD)

    def refused(path: str, mode: str) -> Any:
        if path == "bad.py":
            raise PermissionError(13, "Permission denied", path)
        return open(path, mode)

    monkeypatch.setattr(jobs, "open", refused, raising=False)
    assert failures(run()) == ["bad.py: error: cannot be read: Permission denied"]


def test_a_file_that_vanishes_between_finding_and_reading(here: Path) -> None:
    (here / "bad.py").write_text(GOOD)

    def vanishing(path: str) -> list[Any]:
        (here / "bad.py").unlink(missing_ok=True)
        return [ITEM]

    results = list(check_paths(["."], vanishing, TARGET, HINTS))
    assert failures(results) == ["bad.py: error: cannot be read: No such file or directory"]


def test_a_path_that_does_not_exist(here: Path) -> None:
    lines = failures(run(".", "nowhere", "no\0name"))
    assert lines[0].startswith("no\0name: error: cannot be read: ")
    assert lines[1:] == ["nowhere: error: cannot be read: No such file or directory"]


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("data.json", b'{"x": [1]}', "`.json` is no suffix of Python; on standard input anything is linted"),
        ("README.md", b"x.item()\n", "`.md` is no suffix of Python; on standard input anything is linted"),
        ("old.py.orig", b"x.item()\n", "`.orig` is no suffix of Python; on standard input anything is linted"),
        ("weights.bin", b"\x00\xff\n", "`.bin` is no suffix of Python; on standard input anything is linted"),
        ("start", b"#!/bin/sh\nexit\n", "its first line names another program than Python"),
    ],
)
@pytest.mark.parametrize("action", Action)
def test_a_file_that_is_named_and_is_no_python(here: Path, name: str, data: bytes, reason: str, action: Action) -> None:
    (here / name).write_bytes(data)
    (result,) = run(name, action=action)
    assert str(result.report.failure) == f"{name}: error: not checked: {reason}"
    assert (here / name).read_bytes() == data
    assert [each.path for each in run(".")] == ["good.py"], "in a folder it is passed over"


@pytest.mark.parametrize(
    "name", ["train", "x.py", "x.PY", "x.pyi", "x.pyw", "x.wsgi", ".startup", "train-1.2", "no.d/x"]
)
def test_a_file_that_is_named_and_may_be_python(here: Path, name: str) -> None:
    (here / name).parent.mkdir(exist_ok=True)
    (here / name).write_text(GOOD)
    (result,) = run(name)
    assert result.report.diagnostics
    (here / name).write_bytes(b"\x00\xff")
    (result,) = run(name)
    assert result.report.failure is not None


def test_a_first_line_tells_what_a_suffix_does_not(here: Path) -> None:
    (here / "train.cgi").write_text("#!/usr/bin/env -S python3 -u\n" + GOOD)
    (result,) = run("train.cgi")
    assert result.report.diagnostics


def test_symlink_loops_end_and_no_file_comes_twice(here: Path) -> None:
    (here / "a").mkdir()
    (here / "a" / "up").symlink_to("..")
    (here / "a" / "self").symlink_to(".")
    (here / "b.py").symlink_to("good.py")
    (here / "folder.py").mkdir()
    (here / "to_folder.py").symlink_to("folder.py")
    assert [each.path for each in run()] == ["good.py"]
    assert [each.path for each in run("a/up")] == ["a/up/good.py"]
    (here / "loop.py").symlink_to("loop.py")
    (here / ".#loop.py").symlink_to(".#loop.py")
    assert failures(run()) == [f"loop.py: error: cannot be read: {os.strerror(errno.ELOOP)}"]


def test_a_link_to_nothing_is_an_error_unless_it_is_left_out(here: Path) -> None:
    for name in ("dead.py", "dead.ipynb", "dead.txt", ".#good.py", "build/dead.py", "ignored.py", "ours.py", "dead"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).symlink_to("nowhere.py")
    (here / ".git").mkdir()
    (here / ".gitignore").write_text("ignored.py\n")
    found = discover([str(here)], [*DEFAULT_EXCLUDE, "ours.py"], str(here))
    gone = f"error: cannot be read: {os.strerror(errno.ENOENT)}"
    assert [str(each) for each in found.failures] == [f"{here / 'dead.ipynb'}: {gone}", f"{here / 'dead.py'}: {gone}"]
    assert found.files == (str(here / "good.py"),)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_named_pipe_does_not_hang_the_run(here: Path) -> None:
    os.mkfifo(here / "pipe.py")
    assert failures(run(".", "pipe.py")) == ["pipe.py: error: cannot be read: not a regular file"]


def test_read_only_files_are_reported_and_the_others_are_fixed(here: Path) -> None:
    (here / "bad.py").write_text(GOOD)
    (here / "bad.py").chmod(0o444)
    bad, good = run(action=Action.FIX)
    assert str(bad.report.failure) == "bad.py: error: cannot be written: the file is read-only"
    assert (here / "bad.py").read_text() == GOOD
    assert good.report.failure is None
    assert (here / "good.py").read_text() == "y = 0\n"
