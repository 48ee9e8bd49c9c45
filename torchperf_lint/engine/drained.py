"""Waits behind others with no work between: the queue is drained already."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.engine.device_queue import Queue
    from torchperf_lint.engine.queue_events import Event
    from torchperf_lint.model.syntax.index import Place

_PASSES_ON = (ast.If, ast.With, ast.AsyncWith)
_FARTHEST = 20
"""The blocks around a wait, and the statements of each, that are looked at before it: other files have long blocks."""


def waited_before(queue: Queue, place: Place, node: ast.expr) -> Event | None:
    """The wait before this part of the statement, in straight code of the same pass, with no work launched between."""
    before = next((each for each in _before(queue, place, node) if not each.waits or each.certain), None)
    return before if before is not None and before.waits else None


def _before(queue: Queue, place: Place, node: ast.expr) -> Iterator[Event]:
    """The events before a part of a statement, the last one first, up to the beginning of its loop or function."""
    function, own = place.function, queue.of_head(place.function, place.statement, node)
    at = next((at for at, each in enumerate(own) if each.node is node and each.waits), None)
    if at is None or isinstance(place.statement, ast.While):
        return  # a loop's test also comes behind the loop's body
    yield from reversed(own[:at])
    for each in itertools.islice(place.outwards(), _FARTHEST):
        for statement in reversed(each.block[max(0, each.position - _FARTHEST) : each.position]):
            yield from (event for event in reversed(queue.of_statement(function, statement)) if not event.leaves)
        if each.position > _FARTHEST:
            return
        if isinstance(each.parent, _PASSES_ON):
            yield from reversed(queue.of_head(function, each.parent))
        elif not (isinstance(each.parent, ast.Try) and each.field == "body"):
            return
