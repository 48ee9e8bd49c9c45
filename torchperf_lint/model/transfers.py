"""Moves of data to the accelerator (`x.to(device)`, `x.cuda()`): where they lead, what is moved, what else is asked."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.model import calls
from torchperf_lint.model.index import dotted
from torchperf_lint.model.values import Device, Kind
from torchperf_lint.syntax import cst, shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.model import Heat, Model, Site
    from torchperf_lint.model.index import FunctionInfo
    from torchperf_lint.model.values import Value

MOVERS = ("to", "cuda", "type_as")
_TENSOR_ONLY = frozenset(
    "size shape dim view view_as reshape float long half permute unsqueeze squeeze cuda flatten ndim dtype numel "
    "repeat expand new_zeros transpose sum mean pin_memory is_cuda nelement contiguous".split()
)
"""Attributes by which a program shows that it takes something for a tensor."""


class Move(NamedTuple):
    """A call that puts its receiver on the accelerator in every step.

    `device` is the expression that names the place (None: the current device, as in `.cuda()`); with `like` it is
    a tensor whose dtype is taken, too. `non_blocking` says that the call mentions the argument, whatever its
    value; `plain` that it asks for nothing but place, dtype and blocking.
    """

    site: Site
    moved: cst.BaseExpression
    device: cst.BaseExpression | None
    like: bool
    dtype: cst.BaseExpression | None
    non_blocking: bool
    plain: bool
    heat: Heat
    because: tuple[Because, ...]

    @property
    def call(self) -> cst.Call:
        """The call itself."""
        node = self.site.node
        assert isinstance(node, cst.Call)
        return node


def hot_moves(model: Model) -> Iterator[Move]:
    """The moves to the accelerator that run in every step, in source order, of what may not be there yet."""
    for site in model.moves(hot=True):
        call = site.node
        assert isinstance(call, cst.Call)
        heat, moved = model.heat(site), shape.receiver(call)
        if heat is not None and moved is not None:
            move = _understood(model, site, call, moved, heat)
            if move is not None:
                yield move


def _understood(model: Model, site: Site, call: cst.Call, moved: cst.BaseExpression, heat: Heat) -> Move | None:
    """The move taken apart; None where `*args` or `**kwargs` may hold anything."""
    if any(argument.star for argument in call.args):
        return None
    positional = [argument.value for argument in call.args if argument.keyword is None]
    named = {argument.keyword.value: argument.value for argument in call.args if argument.keyword is not None}
    device, dtype, like, taken = named.pop("device", None), named.pop("dtype", None), False, 0
    name = shape.method_name(call)
    if name == "type_as":
        device, like, taken = named.pop("other", None), True, len(positional)
        device = positional[0] if positional else device
    elif name == "cuda":
        device, taken = (positional[0] if positional else device), min(len(positional), 1)
    elif positional:
        value = model.value(positional[0])
        taken = 1
        if value.kind is Kind.DTYPE:
            dtype = positional[0]
        elif value.holds_tensors:
            device, like = positional[0], True
        else:
            device = positional[0]
            if len(positional) > 1:
                dtype, taken = positional[1], 2
    elif "other" in named:
        device, like = named.pop("other"), True
    non_blocking = len(positional) > taken or "non_blocking" in named or "async" in named
    extra = len(positional) > taken + 1 or bool(set(named) - {"non_blocking", "async"})
    because = model.value(call).because
    return Move(site, moved, device, like, dtype, non_blocking, not extra, heat, because)


def destination(call: ast.Call, value_of: Callable[[ast.expr], Value]) -> Device:
    """Where `x.to(...)`, `x.cuda()` or `x.type_as(y)` puts x; UNKNOWN where it only changes the dtype."""
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr == "cuda":
        return Device.CUDA
    wanted = call.args[:1] + [k.value for k in call.keywords if k.arg in ("device", "other")]
    for node in wanted:
        value = value_of(node)
        if value.holds_tensors:
            return value.device
        device = calls.device_argument(node, value) if call.func.attr == "to" else None
        if device is not None:
            return device
    return Device.UNKNOWN


def writes(function: FunctionInfo) -> Iterator[tuple[ast.expr, int]]:
    """What a function's statements write in place (`x[i] = v`, `x += v`, `x.mul_(v)`, `out=x`), with the row.

    Putting a moved tensor back under its key (`batch["x"] = batch["x"].to(device)`) writes a container, not a
    tensor, and is not among them.
    """
    for node in ast.walk(function.node):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Subscript) and not _stores_entry(target, node.value):
                    yield target.value, node.lineno
        elif isinstance(node, ast.AugAssign):
            yield (node.target.value if isinstance(node.target, ast.Subscript) else node.target), node.lineno
        elif isinstance(node, ast.Call):
            func = node.func
            if isinstance(func, ast.Attribute) and func.attr.endswith("_") and not func.attr.endswith("__"):
                base = func.value
                yield (base.value if isinstance(base, ast.Attribute) and base.attr == "data" else base), node.lineno
            for keyword in node.keywords:
                if keyword.arg == "out":
                    yield keyword.value, node.lineno


def _stores_entry(target: ast.Subscript, value: ast.expr) -> bool:
    moved = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in MOVERS
    return moved or (isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str))


def writes_path(function: FunctionInfo, path: str) -> bool:
    """Whether the function writes in place to what `path` (`x`, `self.weights`) names, or to a part of it."""
    for written, _ in writes(function):
        base = written
        while isinstance(base, (ast.Subscript, ast.Call)):
            base = base.value if isinstance(base, ast.Subscript) else base.func
            base = base.value if isinstance(base, ast.Attribute) and isinstance(written, ast.Call) else base
        name = dotted(base)
        if name is not None and (name + ".").startswith(path + "."):
            return True
    return False


def paths_bound_in(loop: ast.stmt) -> set[str]:
    """The attributes (`self.weights`) that the loop assigns."""
    stores = [node for node in ast.walk(loop) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]
    return {path for path in map(dotted, stores) if path is not None}


def taken_back(function: FunctionInfo, path: str) -> bool:
    """Whether the function calls `path.cpu()` or `path.to("cpu")`."""
    for record in function.calls_made:
        func = record.call.func
        if not isinstance(func, ast.Attribute) or dotted(func.value) != path:
            continue
        to_host = any("cpu" in ast.unparse(argument) for argument in record.call.args)
        if func.attr == "cpu" or (func.attr == "to" and to_host):
            return True
    return False


def is_host_batch(value: Value) -> bool:
    """A loader's batch, or a part of it, that nothing shows to be on the accelerator."""
    held = value.element if value.kind is Kind.METHOD and value.element is not None else value
    return held.holds_tensors and value.origin == "batch" and not value.device.on_accelerator


