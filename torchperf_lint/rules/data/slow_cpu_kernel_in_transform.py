"""`convolve2d(mask, cross, mode="same").astype(bool)` per sample: a sum of products where a few ORs suffice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Rate, Safety, Severity
from torchperf_lint.idioms.data import dilation, sample_code
from torchperf_lint.syntax import cst, edits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.data.dilation import Growth
    from torchperf_lint.model import Model, Site


@rule(
    code="TPL408",
    name="slow-cpu-kernel-in-transform",
    category=Category.DATA,
    summary="a mask is dilated by a slow operation on the host, for each sample",
    message="`{call}` grows a mask by a general {method} on the host, for each sample",
    severity=Severity.WARNING,
    rate=Rate.ELEMENT,
    fix=Safety.SAFE,
    assumes="the mask holds no NaN and nothing negative, and nothing changes the kernel",
    triggers=(("convolve2d", "correlate2d", "binary_dilation", "max_pool2d", "conv2d"),),
    cpu_only_too=True,  # samples are made on the host
)
def slow_cpu_kernel_in_transform(model: Model) -> Iterator[Finding]:
    """Convolutions, in code for samples, of masks with kernels of a few ones, whose result is only tested for > 0."""
    for site in model.calls(*dilation.CALLS):
        growth = None if model.in_test(site) else dilation.growth_at(model, site)
        if growth is None or (growth.of_torch and model.on_device(growth.mask) is not None):
            continue
        because = sample_code.makes_samples(model, site)
        if because is not None:
            ref = model.value(site.node.func).ref or ""
            method = "convolution" if ref.endswith(("convolve2d", "correlate2d", "conv2d")) else "operation"
            fields = {"call": f"{model.text(site.node.func)}(...)", "method": method}
            yield Finding(site, because, _shifted(model, site, growth), fields)


def _shifted(model: Model, site: Site, growth: Growth) -> Fix | None:
    """The OR of shifted slices of the zero-padded mask."""
    if len(growth.shifts) < 2 or growth.asked_later:
        return None
    boolean = dilation.is_boolean(model, growth.mask)
    padded = _bordered(model, site, growth, boolean=boolean)
    name = next((each for each in _NAMES if not model.code.names(each)), None)
    if padded is None or name is None:
        return None
    lines = [f"{name} = {padded}"]
    ahead = "..., " if growth.of_torch else ""
    if len(growth.shifts) == 9:  # rows first, then columns: six copies instead of nine
        behind = ", :" if growth.of_torch else ""
        lines.append(f"{name} = " + " | ".join(f"{name}[{ahead}{cut}{behind}]" for cut in _CUTS))
        parts = [f"{name}[{ahead or ':, '}{cut}]" for cut in _CUTS]
    else:
        parts = [f"{name}[{ahead}{_CUTS[row]}, {_CUTS[column]}]" for row, column in growth.shifts]
    around = model.parent(growth.whole)
    alone = isinstance(around, (cst.Assign, cst.Return, cst.Arg, cst.AnnAssign)) and not growth.whole.lpar
    bare = alone and not growth.part
    changed = edits.together(
        dilation.lines_before(model, growth, lines),
        edits.replace(site.tree, growth.whole, " | ".join(parts) if bare else f"({' | '.join(parts)}){growth.part}"),
    )
    # A slice of the result would be a strided view; a comparison of the slice gave a new array.
    whole = not growth.part.strip("[], 0123456789")
    exact = boolean and growth.fixed_kernel and growth.exact_sum and whole
    title = "combine shifted copies of the mask" + ("" if boolean else " (booleans, or no negative numbers)")
    return None if changed is None else Fix(title, Safety.SAFE if exact else Safety.UNSAFE, changed)


_NAMES = ("padded", "padded_mask", "bordered", "bordered_mask")
_CUTS = (":-2", "1:-1", "2:")


def _bordered(model: Model, site: Site, growth: Growth, *, boolean: bool) -> str | None:
    """The zero-padded mask as booleans, in C order like the convolution's result."""
    mask = model.text(growth.mask)
    if growth.of_torch:
        func = site.node.func
        functional = model.text(func.value) if isinstance(func, cst.Attribute) else None
        asked = mask if boolean else f"{edits.postfix(site.tree, growth.mask)} != 0"
        return None if functional is None else f"{functional}.pad({asked}, (1, 1, 1, 1))"
    numpy = model.name_of("numpy", site)
    asked = "" if boolean else " != 0"
    return None if numpy is None else f"{numpy}.pad({numpy}.ascontiguousarray({mask}), 1){asked}"
