"""Tensors: the results of arithmetic, methods, fields and subscripts, and their devices."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import conventions, torch_api
from torchperf_lint.knowledge.tensor_methods import TENSOR_METHODS
from torchperf_lint.model.callgraph.registries import named
from torchperf_lint.model.domain.values import (
    INTEGER,
    NONE,
    NUMBER,
    STRING,
    UNKNOWN,
    Device,
    Kind,
    Value,
    container,
    derived,
)
from torchperf_lint.model.values import arrays
from torchperf_lint.model.values.devices import as_device, inside_module, moved
from torchperf_lint.model.values.fields import as_data

if TYPE_CHECKING:
    from torchperf_lint.engine.findings import Because
    from torchperf_lint.model.domain.interfaces import ExpressionValues

BY_WORD = {"number": NUMBER, "string": STRING, "None": NONE, "numpy": Value(Kind.NUMPY), "dtype": Value(Kind.DTYPE)}


SOME_TENSOR = Value(Kind.TENSOR)
"""What an annotation alone says to be a tensor."""


def placed(value: Value, because: tuple[Because, ...]) -> Value:
    """A value inside a module's call: tensors of unknown device live where the module's inputs live."""
    has_place = value.kind in (Kind.TENSOR, Kind.DEVICE) or (value.kind is Kind.PYTREE and value.origin is None)
    if has_place and value.device is Device.UNKNOWN:
        return value._replace(device=Device.LIKELY, because=because)
    if value.kind is Kind.CONTAINER and value.element is not None:
        items = None if value.items is None else tuple((key, placed(item, because)) for key, item in value.items)
        return value._replace(element=placed(value.element, because), items=items)
    return value


def holds_unknown(value: Value) -> bool:
    """Whether the value is a container with unknown elements, at any depth."""
    if value.kind is not Kind.CONTAINER:
        return False
    return value.element is None or value.element.kind is Kind.UNKNOWN or holds_unknown(value.element)


def is_of_host(value: Value) -> bool:
    """Whether the value is a host tensor, or of unknown kind but known to be on the host."""
    return (value.holds_tensors or value.kind is Kind.UNKNOWN) and value.device is Device.CPU


def is_python_data(value: Value) -> bool:
    """Whether the value is a number, a string naming no accelerator, None, a class or dtype, or a container of such."""
    while value.kind is Kind.CONTAINER and value.element is not None:
        value = value.element
    if value.kind is Kind.STRING:
        return value.constant is not None and as_device(value) in (None, Device.CPU)
    return value.kind in (Kind.NUMBER, Kind.NONE, Kind.LIBRARY, Kind.DTYPE)


def tensor_from(operands: list[Value], true_division: bool = False) -> Value:
    """A tensor computed from the operands; it lives where the tensors among them live."""
    tensors = [o for o in operands if o.holds_tensors or (o.kind is Kind.UNKNOWN and o.device.on_accelerator)]
    if not tensors:
        return Value(Kind.TENSOR)
    best = tensors[0]
    device = best.device
    for tensor in tensors[1:]:
        # A device tensor meets only device tensors and host scalars: one known operand decides for all.
        if tensor.device.on_accelerator and (tensor.device.is_cuda or not device.on_accelerator):
            best, device = tensor, tensor.device
    if device is Device.CPU and any(tensor.device is Device.UNKNOWN for tensor in tensors):
        device = Device.UNKNOWN
    scalars = [False if tensor.vector else tensor.scalar for tensor in tensors]
    plain = all(o.kind in (Kind.NUMBER, Kind.TENSOR) for o in operands)
    scalar = True if plain and all(scalars) else False if False in scalars else None
    dtype = _combined_dtype(operands, tensors, true_division)
    return Value(Kind.TENSOR, device, scalar, dtype=dtype, because=best.because)


def _combined_dtype(operands: list[Value], tensors: list[Value], true_division: bool) -> str | None:
    """The dtype of an element-wise result; "float" if only known to be floating."""
    dtypes = {tensor.dtype for tensor in tensors}
    if any(dtype is not None and dtype.startswith(("float", "bfloat")) for dtype in dtypes):
        return dtypes.pop() if len(dtypes) == 1 else "float"
    if true_division:
        return "float" if None not in dtypes else None
    if len(dtypes) == 1 and all(o.holds_tensors or o.dtype == "int" for o in operands):
        dtype = dtypes.pop()
        # A truth value and a whole number of Python's are whole numbers together.
        return "int64" if dtype == "bool" and len(tensors) < len(operands) else dtype
    return None


def tensor_attribute(base: Value, name: str) -> Value:
    """`tensor.name`, or `pytree.name` (a field of a model's output or of a batch)."""
    if name == "device":
        is_parameter = base.ref == torch_api.PARAMETER and base.device is Device.UNKNOWN
        return Value(Kind.DEVICE, Device.LIKELY if is_parameter else base.device, because=base.because)
    if name == "dtype":
        return Value(Kind.DTYPE, dtype=base.dtype)
    if name == "shape":
        return container(INTEGER, ref="tuple")
    if name in ("is_cuda", "ndim", "is_leaf", "requires_grad"):
        return NUMBER
    if name in torch_api.METADATA_ATTRIBUTES:
        return UNKNOWN
    if name in conventions.HOST_TENSORS:
        return Value(Kind.TENSOR, Device.CPU)
    if base.kind is Kind.PYTREE and name in ("loss", "losses"):
        return base._replace(
            kind=Kind.TENSOR if name == "loss" else Kind.PYTREE, scalar=True if name == "loss" else None
        )
    if name in torch_api.TENSOR_ATTRIBUTES and name != "data":
        base = derived(base)
    if base.kind is Kind.TENSOR and name in torch_api.TENSOR_ATTRIBUTES:
        return base
    return Value(Kind.METHOD, base.device, element=base, ref=name, because=base.because, origin=base.origin)


def _is_text(value: Value) -> bool:
    return value.kind is Kind.STRING or (value.kind is Kind.LIBRARY and value.ref in ("os.sep", "os.path.sep"))


def tensor_method(
    evaluator: ExpressionValues,
    node: ast.Call,
    base: Value,
    name: str,
    arguments: list[Value],
    keywords: dict[str, Value],
) -> Value:
    """`base.name(...)` of a tensor or a pytree."""
    if name in ("to", "cuda", "cpu"):
        return moved(node, base, name, arguments, keywords)
    if name == "tolist" and base.kind is Kind.TENSOR and base.scalar is not True and not base.mixed:
        return container(NUMBER._replace(dtype=_of_python(base.dtype)) if base.vector else None, ref="list")
    if name in torch_api.HOST_READS:
        read = BY_WORD.get(torch_api.HOST_READS[name], UNKNOWN)
        has_dimensions = base.is_tensor and (base.vector is True or base.scalar is False)
        return arrays.ARRAY if read.kind is Kind.NUMPY and has_dimensions else read
    if name in ("size", "stride"):
        return INTEGER if arguments or keywords else container(INTEGER, ref="tuple")
    if name in torch_api.METADATA_METHODS or name.startswith(torch_api.ASKS_KIND):
        return NUMBER
    if name in ("items", "values", "keys") and base.kind is Kind.PYTREE:
        entry = base._replace(created=None, ref=None)
        if name == "items":
            return container(container(None, [(0, STRING), (1, entry)], "tuple"))
        return container(entry if name == "values" else STRING)
    if name in ("get", "pop") and base.kind is Kind.PYTREE:
        return base._replace(ref=None)
    if base.kind is Kind.PYTREE and name in torch_api.TEXT_METHODS:
        return STRING
    if name in ("split", "rsplit") and not keywords and all(map(_is_text, arguments[:1])):
        return container(STRING)  # a batch holds paths and names as well; tensors are split by numbers
    if name == "type":
        if not arguments:
            return STRING
        cast = arguments[0]
        if cast.kind is Kind.DTYPE:
            return derived(base)._replace(dtype=cast.dtype)
        return derived(base)._replace(device=Device.UNKNOWN, dtype=None)  # `"torch.cuda.FloatTensor"` moves as well
    if name == "pin_memory":
        return base
    if name in torch_api.INPLACE_NONE_METHODS:
        return NONE
    tensor = _laid(name, base)._replace(kind=Kind.TENSOR, mixed=False)
    if name in (
        "detach",
        "clone",
        "contiguous",
        "requires_grad_",
        "detach_",
        "data",
        "float",
        "abs",
        "neg",
        "exp",
        "log",
        "sqrt",
    ):
        result = tensor._replace(kind=base.kind) if name in ("detach", "clone") else tensor
        made = "float" if name in _MAKES_FLOATS and is_whole(result.dtype) else result.dtype
        return result._replace(dtype=torch_api.DTYPE_METHODS.get(name, made))
    if name in torch_api.DTYPE_METHODS:
        return tensor._replace(dtype=torch_api.DTYPE_METHODS[name])
    if name in torch_api.NEW_TENSOR_METHODS:
        device = keywords.get("device")
        where = as_device(device) if device is not None else base.device
        return Value(Kind.TENSOR, where or Device.UNKNOWN, dtype=base.dtype, because=base.because)
    if name == "type_as" and arguments and arguments[0].device is Device.UNKNOWN and base.device is Device.CPU:
        base = base._replace(device=Device.UNKNOWN, dtype=None, because=())  # it moves to the other tensor's device
    if base.kind is Kind.PYTREE and name not in TENSOR_METHODS:
        return Value() if conventions.COUNTS_OR_NAMES.search(name) else derived(base)._replace(ref=None)
    if name in torch_api.TAKE_SHAPES and base.device is Device.CPU:
        return tensor._replace(scalar=None, vector=None)
    others = [] if name in torch_api.LAY_OUT_BY_SIZES else [each for each in arguments if each.holds_tensors]
    given = computed(name, tensor_from([base, *others]), arguments, keywords)
    return given._replace(sources=base.sources, origin=tensor.origin) if name in torch_api.VIEW_METHODS else given


def _of_python(dtype: str | None) -> str | None:
    """The type of Python numbers that a tensor of this dtype holds."""
    if dtype is None or dtype == "bool":
        return dtype
    return "int" if is_whole(dtype) else "float"


def _laid(name: str, base: Value) -> Value:
    """The tensor with the origin that `base.name(...)` has."""
    if name in _LIE_AS_BEFORE:
        return base
    return derived(base) if name in _MAY_SHARE_MEMORY else base._replace(origin=None)


_LIE_AS_BEFORE = frozenset("detach detach_ requires_grad_ data view view_as squeeze unsqueeze unflatten".split())
"""Methods whose result is the same memory as the tensor, in full."""

_MAY_SHARE_MEMORY = torch_api.VIEW_METHODS | torch_api.DTYPE_METHODS.keys() | {"clone", "contiguous"}
"""Methods whose result is a part of the tensor, has another layout, or is the tensor itself only if it fits."""


def computed(name: str, tensor: Value, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """The shape and dtype of a computed tensor. `arguments` do not include the tensor itself."""
    with_dim = bool(arguments) or any(key in keywords for key in ("dim", "axis", "keepdim"))
    if name in torch_api.EXTRAS_GIVE_SEVERAL and not _gives_extras(name, arguments, keywords):
        has_dim = "dim" in keywords or len(arguments) > torch_api.EXTRAS_GIVE_SEVERAL[name]
        return tensor._replace(scalar=None, vector=None if has_dim else True, origin=None)
    if (
        name in torch_api.SEVERAL_TENSORS
        or name in torch_api.EXTRAS_GIVE_SEVERAL
        or (name in torch_api.DIM_GIVES_PAIR and with_dim and not any(argument.holds_tensors for argument in arguments))
    ):
        several = tensor._replace(scalar=False if name == "topk" else None, vector=None, dtype=None)
        pair = [(0, several), (1, several._replace(dtype="int64"))] if name in torch_api.GIVE_INDICES else None
        return container(several, pair, "tuple")
    if name in torch_api.FULL_REDUCTIONS and not (name == "norm" and arguments and keywords):
        scalar = True if not with_dim or (name == "norm" and len(arguments) == 1 and not keywords) else None
        dtype = tensor.dtype
        if "dtype" in keywords:
            dtype = keywords["dtype"].dtype
        elif name in ("argmax", "argmin", "count_nonzero") or (
            name == "sum" and dtype is not None and not dtype.startswith(("float", "bfloat"))
        ):
            dtype = "int64"
        elif name in ("any", "all"):
            dtype = "uint8" if dtype == "uint8" else "bool" if dtype is not None else None
        elif name in ("mean", "std", "var", "norm", "logsumexp", "nanmean", "dist") and dtype is None:
            dtype = "float"
        return tensor._replace(scalar=scalar, vector=None, dtype=dtype)
    if name in torch_api.COMPARISONS:
        return tensor._replace(dtype="bool")
    if name == "argsort":
        return tensor._replace(scalar=None, vector=None, dtype="int64")
    if name in ("flatten", "ravel") and not with_dim:
        return tensor._replace(scalar=None, vector=True)
    if name in ("view", "reshape") and len(arguments) == 1 and arguments[0].constant is not None:
        return tensor._replace(scalar=None, vector=True)
    as_tuple = keywords.get("as_tuple", UNKNOWN).constant is True
    if (name == "nonzero" and as_tuple) or (name == "where" and not arguments and not keywords):
        return container(tensor._replace(scalar=False, vector=True, dtype="int64"), None, "tuple")
    if name in ("nonzero", "argwhere"):
        return tensor._replace(scalar=False, dtype="int64")
    elementwise = name.rstrip("_") in _ELEMENTWISE
    if not elementwise:
        is_cast = name == "view" and any(argument.kind is Kind.DTYPE for argument in arguments)
        keeps = name in torch_api.KEEP_DTYPE and not is_cast
        scalar = False if name in torch_api.OF_MATRICES else None
        return tensor._replace(scalar=scalar, vector=None, dtype=tensor.dtype if keeps else None)
    numbers = [
        value for value in (*arguments, *keywords.values()) if not value.holds_tensors and value.kind is not Kind.STRING
    ]
    if is_whole(tensor.dtype) and not name.endswith("_"):
        if name in _MAKES_FLOATS and "rounding_mode" not in keywords:
            return tensor._replace(dtype=None if keywords else "float")
        if any(number.dtype != "int" for number in numbers):
            return tensor._replace(dtype=None)
    return tensor


def _gives_extras(name: str, arguments: list[Value], keywords: dict[str, Value]) -> bool:
    """Whether `unique` may return counts or an inverse beside the tensor."""
    if "**" in keywords or len(arguments) > torch_api.EXTRAS_GIVE_SEVERAL[name]:
        return True
    return any(keywords[extra].constant is not False for extra in torch_api.EXTRAS if extra in keywords)


def is_whole(dtype: str | None) -> bool:
    """Whether a dtype is an integer or boolean one."""
    return (dtype or "").startswith(("int", "uint", "bool"))


_ELEMENTWISE = frozenset(
    "add sub mul div fmod remainder floor_divide clamp clip round floor ceil sigmoid tanh relu pow square fill_ zero_ "
    "lt gt le ge eq ne".split()
)

_MAKES_FLOATS = frozenset("exp log sqrt div sigmoid tanh".split())
"""Methods that return floats even for integers."""


def item_of(base: Value, index: Value, sliced: bool) -> Value:
    """`base[index]`."""
    base = as_data(base)
    if base.kind is Kind.LOADER and base.created is None:
        return base  # `loaders["train"]`: a loader itself has no items
    if base.kind is Kind.PYTREE:
        return base._replace(ref=None)
    if base.kind is Kind.TENSOR:
        scalar = True if base.vector and not sliced and index.kind is Kind.NUMBER else None
        chooses = index.is_tensor and (index.vector is True or (index.dtype == "bool" and index.scalar is not True))
        return base._replace(scalar=scalar, vector=True if base.vector and chooses else None, mixed=False)
    if base.kind is Kind.CONTAINER:
        if sliced:
            return base._replace(items=None)
        return held_at(base, index)
    if base.kind is Kind.NUMPY:
        return arrays.entry(index)
    if base.kind in (Kind.MODULE, Kind.METRIC):
        return _held_in(base, held_at(base, index))
    return Value(device=base.device, because=base.because) if base.device.on_accelerator else UNKNOWN


def _held_in(holder: Value, held: Value) -> Value:
    """What a container of modules, metrics or parameters holds: a module where nothing else is known."""
    if holder.ref in torch_api.HOLDERS_OF_PARAMETERS:
        return Value(Kind.TENSOR, holder.device, because=holder.because)
    held = inside_module(holder, held)
    is_known = held.kind is Kind.MODULE or holds_metrics(held) or holder.kind is Kind.METRIC
    return held if is_known else Value(Kind.MODULE, holder.device, because=holder.because)


def holds_metrics(value: Value) -> bool:
    """Whether the value is a metric, or a container of modules that holds metrics alone."""
    if value.kind is not Kind.MODULE or value.element is None:
        return value.kind is Kind.METRIC
    return holds_metrics(value.element)


def held_at(base: Value, index: Value) -> Value:
    """The element of a container at a literal index or key, or else any element.

    What a dict has under a name that its literal lacks has its kind and its device in common with the others.
    """
    element = base.element or UNKNOWN
    if base.items is not None and index.constant is not None:
        for key, value in base.items:
            if key == index.constant:
                return value
        if base.items and base.ref == "dict" and element.kind is Kind.TENSOR:
            element = element._replace(scalar=None, vector=None, dtype=None)
    return named(element, index)


def in_one_piece(index: ast.expr, value: Value) -> bool:
    """Whether `tensor[index]` is contiguous if the tensor is: a row, or consecutive rows."""
    if isinstance(index, ast.Slice):
        return index.step is None
    if isinstance(index, ast.Tuple):
        return all(_takes_all(part) for part in index.elts)
    return _takes_all(index) or (value.kind in (Kind.NUMBER, Kind.STRING) and value.dtype != "bool")


def _takes_all(index: ast.expr) -> bool:
    """`:`, `...` or `None`."""
    if isinstance(index, ast.Slice):
        return index.lower is index.upper is index.step is None
    return isinstance(index, ast.Constant) and (index.value is None or index.value is ...)


def element_of(value: Value) -> Value:
    """What iterating over the value yields."""
    value = as_data(value)
    if value.kind in (Kind.CONTAINER, Kind.LOADER):
        return key_of(value) if value.ref == "dict" else value.element or UNKNOWN
    if value.kind is Kind.PYTREE:
        return value._replace(ref=None)
    if value.kind is Kind.TENSOR:
        return value._replace(scalar=True if value.vector else None, vector=None)
    if value.kind is Kind.MODULE:
        return STRING if value.ref == "torch.nn.ParameterDict" else _held_in(value, value.element or UNKNOWN)
    if value.kind in (Kind.NUMPY, Kind.STRING):
        return Value(value.kind)
    return Value(device=value.device, because=value.because) if value.device.on_accelerator else UNKNOWN


def element_of_mapping(value: Value) -> Value:
    """The values that `**value` adds to a dict."""
    if value.kind is Kind.CONTAINER:
        return value_of_pair(value) or value.element or UNKNOWN
    return element_of(value) if value.kind is Kind.PYTREE else UNKNOWN


def value_of_pair(pairs: Value) -> Value | None:
    """The second item of each pair in a list of pairs; None for anything else."""
    pair = pairs.element
    if pairs.ref == "dict" or pair is None or pair.ref != "tuple" or len(pair.items or ()) != 2:
        return None
    return dict(pair.items or ()).get(1)


def key_of(mapping: Value) -> Value:
    """Any key of a dict; UNKNOWN unless all keys are literals."""
    keys = [key for key, _ in mapping.items or ()]
    if keys and all(isinstance(key, str) for key in keys):
        return STRING
    if keys and all(type(key) is int for key in keys):
        return INTEGER
    return UNKNOWN
