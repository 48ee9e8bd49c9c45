"""`if torch.isnan(loss):`, `max(a, b)`: a tensor's truth value is tested, and the host waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, NoFix, Safety, Severity
from torchperf_lint.idioms.sync.ahead import read_ahead, read_ahead_or
from torchperf_lint.idioms.sync.asked_again import asked_once
from torchperf_lint.idioms.sync.assertions import checked_there, raised_there
from torchperf_lint.idioms.sync.chosen_updates import updated_anyway
from torchperf_lint.idioms.sync.destinations import goes_to
from torchperf_lint.idioms.sync.flags import asked_when_written
from torchperf_lint.idioms.sync.guarded_masks import asked_for_nothing
from torchperf_lint.idioms.sync.joined_truths import asked_together
from torchperf_lint.idioms.sync.reads import hot_read_of
from torchperf_lint.idioms.sync.truths import hot_truths, read_truths
from torchperf_lint.idioms.written_helpers import FLAGS, stands_in
from torchperf_lint.knowledge.torch_api import FULL_REDUCTIONS
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.sync.truths import Truth
    from torchperf_lint.model import Model

_ON_DEVICE = {"max": ("maximum", "min"), "min": ("minimum", "max")}
"""For each Python function, the torch function for two device tensors, and the bound of `clamp` for a number."""


_RANGES: dict[str, tuple[int, int]] = {
    "uint8": (0, 2**8 - 1),
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "float16": (-65504, 65504),
}
"""The ranges of the narrow dtypes."""


@rule(
    code="TPL106",
    name="implicit-tensor-bool",
    category=Category.SYNC,
    summary="a device tensor is asked for true or false, or compared on the host, in every step",
    message="{what} waits for the device {where}",
    severity=Severity.ERROR,
    fix=Safety.SAFE,
    assumes="neither value is NaN, no gradient is split between equals, and the result may be a new tensor",
    triggers=(("if ", "if(", "while", "assert", " and ", " or ", "not ", "not(", "max(", "min(", "equal", "allclose"),),
)
def implicit_tensor_bool(model: Model) -> Iterator[Finding]:
    """Branches, `and`, `or`, `not` and assertions on tensors, and Python functions that compare or read them."""
    for truth in (*hot_truths(model), *read_truths(model)):
        if model.in_test(truth.site) or any(stands_in(model, truth.site, each) for each in FLAGS):
            continue
        text = f"`{model.brief(truth.site.node)}`"
        fields = {"what": text if truth.calls else f"the truth of {text}", "where": truth.hot_path.where}
        because = (*truth.because, *truth.hot_path.because)
        yield Finding(truth.site, because, _chosen_on_device(model, truth), fields)


def _chosen_on_device(model: Model, truth: Truth) -> Fix | NoFix:
    """`torch.maximum(a, b)` for `max(a, b)` of two scalars, `a.clamp(min=1)` for `max(a, 1)`."""
    if truth.is_mixed:
        return NoFix.MAY_BE_A_NUMBER
    call = truth.site.node
    name = call.func.value if isinstance(call, cst.Call) and isinstance(call.func, cst.Name) else ""
    if not truth.calls or not isinstance(call, cst.Call) or name not in _ON_DEVICE:
        reason, once = goes_to(model, call), asked_once(model, truth.site)
        if once is not None:
            return once
        if reason is NoFix.ASSERTS:
            return checked_there(model, truth.site)
        if reason is NoFix.DECIDES_A_BRANCH:
            again = asked_when_written(model, truth.site)
            unasked = asked_for_nothing(model, truth.site) or updated_anyway(model, truth.site)
            fix = again or unasked or raised_there(model, truth.site)
            fix = asked_together(model, truth.site) if fix is NoFix.DECIDES_A_BRANCH else fix
            return fix if isinstance(fix, Fix) else _read_ahead(model, truth, fix)
        return reason
    if len(call.args) != 2 or any(each.star or each.keyword for each in call.args) or shape.binds_or_defers(call):
        return NoFix.FORM
    function, bound = _ON_DEVICE[name]
    one, other = (each.value for each in call.args)
    if model.value(call.func).ref != f"builtins.{name}":
        return NoFix.NO_ROOM
    values = [model.value(one), model.value(other)]
    torch = model.name_of("torch", truth.site)
    if all(_is_scalar(model, each) for each in (one, other)):
        if torch is None:
            return NoFix.NO_ROOM
        if values[0].dtype != values[1].dtype or values[0].dtype is None:
            return NoFix.DTYPE_UNKNOWN
        new = f"{torch}.{function}({edits.text_of(truth.site.tree, one)}, {edits.text_of(truth.site.tree, other)})"
        exact = values[0].dtype.startswith(("int", "uint")) and _is_made_here(one) and _is_made_here(other)
        return _replaced(truth, new, Safety.SAFE if exact else Safety.UNSAFE)
    tensor, number = (one, other) if _is_scalar(model, one) else (other, one)
    if not _is_scalar(model, tensor):
        return NoFix.SHAPE_UNKNOWN
    if not model.certain_number(number) or not _keeps_dtype(model, tensor, number):
        return NoFix.DTYPE_UNKNOWN
    kept = edits.postfix(truth.site.tree, tensor)
    return _replaced(truth, f"{kept}.clamp({bound}={edits.text_of(truth.site.tree, number)})", Safety.UNSAFE)


def _read_ahead(model: Model, truth: Truth, reason: NoFix) -> Fix | NoFix:
    """The answers for all passes of a loop at once; where the read is written out, they are its numbers."""
    read = hot_read_of(model, truth.site)
    if read is not None:
        return read_ahead_or(model, read, reason)
    ahead = read_ahead(model, truth.site, truth.site.node)
    return reason if isinstance(ahead, NoFix) else ahead


def _replaced(truth: Truth, new: str, safety: Safety) -> Fix | NoFix:
    edit = edits.replace(truth.site.tree, truth.site.node, new)
    return NoFix.NO_ROOM if edit is None else Fix("choose on the device", safety, (edit,))


def _is_scalar(model: Model, node: cst.BaseExpression) -> bool:
    value = model.value(node)
    return value.kind is Kind.TENSOR and not value.mixed and value.scalar is True and value.device.on_accelerator


def _is_made_here(node: cst.BaseExpression) -> bool:
    """Whether it is a new tensor without other references: Python's `max` returns one of its arguments itself."""
    return isinstance(node, cst.Call) and shape.method_name(node) in FULL_REDUCTIONS


def _keeps_dtype(model: Model, tensor: cst.BaseExpression, number: cst.BaseExpression) -> bool:
    """Whether the number fits the tensor's dtype: a fractional bound turns integers into floats.

    A number outside the dtype's range is an error or wraps around: -1 is 255 for `torch.uint8`.
    """
    dtype, value = model.value(tensor).dtype or "", model.value(number)
    floats = dtype.startswith(("float", "bfloat"))
    if not floats and (not dtype.startswith(("int", "uint")) or value.dtype != "int"):
        return False
    low, high = _RANGES.get(dtype, (None, None))
    if low is None or high is None:
        return True
    bound = value.constant
    return isinstance(bound, (int, float)) and (low <= bound <= high or (floats and abs(bound) == float("inf")))
