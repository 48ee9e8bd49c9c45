"""The value of a call, by what is called."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because, Moved
from torchperf_lint.knowledge import (
    conventions,
    hooks,
    host_only,
    other_libraries,
    torch_api,
    torchmetrics_api,
    transforms,
)
from torchperf_lint.model.callgraph import class_unions, registries
from torchperf_lint.model.domain.values import NONE, NUMBER, STRING, UNKNOWN, Device, Kind, Value, container, join_all
from torchperf_lint.model.syntax.index import last_name
from torchperf_lint.model.values import applying, arrays, distributions, host_uses, records, tree_movers
from torchperf_lint.model.values.devices import HOST_DATA, as_device, moved, moved_object, named_device
from torchperf_lint.model.values.iteration import tuple_of
from torchperf_lint.model.values.library import half_shown, library_call
from torchperf_lint.model.values.loader_classes import building_call, loader_class, options_from_caller
from torchperf_lint.model.values.modules import is_part, module_call, module_method, part_method
from torchperf_lint.model.values.name_heuristics import BATCH
from torchperf_lint.model.values.spreading import spread
from torchperf_lint.model.values.tensors import (
    SOME_TENSOR,
    element_of,
    held_at,
    holds_unknown,
    is_of_host,
    is_python_data,
    key_of,
    placed,
    tensor_from,
    tensor_method,
)

if TYPE_CHECKING:
    from torchperf_lint.model.domain.interfaces import ExpressionValues
    from torchperf_lint.model.syntax.index import FunctionInfo

_SAME_METRIC = frozenset("to cuda cpu set_dtype train eval requires_grad_".split())
"""Methods of a metric that return the metric itself."""


def result(
    evaluator: ExpressionValues,
    node: ast.Call,
    callee: Value,
    arguments: list[Value],
    keywords: dict[str, Value],
    starred: bool,
) -> Value:
    """The value of a call."""
    kind = callee.kind
    followed = _followed(evaluator, callee) if starred else None
    if followed is not None:
        held, bound = evaluator.frame.values, kind is not Kind.FUNCTION and not followed.is_static
        arguments, keywords = spread(followed, bound, node, lambda each: held.get(each, UNKNOWN))
        starred = False
    if callee.function is None and host_only.RETURN_TENSORS in keywords and "device" not in keywords:
        return HOST_DATA
    if kind is Kind.LIBRARY:
        assert callee.ref is not None
        owner, _, name = callee.ref.rpartition(".")
        if owner == "torch.Tensor" and arguments and arguments[0].holds_tensors:  # `torch.Tensor.size(x)`
            its_own = Value(Kind.METHOD, ref=name, element=arguments[0])
            return _method(evaluator, node, its_own, arguments[1:], keywords, starred)
        return library_call(evaluator, node, callee.ref, arguments, keywords)
    if kind is Kind.FUNCTION and callee.function is not None:
        return _given_by(evaluator, callee.function, arguments, keywords, starred)
    if kind is Kind.CLASS and callee.cls is not None:
        made = evaluator.inference.instance(callee.cls, callee.ref)._replace(created=node)
        return records.made(evaluator.inference, _as_loader(evaluator, made, node), node, arguments, keywords)
    if kind is Kind.CLASS and isinstance(callee.constant, tuple):
        return records.named_tuple([str(name) for name in callee.constant], arguments, keywords)
    if kind is Kind.CLASS:
        return class_unions.made(evaluator.inference, callee.among, node)
    if callee.among:
        called = class_unions.as_callable(evaluator.inference, callee)
        given = class_unions.joined(
            evaluator.inference, called, lambda each: result(evaluator, node, each, arguments, keywords, starred)
        )
        if given is not None and given.kind is not Kind.UNKNOWN:
            return given
    if kind is Kind.MODULE:
        return module_call(evaluator, callee, arguments, keywords)
    if callee.ref == applying.PARTIAL:
        given = applying.called(evaluator, node, callee, arguments, keywords, library_call)
        return UNKNOWN if given is None or starred else given
    if kind is Kind.INSTANCE and callee.cls is not None:
        method = evaluator.inference.method(callee.cls, "__call__")
        if method is not None:
            return evaluator.inference.called(method, [callee, *arguments], keywords, starred)
    if kind is Kind.INSTANCE and callee.ref in transforms.TENSORS_TO_TENSORS and callee.cls is None:
        return tensor_from(arguments[:1])._replace(scalar=None, dtype=None) if _is_image(arguments) else UNKNOWN
    if kind is Kind.METRIC:
        return Value(Kind.TENSOR, callee.device, scalar=None, because=callee.because)
    if kind is Kind.METHOD:
        given = _method(evaluator, node, callee, arguments, keywords, starred)
        is_known = given.kind is not Kind.UNKNOWN or given.device.on_accelerator or given.among
        return given if is_known else _handed_on(node, arguments)
    if kind is Kind.UNKNOWN and _iterates_inherited(evaluator, node):
        return _own_loader(evaluator, node)
    if kind is Kind.UNKNOWN and callee.device.on_accelerator:
        return Value(Kind.PYTREE, callee.device, because=callee.because)
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "cuda") and kind is Kind.UNKNOWN:
        return moved(node, UNKNOWN, node.func.attr, arguments, keywords)
    if isinstance(node.func, ast.Attribute) and node.func.attr == "astype" and kind is Kind.UNKNOWN:
        # Tensors have no such method.
        return UNKNOWN if host_uses.may_have_other_arrays(evaluator.frame.function.index) else Value(Kind.NUMPY)
    return _handed_on(node, arguments)


def _is_image(arguments: list[Value]) -> bool:
    return len(arguments) == 1 and arguments[0].holds_tensors


def _followed(evaluator: ExpressionValues, callee: Value) -> FunctionInfo | None:
    """The function of the program that a call runs; None if there is none."""
    if callee.function is not None or callee.cls is None or callee.kind not in (Kind.MODULE, Kind.INSTANCE):
        return callee.function
    return evaluator.inference.method(callee.cls, "forward" if callee.kind is Kind.MODULE else "__call__")


def _given_by(
    evaluator: ExpressionValues,
    function: FunctionInfo,
    arguments: list[Value],
    keywords: dict[str, Value],
    starred: bool,
) -> Value:
    """The result of a function of the program.

    Inside a module's call, an unknown argument counts as a tensor there, and so does an unknown result, unless some
    argument is on the host. An unknown result of Python data alone is on the host.
    """
    given = evaluator.inference.called(function, arguments, keywords, starred)
    if not evaluator.placed:
        return given
    passed = (*arguments, *keywords.values())
    if given in (UNKNOWN, SOME_TENSOR) and passed and all(map(is_python_data, passed)):
        return given._replace(device=Device.CPU)
    is_open = given == SOME_TENSOR or half_shown(given)
    unknown = is_open or any(value.kind is Kind.UNKNOWN or holds_unknown(value) for value in passed)
    return placed(given, evaluator.placed) if unknown and not any(map(is_of_host, passed)) else given


def _as_loader(evaluator: ExpressionValues, made: Value, node: ast.Call) -> Value:
    """An object of a class derived from a library's loader: a loader that yields what its own `__iter__` yields."""
    cls, inference = made.cls, evaluator.inference
    if made.kind is not Kind.INSTANCE or cls is None or loader_class(inference, cls) is None:
        return made
    built = building_call(inference, cls)
    by_caller = built is None or options_from_caller(inference, cls) is not None
    sources = ((node,) if by_caller else ()) + (() if built is None else (built.call,))
    batch = BATCH._replace(device=Device.CPU, sources=sources)
    iterated = inference.method(cls, "__iter__")
    if iterated is not None:
        batch = element_of(inference.called(iterated, [made], {}))
    return made if batch == UNKNOWN else made._replace(kind=Kind.LOADER, element=batch, sources=batch.sources)


