"""Builders of fixes: they turn intentions (replace, add an argument, insert a line) into byte edits.

A builder returns None where it cannot keep the surrounding text intact; the caller then has no fix. A builder never
raises for unusual source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchperf_lint.engine.findings import Edit
from torchperf_lint.syntax import cst

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_lint.syntax.site import StatementTree


def code_of(node: cst.CSTNode) -> str:
    """The text of a libcst node, rendered alone."""
    return cst.Module([]).code_for_node(node)


def has_comment(tree: StatementTree, node: cst.CSTNode) -> bool:
    """Whether a comment is inside the node's span: replacing the node would lose it."""
    start, end = tree.span(node)
    return any(type(inner).__name__ == "Comment" and start <= tree.span(inner)[0] < end for inner in _descendants(node))


def _descendants(node: cst.CSTNode) -> list[Any]:
    found: list[Any] = []
    pending: list[Any] = [node]
    while pending:
        current = pending.pop()
        found.append(current)
        pending.extend(current.children)
    return found


def replace(tree: StatementTree, node: cst.CSTNode, new: cst.CSTNode | str) -> Edit | None:
    """Replace `node` by `new`; parentheses around the node stay."""
    if not tree.lossless or has_comment(tree, node):
        return None
    start, end = tree.span(node)
    text = new if isinstance(new, str) else code_of(new)
    blank = after_word(tree, start) if _is_word(text[:1].encode()) else ""  # `not(x > y).any()`
    return Edit(start, end, (blank + text).encode())


def after_word(tree: StatementTree, start: int) -> str:
    """The blank that a name needs at a place, where a word stands right before it: `return[x]`."""
    return " " if _is_word(tree.source.utf8[max(start - 1, 0) : start]) else ""


def _is_word(byte: bytes) -> bool:
    """Whether a byte is one of a name, a keyword or a number."""
    return byte.isalnum() or byte == b"_" or byte > b"\x7f"


def blank_before_word(tree: StatementTree, node: cst.CSTNode) -> str:
    """The blank that a name needs in the node's place, where a word follows at once: `f(x)for x in xs`."""
    end = tree.span(node)[1]
    return " " if _is_word(tree.source.utf8[end : end + 1]) else ""


def together(*parts: Edit | tuple[Edit, ...] | None) -> tuple[Edit, ...] | None:
    """All the edits, or None if one of them is None: a partial fix is no fix."""
    made: list[Edit] = []
    for part in parts:
        if part is None:
            return None
        made += [part] if isinstance(part, Edit) else part
    return tuple(made)


def text_of(tree: StatementTree, node: cst.CSTNode) -> str:
    """The node's text in the file, without the parentheses around it."""
    start, end = tree.span(node)
    return tree.source.utf8[start:end].decode()


def postfix(tree: StatementTree, node: cst.BaseExpression) -> str:
    """The expression's text, in parentheses where a method call could not follow it."""
    text = text_of(tree, node)
    return text if isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) else f"({text})"


def put_before(tree: StatementTree, line: str) -> Edit:
    """Insert a line of code before the statement's rows, at their indentation."""
    source = tree.source
    first = source.line(tree.rows[0])
    indent, place = first[: len(first) - len(first.lstrip())], source.line_starts[tree.rows[0] - 1]
    return Edit(place, place, f"{indent}{line}{source.newline}".encode())


def put_under(tree: StatementTree, rows: tuple[int, int], header: str) -> tuple[Edit, ...] | None:
    """Indent the statement of these rows under a new header line; None if a string spans several rows."""
    source = tree.source
    for node in _descendants(tree.root):
        if isinstance(node, (cst.SimpleString, cst.FormattedString)) and "\n" in text_of(tree, node):
            return None
    first = source.line(rows[0])
    indent = first[: len(first) - len(first.lstrip())]
    step = "\t" if "\t" in indent else "    "
    start = source.line_starts[rows[0] - 1]
    header_line = Edit(start, start, f"{indent}{header}{source.newline}{step}".encode())
    others = [source.line_starts[row - 1] for row in range(rows[0] + 1, rows[1] + 1)]
    return (header_line, *(Edit(place, place, step.encode()) for place in others))


