"""Texts that are composed at run time: `f"{stage}_step"`, `"on_" + event`, `"%s_step" % stage`."""

from __future__ import annotations

import ast


def rest_of(node: ast.expr, text: str) -> tuple[ast.expr, str] | None:
    """The one part of a composed text that is no literal, and what it must be for the whole to be this text.

    The second is empty if the literal parts do not fit; None if the expression is no such text.
    """
    found = _parts(node)
    if found is None:
        return None
    start, inner, end = found
    fits = text.startswith(start) and text.endswith(end) and len(text) > len(start) + len(end)
    return inner, text[len(start) : len(text) - len(end)] if fits else ""


def _parts(node: ast.expr) -> tuple[str, ast.expr, str] | None:
    if isinstance(node, ast.JoinedStr):
        filled = [each for each in node.values if isinstance(each, ast.FormattedValue)]
        if len(filled) != 1 or filled[0].format_spec is not None or filled[0].conversion != -1:
            return None
        place = node.values.index(filled[0])
        start, end = ("".join(map(_literal, each)) for each in (node.values[:place], node.values[place + 1 :]))
        return start, filled[0].value, end
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        if _literal(node.left):
            return _literal(node.left), node.right, ""
        return ("", node.left, _literal(node.right)) if _literal(node.right) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and _literal(node.left).count("%") == 1:
        start, mark, end = _literal(node.left).partition("%s")
        return (start, node.right, end) if mark else None
    return None


def _literal(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
