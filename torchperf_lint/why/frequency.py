"""How often a statement runs, and where that is not known, the first link of the way to a loop that is missing."""

from __future__ import annotations

import ast
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Because
from torchperf_lint.model.domain.flows import still_handed
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.reveal import describe
from torchperf_lint.model.syntax.index import CallRecord
from torchperf_lint.why.answer import HowOften
from torchperf_lint.why.inside import is_batch_loop, is_epoch_loop

if TYPE_CHECKING:
    from torchperf_lint.model.domain.flows import Handing
    from torchperf_lint.model.domain.frequency import Loop
    from torchperf_lint.model.syntax.call_sites import CallSite
    from torchperf_lint.model.syntax.index import FunctionInfo
    from torchperf_lint.why.inside import Inside

_MOST_FUNCTIONS = 60
"""Functions that the search looks at; a person follows no longer way."""


class _Way(NamedTuple):
    """Calls that lead outwards from a function, each with whether its arguments are those of the called function.

    `steps` says them for people; `loop` is the position of the first loop among them that is none over batches;
    `handed` are the calls that must come next, because they hand over what the way has called.
    """

    calls: tuple[tuple[CallSite, bool], ...] = ()
    steps: tuple[Because, ...] = ()
    loop: int | None = None
    handed: tuple[Handing, ...] = ()

    def with_step(self, step: Because) -> _Way:
        """The way with one more step that is said of it."""
        return self._replace(steps=(*self.steps, step))

    def with_loop(self, around: Because | None) -> _Way:
        """The way through a loop, if there is one."""
        if around is None:
            return self
        return self.with_step(around)._replace(loop=len(self.steps) if self.loop is None else self.loop)


class _End(NamedTuple):
    """A way upwards that ends before a loop; of several, the one with the highest rank is told."""

    rank: int
    way: _Way
    missing: Because

    @property
    def steps(self) -> tuple[Because, ...]:
        """The steps of the way and the missing link. Where code runs once, that is a loop which takes no batches."""
        if self.rank == _ONCE and self.way.loop is not None:
            return self.way.steps[: self.way.loop + 1]
        return (*self.way.steps, self.missing)


# The ranks: how near the way came to a loop over batches.
_BY_NAME, _ONCE, _NO_CALLER, _OTHER_LOOP, _LEFT, _NOT_SHOWN, _GUARDED = range(7)


def how_often(inside: Inside, statement: ast.stmt) -> HowOften:
    """How often a statement of the file runs, with the evidence."""
    hot_path = inside.hot_path(statement)
    if hot_path is not None:
        return HowOften(True, f"In every step: {hot_path.where}.", hot_path.because)
    return HowOften(False, "Not known to run in every step.", _nearest_end(inside, statement).steps)


def _nearest_end(inside: Inside, statement: ast.stmt) -> _End:
    """The best of the ways upwards, by rank, then by length."""
    function = inside.place(statement).function
    within = _end_within(inside, statement, function, _Way())
    if within is not None:
        return within
    ends: list[_End] = []
    pending = deque([(function, _Way().with_loop(_loop_around(inside, statement, function)))])
    seen = {function}
    while pending and len(seen) <= _MOST_FUNCTIONS:
        found, above = _ends_above(inside, statement, *pending.popleft())
        ends += found
        for caller, way in above:
            if caller not in seen:
                seen.add(caller)
                pending.append((caller, way))
    unknown = _End(_ONCE, _Way(), _at(function, statement.lineno, "the way to a loop is not known"))
    return max(ends, key=lambda end: (end.rank, -len(end.way.steps)), default=unknown)


def _ends_above(
    inside: Inside, statement: ast.stmt, current: FunctionInfo, way: _Way
) -> tuple[list[_End], list[tuple[FunctionInfo, _Way]]]:
    """The ways that end at the calls of a function, and the functions with calls at which a way goes on."""
    if current.is_module:
        row = way.steps[-1].row if way.steps else statement.lineno
        return [_End(_ONCE, way, _at(current, row, "the top level of a file runs once"))], []
    ends: list[_End] = []
    above: list[tuple[FunctionInfo, _Way]] = []
    function = inside.place(statement).function
    for (record, says, handed), reaches in inside.calls_of(current, way.handed):
        if record.function is current:
            continue
        step = _at(record.function, record.node.lineno, says or f"`{current.name}` is called here")
        if isinstance(record, CallRecord) and not reaches:
            ends += _by_name_only(inside, record, current, way)
            continue
        calls = (*way.calls, (record, not says))
        if not inside.arrives(statement, function, calls):
            text = f"the arguments of this call of `{current.name}` exclude the row"
            ends.append(_End(_GUARDED, way, step._replace(text=text)))
            continue
        if inside.is_never_so(statement, function, calls):
            text = f"the flags of the object whose `{current.name}` is called here exclude the row"
            ends.append(_End(_GUARDED, way, step._replace(text=text)))
            continue
        blocked = _end_within(inside, record.statement, record.function, way.with_step(step))
        if blocked is not None:
            ends.append(blocked)
        elif inside.runs_in_loop(record.statement, record.function):
            ends.append(_End(_GUARDED, way, step._replace(text=f"{step.text}, but not in every step")))
        else:
            here = step if says else step._replace(text=f"{step.text}, in no loop over batches")
            around = _loop_around(inside, record.statement, record.function)
            further = way._replace(calls=calls, handed=still_handed(handed, record.function))
            above.append((record.function, further.with_step(here).with_loop(around)))
    if not ends and not above:
        text = f"no call of {_named(current)} is known"
        if inside.may_be_hook(current):
            text += ", nor a framework that calls it in every step"
        ends = [_End(_NO_CALLER, way, _at(current, current.row, text))]
    return ends, above


