"""The value lattice: the kind of an expression, where its data is, and the evidence.

A Value is a claim about every execution that reaches the expression. An UNKNOWN kind or device claims nothing;
joins drop what the two sides do not share, so an unknown never becomes a yes.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from torchperf_lint.knowledge import distributions_api
from torchperf_lint.model import bounds

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable, Mapping

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.model.syntax.index import ClassInfo, FunctionInfo

_T = TypeVar("_T")


class Kind(enum.Enum):
    """The kind of object that an expression evaluates to."""

    UNKNOWN = "unknown"
    NONE = "None"
    NUMBER = "number"
    STRING = "string"
    TENSOR = "tensor"
    PYTREE = "tensors"  # a pytree: a tensor, or a (nested) container of tensors, as models and loaders return
    NUMPY = "numpy"
    DEVICE = "device"
    DTYPE = "dtype"
    MODULE = "module"
    OPTIMIZER = "optimizer"
    SCALER = "scaler"
    LOADER = "loader"
    METRIC = "metric"
    CONTAINER = "container"
    LIBRARY = "library"  # a module, class or function of a library: `ref` is its qualified name
    FUNCTION = "function"
    CLASS = "class"
    INSTANCE = "instance"
    METHOD = "method"  # a bound method: `element` is the object, `ref` the method's name

    __hash__ = object.__hash__  # Enum's own is Python code, and Values are hashed very often


class Device(enum.Enum):
    """Where a tensor's data is, a module's parameters are, or what a device object refers to."""

    UNKNOWN = "unknown"
    CPU = "cpu"
    LIKELY = (
        "cuda-likely"  # an accelerator if there is one, of the kind that the program, its user or a framework selects
    )
    AVAILABLE = "cuda-available"  # CUDA if available, otherwise the CPU
    CUDA = "cuda"

    __hash__ = object.__hash__

    def __init__(self, name: str) -> None:
        """`on_accelerator`: an accelerator, if there is one. `is_cuda`: no accelerator but CUDA is meant."""
        self.on_accelerator = name.startswith("cuda")
        self.is_cuda = name in ("cuda", "cuda-available")

    def join(self, other: Device) -> Device:
        """The claim that holds for both."""
        if self is other:
            return self
        if self.on_accelerator and other.on_accelerator:
            return Device.AVAILABLE if self.is_cuda and other.is_cuda else Device.LIKELY
        return Device.UNKNOWN

    def or_host(self) -> Device:
        """The device of a program that either selects this one or leaves things on the host."""
        return Device.AVAILABLE if self.is_cuda else Device.LIKELY


WHOLE_BATCH = "batch"
"""The `ref` of a batch as a whole, before anything shows which parts it has."""


class Origin(enum.Enum):
    """The memory layout of what comes from a loader's batch."""

    BATCH = "batch"  # as the loader made it, every tensor contiguous
    DERIVED = "derived"  # taken or computed from a batch: it may be strided, or in memory of its own

    __hash__ = object.__hash__


class Registry(NamedTuple):
    """A registry of the program, identified by what makes it: a call, or a dict by its file and name.

    `asked` is the key of the lookup, where it is known.
    """

    made: object
    asked: str | None = None


class Value(NamedTuple):
    """One element of the lattice."""

    kind: Kind = Kind.UNKNOWN
    device: Device = Device.UNKNOWN
    scalar: bool | None = None  # tensors: exactly one element, zero dimensions; arrays: False if they have dimensions
    vector: bool | None = None  # tensors: exactly one dimension
    dtype: str | None = None  # float32, float64, float16, bfloat16, int64, int, bool, uint8 ... where it is evident
    origin: Origin | None = None  # of a loader's batches and of what is taken from them
    element: Value | None = None  # containers: any element; loaders: a batch; methods: the object
    items: tuple[tuple[object, Value], ...] | None = None  # containers built literally: key or position -> value
    ref: str | None = None  # qualified name of a library object, or of the library class of an instance
    function: FunctionInfo | None = None
    cls: ClassInfo | None = None
    constant: object = None  # numbers and strings that are written literally
    created: ast.Call | None = None  # the call that created a loader, metric, module ...
    mixed: bool = False  # a tensor on some paths and a Python number on others
    partly_host: bool = False  # on the host on some paths, and elsewhere or nobody knows where on others
    because: tuple[Because, ...] = ()
    sources: tuple[ast.Call, ...] = ()  # loaders and batches: every call that may have created the loader
    among: tuple[ClassInfo | Registry, ...] = ()  # classes and objects: their possible classes and registries

    @property
    def is_tensor(self) -> bool:
        """A tensor on every path."""
        return self.kind is Kind.TENSOR and not self.mixed

    @property
    def holds_tensors(self) -> bool:
        """A tensor or a pytree of tensors."""
        return self.kind is Kind.TENSOR or self.kind is Kind.PYTREE

    @property
    def is_layer(self) -> bool:
        """A layer that torch defines, as `nn.Linear`; what is only known as an `nn.Module` may be a whole model."""
        is_named = (self.ref or "").startswith("torch.nn.") and self.ref != "torch.nn.Module"
        return self.kind is Kind.MODULE and self.cls is None and is_named


