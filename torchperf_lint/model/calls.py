"""What calls, attributes and subscripts give: library functions, tensor methods, modules, loaders, metrics."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because
from torchperf_lint.knowledge import conventions, torch_api, torchmetrics_api
from torchperf_lint.model.index import last_name
from torchperf_lint.model.values import (
    INTEGER,
    NONE,
    NUMBER,
    STRING,
    UNKNOWN,
    Device,
    Kind,
    Value,
    container,
    join,
    join_all,
)

if TYPE_CHECKING:
    from torchperf_lint.model.evaluate import Evaluator

_BY_WORD = {"number": NUMBER, "string": STRING, "None": NONE, "numpy": Value(Kind.NUMPY), "dtype": Value(Kind.DTYPE)}
WHOLE_BATCH = "batch"
_BATCH = Value(Kind.STRUCTURE, origin="batch", ref=WHOLE_BATCH)


# -- names by convention --------------------------------------------------------------------------------------


def conventional(name: str, value: Value) -> Value:
    """`value`, or, where it is unknown, what the field means by such a name."""
    if value.kind is not Kind.UNKNOWN:
        return value
    lower = name.lower()
    if lower.endswith(conventions.LOADER_ENDINGS):
        batch = _BATCH._replace(device=value.device, because=value.because, sources=value.sources)
        return Value(Kind.LOADER, element=batch, sources=value.sources)
    if name in conventions.MODEL_NAMES or lower.endswith(conventions.MODEL_ENDINGS):
        return Value(Kind.MODULE, value.device, because=value.because)
    if name in conventions.CRITERION_NAMES or lower.endswith(conventions.CRITERION_ENDINGS):
        return Value(Kind.MODULE, value.device, ref="criterion", because=value.because)
    if name in conventions.OPTIMIZER_NAMES or lower.endswith(conventions.OPTIMIZER_ENDINGS):
        return Value(Kind.OPTIMIZER)
    if name in conventions.SCALER_NAMES:
        return Value(Kind.SCALER)
    return value


def host_batch() -> Value:
    """A batch as a loader gives it."""
    return _BATCH


# -- devices ----------------------------------------------------------------------------------------------------


def as_device(value: Value) -> Device | None:
    """The device that a value names when it is given as a device; None if it names none."""
    if value.kind is Kind.DEVICE:
        return value.device
    if value.kind is Kind.STRING and isinstance(value.constant, str):
        return Device.CPU if value.constant.startswith("cpu") else Device.CUDA if value.constant[:4] == "cuda" else None
    if value.kind is Kind.STRING and value.device.on_accelerator:
        return value.device
    return None


def device_argument(node: ast.expr, value: Value) -> Device | None:
    """The device of an argument in a device's place, by its value or, failing that, by its name."""
    return named_device(node, value)


def named_device(node: ast.expr, value: Value) -> Device | None:
    """The device that an expression of this value names; None if it names none."""
    device = as_device(value)
    if device is None and value.kind in (Kind.UNKNOWN, Kind.NUMBER, Kind.METHOD):
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if name in conventions.DEVICE_NAMES or name.endswith("device"):
            return Device.LIKELY
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return Device.CUDA  # a bare index is that of an accelerator
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            return Device.LIKELY if called.endswith("device") else None
    return device


def moved(
    evaluator: Evaluator, node: ast.Call, receiver: Value, name: str, arguments: list[Value], keywords: dict[str, Value]
) -> Value:
    """`x.to(...)`, `x.cuda()`, `x.cpu()`: the receiver elsewhere, or in another dtype."""
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
        for argument, value in pairs:
            if value.kind is Kind.DTYPE:
                dtype = value.dtype
            elif value.holds_tensors:
                target, dtype = value.device, value.dtype
            else:
                target = device_argument(argument, value) or target
        receiver = receiver._replace(dtype=dtype)
        if target is None:
            known = all(value.kind is Kind.DTYPE for _, value in pairs) and pairs
            return receiver if known else receiver._replace(device=Device.UNKNOWN)
        device = target
    if device.on_accelerator:
        said = "moved to the device"
        step = Because(node.lineno, f"{said} by `.{name}(...)`" if name == "to" else f"{said} by `.{name}()`")
        return receiver._replace(device=device, because=(step,))
    return receiver._replace(device=device, because=())


