"""What makes a wait matter less than its rule's severity says, with the reason in words."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine import same_pass
from torchperf_lint.engine.by_default import off_by_default
from torchperf_lint.engine.declare import Category
from torchperf_lint.engine.drained import waited_before
from torchperf_lint.engine.findings import Because, Loss, Severity
from torchperf_lint.engine.refused import refused
from torchperf_lint.engine.stops import ends_loop
from torchperf_lint.knowledge.distributions_api import CHECKED_MODE
from torchperf_lint.model.domain.frequency import Frequency
from torchperf_lint.model.syntax.names import last_name
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchperf_lint.engine.by_default import Off
    from torchperf_lint.engine.declare import Rule
    from torchperf_lint.engine.same_pass import Link
    from torchperf_lint.model import HotPath


class Lowered(NamedTuple):
    """The most severe that a finding is then, and why; `behind` is the start of the expression that waited before.

    `only_if` ends the message where an option is off by default.
    """

    at_most: Severity
    because: Because
    behind: int | None = None
    only_if: str = ""


def _only_if(unset: Off) -> str:
    """With which option the place runs, as the end of a message."""
    is_plain = isinstance(unset.default, ast.Constant) and (unset.default.value is False or unset.default.value is None)
    return f", but only if `{unset.name}` " + ("is set" if is_plain else "has another value than its default")


def lowered(rule: Rule, hot_path: HotPath, way: Sequence[Link]) -> Lowered | None:
    """The first reason that makes a wait of a step a note, or else one that makes it a warning."""
    best: Lowered | None = None
    for each in _reasons(rule, hot_path, way):
        if each.at_most is Severity.NOTE:
            return each
        best = best or each
    return best


def _reasons(rule: Rule, hot_path: HotPath, way: Sequence[Link]) -> Iterator[Lowered]:
    if not way or rule.loses is not Loss.WAIT:
        return
    here = way[0]
    if _is_guard(here):
        yield Lowered(Severity.NOTE, Because(here.statement.lineno, "what this check does is its meaning"))
    for link in way:
        option = _in_checked_mode(link)
        if option is not None:
            text = f"`{ast.unparse(option)}` asks for this check, and can be switched off"
            path = None if link.model is here.model else link.model.path
            yield Lowered(Severity.NOTE, Because(option.lineno, text, path))
    drained = _drained(rule, way)
    if drained is not None:
        yield drained
    if ends_loop(here):
        text = "the loop stops on this test, and so reads its result; a test every few passes would wait less often"
        yield Lowered(Severity.NOTE, Because(here.statement.lineno, text))
    mixed = refused(way)
    if mixed is not None:
        yield Lowered(Severity.NOTE, mixed)
    unset = off_by_default(way)
    if unset is not None:
        yield Lowered(Severity.NOTE, unset.because, only_if=_only_if(unset))
    if hot_path.evaluates:
        row = hot_path.because[-1] if hot_path.because else Because(here.statement.lineno, "")
        infers = hot_path.frequency is Frequency.INFERENCE_LOOP
        text = (
            "nothing but an inference loop repeats this in every step"
            if infers
            else "nothing but evaluations is seen to run this"
        )
        yield Lowered(Severity.WARNING, Because(row.row, text, row.path))
        work = next(filter(None, (same_pass.host_work(*each) for each in way)), None)
        if work is not None:
            text = f"`{ast.unparse(work.call.func)}(...)` works on the host in the same pass of the evaluation"
            yield Lowered(Severity.NOTE, Because(work.call.lineno, text, work.function.path))


def _is_guard(here: Link) -> bool:
    """Whether the part decides nothing but whether an exception ends the run: `assert`, `if ...: raise`."""
    statement = here.statement
    if not isinstance(statement, (ast.If, ast.Assert)):
        return False
    if isinstance(statement, ast.If) and (not isinstance(statement.body[0], ast.Raise) or statement.orelse):
        return False
    around = (each.parent for each in here.model.place_of(statement).outwards())
    if any(isinstance(each, ast.Try) and each.handlers for each in around):
        return False  # what it raises may choose a way
    return any(each is here.node for each in subtree(statement.test))


def _in_checked_mode(link: Link) -> ast.expr | None:
    """The part of a test around the place that asks for the mode in which arguments are checked."""
    for each in link.model.place_of(link.statement).outwards():
        if isinstance(each.parent, ast.If) and each.field == "body":
            test = each.parent.test
            parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
            asked = (part for part in parts if isinstance(part, (ast.Name, ast.Attribute)))
            found = next((part for part in asked if last_name(part) in CHECKED_MODE), None)
            if found is not None:
                return found
    return None


def _drained(rule: Rule, way: Sequence[Link]) -> Lowered | None:
    """The wait before it that leaves the queue empty; a batch still waits for its own copy then.

    One edit sends what several copies to the device pack, and only then neither waits: these do not count.
    """
    earlier = waited_before(way, past_uploads=rule.category is Category.TRANSFER)
    if earlier is None:
        return None
    node, here = earlier.event.node, way[0].model
    text = "this row has already waited for the same work"
    if earlier.is_of_last_pass:
        text = "the pass before ends with a wait in this row, and nothing has been launched since"
    is_beside = earlier.is_in_function and not earlier.is_of_last_pass
    start = here.source.offset(node.lineno, node.col_offset) if is_beside else None
    because = Because(node.lineno, text, None if earlier.model is here else earlier.model.path)
    return Lowered(Severity.WARNING if rule.copies_batches else Severity.NOTE, because, start)