def _by_name_only(inside: Inside, record: CallRecord, current: FunctionInfo, way: _Way) -> list[_End]:
    """A call that may mean the function by its name, where nothing shows that it does."""
    func = record.call.func
    text = f"`{_short(record.call.func)}(...)` may mean {_named(current)} by its name"
    if isinstance(func, ast.Attribute):
        receiver = inside.value(record.function, func.value)
        if receiver.kind is not Kind.UNKNOWN and receiver.cls is not None:
            return []  # it is a method of another class
        text += f", but what `{_short(func.value)}` is is not known"
    elif not isinstance(func, ast.Name):
        text += ", but what is called is not known"
    else:
        text += ", but nothing shows that it does"
    rank = _NOT_SHOWN if inside.hot_path_of_call(record) is not None else _BY_NAME
    return [_End(rank, way, _at(record.function, record.call.lineno, text))]


def _end_within(inside: Inside, statement: ast.stmt, function: FunctionInfo, way: _Way) -> _End | None:
    """What, within its own function, keeps a statement from running in every step; None if nothing does."""
    if not inside.arrives(statement, function, ()):
        missing = _at(function, statement.lineno, "no arguments lead to this branch")
        return _End(_GUARDED, way, missing)
    if inside.runs_in_loop(statement, function):
        return None
    guard = inside.guard(statement, function)
    if guard is not None:
        text = "it runs only where an error is handled"
        if guard.text != "except":
            text = f"`{guard.text}` is a sampling guard: it holds in few steps"
        return _End(_GUARDED, way, _at(function, guard.row, text))
    loops = inside.loops_around(statement, function)
    for loop, info in loops:
        if is_batch_loop(info):
            jump = inside.leaves(statement, function)
            text = "the branch is left at once" if jump is None else f"`{jump.text}` leaves the loop after it"
            return _End(_LEFT, way, _at(function, loop.lineno if jump is None else jump.row, text))
        if is_epoch_loop(info):
            text = "it runs once per pass of this loop over epochs: the loops over batches are inside it"
            return _End(_LEFT, way, _at(function, loop.lineno, text))
    is_called = any(reaches for _, reaches in inside.calls_of(function))
    if inside.runs_as_its_function(statement, function) and (is_called or not loops):
        return None
    if loops:
        return _End(_OTHER_LOOP, way, _no_batch_loop(inside, loops[0][0], function))
    jump = inside.leaves(statement, function)
    if jump is not None and not _is_at_top(function):
        return _End(_LEFT, way, _at(function, jump.row, f"`{jump.text}` ends the run, or the call, after it"))
    return None


def _no_batch_loop(inside: Inside, loop: Loop, function: FunctionInfo) -> Because:
    """Why a loop is none that takes a batch per pass."""
    if isinstance(loop.body[-1], ast.Break):
        text = "it makes one pass: it ends in `break`"
    elif isinstance(loop, ast.While):
        text = "nothing in it shows a training step, such as `loss.backward()`"
    else:
        value = inside.value(function, loop.iter)
        iterable = _short(loop.iter)
        called = loop.iter.func if isinstance(loop.iter, ast.Call) else None
        if isinstance(called, ast.Name) and called.id in ("range", "trange"):
            text = "it only counts, and nothing in it shows a training step, such as `loss.backward()`"
        elif value.kind is Kind.UNKNOWN:
            text = f"`{iterable}` is not shown to be a loader"
        else:
            text = f"`{iterable}` is no loader: {describe(value)}"
    return _at(function, loop.lineno, f"this loop is no loop over batches: {text}")


def _loop_around(inside: Inside, statement: ast.stmt, function: FunctionInfo) -> Because | None:
    """The innermost loop around a statement in its function."""
    loops = inside.loops_around(statement, function)
    return _no_batch_loop(inside, loops[0][0], function) if loops else None


def _is_at_top(function: FunctionInfo) -> bool:
    return function.is_module


def _at(function: FunctionInfo, row: int, text: str) -> Because:
    return Because(row, text, function.index.path)


def _named(function: FunctionInfo) -> str:
    return f"`{function.cls.name}.{function.name}`" if function.cls is not None else f"`{function.name}`"


def _short(node: ast.expr) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 50 else f"{text[:47]}..."