# -- tensors ----------------------------------------------------------------------------------------------------


def tensor_from(operands: list[Value], true_division: bool = False) -> Value:
    """A tensor computed from the operands: it lives where the tensors among them live."""
    tensors = [o for o in operands if o.holds_tensors or (o.kind is Kind.UNKNOWN and o.device.on_accelerator)]
    if not tensors:
        return Value(Kind.TENSOR)
    best = tensors[0]
    device = best.device
    for tensor in tensors[1:]:
        # A device tensor meets only device tensors and host scalars: one known operand tells for all.
        if tensor.device.on_accelerator and not device.on_accelerator:
            best, device = tensor, tensor.device
    if device is Device.CPU and any(tensor.device is Device.UNKNOWN for tensor in tensors):
        device = Device.UNKNOWN
    scalars = [tensor.scalar for tensor in tensors]
    plain = all(o.kind in (Kind.NUMBER, Kind.TENSOR) for o in operands)
    scalar = True if plain and all(scalars) else False if False in scalars else None
    dtype = _combined_dtype(operands, tensors, true_division)
    return Value(Kind.TENSOR, device, scalar, dtype=dtype, because=best.because)


def _combined_dtype(operands: list[Value], tensors: list[Value], true_division: bool) -> str | None:
    """The dtype of an element-wise result; "float" where only that it is floating is known."""
    dtypes = {tensor.dtype for tensor in tensors}
    if any(dtype is not None and dtype.startswith(("float", "bfloat")) for dtype in dtypes):
        return dtypes.pop() if len(dtypes) == 1 else "float"
    if true_division:
        return "float" if None not in dtypes else None
    if len(dtypes) == 1 and all(o.holds_tensors or o.dtype == "int" for o in operands):
        return dtypes.pop()
    return None


def tensor_attribute(base: Value, name: str) -> Value:
    """`tensor.name`, or `structure.name` (a field of a model's output or of a batch)."""
    if name == "device":
        return Value(Kind.DEVICE, base.device, because=base.because)
    if name == "dtype":
        return Value(Kind.DTYPE, dtype=base.dtype)
    if name == "shape":
        return container(INTEGER, ref="tuple")
    if name in ("is_cuda", "ndim", "is_leaf", "requires_grad"):
        return NUMBER
    if name in torch_api.METADATA_ATTRIBUTES:
        return UNKNOWN
    if base.kind is Kind.STRUCTURE and name in ("loss", "losses"):
        return base._replace(
            kind=Kind.TENSOR if name == "loss" else Kind.STRUCTURE, scalar=True if name == "loss" else None
        )
    if base.kind is Kind.TENSOR and name in torch_api.TENSOR_ATTRIBUTES:
        return base
    return Value(Kind.METHOD, base.device, element=base, ref=name, because=base.because, origin=base.origin)


def _tensor_method(
    evaluator: Evaluator, node: ast.Call, base: Value, name: str, arguments: list[Value], keywords: dict[str, Value]
) -> Value:
    if name in ("to", "cuda", "cpu"):
        return moved(evaluator, node, base, name, arguments, keywords)
    if name in torch_api.MODULE_ONLY_METHODS and base.kind is Kind.STRUCTURE:
        return _module_method(evaluator, node, Value(Kind.MODULE, base.device, because=base.because), name, arguments, keywords)
    if name in torch_api.HOST_READS:
        return _BY_WORD.get(torch_api.HOST_READS[name], UNKNOWN)
    if name in ("size", "stride"):
        return INTEGER if arguments or keywords else container(INTEGER, ref="tuple")
    if name in torch_api.METADATA_METHODS:
        return NUMBER
    if name in ("items", "values", "keys") and base.kind is Kind.STRUCTURE:
        entry = base._replace(created=None, ref=None)
        if name == "items":
            return container(container(None, [(0, STRING), (1, entry)], "tuple"))
        return container(entry if name == "values" else STRING)
    if name in ("get", "pop") and base.kind is Kind.STRUCTURE:
        return base._replace(ref=None)
    if name == "type":
        return base._replace(device=Device.UNKNOWN, dtype=None) if arguments else STRING
    if name == "pin_memory":
        return base
    if name in torch_api.INPLACE_NONE_METHODS:
        return NONE
    tensor = base._replace(kind=Kind.TENSOR, origin=None, mixed=False)
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
        result = base if base.kind is Kind.STRUCTURE and name in ("detach", "clone") else tensor
        return result._replace(dtype=torch_api.DTYPE_METHODS.get(name, result.dtype))
    if name in torch_api.DTYPE_METHODS:
        return tensor._replace(dtype=torch_api.DTYPE_METHODS[name])
    if name in torch_api.NEW_TENSOR_METHODS:
        device = keywords.get("device")
        where = as_device(device) if device is not None else base.device
        return Value(Kind.TENSOR, where or Device.UNKNOWN, dtype=base.dtype, because=base.because)
    computed = _computed(name, tensor_from([base, *(a for a in arguments if a.holds_tensors)]), arguments, keywords)
    return computed._replace(sources=base.sources) if name in torch_api.VIEW_METHODS else computed


