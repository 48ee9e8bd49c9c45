"""What a call changes: a module that is moved in place, a tensor's shape, lists and dicts that are filled."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import torch_api
from torchperf_lint.knowledge.containers import GROW
from torchperf_lint.model.domain.values import UNKNOWN, Kind, Value, container, join, join_all
from torchperf_lint.model.syntax.effects import sent
from torchperf_lint.model.syntax.index import dotted, last_name
from torchperf_lint.model.syntax.slices import slices_of
from torchperf_lint.model.values import own_movers, records
from torchperf_lint.model.values.binding import added_to, hold, subscript_path
from torchperf_lint.model.values.devices import moved
from torchperf_lint.model.values.tensors import element_of, element_of_mapping

if TYPE_CHECKING:
    from torchperf_lint.model.domain.frames import Env
    from torchperf_lint.model.domain.interfaces import ExpressionValues
    from torchperf_lint.model.syntax.index import FunctionInfo


_MOVES = ("to", "cuda", "cpu")
_OF_MODULES = frozenset(
    "parameters named_parameters buffers modules named_modules children train eval state_dict load_state_dict "
    "zero_grad".split()
)
_WRAPPERS = frozenset({"DataParallel", "DistributedDataParallel", "DDP"})


def fill(
    evaluator: ExpressionValues,
    node: ast.Call,
    callee: Value,
    arguments: list[Value],
    keywords: dict[str, Value],
    env: Env,
) -> None:
    """Update the lists and dicts that a function of the program fills when they are passed to it.

    Or whose items it moves: those of a batch, too.
    """
    slices, moved_perhaps = slices_of(evaluator.frame.function), set(sent(node))
    names = [argument.id if isinstance(argument, ast.Name) else "" for argument in node.args]
    paths = [name if slices.may_be_filled(name) or name in moved_perhaps else "" for name in names]
    if not any(env.get(path, UNKNOWN).kind in (Kind.CONTAINER, Kind.PYTREE) for path in paths):
        return
    function = callee.function
    assert function is not None
    own = [callee.element or UNKNOWN] if callee.kind is Kind.METHOD and not function.is_static else []
    filled = evaluator.inference.filled(function, [*own, *arguments], keywords)
    for path, name in zip(paths, function.parameter_names[len(own) :], strict=False):
        if name in filled and path in env:
            env[path] = filled[name]


def mutate(
    evaluator: ExpressionValues, node: ast.Call, arguments: list[Value], keywords: dict[str, Value], env: Env
) -> None:
    """Update what a call changes in its receiver: a moved module, a list that grew, a tensor's shape."""
    if not isinstance(node.func, ast.Attribute):
        return
    path, name = dotted(node.func.value), node.func.attr
    if name in GROW and arguments:
        _grow_within(node.func.value, element_of(arguments[-1]) if name == "extend" else arguments[-1], env)
    if path is None:
        return
    receiver = evaluator.frame.values.get(node.func.value, UNKNOWN)
    if receiver.kind is Kind.INSTANCE and receiver.items is not None and path in env:
        callee = evaluator.frame.values.get(node.func, UNKNOWN)
        held = records.after_method(node, env[path], callee.function, arguments, keywords)
        env[path] = held
    if receiver.kind is Kind.INSTANCE and path in env:
        callee = evaluator.frame.values.get(node.func, UNKNOWN)
        if callee.function is not None and own_movers.changes_itself(callee.function):
            there = own_movers.result(evaluator.inference, callee.function, [receiver, *arguments], keywords)
            env[path] = there if there != UNKNOWN else env[path]
    if receiver.kind in (Kind.MODULE, Kind.METRIC) and name in _MOVES:
        hold(evaluator.frame, path, moved(node, receiver, name, arguments, keywords), env)
    elif receiver.holds_tensors and name in torch_api.RESHAPE_IN_PLACE:
        hold(evaluator.frame, path.removesuffix(".data"), receiver._replace(scalar=None, vector=None), env)
    elif receiver.kind is Kind.MODULE and receiver.ref in torch_api.HOLDERS and name in GROW and arguments:
        added = arguments[-1] if name != "extend" else element_of(arguments[-1])
        hold(evaluator.frame, path, added_to(receiver, None, added), env)
    elif receiver.kind is Kind.CONTAINER and name in GROW and arguments:
        added = arguments[-1]
        if name == "extend":
            added = element_of(added)
        grown = added if receiver.element is None else join(receiver.element, added)
        hold(evaluator.frame, path, receiver._replace(element=grown, items=None), env)
    elif receiver.kind is Kind.CONTAINER and name == "setdefault":
        given = list(filter(None, [receiver.element, *arguments[1:2]]))
        hold(evaluator.frame, path, receiver._replace(element=join_all(given), items=None), env)
    elif receiver.kind is Kind.CONTAINER and name == "update":
        given = [element_of_mapping(argument) for argument in arguments[-1:]] + list(keywords.values())
        held = join_all([*given, *filter(None, [receiver.element])])
        hold(evaluator.frame, path, receiver._replace(element=held, items=None), env)