def line_before(tree: StatementTree, line: str) -> Edit | None:
    """Insert a line of code before the tree's simple statement, at its indentation."""
    source = tree.source
    first = source.line(tree.rows[0])
    if not tree.lossless or first.lstrip().startswith(
        ("elif", "if ", "for ", "while ", "with ", "def ", "class ", "@")
    ):
        return None
    start = source.line_starts[tree.rows[0] - 1]
    return Edit(start, start, f"{first[: len(first) - len(first.lstrip())]}{line}{source.newline}".encode())


def add_argument(tree: StatementTree, call: cst.Call, argument: str) -> tuple[Edit, ...] | None:
    """Append `name=value` to a call's arguments, minding commas, comments and a bare generator argument."""
    if not tree.lossless:
        return None
    arguments = call.args
    if not arguments:
        if isinstance(call.whitespace_before_args, cst.ParenthesizedWhitespace):
            return None
        end = tree.span(call)[1]
        return (Edit(end - 1, end - 1, argument.encode()),)
    if len(arguments) == 1 and isinstance(arguments[0].value, cst.GeneratorExp) and not arguments[0].value.lpar:
        return None
    last = arguments[-1]
    value_end = tree.span(last)[1]
    if isinstance(last.comma, cst.Comma):
        comma = _comma_after(tree, value_end)
        if comma is None:
            return None
        place, trailing = comma + 1, last.comma.whitespace_after
        if not isinstance(trailing, cst.ParenthesizedWhitespace):
            return (Edit(place, place, f" {argument}".encode()),)
        edits: tuple[Edit, ...] = ()
    else:
        place, trailing = value_end, last.whitespace_after_arg
        if not isinstance(trailing, cst.ParenthesizedWhitespace):
            return (Edit(place, place, f", {argument}".encode()),)
        edits = (Edit(place, place, b","),)
    # The closing parenthesis is on a line of its own: so is the new argument, with a comma after it, unless several
    # arguments share a line.
    indent = _line_indent(tree, last)
    if indent is None:
        joined = f", {argument}" if edits else f" {argument},"
        return (Edit(place, place, joined.encode()),)
    line_end = tree.source.line_starts[tree.source.row(place)]
    return (*edits, Edit(line_end, line_end, f"{indent}{argument},{tree.source.newline}".encode()))


def drop_argument(tree: StatementTree, call: cst.Call, dropped: cst.Arg) -> Edit | None:
    """Remove an argument from a call, with the comma that separates it from the others."""
    if not tree.lossless:
        return None
    place = next(position for position, argument in enumerate(call.args) if argument is dropped)
    start, end = tree.span(dropped)
    if place:
        before = tree.span(call.args[place - 1])[1]
        if b"#" not in tree.source.utf8[before:start]:
            return _cut(tree, before, end)
    elif len(call.args) > 1:
        return _cut(tree, start, tree.span(call.args[1])[0])
    # Without other arguments, or after a comment: the comma before it stays, and its own is removed.
    if isinstance(dropped.comma, cst.Comma):
        comma = _comma_after(tree, end)
        return None if comma is None else _cut(tree, start, comma + 1)
    return _cut(tree, start, end)


def drop_element(tree: StatementTree, elements: Sequence[cst.BaseExpression], place: int) -> Edit | None:
    """Remove an element other than the first from a list, with the comma before it."""
    if not tree.lossless or not place:
        return None
    start, end = (tree.outer_span(each)[1] for each in elements[place - 1 : place + 1])
    return _cut(tree, start, end)


def _cut(tree: StatementTree, start: int, end: int) -> Edit | None:
    """Remove the text, unless it contains a comment."""
    return None if b"#" in tree.source.utf8[start:end] else Edit(start, end, b"")


def _comma_after(tree: StatementTree, end: int) -> int | None:
    """The position of the comma after an argument; None if there is a comment between."""
    comma = tree.source.utf8.index(b",", end)
    return None if b"#" in tree.source.utf8[end:comma] else comma


def _line_indent(tree: StatementTree, node: cst.CSTNode) -> str | None:
    """The indentation of the row where a node starts, if nothing precedes the node on that row."""
    start = tree.span(node)[0]
    line = tree.source.line(tree.source.row(start))
    column = tree.source.position(start)[1] - 1
    return line[:column] if not line[:column].strip() else None
