"""Loops whose bodies show that they iterate over batches: items are moved to the device, then trained on or evaluated.

Decided from the loop's syntax alone, so both value inference and execution frequency can use it.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import conventions
from torchperf_lint.knowledge.torch_api import VIEW_METHODS
from torchperf_lint.model.domain.values import UNKNOWN, Kind, Origin, Value, container, derived, join_all
from torchperf_lint.model.syntax.index import dotted, given_to, last_name, names_in
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model.domain.frames import Env, Frame
    from torchperf_lint.model.syntax.index import CallRecord, FunctionInfo

_ACCELERATOR = re.compile(conventions.ACCELERATOR_NAMES)
_BACKWARD = ("backward", "manual_backward")
_KEEPS_ITEM = VIEW_METHODS | frozenset("float half double long int bool bfloat16 contiguous detach clone".split())
_NO_ITERABLES = frozenset("range trange items values keys".split())
_OF_MODULES = frozenset(
    "parameters named_parameters state_dict load_state_dict modules children train eval zero_grad step forward grad "
    "requires_grad_ weight bias".split()
)
"""Attributes of modules, parameters and optimizers that a batch does not have."""
_PASSES_ON = conventions.WALK_ONE | {"next", "len", "range", "set_epoch"}
"""Calls in a generator that make no batch, nor change one."""

_BATCH = Value(Kind.PYTREE, origin=Origin.DERIVED)  # its maker and its memory (pinned or not) are unknown


def items_moved(loop: ast.stmt, function: FunctionInfo) -> frozenset[str]:
    """The names in the loop's target that hold batches or parts of batches; empty without evidence."""
    return function.index.note(("items moved", loop), lambda: _items_moved(loop, function))


def moved_in_loops(function: FunctionInfo) -> Iterator[CallRecord]:
    """The calls in the function that may move something to the device."""
    for record in function.calls_made:
        if _moved(record.call) is not None:
            yield record


def as_batches(item: Value, target: ast.expr, moved: frozenset[str]) -> Value:
    """The loop's item: a batch on the host if the item is unknown and the loop moves it to the device."""
    if moved.isdisjoint(names_in(target)):
        return item
    if item == UNKNOWN:
        return _BATCH
    if item.kind is Kind.CONTAINER and isinstance(item.constant, tuple) and isinstance(target, ast.Name):
        fields = [(place, _BATCH if value == UNKNOWN else value) for place, value in item.items or ()]
        return item._replace(element=join_all([value for _, value in fields]), items=tuple(fields))
    if item.kind is Kind.CONTAINER and item.items is not None and isinstance(target, (ast.Tuple, ast.List)):
        parts = [
            (place, as_batches(value, part, moved))
            for (place, value), part in zip(item.items, target.elts, strict=False)
        ]
        return item._replace(items=tuple(parts)) if len(parts) == len(item.items) == len(target.elts) else item
    return item


def _items_moved(loop: ast.stmt, function: FunctionInfo) -> frozenset[str]:
    if not isinstance(loop, (ast.For, ast.AsyncFor)) or function.name == "forward":
        return frozenset()
    called = last_name(loop.iter.func) if isinstance(loop.iter, ast.Call) else None
    moving = [record for record in moved_in_loops(function) if _is_in(record.statement, loop, function)]
    if called in _NO_ITERABLES:
        return frozenset()
    targets = names_in(loop.target)
    if not moving:
        return _given_to_steps(loop, targets, function)
    if any(map(_names_model, targets)):
        return frozenset()
    roots = _parts(loop, targets)
    moved: set[str] = set()
    for record in moving:
        root = _root(_moved(record.call))
        if root in roots:
            if isinstance(record.statement, ast.Expr) and record.statement.value is record.call:
                return frozenset()  # `x.to(device)` as a statement moves a module, but does nothing to a tensor
            moved |= roots[root]
    if not moved or any(_is_module(node, roots) for node in subtree(loop)) or not _is_used(loop, targets, function):
        return frozenset()
    return frozenset(moved)


def _given_to_steps(loop: ast.For | ast.AsyncFor, targets: list[str], function: FunctionInfo) -> frozenset[str]:
    """The names in the loop's target that each pass hands to a function of this file that makes one training step."""
    steps = {
        record.function.name
        for name in _BACKWARD
        for record in function.index.calls.get(name, ())
        if record.function is not function and not record.place.loops()
    }
    return frozenset(
        given.id
        for record in function.calls_made
        if last_name(record.call.func) in steps and record.place.loops()[:1] == [loop]
        for given in given_to(record.call)
        if isinstance(given, ast.Name) and given.id in targets
    )


def _moved(call: ast.Call) -> ast.expr | None:
    """`x` of `x.cuda()`, `x.to(device)`, `move_to_device(x)`."""
    func = call.func
    name = last_name(func)
    if name is not None and conventions.MOVING_HELPERS.search(name):
        return call.args[0] if call.args else None
    if not isinstance(func, ast.Attribute) or name not in ("to", "cuda"):
        return None
    said = [ast.unparse(given) for given in (*call.args, *(keyword.value for keyword in call.keywords))]
    leads_there = any(_ACCELERATOR.search(text) or text in conventions.DEVICE_NAMES for text in said)
    return func.value if name == "cuda" or leads_there else None


