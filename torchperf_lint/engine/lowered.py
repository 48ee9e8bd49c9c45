"""What makes a wait matter less than its rule's severity says, with the reason in words."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine import same_pass
from torchperf_lint.engine.declare import Category
from torchperf_lint.engine.device_queue import Queue
from torchperf_lint.engine.drained import drained
from torchperf_lint.engine.findings import Because, Loss, Severity
from torchperf_lint.engine.left_off import left_off
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.engine.declare import Rule
    from torchperf_lint.engine.findings import Finding
    from torchperf_lint.model import HotPath, Model

Found = Sequence[tuple["Rule", "Finding"]]


class Link(NamedTuple):
    """A part of a statement on the way to a site, the site itself or a call that leads there, in a file's model."""

    model: Model
    statement: ast.stmt
    node: ast.expr | None


class Lowered(NamedTuple):
    """The most severe that a finding is then, and why; `behind` is the start of the finding that has waited before."""

    at_most: Severity
    because: Because | None
    behind: int | None = None


def lowered(rule: Rule, finding: Finding, hot_path: HotPath, way: Sequence[Link], found: Found) -> Lowered | None:
    """The first reason that makes a wait of a step a note, or else one that makes it a warning."""
    best: Lowered | None = None
    for each in _reasons(rule, finding, hot_path, way, found):
        if best is None or best.at_most.rank < each.at_most.rank:
            best = each._replace(behind=each.behind if best is None or best.behind is None else best.behind)
        if best.at_most is Severity.NOTE:
            break
    return best


def _reasons(rule: Rule, finding: Finding, hot_path: HotPath, way: Sequence[Link], found: Found) -> Iterator[Lowered]:
    if not way or rule.loses is not Loss.WAIT:
        return
    here = way[0]
    if _is_guard(here):
        yield Lowered(Severity.NOTE, Because(here.statement.lineno, "what this check does is its meaning"))
    if here.node is not None:
        yield from _drained(rule, here, found)
    for link in way:
        off = left_off(link.model, link.statement)
        if off is not None:
            yield Lowered(Severity.NOTE, off)
    if hot_path.evaluates:
        row = hot_path.because[-1] if hot_path.because else Because(here.statement.lineno, "")
        yield Lowered(Severity.WARNING, Because(row.row, "nothing but evaluations is seen to run this", row.path))
        work = next(filter(None, (same_pass.host_work(*each) for each in way)), None)
        if work is not None:
            text = f"`{ast.unparse(work.call.func)}(...)` works on the host in the same pass of the evaluation"
            yield Lowered(Severity.NOTE, Because(work.call.lineno, text, work.function.path))


def _is_guard(here: Link) -> bool:
    """Whether the part decides nothing but whether an exception ends the run: `assert`, `if ...: raise`."""
    statement = here.statement
    is_raise = isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Raise) and not statement.orelse
    if not is_raise and not isinstance(statement, ast.Assert):
        return False
    assert isinstance(statement, (ast.If, ast.Assert))
    return any(each is here.node for each in subtree(statement.test))


class _Waits(NamedTuple):
    """The queue of a file's code, and what rules report of its waits."""

    queue: Queue
    reported: dict[ast.AST, tuple[Rule, Finding]]


def _drained(rule: Rule, here: Link, found: Found) -> Iterator[Lowered]:
    code = here.model.code
    if code.names("cuda.stream") or code.calls("Stream", "ExternalStream"):
        return  # each stream has a queue of its own
    waits = here.model.remember("reported waits", lambda: _reported(here.model, found))
    assert here.node is not None
    reason = drained(waits.queue, here.model, here.statement, here.node, rule.works_first)
    if reason is None:
        return
    other, first = waits.reported.get(reason.waited, (None, None))
    behind = None if first is None else first.site.start
    if other is rule and rule.category is Category.TRANSFER:
        yield Lowered(Severity.ERROR, None, behind)  # one edit sends what both pack, and only then neither waits
    else:
        yield Lowered(Severity.NOTE, reason.because, behind)


def _reported(model: Model, found: Found) -> _Waits:
    reported: dict[ast.AST, tuple[Rule, Finding]] = {}
    for rule, finding in found:
        node = model.ast_of(finding.site.node) if rule.loses is Loss.WAIT and rule.is_paid_here else None
        if node is not None:
            reported[node] = rule, finding
    return _Waits(Queue(model, reported), reported)
