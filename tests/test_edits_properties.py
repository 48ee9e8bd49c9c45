"""Edits touch no byte outside their spans: fixing a file in another dress gives the fixed file in that dress."""

from __future__ import annotations

import ast
import builtins
import io
import itertools
import tokenize
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from linting import few, fixture_paths, label, load_fixture
from torchperf_lint.engine.edit_merge import apply_edits
from torchperf_lint.engine.trial import written
from torchperf_lint.syntax import edits
from torchperf_lint.syntax.site import statement_tree
from torchperf_lint.syntax.source import Source, Unreadable

if TYPE_CHECKING:
    from torchperf_lint.engine.findings import Edit
    from torchperf_lint.syntax.site import StatementTree

BOM = b"\xef\xbb\xbf"
FIXABLE = [
    path
    for path in fixture_paths()
    if any(path.with_name(path.stem + end).exists() for end in (".fixed.py", ".unsafe.py"))
]


class Dress:
    """A way to write the same program in other bytes."""

    def __init__(self, *, crlf: bool, tabs: bool, final_newline: bool, head: str) -> None:
        self.crlf = crlf
        self.tabs = tabs
        self.final_newline = final_newline
        self.head = head

    def __repr__(self) -> str:
        return f"Dress(crlf={self.crlf}, tabs={self.tabs}, final_newline={self.final_newline}, head={self.head!r})"

    def put_on(self, text: str) -> bytes:
        """The program in this dress; raise UnicodeEncodeError where its characters do not fit the encoding."""
        if self.tabs:
            text = _tabbed(text)
        if self.head == "latin-1":
            text = "# -*- coding: latin-1 -*-\n# caf\N{LATIN SMALL LETTER E WITH ACUTE}\n" + text
        elif self.head == "form feed":
            text = "# trailing blanks   \n\f\n" + text
        if not self.final_newline:
            text = text.rstrip("\n")
        if self.crlf:
            text = text.replace("\n", "\r\n")
        data = text.encode("latin-1" if self.head == "latin-1" else "utf-8")
        return BOM + data if self.head == "bom" else data


dresses = st.builds(
    Dress,
    crlf=st.booleans(),
    tabs=st.booleans(),
    final_newline=st.booleans(),
    head=st.sampled_from(["", "bom", "latin-1", "form feed"]),
)


def test_some_fixture_has_a_fix() -> None:
    assert FIXABLE, "no fixture has a fix, so nothing was tested"


@pytest.mark.slow
@pytest.mark.skipif(not FIXABLE, reason="test_some_fixture_has_a_fix fails and says so")
@given(data=st.data(), dress=dresses, unsafe=st.booleans())
def test_dress_does_not_matter(data: st.DataObject, dress: Dress, unsafe: bool) -> None:
    path = data.draw(st.sampled_from(FIXABLE).map(label), label="fixture")
    fixture = load_fixture(next(each for each in FIXABLE if label(each) == path))
    plain = fixture.fix(unsafe=unsafe)
    try:
        dressed, wanted = dress.put_on(fixture.data.decode()), dress.put_on(plain.decode())
    except UnicodeEncodeError:
        assume(False)
    fixed = fixture.fix(unsafe=unsafe, data=dressed)
    assert fixed == wanted


@pytest.mark.parametrize("path", few(FIXABLE, 24), ids=label)
def test_old_bytes_around_the_edits_are_kept(path: object) -> None:
    """What a fix leaves is, apart from the spans of its edits, the file as it was."""
    fixture = load_fixture(path)  # type: ignore[arg-type]
    for found in fixture.check():
        if found.fix is None:
            continue
        made = sorted(found.fix.edits)
        assert all(0 <= edit.start <= edit.end <= len(fixture.data) for edit in made)
        assert all(one.end <= other.start for one, other in itertools.pairwise(made)), "edits overlap"
        assert all(fixture.data[edit.start : edit.end] != edit.content for edit in made), "an edit changes nothing"


@pytest.mark.parametrize("path", few(fixture_paths(), 24), ids=label)
def test_what_a_fix_writes_has_a_meaning(path: object) -> None:
    """No fix, of any grade, uses a name that nothing binds."""
    fixture = load_fixture(path)  # type: ignore[arg-type]
    source = Source("f.py", fixture.data)
    for found in fixture.check():
        if found.fix is not None:
            assert unbound(written(source, found.fix.edits)) <= unbound(fixture.data), found.fix


def unbound(data: bytes) -> set[str]:
    """The names that a program reads and binds nowhere."""
    nodes = list(ast.walk(ast.parse(data)))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)} | set(dir(builtins))
    bound |= {
        alias.asname or alias.name.partition(".")[0]
        for node in nodes
        for alias in getattr(node, "names", ())
        if isinstance(alias, ast.alias)
    }
    bound |= {
        node.name
        for node in nodes
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)) and node.name
    }
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    return {node.id for node in names} - bound


# -- builders, on calls and lists laid out in any way ---------------------------------------------------------------

GAPS = ["", "", "", " ", "\n", "\n        ", "  # why, (not)\n    ", " \\\n  ", "\n\n            "]
VALUES = ["x", "'a,b'", "[p,\n q]", "lambda: 0", "x if y else z", "m[1, 2]", "g(x,)", "(y for y in z)", "1, 2"]


@st.composite
def values(draw: st.DrawFn) -> str:
    """An expression, in up to two pairs of parentheses of its own."""
    value, gaps = draw(st.sampled_from(VALUES)), st.sampled_from(GAPS)
    for _ in range(draw(st.integers(1 if "," in value[1:-1] and value[0] == "1" else 0, 2))):
        value = f"({draw(gaps)}{value}{draw(gaps)})"
    return value


