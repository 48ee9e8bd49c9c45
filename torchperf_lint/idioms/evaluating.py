"""What it does to evaluate an expression: whether a fix may move it before other code, or write it twice."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Safety
from torchperf_lint.idioms import writes
from torchperf_lint.knowledge import torch_api
from torchperf_lint.knowledge.tensor_methods import TENSOR_METHODS
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import ClassInfo, last_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import FunctionInfo
    from torchperf_lint.syntax import cst

_PROPERTIES = frozenset({"property", "cached_property"})
_OF_TENSORS = frozenset("T H mT mH data grad real imag device dtype shape".split())
_RUN_CODE = frozenset(
    "apply_ backward map2_ map_ module_load register_hook register_post_accumulate_grad_hook reinforce retain_grad "
    "set_ storage untyped_storage record_stream".split()
)
"""Tensor methods that do more than compute."""
_OF_ONE_VALUE = frozenset(f"builtins.{name}" for name in ("abs", "bool", "float", "int", "len", "round"))
_PLAIN = (Kind.NUMBER, Kind.STRING, Kind.TENSOR, Kind.CONTAINER)
"""What has no method of the project that such a builtin calls."""
_HOLD_PARTS = (Kind.TENSOR, Kind.PYTREE, Kind.CONTAINER)


def only_computes(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """Whether an expression of tensors writes to nothing, binds nothing and runs no code of the project."""
    if isinstance(node, (ast.Name, ast.Constant)):
        return True
    if isinstance(node, ast.Attribute):
        return not runs_a_property(model, function, node) and only_computes(model, function, node.value)
    if isinstance(node, (ast.UnaryOp, ast.BinOp, ast.Compare, ast.Subscript, ast.Slice, ast.Tuple, ast.List)):
        parts = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
        return all(only_computes(model, function, each) for each in parts)
    return isinstance(node, ast.Call) and _calls_only_compute(model, function, node)


def _calls_only_compute(model: Model, function: FunctionInfo, call: ast.Call) -> bool:
    given = (*call.args, *(keyword.value for keyword in call.keywords))
    if not all(only_computes(model, function, each) for each in given):
        return False
    called = model.value_in(function, call.func)
    if called.ref == "builtins.sum":
        held = model.value_in(function, call.args[0]).element if len(call.args) == 1 else None
        return held is not None and held.is_tensor
    if called.ref in _OF_ONE_VALUE:
        return all(model.value_in(function, each).kind in _PLAIN for each in given)
    if called.kind is Kind.LIBRARY:
        return writes.only_computes(called.ref or "", call)
    if not isinstance(call.func, ast.Attribute) or called.function is not None or not is_plain_method(call):
        return False
    owner = call.func.value
    return model.value_in(function, owner).holds_tensors and only_computes(model, function, owner)


def runs_a_property(model: Model, function: FunctionInfo, node: ast.Attribute) -> bool:
    """Whether an attribute is a property of a class that the object may have."""
    return any(map(_is_property, _methods(model, function, node)))


def is_plain_method(call: ast.Call) -> bool:
    """Whether a call of a tensor's method writes to nothing and runs no other code."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    plain = name in TENSOR_METHODS - _RUN_CODE and not name.endswith("_")
    return plain and not any(keyword.arg in (None, "out") for keyword in call.keywords)


def written_twice(model: Model, node: cst.BaseExpression) -> Safety | None:
    """The grade of a fix that evaluates a path once more (`self.x`, `batch["x"]`); None if that may run code.

    Unsafe where the class of an object on the path is not known, which may have a property of that name.
    """
    meaning = model.ast_of(node)
    return None if meaning is None else _once_more(model, model.place(node).function, meaning)


def _once_more(model: Model, function: FunctionInfo, node: ast.expr) -> Safety | None:
    if isinstance(node, (ast.Name, ast.Constant)):
        return Safety.SAFE
    if isinstance(node, ast.Subscript):
        parts = [_once_more(model, function, each) for each in (node.value, node.slice)]
        held = model.value_in(function, node.value)
        if None in parts or held.cls is not None or held.among:
            return None
        return _worst(*parts, Safety.SAFE if held.kind in _HOLD_PARTS else Safety.UNSAFE)
    if isinstance(node, ast.Attribute):
        inner = _once_more(model, function, node.value)
        if inner is None or any(_methods(model, function, node)):
            return None
        return _worst(inner, Safety.SAFE if is_kept(model, function, node) else Safety.UNSAFE)
    return Safety.UNSAFE if only_computes(model, function, node) else None


def _worst(*grades: Safety | None) -> Safety:
    return Safety.UNSAFE if Safety.UNSAFE in grades else Safety.SAFE


def is_kept(model: Model, function: FunctionInfo, node: ast.Attribute) -> bool:
    """Whether the attribute is a tensor's own, or all classes that the object may have set it."""
    if model.value_in(function, node.value).is_tensor:
        return node.attr in _OF_TENSORS
    classes = list(_classes(model, function, node.value))
    return bool(classes) and all(
        any(node.attr in each.attributes or _registers(each, node.attr) for each in model.lineage(cls))
        for cls in classes
    )


def _registers(cls: ClassInfo, name: str) -> bool:
    """Whether the class has `self.register_buffer("name", ...)`, or registers a parameter of that name."""
    calls = (record.call for method in cls.methods.values() for record in method.calls_made)
    given = (call.args[0] for call in calls if last_name(call.func) in torch_api.REGISTERING_METHODS and call.args)
    return any(isinstance(each, ast.Constant) and each.value == name for each in given)


def _methods(model: Model, function: FunctionInfo, node: ast.Attribute) -> Iterator[FunctionInfo]:
    """The methods of that name, of the classes that the object may have."""
    found = (model.method(cls, node.attr) for cls in _classes(model, function, node.value))
    return (each for each in found if each is not None)


def _classes(model: Model, function: FunctionInfo, node: ast.expr) -> Iterator[ClassInfo]:
    if isinstance(node, ast.Name) and function.cls is not None and node.id == function.self_name:
        yield function.cls
        return
    value = model.value_in(function, node)
    yield from (each for each in (value.cls, *value.among) if isinstance(each, ClassInfo))


def _is_property(method: FunctionInfo) -> bool:
    return any(last_name(each) in _PROPERTIES for each in method.decorators)
