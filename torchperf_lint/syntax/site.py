"""Statement-local libcst: the tree of one statement, parsed from its lines alone, with a span for every node.

A whole file takes libcst tens of milliseconds, one statement about one. The statement's lines are parsed under
a wrapper that keeps their indentation. Rendering the tree gives each node's span; the tree is lossless, and may be
edited, only if the rendering equals the source.
"""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_lint.syntax.tree import children, subtree

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator

    import libcst as cst

    from torchperf_lint.syntax.source import Source

MAX_STATEMENT_BYTES = 100_000
"""A larger statement (a data table) is not parsed by libcst, whose time can grow quadratically."""

MAX_DEPTH = 150
"""libcst's time grows with the square of a chain's depth, and it uses the stack of the process."""

# libcst classes for each ast class: several nodes often share a span (Expr and Call, Arg and value).
_CST_NAMES: dict[str, tuple[str, ...]] = {
    "BinOp": ("BinaryOperation",),
    "BoolOp": ("BooleanOperation",),
    "Compare": ("Comparison",),
    "UnaryOp": ("UnaryOperation",),
    "Constant": ("Integer", "Float", "Imaginary", "SimpleString", "ConcatenatedString", "Name", "Ellipsis"),
    "JoinedStr": ("FormattedString", "ConcatenatedString"),
    "FormattedValue": ("FormattedStringExpression",),
    "GeneratorExp": ("GeneratorExp",),
    "keyword": ("Arg",),
    "AsyncFor": ("For",),
    "AsyncWith": ("With",),
    "AsyncFunctionDef": ("FunctionDef",),
}


KEPT_STATEMENTS = 512
"""How many statements' trees are kept, beyond the file that they were made for."""

MOST_KEPT_CHARACTERS = 2_000
"""A longer statement's tree is not kept: it takes much room, and files have few."""


class CannotStandAlone(Exception):
    """libcst cannot parse this piece of a file by itself."""


class Site:
    """A libcst node confirmed by its span in the file."""

    __slots__ = ("end", "node", "start", "tree")

    def __init__(self, node: Any, start: int, end: int, tree: StatementTree) -> None:
        """`start` and `end` are byte offsets in `Source.utf8`."""
        self.node = node
        self.start = start
        self.end = end
        self.tree = tree

    @property
    def rows(self) -> tuple[int, int]:
        """First and last 1-based row of the site's statement (of its header, if the statement is compound)."""
        return self.tree.rows


class StatementTree:
    """The libcst tree of one statement (or of the header of a compound one)."""

    __slots__ = ("_nodes_at", "_shift", "_spans", "lossless", "parents", "root", "rows", "source")

    def __init__(
        self, source: Source, first_row: int, last_row: int, prefix: str, suffix: str, turns: Counter[str]
    ) -> None:
        """Parse the rows between `prefix` and `suffix`; raises CannotStandAlone if libcst cannot.

        `turns` counts how often the file has had the same text: each time, its nodes are others.
        """
        self.source = source
        self.rows = (first_row, last_row)
        start = source.line_starts[first_row - 1]
        end = source.line_starts[last_row] if last_row < len(source.line_starts) else len(source.utf8)
        if end - start > MAX_STATEMENT_BYTES:
            raise CannotStandAlone
        lines = source.utf8[start:end].decode()
        if not lines.endswith(("\n", "\r")):
            suffix = "\n" + suffix if suffix else ""
        code = prefix + lines + suffix
        parsed = _kept(code, turns[code]) if len(code) <= MOST_KEPT_CHARACTERS else _parsed(code)
        turns[code] += 1
        self.lossless = parsed.lossless
        self.parents = parsed.parents
        self.root = parsed.module
        self._spans, self._nodes_at = parsed.spans, parsed.nodes_at
        self._shift = start - len(prefix)

    def find(self, kind: str, start: int, end: int) -> Any | None:
        """The node for the ast class `kind` at exactly this byte span, or None."""
        names = _CST_NAMES.get(kind, (kind,))
        for node in self._nodes_at.get((start - self._shift, end - self._shift), ()):
            if type(node).__name__ in names:
                return node
        return None

    def parent(self, node: Any) -> Any | None:
        """The node's parent in this tree."""
        return self.parents.get(id(node))

    def span(self, node: Any) -> tuple[int, int]:
        """Byte span of a node of this tree; for an expression, without its own parentheses."""
        start, end = self._spans[id(node)]
        return start + self._shift, end + self._shift

    @property
    def identities(self) -> Iterable[int]:
        """The identities of its nodes."""
        return self._spans

    def outer_span(self, expression: Any) -> tuple[int, int]:
        """Byte span of an expression, with its own parentheses and all between them."""
        if not expression.lpar:
            return self.span(expression)
        return self.span(expression.lpar[0])[0], self.span(expression.rpar[-1])[1]


class _Parsed(NamedTuple):
    """What libcst makes of a text, with each node's byte span and its parent, by the node's identity; nodes by span."""

    module: cst.Module
    lossless: bool
    parents: dict[int, Any]
    spans: dict[int, tuple[int, int]]
    nodes_at: dict[tuple[int, int], list[Any]]


@functools.lru_cache(maxsize=KEPT_STATEMENTS)
def _kept(code: str, _turn: int) -> _Parsed:
    """The parsed text, once for each turn: an editor's next version of a file has nearly all of its statements."""
    return _parsed(code)


