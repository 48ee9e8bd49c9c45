"""Waits behind others with no work between: the queue is drained already."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Because

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.engine.device_queue import Event, Queue
    from torchperf_lint.model import Model
    from torchperf_lint.model.syntax.index import Place

_PASSES_ON = (ast.If, ast.With, ast.AsyncWith)
_FARTHEST = 20
"""Statements and blocks between two waits: a file of many branches is not walked through for each of its findings."""


class Drained(NamedTuple):
    """Why a wait costs no more than its copy; `waited` is the wait before it."""

    because: Because
    waited: ast.AST


def drained(queue: Queue, model: Model, statement: ast.stmt, node: ast.expr, works_first: bool) -> Drained | None:
    """Whether a wait before this part of a statement, in straight code of the same pass, has waited for the same work.

    `works_first`: the part launches work before it waits, which no earlier wait has waited for.
    """
    before = None if works_first else _first(_before(queue, model.place_of(statement), node))
    if before is not None and before.waits:
        return Drained(Because(_row(before.node), "this row has already waited for the same work"), before.node)
    return None


def _row(node: ast.AST) -> int:
    row: int = node.lineno  # type: ignore[attr-defined]
    return row


def _first(events: Iterator[Event]) -> Event | None:
    """The first event that launches work, or certainly waits."""
    return next((each for each in events if not each.waits or each.certain), None)


def _before(queue: Queue, place: Place, node: ast.expr) -> Iterator[Event]:
    """The events before a part of a statement, the last one first, up to the beginning of its loop or function."""
    function, own = place.function, queue.of_head(place.function, place.statement)
    at = next((at for at, each in enumerate(own) if each.node is node), None)
    if at is None:
        return
    yield from (each for each in reversed(own[:at]) if not each.waits)
    for each in itertools.islice(place.outwards(), _FARTHEST):
        for statement in reversed(each.block[max(0, each.position - _FARTHEST) : each.position]):
            yield from (event for event in reversed(queue.of_statement(function, statement)) if not event.leaves)
        if each.position > _FARTHEST:
            return
        if isinstance(each.parent, _PASSES_ON):
            yield from reversed(queue.of_head(function, each.parent))
        elif not (isinstance(each.parent, ast.Try) and each.field == "body"):
            return
