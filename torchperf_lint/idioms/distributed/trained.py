"""Evidence that a wrapped model is trained: a place in its file that trains, the nearest first."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Because
from torchperf_lint.model.handles import dotted, last_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import FunctionInfo, Place

_GOES_BACKWARD = frozenset({"backward", "manual_backward"})
_RECORDS_NOTHING = frozenset({"no_grad", "inference_mode"})
_GIVES_ITSELF = frozenset("eval cuda cpu to float half".split())


def training_place(model: Model, site: Site) -> Because | None:
    """Where the model wrapped at the site is trained, judged by its file.

    None if nothing in the file trains, or if the wrapped model is provably only used without gradients. A place in
    the same function comes first, then one in the same class.
    """
    places = model.remember("training_places", lambda: _training_places(model.functions))
    here = model.function_of(site)
    near = [place for place in places if _within(place.function, here) or _within(here, place.function)]
    if not near and _only_evaluates(model, site, here):
        return None
    near = near or [place for place in places if here.cls is not None and place.function.cls is here.cls]
    for place in near:
        return Because(place.row, f"trained here, by `{place.text}`")
    return next((Because(place.row, f"the file trains here, by `{place.text}`") for place in places), None)


class _Place(NamedTuple):
    """A place that trains; backward passes sort before optimizer steps, trainers and `training_step` methods."""

    is_indirect: bool
    row: int
    text: str
    function: FunctionInfo


def _training_places(functions: Iterable[FunctionInfo]) -> list[_Place]:
    found = []
    for function in functions:
        for record in function.calls_made:
            func, row = record.call.func, record.call.lineno
            name, path = last_name(func) or "", dotted(func) or last_name(func) or ""
            text = f"{path}({'...' if record.call.args or record.call.keywords else ''})"
            if name in _GOES_BACKWARD and isinstance(func, ast.Attribute):
                found.append(_Place(False, row, text, function))
            elif path.endswith("optimizer.step") or name.endswith("Trainer"):
                found.append(_Place(True, row, text, function))
        if function.name == "training_step" and isinstance(function.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.append(_Place(True, function.node.lineno, "training_step", function))
    return sorted(found, key=lambda place: place[:2])


def _within(inner: FunctionInfo, outer: FunctionInfo) -> bool:
    current: FunctionInfo | None = inner
    while current is not None and current is not outer:
        current = current.outer
    return current is outer


def _only_evaluates(model: Model, site: Site, function: FunctionInfo) -> bool:
    """Whether the wrapped model has a name in its function that is only called, without gradients."""
    statement = model.statement_of(site.node)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    target = statement.targets[0]
    if not isinstance(target, ast.Name) or function.is_module:
        return False
    records_nothing = any(last_name(_called(each)) in _RECORDS_NOTHING for each in function.decorators)
    called = {id(record.call.func): record.place for record in function.calls_made}
    nested = {inner for inner in model.functions if inner is not function and _within(inner, function)}
    if any(_reads(inner, target.id) for inner in nested):
        return False
    for node in _reads(function, target.id):
        if node.lineno <= (statement.end_lineno or statement.lineno):
            continue
        parent = function.parents.get(node)
        if isinstance(parent, ast.Attribute) and parent.attr in _GIVES_ITSELF:
            around = function.parents.get(function.parents.get(parent, parent))
            if not isinstance(around, ast.Expr):
                return False
        elif id(node) not in called or not (records_nothing or _is_guarded(called[id(node)])):
            return False
    return True


def _reads(function: FunctionInfo, name: str) -> list[ast.Name]:
    return [each for each in function.nodes if isinstance(each, ast.Name) and each.id == name and _is_read(each)]


def _is_read(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Load)


def _called(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _is_guarded(place: Place) -> bool:
    """Whether a `with torch.no_grad():` is around the statement."""
    return any(
        isinstance(around, (ast.With, ast.AsyncWith))
        and any(last_name(_called(item.context_expr)) in _RECORDS_NOTHING for item in around.items)
        for around in (place.statement, *place.around())
    )


def is_unwrapped(model: Model, name: str) -> bool:
    """`model = model.module`: the file unwraps the model of that name."""
    return any(
        isinstance(statement, ast.Assign)
        and dotted(statement.value) == f"{name}.module"
        and name in map(dotted, statement.targets)
        for statement in model.statements
    )