def named_mover(node: ast.Call, given: Value, arguments: list[Value], keywords: dict[str, Value]) -> Value:
    """The result of an unknown call whose function name says that it moves its first argument."""
    is_known = given.kind is not Kind.UNKNOWN or given.device is not Device.UNKNOWN
    if is_known or not arguments or isinstance(node.args[0], ast.Starred):
        return given
    name = last_name(node.func) or ""
    named = conventions.MOVING_HELPERS.search(name)
    if named is None:
        return given
    device: Device | None = Device.LIKELY
    if named.group(1) == "device":
        targets = [*zip(node.args[1:], arguments[1:], strict=False)]
        targets += [(k.value, keywords[k.arg]) for k in node.keywords if k.arg in ("device", "target_device")]
        named_devices = [named_device(argument, value) for argument, value in targets]
        device = next((device for device in named_devices if device is not None), None)
    if device is None or not device.on_accelerator:
        return given
    return tree_movers.placed(Moved(node.lineno, f"moved to the device by `{name}(...)`"), arguments[0], device)


def _handed_on(node: ast.Call, arguments: list[Value]) -> Value:
    """The result of an unknown object's method: `metric_logger.log_every(loader, 10)` passes the batches on."""
    if not isinstance(node.func, ast.Attribute):
        return UNKNOWN
    owner, name = last_name(node.func.value) or "", node.func.attr
    if owner in ("accelerator", "fabric"):
        placed = _placing(node, owner, name, arguments)
        if placed.kind is not Kind.UNKNOWN:
            return placed
    loader = next((value for value in arguments if value.kind is Kind.LOADER), UNKNOWN)
    return loader if name in conventions.LOADER_WRAPPERS else UNKNOWN


