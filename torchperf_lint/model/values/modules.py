"""nn.Modules: their attributes, their methods, and the results of calls."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Unproven
from torchperf_lint.knowledge import conventions, torch_api
from torchperf_lint.model.callgraph import frameworks
from torchperf_lint.model.domain.values import INTEGER, STRING, UNKNOWN, Device, Kind, Value, container
from torchperf_lint.model.values import records
from torchperf_lint.model.values.devices import inside_module, moved
from torchperf_lint.model.values.tensors import SOME_TENSOR, element_of, is_of_host, placed

if TYPE_CHECKING:
    from torchperf_lint.engine.findings import Because
    from torchperf_lint.model.domain.interfaces import ExpressionValues, ValueQuestions
    from torchperf_lint.model.syntax.index import ClassInfo


def module_attribute(base: Value, name: str) -> Value:
    """`module.name` if the attribute itself is unknown."""
    if name == "device":
        device = base.device if base.device is not Device.UNKNOWN else Device.LIKELY
        return Value(Kind.DEVICE, device, because=base.because)
    if name == "dtype":
        return Value(Kind.DTYPE)
    if name == "module":
        return base
    if name == "training":
        return Value(Kind.NUMBER, dtype="bool")
    own = _own_attribute(base, name) if (base.ref or "").startswith("torch.nn.") else None
    if own is not None:
        return own
    return Value(Kind.METHOD, base.device, element=base, ref=name, because=base.because)


def _own_attribute(base: Value, name: str) -> Value | None:
    """An attribute of one of torch's own modules; what a `ModuleDict` holds under the name is one, too."""
    if base.ref in torch_api.HOLDERS:
        held = next((value for key, value in base.items or () if key == name), None)
        return None if held is None else inside_module(base, held)
    if name in torch_api.MODULE_NUMBERS:
        return INTEGER
    if name in torch_api.MODULE_FLAGS:
        return Value(Kind.NUMBER, dtype="bool")
    if name in torch_api.MODULE_FLOATS:
        return Value(Kind.NUMBER, dtype="float")
    if name in torch_api.MODULE_SIZES:
        return container(INTEGER, ref="tuple")
    if name in torch_api.MODULE_TENSORS:
        return Value(Kind.TENSOR, base.device, ref=torch_api.PARAMETER, because=base.because)
    return None


def module_call(
    evaluator: ExpressionValues, module: Value, arguments: list[Value], keywords: dict[str, Value]
) -> Value:
    """The result of a module call: what its `forward` in the program returns, else tensors where its inputs live."""
    given = [*arguments, *keywords.values()]
    flat = [v.element if v.kind is Kind.CONTAINER and v.element is not None else v for v in given]
    tensors = [value for value in flat if value.holds_tensors or value.device.on_accelerator]
    device, because = module.device, module.because
    there = [value for value in tensors if value.device.on_accelerator]
    if there:
        shown = next((value for value in there if value.device.is_cuda), there[0])
        device = module.device if module.device.is_cuda else shown.device
        because = shown.because
    if module.cls is not None:
        forward = evaluator.inference.method(module.cls, "forward")
        if forward is not None:
            result = evaluator.inference.called(
                forward, [module._replace(device=device, because=because), *arguments], keywords
            )
            if result.kind is Kind.INSTANCE and result.created is None:
                result = _promised(evaluator.inference, result, device, because)
            if device.on_accelerator and any(isinstance(step, Unproven) for step in result.because):
                result = result._replace(device=device, because=because)  # where the module is, says more
            if result.kind is not Kind.UNKNOWN:
                return _filled(result, Value(Kind.PYTREE, device, because=because))
    ref = module.ref or ""
    if ref == "criterion" or ref.endswith("Loss"):
        scalar = True if _reduces(module) else None
        loss = Value(Kind.TENSOR, device, scalar, dtype="float", because=because)
        return loss if ref != "criterion" else loss._replace(kind=Kind.PYTREE)
    if ref in torch_api.SEVERAL_OUTPUT_MODULES:
        return container(Value(Kind.TENSOR, device, because=because), None, "tuple")
    if ref.startswith("torch.nn.") and ref != torch_api.MODULE and module.cls is None:
        return Value(Kind.TENSOR, device, because=because)
    return Value(Kind.PYTREE, device, because=because)


def _promised(inference: ValueQuestions, record: Value, device: Device, because: tuple[Because, ...]) -> Value:
    """A record that `forward` promises, with its tensors where the module's results are; UNKNOWN for other objects."""
    held = records.promised(inference, record, because) if device.on_accelerator else record
    return UNKNOWN if held is record and record.items is None else held


def _filled(result: Value, opaque: Value) -> Value:
    """A module's result, with unknown parts replaced by the result of a module whose code is unknown.

    An annotation alone says that a part is a tensor, and not where it lives. A loss of unknown inputs does not either.
    """
    if result == UNKNOWN:
        return opaque
    if result == SOME_TENSOR:
        return opaque._replace(kind=Kind.TENSOR)
    is_open = result.kind is Kind.TENSOR and result.device is Device.UNKNOWN and not result.because
    if is_open and opaque.device.on_accelerator:
        return result._replace(device=opaque.device, because=opaque.because)
    if result.kind is not Kind.CONTAINER:
        return result
    element = None if result.element is None else _filled(result.element, opaque)
    items = None if result.items is None else tuple((key, _filled(item, opaque)) for key, item in result.items)
    return result._replace(element=element, items=items)


