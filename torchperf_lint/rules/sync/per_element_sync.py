"""`[p.item() for p in preds]`: one wait per element where one copy would transfer them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, NoFix, Rate, Safety, Severity
from torchperf_lint.idioms.caches import filled_once
from torchperf_lint.idioms.sync.ahead import read_ahead_or
from torchperf_lint.idioms.sync.element_items import is_used_up, items_at_once
from torchperf_lint.idioms.sync.element_loops import read_before_loop
from torchperf_lint.idioms.sync.lists_of_steps import kept_by_steps
from torchperf_lint.idioms.sync.reads import element_reads
from torchperf_lint.knowledge import torch_api
from torchperf_lint.knowledge.loggers import READER_ENDINGS
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.sync.reads import HostRead
    from torchperf_lint.model import Model, Value

_MAKERS = (*torch_api.HOST_DATA_FACTORIES, *torch_api.LEGACY_FACTORIES)


@rule(
    code="TPL108",
    name="per-element-sync",
    category=Category.SYNC,
    summary="the elements of a device tensor are read one by one",
    message="`{read}` waits for the device once per {unit}",
    severity=Severity.ERROR,
    rate=Rate.SEVERAL,
    fix=Safety.SAFE,
    assumes="every value has one element, and a count may come back as a float",
    triggers=((".item", *(f"{ending}(" for ending in READER_ENDINGS), "tensor(", "Tensor("), "for "),
)
def per_element_sync(model: Model) -> Iterator[Finding]:
    """Comprehensions and loops that read each element of a device tensor, or each tensor of a container.

    A tensor on the host that is made of a list of device tensors reads each of them, too.
    """
    for read in element_reads(model):
        fields = {"read": model.brief(read.site.node), "unit": read.sink}
        fix = read_ahead_or(model, read, read.unfixed or _all_at_once(model, read))
        yield Finding(read.site, (*read.because, *read.hot_path.because), fix, fields)
    for site in model.calls(*_MAKERS, hot=True, near_device=False):
        hot_path = model.hot_path(site)
        # With a device, the tensor is made of Python data: TPL202.
        if hot_path is None or not site.node.args or model.value(site.node).device.on_accelerator:
            continue
        listed = site.node.args[0].value
        value = model.value(listed)
        held = _tensor_in(value)
        if held is not None and held.device.on_accelerator and not filled_once(model, site):
            unit = f"element of `{model.brief(listed)}`" if held == value.element else "tensor in it"
            fields = {"read": model.brief(site.node), "unit": unit}
            yield Finding(site, (*held.because, *hot_path.because), NoFix.FORM, fields)
    for site in model.calls(*_MAKERS):
        kept = kept_by_steps(model, site, site.node.args[0].value) if site.node.args else None
        if kept is not None and not model.value(site.node).device.on_accelerator:
            fields = {"read": model.brief(site.node), "unit": f"tensor that is kept {kept.where}"}
            yield Finding(site, kept.because, NoFix.FORM, fields, kept.minor)


def _tensor_in(listed: Value) -> Value | None:
    """A tensor among what is listed, in lists of lists, too: any element, or the first scalar beside numbers."""
    if listed.kind is not Kind.CONTAINER or listed.element is None or listed.element.is_tensor:
        return listed.element if listed.kind is Kind.CONTAINER else None
    if listed.element.kind is Kind.CONTAINER:
        return _tensor_in(listed.element)
    among = [each for _, each in listed.items or ()]
    return next((each for each in among if each.is_tensor and each.device.on_accelerator and each.scalar is True), None)


def _all_at_once(model: Model, read: HostRead) -> Fix | NoFix:
    made = read.parent
    if isinstance(made, cst.GeneratorExp):
        return items_at_once(model, read, made) if is_used_up(model, made) else NoFix.FORM
    if not isinstance(made, (cst.ListComp, cst.DictComp)):
        return read_before_loop(model, read)
    fix = _tolist(model, read, made) if isinstance(made, cst.ListComp) else _stacked_dict(model, read, made)
    return items_at_once(model, read, made) if fix in (NoFix.FORM, NoFix.SHAPE_UNKNOWN) else fix


def _is_simple(loop: cst.CompFor) -> bool:
    return not loop.ifs and loop.inner_for_in is None and loop.asynchronous is None


def _tolist(model: Model, read: HostRead, comprehension: cst.ListComp) -> Fix | NoFix:
    """`preds.tolist()` for `[p.item() for p in preds]`, the same numbers if preds has one dimension."""
    loop = comprehension.for_in
    if not _is_simple(loop) or comprehension.elt is not read.site.node or shape.dotted(read.tensor) is None:
        return NoFix.FORM
    source = model.value(loop.iter)
    if model.text(read.tensor) != model.text(loop.target):
        return NoFix.FORM
    if source.kind is not Kind.TENSOR or not source.vector:
        return NoFix.SHAPE_UNKNOWN
    name = read.reader
    dtype = source.dtype or ""
    exact = (
        name == "item" or (name == "float" and dtype.startswith("float")) or (name == "int" and dtype.startswith("int"))
    )
    if not exact:
        return NoFix.DTYPE_UNKNOWN
    edit = edits.replace(read.site.tree, comprehension, edits.postfix(read.site.tree, loop.iter) + ".tolist()")
    return NoFix.NO_ROOM if edit is None else Fix("copy all elements at once", Safety.SAFE, (edit,))


def _stacked_dict(model: Model, read: HostRead, comprehension: cst.DictComp) -> Fix | NoFix:
    """One stack for `{k: v.item() for k, v in losses.items()}`: all values come back as floats."""
    loop = comprehension.for_in
    iterated = loop.iter
    torch = model.name_of("torch", read.site)
    if torch is None or not _is_simple(loop) or comprehension.value is not read.site.node:
        return NoFix.FORM
    if not (
        isinstance(iterated, cst.Call) and shape.method_name(iterated) == "items" and isinstance(loop.target, cst.Tuple)
    ):
        return NoFix.FORM
    names = [model.text(element.value) for element in loop.target.elements]
    owner = shape.receiver(iterated)
    source = None if owner is None else shape.dotted(owner)
    if source is None or len(names) != 2 or names != [model.text(comprehension.key), model.text(read.tensor)]:
        return NoFix.FORM
    # float64 represents every float, and every count up to 2**53.
    if read.reader == "int" or model.names_other_accelerators:
        return NoFix.DTYPE_UNKNOWN
    if not (model.keeps_builtin("dict") and model.keeps_builtin("zip")):
        return NoFix.NO_ROOM
    stacked = f"{torch}.stack([{names[1]}.detach().double() for {names[1]} in {source}.values()])"
    numbers = ".tolist()" if model.value(read.tensor).scalar else ".flatten().tolist()"
    # An empty list cannot be stacked.
    if_any = "" if owner is not None and model.value(owner).items else f" if {source} else []"
    edit = edits.replace(read.site.tree, comprehension, f"dict(zip({source}, {stacked}{numbers}{if_any}))")
    return NoFix.NO_ROOM if edit is None else Fix("stack the values and copy them at once", Safety.UNSAFE, (edit,))
