"""Truth values of tests: of types, where one call's values are known, and of how torch runs."""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING

from torchperf_lint.knowledge.conventions import COMPILE_QUESTIONS, EXPORT_QUESTIONS
from torchperf_lint.model.domain.values import NO_TENSOR, NUMBER, UNKNOWN, Device, Kind, Value
from torchperf_lint.model.syntax.device_tests import device_test
from torchperf_lint.model.syntax.effects import asks_for_device, compares_name, item_test
from torchperf_lint.model.syntax.index import dotted
from torchperf_lint.model.values.binding import hold
from torchperf_lint.model.values.fields import as_data
from torchperf_lint.model.values.tensors import element_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_lint.model.domain.frames import Env, Frame
    from torchperf_lint.model.syntax.device_tests import DeviceTest

_INSTANCES = {
    "torch.Tensor": {"tensor"},
    "numpy.ndarray": {"array"},
    "builtins.str": {"string"},
    "builtins.int": {"int"},
    "builtins.float": set(),
    "builtins.list": {"list"},
    "builtins.tuple": {"tuple"},
    "builtins.dict": {"dict"},
    **{f"{module}.Mapping": {"dict"} for module in ("typing", "collections.abc")},
    **{f"{module}.Sequence": {"list", "tuple", "string"} for module in ("typing", "collections.abc")},
}
_KINDS = {"torch.Tensor": Kind.TENSOR, "numpy.ndarray": Kind.NUMPY, "builtins.str": Kind.STRING}
_ASKED_FOR = (Kind.TENSOR, Kind.NUMBER, Kind.NUMPY, Kind.STRING)
_NEVER_OF_TENSORS = ("builtins", "numpy", "numbers", "pathlib", "PIL")
_CONTAINERS = ("list", "tuple", "dict")
_PLAIN = {Kind.TENSOR: "tensor", Kind.NUMPY: "array", Kind.STRING: "string"}
_ASKED_OF = ("torch", "jit", "compiler", "onnx", "_dynamo")
_OF_TENSORS = ("to", "cuda", "cpu", "detach")


