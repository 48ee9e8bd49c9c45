"""Names in Python's trees: those that a block binds, those of an expression, what calls and assignments give."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.syntax.tree import children, subtree

if TYPE_CHECKING:
    from collections.abc import Mapping

_SHOWN = 50
"""Characters of code in a message."""


def bindings(block: list[ast.stmt]) -> list[str]:
    """Names bound by the statements of a block, without those of nested functions and classes."""
    found: list[str] = []
    pending: list[ast.AST] = list(block)
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.append(node.name)
            continue
        if isinstance(node, ast.alias):
            found.append(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.append(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found.append(node.name)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            found += node.names
        pending.extend(children(node))
    return found


def brief(node: ast.AST) -> str:
    """The code of an expression, cut where it is long."""
    text = ast.unparse(node)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def given_to(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call; for `f(a if c else b)` and `f(a or b)`, each alternative."""
    found: list[ast.expr] = []
    pending = [*call.args, *(keyword.value for keyword in call.keywords)]
    for node in pending:
        if isinstance(node, ast.IfExp):
            pending += [node.body, node.orelse]
        elif isinstance(node, ast.BoolOp):
            pending += node.values
        else:
            found.append(node)
    return found


def assigned_to(parents: Mapping[ast.AST, ast.AST], node: ast.Attribute) -> ast.expr | None:
    """What an assignment gives to the attribute: `self.sum = 0.0`, and `self.sum, self.count = 0.0, 0`."""
    parent = parents.get(node)
    if not isinstance(parent, ast.Tuple):
        return parent.value if isinstance(parent, (ast.Assign, ast.AnnAssign)) else None
    statement = parents.get(parent)
    pairs = paired(parent, statement.value) if isinstance(statement, ast.Assign) else ()
    return next((value for part, value in pairs if part is node), None)


def paired(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """The parts of a tuple that an assignment binds, each with what it gets: `self.sum, self.count = 0.0, 0`.

    There is none with a star, which may take any number of them.
    """
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple) or len(target.elts) != len(value.elts):
        return []
    is_starred = any(isinstance(each, ast.Starred) for each in (*target.elts, *value.elts))
    return [] if is_starred else list(zip(target.elts, value.elts, strict=True))


def asks_for_tensor(test: ast.expr) -> bool:
    """`isinstance(value, torch.Tensor)`, `torch.is_tensor(value)`."""
    if not isinstance(test, ast.Call):
        return False
    name = last_name(test.func)
    return name == "is_tensor" or (name == "isinstance" and len(test.args) == 2 and last_name(test.args[1]) == "Tensor")


def names_in(node: ast.AST) -> list[str]:
    """The plain names in an expression."""
    return [each.id for each in subtree(node) if isinstance(each, ast.Name)]


def last_name(expression: ast.expr) -> str | None:
    """`c` of `a.b.c`, `f` of `f`; None for anything else."""
    if isinstance(expression, ast.Attribute):
        return expression.attr
    if isinstance(expression, ast.Name):
        return expression.id
    return None


def dotted(expression: ast.expr) -> str | None:
    """`a.b.c` as text for a chain of names and attributes; None for anything else."""
    kind = expression.__class__
    if kind is ast.Name:
        return expression.id  # type: ignore[attr-defined, no-any-return]
    if kind is not ast.Attribute:
        return None
    parts: list[str] = []
    while isinstance(expression, ast.Attribute):
        parts.append(expression.attr)
        expression = expression.value
    if not isinstance(expression, ast.Name):
        return None
    parts.append(expression.id)
    return ".".join(reversed(parts))


def positional_of(arguments: ast.arguments | None) -> list[str]:
    """The parameters that a call may give by position, in order."""
    return [] if arguments is None else [each.arg for each in (*arguments.posonlyargs, *arguments.args)]


def parameters_of(arguments: ast.arguments | None) -> list[str]:
    """All parameters in order: positional, `*args`, keyword-only, `**kwargs`."""
    if arguments is None:
        return []
    named = [*arguments.posonlyargs, *arguments.args]
    if arguments.vararg:
        named.append(arguments.vararg)
    named += arguments.kwonlyargs
    if arguments.kwarg:
        named.append(arguments.kwarg)
    return [argument.arg for argument in named]


def defaults_of(arguments: ast.arguments | None) -> dict[str, ast.expr]:
    """Parameter -> its default, for those that have one."""
    if arguments is None:
        return {}
    positional = [*arguments.posonlyargs, *arguments.args]
    last = positional[len(positional) - len(arguments.defaults) :]
    found = dict(zip((each.arg for each in last), arguments.defaults, strict=True))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is not None:
            found[argument.arg] = default
    return found


def does_nothing(body: list[ast.stmt]) -> bool:
    """Whether a body only has texts, `...`, `pass` and `raise`."""
    for statement in body:
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not is_text and not isinstance(statement, (ast.Pass, ast.Raise)):
            return False
    return True


def grouped(body: list[ast.stmt]) -> list[tuple[int, list[ast.stmt]]]:
    """Top-level statements, those that share a line as one, with the rows where they begin."""
    groups: list[tuple[int, list[ast.stmt]]] = []
    last = 0
    for statement in body:
        row = min((each.lineno for each in getattr(statement, "decorator_list", ())), default=statement.lineno)
        if row <= last:
            groups[-1][1].append(statement)
        else:
            groups.append((row, [statement]))
        last = statement.end_lineno or row
    return groups
