"""Results of library functions and classes: builtins, torch, torchmetrics, loaders."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because
from torchperf_lint.knowledge import (
    conventions,
    distributions_api,
    numpy_api,
    other_libraries,
    torch_api,
    torchmetrics_api,
)
from torchperf_lint.model.domain.values import (
    FUNCTIONAL,
    INTEGER,
    NONE,
    NUMBER,
    NUMPY_OR_TORCH,
    SOME_FUNCTIONAL,
    STRING,
    UNKNOWN,
    Device,
    Kind,
    Value,
    container,
    derived,
    join,
    join_all,
)
from torchperf_lint.model.values import applying, arrays, attribute_names, collections, distributions, iteration
from torchperf_lint.model.values.devices import as_device, named_device
from torchperf_lint.model.values.fields import as_data
from torchperf_lint.model.values.name_heuristics import BATCH
from torchperf_lint.model.values.spreading import has_known_keys
from torchperf_lint.model.values.tensors import (
    BY_WORD,
    computed,
    element_of,
    is_of_host,
    placed,
    tensor_from,
)

if TYPE_CHECKING:
    from torchperf_lint.model.domain.interfaces import ExpressionValues


_NORMS_OF_GRADIENTS = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad.clip_grad_norm_")
_MAY_BE_GIVEN = {"device": UNKNOWN, "dtype": UNKNOWN}
_NORMS = (*_NORMS_OF_GRADIENTS, "torch.nn.utils.get_total_norm")


def _builtin(
    evaluator: ExpressionValues, node: ast.Call, name: str, arguments: list[Value], keywords: dict[str, Value]
) -> Value:
    first = arguments[0] if arguments else UNKNOWN
    if name in ("int", "len", "float", "bool"):
        return Value(Kind.NUMBER, dtype="int" if name == "len" else name)
    if name == "round":
        return join(first, NUMBER)._replace(constant=None, dtype=None) if arguments else UNKNOWN
    if name in ("hash", "ord", "id", "isinstance", "hasattr", "callable"):
        return NUMBER
    if name in ("str", "repr", "format", "chr", "ascii"):
        return STRING
    if name == "range":
        return container(INTEGER, ref="range")
    if name in iteration.PAIRING:
        return iteration.paired(node, name, arguments, keywords)
    if name in ("list", "tuple", "set", "sorted", "reversed", "iter", "frozenset"):
        ref = name if name in ("list", "tuple", "set") else "list"
        if not arguments:
            return container(None, [] if name == "list" else None, ref)
        return container(element_of(first), ref=ref)
    if name == "next":
        return element_of(first)
    if name == "dict":
        return collections.mapping(arguments, keywords)
    if name == "sum":
        added = [element_of(first), *arguments[1:], *keywords.values()]
        if all(each.kind is Kind.NUMBER for each in added):
            total = join_all(added)
            return total._replace(constant=None, dtype=None if total.dtype == "bool" else total.dtype)
        return tensor_from(added) if any(each.holds_tensors for each in added) else UNKNOWN
    if name in ("max", "min", "abs"):
        if name == "abs":
            return first._replace(origin=None, constant=None)
        default = [keywords["default"]] if "default" in keywords else []
        return join_all([element_of(first), *default] if len(arguments) == 1 else arguments)
    if name == "getattr" and len(arguments) > 1 and isinstance(arguments[1].constant, str):
        found = evaluator.attribute_of(first, arguments[1].constant, node)
        is_open = found.kind is Kind.UNKNOWN or (found.kind is Kind.METHOD and found.function is None)
        is_own = first.cls is not None and is_open and len(arguments) > 2
        return arguments[2] if is_own and arguments[2].kind is Kind.CLASS else found
    if name == "getattr" and first.ref == FUNCTIONAL and len(arguments) == 2:
        return Value(Kind.LIBRARY, ref=SOME_FUNCTIONAL)
    if name == "getattr" and len(node.args) > 1:
        return attribute_names.by_pattern(evaluator, first, node.args[1], node) or UNKNOWN
    return NONE if name in ("print", "setattr", "delattr") else UNKNOWN


def _with_spread(keywords: dict[str, Value]) -> dict[str, Value]:
    """The keywords with those of `**options`; of unknown options, the device and the dtype may be among them."""
    if "**" not in keywords:
        return keywords
    options = keywords["**"]
    known = {str(key): value for key, value in options.items or ()} if has_known_keys(options) else _MAY_BE_GIVEN
    return {**known, **{key: value for key, value in keywords.items() if key != "**"}}


def _factory(
    evaluator: ExpressionValues, node: ast.Call, ref: str, arguments: list[Value], keywords: dict[str, Value]
) -> Value:
    name = ref.rpartition(".")[2]
    keywords = {key: value for key, value in _with_spread(keywords).items() if value.kind is not Kind.NONE}
    device = Device.CPU
    because: tuple[Because, ...] = ()
    argument = next((k.value for k in node.keywords if k.arg == "device"), None)
    if "device" in keywords:
        given = keywords["device"]
        named = as_device(given) if argument is None else named_device(argument, given)  # by `partial`, or here
        device = named or Device.UNKNOWN
    elif ref in torch_api.HOST_DATA_FACTORIES and arguments and arguments[0].holds_tensors:
        device, because = arguments[0].device, arguments[0].because
    elif evaluator.default_device is not None:
        device = evaluator.default_device
    if device.on_accelerator and not because:
        because = (Because(node.lineno, f"built on the device by `{name}(..., device=...)`"),)
    dtype = keywords["dtype"].dtype if "dtype" in keywords else _inferred_dtype(name, arguments, keywords)
    scalar = True if name == "scalar_tensor" else False if name in torch_api.OF_MATRICES else None
    vector = ref in torch_api.VECTOR_FACTORIES or (name in _BY_SIZE and _is_one_size(node, arguments))
    if name in ("tensor", "as_tensor") and arguments and arguments[0].kind in (Kind.NUMBER, Kind.CONTAINER):
        scalar = arguments[0].kind is Kind.NUMBER
    if name in _BY_SIZE and arguments:
        size = arguments[0]
        scalar = bool(size.kind is Kind.CONTAINER and size.items == ())
    return Value(
        Kind.TENSOR,
        device,
        scalar,
        vector=vector or None,
        dtype=dtype,
        because=because,
    )


def _causal_mask(
    evaluator: ExpressionValues, node: ast.Call, arguments: list[Value], keywords: dict[str, Value]
) -> Value:
    """`nn.Transformer.generate_square_subsequent_mask(n, device, dtype)`: float32 by default."""
    by_name = {**dict(zip(("device", "dtype"), arguments[1:], strict=False)), **keywords}
    if len(arguments) > 1 and len(node.args) > 1:
        device = named_device(node.args[1], arguments[1])
        by_name["device"] = arguments[1] if device is None else Value(Kind.DEVICE, device)
    made = _factory(evaluator, node, torch_api.CAUSAL_MASK, [], by_name)
    return made if "dtype" in by_name else made._replace(dtype="float32")


_BY_SIZE = ("zeros", "ones", "full", "empty", "rand", "randn")


def _is_one_size(node: ast.Call, arguments: list[Value]) -> bool:
    """`torch.zeros(n)`, `torch.zeros((n,))`, `torch.full((n,), 0.0)`."""
    if not arguments or any(isinstance(each, ast.Starred) for each in node.args):
        return False
    size = arguments[0]
    if size.kind is Kind.CONTAINER:
        return size.items is not None and len(size.items) == 1
    return size.kind is Kind.NUMBER and len(arguments) == 1


def _sparse(arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """`torch.sparse_coo_tensor(indices, values, size, device=...)`: a tensor where its values are, or where asked."""
    given = [each for each in (*arguments, keywords.get("values", UNKNOWN)) if each.holds_tensors]
    values = given[-1] if given else UNKNOWN
    dtype = keywords["dtype"].dtype if "dtype" in keywords else values.dtype
    device, because = values.device, values.because
    if "device" in keywords and keywords["device"].kind is not Kind.NONE:
        device, because = as_device(keywords["device"]) or Device.UNKNOWN, keywords["device"].because
    return Value(Kind.TENSOR, device, False, dtype=dtype, because=because)


def _like(model: Value, keywords: dict[str, Value]) -> Value:
    """`torch.zeros_like(x, dtype=..., device=...)` and the like."""
    dtype = keywords["dtype"].dtype if "dtype" in keywords else model.dtype
    like = Value(Kind.TENSOR, model.device, model.scalar, model.vector, dtype, because=model.because)
    if model.kind is not Kind.TENSOR:
        like = like._replace(scalar=None, vector=None)
    if "device" not in keywords or keywords["device"].kind is Kind.NONE:
        return like
    return like._replace(device=as_device(keywords["device"]) or Device.UNKNOWN, because=())


_OF_NUMBERS = {"int": "int64", "bool": "bool"}
"""The dtype of tensors that are made of Python's numbers; that of floats is a setting."""


