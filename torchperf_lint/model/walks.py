"""What stands around a statement or a loop: inner loops and what they walk over, guards, handlers."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.evaluate import asks_about_accelerator
from torchperf_lint.model.index import last_name
from torchperf_lint.model.loops import LoopKind
from torchperf_lint.model.values import Kind

if TYPE_CHECKING:
    from torchperf_lint.model.index import ClassInfo, FunctionInfo, Index
    from torchperf_lint.model.interpret import World
    from torchperf_lint.model.loops import Loops

_OTHER_DEVICES = ("cpu", "mps", "xla", "meta")


def inner(statement: ast.stmt, function: FunctionInfo, world: World, loops: Loops) -> list[tuple[set[str], str | None]]:
    """The `for` loops around a statement below its batch loop: the names each binds, and the tensors it walks over."""
    found: list[tuple[set[str], str | None]] = []
    for loop in loops.enclosing(statement):
        if loops.classify(loop, function).kind is not LoopKind.OTHER:
            break
        if isinstance(loop, (ast.For, ast.AsyncFor)):
            targets = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
            parts = [node for node in ast.walk(loop.iter) if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript))]
            values = [world.frame_value(function, part) for part in parts]
            tensors = any(value.kind is Kind.TENSOR and value.device.on_accelerator for value in values)
            found.append((targets, ast.unparse(loop.iter) if tensors else None))
    return found


def chosen_for_device(statement: ast.stmt, index: Index) -> bool:
    """Whether a statement stands in a branch of an `if` that asks whether, or which, accelerator is used."""
    current: ast.stmt | None = statement
    while current is not None:
        current = index.places[current].parent
        if isinstance(current, ast.If) and asks_about_accelerator(current.test) is not None:
            return True
    return False


def runs_on_other_device(statement: ast.stmt, index: Index) -> bool:
    """Whether a statement stands in a branch for the CPU, or for an accelerator that is none of CUDA's."""
    current = statement
    while (place := index.places[current]).parent is not None:
        parent = place.parent
        if isinstance(parent, ast.If) and place.field == "body":
            for node in ast.walk(parent.test):
                if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq):
                    sides = [node.left, *node.comparators]
                    if any(isinstance(side, ast.Constant) and side.value in _OTHER_DEVICES for side in sides):
                        return True
        current = parent
    return False


def names_used(function: FunctionInfo) -> set[str]:
    """The names, attributes and keywords that stand in a function, and its own name."""
    found = {function.name}
    for node in ast.walk(function.node):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, (ast.arg, ast.keyword)) and node.arg is not None:
            found.add(node.arg)
    return found


def may_catch(loop: ast.stmt | None, index: Index) -> bool:
    """Whether an exception that leaves the loop may be caught in its function."""
    current = loop
    while current is not None:
        current = index.places[current].parent
        if type(current).__name__ in ("Try", "TryStar"):
            return True
        if isinstance(current, (ast.With, ast.AsyncWith)) and any(_catches(item, index) for item in current.items):
            return True
    return False


def _catches(item: ast.withitem, index: Index) -> bool:
    """Whether a context manager may swallow an exception: a known one, or one of this file that is written to."""
    call = item.context_expr
    if not isinstance(call, ast.Call):
        return any(_swallows(cls) for cls in index.classes)
    name = last_name(call.func)
    if name in ("suppress", "raises", "assertRaises", "ExitStack", "AsyncExitStack"):
        return True
    return any(cls.name == name and _swallows(cls) for cls in index.classes) or any(
        function.name == name and any(isinstance(node, ast.Try) and node.handlers for node in ast.walk(function.node))
        for function in index.functions
    )


def _swallows(cls: ClassInfo) -> bool:
    """Whether `__exit__` may return anything but None or False."""
    exits = [cls.methods[name] for name in ("__exit__", "__aexit__") if name in cls.methods]
    returned = [node.value for each in exits for node in ast.walk(each.node) if isinstance(node, ast.Return)]
    return any(not (value is None or (isinstance(value, ast.Constant) and not value.value)) for value in returned)
