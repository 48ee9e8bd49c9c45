"""`preds.extend(out.cpu().numpy())` in every step: whole tensors brought to the host batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Safety, Severity
from torchperf_lint.knowledge.host_work import NEEDS_HOST, WRITES_OUT
from torchperf_lint.model.helpers import helper_reads, stands_in_reader
from torchperf_lint.model.reads import hot_reads
from torchperf_lint.model.values import Kind
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.model import Heat, Model, Site


@rule(
    code="TPL107",
    name="host-copy-in-hot-loop",
    category=Category.SYNC,
    summary="a tensor is copied from the device to the host in every step",
    message="`{copy}` copies from the device and waits for it {where}",
    severity=Severity.ERROR,
    fix=Safety.SHOWN,
    triggers=((".cpu", ".numpy", ".tolist", '"cpu"', "'cpu'", "cpu(", "numpy(", "np(", "host("),),
)
def host_copy_in_hot_loop(model: Model) -> Iterator[Finding]:
    """The first copy of each chain `x.detach().cpu().numpy()`, unless the value goes on to be one number."""
    for site, copied, says in _copies(model):
        heat = model.heat(site)
        because = model.on_device(copied)
        if heat is None or because is None or _is_deliberate(model, site, heat):
            continue
        if not _is_copied(model, copied) or _is_part_of_read(model, site) or _must_be_on_host(model, site, heat):
            continue
        fix = None if says else _collect_on_device(model, site)
        fields = {"copy": model.brief(site.node), "where": heat.where}
        yield Finding(site, (*because, *says, *heat.because), fix, fields)


def _copies(model: Model) -> Iterator[tuple[Site, cst.BaseExpression, tuple[Because, ...]]]:
    """What brings a tensor to the host, the tensor, and, if a helper does it, what shows that."""
    for site in model.method_calls("cpu", "to", "numpy", "tolist", hot=True):
        receiver = shape.receiver(site.node)
        if receiver is not None and _brings_to_host(site.node) and not stands_in_reader(model, site):
            yield site, receiver, ()
    for each in helper_reads(model):
        if each.copies:
            yield each.site, each.argument, (each.because,)


def _brings_to_host(call: cst.Call) -> bool:
    name = shape.method_name(call)
    if name == "to":
        place = shape.argument(call, "device", 0)
        return isinstance(place, cst.SimpleString) and place.evaluated_value == "cpu"
    return name in ("cpu", "numpy", "tolist") and not (name == "cpu" and call.args)


def _is_deliberate(model: Model, site: Site, heat: Heat) -> bool:
    """A module's `forward` that works on the host, or a branch for programs that keep their data there."""
    return heat.label in ("`forward`", "`backward`") or model.chosen_for_device(site)


def _is_copied(model: Model, receiver: cst.BaseExpression) -> bool:
    """Something whose data are copied; of an unknown object's `.cpu()` that is not known."""
    return model.value(receiver).kind is not Kind.UNKNOWN


def _is_part_of_read(model: Model, site: Site) -> bool:
    """`x.cpu().item()` is a scalar read, and other rules' matter."""
    return any(read.site.start <= site.start and site.end <= read.site.end for read in hot_reads(model))


def _outermost(model: Model, call: cst.Call) -> cst.Call:
    """The last call of the method chain that the call stands in."""
    while True:
        attribute = model.parent(call)
        outer = model.parent(attribute) if isinstance(attribute, cst.Attribute) else None
        if not isinstance(outer, cst.Call) or outer.func is not attribute:
            return call
        call = outer


def _must_be_on_host(model: Model, site: Site, heat: Heat) -> bool:
    """Whether the copy goes to something that works on the host only, or decides what the loop does next."""
    node: cst.CSTNode = site.node
    parent = model.parent(node)
    while parent is not None:
        if isinstance(parent, cst.Call) and isinstance(node, cst.Arg) and _works_on_host(model.text(parent.func)):
            return True
        if isinstance(parent, (cst.Index, cst.Slice)):
            return True
        if isinstance(parent, (cst.If, cst.While, cst.For)) and node is not getattr(parent, "body", None):
            return True
        if isinstance(parent, cst.Assign) and len(parent.targets) == 1:
            name = shape.dotted(parent.targets[0].target)
            return name is not None and _used_on_host(model, site, heat, name)
        node, parent = parent, model.parent(parent)
    return False


def _works_on_host(function: str) -> bool:
    name = function.rpartition(".")[2]
    return name in NEEDS_HOST or name in WRITES_OUT or "env" in function.split(".")[:-1]


def _used_on_host(model: Model, site: Site, heat: Heat, name: str) -> bool:
    """Whether a copy that is given a name is written out, or steers the loop, later in the step."""
    in_step = [use for use in model.uses(name, site, heat).of("load") if use.inside or heat.loop is None]
    return any(use.decides or _works_on_host(use.call or "") for use in in_step)


def _collect_on_device(model: Model, site: Site) -> Fix | None:
    """Append the tensors as they are, and bring them over after the loop."""
    outer, heat = _outermost(model, site.node), model.heat(site)
    argument = model.parent(outer)
    call = model.parent(argument) if isinstance(argument, cst.Arg) else None
    if heat is None or not isinstance(call, cst.Call) or shape.method_name(call) != "append" or len(call.args) != 1:
        return None
    collected = shape.receiver(call)
    kept = shape.receiver(site.node)
    if not isinstance(collected, cst.Name) or kept is None:
        return None
    name = collected.value
    if sum(use.inside for use in model.uses(name, site, heat).uses) != 1:
        return None  # the list is looked at, or made, within the loop
    copy = "." + model.text(outer)[site.tree.span(site.node.func.attr)[0] - site.tree.span(outer)[0] :]
    bare = shape.without_calls(kept, frozenset({"detach"}))
    changed = edits.together(
        edits.replace(site.tree, outer, edits.postfix(site.tree, bare) + ".detach()"),
        model.insert_after(heat, f"{name} = [kept{copy} for kept in {name}]"),
    )
    title = "collect on the device, which takes its memory, and copy after the loop"
    return None if changed is None else Fix(title, Safety.SHOWN, changed)
