"""Methods of a base class that a method calls by `super()`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.domain.values import Kind, Value

if TYPE_CHECKING:
    from torchperf_lint.model.domain.frames import Env
    from torchperf_lint.model.domain.interfaces import ExpressionValues


def by_super(evaluator: ExpressionValues, node: ast.Attribute, env: Env) -> Value | None:
    """`super().name` in a method: the inherited method of its own object; None if no such method is known."""
    function, call = evaluator.frame.function, node.value
    is_super = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "super"
    own = env.get(function.self_name or "") if is_super and function.cls is not None else None
    if own is None or function.cls is None:
        return None
    for owner in evaluator.inference.lineage(function.cls)[1:]:
        if node.attr in owner.methods:
            return Value(Kind.METHOD, element=own, ref=node.attr, function=owner.methods[node.attr])
    bases = evaluator.inference.library_bases(function.cls)
    if own.kind is not Kind.MODULE or not bases:
        return None
    base = Value(Kind.MODULE, own.device, ref=bases[0], because=own.because)
    return Value(Kind.METHOD, own.device, element=base, ref=node.attr, because=own.because)