UNKNOWN = Value()
NONE = Value(Kind.NONE)
NUMBER = Value(Kind.NUMBER)
INTEGER = Value(Kind.NUMBER, dtype="int")
STRING = Value(Kind.STRING)

NUMPY_OR_TORCH = "numpy|torch"
"""The `ref` of `lib = np if isinstance(x, np.ndarray) else torch`: what `lib.f(x)` calls depends on its arguments."""

NO_TENSOR = "no tensor"
"""The `ref` of a part of a batch that is shown to be no tensor: `v` of `v.to(device) if torch.is_tensor(v) else v`."""

FUNCTIONAL = "torch.nn.functional"
SOME_FUNCTIONAL = f"{FUNCTIONAL}.*"
"""The `ref` of one of several functions: `getattr(F, name)`, and what a table of activations holds."""

_ACTIVATIONS = frozenset({"torch.relu", "torch.tanh", "torch.sigmoid"})
_ARRAY_MODULES = frozenset(NUMPY_OR_TORCH.split("|"))


def join(left: Value, right: Value, lean: bool = False) -> Value:
    """The least claim that covers both values.

    `lean` says that the paths split on a test for the accelerator (`if use_cuda: x = x.cuda()`): what either path puts
    on an accelerator then counts as there if an accelerator exists.
    """
    if left is right:
        return left
    if NO_TENSOR in (left.ref, right.ref) and left.ref != right.ref:
        tensors = right if left.ref == NO_TENSOR else left
        if tensors.holds_tensors:
            return tensors._replace(kind=Kind.PYTREE, scalar=None, vector=None, dtype=None)
    if left.kind is not right.kind and Kind.NONE in (left.kind, right.kind):
        return right if left.kind is Kind.NONE else left
    if left.kind is not right.kind:
        return _join_kinds(left, right, lean)
    if left.kind is Kind.LIBRARY and left.ref != right.ref:
        if {left.ref, right.ref} == _ARRAY_MODULES:
            return Value(Kind.LIBRARY, ref=NUMPY_OR_TORCH)
        return Value(Kind.LIBRARY, ref=SOME_FUNCTIONAL) if _is_functional(left) and _is_functional(right) else UNKNOWN
    if left.kind is Kind.STRING and left.constant != right.constant:
        left, right = _as_place(left), _as_place(right)
    device = left.device.join(right.device)
    if device is Device.UNKNOWN and (left.device.on_accelerator or right.device.on_accelerator):
        names_place = left.kind in (Kind.DEVICE, Kind.STRING) and Device.CPU in (left.device, right.device)
        if lean or names_place:  # one of the paths selects an accelerator
            device = (left if left.device.on_accelerator else right).device.or_host()
    return Value(
        left.kind,
        device,
        _same(left.scalar, right.scalar),
        _same(left.vector, right.vector),
        _same(left.dtype, right.dtype),
        _join_origins(left, right),
        _join_optional(left.element, right.element, lean),
        _join_items(left.items, right.items, lean),
        _join_refs(left, right),
        left.function if left.function is right.function else None,
        left.cls if left.cls is right.cls else None,
        _same(left.constant, right.constant) if type(left.constant) is type(right.constant) else None,
        left.created if left.created is right.created else None,
        left.mixed or right.mixed,
        _is_partly_host(left, right, device),
        _shown_by(left, right),
        _union(left.sources, right.sources),
        _join_classes(left, right),
    )


def _is_functional(value: Value) -> bool:
    """Whether it is a function of tensors that gives a tensor."""
    return value.ref in _ACTIVATIONS or (value.ref or "").startswith(f"{FUNCTIONAL}.")


