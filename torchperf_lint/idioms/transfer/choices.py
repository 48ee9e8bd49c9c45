"""`torch.where(mask, x, torch.tensor(0.0))`: the number is packed on the host, and `where` copies it and waits."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Fix, NoFix, Safety
from torchperf_lint.idioms.transfer import magnitudes
from torchperf_lint.idioms.transfer.construction import built_on_host
from torchperf_lint.idioms.transfer.uploads import makes_on_device
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.engine.findings import Because, Edit
    from torchperf_lint.model import HotPath, Model, Site

_MAKES = "torch.tensor"
_OF_EVERY_INTEGER = range(128)
_ASSUMES = "the other choice has dimensions, and a dtype that can hold the number"


class Choice(NamedTuple):
    """A call of `torch.where` with numbers that are packed on the host, each with the call that packs it."""

    site: Site
    hot_path: HotPath
    because: tuple[Because, ...]
    packed: tuple[cst.Call, ...]
    other: cst.BaseExpression | None  # the other choice, where one is packed


def choices_of_host(model: Model) -> Iterator[Choice]:
    """The calls that run in every step, whose condition is on the device."""
    for site in model.calls("torch.where", hot=True):
        given = [shape.argument(site.node, name, place) for place, name in enumerate(("condition", "input", "other"))]
        known = [each for each in given if isinstance(each, cst.BaseExpression)]
        if len(known) < len(given):
            continue
        condition, *choices = known
        because = model.on_device(condition)
        packed = {id(each): built for each in choices if (built := _packed(model, each)) is not None}
        hot_path = model.hot_path(site) if packed and because is not None else None
        if hot_path is not None and not makes_on_device(model):
            others = [each for each in choices if id(each) not in packed]
            yield Choice(site, hot_path, because or (), tuple(packed.values()), others[0] if others else None)


def _packed(model: Model, node: cst.BaseExpression) -> cst.Call | None:
    """The call that packs a number into a tensor without dimensions on the host."""
    built = built_on_host(model, node)
    if built is None or built.ref != _MAKES or not built.bare or not built.call.args:
        return None
    return built.call if model.value(built.call.args[0].value).kind is Kind.NUMBER else None


def without_packing(model: Model, choice: Choice) -> Fix | NoFix:
    """`torch.where(mask, x, 0.0)`: the numbers as they are."""
    if any(argument.keyword is not None for argument in choice.site.node.args):
        return NoFix.FORM  # `out=` and `input=` take tensors alone
    changed: list[Edit | None] = []
    for call in choice.packed:
        number = call.args[0]
        if len(call.args) != 1 or number.star or number.keyword is not None:
            return NoFix.FORM
        if not _is_exact(model, number.value):
            return NoFix.DTYPE_UNKNOWN
        changed.append(edits.replace(choice.site.tree, call, model.text(number.value)))
    together = edits.together(*changed)
    if together is None:
        return NoFix.NO_ROOM
    numbers = [call.args[0].value for call in choice.packed]
    safe = choice.other is None or all(_is_alike(model, choice.other, number) for number in numbers)
    grade = Safety.SAFE if safe else Safety.UNSAFE
    return Fix("choose the number itself", grade, together, "" if safe else _ASSUMES)


def _is_exact(model: Model, number: cst.BaseExpression) -> bool:
    """Whether float16 can hold the literal, and float32 holds it as it is."""
    constant = _constant(model, number)
    if constant is None or not model.certain_number(number):
        return False
    if not math.isfinite(constant):
        return True
    return abs(constant) <= magnitudes.OF_FLOAT16 and struct.unpack("f", struct.pack("f", constant))[0] == constant


def _constant(model: Model, number: cst.BaseExpression) -> int | float | None:
    """The value of a literal, perhaps without its sign; TorchScript makes an int64 tensor of a bool."""
    if isinstance(number, cst.UnaryOperation) and isinstance(number.operator, (cst.Minus, cst.Plus)):
        number = number.expression
    constant = model.value(number).constant
    return constant if isinstance(constant, (int, float)) and not isinstance(constant, bool) else None


def _is_alike(model: Model, other: cst.BaseExpression, number: cst.BaseExpression) -> bool:
    """Whether the result is the same beside this number and beside a tensor without dimensions.

    Beside another tensor without dimensions, both decide on the dtype. A number that the dtype of `other` does not hold
    is an error, and a tensor is cast.
    """
    constant = _constant(model, number)
    held = isinstance(constant, float) or (constant in _OF_EVERY_INTEGER and not isinstance(number, cst.UnaryOperation))
    return model.certain_number(other) or (model.value(other).is_tensor and model.value(other).scalar is False and held)
