"""Zero-dimensional tensors: whether a program proves that a tensor is one, and that several are on one device."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.knowledge.torch_api import FULL_REDUCTIONS, NOT_TENSOR_MODULES, SCALAR_LOSSES
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import dotted, is_whole, last_name
from torchperf_lint.syntax.tree import children, subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Value
    from torchperf_lint.model.handles import FunctionInfo

FLOAT, WHOLE = "float", "whole"
_GIVES_FLOATS = frozenset("mean std var norm logsumexp nanmean".split())
_KEEPS_KIND = frozenset("sum nansum prod max min amax amin median trace".split())
_COUNTS = frozenset("argmax argmin count_nonzero".split())
_ELEMENTWISE = frozenset("detach clone contiguous abs neg".split())
_MAKES_FLOAT = frozenset("float double half bfloat16".split())
_OF_FLOATS = frozenset("exp log sqrt sigmoid tanh".split())
_MAKES_WHOLE = frozenset("long int short".split())
_MOVES = frozenset("to cuda".split())
_DEEPEST = 12
_MOVED = "(moved)"
"""Represents everything that the function moves to its one device."""


class Scalar(NamedTuple):
    """Facts about a tensor: zero-dimensional, floats or integers, on one device with the names in `roots`."""

    kind: str
    roots: frozenset[str]


def shown(model: Model, function: FunctionInfo, node: ast.expr) -> Scalar | None:
    """The proof that the expression is a zero-dimensional tensor; None without proof."""
    prover = _Prover(model, function)
    found = prover.scalar(node, frozenset())
    return None if found is None else Scalar(found, frozenset(prover.roots(node, frozenset())))


def likely(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """Whether it is most likely a zero-dimensional float: a loss by its name, or by the model's inference."""
    value = model.value_in(function, node)
    if value.mixed or is_whole(value.dtype) or value.kind not in (Kind.TENSOR, Kind.PYTREE):
        return False
    by_dtype = value.kind is Kind.TENSOR and value.scalar is True and (value.dtype or "").startswith(("float", "bfl"))
    inner, is_reduced = _beneath(node)
    is_loss = (last_name(inner) or "").lower().rstrip("0123456789").endswith("loss")
    return by_dtype or (is_loss and (is_reduced or value.vector is None))


def _beneath(node: ast.expr) -> tuple[ast.expr, bool]:
    """`x` of `x.detach().sum()`, and whether that is reduced to one element."""
    is_reduced = False
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not (node.args or node.keywords):
        if node.func.attr not in _ELEMENTWISE | {"sum", "mean"}:
            break
        is_reduced = is_reduced or node.func.attr in ("sum", "mean")
        node = node.func.value
    return node, is_reduced


def on_one_device(function: FunctionInfo, scalars: list[Scalar]) -> bool:
    """Whether all sources of the scalars must be on one device."""
    if len(_places_named(function)) > 1:
        return False
    tied, left = set(scalars[0].roots), [each.roots for each in scalars[1:]]
    while left:
        near = [each for each in left if each & tied]
        if not near:
            return False
        tied = tied.union(*near)
        left = [each for each in left if not each & tied]
    return True


def _places_named(function: FunctionInfo) -> set[str]:
    """The devices that the function names when it moves something, as text."""
    found = set()
    for record in function.calls_made:
        name, call = last_name(record.call.func), record.call
        given = [each for each in call.keywords if each.arg in ("device", None)]
        if name in _MOVES and isinstance(call.func, ast.Attribute):
            found |= {ast.unparse(each) for each in call.args[:1]} or {"cuda"} - {name if given else ""}
        found |= {ast.unparse(each.value) for each in given}
    no_devices = ("torch.float", "torch.bfloat", "torch.half", "torch.int", "torch.long", "'cpu'")
    return {each for each in found if not each.startswith(no_devices)}