def runs_eagerly(test: ast.expr) -> bool | None:
    """The truth value of a test when a program is neither exported nor compiled; None if it tests anything else."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = runs_eagerly(test.operand)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        return _combined(test, [runs_eagerly(part) for part in test.values])
    path = dotted(test.func) if isinstance(test, ast.Call) else None
    return False if path is not None and _asks_how_it_runs(path) else None


def _combined(test: ast.BoolOp, parts: list[bool | None]) -> bool | None:
    """The truth of `and` or `or` over parts with these truths."""
    decisive = isinstance(test.op, ast.Or)
    if decisive in parts:
        return decisive
    return None if None in parts else not decisive


@functools.lru_cache(maxsize=10_000)
def _asks_how_it_runs(path: str) -> bool:
    owner, _, name = path.rpartition(".")
    if owner and owner.partition(".")[0] not in _ASKED_OF:
        return False  # a method of an object: what it traces is unknown
    return bool(EXPORT_QUESTIONS.search(name) or COMPILE_QUESTIONS.search(name))


def outcome(test: ast.expr, env: Mapping[str, Value], frame: Frame) -> bool | None:
    """Whether `isinstance(x, T)`, `hasattr(x, "to")`, `x.is_cuda`, `mode == "train"` and such hold; None if unknown.

    `env` has the value of `x`, the frame those of the test's expressions. Unless they belong to one particular call,
    only numbers computed from sizes are certain enough.
    """
    values, is_call = frame.values, frame.is_call
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = outcome(test.operand, env, frame)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        return _combined(test, [outcome(part, env, frame) for part in test.values])
    asked = device_test(test) if is_call else None
    if asked is not None:
        return _is_there(asked, values.get(asked.subject, UNKNOWN))
    if isinstance(test, (ast.Compare, ast.Name)):
        return _told_by_call(test, frame) if is_call else None
    path = dotted(test.args[0]) if isinstance(test, ast.Call) and test.args else None
    kind = None if path is None else _type_of(env.get(path, UNKNOWN))
    if kind is None or not (is_call or kind == "int"):
        return None
    assert isinstance(test, ast.Call)
    asks = values.get(test.func, UNKNOWN).ref
    if asks == "torch.is_tensor":
        return kind == "tensor"
    if asks == "numpy.isscalar" and kind in ("tensor", "array"):
        return False
    if len(test.args) != 2:
        return None
    if asks == "builtins.hasattr":
        is_asked = isinstance(test.args[1], ast.Constant) and test.args[1].value in _OF_TENSORS
        return kind == "tensor" if is_asked and kind != "array" else None
    if asks != "builtins.isinstance":
        return None
    types = [_kinds_of(values.get(each, UNKNOWN).ref or "", kind) for each in _types_named(test.args[1])]
    if any(kind in known for known in types if known is not None):
        return True
    return None if None in types else False


def _told_by_call(test: ast.Compare | ast.Name, frame: Frame) -> bool | None:
    """Whether `mode == "train"`, `mode in ("train", "val")`, `flag` or `x is None` holds for what is known.

    Only parameters and names that the function itself binds count: others are settings of the file.
    """
    name, index = test if isinstance(test, ast.Name) else test.left, frame.function.index
    if not isinstance(name, ast.Name) or name.id in index.rebound_elsewhere:
        return None
    if name.id not in index.bound_names(frame.function):
        return None
    left = frame.values.get(name, UNKNOWN)
    if isinstance(test, ast.Name):
        return False if left.kind is Kind.NONE else left.constant if isinstance(left.constant, bool) else None
    operator = test.ops[0]
    if left.kind is Kind.NONE and asks_for_device(test):
        return isinstance(operator, ast.Is)
    right = frame.values.get(test.comparators[0], UNKNOWN)
    if not compares_name(test) or not _is_text(left):
        return None
    if isinstance(operator, (ast.Eq, ast.NotEq)) and _is_text(right):
        return (left.constant == right.constant) is isinstance(operator, ast.Eq)
    texts = [value for _, value in right.items or ()] if right.ref in ("tuple", "list", "set") else []
    if isinstance(operator, (ast.In, ast.NotIn)) and texts and all(map(_is_text, texts)):
        return any(each.constant == left.constant for each in texts) is isinstance(operator, ast.In)
    return None


def _is_text(value: Value) -> bool:
    return value.kind is Kind.STRING and isinstance(value.constant, str)


def _kinds_of(ref: str, kind: str) -> set[str] | None:
    """The kinds of values that are of a type, as far as a value of this kind goes; None if unknown."""
    is_no_tensor = kind == "tensor" and ref.partition(".")[0] in _NEVER_OF_TENSORS and ref != "builtins.object"
    return set() if is_no_tensor else _INSTANCES.get(ref)


def _types_named(node: ast.expr) -> list[ast.expr]:
    """`[int, str]` of `int`, `(int, str)` and `int | str`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [*_types_named(node.left), *_types_named(node.right)]
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _is_there(asked: DeviceTest, value: Value) -> bool | None:
    """The truth of a test for a device, for this tensor or device."""
    if value.kind not in (Kind.TENSOR, Kind.PYTREE, Kind.DEVICE):
        return None
    if value.device.on_accelerator:
        return asked.on_accelerator
    return not asked.on_accelerator if value.device is Device.CPU else None


