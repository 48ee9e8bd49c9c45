"""Arguments of calls: the expression that a call gives for a parameter."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.syntax.names import last_name, positional_of

if TYPE_CHECKING:
    from torchperf_lint.model.syntax.index import FunctionInfo


def is_of_class(function: FunctionInfo) -> bool:
    """Whether it is a classmethod: its first argument is the class, also where that is called by name."""
    return any(isinstance(each, ast.Name) and each.id == "classmethod" for each in function.decorators)


def _takes_by_name(function: FunctionInfo, arguments: ast.arguments, name: str) -> bool:
    return name in function.parameter_names and all(each.arg != name for each in arguments.posonlyargs)


def _hands_on(call: ast.Call, name: str) -> bool:
    """Whether an argument of the call is what has this name: `run(f, k=1)` may give `k` to `f`, or take it."""
    return any(last_name(each) == name for each in (*call.args, *(keyword.value for keyword in call.keywords)))


def given_for(function: FunctionInfo, call: ast.Call, name: str) -> ast.expr | None:
    """The argument or default that a call passes for a parameter; None if unknown."""
    arguments = function.arguments
    if arguments is None:
        return None
    named = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    if named is not None and _takes_by_name(function, arguments, name) and not _hands_on(call, function.called_as):
        return named  # whatever else is spread, and by whatever name the function is called
    is_constructor = function.name == "__init__" and function.cls is not None
    by_object = function.name == "__call__" and function.cls is not None and last_name(call.func) != function.name
    if last_name(call.func) != function.called_as and not by_object:
        return None
    by_keyword_alone = any(each.arg == name for each in arguments.kwonlyargs)
    if any(isinstance(a, ast.Starred) for a in call.args) and not by_keyword_alone:
        return None
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    has_own_self = is_constructor or by_object
    if function.cls is not None and not has_own_self and (owner is None or (last_name(owner) or "")[:1].isupper()):
        return None  # `Base.step(self, x)`, or an unknown form of call
    positional = positional_of(arguments)[function.self_name is not None :]
    if name in positional and positional.index(name) < len(call.args):
        return call.args[positional.index(name)]
    if any(keyword.arg is None for keyword in call.keywords):
        return None
    return function.defaults.get(name)


def parameter_at(callee: FunctionInfo, place: int | str) -> str | None:
    """The callee's parameter for an argument by its position or name."""
    arguments = callee.arguments
    if arguments is None:
        return None
    positional = positional_of(arguments)
    if isinstance(place, str):
        return place if place in {*positional, *(each.arg for each in arguments.kwonlyargs)} else None
    place += callee.self_name is not None
    return positional[place] if place < len(positional) else None