def _of_one(evaluator: ExpressionValues, each: Value, name: str, node: ast.Call) -> Value:
    """`each.name`; UNKNOWN if it is a method of an object that itself may have several classes, so that unions end."""
    found = evaluator.attribute_of(each, name, node)
    return UNKNOWN if found.element is not None and found.element.among else found


def _shown_by(callee: Value, given: Value) -> Value:
    """A result, with the evidence of which method is called."""
    is_known = callee.function is not None or bool((callee.element or UNKNOWN).among)
    if not callee.because or given == UNKNOWN or not is_known:
        return given
    return given._replace(because=(*given.because, *callee.because))


def _method(
    evaluator: ExpressionValues,
    node: ast.Call,
    callee: Value,
    arguments: list[Value],
    keywords: dict[str, Value],
    starred: bool,
) -> Value:
    base, name = callee.element or UNKNOWN, callee.ref or ""
    if base.kind is Kind.UNKNOWN and base.among and name in ("to", "cuda", "cpu"):
        return moved(node, base, name, arguments, keywords)
    if base.among and callee.function is None:
        given = class_unions.joined(
            evaluator.inference,
            base,
            lambda each: result(evaluator, node, _of_one(evaluator, each, name, node), arguments, keywords, starred),
        )
        if given is not None and given.kind is not Kind.UNKNOWN:
            return _shown_by(callee, given)
    if callee.function is not None:
        bound = [] if callee.function.is_static else [base]
        given = _shown_by(callee, _given_by(evaluator, callee.function, [*bound, *arguments], keywords, starred))
        if given.kind is Kind.INSTANCE and given.items is not None and given.items == base.items:
            return records.after_method(node, given, callee.function, arguments, keywords)
        return given
    if base.kind in (Kind.PYTREE, Kind.UNKNOWN) and name in torch_api.MODULE_ONLY_METHODS:
        base = Value(Kind.MODULE, base.device, because=base.because)
    if base.holds_tensors:
        return tensor_method(evaluator, node, base, name, arguments, keywords)
    if base.kind is Kind.MODULE and f"{base.ref}.{name}" == torch_api.CAUSAL_MASK:
        return library_call(evaluator, node, torch_api.CAUSAL_MASK, arguments, keywords)
    if base.kind is Kind.MODULE:
        return module_method(evaluator, node, base, name, arguments, keywords)
    if base.kind is Kind.METRIC:
        if name in ("to", "cuda", "cpu"):
            return moved(node, base, name, arguments, keywords)
        if name in ("set_dtype", "train", "eval", "requires_grad_", "clone"):
            return base
        return Value(Kind.TENSOR, base.device, because=base.because) if name in ("compute", "forward") else UNKNOWN
    if base.kind is Kind.OPTIMIZER and name in conventions.CLIPPING_METHODS:
        return evaluator.trained(Value(Kind.TENSOR, scalar=True, mixed=True), node)
    if base.kind is Kind.OPTIMIZER and name == "step" and arguments and arguments[0].function is not None:
        return evaluator.inference.called(arguments[0].function, [], {})  # it returns what the closure returns
    if base.kind is Kind.SCALER:
        return arguments[0] if name == "scale" and arguments else UNKNOWN
    if base.kind is Kind.LOADER and name == "__iter__" and not arguments:
        return base
    if base.kind is Kind.CONTAINER and name == "_replace":
        return records.replaced(base, keywords) or UNKNOWN
    if base.kind is Kind.CONTAINER:
        return _container_method(base, name, arguments)
    if base.kind is Kind.NUMPY:
        if name == "item":
            return NUMBER
        return UNKNOWN if name == "tolist" else arrays.of_method(base, name, arguments)
    if base.kind is Kind.STRING:
        return Value(Kind.STRING, as_device(base) or Device.UNKNOWN) if name == "format" else STRING
    if base.kind is Kind.INSTANCE and name in ("to", "cuda", "cpu") and not _is_metric(base):
        return moved(node, moved_object(base), name, arguments, keywords)
    if base.kind is Kind.INSTANCE and base.ref is not None:
        if base.ref.rpartition(".")[2] == hooks.GRADIENT_BUCKET:
            return _in_bucket(evaluator, node, name)
        if distributions.is_distribution(base):
            return distributions.method(base, name, arguments)
        if base.ref in other_libraries.REGISTRIES:
            return registries.given_by(base, name, arguments)
        if name in _SAME_METRIC and _is_metric(base):
            return base
        return _placing(node, base.ref, name, arguments)
    holder = base.element if base.kind is Kind.METHOD else None
    if holder is not None and is_part(evaluator.inference, holder, base.ref or ""):
        return part_method(evaluator, node, base, name, arguments, keywords)
    if base.kind is Kind.METHOD and base.element is not None and base.element.kind is Kind.PYTREE:
        return tensor_method(evaluator, node, base.element._replace(ref=None), name, arguments, keywords)
    if base.kind is Kind.UNKNOWN and base.device.on_accelerator:
        return tensor_method(evaluator, node, base._replace(kind=Kind.PYTREE), name, arguments, keywords)
    return UNKNOWN