def _computed(name: str, tensor: Value, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """Shape and dtype of a computed tensor. `arguments` do not include the tensor itself."""
    with_dim = bool(arguments) or any(key in keywords for key in ("dim", "axis", "keepdim"))
    if name in torch_api.SEVERAL_TENSORS or (
        name in torch_api.DIM_GIVES_PAIR and with_dim and not any(argument.holds_tensors for argument in arguments)
    ):
        several = tensor._replace(scalar=None, vector=None, dtype=None)
        return container(several, None, "tuple")
    if name in torch_api.FULL_REDUCTIONS and not (name == "norm" and arguments and keywords):
        scalar = True if not with_dim or (name == "norm" and len(arguments) == 1 and not keywords) else None
        dtype = tensor.dtype
        if name in ("argmax", "argmin", "count_nonzero") or (name == "sum" and dtype is not None and not dtype.startswith(("float", "bfloat"))):
            dtype = "int64"
        elif name in ("any", "all"):
            dtype = "bool"
        elif name in ("mean", "std", "var", "norm", "logsumexp", "nanmean", "dist") and dtype is None:
            dtype = "float"
        return tensor._replace(scalar=scalar, vector=None, dtype=dtype)
    if name in torch_api.COMPARISONS:
        return tensor._replace(dtype="bool")
    if name in ("flatten", "ravel") and not with_dim:
        return tensor._replace(scalar=None, vector=True)
    if name in ("view", "reshape") and len(arguments) == 1 and arguments[0].constant is not None:
        return tensor._replace(scalar=None, vector=True)
    if name in ("nonzero", "argwhere"):
        return tensor._replace(scalar=False, dtype="int64")
    elementwise = name.rstrip("_") in (
        "add sub mul div clamp clip round floor ceil sigmoid tanh relu pow square fill_ zero_ lt gt le ge eq ne".split()
    )
    return tensor if elementwise else tensor._replace(scalar=None, vector=None, dtype=None)


def item_of(base: Value, index: Value, sliced: bool) -> Value:
    """`base[index]`."""
    if base.kind is Kind.LOADER and base.created is None:
        return base  # `loaders["train"]`: no loader itself has items
    if base.kind is Kind.STRUCTURE:
        return base._replace(ref=None)
    if base.kind is Kind.TENSOR:
        scalar = True if base.vector and not sliced and index.kind is Kind.NUMBER else None
        return base._replace(scalar=scalar, vector=None, mixed=False)
    if base.kind is Kind.CONTAINER:
        if sliced:
            return base._replace(items=None)
        return _held(base, index)
    if base.kind is Kind.NUMPY:
        return Value(Kind.NUMPY)
    if base.kind in (Kind.MODULE, Kind.METRIC):
        held = inside_module(base, _held(base, index))
        if held.kind is Kind.METRIC or base.kind is Kind.METRIC:
            return held
        return Value(Kind.MODULE, base.device, because=base.because)
    return Value(device=base.device, because=base.because) if base.device.on_accelerator else UNKNOWN


def _held(base: Value, index: Value) -> Value:
    """The element of a container at a literal place, or else any element."""
    if base.items is not None and index.constant is not None:
        for key, value in base.items:
            if key == index.constant:
                return value
    return base.element or UNKNOWN


def element_of(value: Value) -> Value:
    """What iterating over the value gives."""
    if value.kind in (Kind.CONTAINER, Kind.LOADER):
        return value.element or UNKNOWN
    if value.kind is Kind.STRUCTURE:
        return value._replace(ref=None)
    if value.kind is Kind.TENSOR:
        return value._replace(scalar=True if value.vector else None, vector=None)
    if value.kind is Kind.MODULE:
        return Value(Kind.MODULE, value.device, because=value.because)
    if value.kind in (Kind.NUMPY, Kind.STRING):
        return Value(value.kind)
    return Value(device=value.device, because=value.because) if value.device.on_accelerator else UNKNOWN


# -- modules ----------------------------------------------------------------------------------------------------


def inside_module(owner: Value, value: Value) -> Value:
    """An attribute of a module: submodules, parameters and metrics live where the module lives."""
    if owner.kind in (Kind.MODULE, Kind.METRIC) and value.device is Device.UNKNOWN:
        if value.kind in (Kind.MODULE, Kind.METRIC) or (
            value.kind is Kind.TENSOR and value.ref == "torch.nn.Parameter"
        ):
            return value._replace(device=owner.device, because=owner.because)
    return value


def module_attribute(base: Value, name: str) -> Value:
    """`module.name` where nothing is known of the attribute itself."""
    if name == "device":
        device = base.device if base.device is not Device.UNKNOWN else Device.LIKELY
        return Value(Kind.DEVICE, device, because=base.because)
    if name == "module":
        return base
    return Value(Kind.METHOD, base.device, element=base, ref=name, because=base.because)


def _module_call(
    evaluator: Evaluator, node: ast.Call, module: Value, arguments: list[Value], keywords: dict[str, Value]
) -> Value:
    given = [*arguments, *keywords.values()]
    flat = [v.element if v.kind is Kind.CONTAINER and v.element is not None else v for v in given]
    tensors = [value for value in flat if value.holds_tensors or value.device.on_accelerator]
    device, because = module.device, module.because
    for value in tensors:
        if value.device.on_accelerator:
            device, because = value.device, value.because
            break
    if module.cls is not None:
        forward = evaluator.world.method(module.cls, "forward")
        if forward is not None:
            result = evaluator.world.called(
                forward, [module._replace(device=device, because=because), *arguments], keywords
            )
            if result.kind is not Kind.UNKNOWN:
                return result
    ref = module.ref or ""
    if ref == "criterion" or ref.endswith("Loss"):
        scalar = True if _reduces(module) else None
        loss = Value(Kind.TENSOR, device, scalar, dtype="float", because=because)
        return loss if ref != "criterion" else loss._replace(kind=Kind.STRUCTURE, origin="loss")
    if ref in torch_api.SEVERAL_OUTPUT_MODULES:
        return container(Value(Kind.TENSOR, device, because=because), None, "tuple")
    if ref.startswith("torch.nn.") and module.cls is None:
        return Value(Kind.TENSOR, device, because=because, origin="model")
    return Value(Kind.STRUCTURE, device, because=because, origin="model")


def _reduces(module: Value) -> bool:
    """Whether a loss module gives one element (no `reduction="none"`, no unknown reduction)."""
    call = module.created
    if call is None:
        return False
    for keyword in call.keywords:
        if keyword.arg in ("reduction", "reduce") or keyword.arg is None:
            return isinstance(keyword.value, ast.Constant) and keyword.value.value in ("mean", "sum")
    return True


def _module_method(
    evaluator: Evaluator, node: ast.Call, base: Value, name: str, arguments: list[Value], keywords: dict[str, Value]
) -> Value:
    if name in ("to", "cuda", "cpu"):
        return moved(evaluator, node, base, name, arguments, keywords)
    if name in ("train", "eval", "half", "float", "double", "bfloat16", "requires_grad_", "apply", "to_empty"):
        return base
    parameter = Value(Kind.TENSOR, base.device, because=base.because)
    if name in ("parameters", "buffers"):
        return container(parameter)
    if name in ("named_parameters", "named_buffers"):
        return container(container(None, [(0, STRING), (1, parameter)], "tuple"))
    if name in ("modules", "children"):
        return container(Value(Kind.MODULE, base.device, because=base.because))
    if name in ("state_dict", "named_modules", "named_children", "load_state_dict", "register_buffer", "zero_grad"):
        return UNKNOWN
    if name in ("forward", "generate", "__call__"):
        return _module_call(evaluator, node, base, arguments, keywords)
    device = next((v.device for v in arguments if v.device.on_accelerator), None)
    if device is not None and (
        name.startswith(("forward", "encode", "decode", "get_", "compute", "calc")) or "loss" in name
    ):
        return Value(Kind.STRUCTURE, device, because=tensor_from(arguments).because, origin="model")
    return UNKNOWN


# -- library functions and classes ----------------------------------------------------------------------------------


def _builtin(evaluator: Evaluator, node: ast.Call, name: str, arguments: list[Value]) -> Value:
    first = arguments[0] if arguments else UNKNOWN
    if name in ("int", "len", "float", "bool"):
        return Value(Kind.NUMBER, dtype="int" if name == "len" else name)
    if name in ("round", "hash", "ord", "id", "isinstance", "hasattr", "callable"):
        return NUMBER
    if name in ("str", "repr", "format", "chr", "ascii"):
        return STRING
    if name == "range":
        return container(INTEGER, ref="range")
    if name == "enumerate":
        return container(container(None, [(0, INTEGER), (1, element_of(first))], "tuple"))
    if name == "zip":
        return container(container(None, [(i, element_of(a)) for i, a in enumerate(arguments)], "tuple"))
    if name in ("list", "tuple", "set", "sorted", "reversed", "iter", "frozenset"):
        ref = name if name in ("list", "tuple", "set") else "list"
        if not arguments:
            return container(None, [] if name == "list" else None, ref)
        return container(element_of(first), ref=ref)
    if name == "next":
        return element_of(first)
    if name == "dict":
        return container(None, None, "dict")
    if name == "sum":
        element = element_of(first)
        return tensor_from([element]) if element.holds_tensors else element if element.kind is Kind.NUMBER else UNKNOWN
    if name in ("max", "min", "abs"):
        values = [element_of(first)] if len(arguments) == 1 and name != "abs" else arguments
        return join_all(values)
    if name == "getattr" and len(arguments) > 1 and isinstance(arguments[1].constant, str):
        return evaluator.attribute_of(first, arguments[1].constant, node)
    return NONE if name in ("print", "setattr", "delattr") else UNKNOWN


def _factory(
    evaluator: Evaluator, node: ast.Call, ref: str, arguments: list[Value], keywords: dict[str, Value]
) -> Value:
    name = ref.rpartition(".")[2]
    device = Device.CPU
    because: tuple[Because, ...] = ()
    argument = next((k.value for k in node.keywords if k.arg == "device"), None)
    if argument is not None:
        given = keywords["device"]
        device = device_argument(argument, given) or (
            Device.CPU if given.kind is Kind.NONE else Device.UNKNOWN
        )
    elif ref in torch_api.HOST_DATA_FACTORIES and arguments and arguments[0].holds_tensors:
        device, because = arguments[0].device, arguments[0].because
    elif evaluator.default_device is not None:
        device = evaluator.default_device
    if device.on_accelerator and not because:
        because = (Because(node.lineno, f"built on the device by `{name}(..., device=...)`"),)
    dtype = keywords["dtype"].dtype if "dtype" in keywords else _inferred_dtype(name, arguments)
    scalar = True if name == "scalar_tensor" else None
    if name in ("tensor", "as_tensor") and arguments and arguments[0].kind is Kind.NUMBER:
        scalar = True
    if name in ("zeros", "ones", "full", "empty", "rand", "randn") and arguments:
        size = arguments[0]
        scalar = bool(size.kind is Kind.CONTAINER and size.items == ())
    return Value(
        Kind.TENSOR,
        device,
        scalar,
        vector=True if ref in torch_api.VECTOR_FACTORIES else None,
        dtype=dtype,
        because=because,
    )


def _like(model: Value, keywords: dict[str, Value]) -> Value:
    """`torch.zeros_like(x, dtype=..., device=...)` and its like."""
    dtype = keywords["dtype"].dtype if "dtype" in keywords else model.dtype
    like = Value(Kind.TENSOR, model.device, model.scalar, model.vector, dtype, because=model.because)
    if model.kind is not Kind.TENSOR:
        like = like._replace(scalar=None, vector=None)
    if "device" not in keywords or keywords["device"].kind is Kind.NONE:
        return like
    return like._replace(device=as_device(keywords["device"]) or Device.UNKNOWN, because=())


def _inferred_dtype(name: str, arguments: list[Value]) -> str | None:
    if name in ("zeros", "ones", "empty", "eye", "linspace", "rand", "randn"):
        return "float32"
    if name in ("randperm", "randint"):
        return "int64"
    if name == "arange" and arguments and all(a.kind is Kind.NUMBER and a.dtype == "int" for a in arguments):
        return "int64"
    return None


def _library(
    evaluator: Evaluator, node: ast.Call, ref: str, arguments: list[Value], keywords: dict[str, Value], starred: bool
) -> Value:
    first = arguments[0] if arguments else UNKNOWN
    root, _, name = ref.rpartition(".")
    if root == "builtins":
        return _builtin(evaluator, node, name, arguments)
    if ref in torch_api.FACTORIES:
        return _factory(evaluator, node, ref, arguments, keywords)
    if ref in torch_api.LEGACY_FACTORIES:
        return Value(Kind.TENSOR, Device.CPU, dtype=torch_api.LEGACY_FACTORIES[ref])
    if root == "torch.cuda" and name.endswith("Tensor"):
        return Value(
            Kind.TENSOR, Device.CUDA, because=(Because(node.lineno, f"`torch.cuda.{name}` lives on the device"),)
        )
    if ref == "torch.device":
        device = device_argument(node.args[0], first) if node.args else None
        if device is None and first.kind is Kind.STRING:
            device = Device.LIKELY  # a name put together at run time: f"cuda:{rank}", args.device
        return Value(Kind.DEVICE, device or Device.UNKNOWN, because=first.because)
    if ref in torch_api.HOST_RESULTS:
        return _BY_WORD.get(torch_api.HOST_RESULTS[ref], UNKNOWN)
    if ref == "torch.from_numpy":
        return Value(Kind.TENSOR, Device.CPU)
    if ref in torch_api.LOADERS:
        batch = _BATCH._replace(device=Device.CPU, sources=(node,))
        return Value(Kind.LOADER, element=batch, ref=ref, created=node, sources=(node,))
    if ref in torch_api.DATASET_PARTS:
        return first if ref == "torch.utils.data.Subset" else container(first)
    if ref in torch_api.SCALERS:
        return Value(Kind.SCALER, ref=ref, created=node)
    if ref in torch_api.KEEP_MODULE:
        if ref in torch_api.ON_CURRENT_DEVICE and first.kind is Kind.MODULE:
            step = Because(node.lineno, f"wrapped by `{name}`")
            return first if first.device.on_accelerator else first._replace(device=Device.LIKELY, because=(step,))
        return first
    if ref == "torch.nn.Parameter":
        return Value(Kind.TENSOR, ref=ref, dtype=first.dtype)
    if ref.startswith("torch.optim.") and name[:1].isupper():
        return Value(Kind.OPTIMIZER if ".lr_scheduler." not in ref else Kind.INSTANCE, ref=ref, created=node)
    metric = torchmetrics_api.metric_class(ref)
    if metric is not None:
        device = evaluator.world.metric_device
        made = Value(Kind.METRIC, device, ref=metric, created=node)
        return _holding(made, arguments) if metric == torchmetrics_api.COLLECTION else made
    if ref.startswith("torch.nn.") and not ref.startswith(
        ("torch.nn.functional.", "torch.nn.utils.", "torch.nn.init.")
    ):
        made = Value(Kind.MODULE, ref=ref, created=node)
        if ref in ("torch.nn.ModuleDict", "torch.nn.ModuleList"):
            return _holding(made, arguments)
        return made if name[:1].isupper() else UNKNOWN
    if root == "torch.utils.data" and name[:1].isupper():
        return Value(Kind.INSTANCE, ref=ref, created=node)
    if ref.startswith("torch."):
        return _torch_function(ref, root, name, arguments, keywords)
    if ref.startswith("numpy."):
        return Value(Kind.NUMPY)
    if ref.startswith("math.") or ref in ("time.time", "time.perf_counter", "time.monotonic"):
        return NUMBER
    if name in conventions.LOADER_WRAPPERS or root in ("tqdm", "tqdm.auto", "itertools"):
        return _wrapped(name, first, arguments)
    return Value(Kind.INSTANCE, ref=ref, created=node) if name[:1].isupper() else UNKNOWN


def _holding(holder: Value, arguments: list[Value]) -> Value:
    """A holder of modules with what it is given: a dict or list of them, or the modules one by one."""
    if len(arguments) == 1 and arguments[0].kind is Kind.CONTAINER:
        return holder._replace(element=arguments[0].element, items=arguments[0].items)
    return holder._replace(element=join_all(arguments)) if arguments else holder


def _wrapped(name: str, first: Value, arguments: list[Value]) -> Value:
    """tqdm(loader), islice(loader, n), cycle(loader): the same elements."""
    if name == "trange":
        return container(INTEGER)
    if name == "chain":
        return container(join_all([element_of(argument) for argument in arguments]))
    return first if first.kind in (Kind.LOADER, Kind.CONTAINER, Kind.STRUCTURE) else UNKNOWN


def _torch_function(ref: str, root: str, name: str, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    if any(ref.startswith(prefix) for prefix in torch_api.NOT_TENSOR_MODULES) or name[:1].isupper():
        return UNKNOWN
    given = [*arguments, *keywords.values()]
    flat = [v.element if v.kind is Kind.CONTAINER and v.element is not None else v for v in given]
    tensor = tensor_from([value for value in flat if value.holds_tensors or value.device.on_accelerator])
    if ref == "torch.nn.utils.clip_grad_norm_":
        return tensor._replace(scalar=True)
    if ref in torch_api.LIKE_FACTORIES:
        return _like(arguments[0] if arguments else UNKNOWN, keywords)
    if root == "torch.nn.functional":
        if name in torch_api.SCALAR_LOSSES:
            reduction = keywords.get("reduction")
            scalar = True if reduction is None or reduction.constant in ("mean", "sum") else None
            return tensor._replace(scalar=scalar, dtype="float")
        return tensor._replace(scalar=None, vector=None, dtype=None)
    return _computed(name, tensor, arguments[1:], keywords)


# -- any call -------------------------------------------------------------------------------------------------------


def result(
    evaluator: Evaluator,
    node: ast.Call,
    callee: Value,
    arguments: list[Value],
    keywords: dict[str, Value],
    starred: bool,
) -> Value:
    """The value of a call."""
    kind = callee.kind
    if kind is Kind.LIBRARY:
        assert callee.ref is not None
        return _library(evaluator, node, callee.ref, arguments, keywords, starred)
    if kind is Kind.FUNCTION and callee.function is not None:
        return evaluator.world.called(callee.function, arguments, keywords, starred)
    if kind is Kind.CLASS and callee.cls is not None:
        return evaluator.world.instance(callee.cls)._replace(created=node)
    if kind is Kind.MODULE:
        return _module_call(evaluator, node, callee, arguments, keywords)
    if kind is Kind.METRIC:
        return Value(Kind.TENSOR, callee.device, scalar=None, because=callee.because)
    if kind is Kind.METHOD:
        given = _method(evaluator, node, callee, arguments, keywords, starred)
        return given if given.kind is not Kind.UNKNOWN or given.device.on_accelerator else _handed_on(node, arguments)
    if kind is Kind.UNKNOWN and callee.device.on_accelerator:
        return Value(Kind.STRUCTURE, callee.device, because=callee.because, origin="model")
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "cuda") and kind is Kind.UNKNOWN:
        receiver = moved(evaluator, node, UNKNOWN, node.func.attr, arguments, keywords)
        return receiver
    return _handed_on(node, arguments)


def _handed_on(node: ast.Call, arguments: list[Value]) -> Value:
    """What a method of an unknown object gives: `metric_logger.log_every(loader, 10)` hands the batches on."""
    if not isinstance(node.func, ast.Attribute):
        return UNKNOWN
    owner, name = last_name(node.func.value) or "", node.func.attr
    if owner in ("accelerator", "fabric"):
        placed = _placing(node, owner, name, arguments)
        if placed.kind is not Kind.UNKNOWN:
            return placed
    loader = next((value for value in arguments if value.kind is Kind.LOADER), UNKNOWN)
    return loader if name in conventions.LOADER_WRAPPERS else UNKNOWN


def _method(
    evaluator: Evaluator,
    node: ast.Call,
    callee: Value,
    arguments: list[Value],
    keywords: dict[str, Value],
    starred: bool,
) -> Value:
    base, name = callee.element or UNKNOWN, callee.ref or ""
    if callee.function is not None:
        bound = [] if callee.function.is_static else [base]
        return evaluator.world.called(callee.function, [*bound, *arguments], keywords, starred)
    if base.holds_tensors:
        return _tensor_method(evaluator, node, base, name, arguments, keywords)
    if base.kind is Kind.MODULE:
        return _module_method(evaluator, node, base, name, arguments, keywords)
    if base.kind is Kind.METRIC:
        if name in ("to", "cuda", "cpu"):
            return moved(evaluator, node, base, name, arguments, keywords)
        if name in ("set_dtype", "train", "eval", "requires_grad_"):
            return base
        return Value(Kind.TENSOR, base.device, because=base.because) if name in ("compute", "forward") else UNKNOWN
    if base.kind is Kind.SCALER:
        return arguments[0] if name == "scale" and arguments else UNKNOWN
    if base.kind is Kind.CONTAINER:
        return _container_method(base, name)
    if base.kind is Kind.NUMPY:
        if name in ("item",):
            return NUMBER
        return UNKNOWN if name == "tolist" else Value(Kind.NUMPY)
    if base.kind is Kind.STRING:
        return Value(Kind.STRING, as_device(base) or Device.UNKNOWN) if name == "format" else STRING
    if base.kind is Kind.INSTANCE and base.ref is not None:
        return _placing(node, base.ref, name, arguments)
    if base.kind is Kind.METHOD and base.element is not None and base.element.kind is Kind.STRUCTURE:
        return _tensor_method(evaluator, node, base.element._replace(ref=None), name, arguments, keywords)
    if base.kind is Kind.UNKNOWN and base.device.on_accelerator:
        return _tensor_method(evaluator, node, base._replace(kind=Kind.STRUCTURE), name, arguments, keywords)
    return UNKNOWN


def _container_method(base: Value, name: str) -> Value:
    element = base.element or UNKNOWN
    if name in ("get", "pop", "popleft", "setdefault"):
        return element
    if name == "values":
        return container(element)
    if name == "items":
        return container(container(None, [(0, STRING), (1, element)], "tuple"))
    if name == "keys":
        return container(STRING)
    if name == "copy":
        return base
    return NUMBER if name in ("index", "count") else UNKNOWN


def _placing(node: ast.Call, ref: str, name: str, arguments: list[Value]) -> Value:
    """accelerator.prepare(...), fabric.setup(...): the same objects, placed on the device; gather(...): more of them."""
    if name in ("gather", "gather_for_metrics", "reduce", "all_gather", "all_reduce", "pad_across_processes"):
        gathers = "ccelerat" in ref or "abric" in ref
        return arguments[0]._replace(scalar=None, vector=None) if gathers and arguments else UNKNOWN
    if not (
        (name in ("prepare", "prepare_model", "prepare_data_loader") and "ccelerat" in ref)
        or (name in ("setup", "setup_module", "setup_dataloaders") and "abric" in ref)
    ):
        return UNKNOWN
    step = Because(node.lineno, f"placed on the device by `{name}(...)`")

    def placed(value: Value) -> Value:
        if value.kind is Kind.LOADER:
            element = (value.element or _BATCH)._replace(device=Device.LIKELY, because=(step,))
            return value._replace(element=element, device=Device.LIKELY)
        if value.kind in (Kind.MODULE, Kind.UNKNOWN):
            return value._replace(device=Device.LIKELY, because=(step,))
        return value

    values = [placed(argument) for argument in arguments]
    if len(values) == 1:
        return values[0]
    return container(join_all(values), list(enumerate(values)), "tuple")


__all__ = [
    "as_device",
    "conventional",
    "device_argument",
    "element_of",
    "inside_module",
    "item_of",
    "join",
    "module_attribute",
    "moved",
    "result",
    "tensor_attribute",
    "tensor_from",
]