def move(evaluator: ExpressionValues, node: ast.expr, env: Env) -> None:
    """`agent.cuda()` as a statement: an object without such a method of its own is a module that moves in place.

    Of a value that is not known, it shows the device alone, and only if something else uses it as a module: with a
    tensor, the statement has no effect.
    """
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in _MOVES:
        return
    path, values = dotted(node.func.value), evaluator.frame.values
    receiver, callee = values.get(node.func.value, UNKNOWN), values.get(node.func, UNKNOWN)
    if path is None or receiver.kind not in (Kind.INSTANCE, Kind.UNKNOWN) or callee.function is not None:
        return
    if receiver.kind is Kind.UNKNOWN and not _is_used_as_module(path, evaluator.frame.function):
        return
    given = [values.get(each, UNKNOWN) for each in node.args]
    keywords = {each.arg or "**": values.get(each.value, UNKNOWN) for each in node.keywords}
    module = receiver._replace(kind=Kind.MODULE) if receiver.kind is Kind.INSTANCE else receiver
    hold(evaluator.frame, path, moved(node, module, node.func.attr, given, keywords), env)


def _is_used_as_module(path: str, function: FunctionInfo) -> bool:
    """Whether the function, or for an attribute its file, calls what is at the path or asks it for parameters."""
    where = function.index.module if "." in path else function
    return path in where.index.note(("used as modules", where), lambda: _used_as_modules(where))


def _used_as_modules(function: FunctionInfo) -> frozenset[str]:
    calls = [node for node in function.nodes if isinstance(node, ast.Call)]
    used = [node.func for node in calls]
    used += [node.value for node in function.nodes if isinstance(node, ast.Attribute) and node.attr in _OF_MODULES]
    used += [each for node in calls if last_name(node.func) in _WRAPPERS for each in node.args[:1]]
    return frozenset(filter(None, map(dotted, used)))


def _grow_within(entry: ast.expr, added: Value, env: Env) -> None:
    """`rows[key].append(x)`, `rows[key][i].append(x)`: update the entry and the container that holds it.

    `rows.setdefault(key, []).append(x)` does the same.
    """
    path = subscript_path(entry) if isinstance(entry, ast.Subscript) else None
    if path is not None and path in env:
        env[path] = _grown(env[path], [], added)
    holder, keys = entry_of(entry)
    root = dotted(holder)
    if keys and root is not None and root in env:
        env[root] = _grown(env[root], keys, UNKNOWN if is_named(entry) else added)


def is_named(entry: ast.expr) -> bool:
    """Whether an entry is asked for by `setdefault` under a literal key: under others lies what is of another kind."""
    return isinstance(entry, ast.Call) and bool(entry.args) and isinstance(entry.args[0], ast.Constant)


def entry_of(node: ast.expr) -> tuple[ast.expr, list[ast.expr]]:
    """The container that an entry is taken from, and its keys from the outside in; none for what is no entry."""
    keys: list[ast.expr] = []
    while True:
        if isinstance(node, ast.Subscript):
            keys.insert(0, node.slice)
            node = node.value
        elif _asks_for_entry(node):
            keys.insert(0, node.args[0])  # type: ignore[attr-defined]
            node = node.func.value  # type: ignore[attr-defined]
        else:
            return node, keys


def _asks_for_entry(node: ast.expr) -> bool:
    """Whether it is `rows.setdefault(key, default)`."""
    is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and len(node.args) == 2
    return is_method and node.func.attr == "setdefault"  # type: ignore[attr-defined]


def _grown(held: Value, keys: list[ast.expr], added: Value) -> Value:
    """A container after values were added under these keys, one nesting level after the other."""
    if held.kind is not Kind.CONTAINER:
        return held
    ref = held.ref or "list"
    if not keys:
        return container(added if held.element is None else join(held.element, added), ref=ref)
    key = keys[0].value if isinstance(keys[0], ast.Constant) else None
    items = None
    if key is not None and held.items is not None:
        items = [(name, _grown(value, keys[1:], added) if name == key else value) for name, value in held.items]
    return container(_grown(held.element or container(None), keys[1:], added), items, ref)
