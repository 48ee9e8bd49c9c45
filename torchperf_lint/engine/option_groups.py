"""Options of an optimizer's groups of parameters: `group["decay"]` is what the constructor hands on as a default."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.syntax.names import last_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model
    from torchperf_lint.model.syntax.index import FunctionInfo

_GROUPS = "param_groups"
_PARAMETERS = "params"


def default_of_group(model: Model, function: FunctionInfo, node: ast.expr) -> tuple[FunctionInfo, ast.expr] | None:
    """The constructor, and what it gives the option of all groups: `dict(decay=decay)` for `group["decay"]`.

    None if a file nearby sets an entry of that name, in a group or in anything else.
    """
    asked = _asked_of_group(function, node)
    init = None if asked is None or function.cls is None else model.method(function.cls, "__init__")
    if asked is None or init is None or any(asked in _entries_set(near) for near in model.with_neighbours):
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


def _entries_set(model: Model) -> set[object]:
    """The names of entries that the file sets, `group["decay"] = x`, or gives groups, `{"params": x, "decay": 1}`."""
    return model.remember("entries set", lambda: set(_settings(model.top)))


def _settings(top: FunctionInfo) -> Iterator[object]:
    for node in top.nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and isinstance(node.slice, ast.Constant):
            yield node.slice.value
        elif isinstance(node, ast.Dict):
            names = [each.value for each in node.keys if isinstance(each, ast.Constant)]
            yield from names if _PARAMETERS in names else ()