def _inferred_dtype(name: str, arguments: list[Value], keywords: dict[str, Value]) -> str | None:
    if name in ("zeros", "ones", "empty", "eye", "linspace", "rand", "randn"):
        return "float32"
    if name in ("randperm", "randint", "tril_indices", "triu_indices"):
        return "int64"
    if name in ("tensor", "as_tensor") and arguments and arguments[0].kind is Kind.CONTAINER:
        element = arguments[0].element or UNKNOWN
        return _OF_NUMBERS.get(element.dtype or "") if element.kind is Kind.NUMBER else None
    if name == "full":
        filled = arguments[1] if len(arguments) > 1 else keywords.get("fill_value", UNKNOWN)
        return _OF_NUMBERS.get(filled.dtype or "") if filled.kind is Kind.NUMBER else None
    if name == "arange" and arguments and all(a.kind is Kind.NUMBER and a.dtype == "int" for a in arguments):
        return "int64"
    return None


def _module_for(arguments: list[Value]) -> str | None:
    """The module whose function takes these arguments, where it may be NumPy's or torch's."""
    if any(each.holds_tensors for each in arguments):
        return "torch"
    return "numpy" if any(each.kind is Kind.NUMPY for each in arguments) else None


def library_call(
    evaluator: ExpressionValues, node: ast.Call, ref: str, arguments: list[Value], keywords: dict[str, Value]
) -> Value:
    """The result of calling the library function or class `ref`."""
    first = arguments[0] if arguments else UNKNOWN
    if ref.startswith(NUMPY_OR_TORCH):
        module = _module_for([*arguments, *keywords.values()])
        return (
            UNKNOWN
            if module is None
            else library_call(evaluator, node, module + ref[len(NUMPY_OR_TORCH) :], arguments, keywords)
        )
    root, _, name = ref.rpartition(".")
    if ref == SOME_FUNCTIONAL and any(each.kind is Kind.UNKNOWN for each in (*arguments, *keywords.values())):
        placed_there = [each for each in arguments[:2] if each.holds_tensors and each.device.on_accelerator]
        if not placed_there:  # else the functions of `torch.nn.functional` take both from there
            return UNKNOWN
    given = applying.applied(evaluator, node, ref, arguments, keywords, library_call)
    if given is not None:
        return given
    if root == "builtins":
        return _builtin(evaluator, node, name, arguments, keywords)
    if ref in torch_api.FACTORIES:
        return _factory(evaluator, node, ref, arguments, keywords)
    if ref == torch_api.CAUSAL_MASK:
        return _causal_mask(evaluator, node, arguments, keywords)
    if ref in torch_api.SPARSE_FACTORIES:
        made = _sparse(arguments, keywords)
        return placed(made, evaluator.placed) if evaluator.placed else made
    if ref in torch_api.LEGACY_FACTORIES:
        return Value(Kind.TENSOR, Device.CPU, dtype=torch_api.LEGACY_FACTORIES[ref])
    if root == "torch.cuda" and name.endswith("Tensor"):
        return Value(
            Kind.TENSOR, Device.CUDA, because=(Because(node.lineno, f"`torch.cuda.{name}` lives on the device"),)
        )
    if ref == "torch.device":
        named = node.args[0] if node.args else next((each.value for each in node.keywords if each.arg == "type"), None)
        first = first if node.args else keywords.get("type", UNKNOWN)
        device = None if named is None else named_device(named, first)
        if named is None and "index" in keywords:
            device = Device.LIKELY  # of whatever accelerator there is
        if device is None and first.kind is Kind.STRING:
            device = Device.LIKELY  # a name built at run time: f"cuda:{rank}", args.device
        return Value(Kind.DEVICE, device or Device.UNKNOWN, because=first.because)
    if ref == torch_api.DEFAULT_DEVICE:
        return Value(Kind.DEVICE, evaluator.default_device or Device.UNKNOWN)
    if ref == torch_api.CURRENT_ACCELERATOR:
        return Value(Kind.DEVICE, Device.LIKELY)
    if ref in torch_api.HOST_RESULTS:
        return BY_WORD.get(torch_api.HOST_RESULTS[ref], UNKNOWN)
    if root == "torch" and name.startswith(torch_api.ASKS_KIND):
        return NUMBER
    if ref in ("torch.from_numpy", "torch._shape_as_tensor"):
        return Value(Kind.TENSOR, Device.CPU)
    if ref in torch_api.LOADERS:
        batch = BATCH._replace(device=Device.CPU, sources=(node,))
        return Value(Kind.LOADER, element=batch, ref=ref, created=node, sources=(node,))
    if ref in torch_api.DATASET_PARTS:
        return first if ref == "torch.utils.data.Subset" else container(first)
    if ref in torch_api.SCALERS:
        return Value(Kind.SCALER, ref=ref, created=node)
    if ref in torch_api.KEEP_MODULE:
        if ref in torch_api.ON_CURRENT_DEVICE and first.kind is Kind.MODULE:
            step = Because(node.lineno, f"wrapped by `{name}`")
            return first if first.device.on_accelerator else first._replace(device=Device.LIKELY, because=(step,))
        return _copied(first) if ref == "copy.deepcopy" else first
    if ref == "torch.nn.Parameter":
        return Value(Kind.TENSOR, ref=ref, dtype=first.dtype)
    if ref.startswith("torch.optim.") and name[:1].isupper():
        return Value(Kind.OPTIMIZER if ".lr_scheduler." not in ref else Kind.INSTANCE, ref=ref, created=node)
    metric = torchmetrics_api.metric_class(ref)
    if metric is not None:
        made = Value(Kind.METRIC, ref=metric, created=node)
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
    if ref in ("typing.cast", "typing_extensions.cast", "torch.jit.annotate") and len(arguments) > 1:
        return arguments[1]
    if name == "_group_tensors_by_device_and_dtype" and root.startswith("torch."):
        # For each device and dtype: the given lists, with fewer tensors, and the tensors' positions.
        return container(container(None, [(0, first), (1, container(INTEGER))], "tuple"), ref="dict")
    if ref.startswith("torch._foreach_"):
        given = next((value for value in arguments if value.kind is Kind.CONTAINER), first)
        return container(element_of(given)._replace(scalar=None, vector=None))
    if ref in distributions_api.FAMILIES:
        return distributions.made(node, ref, arguments, keywords, evaluator.default_device)
    if ref == distributions_api.BROADCAST and arguments:
        return distributions.brought_to_one_shape(arguments)
    if ref in distributions_api.DIVERGENCES and distributions.is_distribution(first):
        return first.element or UNKNOWN
    if ref in torch_api.VARIABLES:
        return first if first.kind is Kind.TENSOR else Value(Kind.TENSOR, first.device, because=first.because)
    if ref.startswith(torch_api.INITIALISERS):
        return first
    if ref.startswith(torch_api.PACKED):
        return _packed(name, arguments or list(keywords.values()))
    if ref == torch_api.GRADIENTS:
        asked = [*arguments[:2], *(keywords[key] for key in ("outputs", "inputs") if key in keywords)]
        return container(tensor_from([_each(value) for value in asked])._replace(scalar=None, dtype=None), ref="tuple")
    if ref == "torch.normal" and all(value.kind in (Kind.NUMBER, Kind.CONTAINER) for value in arguments):
        return _factory(evaluator, node, ref, [], keywords)
    if name in conventions.RANKS and not root.startswith("torch"):
        return INTEGER
    if ref.startswith("torch."):
        made = _torch_function(ref, root, name, arguments, keywords)
        if ref in _NORMS_OF_GRADIENTS:
            return evaluator.trained(made, node)
        unknown = any(value.kind is Kind.UNKNOWN or half_shown(value) for value in arguments)
        on_host = any(map(is_of_host, arguments))
        return placed(made, evaluator.placed) if unknown and not on_host and evaluator.placed else made
    if ref in other_libraries.TENSOR_FUNCTIONS and first.holds_tensors:
        tensor = tensor_from([first])._replace(scalar=None)
        return tensor._replace(dtype=None) if name in other_libraries.GIVE_POSITIONS else tensor
    if ref.startswith(other_libraries.IMAGE_FUNCTIONS):
        return _image(name, first)
    if ref in other_libraries.SCORES and first.holds_tensors:
        return container(tensor_from([first])._replace(scalar=True, dtype="float"))
    if ref in numpy_api.GIVE_PLACES or (ref == "numpy.where" and len(arguments) == 1):
        return container(Value(Kind.NUMPY, scalar=False), ref="tuple")
    if ref == numpy_api.PLACES_AS_GIVEN:
        return container(Value(Kind.NUMPY, scalar=first.scalar if first.kind is Kind.NUMPY else None), ref="tuple")
    if ref.startswith("numpy."):
        return arrays.of_function(ref, arguments, keywords)
    if ref.startswith("math.") or ref in ("time.time", "time.perf_counter", "time.monotonic"):
        return NUMBER
    if root == "collections":
        kept = collections.made(evaluator, node, name, arguments, keywords)
        if kept is not None:
            return kept
    if root == "random":
        return iteration.chosen(name, first)
    if root == "itertools":
        return iteration.iterated(node, name, arguments, keywords)
    if name in iteration.PAIRING:
        return iteration.paired(node, name, arguments, keywords)
    is_bar = root.partition(".")[0] == "tqdm"
    if is_bar and name == "trange":
        return container(INTEGER)
    if is_bar or name in conventions.LOADER_WRAPPERS:
        return _wrapped(first)
    return Value(Kind.INSTANCE, ref=ref, created=node) if name[:1].isupper() else UNKNOWN