def _shown_by(left: Value, right: Value) -> tuple[Because, ...]:
    """The evidence of the value that is on the accelerator; the other's is about another path."""
    if right.device.on_accelerator and not left.device.on_accelerator:
        return right.because or left.because
    return left.because or right.because


_OBJECTS = (Kind.MODULE, Kind.INSTANCE, Kind.OPTIMIZER, Kind.UNKNOWN)


def _join_classes(left: Value, right: Value) -> tuple[ClassInfo | Registry, ...]:
    """The union of the classes of both, if the possible classes of both are known."""
    if left.cls is right.cls and left.among == right.among:
        return left.among
    ones, others = left.among or (left.cls,), right.among or (right.cls,)
    both = tuple(dict.fromkeys(cls for cls in (*ones, *others) if cls is not None))
    return both if None not in (*ones, *others) and len(both) <= bounds.MOST_CLASSES else ()


def _as_place(text: Value) -> Value:
    """A string value, with the device that it names if it names one."""
    device = text_names(text.constant)
    return text if device is None else text._replace(device=device)


def _chosen(place: Value) -> Value:
    """A device, or the one that a string names: any that the program's user asks for, where the string is not known."""
    if place.kind is Kind.DEVICE:
        return place
    known = text_names(place.constant) or place.device
    named = Device.LIKELY if known is Device.UNKNOWN else known
    return Value(Kind.DEVICE, named, because=place.because)


def text_names(constant: object) -> Device | None:
    """The device that a string names: the host, or CUDA."""
    if not isinstance(constant, str):
        return None
    return Device.CPU if constant.startswith("cpu") else Device.CUDA if constant.startswith("cuda") else None


def _join_kinds(left: Value, right: Value, lean: bool) -> Value:
    kinds = {left.kind, right.kind}
    if kinds == {Kind.TENSOR, Kind.NUMBER}:
        tensor = left if left.kind is Kind.TENSOR else right
        return tensor._replace(mixed=True)
    if kinds == {Kind.TENSOR, Kind.PYTREE}:
        return join(left._replace(kind=Kind.PYTREE), right._replace(kind=Kind.PYTREE), lean)
    if Kind.CONTAINER in kinds and (Kind.PYTREE in kinds or Kind.TENSOR in kinds):
        structure, held = (right, _leaf(left)) if left.kind is Kind.CONTAINER else (left, _leaf(right))
        structure = structure._replace(kind=Kind.PYTREE, scalar=None, vector=None)
        if held is not None and held.holds_tensors and not (held.mixed or structure.mixed):
            return join(structure._replace(ref=None), held._replace(kind=Kind.PYTREE), lean)
    if kinds == {Kind.MODULE, Kind.INSTANCE} and left.cls is right.cls:
        return left if left.kind is Kind.MODULE else right
    if kinds == {Kind.DEVICE, Kind.STRING}:
        return join(_chosen(left), _chosen(right), lean)
    known = left if right.kind is Kind.UNKNOWN else right
    if known.kind is Kind.DEVICE and known.device.on_accelerator and UNKNOWN in (left, right):
        return known._replace(device=known.device.or_host().join(Device.LIKELY))  # what else the user asks for
    is_registered = known.kind is Kind.CLASS and any(isinstance(each, Registry) for each in known.among)
    if is_registered and UNKNOWN in (left, right):
        return known  # `registry[kind] if isinstance(kind, str) else kind`: a name, or the class itself
    if lean and Kind.UNKNOWN in kinds and known.device.on_accelerator:
        # `if use_cuda: model.cuda()` leaves the object what it was: only its device differs.
        return known._replace(device=known.device.or_host())
    device = left.device.join(right.device)
    if device.on_accelerator:
        return Value(Kind.UNKNOWN, device, because=_shown_by(left, right))
    sources = _union(left.sources, right.sources)
    among = _join_classes(left, right) if left.kind in _OBJECTS and right.kind in _OBJECTS else ()
    partly_host = _is_partly_host(left, right, device)
    is_any = not sources and not among and not partly_host
    return UNKNOWN if is_any else Value(sources=sources, among=among, partly_host=partly_host)


def _leaf(value: Value) -> Value | None:
    """The element of a container of containers."""
    held: Value | None = value
    while held is not None and held.kind is Kind.CONTAINER:
        held = held.element
    return held


