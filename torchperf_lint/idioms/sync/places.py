"""Indices and sizes that host or device must wait for: which part of a subscript or call, and why."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.idioms.scripting import runs_as_script
from torchperf_lint.idioms.sync.host_numbers import is_host_number
from torchperf_lint.idioms.sync.host_truths import is_host_mask, is_made_of_truths, waits_for_masks
from torchperf_lint.idioms.sync.indexing import Use, hot_subscripts, parts_of
from torchperf_lint.idioms.sync.shown import is_part_shown
from torchperf_lint.knowledge.conventions import CRITERION_NAMES
from torchperf_lint.knowledge.torch_api import FULL_REDUCTIONS, NEEDS_SIZES, VIEW_METHODS
from torchperf_lint.model.domain.values import UNKNOWN, Device, Kind
from torchperf_lint.model.handles import dotted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.idioms.sync.indexing import Indexed
    from torchperf_lint.model import HotPath, Model, Site
    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.handles import CallRecord, FunctionInfo

    _Asks = Callable[[Model, FunctionInfo, ast.Call, Mapping[ast.expr, Value]], ast.expr | None]

_WHOLE = ("int", "uint")
_OF_ANYTHING = frozenset({"torch.tensor", "torch.as_tensor", "torch.asarray"})
_BY_LIST = ("list", "range")
_CTC = frozenset({"torch.nn.functional.ctc_loss", "torch.ctc_loss", "torch.nn.CTCLoss"})
_LOSSES_BY_LENGTH = frozenset({"ctc_loss", "ctc", "ctc_criterion", *CRITERION_NAMES})
"""Names of functions and modules that may be one of these."""


class Costly(NamedTuple):
    """A subscript or a call, in every step, that waits for an index or a size, and that part.

    `by` says how: `read` of an index or size on the device, `copy` of indices to the device, `number` copied there
    to be written.
    """

    site: Site
    by: str
    part: str
    hot_path: HotPath
    because: tuple[Because, ...]
    indexed: Indexed | None


def hot_places(model: Model) -> Iterator[Costly]:
    """The subscripts of tensors and the calls with sizes that wait, in every step."""
    for indexed in hot_subscripts(model, _waits):
        found = _by_part(model, indexed) or _by_number(model, indexed)
        if found is not None:
            by, part, because = found
            yield Costly(indexed.site, by, ast.unparse(part), indexed.hot_path, because, indexed)

    for names, asked in ((NEEDS_SIZES, _size), (_LOSSES_BY_LENGTH, _length)):
        yield from _hot_calls(model, names, asked)


def _hot_calls(model: Model, names: frozenset[str], asked: _Asks) -> Iterator[Costly]:
    """The calls of these names, in every step, that read what `asked` finds among their arguments."""

    def reads(record: CallRecord) -> bool:
        values = model.values_in(record.function, record.statement)
        return asked(model, record.function, record.call, values) is not None

    for site in model.sites(tuple(sorted(names)), True, reads):
        hot_path, meaning, function = model.hot_path(site), model.ast_of(site.node), model.function_of(site)
        values = model.values_in(function, model.statement_of(site.node))
        size = asked(model, function, meaning, values) if isinstance(meaning, ast.Call) else None
        if hot_path is not None and size is not None:
            yield Costly(site, "read", ast.unparse(size), hot_path, values[size].because, None)


def _waits(node: ast.Subscript, values: Mapping[ast.expr, Value]) -> bool:
    """Whether a tensor on the device is indexed, a list by one, or a number there bounds a slice of whatever it is."""
    held = values.get(node.value, UNKNOWN)
    if _is_on_device(held) or (_is_sequence(held) and _is_on_device(values.get(node.slice, UNKNOWN))):
        return True
    return any(
        _is_on_device(values.get(bound, UNKNOWN))
        for part in parts_of(node)
        if isinstance(part, ast.Slice)
        for bound in (part.lower, part.upper, part.step)
        if bound is not None
    )


def _is_sequence(held: Value) -> bool:
    """Whether it is a list, tuple or text of Python, which takes a tensor of one element alone as an index."""
    return held.kind is Kind.STRING or (held.kind is Kind.CONTAINER and held.ref in ("list", "tuple"))


def _is_on_device(held: Value) -> bool:
    return held.holds_tensors and not held.mixed and held.device.on_accelerator


def _by_part(model: Model, indexed: Indexed) -> tuple[str, ast.expr, tuple[Because, ...]] | None:
    held = indexed.value(indexed.node.value)
    for part in indexed.parts:
        bounds = [part.lower, part.upper, part.step] if isinstance(part, ast.Slice) else [part]
        for bound in bounds:
            value = UNKNOWN if bound is None else indexed.value(bound)
            if bound is None:
                continue
            is_number = _is_device_number(value) and (isinstance(part, ast.Slice) or value.dtype != "bool")
            if is_number and part is bound and held.is_tensor and runs_as_script(model, indexed.function):
                continue  # TorchScript takes it as a tensor of indices
            if is_number or (isinstance(part, ast.Slice) and _has_one_element(model, indexed.function, bound, value)):
                return "read", bound, value.because
            is_index = _is_sequence(held) and not isinstance(part, ast.Slice) and _is_on_device(value)
            if is_index and (value.is_tensor or value.origin is not None):
                return "read", bound, value.because
            if isinstance(part, ast.Slice) or not _is_on_device(held):
                continue
            is_list = len(indexed.parts) > 1 and _is_some_list(value)
            of_host = _is_host_index(value) and not may_be_element(model, indexed, part)
            if value.is_tensor and (is_host_mask(value) or is_made_of_truths(model, indexed.function, part)):
                of_host = (of_host or is_host_mask(value)) and waits_for_masks(model)
            if is_list or of_host or _counts_up(model, indexed, part):
                return "copy", part, indexed.value(indexed.node.value).because
    return None


def _is_device_number(value: Value) -> bool:
    return value.is_tensor and value.scalar is True and value.device.on_accelerator


def _has_one_element(model: Model, function: FunctionInfo, node: ast.expr, value: Value) -> bool:
    """Whether a bound or a size is a tensor on the device: Python takes none there but of one element."""
    return _is_on_device(value) and value.vector is not True and is_part_shown(model, function, node)


def _is_host_index(value: Value) -> bool:
    """Whether the value is a list of numbers, an array, a host tensor of integers, or a tuple that has one of these."""
    if value.kind is Kind.CONTAINER and value.element is not None:
        if value.ref == "tuple":
            held = [each for _, each in value.items or ()] or [value.element]
            return any(_is_array(each) or _is_host_tensor(each) for each in held)
        is_mixed = any(each.kind is not Kind.NUMBER for _, each in value.items or ())  # `x[[None, 0]]` is `x[None, 0]`
        return value.ref in _BY_LIST and value.element.kind is Kind.NUMBER and not is_mixed
    return _is_array(value) or _is_host_tensor(value)


def _is_host_tensor(value: Value) -> bool:
    return value.is_tensor and value.device is Device.CPU and not value.scalar and not _is_mask_or_float(value.dtype)


def may_be_element(model: Model, indexed: Indexed, part: ast.expr) -> bool:
    """Whether a host tensor may be one number of a tensor, `rows[0]`: an index that nothing copies to the device."""
    value, function = indexed.value(part), indexed.function
    if not value.is_tensor or value.vector is True:
        return False
    if isinstance(part, ast.Name):
        for each in function.nodes:
            if isinstance(each, (ast.For, ast.comprehension)) and dotted(each.target) == part.id:
                return model.value_in(function, each.iter).is_tensor
        made = model.only_binding(function, part.id)
    else:
        made = part
    if not isinstance(made, ast.Subscript) or not model.value_in(function, made.value).is_tensor:
        return False
    return all(model.value_in(function, each).kind is Kind.NUMBER for each in parts_of(made))


def may_be_number(model: Model, indexed: Indexed, part: ast.expr) -> bool:
    """Whether a host tensor may have no dimensions: also what is made of nobody knows what, or reduced to a number."""
    value, function = indexed.value(part), indexed.function
    if not value.is_tensor or value.vector is True or value.scalar is False:
        return False
    if value.scalar is True or may_be_element(model, indexed, part):
        return True
    made = model.only_binding(function, part.id) if isinstance(part, ast.Name) else part
    if not isinstance(made, ast.Call):
        return False
    if model.value_in(function, made.func).ref in _OF_ANYTHING:
        given = model.value_in(function, made.args[0]) if made.args else UNKNOWN
        return given.kind not in (Kind.CONTAINER, Kind.NUMPY)
    return isinstance(made.func, ast.Attribute) and made.func.attr in FULL_REDUCTIONS and not made.args


def _is_mask_or_float(dtype: str | None) -> bool:
    return dtype is not None and (dtype == "uint8" or not dtype.startswith(_WHOLE))


def _is_some_list(value: Value) -> bool:
    """Whether the value is a list of nobody knows what: beside other indices, none but integers can be in it."""
    held = value.element
    return value.kind is Kind.CONTAINER and value.ref == "list" and (held is None or held.kind is Kind.UNKNOWN)


def _is_array(value: Value) -> bool:
    """Whether the value is an array, and not a number of one."""
    return value.kind is Kind.NUMPY and value.scalar is False


def _counts_up(model: Model, indexed: Indexed, part: ast.expr) -> bool:
    """Whether the index is `torch.arange(n)` on the host, whatever `n` is: where it is an index, it has integers."""
    if indexed.value(part).device is not Device.CPU:
        return False
    made = model.only_binding(indexed.function, part.id) if isinstance(part, ast.Name) else part
    return isinstance(made, ast.Call) and model.value_in(indexed.function, made.func).ref == "torch.arange"


def _by_number(model: Model, indexed: Indexed) -> tuple[str, ast.expr, tuple[Because, ...]] | None:
    """Whether a number is written to one element, through integers on the device, or through a mask of the host."""
    given = indexed.given if indexed.use is Use.WRITTEN else None
    if given is None or not is_host_number(given, indexed.value):
        return None
    held, index = indexed.value(indexed.node.value), indexed.value(indexed.parts[0])
    if len(indexed.parts) > 1:
        parts = [each for each in indexed.parts if not _is_plain_part(indexed, each)]
        writes = bool(parts) and all(_is_device_row(indexed.value(each)) for each in parts)
        writes = writes or (len(parts) == 1 and _is_mask_of_host(model, indexed, parts[0]))
    else:
        is_element = held.vector is True and index.kind is Kind.NUMBER and not isinstance(indexed.parts[0], ast.Slice)
        is_tuple = index.ref == "tuple" and all(map(_is_device_row, _items(index)))
        writes = is_element or is_tuple or _is_device_row(index) or _is_mask_of_host(model, indexed, indexed.parts[0])
    return ("number", given, held.because) if writes else None


def _is_plain_part(indexed: Indexed, part: ast.expr) -> bool:
    """`:`, `None`, `...` or an integer: beside indices on the device, it changes nothing."""
    return isinstance(part, (ast.Slice, ast.Constant)) or indexed.value(part).kind is Kind.NUMBER


def _is_device_row(value: Value) -> bool:
    """Whether the value is a tensor of integers on the device."""
    return value.is_tensor and value.device.on_accelerator and (value.dtype or "").startswith(_WHOLE)


def _items(value: Value) -> list[Value]:
    """The items of a tuple of known length; otherwise a value that stands for each of them."""
    if value.items:
        return [item for _, item in value.items]
    return [value.element or UNKNOWN]


def is_one_element(indexed: Indexed) -> bool:
    """Whether the only index is an integer on the host: then the subscript is a view; with a tensor it is a copy."""
    value = indexed.value(indexed.parts[0])
    return value.kind is Kind.NUMBER and value.dtype == "int"


def is_through_host_mask(model: Model, indexed: Indexed) -> bool:
    """Whether one of the indices is a mask of the host: a number that is written fills one on the device."""
    return any(_is_mask_of_host(model, indexed, each) for each in indexed.parts)


def _is_mask_of_host(model: Model, indexed: Indexed, part: ast.expr) -> bool:
    value = indexed.value(part)
    is_row = value.is_tensor and value.device is Device.CPU and value.scalar is not True
    return is_host_mask(value) or (is_row and is_made_of_truths(model, indexed.function, part))


def is_row_of_places(indexed: Indexed) -> bool:
    """Whether the only index is a vector of integers on the device."""
    value = indexed.value(indexed.parts[0])
    return value.is_tensor and value.vector is True and value.dtype == "int64"


def _size(model: Model, function: FunctionInfo, call: ast.Call, values: Mapping[ast.expr, Value]) -> ast.expr | None:
    """The argument that is a device number, of a function that needs host numbers."""
    callee = values.get(call.func, UNKNOWN)
    ref = callee.ref or ""
    is_function = callee.kind is Kind.LIBRARY and (ref == "builtins.range" or ref.startswith("torch."))
    is_method = callee.kind is Kind.METHOD and callee.function is None and callee.element is not None
    if not is_function and not (is_method and callee.element is not None and callee.element.holds_tensors):
        return None
    takes_tensor = is_function and ref.rpartition(".")[2] in VIEW_METHODS  # `torch.reshape(x, (n, -1))`
    sizes = call.args[1:] if takes_tensor else call.args
    given = [each for argument in sizes for each in (argument.elts if isinstance(argument, ast.Tuple) else [argument])]
    for each in given:
        value = values.get(each, UNKNOWN)
        if _is_device_number(value) or _has_one_element(model, function, each, value):
            return each
    return None


def _length(model: Model, function: FunctionInfo, call: ast.Call, values: Mapping[ast.expr, Value]) -> ast.expr | None:
    """The lengths on the device that a CTC loss is given: it copies them to the host."""
    del model, function
    if (values.get(call.func, UNKNOWN).ref or "") not in _CTC:
        return None
    by_name = {each.arg: each.value for each in call.keywords}
    lengths = [*call.args[2:4], *(by_name[name] for name in ("input_lengths", "target_lengths") if name in by_name)]
    return next((each for each in lengths if _is_on_device(values.get(each, UNKNOWN))), None)