def filled_once(statement: ast.stmt, parents: list[ast.stmt]) -> bool:
    """Whether a guard around the statement asks about the very attribute or entry that the statement fills."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    for target in targets:
        base = target.value if isinstance(target, ast.Subscript) else target
        path = dotted(base)
        if path is None or isinstance(target, ast.Name):
            continue
        for parent in parents:
            if isinstance(parent, ast.If) and any(_speaks_of(node, path) for node in ast.walk(parent.test)):
                return True
    return False


def _speaks_of(node: ast.AST, path: str) -> bool:
    if isinstance(node, ast.Constant):
        return node.value == path.rpartition(".")[2]
    return isinstance(node, (ast.Attribute, ast.Name)) and dotted(node) == path


def used_as_tensor(name: str, function: FunctionInfo, value_of: Callable[[ast.expr], Value]) -> bool:
    """Whether the function uses what the name holds as only a tensor (or what acts like one) can be used."""
    for node in ast.walk(function.node):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name:
            if node.attr in _TENSOR_ONLY:
                return True
        elif isinstance(node, (ast.Compare, ast.BinOp)):
            sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else [node.left, node.right]
            if any(isinstance(side, ast.Name) and side.id == name for side in sides) and _computes(node):
                return True
        elif isinstance(node, ast.Call) and any(isinstance(a, ast.Name) and a.id == name for a in node.args):
            callee = value_of(node.func)
            ref = callee.ref or ""
            if (
                ref == "criterion"
                or (ref.startswith(("torch.nn.", "torch."))
                and callee.kind in (Kind.LIBRARY, Kind.MODULE))
            ):
                return True
    return False


def _computes(node: ast.Compare | ast.BinOp) -> bool:
    return isinstance(node, ast.BinOp) or isinstance(node.ops[0], (ast.Eq, ast.NotEq, ast.Lt, ast.Gt, ast.LtE, ast.GtE))
