"""Rollout loops: each pass gives an action to an environment and takes what it returns."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import environments
from torchperf_lint.model.syntax.index import last_name

if TYPE_CHECKING:
    from torchperf_lint.model.domain.frequency import Loop
    from torchperf_lint.model.syntax.index import CallRecord, FunctionInfo


def stepped_in(loop: Loop, function: FunctionInfo) -> CallRecord | None:
    """The call that steps an environment in every pass of the loop; None if there is none."""
    for record in function.calls_made:
        if steps_environment(record) and record.place.loops()[:1] == [loop]:
            return record
    return None


def steps_environment(record: CallRecord) -> bool:
    """`obs, reward, done, info = x.step(action)`: one of as many results as Gym gives, or by the name `env`."""
    func, statement = record.call.func, record.statement
    if not isinstance(func, ast.Attribute) or func.attr != environments.STEPS_IT or not record.call.args:
        return False
    unpacked = isinstance(statement, ast.Assign) and statement.value is record.call
    targets = statement.targets[0] if unpacked else None  # type: ignore[attr-defined]
    if isinstance(targets, (ast.Tuple, ast.List)) and len(targets.elts) in environments.RESULTS:
        return True
    return environments.NAMES.search((last_name(func.value) or "").lower()) is not None
