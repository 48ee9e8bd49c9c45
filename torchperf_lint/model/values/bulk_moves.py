"""The values of names after a loop that moves every element of a container (`syntax/bulk_moves.py`)."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.domain.values import NUMBER, STRING, UNKNOWN, Kind, Value, container
from torchperf_lint.model.syntax.index import dotted
from torchperf_lint.model.values.binding import forget_parts, hold
from torchperf_lint.model.values.tensors import element_of

if TYPE_CHECKING:
    from torchperf_lint.model.domain.frames import Env, Frame
    from torchperf_lint.model.domain.interfaces import ExpressionValues
    from torchperf_lint.model.syntax.bulk_moves import Move

_MOVED_IN_PLACE = (Kind.MODULE, Kind.METRIC)


def moved(evaluator: ExpressionValues, move: Move, env: Env) -> Env:
    """The values of the moved paths after the loop."""
    found: Env = {}
    for holder in move.walk.holders:
        path = dotted(holder)
        held = evaluator(holder, env)
        if path is None:
            continue
        if move.walk.is_display:
            found[path] = _moved_one(evaluator, move, env, None, held)
        elif held.kind is Kind.CONTAINER and held.element is not None:
            items = [(key, _moved_one(evaluator, move, env, key, item)) for key, item in held.items or ()]
            element = _moved_one(evaluator, move, env, None, held.element)
            found[path] = container(element, None if held.items is None else items, held.ref or "list")
        elif held.kind is Kind.PYTREE and move.is_put_back:
            found[path] = _moved_one(evaluator, move, env, None, element_of(held))
    return found


def note_moved(frame: Frame, moved: Env, env: Env) -> None:
    """Put the moved values into the environment after the loop."""
    for path, value in moved.items():
        if value.kind not in _MOVED_IN_PLACE:
            forget_parts(frame, path, env)
        hold(frame, path, value, env)


def _moved_one(evaluator: ExpressionValues, move: Move, env: Env, key: object, thing: Value) -> Value:
    if not move.is_put_back and thing.kind not in _MOVED_IN_PLACE:
        return thing
    if move.of_tensors and not thing.holds_tensors and thing.kind is not Kind.UNKNOWN:
        return thing
    inner, walk = env.copy(), move.walk
    receiver = move.call.func.value  # type: ignore[attr-defined]
    if walk.key is not None:
        known = STRING if isinstance(key, str) else NUMBER if isinstance(key, int) else UNKNOWN
        inner[walk.key] = known._replace(constant=key)
    if isinstance(receiver, ast.Name):
        inner[receiver.id] = thing
    else:
        inner[_path_of(receiver.value)] = container(thing)
    return evaluator(move.call, inner)


def _path_of(holder: ast.expr) -> str:
    return dotted(holder) or ""
