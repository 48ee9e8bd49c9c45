"""Aliases: which expressions of a function may share memory."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import pure_functions
from torchperf_lint.knowledge.torch_api import VIEW_METHODS
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import last_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import FunctionInfo

MAY_BE_ITSELF = VIEW_METHODS | frozenset(
    "detach contiguous to cpu cuda type type_as float double half bfloat16 long int short bool numpy chunk split "
    "unbind diagonal expand_as unfold swapaxes real imag requires_grad_ from_numpy as_tensor asarray".split()
)
"""Methods and functions that may return a tensor itself, or one that shares its memory."""
HANDS_OUT = frozenset("zip reversed list tuple iter next dict sorted".split())
"""Functions that return their arguments' own elements."""

_SHARES = (
    MAY_BE_ITSELF
    | pure_functions.MAY_GIVE_ITS_ARGUMENT
    | HANDS_OUT
    | frozenset(
        "frombuffer from_dlpack asanyarray ascontiguousarray asfortranarray atleast_1d atleast_2d "
        "atleast_3d expand_dims moveaxis rollaxis flip fliplr flipud rot90 as_strided unsafe_chunk "
        "unsafe_split hsplit vsplit dsplit adjoint enumerate values items get Variable untyped_storage".split()
    )
)
"""All of these, NumPy's functions among them, and whatever iterates over the parts of a tensor."""
_COPIES_BY_DEFAULT = frozenset({"array", "astype"})
_VIEW_ATTRIBUTES = frozenset("data T H mT mH real imag flat".split())


def memory_of(model: Model, function: FunctionInfo, node: ast.expr, *, on_device: bool = False) -> Iterator[ast.expr]:
    """An expression of the function, and all expressions whose memory it may share: what it views, and their names.

    A tensor on the accelerator is no view of host memory: what it views is followed only with `on_device`.
    """
    bound = function.note(("bound", function), lambda: _bindings(function))
    pending, seen = [node], {node}
    for each in pending:
        yield each
        value = model.value_in(function, each)
        if (on_device or not value.device.on_accelerator) and value.kind is not Kind.NUMBER:
            further = bound.get(each.id, []) if isinstance(each, ast.Name) else _shared_by(model, function, each)
            pending += [one for one in further if one not in seen]
            seen.update(further)


def _shared_by(model: Model, function: FunctionInfo, node: ast.expr) -> list[ast.expr]:
    """The parts of an expression whose memory its result may share."""
    if isinstance(node, (ast.Subscript, ast.Starred, ast.NamedExpr)):
        return [node.value]
    if isinstance(node, ast.Attribute):
        return [node.value] if node.attr in _VIEW_ATTRIBUTES else []
    if isinstance(node, (ast.Tuple, ast.List)):
        return node.elts
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    if not isinstance(node, ast.Call):
        return []
    name = last_name(node.func) or ""
    has_copy = name in _COPIES_BY_DEFAULT and any(each.arg == "copy" for each in node.keywords)
    if name not in _SHARES and not name.endswith("_") and not has_copy:
        return []
    func = node.func
    if isinstance(func, ast.Attribute) and model.value_in(function, func).kind is not Kind.LIBRARY:
        return [func.value]
    return node.args


def _bindings(function: FunctionInfo) -> dict[str, list[ast.expr]]:
    """The expressions that each name of the function is bound to, or to a part of."""
    found: dict[str, list[ast.expr]] = {}
    for node in function.nodes:
        for target, value in bound_by(node):
            for name, given in _pairs(target, value):
                if given is not None:
                    found.setdefault(name, []).append(given)
    return found


def _pairs(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, ast.expr | None]]:
    """The names of a target, each with the expression that it is bound to, or to a part of."""
    if isinstance(target, (ast.Tuple, ast.List)):
        apart = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
        apart = apart and not any(isinstance(each, ast.Starred) for each in (*target.elts, *value.elts))  # type: ignore[union-attr]
        given = value.elts if apart else [value] * len(target.elts)  # type: ignore[union-attr]
        for part, each in zip(target.elts, given, strict=True):
            yield from _pairs(part, each)
    elif isinstance(target, ast.Starred):
        yield from _pairs(target.value, value)
    elif isinstance(target, ast.Name):
        yield target.id, value


def bound_by(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """The names that a node binds, with their values."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield target, node.value
    elif isinstance(node, (ast.NamedExpr, ast.AnnAssign)):
        yield node.target, node.value
    elif isinstance(node, ast.AugAssign):
        yield node.target, None
    elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
        yield node.target, node.iter
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        for item in node.items:
            if item.optional_vars is not None:
                yield item.optional_vars, item.context_expr