def _iterates_inherited(evaluator: ExpressionValues, node: ast.Call) -> bool:
    """`super().__iter__()` in a class derived from a library's loader, whose own iterator that is."""
    func, function = node.func, evaluator.frame.function
    if function.cls is None or not isinstance(func, ast.Attribute) or func.attr != "__iter__" or node.args:
        return False
    if not isinstance(func.value, ast.Call) or last_name(func.value.func) != "super":
        return False
    cls, inference = function.cls, evaluator.inference
    is_loader = loader_class(inference, cls) is not None
    return is_loader and not any("__iter__" in each.methods for each in inference.lineage(cls)[1:])


def _own_loader(evaluator: ExpressionValues, node: ast.Call) -> Value:
    """The batches of the object's own class, as the library's loader gives them."""
    cls = evaluator.frame.function.cls
    built = None if cls is None else building_call(evaluator.inference, cls)
    batch = BATCH._replace(device=Device.CPU, sources=() if built is None else (built.call,))
    return Value(Kind.LOADER, element=batch, sources=batch.sources)


def _is_metric(value: Value) -> bool:
    return value.ref is not None and torchmetrics_api.metric_class(value.ref) is not None


def _container_method(base: Value, name: str, arguments: list[Value]) -> Value:
    element = base.element or UNKNOWN
    if name in ("get", "pop", "popleft", "setdefault"):
        if name == "setdefault" and base.element is None:
            return arguments[1] if len(arguments) > 1 else NONE
        return held_at(base, arguments[0]) if name == "get" and arguments else element
    if name == "values":
        return container(element)
    if name == "items":
        return container(tuple_of([_key_of(base), element]))
    if name == "keys":
        return container(_key_of(base))
    if name == "copy":
        return base
    return NUMBER if name in ("index", "count") else UNKNOWN


def _key_of(mapping: Value) -> Value:
    """A key of a mapping; a string if its keys are unknown."""
    return key_of(mapping) if mapping.items else STRING


def _in_bucket(evaluator: ExpressionValues, node: ast.Call, name: str) -> Value:
    """A method of a bucket of gradients; its tensors are on the device if the program uses one."""
    tensor = Value(Kind.TENSOR)
    if not evaluator.inference.cpu_only:
        says = "gradients live where the model is trained"
        tensor = tensor._replace(device=Device.LIKELY, because=(Because(node.lineno, says),))
    if name == hooks.BUCKET_TENSOR:
        return tensor._replace(vector=True)
    return container(tensor) if name in hooks.BUCKET_TENSORS else UNKNOWN


def _placing(node: ast.Call, ref: str, name: str, arguments: list[Value]) -> Value:
    """accelerator.prepare(...), fabric.setup(...): the same objects on the device; `gather(...)`: larger tensors."""
    if name in ("gather", "gather_for_metrics", "reduce", "all_gather", "all_reduce", "pad_across_processes"):
        gathers = "ccelerat" in ref or "abric" in ref
        return arguments[0]._replace(scalar=None, vector=None, origin=None) if gathers and arguments else UNKNOWN
    if name == "clip_grad_norm_" and "ccelerat" in ref:
        says = "the norm is computed where the parameters are, which Accelerate has placed"
        return Value(Kind.TENSOR, Device.LIKELY, scalar=True, because=(Because(node.lineno, says),))
    if not (
        (name in ("prepare", "prepare_model", "prepare_data_loader") and "ccelerat" in ref)
        or (name in ("setup", "setup_module", "setup_dataloaders") and "abric" in ref)
    ):
        return UNKNOWN
    step = Because(node.lineno, f"placed on the device by `{name}(...)`")

    def placed(value: Value) -> Value:
        if value.kind is Kind.LOADER:
            element = (value.element or BATCH)._replace(device=Device.LIKELY, because=(step,))
            return value._replace(element=element, device=Device.LIKELY)
        if value.kind in (Kind.MODULE, Kind.UNKNOWN):
            return value._replace(device=Device.LIKELY, because=(step,))
        return value

    values = [placed(argument) for argument in arguments]
    if len(values) == 1:
        return values[0]
    return container(join_all(values), list(enumerate(values)), "tuple")