def located(value: Value, path: str) -> Value:
    """The value as seen from another file: evidence without a path gets the path of its file."""
    if value.because or value.element is not None or value.items:
        because = tuple(step if step.path is not None else step._replace(path=path) for step in value.because)
        element = None if value.element is None else located(value.element, path)
        items = None if value.items is None else tuple((key, located(item, path)) for key, item in value.items)
        return value._replace(because=because, element=element, items=items)
    return value


def join_all(values: Iterable[Value]) -> Value:
    """The join of several values; UNKNOWN for none."""
    result: Value | None = None
    for value in values:
        result = value if result is None else join(result, value)
    return UNKNOWN if result is None else result


def _same(left: _T | None, right: _T | None) -> _T | None:
    return left if left == right else None


def _join_refs(left: Value, right: Value) -> str | None:
    """What both are: two distributions of torch of different families are distributions still."""
    if left.ref == right.ref:
        return left.ref
    are_distributions = left.kind is Kind.INSTANCE and {left.ref, right.ref} <= distributions_api.FAMILIES
    return distributions_api.BASE if are_distributions else None


def _is_partly_host(left: Value, right: Value, device: Device) -> bool:
    """Whether some path has a tensor of the host, which the join's device does not tell."""
    if left.partly_host or right.partly_host:
        return True
    if device is not Device.UNKNOWN or Device.CPU not in (left.device, right.device):
        return False
    return any(each.holds_tensors and each.device is Device.CPU for each in (left, right))


def _join_origins(left: Value, right: Value) -> Origin | None:
    """Where both come from: what is a batch on one path, and other data of the host on the other, is host data."""
    if left.origin is right.origin:
        return left.origin
    for one, other in ((left, right), (right, left)):
        if one.origin is None and not (
            one.holds_tensors and one.device is Device.CPU and not other.device.on_accelerator
        ):
            return None
    return Origin.DERIVED


def _union(left: tuple[ast.Call, ...], right: tuple[ast.Call, ...]) -> tuple[ast.Call, ...]:
    if not right or left == right:
        return left
    return (*left, *(call for call in right if call not in left))


def _join_optional(left: Value | None, right: Value | None, lean: bool) -> Value | None:
    if left is None or right is None:
        return left or right
    return join(left, right, lean)


def _join_items(
    left: tuple[tuple[object, Value], ...] | None, right: tuple[tuple[object, Value], ...] | None, lean: bool
) -> tuple[tuple[object, Value], ...] | None:
    if left is None or right is None or [key for key, _ in left] != [key for key, _ in right]:
        return None
    return tuple((key, join(a, b, lean)) for (key, a), (_, b) in zip(left, right, strict=True))


def derived(value: Value) -> Value:
    """A value that is taken or computed from this one, without a claim that it is laid out as the loader made it."""
    return value if value.origin is None else value._replace(origin=Origin.DERIVED)


def container(element: Value | None, items: Iterable[tuple[object, Value]] | None = None, ref: str = "list") -> Value:
    """A list, tuple, set or dict; `ref` says which."""
    inside = bounds.MOST_NESTED - 1
    held = None if items is None else tuple((key, _clipped(value, inside)) for key, value in items)
    if held is not None and len(held) > bounds.MOST_ITEMS:
        held = None
    return Value(Kind.CONTAINER, element=None if element is None else _clipped(element, inside), items=held, ref=ref)


def with_fields(instance: Value, fields: Mapping[str, Value]) -> Value:
    """An object whose fields are known."""
    inside = bounds.MOST_NESTED - 1
    return instance._replace(items=tuple((name, _clipped(value, inside)) for name, value in fields.items()))


def _clipped(value: Value, levels: int) -> Value:
    """The value without anything nested deeper than `levels`."""
    if _fits(value, levels):
        return value
    if levels == 0:
        return UNKNOWN
    element = None if value.element is None else _clipped(value.element, levels - 1)
    items = None if value.items is None else tuple((key, _clipped(item, levels - 1)) for key, item in value.items)
    return value._replace(element=element, items=items)


def _fits(value: Value, levels: int) -> bool:
    if value.element is None and not value.items:
        return True
    if levels == 0:
        return False
    inner = [*(() if value.element is None else (value.element,)), *(item for _, item in value.items or ())]
    return all(_fits(item, levels - 1) for item in inner)
