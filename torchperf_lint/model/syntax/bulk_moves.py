"""Bulk moves: loops such as `for metric in metrics.values(): metric.to(device)`, which move all items."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.model.syntax.index import dotted, last_name, names_in
from torchperf_lint.model.syntax.scope import names_bound_in
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchperf_lint.model.syntax.index import FunctionInfo

_MOVERS = frozenset({"to", "cuda", "cpu"})
_LEAVES = (ast.Break, ast.Continue, ast.Return, ast.Yield, ast.YieldFrom)
_TO_HOST = frozenset({"cpu", "numpy", "tolist"})
_FILLS = frozenset({"update", "setdefault", "pop", "popitem", "clear", "__setitem__"})
_COPIES = frozenset({"list", "tuple", "iter"})


class _Walk(NamedTuple):
    """What a loop iterates over, and the names of its targets: a target that may be either has both."""

    holders: tuple[ast.expr, ...]  # the container, or each element of a tuple of names
    is_display: bool
    key: str | None
    value: str | None


class Move(NamedTuple):
    """A statement of the loop that moves each item."""

    statement: ast.stmt
    call: ast.Call
    walk: _Walk
    is_put_back: bool  # `holder[key] = value.to(device)`: moving a tensor gives a new one
    of_tensors: bool = False  # where tests of types let tensors alone reach it


def move_in(function: FunctionInfo, loop: ast.For | ast.AsyncFor) -> Move | None:
    """The statement by which every pass of the loop moves its item; None if there is none, or not in every pass."""
    return function.index.note(("move in", loop), lambda: _move_in(loop))


def _move_in(loop: ast.For | ast.AsyncFor) -> Move | None:
    walk = _walk(loop.iter, loop.target)
    if walk is None:
        return None
    moves = list(_moves_in(loop.body, walk))
    if len(moves) != 1 or any(isinstance(node, _LEAVES) for each in loop.body for node in subtree(each)):
        return None
    if not all(
        _leaves_in_place(each, walk) for body in loop.body for each in subtree(body) if each is not moves[0].statement
    ):
        return None  # it may put back what it was
    bound = {name for statement in loop.body for name in names_bound_in(statement)}
    given = (*moves[0].call.args, *(keyword.value for keyword in moves[0].call.keywords))
    read = {name for each in given for name in names_in(each)}
    return None if bound & {walk.key, walk.value, *read} else moves[0]


def paths_moved(function: FunctionInfo, statement: ast.stmt, parents: Sequence[ast.stmt]) -> Iterator[str]:
    """The dotted paths whose items the statement moves, in a loop around it; `parents` are what is around it."""
    loop = next((each for each in reversed(parents) if not isinstance(each, ast.If)), None)
    if not isinstance(loop, (ast.For, ast.AsyncFor)) or _call_of(statement) is None:
        return
    move = move_in(function, loop)
    for holder in move.walk.holders if move is not None and move.statement is statement else ():
        path = dotted(holder)
        if path is not None:
            yield path


def stores_by_moves_alone(function: FunctionInfo, holder: str) -> bool:
    """Whether nothing in the function stores entries of a name but loops that move them all."""
    moved: set[ast.AST] = set()
    for loop in function.statements:
        if isinstance(loop, (ast.For, ast.AsyncFor)) and move_in(function, loop) is not None:
            moved.update(subtree(loop))
    changed = (each.func for each in function.nodes if isinstance(each, ast.Call))
    if any(
        isinstance(each, ast.Attribute) and each.attr in _FILLS and dotted(each.value) == holder for each in changed
    ):
        return False
    stores = (each for each in function.nodes if isinstance(each, ast.Subscript) and not isinstance(each.ctx, ast.Load))
    return all(each in moved for each in stores if dotted(each.value) == holder)


def _walk(walked: ast.expr, target: ast.expr) -> _Walk | None:
    names = [part.id for part in target.elts if isinstance(part, ast.Name)] if isinstance(target, ast.Tuple) else []
    pair = (names[0], names[1]) if len(names) == 2 else None
    only = target.id if isinstance(target, ast.Name) else None
    if isinstance(walked, ast.Call) and isinstance(walked.func, ast.Name) and len(walked.args) == 1:
        if walked.func.id in _COPIES:
            return _walk(walked.args[0], target)
        if walked.func.id == "enumerate" and pair is not None and dotted(walked.args[0]) is not None:
            return _Walk((walked.args[0],), False, *pair)
        return None
    if isinstance(walked, ast.Call) and isinstance(walked.func, ast.Attribute) and not walked.args:
        holder, name = walked.func.value, walked.func.attr
        if dotted(holder) is None:
            return None
        if name == "items" and pair is not None:
            return _Walk((holder,), False, *pair)
        if only is not None and name in ("keys", "values"):
            return _Walk((holder,), False, only if name == "keys" else None, only if name == "values" else None)
        return None
    if only is None:
        return None
    if isinstance(walked, (ast.Tuple, ast.List)):
        return _Walk(tuple(walked.elts), True, None, only)
    return None if dotted(walked) is None else _Walk((walked,), False, only, only)


def _leaves_in_place(node: ast.AST, walk: _Walk) -> bool:
    """Whether a statement stores no entry of what is walked over, or one that lies where the item does.

    `batch[key] = batch[key].float()`, and `batch[key] = [each.to(device) for each in value]`.
    """
    if not isinstance(node, (ast.Assign, ast.Delete)):
        return True
    holders = [dotted(each) for each in walk.holders]
    if not any(isinstance(each, ast.Subscript) and dotted(each.value) in holders for each in node.targets):
        return True
    made = node.value if isinstance(node, ast.Assign) else None
    calls = [each.func for each in subtree(made) if isinstance(each, ast.Call)] if made is not None else []
    names = {last_name(each) for each in calls}
    if made is None or not names.isdisjoint(_TO_HOST):
        return False
    if not names.isdisjoint({"to", "cuda"}):
        return True
    while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute):
        made = made.func.value
    return _is_item(made, walk)


def _moves_in(block: list[ast.stmt], walk: _Walk) -> Iterator[Move]:
    """The moves of the loop's current item in a block, where that is a tensor at least."""
    for statement in block:
        yield from _moves(statement, walk)
        test = statement.test if isinstance(statement, ast.If) else None
        if test is None or not isinstance(statement, ast.If):
            continue
        if _asks_for_tensor(test, walk):
            yield from (each._replace(of_tensors=True) for each in _moves_in(statement.body, walk))
        elif _asks_type(test, walk) and (_is_chosen(statement.orelse, walk) or _hands_on(statement.body, walk)):
            yield from (each._replace(of_tensors=True) for each in _moves_in(statement.orelse, walk))


