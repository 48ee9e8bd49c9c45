"""No text makes a scan hang: every regular expression of the package, on matches with a part of them said many times.

What is repeated is what such an expression may read in several ways; where it may, each repetition doubles the time,
and thirty of them never end. No speed is measured: an expression has seconds for what takes a good one microseconds.
Scans of whole files have them for what takes seconds where the time grows with the square. All are seconds of the
processor's time for this process, so that others on the machine change nothing.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import pkgutil
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import torchperf_lint
from linting import few
from torchperf_lint.engine import registry
from torchperf_lint.engine.runner import check_source
from torchperf_lint.knowledge.hints import Hints
from torchperf_lint.knowledge.versions import BadVersion, Target, parse_version
from torchperf_lint.model.project.file_symbols import symbols_of
from torchperf_lint.syntax.source import Source, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 5
TIMES = 40
ASKS = frozenset({"compile", "match", "fullmatch", "search", "sub", "split", "findall", "finditer"})
OPENINGS = ["def f(", "(", "'", '"', "from a import (", "import ", "@f(", "f(x, ", "x = [", "class A(", "if x:\n  "]
PIECES = [" ", "\\\n", "\n", "\r", "#a", "'#", '"a', "a=", "a, ", "(", ")", ");", "a.", "\t", "*", "lambda: ", "é"]


class Hangs(Exception):
    """A scan has not come to its end."""


@contextlib.contextmanager
def patience() -> Iterator[None]:
    """Raise Hangs in what takes longer than any scan of a short text may."""

    def give_up(*_: object) -> None:
        raise Hangs

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def expressions() -> dict[str, re.Pattern[Any]]:
    """The package's regular expressions by where they stand: those that a module holds, and those written in a call."""
    found: dict[str, re.Pattern[Any]] = {}
    for module in pkgutil.walk_packages(torchperf_lint.__path__, "torchperf_lint."):
        if ".verify" in module.name or module.name.endswith("__main__"):
            continue
        held = importlib.import_module(module.name)
        own = module.name.removeprefix("torchperf_lint.")
        found.update((f"{own}.{name}", each) for name, each in vars(held).items() if isinstance(each, re.Pattern))
        for node in ast.walk(ast.parse(Path(str(held.__file__)).read_bytes())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ASKS:
                pattern = node.args[0] if node.args else None
                if ast.unparse(node.func.value) == "re" and isinstance(pattern, ast.Constant):
                    flags = re.MULTILINE if "MULTILINE" in ast.unparse(node) else 0
                    found.setdefault(f"{own}:{node.lineno}", re.compile(pattern.value, flags))
    return {name: each for name, each in found.items() if re.search(r"[*+{]", str(each.pattern))}


def hangs(pattern: re.Pattern[Any], text: Any) -> bool:
    """Whether the expression does not come to its end on a text."""
    try:
        with patience():
            pattern.search(text)
            pattern.fullmatch(text)
    except Hangs:
        return True
    return False


@st.composite
def swollen(draw: st.DrawFn, pattern: re.Pattern[Any]) -> Any:
    """A match with some of it repeated, that ends as no match does."""
    any_text = st.lists(st.sampled_from([*OPENINGS, *PIECES]), min_size=1, max_size=6).map("".join)
    texts = any_text if isinstance(pattern.pattern, str) else any_text.map(str.encode)
    looks_around = re.search(r"\(\?<?[=!]", str(pattern.pattern)) is not None
    text = draw(texts if looks_around else st.from_regex(pattern, fullmatch=True))
    end = draw(st.integers(0, len(text)))
    start = draw(st.integers(max(0, end - 6), end))
    strange = "\0!" if isinstance(text, str) else b"\0!"
    return text[:start] + text[start:end] * TIMES + draw(st.sampled_from([strange, strange[:0], text[end:]]))


EXPRESSIONS = expressions()


def test_the_expressions_are_found() -> None:
    assert "model.project.file_symbols._FROM" in EXPRESSIONS
    assert any(name.startswith("knowledge.versions:") for name in EXPRESSIONS)


@pytest.mark.parametrize("name", few(EXPRESSIONS, 24))
@settings(max_examples=60, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(st.data())
def test_no_expression_hangs(name: str, data: st.DataObject) -> None:
    assert not hangs(EXPRESSIONS[name], data.draw(swollen(EXPRESSIONS[name])))


def test_an_ambiguous_expression_would_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "PATIENCE", 1)
    assert hangs(re.compile(r"\((?:[^()\"]|#[^\n]*)*\)"), "(" + "#a" * TIMES + "\0!")


@pytest.mark.parametrize("text", ["2" + "+" * TIMES + "\n\0!", "2" + "a" * TIMES + "!", "2" + ".1" * TIMES + "\n!"])
def test_no_version_hangs(text: str) -> None:
    with patience(), pytest.raises(BadVersion):
        parse_version(text)


@pytest.mark.slow
@pytest.mark.parametrize("comment", ["# noqa: {}", "# torchperf-lint: ignore-file[{}]", "# é # noqa: {}"])
def test_no_comment_hangs(comment: str) -> None:
    text = f"x.item()\n{comment.format(', '.join(['TPL102', 'TPL999'] * 25_000))}\n"
    with patience():
        report = check_source("f.py", text.encode(), registry.all_rules(), Target(), Hints((), ()))
    (found,) = report.diagnostics
    assert found.message.count("TPL999") == 25_000


@pytest.mark.slow
@pytest.mark.parametrize("opening", OPENINGS)
@pytest.mark.parametrize("piece", PIECES)
def test_no_scan_of_a_file_hangs(opening: str, piece: str) -> None:
    for text in (opening + piece * 12_000, (opening + piece) * 4_000, (opening + piece * 3 + "\n") * 4_000):
        with patience():
            symbols_of(text.encode())


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "ximport " * 30_000,
        "import a;" * 30_000,
        "from a" + " " * 30_000 + "b import",
        "from a import (#;" * 15_000,
        "def f(\\'" * 10_000,
        "def f(\n" * 15_000 + "backward()",
    ],
)
def test_no_scan_for_imports_and_heads_hangs(text: str) -> None:
    with patience():
        symbols_of(text.encode())


@pytest.mark.parametrize("opening", ["", "f'''{", "match x:\n case (", "type A = (\n", "elif [", "except ("])
@pytest.mark.parametrize("piece", [*PIECES, "[", "f'{", '"""{\n', "case (", "-", "lambda: ", "[[[[[[[[[a]]]]]]]]],"])
def test_no_text_that_cannot_be_parsed_hangs(opening: str, piece: str) -> None:
    for text in (opening + piece * 12_000 + "\n$", (opening + piece * 30 + "\n") * 50 + "$"):
        with patience(), pytest.raises(Unreadable):
            Source("f.py", text.encode()).parse()
