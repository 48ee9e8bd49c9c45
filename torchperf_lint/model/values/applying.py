"""Library functions that call what they are given: `partial(f, x)`, `reduce(f, xs)`, `checkpoint(f, x)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.model.domain.values import UNKNOWN, Kind, Value, join_all
from torchperf_lint.model.values import records
from torchperf_lint.model.values.devices import named_device
from torchperf_lint.model.values.modules import module_call
from torchperf_lint.model.values.tensors import element_of

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable

    from torchperf_lint.model.domain.interfaces import ExpressionValues

    Call = Callable[[ExpressionValues, ast.Call, str, list[Value], dict[str, Value]], Value]

PARTIAL = "functools.partial"
_SETTINGS = frozenset("use_reentrant context_fn determinism_check debug preserve_rng_state".split())
_CHECKPOINTS = frozenset({"torch.utils.checkpoint.checkpoint"})
_CALL_WITH_STATE = frozenset({"torch.func.functional_call", "torch.nn.utils.stateless.functional_call"})
_MAPPED = frozenset({"torch.vmap", "torch.func.vmap", "torch.compile", "torch.jit.script"})
_REPLACING = frozenset({"dataclasses.replace", "copy.replace", "attr.evolve", "attrs.evolve"})
"""Functions that copy an object, with other values of some fields."""


def applied(
    evaluator: ExpressionValues,
    node: ast.Call,
    ref: str,
    arguments: list[Value],
    keywords: dict[str, Value],
    library_call: Call,
) -> Value | None:
    """The result of such a function; None for another one, or if nothing shows what it is given."""
    if not arguments:
        return None
    first, *rest = arguments
    if ref == PARTIAL:
        given = [*enumerate(rest), *{**keywords, **_devices(node, keywords)}.items()]
        return Value(Kind.INSTANCE, ref=PARTIAL, element=first, items=tuple(given), created=node)
    if ref in _MAPPED and first.kind is Kind.FUNCTION:
        return Value(Kind.INSTANCE, ref=PARTIAL, element=first, items=(), created=node)
    if ref in _CHECKPOINTS:
        named = {key: value for key, value in keywords.items() if key not in _SETTINGS}
        return called(evaluator, node, first, rest, named, library_call)
    if ref == "functools.reduce" and rest:
        item = element_of(rest[0])
        start = [rest[1]] if len(rest) > 1 else []
        return called(evaluator, node, first, [join_all([item, *start]), item], {}, library_call)
    if ref in _CALL_WITH_STATE and first.kind is Kind.MODULE and len(rest) > 1:
        passed = [value for _, value in rest[1].items or ()] if rest[1].kind is Kind.CONTAINER else [rest[1]]
        return module_call(evaluator, first, passed, {})
    if ref == "dataclasses.asdict" or (ref == "builtins.vars" and first.items is not None):
        return records.as_mapping(first)
    if ref in _REPLACING:
        return records.replaced(first, keywords)
    return None


def _devices(node: ast.Call, keywords: dict[str, Value]) -> dict[str, Value]:
    """`device=device` of `partial`, whose name may tell what it is; a call of the result does not show it."""
    stated = next((each.value for each in node.keywords if each.arg == "device"), None)
    device = None if stated is None else named_device(stated, keywords["device"])
    return {} if device is None else {"device": Value(Kind.DEVICE, device)}


def called(
    evaluator: ExpressionValues,
    node: ast.Call,
    callee: Value,
    arguments: list[Value],
    keywords: dict[str, Value],
    library_call: Call,
) -> Value | None:
    """What a value returns when it is called; None if nothing shows what it is."""
    if callee.kind is Kind.FUNCTION and callee.function is not None:
        return evaluator.inference.called(callee.function, arguments, keywords)
    if callee.kind is Kind.METHOD and callee.function is not None:
        bound = [] if callee.function.is_static else [callee.element or UNKNOWN]
        return evaluator.inference.called(callee.function, [*bound, *arguments], keywords)
    if callee.kind is Kind.MODULE:
        return module_call(evaluator, callee, arguments, keywords)
    if callee.kind is Kind.LIBRARY and callee.ref is not None:
        return library_call(evaluator, node, callee.ref, arguments, keywords)
    if callee.ref == PARTIAL and callee.element is not None:
        bound = [value for key, value in callee.items or () if isinstance(key, int)]
        named = {str(key): value for key, value in callee.items or () if isinstance(key, str)}
        return called(evaluator, node, callee.element, [*bound, *arguments], {**named, **keywords}, library_call)
    return None