def _is_chosen(block: list[ast.stmt], walk: _Walk) -> bool:
    """`elif isinstance(value, Tensor):`"""
    return len(block) == 1 and isinstance(block[0], ast.If) and _asks_for_tensor(block[0].test, walk)


def _hands_on(block: list[ast.stmt], walk: _Walk) -> bool:
    """Whether a call gets the item, as that of a function which calls itself for what the item holds."""
    calls = (each for statement in block for each in subtree(statement) if isinstance(each, ast.Call))
    return any(_is_item(given, walk) for call in calls for given in call.args if last_name(call.func) not in _COPIES)


def asks_for_movable(test: ast.expr) -> bool:
    """`isinstance(value, (torch.Tensor, Batch))`, `torch.is_tensor(value)`, `hasattr(value, "to")`."""
    if not isinstance(test, ast.Call) or not test.args:
        return False
    name, asked = last_name(test.func), test.args[1] if len(test.args) == 2 else None
    if name == "isinstance" and asked is not None:
        return any(last_name(each) == "Tensor" for each in (asked.elts if isinstance(asked, ast.Tuple) else [asked]))
    return name == "is_tensor" or (name == "hasattr" and isinstance(asked, ast.Constant) and asked.value in _MOVERS)


def _asks_for_tensor(test: ast.expr, walk: _Walk) -> bool:
    """The same of the loop's current item."""
    return asks_for_movable(test) and isinstance(test, ast.Call) and _is_item(test.args[0], walk)


def _asks_type(test: ast.expr, walk: _Walk) -> bool:
    """`isinstance(value, dict)`."""
    return (
        isinstance(test, ast.Call)
        and last_name(test.func) == "isinstance"
        and len(test.args) == 2
        and _is_item(test.args[0], walk)
    )


def _is_item(node: ast.expr, walk: _Walk) -> bool:
    """The loop's current item, by its own name or as `holder[key]`."""
    return (isinstance(node, ast.Name) and node.id == walk.value) or _is_entry(node, walk)


def _moves(statement: ast.stmt, walk: _Walk) -> Iterator[Move]:
    """The statement, if it moves the loop's current item."""
    call = _call_of(statement)
    if call is None:
        return
    receiver = call.func.value  # type: ignore[attr-defined]
    if not _is_item(receiver, walk):
        return
    if isinstance(statement, ast.Expr):
        yield Move(statement, call, walk, False)
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1 and _is_entry(statement.targets[0], walk):
        yield Move(statement, call, walk, True)


def _call_of(statement: ast.stmt) -> ast.Call | None:
    """The call `x.to(device)` of a statement that is that call, or that assigns its result."""
    call = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
    is_move = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _MOVERS
    return call if is_move else None  # type: ignore[return-value]


def _is_entry(node: ast.expr, walk: _Walk) -> bool:
    """`holder[key]`."""
    return (
        isinstance(node, ast.Subscript)
        and not walk.is_display
        and isinstance(node.slice, ast.Name)
        and node.slice.id == walk.key
        and dotted(node.value) == dotted(walk.holders[0])
    )
