"""Which of torch's transformers a call runs, and whether they are made of torch's own layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.knowledge.transformer_api import CHECKS, LAYERS, OTHER_PARTS, PARTS, TRANSFORMER
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.syntax import cst, shape

if TYPE_CHECKING:
    from torchperf_lint.model import Model, Value


def called(model: Model, call: cst.Call) -> tuple[str, bool]:
    """The name of torch's class of what is called, and whether its layers are torch's own; empty for all else."""
    named = shape.receiver(call) if shape.method_name(call) == "forward" else None
    node = call.func if named is None else named
    value = model.value(node)
    if value.ref in CHECKS and not model.has_method(value, "forward") and not model.has_method(value, "__call__"):
        return ("", False) if _gets_parts(model, value) else (value.ref or "", _has_own_layers(model, value))
    if not isinstance(node, cst.Attribute) or node.attr.value not in PARTS or value.function is not None:
        return "", False
    whole, name = model.value(node.value), node.attr.value  # `self.transformer` of `self.transformer.encoder`
    classes = [] if whole.cls is None else model.lineage(whole.cls)
    is_set = any(name in each.attributes for each in classes) or _gets_parts(model, whole)
    return ("", False) if whole.ref != TRANSFORMER or is_set else (PARTS[name], _has_own_layers(model, whole))


def _gets_parts(model: Model, module: Value) -> bool:
    """Whether a whole transformer is shown to be given an encoder or a decoder: that need not be torch's."""
    made = model.creation(module) if module.ref == TRANSFORMER else None
    if made is None or not isinstance(made.node, cst.Call):
        return False
    return any(shape.argument(made.node, *each) is not None for each in OTHER_PARTS)


def _has_own_layers(model: Model, module: Value) -> bool:
    """Whether the module is made of torch's own layers, which raise an error for a mask of another size."""
    made = None if module.cls is not None else model.creation(module)
    if made is None or not isinstance(made.node, cst.Call):
        return False
    if module.ref == TRANSFORMER:
        return not _gets_parts(model, module)
    name, own = LAYERS[module.ref or ""]
    layer = shape.argument(made.node, name, 0)
    value = model.value(layer) if isinstance(layer, cst.BaseExpression) else None
    return value is not None and value.kind is Kind.MODULE and value.ref == own and value.cls is None
