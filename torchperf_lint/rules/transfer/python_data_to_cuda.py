"""`torch.tensor(0.5, device=device)` in every step: Python data are packed on the host, copied, and waited for."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, NoFix, Safety, Severity, Unproven
from torchperf_lint.idioms.arguments import given
from torchperf_lint.idioms.caches import filled_once
from torchperf_lint.idioms.sync.lists_of_steps import kept_by_steps
from torchperf_lint.idioms.sync.numpywork import comes_from_numpy
from torchperf_lint.idioms.transfer import pinned_copies, uploads
from torchperf_lint.idioms.transfer.built_there import build_there
from torchperf_lint.idioms.transfer.choices import choices_of_host, without_packing
from torchperf_lint.idioms.transfer.construction import (
    built_on_host,
    made_here,
    makers_on_host,
    may_be_size,
    packed_by_callers,
    packed_data,
    table_moved,
    type_is_asked,
    type_is_told_by_test,
)
from torchperf_lint.idioms.transfer.filling import FACTORIES, Packing, filled_there
from torchperf_lint.idioms.transfer.normalizing import normalizing
from torchperf_lint.idioms.transfer.observations import of_host
from torchperf_lint.idioms.transfer.transfers import hot_moves
from torchperf_lint.idioms.transfer.written_numbers import written_as_number
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.engine.findings import Because, Fix
    from torchperf_lint.idioms.transfer.transfers import Move
    from torchperf_lint.model import Model, Site, Value

_TAKES_NUMBERS_SINCE = ">=1.12"
"""Before, a number that was given to `torch.where` stood for a tensor of float64."""
_MAKES = "torch.tensor"
_FOR_HOST_DATA = "no proof that this is host data, but `torch.tensor` warns where it is given a tensor"
_LEAF_OPTIONS = frozenset({"requires_grad", "pin_memory"})
_LEGACY = tuple(f"torch.cuda.{name}Tensor" for name in ("Float", "Long", "Double", "Half", "Int", "Bool", "Byte"))


@rule(
    code="TPL202",
    name="python-data-to-cuda",
    category=Category.TRANSFER,
    summary="a device tensor is made of Python data in every step",
    message="`{call}` {takes}, {copies} to the device{waits}, {where}",
    severity=Severity.ERROR,
    fix=Safety.SAFE,
    assumes="the value is a number of Python that the tensor's dtype can hold",
    triggers=((".to(", ".cuda(", ".type_as(", "tensor(", "asarray(", "Tensor(", "torchvision"),),
    asks=("torch",),
)
def python_data_to_cuda(model: Model) -> Iterator[Finding]:
    """Calls that create a device tensor from a number, a list or a host array, in every step."""
    for packing in sorted(_packings(model), key=lambda each: each.site.start):
        what = _describe(model, packing)
        says: tuple[Because, ...] = ()
        if what is None and _is_hardly_a_tensor(model, packing):
            what, says = "data", (Unproven(packing.site.rows[0], _FOR_HOST_DATA),)
        if what is None and (arm := _arm_of_host(model, packing)) is not None:
            what, says = arm
        observed = of_host(model, packing.site, packing.data) if what is None else None
        if observed is not None:
            what, says = "an observation", (observed,)
        if what is None or filled_once(model, packing.site) or comes_from_numpy(model, packing.site):
            continue
        fields = {
            "call": model.brief(packing.site.node),
            "takes": f"packs {what} on the CPU",
            "copies": "copies it",
            "waits": packing.waits,
            "where": packing.hot_path.where,
        }
        fix = written_as_number(model, packing) or pinned_copies.safer(
            filled_there(model, packing), functools.partial(_sent, model, packing)
        )
        yield Finding(packing.site, (*packing.because, *says, *packing.hot_path.because), fix, fields)
    for move in hot_moves(model):
        if built_on_host(model, move.moved) is None and not filled_once(model, move.site):
            yield from _moved_later(model, move)
    for choice in choices_of_host(model):
        packed = " and ".join(f"`{model.brief(call)}`" for call in choice.packed)
        fields = {
            "call": model.brief(choice.site.node),
            "takes": f"takes {packed} from the CPU",
            "copies": "copies it" if len(choice.packed) == 1 else "copies them",
            "waits": " and waits",
            "where": choice.hot_path.where,
        }
        is_old = model.target.torch_is(_TAKES_NUMBERS_SINCE) is False
        fix = NoFix.DTYPE_UNKNOWN if is_old else without_packing(model, choice)
        yield Finding(choice.site, (*choice.because, *choice.hot_path.because), fix, fields)
    for call in normalizing(model):
        fields = {
            "call": model.brief(call.site.node),
            "takes": "packs mean and deviation on the CPU",
            "copies": "copies them",
            "waits": " and waits",
            "where": call.hot_path.where,
        }
        yield Finding(call.site, (*call.because, *call.hot_path.because), NoFix.FORM, fields)
    for site in model.calls(*FACTORIES):
        kept = kept_by_steps(model, site, site.node.args[0].value) if site.node.args else None
        if kept is not None and model.on_device(site.node) is not None:
            fields = {
                "call": model.brief(site.node),
                "takes": "packs tensors of the device on the CPU",
                "copies": "copies them",
                "waits": " and waits",
                "where": f"once per tensor that is kept {kept.where}",
            }
            yield Finding(site, kept.because, NoFix.SEVERAL_MAKERS, fields, kept.minor)


def _sent(model: Model, packing: Packing) -> Fix | NoFix:
    """Copy what is packed from pinned memory, unless packing itself reads tensors of the device."""
    if uploads.holds_device_tensors(model.value(packing.data)) and not _lists_numbers(model, packing.data):
        return NoFix.SEVERAL_MAKERS  # each is read, and that waits as well
    if packing.move is not None:
        return pinned_copies.sent(model, packing.move)
    if uploads.makes_on_device(model):
        return NoFix.NOT_PINNED  # packed without a device, the tensor might lie on one that holds no values
    return pinned_copies.packed_and_sent(model, packing.site, packing.call)


def _moved_later(model: Model, move: Move) -> Iterator[Finding]:
    """A move of a tensor packed in earlier rows, of a value computed from packed data, or of a NumPy table."""
    call = model.brief(move.site.node)
    fields = {"call": call, "copies": "copies it", "waits": _waits(move), "where": move.hot_path.where}
    table = table_moved(model, move)
    if table is not None:
        fields["takes"] = "takes a NumPy array that never changes"
        yield Finding(move.site, move.hot_path.because, pinned_copies.sent(model, move), fields)
        return
    makers = makers_on_host(model, move)
    if not makers or any(maker.packs is None for maker in makers) or type_is_asked(model, move.site, move.moved):
        return
    because = made_here(model, move, makers[0])
    if because:
        fields |= {"call": f"{makers[0].name}(...)", "copies": f"`{call}` copies it"}
    fields["takes"] = f"packs {makers[0].packs} on the CPU"
    yield Finding(move.site, (*because, *move.hot_path.because), pinned_copies.sent(model, move), fields)


def _packings(model: Model) -> Iterator[Packing]:
    for move in hot_moves(model):
        built = built_on_host(model, move.moved)
        if built is not None and built.packs and built.call.args:
            there = build_there(model, move, built)
            edits_, grade = ((), there) if isinstance(there, NoFix) else there
            if isinstance(grade, Safety) and not built.exact:
                grade = grade.at_worst(Safety.UNSAFE)
            yield Packing(
                move.site, built.call, built.call.args[0].value, move.hot_path, (), edits_, grade, _waits(move), move
            )
    for site in model.calls(*FACTORIES, hot=True):
        call = site.node
        device = given(model, call, "device")
        if call.args and device is not None and not device.absent and model.on_device(call) is not None:
            yield from _packing(model, site, call)
    for site in model.method_calls("new_tensor", hot=True):
        owner = shape.receiver(site.node)
        if (
            site.node.args
            and owner is not None
            and model.on_device(owner)
            and shape.argument(site.node, "device") is None
        ):
            yield from _packing(model, site, site.node)
    for site in model.calls(*_LEGACY, hot=True):
        if site.node.args and not may_be_size(model, site.node.args[0].value):
            yield from _packing(model, site, site.node)


def _waits(move: Move) -> str:
    return "" if move.non_blocking else " and waits"


def _packing(model: Model, site: Site, call: cst.Call) -> Iterator[Packing]:
    hot_path = model.hot_path(site)
    if hot_path is not None and not _is_leaf(model, call):
        yield Packing(site, call, call.args[0].value, hot_path, model.on_device(call) or (), (), Safety.SAFE)


def _is_leaf(model: Model, call: cst.Call) -> bool:
    """`requires_grad=True`: the tensor is a parameter, created in every step on purpose."""
    names = {each.keyword.value for each in call.args if each.keyword is not None}
    asked = names & _LEAF_OPTIONS if all(each.star != "**" for each in call.args) else _LEAF_OPTIONS
    options = [given(model, call, name) for name in asked]
    return any(each is None or not (each.absent or each.is_constant(False)) for each in options)


def _describe(model: Model, packing: Packing) -> str | None:
    """The kind of packed host data; None if unknown."""
    value = model.value(packing.data)
    if value.kind is Kind.NUMBER:
        return "a Python number"
    if value.kind is Kind.NUMPY:
        return "a NumPy array"
    is_asked = _holds_unknown(value) and type_is_asked(model, packing.site, packing.data)
    is_told = not is_asked and type_is_told_by_test(model, packing.site, packing.data)
    if is_told or (is_asked and not _lists_numbers(model, packing.data)):
        return packed_by_callers(model, packing.site, packing.data)
    return packed_data(model, packing.data)


def _lists_numbers(model: Model, data: cst.BaseExpression) -> bool:
    """Whether it is a literal list of what callers are seen to pass numbers for, beside tensors or alone."""
    if not isinstance(data, (cst.List, cst.Tuple)):
        return False
    values = [model.value(element.value) for element in data.elements]
    return all(value.kind is Kind.NUMBER or value.mixed for value in values)


def _is_hardly_a_tensor(model: Model, packing: Packing) -> bool:
    """Whether nothing is known of what `torch.tensor` or `new_tensor` is given, and no tests of its type lead here."""
    value = model.value(packing.data)
    is_open = value.kind in (Kind.UNKNOWN, Kind.METHOD) and not value.device.on_accelerator
    # An attribute of a module that nobody knows is where the module is only if it is a tensor.
    owner = value.element if value.kind is Kind.METHOD else None
    of_module = owner is not None and owner.kind is Kind.MODULE and isinstance(packing.data, cst.Attribute)
    return (
        (is_open or of_module)
        and (model.value(packing.call.func).ref == _MAKES or shape.method_name(packing.call) == "new_tensor")
        and not type_is_asked(model, packing.site, packing.data)
    )


def _arm_of_host(model: Model, packing: Packing) -> tuple[str, tuple[Because, ...]] | None:
    """The host data that an arm of `np.array(v) if isinstance(v, list) else v` packs, and that it need not be taken."""
    choice = packing.data
    if not isinstance(choice, cst.IfExp) or not type_is_asked(model, packing.site, choice):
        return None
    arms = (choice.body, choice.orelse)
    if any(model.value(arm).device.on_accelerator for arm in arms):
        return None
    if any(isinstance(arm, cst.Call) and model.value(arm).kind is Kind.NUMPY for arm in arms):
        test = edits.text_of(packing.site.tree, choice.test)
        return "a NumPy array", (Unproven(packing.site.rows[0], f"no proof of what `{test}` tells here"),)
    return None


def _holds_unknown(value: Value) -> bool:
    while value.kind is Kind.CONTAINER and value.element is not None:
        value = value.element
    return value.kind is not Kind.NUMBER