def narrowed(test: ast.expr, env: Env, holds: bool, frame: Frame) -> Env:
    """The environment after `isinstance(x, torch.Tensor)`, `isinstance(x, (int, float))`, `torch.is_tensor(x)`.

    If the known value of `x` contradicts the branch, `x` is unknown in it. So is a container after a failed
    `all(...)` of such tests over its items that the known items satisfy.

    Of a value that is a tensor in some calls and a number in others, `not isinstance(...)` leaves the other kind; of
    a part of a batch what is no tensor. Else it narrows in a particular call alone: in general, the device that an
    attribute's name promises (`x.device`) says more than that of some tensor.
    """
    if isinstance(test, ast.BoolOp):
        for part in test.values if holds is isinstance(test.op, ast.And) else ():
            env = narrowed(part, env, holds, frame)
        return env.copy()
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        asked_of = env.get(_path_asked(test.operand) or "", UNKNOWN)
        narrows = frame.is_call or asked_of.mixed or asked_of.kind in (Kind.PYTREE, Kind.TENSOR)
        return narrowed(test.operand, env, not holds, frame) if narrows else env.copy()
    inner = env.copy()
    walk = item_test(test)
    if walk is not None:
        items = dotted(walk[1].iter)
        kind = _kind_asked(walk[0], frame.values)
        if items is not None and not holds and kind is not None and element_of(inner.get(items, UNKNOWN)).kind is kind:
            del inner[items]
        return inner
    path = dotted(test.args[0]) if isinstance(test, ast.Call) and test.args else None
    value = None if path is None else inner.get(path) or _unset(test.args[0], frame.values)  # type: ignore[attr-defined]
    asked = _kind_asked(test, frame.values) if isinstance(test, ast.Call) else None
    if asked is None and not holds and isinstance(test, ast.Call) and _asks_for_method(test, frame.values):
        asked = Kind.TENSOR
    if path is not None and value is not None and holds and value.kind in _ASKED_FOR and _asks_list(test, frame.values):
        inner.pop(path, None)
    if path is None or value is None or asked is None:
        return inner
    contradicts = value.kind in _ASKED_FOR and (value.kind is not asked) is holds
    if value.kind is Kind.TENSOR and value.mixed:
        if asked in (Kind.TENSOR, Kind.NUMBER):
            is_tensor = holds == (asked is Kind.TENSOR)
            hold(frame, path, value._replace(mixed=False) if is_tensor else NUMBER, inner)
    elif value.kind is Kind.PYTREE and asked is Kind.TENSOR and not holds:
        hold(frame, path, value._replace(ref=NO_TENSOR), inner)
    elif contradicts:
        if value.kind is Kind.NUMBER and asked is Kind.TENSOR:
            hold(frame, path, Value(Kind.TENSOR), inner)  # no known call passes it, so nothing shows where it would be
        else:
            inner.pop(path, None)
        # Not the device that the attribute's name promises.
        hold(frame, f"{path}.device", Value(Kind.DEVICE), inner)
    elif holds and (
        value.kind in (Kind.UNKNOWN, Kind.METHOD) or (value.kind is Kind.PYTREE and asked is not Kind.TENSOR)
    ):
        hold(frame, path, _as_asked(value, asked), inner)
    return inner


def _path_asked(test: ast.expr) -> str | None:
    """`x` of `isinstance(x, T)` and `torch.is_tensor(x)`."""
    return dotted(test.args[0]) if isinstance(test, ast.Call) and test.args else None


def _unset(node: ast.expr, values: Mapping[ast.expr, Value]) -> Value | None:
    """The value of an attribute that the function does not set, if its kind is unknown."""
    value = values.get(node)
    if value is None or not isinstance(node, ast.Attribute) or value.function is not None:
        return None
    return value if value.kind in (Kind.UNKNOWN, Kind.METHOD) else None


def _as_asked(value: Value, asked: Kind) -> Value:
    if asked is not Kind.TENSOR:
        return Value(asked)
    data = as_data(value)
    return data._replace(kind=Kind.TENSOR, ref=None) if data.kind is not Kind.METHOD else Value(Kind.TENSOR)


def _kind_asked(test: ast.Call, values: Mapping[ast.expr, Value]) -> Kind | None:
    """The kind that the call tests its first argument for, if it is just one."""
    asks = values.get(test.func, UNKNOWN).ref
    if asks == "torch.is_tensor":
        return Kind.TENSOR
    if asks != "builtins.isinstance" or len(test.args) != 2:
        return None
    refs = {values.get(each, UNKNOWN).ref for each in _types_named(test.args[1])}
    if len(refs) == 1 and (kind := _KINDS.get(next(iter(refs)) or "")) is not None:
        return kind
    return Kind.NUMBER if refs <= {"builtins.int", "builtins.float", "builtins.bool"} else None


def _asks_for_method(test: ast.Call, values: Mapping[ast.expr, Value]) -> bool:
    """`hasattr(x, "to")`: what lacks the method is no tensor, what has it may be anything."""
    asks, name = values.get(test.func, UNKNOWN).ref, test.args[1] if len(test.args) == 2 else None
    return asks == "builtins.hasattr" and isinstance(name, ast.Constant) and name.value in _OF_TENSORS


def _asks_list(test: ast.expr, values: Mapping[ast.expr, Value]) -> bool:
    """Whether it is a call that tests for Python's own containers alone, which nothing of another kind is."""
    if not isinstance(test, ast.Call) or values.get(test.func, UNKNOWN).ref != "builtins.isinstance":
        return False
    named = _types_named(test.args[1]) if len(test.args) == 2 else ()
    refs = {values.get(each, UNKNOWN).ref for each in named}
    return bool(refs) and refs <= {f"builtins.{each}" for each in (*_CONTAINERS, "set")}


def _type_of(value: Value) -> str | None:
    if value.kind is Kind.CONTAINER:
        return value.ref if value.ref in _CONTAINERS else None
    if value.kind is Kind.NUMBER:
        return "int" if value.dtype == "int" else None
    return None if value.mixed else _PLAIN.get(value.kind)
