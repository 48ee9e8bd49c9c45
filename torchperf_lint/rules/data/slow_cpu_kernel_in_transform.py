"""`convolve2d(mask, cross, mode="same").astype(bool)` for each sample: sums of products where a few ORs would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Safety, Severity
from torchperf_lint.idioms.arguments import given
from torchperf_lint.idioms.data import sample_code
from torchperf_lint.model.meaning.values import Kind
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site

_CONVOLVE = "scipy.signal.convolve2d"
_CORRELATE = "scipy.signal.correlate2d"
_Kernel = list[list[object]]


@rule(
    code="TPL408",
    name="slow-cpu-kernel-in-transform",
    category=Category.DATA,
    summary="a mask is grown by a convolution on the host for each sample",
    message="`{call}` grows a mask by a general convolution on the host, for each sample",
    severity=Severity.WARNING,
    fix=Safety.SHOWN,
    triggers=(("convolve2d", "correlate2d"),),
    cpu_only_too=True,  # samples are made on the host
)
def slow_cpu_kernel_in_transform(model: Model) -> Iterator[Finding]:
    """Convolutions of masks with a few ones, whose result is only asked for being more than zero, in sample code."""
    for site in model.calls(_CONVOLVE, _CORRELATE):
        whole = _as_mask(model, site)
        same = given(model, site.node, "mode", 2)
        filled = [given(model, site.node, "boundary", 3), given(model, site.node, "fillvalue", 4)]
        if whole is None or same is None or same.value is None or same.value.constant != "same":
            continue
        if any(each is None or not each.absent for each in filled) or model.in_test(site):
            continue
        kernel = _kernel(model, site)
        because = None if kernel is None else sample_code.makes_samples(model, site)
        if kernel is not None and because is not None:
            fields = {"call": f"{model.text(site.node.func)}(...)"}
            yield Finding(site, because, _shifted(model, site, whole, kernel), fields)


def _as_mask(model: Model, site: Site) -> cst.BaseExpression | None:
    """The expression around the call that only asks where its result is not zero."""
    parent = model.parent(site.node)
    if isinstance(parent, cst.Attribute) and parent.attr.value == "astype":
        call = model.parent(parent)
        kind = model.text(call.args[0].value) if isinstance(call, cst.Call) and len(call.args) == 1 else ""
        return call if isinstance(call, cst.Call) and kind.removeprefix("np.").rstrip("_") == "bool" else None
    if isinstance(parent, cst.Comparison) and len(parent.comparisons) == 1 and parent.left is site.node:
        asked = parent.comparisons[0]
        is_zero = isinstance(asked.operator, (cst.GreaterThan, cst.NotEqual)) and shape.is_literal(
            asked.comparator, "0"
        )
        return parent if is_zero else None
    return None


def _kernel(model: Model, site: Site) -> _Kernel | None:
    """The kernel's rows, if they are written out, three by three, and hold nothing but zeros and ones."""
    passed = given(model, site.node, "in2", 1)
    node = None if passed is None else passed.node
    if isinstance(node, cst.Call) and node.args:
        ref = model.value(node.func).ref
        if ref == "numpy.ones" and model.text(node.args[0].value).strip("()[]").replace(" ", "") == "3,3":
            return [[1] * 3] * 3
        node = node.args[0].value if ref in ("numpy.array", "numpy.asarray") else None
    value = None if node is None else model.value(node)
    if value is None or value.kind is not Kind.CONTAINER or value.items is None:
        return None
    rows = [[each.constant for _, each in row.items or ()] for _, row in value.items]
    plain = len(rows) == 3 and all(len(row) == 3 and all(each in (0, 1) for each in row) for row in rows)
    return rows if plain and any(each for row in rows for each in row) else None


def _shifted(model: Model, site: Site, whole: cst.BaseExpression, kernel: _Kernel) -> Fix | None:
    """The OR of the mask and of its shifted copies, cut out of the mask with a border of zeros around it."""
    numpy = model.name_of("numpy", site)
    mask = site.node.args[0].value
    if numpy is None or model.binds("padded", site) or site.node.args[0].star or site.node.args[0].keyword:
        return None
    flips = model.value(site.node.func).ref == _CONVOLVE
    shifts = [(row, column) for row in range(3) for column in range(3) if kernel[row][column]]
    shifts = sorted((2 - row, 2 - column) for row, column in shifts) if flips else shifts
    parts = [f"padded[{_cut(row)}, {_cut(column)}]" for row, column in shifts]
    text = " | ".join(parts)
    around = model.parent(whole)
    bare = isinstance(around, (cst.Assign, cst.Return, cst.Arg, cst.AnnAssign))
    line = edits.line_before(site.tree, f"padded = {numpy}.pad({model.text(mask)}, 1)")
    changed = edits.together(line, edits.replace(site.tree, whole, text if bare else f"({text})"))
    title = "combine shifted copies of the mask (a boolean array of two dimensions)"
    return None if changed is None else Fix(title, Safety.SHOWN, changed)


def _cut(start: int) -> str:
    return (":-2", "1:-1", "2:")[start]
