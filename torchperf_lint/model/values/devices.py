"""The device that an expression names, and the result of moving a value there."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because, Moved
from torchperf_lint.knowledge import conventions, topics
from torchperf_lint.model.domain.values import STRING, Device, Kind, Value, derived, text_names
from torchperf_lint.model.syntax.index import dotted, last_name

if TYPE_CHECKING:
    from torchperf_lint.model.domain.interfaces import ProjectQuestions
    from torchperf_lint.model.syntax.index import Index

HOST_DATA = Value(Kind.PYTREE, Device.CPU)
"""The result of a tokenizer or a processor."""


def as_device(value: Value) -> Device | None:
    """The device that a value names when it is passed as a device; None if it names none."""
    if value.kind is Kind.DEVICE:
        return value.device
    if value.kind is Kind.STRING and isinstance(value.constant, str):
        return text_names(value.constant)
    if value.kind is Kind.STRING and value.device.on_accelerator:
        return value.device
    return None


def named_device(node: ast.expr, value: Value) -> Device | None:
    """The device named by an expression in a device position, by its value or else by its name; None if neither."""
    device = as_device(value)
    text_unknown = value.kind is Kind.STRING  # it names no device by itself: "auto", or what a user selects
    if device is None and (text_unknown or value.kind in (Kind.UNKNOWN, Kind.NUMBER, Kind.METHOD)):
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if name in conventions.DEVICE_NAMES or name.endswith("device"):
            return Device.LIKELY
        if (isinstance(node, ast.Constant) and type(node.value) is int) or value.dtype == "int":
            return Device.LIKELY  # a bare index selects whichever accelerator is present
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            return Device.LIKELY if called.endswith("device") else None
    return device


def moved(node: ast.Call, receiver: Value, name: str, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """`x.to(...)`, `x.cuda()`, `x.cpu()`: the receiver on another device or with another dtype."""
    assert isinstance(node.func, ast.Attribute)
    if name in ("cuda", "cpu"):
        device = Device.CUDA if name == "cuda" else Device.CPU
    else:
        target: Device | None = None
        dtype = receiver.dtype
        pairs = list(zip(node.args, arguments, strict=False))
        pairs += [
            (k.value, keywords[k.arg])
            for k in node.keywords
            if k.arg in ("device", "other", "dtype") and k.arg in keywords
        ]
        casts = False
        for argument, value in pairs:
            if _is_dtype(argument, value):
                dtype, casts = value.dtype, True
            elif value.holds_tensors:
                target, dtype, casts = value.device, value.dtype, True
            else:
                target = named_device(argument, value) or target
                if target is None and value.kind is Kind.NUMBER and node.args and argument is node.args[0]:
                    target = Device.LIKELY  # the only number allowed here is an accelerator's index
        if "copy" in keywords or "memory_format" in keywords or (casts and (dtype is None or dtype != receiver.dtype)):
            receiver = derived(receiver)
        receiver = receiver._replace(dtype=dtype)
        if target is None:
            starred = any(isinstance(argument, ast.Starred) for argument in node.args) or "**" in keywords
            stays = not starred and all(value.kind is Kind.NONE or _is_dtype(each, value) for each, value in pairs)
            return receiver if stays else derived(receiver)._replace(device=Device.UNKNOWN, because=())
        device = target
    if device.on_accelerator:
        said = "moved to the device"
        step = Moved(node.lineno, f"{said} by `.{name}(...)`" if name == "to" else f"{said} by `.{name}()`")
        return receiver._replace(device=device, because=(step,))
    if device is Device.UNKNOWN and receiver == HOST_DATA:
        return Value()  # an unknown value lets the name heuristics decide, which say more than an unknown device
    if receiver.device is not Device.CPU:
        receiver = derived(receiver)  # a copy from the accelerator is not in memory pinned by a loader
    return receiver._replace(device=device, because=())


def moved_object(thing: Value) -> Value:
    """An object with a method that its own class lacks and that moves it: a module, or unknown data of a library."""
    return thing._replace(kind=Kind.MODULE) if thing.cls is not None else Value()


def _is_dtype(node: ast.expr, value: Value) -> bool:
    """A dtype, or an unknown value whose name ends like one: `self.weight_dtype`."""
    is_known = value.kind not in (Kind.UNKNOWN, Kind.METHOD)
    return value.kind is Kind.DTYPE if is_known else (last_name(node) or "").endswith("dtype")


def inside_module(owner: Value, value: Value) -> Value:
    """An attribute of a module: submodules, parameters and metrics live on the module's device.

    The tensors of another object that has been moved as a whole live there, too.
    """
    if owner.kind is Kind.INSTANCE and owner.device.on_accelerator and value.holds_tensors:
        return value._replace(device=owner.device, because=owner.because, origin=None)
    if owner.kind in (Kind.MODULE, Kind.METRIC) and value.device is Device.UNKNOWN:
        is_parameter = value.kind is Kind.TENSOR and value.ref == "torch.nn.Parameter"
        if is_parameter or value.kind in (Kind.MODULE, Kind.METRIC):
            return value._replace(device=owner.device, because=owner.because)
    return value


def moved_since(before: Value, after: Value) -> Value:
    """The later value of a module or metric (or a container of them) if only its device has become known since."""
    return after if before.device is Device.UNKNOWN and _are_same(before, after) else before


def filled_since(before: Value, after: Value) -> Value:
    """The later value of a list, a dict or a container of modules that was empty when it was made."""
    is_same = before.kind is after.kind and before.ref == after.ref and before.created is after.created
    if (
        before.element is None
        and after.element is not None
        and is_same
        and before.kind in (Kind.CONTAINER, Kind.MODULE)
    ):
        return after
    return before


def _are_same(one: Value, other: Value) -> bool:
    """Whether two values are the same objects, whatever their devices."""
    if one.kind is Kind.CONTAINER and one.items and other.items:
        pairs = zip(one.items, other.items, strict=False)
        is_whole = one.kind is other.kind and one.ref == other.ref and len(one.items) == len(other.items)
        return is_whole and all(key == name and _are_same(item, held) for (key, item), (name, held) in pairs)
    if one.kind is not other.kind or one.kind not in (Kind.MODULE, Kind.METRIC, Kind.UNKNOWN):
        return False
    is_given = one.created is None and one.kind is not Kind.METRIC and (one.cls, one.ref) == (other.cls, other.ref)
    return other.created is None if is_given else one.created is not None and one.created is other.created


def default_device(index: Index, program: ProjectQuestions | None) -> Device | None:
    """The device set by `set_default_device` or `set_default_tensor_type`; None if no file of the project does."""
    for record in (*index.calls.get("set_default_device", ()), *index.calls.get("set_default_tensor_type", ())):
        given = record.call.args[0] if record.call.args else None
        text = given.value if isinstance(given, ast.Constant) else dotted(given) if given is not None else None
        if isinstance(text, str) and text.startswith(("cuda", "torch.cuda.")):
            return Device.CUDA
        if not isinstance(text, str) or ("Tensor" not in text and not text.startswith("cpu")):
            return Device.UNKNOWN
    is_set_elsewhere = program is not None and program.speaks_of(topics.PLACES_BY_DEFAULT, index)
    return Device.UNKNOWN if is_set_elsewhere else None


def accelerator_choice(left: Value, right: Value, because: Because) -> Value | None:
    """`"cuda" if available else "cpu"`: the device that the program picks."""
    devices = [as_device(side) for side in (left, right)]
    if any(device is not None and device.on_accelerator for device in devices):
        is_cuda = all(device is not None and (device.is_cuda or device is Device.CPU) for device in devices)
        return Value(Kind.DEVICE, Device.AVAILABLE if is_cuda else Device.LIKELY, because=(because,))
    return None


def text_after(start: object) -> Value:
    """A string built at run time that begins like this: `"cuda:" + str(rank)` names a device."""
    return Value(Kind.STRING, Device.CUDA) if isinstance(start, str) and start.startswith("cuda:") else STRING
