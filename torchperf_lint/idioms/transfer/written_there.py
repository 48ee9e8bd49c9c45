"""Tensors on the device that get what is on the host: `self.noise.copy_(drawn)`, `states[i] = torch.from_numpy(s)`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Fix, NoFix, Safety
from torchperf_lint.idioms import evaluating
from torchperf_lint.idioms.caches import filled_once
from torchperf_lint.idioms.scripting import judged
from torchperf_lint.idioms.sync.indexing import Use, hot_subscripts
from torchperf_lint.idioms.transfer.construction import built_on_host, is_pure
from torchperf_lint.idioms.transfer.host_data import comes_from_device
from torchperf_lint.idioms.transfer.pinned_copies import sent_to
from torchperf_lint.knowledge.tensor_methods import TENSOR_METHODS
from torchperf_lint.model.domain.frequency import Frequency
from torchperf_lint.model.domain.values import UNKNOWN, Device, Kind
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.model import HotPath, Model, Site
    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.handles import FunctionInfo


_WHOLE = ("int", "uint", "bool")
_SAME_ANYWHERE = frozenset({"torch.zeros", "torch.ones", "torch.eye"})
"""Factories that give the same numbers on every device, whatever their arguments."""


class Upload(NamedTuple):
    """A write of a host tensor into one of the device, in every step, in words, with the evidence for its device."""

    site: Site
    write: str
    hot_path: HotPath
    because: tuple[Because, ...]
    fix: Fix | NoFix


def hot_uploads(model: Model) -> Iterator[Upload]:
    """The writes of host tensors into device tensors, in every step, but where an environment is stepped.

    What the function itself has fetched from the device is left out: it works on the host on purpose.
    """
    for site in model.method_calls("copy_", hot=True):
        owner, source = shape.receiver(site.node), shape.argument(site.node, "src", 0)
        if owner is None or not isinstance(source, cst.BaseExpression) or len(site.node.args) != 1:
            continue
        there, given = model.value(owner), model.value(source)
        if not _is_there(there) or not _is_on_host(given) or _is_flag(model.ast_of(source)):
            continue
        if not _fetched(model, site, source):
            fix = _pinned(model, site, owner, source, (there, given))
            yield from _upload(model, site, model.brief(site.node), there, fix)
    for indexed in hot_subscripts(model, _is_written_there):
        given = UNKNOWN if indexed.given is None else indexed.value(indexed.given)
        if indexed.given is None or indexed.use is not Use.WRITTEN or not _is_on_host(given):
            continue
        if given.scalar is True or any(_chooses(indexed.value(part)) for part in indexed.parts):
            continue  # a single number fills what it is written to, without a copy
        if comes_from_device(model, indexed.function, indexed.given):
            continue
        text = f"{model.brief(indexed.site.node)} = {ast.unparse(indexed.given)}"
        there = indexed.value(indexed.node.value)
        fix = _pinned_entry(model, indexed.site, there, given)
        yield from _upload(model, indexed.site, " ".join(text.split()), there, fix)


def _upload(model: Model, site: Site, write: str, there: Value, fix: Fix | NoFix) -> Iterator[Upload]:
    hot_path = model.hot_path(site)
    if hot_path is not None and hot_path.frequency is not Frequency.ROLLOUT_LOOP and not filled_once(model, site):
        yield Upload(site, write, hot_path, there.because, fix)


def _is_written_there(node: ast.Subscript, values: Mapping[ast.expr, Value]) -> bool:
    return not isinstance(node.ctx, ast.Load) and _is_there(values.get(node.value, UNKNOWN))


def _is_there(value: Value) -> bool:
    return value.is_tensor and not value.mixed and value.device.on_accelerator


def _is_on_host(value: Value) -> bool:
    return value.kind is Kind.TENSOR and not value.mixed and value.device is Device.CPU


def _is_flag(node: ast.expr | None) -> bool:
    """`torch.Tensor([True])`: that something was done, which is noted once, whatever may reset it."""
    part = node.args[0] if isinstance(node, ast.Call) and len(node.args) == 1 else node
    while isinstance(part, (ast.List, ast.Tuple)) and len(part.elts) == 1:
        part = part.elts[0]
    return isinstance(part, ast.Constant) and isinstance(part.value, bool)


def _chooses(index: Value) -> bool:
    """Whether elements are chosen one by one: torch refuses to write host tensors there."""
    return index.is_tensor or index.kind in (Kind.NUMPY, Kind.CONTAINER)


def _fetched(model: Model, site: Site, source: cst.BaseExpression) -> bool:
    meaning = model.ast_of(source)
    return meaning is None or comes_from_device(model, model.function_of(site), meaning)


def _pinned_entry(model: Model, site: Site, there: Value, given: Value) -> Fix | NoFix:
    """The same for `x[i] = y` alone."""
    target, statement = site.node, model.parent(model.parent(site.node) or site.node)
    if not isinstance(statement, cst.Assign) or len(statement.targets) != 1 or not isinstance(target, cst.Subscript):
        return NoFix.FORM
    return _pinned(model, site, target.value, statement.value, (there, given))


def _pinned(
    model: Model, site: Site, written: cst.BaseExpression, source: cst.BaseExpression, values: tuple[Value, Value]
) -> Fix | NoFix:
    """The same tensor, copied from pinned memory to where it is written; then the device casts it, not the host."""
    there, given = values
    if not given.is_tensor:
        return NoFix.FORM
    while isinstance(written, cst.Subscript) and model.value(written.value).is_tensor:
        written = written.value
    again = evaluating.written_twice(model, written)
    if again is None or not is_pure(model, written) or "\n" in model.text(written):
        return NoFix.DEVICE_NOT_AT_HAND
    device = f"{edits.postfix(site.tree, written)}.device"
    fix = _made_there(model, site, source, device) or sent_to(model, site, source, device)
    if not isinstance(fix, Fix):
        return fix
    if not _is_surely_tensor(model, model.function_of(site), model.ast_of(source)):
        return fix._replace(safety=Safety.UNSAFE, besides="what is written is a tensor, never a number")
    if not _casts_alike(there.dtype, given.dtype):
        return fix._replace(safety=Safety.UNSAFE, besides="numbers that are cast to integers are in their range")
    return fix._replace(safety=fix.safety.at_worst(again))


def _made_there(model: Model, site: Site, source: cst.BaseExpression, device: str) -> Fix | None:
    """The fix for `x[i] = torch.zeros(n)`: the same numbers are made on the device."""
    built = built_on_host(model, source)
    if built is None or not built.exact or built.ref not in _SAME_ANYWHERE or model.may_be_traced:
        return None
    added = edits.add_argument(site.tree, built.call, f"device={device}")
    fix = NoFix.NO_ROOM if added is None else Fix("make it on the device", Safety.SAFE, added)
    fix = judged(model, model.function_of(site), fix)
    return fix if isinstance(fix, Fix) else None


def _is_surely_tensor(model: Model, function: FunctionInfo, node: ast.expr | None) -> bool:
    """Whether torch makes it, or computes it from that; `sum(rows)` and `d.get(k, 0)` may be numbers."""
    if isinstance(node, ast.Name):
        made = model.only_binding(function, node.id)
        is_bound = made is not None and not isinstance(made, ast.Name) and node.id not in function.parameter_names
        return is_bound and _is_surely_tensor(model, function, made)
    if isinstance(node, ast.Subscript):
        return _is_surely_tensor(model, function, node.value)
    if isinstance(node, ast.UnaryOp):
        return _is_surely_tensor(model, function, node.operand)
    if isinstance(node, ast.BinOp):
        return any(_is_surely_tensor(model, function, side) for side in (node.left, node.right))
    if not isinstance(node, ast.Call) or not model.value_in(function, node).is_tensor:
        return False
    called = model.value_in(function, node.func)
    if called.kind is Kind.LIBRARY:
        return (called.ref or "").startswith("torch.")
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    is_method = isinstance(node.func, ast.Attribute) and node.func.attr in TENSOR_METHODS
    return is_method and _is_surely_tensor(model, function, owner)


def _casts_alike(wanted: str | None, given: str | None) -> bool:
    """Whether a cast gives the same on both; NaN and overflows differ for integers."""
    return (wanted or "").startswith("float") or (given or "").startswith(_WHOLE) or (given or "") == wanted