def _root(node: ast.expr | None) -> str | None:
    """`x` of `x`, `x.images`, `x["images"]`, `x[0].float()`."""
    while node is not None:
        if isinstance(node, ast.Name):
            return node.id
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _KEEPS_ITEM:
            node = node.func.value
        elif isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        else:
            return None
    return None


def _parts(loop: ast.For | ast.AsyncFor, targets: list[str]) -> dict[str, set[str]]:
    """The names of the loop's items and of their parts, each with the target names it comes from."""
    roots = {name: {name} for name in targets}
    pairs: list[tuple[ast.expr, ast.expr]] = []
    for node in subtree(loop):
        if isinstance(node, ast.Assign):
            pairs += [(target, node.value) for target in node.targets]
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)) and node is not loop:
            walked = node.iter
            if isinstance(walked, ast.Call) and last_name(walked.func) in ("items", "values"):
                walked = walked.func.value if isinstance(walked.func, ast.Attribute) else walked
            pairs.append((node.target, walked))
    for _ in range(2):
        for target, source in pairs:
            root = _root(source)
            if root in roots:
                for name in _bound(target):
                    roots[name] = roots.get(name, set()) | roots[root]
    return roots


def _bound(target: ast.expr) -> list[str]:
    """The plain names that a target binds."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return [name for part in target.elts for name in _bound(part)]
    return [target.id] if isinstance(target, ast.Name) else []


def _is_module(node: ast.AST, roots: dict[str, set[str]]) -> bool:
    """Whether the node uses one of these names as a module, a parameter or an optimizer."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in roots
    return isinstance(node, ast.Attribute) and node.attr in _OF_MODULES and _root(node.value) in roots


def _is_used(loop: ast.For | ast.AsyncFor, targets: list[str], function: FunctionInfo) -> bool:
    """Whether each pass trains, or passes something computed from the item to a model."""
    made = _made(loop, targets)
    stepping = {record.function.name for name in _BACKWARD for record in function.index.calls.get(name, ())}
    for record in function.calls_made:
        if _loop_around(record.statement, function) is not loop:
            continue
        name = last_name(record.call.func)
        if name in _BACKWARD and isinstance(record.call.func, ast.Attribute):
            return True
        given = [part for argument in given_to(record.call) for part in names_in(argument)]
        if made.isdisjoint(given):
            continue
        if (name in stepping and name != function.name) or _calls_model(record, function):
            return True
    return False


def _calls_model(record: CallRecord, function: FunctionInfo) -> bool:
    """`model(x)`, `evaluate(model, x)`, or a call of something that the function calls `eval()` or `train()` on."""
    called = [record.call.func, *given_to(record.call)]
    if any(_names_model(last_name(each) or "") for each in called):
        return True
    switched = {
        dotted(each.call.func.value)
        for each in function.calls_made
        if isinstance(each.call.func, ast.Attribute) and each.call.func.attr in ("eval", "train")
    } - {None}
    return dotted(record.call.func) in switched


def _names_model(name: str) -> bool:
    if conventions.MAKERS.match(name):
        return False
    return name in conventions.MODEL_NAMES or name.lower().endswith(conventions.MODEL_ENDINGS)


def _made(loop: ast.For | ast.AsyncFor, targets: list[str]) -> set[str]:
    """The names of the loop's items, and of what its body computes from them."""
    made = set(targets)
    assigned = [node for node in subtree(loop) if isinstance(node, ast.Assign)]
    for _ in range(2):
        for statement in assigned:
            if not made.isdisjoint(names_in(statement.value)):
                made.update(name for target in statement.targets for name in _bound(target))
    return made


def _loop_around(statement: ast.stmt, function: FunctionInfo) -> ast.stmt | None:
    """The innermost loop whose body contains the statement."""
    places = function.index.places
    current: ast.stmt | None = statement
    while current is not None:
        place = places[current]
        if isinstance(place.parent, (ast.For, ast.AsyncFor, ast.While)) and place.field == "body":
            return place.parent
        current = place.parent
    return None


def _is_in(statement: ast.stmt, loop: ast.stmt, function: FunctionInfo) -> bool:
    places = function.index.places
    current: ast.stmt | None = statement
    while current is not None and current is not loop:
        current = places[current].parent
    return current is loop


def generated(frame: Frame, bound: Env) -> Value:
    """What iterating over a generator yields: its own values, or the batches of a loader that it passes on.

    The loader is a `generator` then, unless nothing is called for a batch.
    """
    yielded = join_all(frame.yields)
    loader = next((value for value in bound.values() if value.kind is Kind.LOADER), None)
    is_plain = all(last_name(each.call.func) in _PASSES_ON for each in frame.function.calls_made)
    ref = None if is_plain else "generator"
    if loader is not None and yielded.kind is Kind.UNKNOWN:
        element = None if loader.element is None else derived(loader.element)
        return loader._replace(element=element, ref=loader.ref if is_plain else ref)
    part = yielded.element if yielded.kind is Kind.CONTAINER and yielded.element is not None else yielded
    if part.origin is not None:
        return Value(Kind.LOADER, element=yielded, sources=part.sources, ref=ref)
    return container(yielded, ref="generator")
