"""Options of an optimizer's groups of parameters: `group["decay"]` is what the constructor hands on as a default."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.syntax.names import last_name, names_in
from torchperf_lint.syntax.tree import children, subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model
    from torchperf_lint.model.syntax.index import FunctionInfo

_GROUPS = "param_groups"
_PARAMETERS = "params"
_GRADIENTS = frozenset({"grad", "gradients", "grads"})
"""Entries of dicts that hold tensors of a step beside their parameters; a group of an optimizer has options."""

_FILL = frozenset({"dict", "update"})
"""Calls whose arguments are entries, in a dict or by name."""


def default_of_group(model: Model, function: FunctionInfo, node: ast.expr) -> tuple[FunctionInfo, ast.expr] | None:
    """The constructor, and what it gives the option of all groups: `dict(decay=decay)` for `group["decay"]`.

    None if a file nearby sets an entry of that name, in a group or in anything else, or any entries of a group.
    """
    asked = _asked_of_group(function, node)
    init = None if asked is None or function.cls is None else model.method(function.cls, "__init__")
    if asked is None or init is None:
        return None
    if any(not _entries_set(near).isdisjoint({asked, None}) for near in model.with_neighbours):
        return None
    calls = [each.call for each in init.calls_made if last_name(each.call.func) == "__init__"]
    given = [part for call in calls for part in (*call.args, *(each.value for each in call.keywords))]
    found = next(filter(None, (_entry(_made(init, each), asked) for each in given)), None)
    return None if found is None else (init, found)


def _asked_of_group(function: FunctionInfo, node: ast.expr) -> str | None:
    """The name of the option: `group["decay"]`, `group.get("decay")` in `for group in self.param_groups`."""
    if isinstance(node, ast.Subscript):
        owner, name = node.value, node.slice
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
        owner, name = node.func.value, node.args[0]
    else:
        return None
    if not isinstance(owner, ast.Name) or not isinstance(name, ast.Constant) or not isinstance(name.value, str):
        return None
    groups = function.note(("own groups", function), lambda: list(_groups(function)))
    return name.value if 0 < groups.count(owner.id) == function.bound_names.count(owner.id) else None


def _groups(function: FunctionInfo) -> Iterator[str]:
    """The names that loops over the groups of the method's own object bind, one for each loop."""
    for each in function.statements:
        if isinstance(each, ast.For) and isinstance(each.target, ast.Name) and isinstance(each.iter, ast.Attribute):
            owner = each.iter.value
            if each.iter.attr == _GROUPS and isinstance(owner, ast.Name) and owner.id == function.self_name:
                yield each.target.id


def _made(init: FunctionInfo, given: ast.expr) -> ast.expr:
    """The expression that the constructor's only statement to bind a name gives it; anything else as it is."""
    if not isinstance(given, ast.Name) or init.bound_names.count(given.id) != 1:
        return given
    filled = (each.call.func for each in init.calls_made if last_name(each.call.func) == "update")
    if any(isinstance(each, ast.Attribute) and last_name(each.value) == given.id for each in filled):
        return given
    for each in init.statements:
        if isinstance(each, (ast.Assign, ast.AnnAssign)) and each.value is not None:
            targets = each.targets if isinstance(each, ast.Assign) else [each.target]
            if any(isinstance(target, ast.Name) and target.id == given.id for target in targets):
                return each.value
    return given


def _entry(made: ast.expr, name: str) -> ast.expr | None:
    if isinstance(made, ast.Dict):
        for key, value in zip(made.keys, made.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == name:
                return value
    elif isinstance(made, ast.Call) and last_name(made.func) == "dict":
        return next((each.value for each in made.keywords if each.arg == name), None)
    return None


def _entries_set(model: Model) -> set[str | None]:
    """The names of entries that the file sets in groups, or in anything else; None among them for any name."""
    return model.remember("entries set", lambda: {*_in_dicts(model), *_by_calls(model), *_by_statements(model)})


def _in_dicts(model: Model) -> Iterator[str | None]:
    """What dicts give groups, `{"params": x, "decay": 1}`, and copies of them: `{**group, "decay": 1}`."""
    for function in model.functions:
        parts = (part for each in function.statements for part in children(each) if not isinstance(part, ast.stmt))
        for node in (each for part in parts for each in subtree(part)):
            if isinstance(node, ast.Dict) or (isinstance(node, ast.Call) and last_name(node.func) == "dict"):
                names = _names(function, node)
                if _PARAMETERS in names:
                    yield from names if _GRADIENTS.isdisjoint(names) else ()
                elif _is_copy(node):
                    yield from filter(None, names)


def _is_copy(made: ast.Call | ast.Dict) -> bool:
    """Whether a dict begins with the entries of another one."""
    if isinstance(made, ast.Dict):
        return None in made.keys[:1]
    return bool(made.args) or None in [each.arg for each in made.keywords[:1]]


def _by_calls(model: Model) -> Iterator[str | None]:
    """What `group.update({"decay": 1})` sets, and `setdefault`, which leaves what a group of an optimizer has."""
    for record in model.all_calls:
        func = record.call.func
        if not isinstance(func, ast.Attribute):
            continue
        is_group = _is_group(record.function, func.value)
        if func.attr == "update":
            names = _names(record.function, record.call)
            yield from names if is_group else filter(None, names)
        elif func.attr == "setdefault" and record.call.args and not is_group:
            yield from filter(None, [_text(record.call.args[0])])


def _by_statements(model: Model) -> Iterator[str | None]:
    """What `group["decay"] = 1` sets, and `group |= {"decay": 1}`."""
    for function in model.functions:
        for each in function.statements:
            if isinstance(each, ast.AugAssign) and isinstance(each.op, ast.BitOr):
                names = _names(function, each.value)
                yield from names if _is_group(function, each.target) else filter(None, names)
            for target in each.targets if isinstance(each, ast.Assign) else ():
                if isinstance(target, ast.Subscript) and _text(target.slice) is None:
                    yield from [None] if _is_group(function, target.value) else ()
    for node in model.top.nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            yield from filter(None, [_text(node.slice)])


def _names(function: FunctionInfo, made: ast.expr) -> list[str | None]:
    """The entries that a dict has, or that a call gives one; None among them for those that it does not name.

    What it copies from a group has the options of that group.
    """
    if _is_group(function, made):
        return []
    if isinstance(made, ast.Dict):
        entries = zip(made.keys, made.values, strict=True)
        return [name for key, value in entries for name in (_names(function, value) if key is None else [_text(key)])]
    if not isinstance(made, ast.Call) or last_name(made.func) not in _FILL:
        return [None]
    named = (_names(function, each.value) if each.arg is None else [each.arg] for each in made.keywords)
    return [
        *(name for each in made.args for name in _names(function, each)),
        *(name for each in named for name in each),
    ]


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _is_group(function: FunctionInfo, node: ast.expr) -> bool:
    """Whether it is a group of an optimizer: `optimizer.param_groups[0]`, or what a loop over those binds."""
    if isinstance(node, ast.Subscript):
        return last_name(node.value) == _GROUPS
    return isinstance(node, ast.Name) and node.id in function.note(
        ("names of groups", function), lambda: set(_names_of_groups(function))
    )


def _names_of_groups(function: FunctionInfo) -> Iterator[str]:
    for each in function.statements:
        if isinstance(each, ast.For) and any(
            isinstance(part, ast.Attribute) and part.attr == _GROUPS for part in subtree(each.iter)
        ):
            yield from names_in(each.target)
