"""Optimizers: their parameter groups, and the state that an optimizer of the program stores per parameter."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.domain.values import NUMBER, UNKNOWN, Device, Kind, Value, container, join_all
from torchperf_lint.model.syntax.index import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import ClassInfo, FunctionInfo

_NUMBERS = tuple((key, NUMBER) for key in ("lr", "weight_decay", "momentum", "initial_lr", "eps"))


def param_groups(inference: ValueQuestions, optimizer: Value, step: Because) -> Value:
    """`optimizer.param_groups`: numbers, and parameters, which live where the model is trained."""
    by_name = optimizer.cls.name if optimizer.cls is not None else optimizer.ref or ""
    on_host = inference.cpu_only or "cpu" in by_name.lower()
    parameter = UNKNOWN if on_host else Value(Kind.TENSOR, Device.LIKELY, because=(step,))
    return container(container(None, [*_NUMBERS, ("params", container(parameter))], "dict"))


def state(inference: ValueQuestions, cls: ClassInfo) -> Value:
    """`self.state` in an optimizer's class: entries per parameter, joined over what its methods store."""
    stored: dict[object, list[Value]] = {}
    for owner in inference.lineage(cls):
        for function in owner.methods.values():
            for key, node in _stores(function):
                value = UNKNOWN if node is None else inference.frame_value(function, node)
                stored.setdefault(key, []).append(value._replace(constant=None, created=None))
    items = [(key, join_all(values)) for key, values in sorted(stored.items(), key=str)]
    return container(container(None, items, "dict"), ref="dict")


def _stores(function: FunctionInfo) -> Iterator[tuple[object, ast.expr | None]]:
    """The names of a parameter's state that a method stores, with the stored expression; None if unpacked."""
    held = f"{function.self_name}.state"
    assigned = [node for node in function.nodes if isinstance(node, ast.Assign)]
    names = {
        target.id
        for node in assigned
        for target in node.targets
        if isinstance(target, ast.Name) and _is_entry(node.value, held)
    }
    for node in assigned:
        for target in node.targets:
            for part in target.elts if isinstance(target, ast.Tuple) else (target,):
                if not isinstance(part, ast.Subscript) or not isinstance(part.slice, ast.Constant):
                    continue
                if _is_entry(part.value, held) or (isinstance(part.value, ast.Name) and part.value.id in names):
                    yield part.slice.value, node.value if part is target else None


def _is_entry(node: ast.expr, held: str) -> bool:
    """`self.state[p]`."""
    return isinstance(node, ast.Subscript) and dotted(node.value) == held