def _image(name: str, image: Value) -> Value:
    """The result of a function of torchvision on an image."""
    result = other_libraries.OTHER_IMAGE_RESULTS.get(name, "image")
    if result == "host tensor":
        return Value(Kind.TENSOR, Device.CPU)  # of an image or an array: it refuses tensors
    if result == "number":
        return INTEGER
    image = as_data(image)
    if result == "unknown" or not image.holds_tensors:
        return UNKNOWN
    tensor = tensor_from([image])._replace(scalar=None, dtype=None)
    return container(tensor, ref="tuple") if result == "several" else tensor


def _each(value: Value) -> Value:
    """A tensor, or any of a list of tensors."""
    return as_data(element_of(value) if value.kind is Kind.CONTAINER else value)


def _packed(name: str, arguments: list[Value]) -> Value:
    """The result of a function on sequences of different lengths."""
    tensor = tensor_from([_each(arguments[0])] if arguments else [])._replace(scalar=None)
    if name in ("pad_sequence", "unpad_sequence", "unpack_sequence"):
        return tensor if name == "pad_sequence" else container(tensor)
    if name in ("pack_padded_sequence", "pack_sequence"):
        return Value(Kind.PYTREE, tensor.device, because=tensor.because)
    if name == "pad_packed_sequence":
        lengths = Value(Kind.TENSOR, Device.CPU, vector=True, dtype="int64")
        return container(join(tensor, lengths), [(0, tensor), (1, lengths)], "tuple")
    return UNKNOWN