@st.composite
def sequences(draw: st.DrawFn, forms: list[str], opening: str, closing: str) -> str:
    """Values between brackets; a form with a value's place for each."""
    gaps = st.sampled_from(GAPS)
    parts = [form.format(draw(values())) for form in draw(st.lists(st.sampled_from(forms), max_size=4))]
    text = ",".join(f"{draw(gaps)}{part}{draw(gaps)}" for part in parts)
    if parts and draw(st.booleans()):
        text += f",{draw(gaps)}"
    return f"{opening}{text or draw(gaps)}{closing}"


CALLS = st.one_of(sequences(["{}", "*{}", "key={}", "other = {}", "**{}"], "f(", ")"), st.just("f(\n  y for y in z\n)"))
LISTS = sequences(["{}"], "[", "]")


@st.composite
def programs(draw: st.DrawFn, whole: st.SearchStrategy[str]) -> Source:
    """A program that has the expression somewhere, at some depth, with some line end."""
    depth = draw(st.integers(0, 2))
    before, after = draw(
        st.sampled_from([("r = ", ""), ("", ""), ("h(\n", "\n)"), ("r = (", "\n  )"), ("a = 1; r = ", "")])
    )
    head = "".join("    " * level + "if a:\n" for level in range(depth))
    text = f"{head}{'    ' * depth}{before}{draw(whole)}{after}\nend = 1\n"
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    source = Source("f.py", text.encode())
    try:
        source.parse()
    except Unreadable:
        assume(False)
    return source


def found(source: Source, kind: type[ast.expr]) -> tuple[ast.Module, Any, StatementTree, Any]:
    """The first `f(...)` or list of a program, for Python and for libcst."""
    module = source.parse()
    place = next(
        n for n in ast.walk(module) if isinstance(n, kind) and "f" in getattr(getattr(n, "func", n), "id", "f")
    )
    inner = [s for s in ast.walk(module) if isinstance(s, ast.stmt) and place in ast.walk(s)]
    tree = statement_tree(source, inner[::-1], Counter())
    assert tree is not None
    start = source.offset(place.lineno, place.col_offset)
    node = tree.find(kind.__name__, start, source.offset(place.end_lineno, place.end_col_offset))
    assert node is not None
    return module, place, tree, node


def comments(data: bytes) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(data.decode()).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


def is_now(source: Source, changed: tuple[Edit, ...], wanted: ast.Module) -> None:
    """What edits make of a program means what is wanted, and no comment is lost."""
    result = apply_edits(source.utf8, changed)
    assert ast.dump(ast.parse(result)) == ast.dump(wanted), result.decode()
    assert comments(result) == comments(source.utf8)


@given(programs(CALLS))
def test_an_argument_is_added_to_any_call(source: Source) -> None:
    module, call, tree, node = found(source, ast.Call)
    added = edits.add_argument(tree, node, "device=d")
    if added is None:
        return
    call.keywords.append(ast.keyword("device", ast.Name("d", ast.Load())))
    is_now(source, added, module)


@pytest.mark.slow
@given(programs(CALLS), st.data())
def test_any_argument_is_dropped(source: Source, data: st.DataObject) -> None:
    module, call, tree, node = found(source, ast.Call)
    assume(node.args)
    place = data.draw(st.integers(0, len(node.args) - 1))
    dropped = edits.drop_argument(tree, node, node.args[place])
    if dropped is None:
        return
    in_order = sorted([*call.args, *call.keywords], key=lambda each: (each.lineno, each.col_offset))
    (call.args if in_order[place] in call.args else call.keywords).remove(in_order[place])
    is_now(source, (dropped,), module)


@given(programs(LISTS), st.data())
def test_any_element_but_the_first_is_dropped(source: Source, data: st.DataObject) -> None:
    module, whole, tree, node = found(source, ast.List)
    assume(len(node.elements) > 1)
    place = data.draw(st.integers(1, len(node.elements) - 1))
    dropped = edits.drop_element(tree, [each.value for each in node.elements], place)
    if dropped is None:
        return
    del whole.elts[place]
    is_now(source, (dropped,), module)


def test_builders_know_most_layouts() -> None:
    """What they refuse is rare: a comment in the way, a generator without parentheses."""
    for text in (
        "f((\n  x\n  ))",
        "f(\n  x,  # why\n  y,\n)",
        "f(x, (\n  y\n), )",
        "f(*a, **(\n  b))",
        "f(x \\\n , y)",
    ):
        _, _, tree, node = found(Source("f.py", f"if a:\n    r = {text}\n".encode()), ast.Call)
        assert edits.add_argument(tree, node, "device=d") is not None, text
        assert edits.drop_argument(tree, node, node.args[-1]) is not None, text


# -- the dress itself ---------------------------------------------------------------------------------------------


def test_tabbed() -> None:
    assert _tabbed('def f():\n    x = """\n    a"""\n    g(\n        x,\n    )\n') == (
        'def f():\n\tx = """\n    a"""\n\tg(\n\t\tx,\n\t)\n'
    )


def _tabbed(text: str) -> str:
    """The text with each four leading blanks as a tab, lines inside strings left alone."""
    inside = {
        row
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.start[0] != token.end[0] and token.type not in (tokenize.NEWLINE, tokenize.NL)
        for row in range(token.start[0] + 1, token.end[0] + 1)
    }
    lines = []
    for row, line in enumerate(text.split("\n"), 1):
        blanks = len(line) - len(line.lstrip(" "))
        if row not in inside and line.strip():
            line = "\t" * (blanks // 4) + " " * (blanks % 4) + line[blanks:]
        lines.append(line)
    return "\n".join(lines)
