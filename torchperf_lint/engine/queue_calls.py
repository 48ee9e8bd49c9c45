"""What calls do to the device's queue, by the names of what they call and the form of their arguments alone."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import distributions_api, launches
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.syntax.names import last_name

if TYPE_CHECKING:
    from torchperf_lint.model.syntax.index import FunctionInfo


def runs_its_body(function: FunctionInfo) -> bool:
    """Whether a call of the function runs its body at once, and nothing else: by no decorator's wrapper."""
    if isinstance(function.node, ast.AsyncFunctionDef) or function.is_generator:
        return False
    names = (last_name(each.func if isinstance(each, ast.Call) else each) or "" for each in function.decorators)
    return all(name in launches.RUN_THE_BODY for name in names)


def checked_arguments(call: ast.Call, ref: str, given: list[ast.expr]) -> list[ast.expr]:
    """The arguments for which a function of torch looks for errors."""
    if ref == distributions_api.NORMAL:
        return [*call.args[1:2], *(keyword.value for keyword in call.keywords if keyword.arg == "std")]
    return given if ref in launches.CHECKED else []


def is_small(ref: str) -> bool:
    """Whether a library's function launches a few short kernels at most."""
    if ref in launches.SMALL_ELSEWHERE:
        return True
    name = ref.rpartition(".")[2]
    is_of_torch = ref.startswith("torch.") and not ref.startswith("torch.distributed.")
    return is_of_torch and (name in launches.SMALL_FUNCTIONS or name in launches.SMALL_LOSSES)


def surely_waits(call: ast.Call) -> bool:
    """Whether a copy asks for no copy without a wait: neither by name nor by position, nor in `**options`."""
    names = {keyword.arg for keyword in call.keywords}
    last = 1 if last_name(call.func) == "cuda" else 2
    return names.isdisjoint({"non_blocking", None}) and len(call.args) <= last and not is_spread(call)


def is_of_parts(call: ast.Call, name: str, owner: Kind) -> bool:
    """Whether a call goes over a module's parts, or drops the gradients of them."""
    if name == "zero_grad":
        drops = all(each.arg == "set_to_none" and _is_true(each.value) for each in call.keywords)
        return owner in (Kind.MODULE, Kind.OPTIMIZER) and not call.args and drops
    return owner is Kind.MODULE and name in launches.OF_MODULES


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def moves_bar(call: ast.Call) -> bool:
    """`progress_bar.update(1)`: whether a progress bar by its name is moved, closed or shown again."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in launches.OF_BARS:
        return False
    return launches.BARS.search((last_name(call.func.value) or "").lower()) is not None


def given_to(call: ast.Call) -> list[ast.expr]:
    """All arguments of a call, those by position first."""
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def is_spread(call: ast.Call) -> bool:
    """Whether a call spreads a sequence, so that positions say nothing."""
    return any(isinstance(each, ast.Starred) for each in call.args)


def is_of_schedule(call: ast.Call, func: ast.Attribute) -> bool:
    """`scheduler.step()`, perhaps with a metric: it reckons with Python's numbers."""
    return (
        func.attr == "step"
        and len(call.args) + len(call.keywords) < 2
        and (last_name(func.value) or "").lower().endswith(("scheduler", "sched"))
    )


def last_asked(test: ast.expr, *, holds: bool) -> ast.expr | None:
    """The last operand of a test, where it has been asked if the test holds, or does not: `b` of `a and b`."""
    sign = ast.And if holds else ast.Or
    return test.values[-1] if isinstance(test, ast.BoolOp) and isinstance(test.op, sign) else None
