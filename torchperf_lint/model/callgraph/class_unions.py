"""Class unions: values that may be of one of several classes. What holds for each class holds for the union."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import OfSomeObjects
from torchperf_lint.model import bounds
from torchperf_lint.model.callgraph.registries import is_in
from torchperf_lint.model.domain.values import Kind, Registry, Value, join_all

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable

    from torchperf_lint.model.domain.interfaces import ExpressionValues, ValueQuestions
    from torchperf_lint.model.syntax.index import ClassInfo, FunctionInfo


def alternatives(inference: ValueQuestions, value: Value) -> list[Value]:
    """The possible values of a class or an object, class by class; none if it is a single class, or too many."""
    classes = [each for each in value.among if not isinstance(each, Registry)]
    if not 0 < len(classes) <= bounds.MOST_CHOICES or len(classes) < len(value.among) or value.kind is Kind.METHOD:
        return []
    if value.kind is Kind.UNKNOWN:
        return [inference.instance(cls)._replace(device=value.device, because=value.because) for cls in classes]
    return [value._replace(cls=cls, among=()) for cls in classes]


def joined(inference: ValueQuestions, value: Value, answer: Callable[[Value], Value]) -> Value | None:
    """The join of the results for each class that the value may have; None if it is no union."""
    found = [answer(each) for each in alternatives(inference, value)]
    return join_all(found) if found else None


def attribute(evaluator: ExpressionValues, base: Value, name: str, node: ast.AST) -> Value | None:
    """`base.name`, by the union's classes; for any base, the methods that move an object."""
    if base.kind is Kind.UNKNOWN and name in ("to", "cuda", "cpu"):
        return Value(Kind.METHOD, element=base, ref=name)
    known = _with_method(evaluator.inference, base, name)
    if known is not base:
        return _registered(evaluator, known, name, node)
    return joined(evaluator.inference, base, lambda each: evaluator.attribute_of(each, name, node))


def as_callable(inference: ValueQuestions, value: Value) -> Value:
    """What a registry builds, as an object of those of its classes that can be called; any other value as it is."""
    return _with_method(inference, value, "__call__") if value.kind is Kind.UNKNOWN else value


def _registered(evaluator: ExpressionValues, base: Value, name: str, node: ast.AST) -> Value | None:
    """A method of what a registry builds, by its classes that have one of this name; None for a property."""
    found = [evaluator.attribute_of(each, name, node) for each in alternatives(evaluator.inference, base)]
    if not found or any(each.kind is not Kind.METHOD or each.function is None for each in found):
        return None
    is_one = all(each.function is found[0].function for each in found)
    cls = next(each for each in base.among if not isinstance(each, Registry))
    step = OfSomeObjects(cls.row, f"no proof that what the registry builds is a `{cls.name}`", cls.index.path)
    method = found[0] if is_one else Value(Kind.METHOD, element=base, ref=name)
    return method._replace(because=(step,))


def _with_method(inference: ValueQuestions, base: Value, name: str) -> Value:
    """An object of a registry's classes, as one of those that have a method of this name."""
    program = inference.program
    registries = [each for each in base.among if isinstance(each, Registry)]
    if program is None or len(registries) != len(base.among) or base.kind is Kind.METHOD or not registries:
        return base
    found: dict[ClassInfo, None] = {}
    for method in program.methods_named(name, inference.index) or ():
        for cls in () if method.cls is None else (method.cls, *program.heirs(method.cls)):
            is_meant = any(is_in(program, cls, registry) for registry in registries)
            if is_meant and inference.method(cls, name) is method:
                found[cls] = None
    return base._replace(among=tuple(found)) if found else base


def made(inference: ValueQuestions, classes: tuple[ClassInfo | Registry, ...], call: ast.Call) -> Value:
    """A new object of one of the classes."""
    known = [cls for cls in classes if not isinstance(cls, Registry)]
    if len(known) < len(classes):
        return Value(among=classes)
    return join_all(inference.instance(cls)._replace(created=call) for cls in known)


def may_mean(
    inference: ValueQuestions, receiver: Value, function: FunctionInfo, is_overridden_by: Callable[..., bool]
) -> bool:
    """Whether the receiver's method of the function's name is the function, for one of the receiver's classes."""
    for cls in receiver.among:
        if isinstance(cls, Registry):
            if is_registered(inference, cls, function):
                return True
            continue
        method = inference.method(cls, function.name)
        if method is function or (method is not None and is_overridden_by(inference, method, function)):
            return True
    return False


def is_registered(inference: ValueQuestions, registry: Registry, function: FunctionInfo) -> bool:
    """Whether the function is a method of a class in the registry, or is inherited by such a class."""
    program, cls = inference.program, function.cls
    if program is None or cls is None:
        return False
    if is_in(program, cls, registry):
        return True
    return any(
        is_in(program, heir, registry) and inference.method(heir, function.name) is function
        for heir in program.heirs(cls)
    )