def half_shown(value: Value) -> bool:
    """A tensor that is on the device on one path and of unknown device on another."""
    return value.holds_tensors and value.device is Device.UNKNOWN and bool(value.because)


def _copied(value: Value) -> Value:
    """The result of `deepcopy`: a copied loader still yields a loader's batches."""
    if value.kind is not Kind.CONTAINER:
        return derived(value)
    element = None if value.element is None else _copied(value.element)
    return value._replace(element=element, items=None)


def _holding(holder: Value, arguments: list[Value]) -> Value:
    """A container of modules with its arguments: a dict or list of modules, or the modules one by one."""
    if len(arguments) == 1 and arguments[0].kind is Kind.CONTAINER:
        return holder._replace(element=arguments[0].element, items=arguments[0].items)
    return holder._replace(element=join_all(arguments)) if arguments else holder


def _wrapped(first: Value) -> Value:
    """tqdm(loader), prefetch(loader): the same elements."""
    return first if first.kind in (Kind.LOADER, Kind.CONTAINER, Kind.PYTREE) else UNKNOWN


def _joined(parts: list[Value]) -> Value:
    """Tensors joined into one: they must share a device, so one known device is that of all."""
    tensor = tensor_from(parts)
    if tensor.device is Device.UNKNOWN and any(part.is_tensor and part.device is Device.CPU for part in parts):
        return tensor._replace(device=Device.CPU, because=())
    return tensor


