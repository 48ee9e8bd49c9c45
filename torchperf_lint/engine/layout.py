"""Layout of fixes: a line that edits make too long is broken at the brackets of its last call, as black would do it.

Only three forms of physical lines are broken: a simple statement or header whose value is a call, a call that is one
element of a bracket above it, and the arguments of a call that stand together on a line of their own; in them, lists
that a comprehension makes, too. All other lines stay as the edits leave them.
"""

from __future__ import annotations

import ast
import re
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.edit_merge import BadEdits, apply_edits
from torchperf_lint.engine.findings import Edit
from torchperf_lint.syntax.parsing import parse_expression
from torchperf_lint.syntax.source import Source, Unreadable
from torchperf_lint.syntax.tree import children

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

STANDARD_LENGTH = 88
"""Columns of a line where the project states no other length."""

_TAB = 4
_PRAGMA = re.compile(
    r"#\s*(?:noqa|nosec|pragma:|(?:fmt|type|pyright|pyre|pylint|mypy|ruff|isort|flake8|torchperf-lint):)", re.IGNORECASE
)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_STRINGS = tuple(getattr(ast, name) for name in ("JoinedStr", "TemplateStr") if hasattr(ast, name))


def laid_out(source: Source, edits: Iterable[Edit], length: int) -> tuple[Edit, ...]:
    """The edits with the lines that they make longer than `length` columns broken, where that is possible.

    The result has the same syntax tree. A line that was too long before the edits stays as they leave it; edits that
    cannot be applied are returned unchanged.
    """
    edits = tuple(dict.fromkeys(edits))
    if all(_is_in_long_line(source, edit, length) for edit in edits):
        return edits
    changed = _Changed(source, edits)
    try:
        text = apply_edits(source.utf8, edits)
        if not any(_width(line) > length for line in changed.lines(text)):
            return edits
        result = Source(source.path, source.encode(text))
        rows = {result.row(start) for start in changed.starts(text) if changed.may_break(result, start, length)}
        if not rows:
            return edits
        tree = result.parse()
    except (BadEdits, UnicodeError, Unreadable):
        return edits
    breaks = [each for row, places in _calls_at(tree, rows).items() for each in _break(result, row, places, length)]
    return changed.joined(result, sorted(breaks)) if breaks else edits


def _is_in_long_line(source: Source, edit: Edit, length: int) -> bool:
    """Whether an edit adds no line, and its line is too long without it."""
    row = source.row(edit.start)
    return _LINE_END.search(edit.content) is None and _width(source.line(row)) > length


def _is_same(expression: str, broken: str) -> bool:
    """Whether two texts of a call have the same syntax tree."""
    try:
        one, other = map(parse_expression, (expression, broken))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return ast.dump(one) == ast.dump(other)


