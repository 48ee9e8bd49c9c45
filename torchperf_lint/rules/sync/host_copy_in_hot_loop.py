"""`preds.extend(out.cpu().numpy())` in every step: whole tensors brought to the host batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Safety, Severity
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site

_NEEDS_HOST = frozenset({"pack_padded_sequence", "batch_decode", "decode", "from_numpy", "linear_sum_assignment"})


@rule(
    code="TPL107",
    name="host-copy-in-hot-loop",
    category=Category.SYNC,
    summary="a tensor is copied from the device to the host in every step",
    message="`{copy}` copies from the device and waits for it on every pass of the {label}",
    severity=Severity.ERROR,
    fix=Safety.SHOWN,
    triggers=((".cpu", ".numpy", ".tolist", '"cpu"', "'cpu'"),),
)
def host_copy_in_hot_loop(model: Model) -> Iterator[Finding]:
    """The first copy of each chain `x.detach().cpu().numpy()`, unless the value goes on to be one number."""
    for site in model.method_calls("cpu", "to", "numpy", "tolist", hot=True):
        heat = model.heat(site)
        receiver = shape.receiver(site.node)
        if heat is None or receiver is None or not _brings_to_host(model, site.node):
            continue
        because = model.on_device(receiver)
        if (
            because is None
            or not _is_batch_sized(model, receiver)
            or _ends_in_a_number(model, site)
            or _must_be_on_host(model, site)
        ):
            continue
        fields = {"copy": model.text(site.node), "label": heat.label}
        yield Finding(site, (*because, *heat.because), _collect_on_device(model, site), fields)


def _brings_to_host(model: Model, call: cst.Call) -> bool:
    name = shape.method_name(call)
    if name == "to":
        place = shape.argument(call, "device", 0)
        return isinstance(place, cst.SimpleString) and place.evaluated_value == "cpu"
    return name in ("cpu", "numpy", "tolist") and not (name == "cpu" and call.args)


def _is_batch_sized(model: Model, receiver: cst.BaseExpression) -> bool:
    """A tensor that is not known to be one number; a module's `.cpu()` is no copy of a batch."""
    value = model.value(receiver)
    return value.holds_tensors and not value.scalar


def _ends_in_a_number(model: Model, site: Site) -> bool:
    """`x.cpu().item()` is a scalar read, and other rules' matter."""
    outer = _outermost(model, site.node)
    name = shape.method_name(outer)
    parent = model.parent(model.parent(outer) or outer)
    in_conversion = isinstance(parent, cst.Call) and shape.method_name(parent) in ("float", "int")
    return name == "item" or in_conversion


def _outermost(model: Model, call: cst.Call) -> cst.Call:
    """The last call of the method chain that the call stands in."""
    while True:
        attribute = model.parent(call)
        outer = model.parent(attribute) if isinstance(attribute, cst.Attribute) else None
        if not isinstance(outer, cst.Call) or outer.func is not attribute:
            return call
        call = outer


def _must_be_on_host(model: Model, site: Site) -> bool:
    """Whether the copy goes to something that works on the host only, or decides what the loop does next."""
    node: cst.CSTNode | None = model.parent(site.node)
    while node is not None and not isinstance(node, (cst.SimpleStatementLine, cst.If, cst.While)):
        if isinstance(node, cst.Call) and shape.method_name(node) in _NEEDS_HOST:
            return True
        if isinstance(node, cst.Call) and "env" in (shape.dotted(node.func) or ""):
            return True
        node = model.parent(node)
    return isinstance(node, (cst.If, cst.While))


def _collect_on_device(model: Model, site: Site) -> Fix | None:
    """Collect the detached tensor; one copy after the loop then brings all of them."""
    outer = _outermost(model, site.node)
    argument = model.parent(outer)
    call = model.parent(argument) if isinstance(argument, cst.Arg) else None
    if not isinstance(call, cst.Call) or shape.method_name(call) not in ("append", "extend"):
        return None
    inner = shape.receiver(site.node)
    assert inner is not None
    kept = shape.without_calls(inner, frozenset({"detach"}))
    edit = edits.replace(site.tree, outer, edits.postfix(site.tree, kept) + ".detach()")
    return None if edit is None else Fix("collect on the device and copy once after the loop", Safety.SHOWN, (edit,))