class _Prover:
    """Traces the names of a function to their bindings."""

    def __init__(self, model: Model, function: FunctionInfo) -> None:
        self._model = model
        self._function = function

    def _value(self, node: ast.expr) -> Value:
        return self._model.value_in(self._function, node)

    def _bindings(self, name: str) -> list[ast.expr]:
        """All bindings of the name; empty if it is bound in other ways than by plain assignments.

        In-place additions (`x += y`) change neither its shape nor its dtype.
        """
        return self._model.all_bindings(self._function, name, grows=True)

    # -- shape and dtype -----------------------------------------------------------------------------------------------

    def scalar(self, node: ast.expr, seen: frozenset[str]) -> str | None:
        """Floats or integers, if the expression is a zero-dimensional tensor."""
        if isinstance(node, ast.Name):
            return self._named(node.id, seen) if self._value(node).is_tensor else None
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            return self.scalar(node.operand, seen)
        if isinstance(node, ast.BinOp):
            return self._arithmetic(node, seen)
        if isinstance(node, ast.Attribute) and node.attr == "data":
            return self.scalar(node.value, seen)
        return self._called(node, seen) if isinstance(node, ast.Call) else None

    def _named(self, name: str, seen: frozenset[str]) -> str | None:
        # Where the name holds a tensor, it does not hold the number that is read from it elsewhere.
        bound = [each for each in self._bindings(name) if not is_read(each)]
        if len(seen) > _DEEPEST:
            return None
        # `loss = loss / 4` is neutral, whatever the other bindings are.
        others = [each for each in bound if not self._depends_on(each, seen | {name})]
        kinds = {self.scalar(each, seen | {name}) for each in others}
        for each in bound:
            if kinds and None not in kinds and each not in others:
                kinds.add(self._given(each, name, next(iter(kinds)), seen | {name}))
        return kinds.pop() if len(kinds) == 1 else None

    def _depends_on(self, node: ast.expr, names: frozenset[str]) -> bool:
        return any(isinstance(each, ast.Name) and each.id in names for each in subtree(node))

    def _given(self, node: ast.expr, name: str, kind: str | None, seen: frozenset[str]) -> str | None:
        """The kind of arithmetic on the name itself, if the name is of that kind: `loss / 4`, `loss.detach()`."""
        if isinstance(node, ast.Name) and node.id == name:
            return kind
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
            sides = [self._given(side, name, kind, seen) or self._number(side) for side in (node.left, node.right)]
            return _combined(sides, node.op)
        if isinstance(node, ast.Call) and not node.args and not node.keywords and isinstance(node.func, ast.Attribute):
            return self._given(node.func.value, name, kind, seen) if node.func.attr in _ELEMENTWISE else None
        return self.scalar(node, seen) if not self._depends_on(node, seen) else None

    def _number(self, node: ast.expr) -> str | None:
        """How a certain Python number affects a tensor's kind."""
        value = self._value(node)
        if value.kind is not Kind.NUMBER:
            return None
        if not self._model.is_certain_number(self._function, node) or isinstance(value.constant, complex):
            return None
        is_int = value.dtype == "int" or type(value.constant) is int
        return "int" if is_int else "number" if value.dtype == "float" or type(value.constant) is float else None

    def _arithmetic(self, node: ast.BinOp, seen: frozenset[str]) -> str | None:
        if not isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
            return None
        return _combined([self.scalar(side, seen) or self._number(side) for side in (node.left, node.right)], node.op)

    def _called(self, call: ast.Call, seen: frozenset[str]) -> str | None:
        callee = self._value(call.func)
        name = last_name(call.func) or ""
        if any(keyword.arg is None for keyword in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args):
            return None
        if callee.kind is Kind.LIBRARY:
            return self._library(call, callee.ref or "", name)
        if callee.kind is Kind.MODULE:
            ref = callee.ref or ""
            reduces = callee.created is not None and callee.cls is None and not callee.created.args
            plain = reduces and callee.created is not None and _reduction(callee.created) == "mean"
            return FLOAT if plain and ref.startswith("torch.nn.") and ref.endswith("Loss") else None
        if not isinstance(call.func, ast.Attribute) or callee.function is not None or call.args or call.keywords:
            return None
        receiver = call.func.value
        if name in FULL_REDUCTIONS:
            return self._reduced(name, receiver)
        if name in (_ELEMENTWISE | _MAKES_FLOAT | _OF_FLOATS | _MAKES_WHOLE):
            kind = self.scalar(receiver, seen)
            if kind is None or name in _ELEMENTWISE:
                return kind
            return WHOLE if name in _MAKES_WHOLE else FLOAT
        return None

    def _library(self, call: ast.Call, ref: str, name: str) -> str | None:
        if ref == f"torch.nn.functional.{name}" and name in SCALAR_LOSSES and len(call.args) <= 2:
            reduction = _reduction(call)
            return FLOAT if reduction == "mean" or (reduction == "sum" and name != "l1_loss") else None
        if ref == f"torch.{name}" and name in FULL_REDUCTIONS and len(call.args) == 1 and not call.keywords:
            return self._reduced(name, call.args[0])
        return FLOAT if ref in ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad.clip_grad_norm_") else None

    def _reduced(self, name: str, node: ast.expr) -> str | None:
        value = self._value(node)
        if not value.holds_tensors and value.kind is not Kind.METHOD:
            return None
        if name in _GIVES_FLOATS:
            return FLOAT
        if name in _COUNTS:
            return WHOLE
        if name not in _KEEPS_KIND or not value.is_tensor or value.dtype is None:
            return None
        if value.dtype.startswith(("float", "bfloat")):
            return FLOAT
        if value.dtype == "bool":
            return WHOLE if name in ("sum", "prod") else None
        return WHOLE if is_whole(value.dtype) else None

    # -- devices -------------------------------------------------------------------------------------------------------

    def roots(self, node: ast.expr, seen: frozenset[str]) -> Iterator[str]:
        """The names that share the expression's device, because torch computes on tensors of one device only."""
        path = dotted(node)
        if path is not None:
            value = self._value(node)
            if not value.device.on_accelerator or value.mixed or not value.holds_tensors:
                return
            if not isinstance(node, ast.Name):
                yield path
            elif node.id not in seen and len(seen) < _DEEPEST:
                yield from self._roots_of_name(node.id, seen | {node.id})
            return
        if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript)):
            for part in children(node):
                is_part = isinstance(part, ast.expr) and part is not getattr(node, "slice", None)
                if is_part and (not isinstance(node, ast.Subscript) or self._value(node.value).is_tensor):
                    yield from self.roots(part, seen)  # type: ignore[arg-type]
        elif isinstance(node, ast.Call):
            yield from self._roots_of_call(node, seen)

    def _roots_of_name(self, name: str, seen: frozenset[str]) -> Iterator[str]:
        """The name itself, unless it may hold tensors of several devices, and the names that its bindings share."""
        bound = [each for each in self._bindings(name) if not is_read(each)]
        others = [each for each in bound if not self._depends_on(each, seen)]
        by_one = {ast.unparse(each.func) for each in others if isinstance(each, ast.Call)}
        if self._assigned(name) <= 1 or (len(by_one) == 1 and all(isinstance(each, ast.Call) for each in others)):
            yield name
        shared = [set(self.roots(each, seen)) for each in others]
        yield from set.intersection(*shared) if shared else ()

    def _assigned(self, name: str) -> int:
        """How often the name is bound other than by a loop, whose batches are on the host or on the one device."""
        nodes = list(self._function.nodes)
        targets = [node.target for node in nodes if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension))]
        looped = {id(each) for target in targets for each in subtree(target)}
        stores = [node for node in nodes if isinstance(node, ast.Name) and node.id == name]
        return sum(isinstance(node.ctx, ast.Store) and id(node) not in looped for node in stores)

    def _roots_of_call(self, call: ast.Call, seen: frozenset[str]) -> Iterator[str]:
        callee = self._value(call.func)
        ref = callee.ref or ""
        if isinstance(call.func, ast.Attribute) and call.func.attr in _MOVES:
            if self._value(call).device.on_accelerator:
                yield _MOVED
            return
        computes = callee.kind is Kind.LIBRARY and ref.startswith("torch.") and not ref.startswith(NOT_TENSOR_MODULES)
        computes = computes or (callee.kind is Kind.MODULE and ref.startswith("torch.nn.") and ref.endswith("Loss"))
        given = [*call.args, *(keyword.value for keyword in call.keywords)] if computes else []
        if isinstance(call.func, ast.Attribute) and not computes and callee.function is None:
            receiver = self._value(call.func.value)
            if receiver.holds_tensors and call.func.attr not in ("cpu", "type"):
                given = [call.func.value, *call.args]
        for each in given:
            yield from self.roots(each, seen)


def is_read(node: ast.expr) -> bool:
    """`loss.item()`, `float(loss)`: what a program may bind to the tensor's own name."""
    return isinstance(node, ast.Call) and (
        (isinstance(node.func, ast.Attribute) and node.func.attr == "item" and not node.args)
        or (isinstance(node.func, ast.Name) and node.func.id == "float" and len(node.args) == 1)
    )


def _combined(sides: list[str | None], operation: ast.operator) -> str | None:
    """The kind of a result of arithmetic; None unless each side is a tensor or a number of known kind."""
    if None in sides or not {FLOAT, WHOLE} & set(sides):
        return None
    whole = {WHOLE, "int"}.issuperset(sides) and not isinstance(operation, ast.Div)
    return WHOLE if whole else FLOAT


def _reduction(call: ast.Call) -> str | None:
    """The reduction of a loss, by its own default or by a literal; None if unknown."""
    for keyword in call.keywords:
        if keyword.arg in ("reduce", "size_average", None):
            return None
        if keyword.arg == "reduction":
            given = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
            return "mean" if given == "batchmean" else given if given in ("mean", "sum") else None
    return "mean"
