"""Assignment: binds a value to a name, an attribute, an entry or several targets."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import torch_api
from torchperf_lint.model.domain.values import (
    STRING,
    UNKNOWN,
    Kind,
    Origin,
    Value,
    container,
    derived,
    join,
    join_all,
    with_fields,
)
from torchperf_lint.model.syntax.index import dotted
from torchperf_lint.model.values.annotations import annotated, declared_names
from torchperf_lint.model.values.host_uses import on_host
from torchperf_lint.model.values.name_heuristics import conventional
from torchperf_lint.model.values.tensors import element_of

if TYPE_CHECKING:
    from torchperf_lint.model.domain.frames import Env, Frame
    from torchperf_lint.model.domain.interfaces import ExpressionValues


_PART = (".", "[")
"""What separates a path from the rest of a longer one."""


def bind(evaluator: ExpressionValues, target: ast.expr, value: Value, env: Env) -> None:
    """Assign a value to a target: a name, an attribute, a literal subscript, or a tuple of targets."""
    if isinstance(target, (ast.Tuple, ast.List)):
        _bind_parts(evaluator, target, value, env)
        return
    if isinstance(target, ast.Starred):
        bind(evaluator, target.value, container(value), env)
        return
    path = subscript_path(target) if isinstance(target, ast.Subscript) else dotted(target)
    if isinstance(target, (ast.Subscript, ast.Attribute)):
        evaluator(target.value, env)
        index = evaluator(target.slice, env) if isinstance(target, ast.Subscript) else STRING
        _store_item(target, index, value, env)
    if path is None:
        return
    if isinstance(target, ast.Name) and value == UNKNOWN:
        value = _declared(evaluator, target.id) or value
    if not isinstance(target, ast.Subscript):
        value = conventional(path.rpartition(".")[2], value)
        forget_parts(evaluator.frame, path, env)
        shown = evaluator.frame.on_host.get(path)
        value = value if shown is None else on_host(value, shown)
    hold(evaluator.frame, path, value, env)
    evaluator.frame.values[target] = value


def _declared(evaluator: ExpressionValues, name: str) -> Value | None:
    """The value that `batch: Batch` promises for every value that the name gets in the function."""
    annotation = declared_names(evaluator.frame.function).get(name)
    return None if annotation is None else annotated(annotation, evaluator.inference, evaluator.frame)


def hold(frame: Frame, path: str, value: Value, env: Env) -> None:
    """Bind the path, which may be an attribute or an entry, to the value."""
    env[path] = value
    if not path.isidentifier():
        frame.split.add(_root(path))


def forget_parts(frame: Frame, path: str, env: Env) -> None:
    """Drop what is known of the attributes and entries of the object that the path named before."""
    if _root(path) not in frame.split:
        return
    length = len(path)
    for key in [key for key in env if path in key and key.startswith(path) and key[length : length + 1] in _PART]:
        del env[key]


def _root(path: str) -> str:
    return path.partition(".")[0].partition("[")[0]


def _bind_parts(evaluator: ExpressionValues, target: ast.Tuple | ast.List, value: Value, env: Env) -> None:
    literal = _in_order(value)
    starred = next((place for place, part in enumerate(target.elts) if isinstance(part, ast.Starred)), None)
    if literal is not None and starred is not None:
        behind = len(target.elts) - starred - 1
        end = len(literal) - behind
        literal = [*literal[:starred], join_all(literal[starred:end]), *literal[end:]] if end >= starred else None
    for position, part in enumerate(target.elts):
        known = literal is not None and position < len(literal)
        bind(evaluator, part, literal[position] if literal is not None and known else element_of(value), env)


def _in_order(value: Value) -> list[Value] | None:
    """The elements of a literal list or tuple, by position."""
    if value.kind is not Kind.CONTAINER or value.items is None:
        return None
    return [item for _, item in value.items] if all(key == i for i, (key, _) in enumerate(value.items)) else None


def _store_item(target: ast.Subscript | ast.Attribute, index: Value, value: Value, env: Env) -> None:
    base = dotted(target.value)
    held = env.get(base) if base is not None else None
    if base is None or held is None:
        return
    if held.holds_tensors and _replaces_entry(index, value):
        env[base] = derived(held)
    if held.kind is Kind.MODULE and held.ref in torch_api.HOLDERS and isinstance(target, ast.Subscript):
        env[base] = added_to(held, index.constant, value)
    if held.kind is Kind.INSTANCE and held.items is not None and isinstance(target, ast.Attribute):
        env[base] = with_fields(held, {**{str(key): item for key, item in held.items}, target.attr: value})
    if held.kind is Kind.CONTAINER and isinstance(target, ast.Subscript):
        element = value if held.element is None else join(held.element, value)
        key = target.slice.value if isinstance(target.slice, ast.Constant) else None
        known = held.ref == "dict" and held.items is not None and isinstance(key, str)
        items = {**dict(held.items or ()), key: value}.items() if known else None
        env[base] = container(element, items, held.ref or "list")


def added_to(holder: Value, key: object, value: Value) -> Value:
    """A container of modules with one more."""
    if holder.element is None:
        return holder._replace(element=value, items=None if key is None else ((key, value),))
    known = holder.items is not None and key is not None
    items = tuple({**dict(holder.items or ()), key: value}.items()) if known else None
    return holder._replace(element=join(holder.element, value), items=items)


def _replaces_entry(index: Value, value: Value) -> bool:
    """Whether `batch[index] = value` may put an entry on another device into the batch, not only write in place."""
    if value.origin is Origin.BATCH or value.device.on_accelerator:
        return False
    is_key = not index.holds_tensors and index.kind is not Kind.NUMBER
    return value.origin is not None or (is_key and value.kind not in (Kind.NUMBER, Kind.STRING, Kind.NONE))


def subscript_path(node: ast.Subscript) -> str | None:
    """`batch["x"]` as a key of the environment; None unless the index is a literal."""
    base = dotted(node.value)
    if base is None or not isinstance(node.slice, ast.Constant):
        return None
    return f"{base}[{node.slice.value!r}]"