def _torch_function(ref: str, root: str, name: str, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    if ref.startswith("torch.distributed.nn.") and arguments and arguments[0].holds_tensors:
        given_back = derived(arguments[0])  # collectives that support autograd
        return container(given_back) if name in ("all_gather", "gather") else given_back
    if ref.startswith(torch_api.NOT_TENSOR_MODULES) or name[:1].isupper():
        return UNKNOWN
    is_laid = name in torch_api.LAY_OUT_BY_SIZES and bool(arguments)
    given = [as_data(value) for value in (arguments[:1] if is_laid else (*arguments, *keywords.values()))]
    flat = [as_data(v.element) if v.kind is Kind.CONTAINER and v.element is not None else v for v in given]
    tensor = tensor_from([value for value in flat if value.holds_tensors or value.device.on_accelerator])
    if name in torch_api.JOINS:
        joined = arguments[0] if arguments else keywords.get("tensors", UNKNOWN)
        parts = [as_data(part) for _, part in joined.items or ()]
        if parts:
            tensor = _joined([part for part in parts if part.holds_tensors or part.device.on_accelerator])
    if ref in _NORMS:
        return tensor._replace(scalar=True)
    if name in torch_api.SEVERAL_OF_SEVERAL:
        each = tensor._replace(scalar=None, vector=None)
        is_one = len(arguments) == 1 and arguments[0].kind is not Kind.CONTAINER
        return each if is_one else container(each, None, "tuple")
    if ref in torch_api.LIKE_FACTORIES:
        return _like(arguments[0] if arguments else keywords.get("input", UNKNOWN), keywords)
    if root == "torch.nn.functional":
        if name in torch_api.SCALAR_LOSSES:
            by_place = next((each for each in arguments if each.kind is Kind.STRING), None)
            reduction = keywords.get("reduction", by_place)
            scalar = True if reduction is None or reduction.constant in ("mean", "sum") else None
            return tensor._replace(scalar=scalar, dtype="float")
        return tensor._replace(scalar=None, vector=None, dtype=None)
    return computed(name, tensor, arguments[1:], keywords)
