"""Results of calls that a function's own body does not show: by the methods that override it, by its annotation."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Unproven
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.values import UNKNOWN, Device, Kind, Value, container, join_all
from torchperf_lint.model.values import own_movers, tree_movers
from torchperf_lint.model.values.annotations import annotated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import FunctionInfo

_PROMISED = frozenset({Kind.TENSOR, Kind.NUMBER, Kind.STRING, Kind.NUMPY, Kind.DTYPE, Kind.MODULE, Kind.OPTIMIZER})


def beyond(
    inference: ValueQuestions, function: FunctionInfo, arguments: list[Value], keywords: dict[str, Value], shown: Value
) -> Value:
    """What a call returns, where the function's body shows only this much."""
    there = own_movers.result(inference, function, arguments, keywords)
    if there != UNKNOWN:
        return there
    if shown.device is not Device.UNKNOWN or shown.kind not in (Kind.UNKNOWN, Kind.PYTREE, Kind.CONTAINER):
        return shown
    if shown.kind is not Kind.CONTAINER:
        moved = tree_movers.result(inference, function, arguments, keywords)
        if moved != UNKNOWN:
            return moved
    if shown == UNKNOWN:
        shown = by_overrides(inference, function, arguments, keywords)
    return completed(shown, inference.promise(function))


def promised(inference: ValueQuestions, function: FunctionInfo) -> Value:
    """What the function's annotation says that it returns; UNKNOWN where that tells nothing.

    It never says where a tensor lives. An object counts if its class is one of the project.
    """
    annotation = getattr(function.node, "returns", None)
    if annotation is None or function.is_generator or isinstance(function.node, ast.AsyncFunctionDef):
        return UNKNOWN
    value = annotated(annotation, inference, None, function)
    return value if value is not None and _tells(value) else UNKNOWN


def _tells(value: Value) -> bool:
    if value.kind is Kind.CONTAINER:
        parts = [value.element or UNKNOWN] if value.items is None else [item for _, item in value.items]
        return any(map(_tells, parts))
    return value.kind in _PROMISED or (value.cls is not None and value.kind is Kind.INSTANCE)


def completed(shown: Value, promise: Value) -> Value:
    """What the body shows, and in place of what it does not show the promise."""
    if shown == UNKNOWN:
        return promise
    if shown.kind is not Kind.CONTAINER or promise.kind is not Kind.CONTAINER or shown.ref != promise.ref:
        return shown
    if shown.items is None or promise.items is None or [key for key, _ in shown.items] != [k for k, _ in promise.items]:
        return shown
    items = [(key, completed(one, other)) for (key, one), (_, other) in zip(shown.items, promise.items, strict=True)]
    return container(join_all(item for _, item in items), items, shown.ref or "tuple")


def by_overrides(
    inference: ValueQuestions, function: FunctionInfo, arguments: list[Value], keywords: dict[str, Value]
) -> Value:
    """What an abstract method returns: the tensors that one of the methods that override it puts on the accelerator.

    They may stand in a dict or a tuple, if all return one. Which of the methods runs is not proven. UNKNOWN where some
    return anything else, or where they are many.
    """
    cls = function.cls
    if cls is None or not arguments or not function.is_abstract:
        return UNKNOWN
    if function.is_static or arguments[0].created is not None:
        return UNKNOWN  # of what is made here, the class is known
    given: list[tuple[FunctionInfo, Value]] = []
    for method in inference.overriding(function):
        assert method.cls is not None
        if arguments[0].cls is not None and arguments[0].cls not in inference.lineage(method.cls):
            continue
        own = inference.instance(method.cls)._replace(device=arguments[0].device, because=arguments[0].because)
        value = inference.called(method, [own, *arguments[1:]], keywords)
        given.append((method, value))
    if given and all(value.kind is Kind.CONTAINER for _, value in given):
        return _any_container([(value, _overrides(inference, method, function)) for method, value in given])
    if not given or not all(value.holds_tensors or value == UNKNOWN for _, value in given):
        return UNKNOWN
    for method, value in given:
        if value.device.on_accelerator:
            return _likely(value, _overrides(inference, method, function))
    return join_all(value for _, value in given)


def _overrides(inference: ValueQuestions, method: FunctionInfo, function: FunctionInfo) -> Unproven:
    assert method.cls is not None
    assert function.cls is not None
    name = f"{method.cls.name}.{method.name}"
    says = f"no proof that this runs, but `{name}` overrides `{function.cls.name}.{function.name}`"
    path = None if method.index is inference.index else method.index.path
    return Unproven(method.node.lineno, says, path)  # type: ignore[union-attr]


def _likely(value: Value, step: Unproven) -> Value:
    return value._replace(device=Device.LIKELY, because=(step, *value.because), origin=None)


def _any_container(given: list[tuple[Value, Unproven]]) -> Value:
    """A dict or a tuple with the entries of all, each as the first that puts it on the accelerator has it.

    UNKNOWN where an entry is a tensor for one method and anything else for another.
    """
    ref, sizes = given[0][0].ref, {len(value.items or ()) for value, _ in given}
    is_one = all(value.ref == ref and value.items for value, _ in given)
    if not is_one or ref not in ("dict", "tuple") or (ref == "tuple" and len(sizes) > 1):
        return UNKNOWN
    entries: dict[object, Value] = {}
    for value, step in given:
        for key, item in value.items or ():
            before = entries.get(key, UNKNOWN)
            if UNKNOWN not in (before, item) and before.holds_tensors is not item.holds_tensors:
                return UNKNOWN
            if item.holds_tensors and item.device.on_accelerator and not before.device.on_accelerator:
                entries[key] = _likely(item, step)
            entries.setdefault(key, item)
    if not any(each.holds_tensors and each.device.on_accelerator for each in entries.values()):
        return UNKNOWN
    return container(join_all(entries.values()), list(entries.items()), ref)


def overriding(inference: ValueQuestions, function: FunctionInfo) -> tuple[FunctionInfo, ...]:
    """The methods of subclasses that override a method which may return tensors; none if they are many."""
    program, cls = inference.program, function.cls
    if program is None or cls is None or not _may_give_tensors(function):
        return ()
    named = program.methods_named(function.name, function.index)
    found = [
        each
        for each in named or ()
        if each is not function and each.cls is not None and cls in inference.lineage(each.cls) and not each.is_abstract
    ]
    return tuple(found) if len(found) <= bounds.MOST_OVERRIDES else ()


def _may_give_tensors(function: FunctionInfo) -> bool:
    """Whether the annotation names a tensor, or there is none."""
    annotation = getattr(function.node, "returns", None)
    return annotation is None or any("Tensor" in name for name in _names(annotation))


def _names(annotation: ast.expr) -> Iterator[str]:
    for node in ast.walk(annotation):
        if isinstance(node, (ast.Name, ast.Attribute)):
            yield node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