class _Changed:
    """Edits in order, with the places of their contents in the edited text."""

    def __init__(self, source: Source, edits: Sequence[Edit]) -> None:
        self._source = source
        self._edits = sorted(edits, key=lambda edit: (edit.start, edit.end))
        self._places: list[tuple[int, int]] = []
        shift = 0
        for edit in self._edits:
            start = edit.start + shift
            self._places.append((start, start + len(edit.content)))
            shift += len(edit.content) - (edit.end - edit.start)

    def starts(self, text: bytes) -> Iterator[int]:
        """The starts of the edited lines."""
        for start, end in self._places:
            yield _line_start(text, start)
            for match in _LINE_END.finditer(text, start, end):
                if match.end() < end:
                    yield match.end()

    def lines(self, text: bytes) -> Iterator[str]:
        """The edited lines, without their ends."""
        for start in self.starts(text):
            match = _LINE_END.search(text, start)
            yield text[start : match.start() if match else len(text)].decode(errors="replace")

    def may_break(self, result: Source, start: int, length: int) -> bool:
        """Whether the edited line is too long, and no line that it comes from was."""
        row = result.row(start)
        line = result.line(row)
        if _width(line) <= length:
            return False
        end = start + len(line.encode())
        return not any(_width(self._source.line(each)) > length for each in self._rows_before(start, end))

    def _rows_before(self, start: int, end: int) -> set[int]:
        """The rows of the source that the bytes [start, end) of the edited text come from."""
        rows: set[int] = set()
        at = was = 0  # the same unchanged byte in the edited text and in the source
        for edit, (new, new_end) in zip((*self._edits, None), (*self._places, (end, end)), strict=True):
            first, last = max(start, at), min(end, new)
            if first < last:
                rows |= self._rows(was + first - at, was + last - at)
            if edit is None:
                break
            if edit.start < edit.end and new <= end and new_end >= start:
                rows |= self._rows(edit.start, edit.end)
            at, was = new_end, edit.end
        return rows

    def _rows(self, start: int, end: int) -> set[int]:
        return set(range(self._source.row(start), self._source.row(max(start, end - 1)) + 1))

    def joined(self, result: Source, breaks: Sequence[Edit]) -> tuple[Edit, ...]:
        """The edits of the source that make the edited text with these breaks: a break joins the edits it touches."""
        pieces = [
            _Piece(edit.start, edit.end, *place, ()) for edit, place in zip(self._edits, self._places, strict=True)
        ]
        for each in breaks:
            at = next((index for index, piece in enumerate(pieces) if piece.new_end >= each.start), len(pieces))
            beyond = next(
                (index for index in range(at, len(pieces)) if pieces[index].new_start > each.end), len(pieces)
            )
            touched = pieces[at:beyond]
            before = pieces[at - 1] if at else _Piece(0, 0, 0, 0, ())
            first, last = (touched[0], touched[-1]) if touched else (before, before)
            start, end = min(first.new_start, each.start) if touched else each.start, max(last.new_end, each.end)
            began = first.start + start - first.new_start if touched else first.end + start - first.new_end
            joined = _Piece(
                began,
                last.end + end - last.new_end,
                start,
                end,
                (*(inner for piece in touched for inner in piece.breaks), each),
            )
            pieces[at:beyond] = [joined]
        return tuple(
            Edit(
                piece.start,
                piece.end,
                apply_edits(
                    result.utf8[piece.new_start : piece.new_end],
                    [Edit(one.start - piece.new_start, one.end - piece.new_start, one.content) for one in piece.breaks],
                ),
            )
            for piece in pieces
        )


class _Piece(NamedTuple):
    """A replaced span [start, end) of the source, what it became in the edited text, and the breaks in there."""

    start: int
    end: int
    new_start: int
    new_end: int
    breaks: tuple[Edit, ...]


_LINE_END = re.compile(rb"\r\n|\r|\n")


def _line_start(text: bytes, offset: int) -> int:
    return max(text.rfind(b"\n", 0, offset), text.rfind(b"\r", 0, offset)) + 1


def _width(text: str) -> int:
    """The columns of a text."""
    text = text.expandtabs(_TAB)
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text
    )


# -- which calls a line may be broken at ---------------------------------------------------------------------------


class _Place(NamedTuple):
    """An expression that a line may be broken at.

    The line has to begin at `start` and to end after `call`, but for `tail` and a comment. Without `call`, the place is
    all arguments of `listed`.
    """

    start: tuple[int, int]
    call: ast.Call | None
    tail: str
    listed: ast.Call | None = None


def _calls_at(tree: ast.Module, rows: Collection[int]) -> dict[int, list[_Place]]:
    """The places of the rows; nothing inside of a string is one."""
    found: dict[int, list[_Place]] = {}
    pending: list[ast.AST] = [tree]
    first, last = min(rows), max(rows)
    while pending:
        node = pending.pop()
        for place in _places(node):
            row = place.start[0]
            if row in rows:
                found.setdefault(row, []).append(place)
        pending += [each for each in children(node) if not isinstance(each, _STRINGS) and _may_span(each, first, last)]
    return found


