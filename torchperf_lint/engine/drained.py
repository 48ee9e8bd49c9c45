"""Waits behind others with no work between: the queue is drained already."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.device_queue import Queue, has_several_queues
from torchperf_lint.engine.queue_calls import runs_its_body
from torchperf_lint.engine.queue_events import Event
from torchperf_lint.engine.same_pass import Link
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchperf_lint.model import Model
    from torchperf_lint.model.syntax.index import FunctionInfo, Place

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_HEADS = (ast.If, ast.With, ast.AsyncWith, ast.For, ast.AsyncFor)
_MOST_CALLERS = 8
"""The calls of a function that are asked, each for what stands before it."""

_FARTHEST = 20
"""The blocks around a wait, and the statements of each, that are looked at before it: other files have long blocks."""


class Earlier(NamedTuple):
    """A wait that has drained the queue, in a file's model: in the function of the first part of a way, or above it."""

    event: Event
    model: Model
    is_in_function: bool
    is_of_last_pass: bool


class _Step(NamedTuple):
    """An event on the way back from a wait, and whether it is of the pass before."""

    event: Event
    is_of_last_pass: bool = False


_UNKNOWN = _Step(Event(ast.Constant(None), ast.Pass(), waits=False))
"""Where it is not known what comes before, which may launch work."""
_BEGINNING = _Step(Event(ast.Constant(None), ast.Pass(), waits=False))
"""The beginning of a function."""


def waited_before(way: Sequence[Link], *, past_uploads: bool) -> Earlier | None:
    """The wait before the first part of the way, with no work launched between; that may be in the pass before.

    The code goes straight from it to the part: in its function, and before the calls that lead there, as long as
    nothing else calls these functions, or the other calls stand behind waits of their own functions. `past_uploads`
    says that copies to the device are no such waits.
    """
    for link, caller in itertools.zip_longest(way, way[1:]):
        for step in _before(link, way[0], through_loops=past_uploads):
            if step is _BEGINNING:
                break
            if not _is_passed(step.event, past_uploads=past_uploads):
                earlier = Earlier(step.event, link.model, link is way[0], step.is_of_last_pass)
                return earlier if step.event.waits else None
        function = link.model.place_of(link.statement).function
        if caller is None or not _comes_from(link.model, function, caller, way[0], past_uploads=past_uploads):
            return None
    return None


def _comes_from(model: Model, function: FunctionInfo, caller: Link, first: Link, *, past_uploads: bool) -> bool:
    """Whether the call on the way runs nothing else before the function, and the other calls find the queue drained."""
    calls = model.callers(function)
    others = [each for each in calls if each.call is not caller.node]
    if not runs_its_body(function) or len(calls) > _MOST_CALLERS or len(others) == len(calls):
        return False
    links = (Link(model.home(each.function), each.statement, each.call) for each in others)
    return all(_stands_behind_wait(each, first, past_uploads=past_uploads) for each in links)


def _stands_behind_wait(link: Link, first: Link, *, past_uploads: bool) -> bool:
    """Whether a call finds the queue drained by what stands before it in its own function."""

    def answer() -> bool:
        before = _before(link, first, through_loops=past_uploads)
        counted = (each.event for each in before if not _is_passed(each.event, past_uploads=past_uploads))
        return next(counted).waits  # at last comes one that does not wait

    return first.model.remember(("behind a wait", link.node, past_uploads), answer)


def _is_passed(event: Event, *, past_uploads: bool) -> bool:
    """Whether the queue may be drained before an event: it launches nothing, and is no wait that counts."""
    return event.waits and (not event.certain or (past_uploads and event.uploads))


def _before(link: Link, first: Link, *, through_loops: bool) -> Iterator[_Step]:
    """The events before a link of the way from the `first`, the last one first.

    Before the beginning of a loop over batches stands the end of its pass before, and there it ends. Other loops are
    left `through_loops` alone, where they launch nothing. At last comes the `_BEGINNING` of the function, where the
    code leads straight to the link from there.
    """
    place, node, queue = link.model.place_of(link.statement), link.node, Queue(link.model, first.model)
    function, is_call = place.function, link is not first
    own = queue.of_head(function, place.statement, node)
    at = next((at for at, each in enumerate(own) if each.node is node and each.waits), None)
    if at is None or node is None or has_several_queues(link.model):
        yield _UNKNOWN
        return
    # What a call on the way launches itself may come behind the place that it leads to; a part of a site is no other.
    # What a cut of a selection waits for, `x[mask][:n]`, comes behind the selection, which waits for itself.
    inner = node.value if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Subscript) else None
    parts = [node] if is_call else [each for each in subtree(node) if each is not inner]
    yield from (_Step(each) for each in reversed(own[:at]) if each.node not in parts or not (is_call or each.waits))
    outside = _before_statement(queue, function, place, through_loops=through_loops)
    if isinstance(place.statement, ast.While):  # its test comes behind its body, and once behind what stands before it
        last = next((each for each in outside if not _is_passed(each.event, past_uploads=through_loops)), _UNKNOWN)
        body = (_Step(each, is_of_last_pass=True) for each in queue.of_body(function, place.statement))
        outside = itertools.chain(body, [_UNKNOWN]) if last.event.waits else iter([_UNKNOWN])
    yield from outside


def _before_statement(queue: Queue, function: FunctionInfo, place: Place, *, through_loops: bool) -> Iterator[_Step]:
    """The events before the statement at a place, the last one first."""
    for each in itertools.islice(place.outwards(), _FARTHEST):
        for statement in reversed(each.block[max(0, each.position - _FARTHEST) : each.position]):
            yield from (_Step(event) for event in reversed(queue.of_statement(function, statement)) if not event.leaves)
        if each.position > _FARTHEST:
            yield _UNKNOWN
        elif isinstance(each.parent, _LOOPS) and each.field == "body" and queue.goes_over_batches(each.parent):
            yield from _pass_before(queue, function, each.parent)
        elif isinstance(each.parent, _HEADS) and _leads_on(queue, function, each, through_loops=through_loops):
            yield from (_Step(event) for event in reversed(queue.of_head(function, each.parent, chosen=each.field)))
        elif each.parent is None and not function.is_generator:
            yield _BEGINNING
            return
        elif not (isinstance(each.parent, ast.Try) and each.field == "body"):
            yield _UNKNOWN
    yield _UNKNOWN


def _leads_on(queue: Queue, function: FunctionInfo, place: Place, *, through_loops: bool) -> bool:
    """Whether nothing but the head of the statement around it comes before the block, or before a pass of it."""
    parent = place.parent
    if not isinstance(parent, _LOOPS):
        return True
    return through_loops and place.field == "body" and all(each.waits for each in queue.of_body(function, parent))


def _pass_before(queue: Queue, function: FunctionInfo, loop: ast.For | ast.AsyncFor | ast.While) -> Iterator[_Step]:
    """The last events of a pass of a loop over batches, the last one first; none if it launches nothing."""
    found: list[_Step] = []
    for event in itertools.chain(queue.of_next_pass(function, loop), queue.of_body(function, loop)):
        found.append(_Step(event, is_of_last_pass=True))
        if not event.waits:
            yield from found  # else the wait itself is all that a pass does
            return
    yield _UNKNOWN
