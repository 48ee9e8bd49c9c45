"""Tensors of the host that every step copies to the device, where no loader is shown to have made them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.idioms.caches import filled_once
from torchperf_lint.idioms.transfer.buffers import kept_by_module
from torchperf_lint.idioms.transfer.construction import built_on_host, makers_on_host, table_moved
from torchperf_lint.idioms.transfer.invariants import invariant_path
from torchperf_lint.model.domain.frequency import Frequency
from torchperf_lint.model.domain.values import Device
from torchperf_lint.model.handles import last_name
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.idioms.transfer.transfers import Move
    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import FunctionInfo

_FETCHING = frozenset("cpu numpy tolist item pin_memory".split())


def copies_host_data(model: Model, move: Move) -> bool:
    """Whether the move copies a tensor that is shown to be on the host, and is no matter of a more special rule.

    These are about what the step itself builds, what a module keeps, and what the loop never changes. An observation
    of an environment has to be copied before the model can answer it, and what it answers is waited for anyway.
    """
    value = model.value(move.moved)
    if not value.holds_tensors or value.device is not Device.CPU or value.mixed:
        return False
    if move.hot_path.frequency is Frequency.ROLLOUT_LOOP or built_on_host(model, move.moved) is not None:
        return False
    moved = model.ast_of(move.moved)
    if moved is not None and comes_from_device(model, model.function_of(move.site), moved):
        return False
    has_own_rule = invariant_path(model, move) or kept_by_module(model, move) or table_moved(model, move)
    return not has_own_rule and not makers_on_host(model, move) and not filled_once(model, move.site)


def comes_from_device(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """Whether the tensor is computed from what the function, or one that it calls for that, fetches from the device.

    Then it works on the host on purpose. What is pinned by hand is left alone, too.
    """
    waiting, seen = [node], set[str]()
    while waiting:
        for each in subtree(waiting.pop()):
            if isinstance(each, ast.Call) and _is_fetch(model, function, each):
                return True
            if isinstance(each, ast.Name) and each.id not in seen:
                seen.add(each.id)
                waiting += _sources(function).get(each.id, ())
    return False


def _is_fetch(model: Model, function: FunctionInfo, call: ast.Call) -> bool:
    """Whether the call fetches something from the device, or runs a function of the project that does."""
    if _fetches(call) and isinstance(call.func, ast.Attribute):
        owner, held = call.func.value, model.value_in(function, call.func.value)
        is_given = any(isinstance(each, ast.Name) and each.id in function.parameter_names for each in subtree(owner))
        is_here = held.device is Device.CPU and not held.mixed and not is_given  # a caller may have fetched it
        return call.func.attr == "pin_memory" or not is_here
    return _is_fetched_by(model, function, call)


def _sources(function: FunctionInfo) -> dict[str, list[ast.expr]]:
    """By name, the expressions that assignments and loops of the function give it, as a whole or in parts."""
    return function.note(("sources", function), lambda: _sources_in(function))


def _sources_in(function: FunctionInfo) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for node in function.nodes:
        if isinstance(node, ast.Assign):
            targets, source = node.targets, node.value
        elif isinstance(node, (ast.AugAssign, ast.NamedExpr, ast.AnnAssign)) and node.value is not None:
            targets, source = [node.target], node.value
        elif isinstance(node, (ast.For, ast.comprehension)):
            targets, source = [node.target], node.iter
        else:
            continue
        for each in (part for target in targets for part in subtree(target) if isinstance(part, ast.Name)):
            found.setdefault(each.id, []).append(source)
    return found


def _is_fetched_by(model: Model, function: FunctionInfo, call: ast.Call) -> bool:
    """Whether the call runs a function of the project that fetches something from the device."""
    called = model.value_in(function, call.func).function
    nodes = () if called is None else called.nodes
    return any(
        isinstance(each, ast.Call) and last_name(each.func) in ("cpu", "to") and _fetches(each) for each in nodes
    )


def _fetches(call: ast.Call) -> bool:
    """`x.cpu()`, `x.to("cpu")`, `x.pin_memory()`, by the name: what is there already is no common receiver."""
    if not isinstance(call.func, ast.Attribute):
        return False
    to_host = [each for each in call.args if isinstance(each, ast.Constant) and each.value == "cpu"]
    return call.func.attr in _FETCHING or (call.func.attr == "to" and bool(to_host))