def _may_span(node: ast.AST, first: int, last: int) -> bool:
    """Whether a node may have one of these rows; decorators stand before the row of what they decorate."""
    if isinstance(node, (ast.stmt, ast.expr)) and not isinstance(node, _DEFINITIONS):
        return node.lineno <= last and (node.end_lineno or last) >= first
    return not isinstance(node, ast.stmt) or (node.end_lineno or last) >= first


def _places(node: ast.AST) -> Iterator[_Place]:
    if isinstance(node, _DEFINITIONS):
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call):
                yield _Place((decorator.lineno, decorator.col_offset - 1), decorator, "")
    elif isinstance(node, (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return)):
        if isinstance(node.value, ast.Call):
            yield _Place((node.lineno, node.col_offset), node.value, "")
    elif isinstance(node, (ast.For, ast.AsyncFor)):
        if isinstance(node.iter, ast.Call):
            yield _Place((node.lineno, node.col_offset), node.iter, ":")
    elif isinstance(node, (ast.If, ast.While)):
        if isinstance(node.test, ast.Call):
            yield _Place((node.lineno, node.col_offset), node.test, ":")
    elif isinstance(node, ast.Call):
        given = _arguments(node)
        for each in given:
            value = each.value if isinstance(each, (ast.keyword, ast.Starred)) else each
            if isinstance(value, ast.Call):
                yield _Place((each.lineno, each.col_offset), value, ",")
        if given:
            yield _Place((given[0].lineno, given[0].col_offset), None, "", node)
    elif isinstance(node, (ast.List, ast.Set, ast.Tuple)):
        for element in node.elts:
            if isinstance(element, ast.Call):
                yield _Place((element.lineno, element.col_offset), element, ",")


def _arguments(call: ast.Call) -> list[ast.expr | ast.keyword]:
    """The arguments of a call, in the order of the text."""
    return sorted([*call.args, *call.keywords], key=lambda each: (each.lineno, each.col_offset))


# -- breaking one line -----------------------------------------------------------------------------------------------


def _break(source: Source, row: int, places: Sequence[_Place], length: int) -> Iterator[Edit]:
    """The break of a row; none if none of its places makes up the row, or no break helps."""
    line = source.line(row)
    before = source.line(row - 1) if row > 1 else ""
    if line.endswith("\\") or before.endswith("\\") or _PRAGMA.search(line):
        return
    work = _Breaker(source, row, line, length)
    for place in places:
        lines = work.broken(place)
        if lines is not None:
            start = source.line_starts[row - 1]
            end = start + len(line.encode())
            yield _trimmed(Edit(start, end, work.newline.join(lines).encode()), line.encode())
            return


def _trimmed(edit: Edit, was: bytes) -> Edit:
    """The edit without what it has in common with the replaced bytes at both ends."""
    new = edit.content
    most = min(len(was), len(new))
    head = next((at for at in range(most) if was[at] != new[at]), most)
    tail = next((at for at in range(most - head) if was[-1 - at] != new[-1 - at]), most - head)
    return Edit(edit.start + head, edit.end - tail, new[head : len(new) - tail])