def _reduces(module: Value) -> bool:
    """Whether a loss module returns one element (no `reduction="none"`, no unknown reduction)."""
    call = module.created
    if call is None:
        return False
    for keyword in call.keywords:
        if keyword.arg in ("reduction", "reduce") or keyword.arg is None:
            return isinstance(keyword.value, ast.Constant) and keyword.value.value in ("mean", "sum")
    return True


def module_method(
    evaluator: ExpressionValues,
    node: ast.Call,
    base: Value,
    name: str,
    arguments: list[Value],
    keywords: dict[str, Value],
) -> Value:
    """`base.name(...)` of a module."""
    if name in ("to", "cuda", "cpu"):
        return moved(node, base, name, arguments, keywords)
    if name in ("train", "eval", "half", "float", "double", "bfloat16", "requires_grad_", "apply", "to_empty"):
        return base
    parameter = placed(Value(Kind.TENSOR, base.device, because=base.because), evaluator.placed)
    if name == "clip_grad_norm_":  # of FullyShardedDataParallel: returns the norm
        return evaluator.trained(parameter._replace(scalar=True), node)
    if name in ("parameters", "buffers"):
        return container(parameter)
    if name in ("named_parameters", "named_buffers"):
        return container(container(None, [(0, STRING), (1, parameter)], "tuple"))
    if name in ("items", "values", "keys") and base.ref == torch_api.MODULE_DICT:
        held = element_of(base)
        pair = container(None, [(0, STRING), (1, held)], "tuple")
        return container(pair if name == "items" else held if name == "values" else STRING)
    if name in ("modules", "children"):
        return container(Value(Kind.MODULE, base.device, because=base.because))
    if name == "state_dict":
        return container(parameter, ref="dict")
    if name in ("named_modules", "named_children", "load_state_dict", "register_buffer", "zero_grad"):
        return UNKNOWN
    if name in ("forward", "generate", "__call__"):
        return module_call(evaluator, base, arguments, keywords)
    data = [*map(_held, arguments), *(each for each in map(_held, keywords.values()) if each.holds_tensors)]
    there = next((each for each in data if each.device.on_accelerator), None)
    if there is None:
        return UNKNOWN
    given, of_host = Value(Kind.PYTREE, there.device, because=there.because), any(map(is_of_host, data))
    computes = name.startswith(("forward", "encode", "decode", "get_", "compute", "calc")) or "loss" in name
    inherits = base.cls is not None and _inherits(evaluator.inference, base.cls, name)
    if computes or (inherits and not of_host):
        return given
    if not of_host and (is_part(evaluator.inference, base, name) or _is_named_part(base, name)):
        return _by_part(node, name, given)
    return UNKNOWN


def part_method(
    evaluator: ExpressionValues,
    node: ast.Call,
    part: Value,
    name: str,
    arguments: list[Value],
    keywords: dict[str, Value],
) -> Value:
    """`self.head.loss(x)`, where nothing shows what `self.head` is: what a module gives."""
    module = Value(Kind.MODULE, part.device, because=part.because)
    given = module_method(evaluator, node, module, name, arguments, keywords)
    return _by_part(node, part.ref or "", given) if given.holds_tensors and given.device.on_accelerator else UNKNOWN


def _by_part(node: ast.Call, name: str, given: Value) -> Value:
    says = f"nothing shows what `{name}` is: a part of a module is taken to compute where its arguments are"
    return given._replace(device=Device.LIKELY, because=(*given.because, Unproven(node.lineno, says)))


def _held(value: Value) -> Value:
    """What a list or dict holds: `model.encode({name: x.cuda() for name, x in batch.items()})`."""
    return value.element if value.kind is Kind.CONTAINER and value.element is not None else value


def _is_named_part(module: Value, name: str) -> bool:
    """Whether a method of a module of unknown class is named as a model of its own: `model.text_encoder(x)`."""
    is_model = name in conventions.MODEL_NAMES or name.endswith((*conventions.MODEL_ENDINGS, "_tower"))
    says_more = conventions.MAKERS.match(name) or conventions.CHANGERS.match(name) or "_in_" in name
    return module.cls is None and is_model and not says_more


def is_part(inference: ValueQuestions, module: Value, name: str) -> bool:
    """Whether a module of the program has an attribute of this name that its methods set, to nothing that is known.

    Its name must not say that it may work on the host, as one that matches boxes does.
    """
    if module.kind is not Kind.MODULE or module.cls is None or conventions.MAY_WORK_ON_HOST.search(name):
        return False
    owners = inference.lineage(module.cls)
    return any(name in owner.attributes for owner in owners) and not any(name in owner.methods for owner in owners)


def _inherits(inference: ValueQuestions, cls: ClassInfo, name: str) -> bool:
    """Whether objects of the class have the method from a library's class, and it is named for what it does to data."""
    if not conventions.WORKS_ON_DATA.search(name) or not frameworks.has_unknown_base(inference.library_bases(cls)):
        return False
    return not any(name in owner.attributes for owner in inference.lineage(cls))
