"""Calls that change no tensor: those of a few libraries, and of functions of the project that do nothing else."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.idioms import evaluating, writes
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import ClassInfo
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import FunctionInfo

_BUILTINS = frozenset(
    "abs all any bool dict divmod enumerate float int isinstance len list max min pow print range repr reversed round "
    "set sorted str sum super tuple type zip".split()
)
"""Builtins that run no code of the project but what their arguments define."""
_METHODS = frozenset("append add extend get items keys values setdefault format join write".split())
"""Methods of lists, dicts, texts and files that change no tensor."""
_LIBRARIES = ("math.", "logging.", "collections.", "time.", "random.", "numpy.")
"""Libraries that know no tensors of a device."""
_DEPTH = 3
"""How many calls deep functions of the project are looked into; what they call below may write."""


def changes_no_tensor(model: Model, function: FunctionInfo, call: ast.Call, depth: int = _DEPTH) -> bool:
    """Whether a call in the function is shown to write to no tensor of a device, and to run no code that may."""
    called = model.value_in(function, call.func)
    ref = called.ref or ""
    if called.kind is Kind.CLASS and isinstance(called.cls, ClassInfo):
        made = model.method(called.cls, "__init__")
        return made is None or _leaves_tensors(model, made, depth)
    if called.function is not None:
        return _leaves_tensors(model, called.function, depth)
    if called.cls is not None:
        return False
    if ref.startswith("builtins."):
        return ref.removeprefix("builtins.") in _BUILTINS and not any(each.arg == "key" for each in call.keywords)
    if called.kind is Kind.LIBRARY:
        return ref.startswith(_LIBRARIES) or writes.only_computes(ref, call)
    if not isinstance(call.func, ast.Attribute):
        return False
    owner = model.value_in(function, call.func.value)
    if owner.holds_tensors:
        return evaluating.is_plain_method(call)
    return call.func.attr in _METHODS and owner.cls is None and owner.kind in (Kind.CONTAINER, Kind.STRING)


def loop_changes_no_tensor(model: Model, function: FunctionInfo, loop: ast.stmt) -> bool:
    """Whether nothing in a loop of the function writes to a tensor, under whatever name."""
    if any(model.value_in(function, each).kind not in (Kind.NUMBER, Kind.CONTAINER) for each in writes.writes_of(loop)):
        return False
    inside = subtree(loop)
    return all(changes_no_tensor(model, function, each) for each in inside if isinstance(each, ast.Call))


def _leaves_tensors(model: Model, function: FunctionInfo, depth: int) -> bool:
    """Whether all calls of a function of the project change no tensor, and it writes to nothing but numbers itself."""
    if depth == 0 or not isinstance(function.node, ast.FunctionDef):
        return False
    home = model.home(function)
    written = (each for each, _ in writes.written_in(function))
    if any(home.value_in(function, each).kind not in (Kind.NUMBER, Kind.CONTAINER) for each in written):
        return False
    calls = (each for each in function.nodes if isinstance(each, ast.Call))
    return all(changes_no_tensor(home, function, each, depth - 1) for each in calls)
