"""What calls give for the parameters of functions, constructors and autograd functions, whatever name they use."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.option_names import has_computed_names
from torchperf_lint.model.syntax.names import last_name, positional_of

if TYPE_CHECKING:
    from torchperf_lint.model import Model
    from torchperf_lint.model.syntax.index import CallRecord, FunctionInfo


def given_or_left(model: Model, function: FunctionInfo, call: ast.Call, name: str) -> tuple[ast.expr | None, bool]:
    """What a call gives for a parameter by another name of a function, `choose = entmax`, or leaves to its default.

    With whether it may be in what the call spreads by name, `f(x, **options)`; None if that is not known, as behind
    `f(x, *extra)`.
    """
    arguments = function.arguments
    by_name = last_name(call.func) == function.called_as
    is_known = function.cls is None or (by_name and function.self_name is not None and _is_on_object(call.func))
    if arguments is None or not is_known or any(each.arg == name for each in call.keywords):
        return None, False
    if not by_name and _is_bound_in_part(model, function, name):
        return None, False
    positional = positional_of(arguments)[function.self_name is not None :]
    at = positional.index(name) if name in positional else -1
    if any(isinstance(each, ast.Starred) for each in call.args[: at + 1]):
        return None, False
    if 0 <= at < len(call.args):
        return call.args[at], False
    if has_computed_names(call):
        return None, False
    return function.defaults.get(name), any(each.arg is None for each in call.keywords)


def _is_on_object(func: ast.expr) -> bool:
    """Whether a method is called on an object, and not `Base.step(self, x)`."""
    return isinstance(func, ast.Attribute) and not (last_name(func.value) or "")[:1].isupper()


def _is_bound_in_part(model: Model, function: FunctionInfo, name: str) -> bool:
    """Whether a file nearby may give the parameter before the call: `partial(entmax, k=4)`."""
    return any(
        record.call.args
        and last_name(record.call.args[0]) == function.name
        and (len(record.call.args) > 1 or any(each.arg in (name, None) for each in record.call.keywords))
        for near in model.with_neighbours
        for record in near.calls_named("partial")
    )


def constructed_with(init: FunctionInfo, call: ast.Call, name: str) -> ast.expr | None:
    """What a call gives for a constructor's parameter, by any name of the class; None if it spreads arguments."""
    named = next((each.value for each in call.keywords if each.arg == name), None)
    if named is not None:
        return named
    arguments = init.arguments
    if arguments is None or any(isinstance(each, ast.Starred) for each in call.args):
        return None
    names = positional_of(arguments)
    by_class = isinstance(call.func, ast.Attribute) and call.func.attr == "__init__" and not _is_super(call.func.value)
    names = names if by_class else names[1:]
    if name in names and names.index(name) < len(call.args):
        return call.args[names.index(name)]
    return None if any(each.arg is None for each in call.keywords) else init.defaults.get(name)


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == "super"


def applied(model: Model, function: FunctionInfo) -> list[CallRecord]:
    """The calls around that run the `forward(ctx, ...)` of an autograd function: `Sparsemax.apply(x, k)`.

    Empty where `Sparsemax.apply` is a value, too, which may be called by any name.
    """
    if function.name != "forward" or function.cls is None or "ctx" not in function.parameter_names[:2]:
        return []
    records = [
        each
        for near in model.with_neighbours
        for each in near.calls_named("apply")
        if isinstance(each.call.func, ast.Attribute) and last_name(each.call.func.value) == function.cls.name
    ]
    called = [each.call.func for each in records]
    taken = (
        node
        for near in model.with_neighbours
        for where in near.functions
        for node in where.nodes
        if isinstance(node, ast.Attribute) and node.attr == "apply" and last_name(node.value) == function.cls.name
    )
    return [] if any(node not in called for node in taken) else records


def applied_to(function: FunctionInfo, call: ast.Call, name: str) -> ast.expr | None:
    """What such a call gives for a parameter; None if it spreads arguments."""
    if call.keywords or any(isinstance(each, ast.Starred) for each in call.args):
        return None
    names = function.parameter_names
    place = names.index(name) - names.index("ctx") - 1
    return call.args[place] if 0 <= place < len(call.args) else function.defaults.get(name)