def _parsed(code: str) -> _Parsed:
    import libcst

    try:
        module = libcst.parse_module(code)
    except (libcst.ParserSyntaxError, RecursionError) as error:
        raise CannotStandAlone from error
    state = _renderer()(default_indent=module.default_indent, default_newline=module.default_newline)
    module._codegen(state)
    spans = state.spans
    if not code.isascii():
        to_bytes = _byte_offsets(code)
        spans = {key: (to_bytes(first), to_bytes(last)) for key, (first, last) in spans.items()}
    nodes_at: dict[tuple[int, int], list[Any]] = {}
    for node in state.nodes:
        nodes_at.setdefault(spans[id(node)], []).append(node)
    return _Parsed(module, "".join(state.tokens) == code, state.parents, spans, nodes_at)


def _byte_offsets(code: str) -> Any:
    table = [0]
    for character in code:
        table.append(table[-1] + len(character.encode()))
    # A file's last statement may lack its newline; the rendering always has one.
    return lambda offset: table[min(offset, len(table) - 1)]


_RENDERER: Any = None


def _renderer() -> Any:
    """The code generator that records spans and parents; created lazily, because it needs libcst."""
    global _RENDERER
    if _RENDERER is not None:
        return _RENDERER
    from libcst._nodes.internal import CodegenState

    class Renderer(CodegenState):
        def __init__(self, default_indent: str, default_newline: str) -> None:
            super().__init__(default_indent, default_newline)
            self.size = 0
            self.spans: dict[int, tuple[int, int]] = {}
            self.parents: dict[int, Any] = {}
            self.nodes: list[Any] = []
            self.stack: list[tuple[Any, int]] = []

        def add_token(self, value: str) -> None:
            self.tokens.append(value)
            self.size += len(value)

        def add_indent_tokens(self) -> None:
            for token in self.indent_tokens:
                self.add_token(token)

        def pop_trailing_newline(self) -> None:
            if self.tokens:
                self.size -= len(self.tokens.pop())

        def before_codegen(self, node: cst.CSTNode) -> None:
            if self.stack:
                self.parents[id(node)] = self.stack[-1][0]
            self.stack.append((node, self.size))

        def after_codegen(self, node: cst.CSTNode) -> None:
            _, start = self.stack.pop()
            self.nodes.append(node)
            if id(node) not in self.spans:
                self.spans[id(node)] = (start, self.size)

        def record_syntactic_position(self, node: Any, *, start_node: Any = None, end_node: Any = None) -> Any:
            return _Recorder(self, node, start_node, end_node)

    class _Recorder:
        __slots__ = ("end_node", "node", "start", "start_node", "state")

        def __init__(self, state: Renderer, node: Any, start_node: Any, end_node: Any) -> None:
            self.state, self.node, self.start_node, self.end_node = state, node, start_node, end_node

        def __enter__(self) -> None:
            self.start = self.state.size

        def __exit__(self, *_: object) -> None:
            spans = self.state.spans
            start = spans[id(self.start_node)][0] if self.start_node is not None else self.start
            end = spans[id(self.end_node)][1] if self.end_node is not None else self.state.size
            spans[id(self.node)] = (start, end)

    _RENDERER = Renderer
    return Renderer


def statement_tree(source: Source, lineage: list[ast.stmt], turns: Counter[str]) -> StatementTree | None:
    """The tree of the innermost statement of `lineage` (innermost first, outwards) that libcst can parse alone.

    A simple statement that shares its line with others, or a header that cannot be parsed alone, is parsed with
    the statement around it. None if no statement of the lineage can be parsed. `turns` belongs to the file: no two of
    its trees share a node.
    """
    if not lineage or _depth(lineage[0]) > MAX_DEPTH:
        return None
    for statement in lineage:
        for attempt in _pieces(source, statement):
            try:
                return StatementTree(source, *attempt, turns)
            except CannotStandAlone:
                continue
    return None


def _depth(statement: ast.stmt) -> int:
    """The nesting depth of the statement's expressions; nested statements do not count."""
    level: list[ast.AST] = [statement]
    depth = 0
    while level:
        depth += 1
        level = [child for node in level for child in children(node) if not isinstance(child, ast.stmt)]
    return depth


def _pieces(source: Source, statement: ast.stmt) -> Iterator[tuple[int, int, str, str]]:
    """Candidate cuts of a statement: first row, last row, text to put before and after."""
    first = first_row(statement)
    indent = _indent(source, first)
    if indent is None:
        return
    wrapper = "if 1:\n" if indent else ""
    line = source.line(first)[len(indent) :]
    if line.startswith("elif"):
        wrapper += f"{indent}if 1: pass\n"
    body: list[ast.stmt] | None = getattr(statement, "body", None)
    if body and not isinstance(statement, ast.Try) and type(statement).__name__ not in {"TryStar", "Match"}:
        body_row = first_row(body[0])
        header_end = _header_end(statement)
        if body_row > header_end:
            # Closing parentheses and the colon may be on rows of their own; comments below belong to the body.
            for last in range(header_end, body_row):
                yield first, last, wrapper, f"{indent}  pass\n"
        return
    if body is None and statement.end_lineno is not None:
        yield first, statement.end_lineno, wrapper, ""
    if body and statement.end_lineno is not None:
        yield first, statement.end_lineno, wrapper, ""


def _header_end(statement: ast.stmt) -> int:
    """The last row of a compound statement's header: that of its last header expression (the colon is there too)."""
    last = statement.lineno
    for field, value in ast.iter_fields(statement):
        if field in {"body", "orelse", "finalbody", "handlers", "cases", "decorator_list"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                for node in subtree(child):
                    last = max(last, getattr(node, "end_lineno", None) or 0)
    return last


def first_row(statement: ast.stmt) -> int:
    """The 1-based row where a statement begins, decorators included."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


def _indent(source: Source, row: int) -> str | None:
    line = source.line(row)
    stripped = line.lstrip(" \t")
    return None if stripped.startswith("\f") else line[: len(line) - len(stripped)]
