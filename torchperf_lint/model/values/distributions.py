"""Distributions of torch: what they draw, and all else that they compute, is where their parameters are."""

from __future__ import annotations

import ast

from torchperf_lint.knowledge import distributions_api
from torchperf_lint.model.domain.values import UNKNOWN, Device, Kind, Value, container
from torchperf_lint.model.values.fields import as_data
from torchperf_lint.model.values.tensors import tensor_from

_NUMBERS = (Kind.NUMBER, Kind.NONE)


def made(node: ast.Call, ref: str, arguments: list[Value], keywords: dict[str, Value], default: Device | None) -> Value:
    """A distribution; its element is a tensor where its parameters are, or those of the distribution that it wraps."""
    name = ref.rpartition(".")[2]
    if ref in distributions_api.INDEPENDENT and arguments and is_distribution(arguments[0]):
        return arguments[0]
    given = [*arguments, *(value for key, value in keywords.items() if key not in distributions_api.SETTINGS)]
    if name in distributions_api.WRAPPERS:
        given = given[:1]
    parameters = [each.element or UNKNOWN if is_distribution(each) else as_data(each) for each in given]
    drawn = tensor_from(parameters)._replace(scalar=None, vector=None, dtype=None)
    if given and all(each.kind in _NUMBERS for each in given):
        drawn = drawn._replace(device=default or Device.CPU)
    return Value(Kind.INSTANCE, element=drawn, ref=f"torch.distributions.{name}", created=node)


def brought_to_one_shape(arguments: list[Value]) -> Value:
    """What `broadcast_all` returns: each tensor where it was, and numbers as tensors where the given tensors are."""
    given = list(map(as_data, arguments))
    beside = tensor_from(given)._replace(dtype=None)
    shaped = [beside if each.kind in _NUMBERS else tensor_from([each]) for each in given]
    return container(None, [(i, each._replace(scalar=None, vector=None)) for i, each in enumerate(shaped)], "tuple")


def is_distribution(value: Value) -> bool:
    """Whether it is an object of one of torch's distributions."""
    return value.kind is Kind.INSTANCE and (value.ref or "") in distributions_api.FAMILIES


def keeps_check(distribution: Value) -> bool:
    """Whether the call that makes a distribution leaves the check as it is, or asks for it."""
    made, position = distribution.created, distributions_api.CHECKED.get(distribution.ref or "")
    if made is None or position is None:
        return False
    if any(isinstance(each, ast.Starred) for each in made.args) or any(each.arg is None for each in made.keywords):
        return False
    asked = [each.value for each in made.keywords if each.arg == distributions_api.VALIDATE]
    asked += made.args[position : position + 1]
    return all(isinstance(each, ast.Constant) and each.value is True for each in asked)


def attribute(base: Value, name: str) -> Value | None:
    """A parameter or a moment of a distribution; None for methods and all else."""
    return base.element if name in distributions_api.TENSORS else None


def method(base: Value, name: str, arguments: list[Value]) -> Value:
    """What a method of a distribution returns."""
    if name in distributions_api.GIVE_ITSELF:
        return base
    drawn = base.element or UNKNOWN
    if name in distributions_api.COMPUTE:
        return tensor_from([drawn, *arguments])._replace(scalar=None, vector=None, dtype=None)
    return drawn if name in distributions_api.DRAW else UNKNOWN
