"""Conditions that a statement stands under on its way from the loop: which ones the program's user has to choose."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Edit
from torchperf_lint.model import calling
from torchperf_lint.model.evaluate import asks_about_accelerator
from torchperf_lint.model.index import last_name

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from torchperf_lint.model.heat import HeatMap
    from torchperf_lint.model.index import FunctionInfo, Index
    from torchperf_lint.model.interpret import World
    from torchperf_lint.syntax.source import Source

_EVERY_RUN = re.compile(r"rank|main_process|master|global_zero|sync_gradients|^__name__$", re.IGNORECASE)
_CHOICE = re.compile(r"empty|clear|flush|free|offload|low_|save|memory|debug|tight|limit", re.IGNORECASE)
_VERSION = re.compile(r"version|hasattr|getattr|has_|parse\(|TORCH_", re.IGNORECASE)
MOST_CALLS_UP = 4
"""How many calls lie at most between a statement and the loop that it is asked about."""


def tests_around(statement: ast.stmt, index: Index, loop: ast.stmt | None) -> Iterator[ast.expr]:
    """The tests of the branches that a statement stands in, within this loop around it or else its function."""
    current = statement
    while (parent := index.places[current].parent) is not loop and parent is not None:
        if isinstance(parent, ast.If):
            yield parent.test
        elif isinstance(parent, ast.Match):
            yield parent.subject
        current = parent


def is_for_every_run(test: ast.expr) -> bool:
    """Whether a test only asks for the accelerator, the rank or the end of accumulation: no choice of the user's."""
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if isinstance(test, ast.BoolOp):
        return all(map(is_for_every_run, test.values))
    if any(isinstance(node, (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn)) for node in ast.walk(test)):
        return False
    names = [last_name(node) or "" for node in ast.walk(test) if isinstance(node, (ast.Name, ast.Attribute))]
    if any(map(_CHOICE.search, names)):
        return False
    return asks_about_accelerator(test) is not None or any(map(_EVERY_RUN.search, names))


def runs_in_any_case(heat: HeatMap, statement: ast.stmt, function: FunctionInfo) -> bool:
    """Whether some way from a loop or a hook to the statement is free of conditions that the user chooses."""
    return _reached(heat, statement, function, frozenset({function}))


def _reached(heat: HeatMap, statement: ast.stmt, function: FunctionInfo, seen: frozenset[FunctionInfo]) -> bool:
    within = heat.within(statement)
    if within is None or not all(map(is_for_every_run, tests_around(statement, function.index, within.loop))):
        return False
    if within.loop is not None or heat.own_heat(function) is not None:
        return True
    if len(seen) > MOST_CALLS_UP:
        return False
    return any(
        record.function not in seen
        and (says or calling.reaches(heat.world, record, function))
        and _reached(heat.home(record.function), record.statement, record.function, seen | {record.function})
        for record, says in heat.calls_of(function)
    )


def is_unconditional(world: World, statement: ast.stmt, function: FunctionInfo) -> bool:
    """Whether the statement runs in every run of the program, as far as its file and the calls of its function tell."""
    return _in_every_run(world, statement, function, frozenset({function}))


def _in_every_run(world: World, statement: ast.stmt, function: FunctionInfo, seen: frozenset[FunctionInfo]) -> bool:
    places = function.index.places
    current: ast.stmt | None = statement
    while current is not None:
        parent = places[current].parent
        if isinstance(parent, ast.Try) and places[current].field == "handlers":
            return False
        current = parent
    if not all(map(is_for_every_run, tests_around(statement, function.index, None))):
        return False
    callers = [each for each in calling.possible_callers(world, function) if each.function not in seen]
    if not callers or len(seen) > MOST_CALLS_UP:
        return not _CHOICE.search(function.name)
    return any(_in_every_run(world, each.statement, each.function, seen | {each.function}) for each in callers)


def has_fallback(statement: ast.stmt, index: Index) -> bool:
    """Whether a `try` or a question about versions around the statement chooses between it and something else."""
    current: ast.stmt | None = statement
    while current is not None:
        if isinstance(current, ast.Try) and current is not statement and current.handlers:
            return True
        current = index.places[current].parent
    return any(map(_VERSION.search, map(ast.unparse, tests_around(statement, index, None))))


def settings_made(index: Index, names: Collection[str]) -> Iterator[tuple[ast.Subscript, ast.stmt, str]]:
    """Plain assignments `os.environ["NAME"] = "value"` for these names: the target, the statement and the value."""
    for statement in index.places:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Constant):
            continue
        for target in statement.targets:
            if isinstance(target, ast.Subscript) and last_name(target.value) == "environ":
                key = target.slice.value if isinstance(target.slice, ast.Constant) else None
                if key in names:
                    yield target, statement, str(statement.value.value)


def removed(source: Source, index: Index, statement: ast.stmt, others: Callable[[ast.stmt], bool]) -> Edit | None:
    """Take a statement out of its block, with an `if` about the accelerator that holds nothing else.

    `others` tells which statements go, too. None where rows hold other code or a comment, or where the block must
    not be empty.
    """
    place = index.places[statement]
    if all(each is statement or others(each) for each in place.block):
        around = place.parent
        if not isinstance(around, ast.If) or around.orelse or not is_for_every_run(around.test):
            return None
        if place.field != "body" or index.places[around].field == "orelse":
            return None
        return removed(source, index, around, others)
    rows = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    text = [source.line(row) for row in rows]
    before = text[0].encode()[: statement.col_offset]
    after = text[-1].encode()[statement.end_col_offset or 0 :]
    if before.strip() or after.strip() or any("#" in line for line in text):
        return None
    end = source.line_starts[rows[-1]] if rows[-1] < len(source.line_starts) else len(source.utf8)
    return Edit(source.line_starts[rows[0] - 1], end, b"")
