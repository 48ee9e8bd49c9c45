"""Strings that a program builds in every step: f-strings and filled formats, and the tensors in them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.handles import is_host_data, last_name
from torchperf_lint.syntax import cst, shape
from torchperf_lint.syntax.tree import children

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site

_MAY_BE_TENSORS = ("Name", "Attribute", "BinaryOperation", "Subscript", "Call")
_TAKE_PATHS = frozenset("open Path save savez savefig imwrite save_image makedirs mkdir exists".split())


def hot_texts(model: Model) -> Iterator[Site]:
    """The strings built in every step, whatever their use, in source order."""
    for statement in model.statements_with_texts:
        texts = [] if hasattr(statement, "body") else list(_texts(statement))
        if texts and model.is_hot(statement):
            for text in texts:
                site = model.site_at(text, statement)
                if site is not None and model.hot_path_of(statement, text) is not None:
                    yield site


def _texts(statement: ast.stmt) -> Iterator[ast.expr]:
    """The strings of a statement, without file names and those that only one branch of an `if` expression builds."""
    # An assertion's message is built only on failure.
    pending: list[ast.AST] = [statement.test if isinstance(statement, ast.Assert) else statement]
    while pending:
        node = pending.pop(0)
        if isinstance(node, ast.expr) and (isinstance(node, ast.JoinedStr) or _is_filled(node)):
            if not _tells_of_host(node):
                yield node
        elif not _names_file(node) and not isinstance(node, ast.IfExp):
            pending.extend(children(node))


def _tells_of_host(text: ast.expr) -> bool:
    """Whether everything in the string is host data by its form."""
    if isinstance(text, ast.BinOp):
        return is_host_data(text.right)
    if not isinstance(text, ast.Call):
        return is_host_data(text)
    return all(map(is_host_data, (*text.args, *(keyword.value for keyword in text.keywords))))


def _names_file(node: ast.AST) -> bool:
    """`folder / f"{i}.png"`, `open(f"...")`, `image.save(f"...")`: beside file access a wait is negligible."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Div)
    if not isinstance(node, ast.Call):
        return False
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    return last_name(node.func) in _TAKE_PATHS or (owner is not None and last_name(owner) == "path")


def _is_filled(node: ast.expr) -> bool:
    """`"loss %f" % loss`, `("%s" * 2 + "%f") % values`, `"loss {}".format(loss)`."""
    text: ast.expr | None = None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        text = node.left
        while isinstance(text, ast.BinOp) and isinstance(text.op, (ast.Add, ast.Mult)):
            text = text.left
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and last_name(node.func) == "format":
        text = node.func.value
    return isinstance(text, ast.Constant) and isinstance(text.value, str)


def tensors_in(model: Model, parts: list[cst.BaseExpression]) -> Iterator[cst.BaseExpression]:
    """Unread tensors among the displayed values: in f-strings, formats and dict displays as well."""
    pending = list(parts)
    while pending:
        node = pending.pop(0)
        if isinstance(node, cst.FormattedString):
            pending += [part.expression for part in node.parts if isinstance(part, cst.FormattedStringExpression)]
        elif isinstance(node, cst.ConcatenatedString):
            pending += [node.left, node.right]
        elif isinstance(node, cst.Dict):
            pending += [element.value for element in node.elements if isinstance(element, cst.DictElement)]
        elif isinstance(node, cst.Tuple):
            pending += [element.value for element in node.elements]
        elif shape.is_filled_text(node):
            pending.append(node.right)
        elif isinstance(node, cst.Call) and shape.method_name(node) in ("format", "str", "repr"):
            pending += [item.value for item in node.args]
        elif type(node).__name__ in _MAY_BE_TENSORS and model.value(node).is_tensor:
            yield node