class _Breaker:
    """Breaks calls of one physical line."""

    def __init__(self, source: Source, row: int, line: str, length: int) -> None:
        self._source = source
        self._row = row
        self._line = line.encode()
        self._length = length
        self._indent = line[: len(line) - len(line.lstrip())]
        self._step = source.indent
        following = source.line_starts[row] if row < len(source.line_starts) else len(source.utf8)
        end = _LINE_END.search(source.utf8, source.line_starts[row - 1], following)
        self.newline = end.group().decode() if end else source.newline

    def broken(self, place: _Place) -> list[str] | None:
        """The lines that take the place of the row; None if the place does not make up the row."""
        if place.start != (self._row, len(self._indent.encode())):
            return None
        if place.call is None:
            return self._listed(place.listed) if place.listed is not None else None
        call = place.call
        if not (call.lineno == call.end_lineno == self._row and call.end_col_offset is not None):
            return None
        rest = self._line[call.end_col_offset :].decode()
        code = rest.partition("#")[0].rstrip()
        if code not in (place.tail, "") or (place.tail == ":" and code != ":"):
            return None
        before = self._line[len(self._indent.encode()) : call.col_offset].decode()
        lines = self._call(call, before, rest, self._indent)
        if lines is None:
            return self._unpacked(call, before, rest)
        text = self.newline.join(lines)
        broken = text[len(self._indent) + len(before) : len(text) - len(rest)]
        return lines if _is_same(self._line[call.col_offset : call.end_col_offset].decode(), broken) else None

    def _unpacked(self, call: ast.Call, before: str, after: str) -> list[str] | None:
        """The lines of `a, b = call(...)` with many names: the call in parentheses, or the names, one per line."""
        names = [each.strip() for each in before.removesuffix("= ").split(",")]
        if not before.endswith("= ") or len(names) < 2 or not all(each.isidentifier() for each in names):
            return None
        text, deeper = self._line[call.col_offset : call.end_col_offset].decode(), self._indent + self._step
        if _width(f"{self._indent}{before}(") <= self._length:
            inner = [deeper + text] if _width(deeper + text) <= self._length else self._call(call, "", "", deeper)
            return None if inner is None else [f"{self._indent}{before}(", *inner, f"{self._indent}){after}"]
        last = [f"{self._indent}) = {text}{after}"]
        lines = last if _width(last[0]) <= self._length else self._call(call, ") = ", after, self._indent)
        return None if lines is None else [f"{self._indent}(", *(f"{deeper}{name}," for name in names), *lines]

    def _listed(self, call: ast.Call) -> list[str] | None:
        """The arguments of a call, which share this line and have no other, on lines of their own."""
        given = _arguments(call)
        if len(given) < 2 or any(not each.lineno == each.end_lineno == self._row for each in given):
            return None
        if b"#" in self._line[given[-1].end_col_offset or 0 :]:
            return None
        parts = self._split(given, len(self._indent.encode()), len(self._line))
        if parts is None or not self._opens_above(call):
            return None
        lines = self._one_per_line(given, parts, self._indent)
        if lines is None:
            return None
        broken = self.newline.join(lines)
        return lines if _is_same(f"f({self._line.decode()})", f"f({broken})") else None

    def _opens_above(self, call: ast.Call) -> bool:
        above = self._source.line(self._row - 1).rstrip()
        below = self._source.line(self._row + 1).lstrip() if self._row < len(self._source.line_starts) else ""
        return above.endswith("(") and below.startswith(")") and call.lineno < self._row

    def _call(self, call: ast.Call, before: str, after: str, indent: str) -> list[str] | None:
        """The lines of `before`, a call with its arguments on lines of their own, and `after`."""
        given = _arguments(call)
        assert call.end_col_offset is not None
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if not given and isinstance(owner, ast.Call) and _is_plain(owner.func):
            rest = self._line[owner.end_col_offset : call.end_col_offset].decode()
            return None if rest.startswith(")") else self._call(owner, before, rest + after, indent)
        if not given or not _is_plain(call.func):
            return None
        assert call.func.end_col_offset is not None
        opened = self._line.index(b"(", call.func.end_col_offset) + 1
        function = self._line[call.col_offset : opened].decode()
        first = f"{indent}{before}{function}"
        inner = self._line[opened : call.end_col_offset - 1].decode().strip()
        if _width(first) > self._length:
            return None
        deeper, last = indent + self._step, f"{indent}){after}"
        has_comma = self._line[: call.end_col_offset - 1].rstrip().endswith(b",")
        if not has_comma and _width(deeper + inner) <= self._length:
            return [first, deeper + inner, last]
        if len(given) == 1 and not has_comma:
            lines = self._nested(given[0], inner, "", deeper)
            return None if lines is None else [first, *lines, last]
        parts = self._split(given, opened, call.end_col_offset - 1)
        lines = None if parts is None else self._one_per_line(given, parts, deeper)
        return None if lines is None else [first, *lines, last]

    def _one_per_line(
        self, given: Sequence[ast.expr | ast.keyword], parts: Sequence[str], indent: str
    ) -> list[str] | None:
        lines: list[str] = []
        for each, part in zip(given, parts, strict=True):
            line = f"{indent}{part},"
            if _width(line) <= self._length or _is_plain(_value(each)):
                lines.append(line)
                continue
            nested = self._nested(each, part, ",", indent)
            if nested is None:
                return None
            lines += nested
        return lines

    def _nested(self, argument: ast.expr | ast.keyword, text: str, after: str, indent: str) -> list[str] | None:
        """The lines of an argument that is too long for one; None if it cannot be broken or has its own parentheses."""
        value = _value(argument)
        if text != self._line[argument.col_offset : value.end_col_offset].decode():
            return None
        before = self._line[argument.col_offset : value.col_offset].decode()
        if isinstance(value, ast.ListComp):
            return self._comprehension(value, before, after, indent)
        if isinstance(value, ast.List) and value.elts:
            return self._list(value, before, after, indent)
        return self._call(value, before, after, indent) if isinstance(value, ast.Call) else None

    def _list(self, listed: ast.List, before: str, after: str, indent: str) -> list[str] | None:
        """The lines of a list: its elements on one line of their own, or each on one."""
        assert listed.end_col_offset is not None
        start, end, deeper = listed.col_offset + 1, listed.end_col_offset - 1, indent + self._step
        inner = self._line[start:end].decode().strip()
        lines: list[str] | None = [deeper + inner]
        if inner.endswith(",") or _width(deeper + inner) > self._length:
            parts = self._split(listed.elts, start, end)
            lines = None if parts is None else self._one_per_line(listed.elts, parts, deeper)
        return None if lines is None else [f"{indent}{before}[", *lines, f"{indent}]{after}"]

    def _comprehension(self, made: ast.ListComp, before: str, after: str, indent: str) -> list[str] | None:
        """The lines of a comprehension: its element and each of its clauses on a line of its own."""
        assert made.end_col_offset is not None
        assert made.elt.end_col_offset is not None
        starts, end = [made.col_offset + 1], made.elt.end_col_offset
        for loop in made.generators:
            for word, node, last in ((b"for", loop.target, loop.iter), *((b"if", each, each) for each in loop.ifs)):
                starts.append(self._line.rindex(word, end, node.col_offset))
                assert last.end_col_offset is not None
                end = last.end_col_offset
        ends = (*starts[1:], made.end_col_offset - 1)
        deeper = indent + self._step
        lines = [deeper + self._line[start:end].decode().strip() for start, end in zip(starts, ends, strict=True)]
        return None if max(map(_width, lines)) > self._length else [f"{indent}{before}[", *lines, f"{indent}]{after}"]

    def _split(self, given: Sequence[ast.expr | ast.keyword], start: int, end: int) -> list[str] | None:
        """The texts of the arguments between two columns, with the parentheses around them."""
        parts = []
        for each, following in zip(given, (*given[1:], None), strict=True):
            assert each.end_col_offset is not None
            stop = end if following is None else following.col_offset
            comma = self._line.find(b",", each.end_col_offset, stop)
            if comma < 0 and following is not None:
                return None
            stop = comma if comma >= 0 else stop
            parts.append(self._line[start:stop].decode().strip())
            start = stop + 1
        return parts


def _value(argument: ast.expr | ast.keyword) -> ast.expr:
    return argument.value if isinstance(argument, (ast.keyword, ast.Starred)) else argument


def _is_plain(node: ast.expr) -> bool:
    """Whether an expression is a dotted name or a constant: nothing in it can be broken."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, (ast.Name, ast.Constant))
