"""How the file uses a loader: the number of its worker processes, and whether it takes one batch alone."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.idioms.arguments import given
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import last_name
from torchperf_lint.syntax import shape
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import FunctionInfo
    from torchperf_lint.syntax import cst

_RUNS_LATER = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
"""Expressions whose parts run later than their statement, or more than once."""


class Workers(NamedTuple):
    """The worker processes of a loader."""

    number: int  # the default if the command line may change it
    text: str | None  # the expression with the number; None if the number itself is written


def workers_of(model: Model, site: Site, keyword: str = "num_workers") -> Workers | None:
    """The workers of the loader that a call builds; None if it has none or the number is unknown."""
    position = model.loader_position(site, keyword) if keyword == "num_workers" else None
    passed = given(model, site.node, keyword, position)
    if passed is None or passed.value is None or passed.value.kind is Kind.NONE:
        return None
    count = passed.value.constant
    if type(count) is int:
        literal = passed.node is None or shape.is_literal(passed.node, repr(count))
        return (
            Workers(count, None if literal or passed.node is None else model.text(passed.node)) if count > 0 else None
        )
    default = None if passed.node is None else _option(model, passed.node)
    return None if not default or default < 0 or passed.node is None else Workers(default, model.text(passed.node))


def none_by_default(model: Model, site: Site) -> bool:
    """Whether the loader that a call builds has no workers unless the command line sets some."""
    passed = given(model, site.node, "num_workers", model.loader_position(site, "num_workers"))
    if passed is None or passed.absent or passed.node is None:
        return passed is not None and passed.absent
    return passed.is_constant(0) or _option(model, passed.node) == 0


def number_of_workers(model: Model, site: Site) -> ast.expr | None:
    """The expression that says how many workers the loader that a call builds has."""
    passed = given(model, site.node, "num_workers", model.loader_position(site, "num_workers"))
    return None if passed is None or passed.node is None else model.ast_of(passed.node)


def only_first_batch(model: Model, site: Site) -> bool:
    """Whether a single `next(iter(loader))` is all that reads the loader that a function makes, once in each run."""
    function, call = model.function_of(site), model.ast_of(site.node)
    if function.is_module or call is None:
        return False
    read, holder = call, function.parents.get(call)
    if isinstance(holder, ast.Assign):
        target = holder.targets[0]
        if len(holder.targets) > 1 or not isinstance(target, ast.Name) or not model.bound_once(function, target.id):
            return False
        named = [each for each in subtree(function.node) if isinstance(each, ast.Name) and each.id == target.id]
        if len(named) != 2:  # the target, and what reads it
            return False
        read = named[0] if named[1] is target else named[1]
    return _takes_first(model, function, read)


def _takes_first(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    made = function.parents.get(node)
    taken = None if made is None else function.parents.get(made)
    names = [last_name(each.func) if isinstance(each, ast.Call) else None for each in (made, taken)]
    around: ast.AST | None = taken
    while around is not None and not isinstance(around, (ast.stmt, *_RUNS_LATER)):
        around = function.parents.get(around)
    if names != ["iter", "next"] or not isinstance(around, ast.stmt) or isinstance(around, ast.While):
        return False
    place = model.place_of(around)
    return place.function is function and not place.loops()


def _option(model: Model, node: cst.BaseExpression) -> int | None:
    """The default of the command line option that an expression like `args.workers` reads."""
    name = (shape.dotted(node) or "").rpartition(".")
    if not name[0]:
        return None
    for record in model.calls_named("add_argument"):
        option = record.call
        keywords = {each.arg: each.value for each in option.keywords}
        default, dest = keywords.get("default"), keywords.get("dest")
        flags = [each.value for each in option.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        names = (
            [dest.value] if isinstance(dest, ast.Constant) else [flag.lstrip("-").replace("-", "_") for flag in flags]
        )
        if name[2] in names and isinstance(default, ast.Constant) and type(default.value) is int:
            return default.value
    return None


def takes_every_cpu(model: Model, site: Site) -> bool:
    """Whether a loader gets as many workers as the host has CPUs: `os.cpu_count()`, directly or through a name."""
    passed = given(model, site.node, "num_workers", model.loader_position(site, "num_workers"))
    node = None if passed is None or passed.node is None else model.ast_of(passed.node)
    owner = model.function_of(site)
    if isinstance(node, ast.Name):
        owner = owner if model.bindings(owner, node.id) else model.top
        bound = model.bindings(owner, node.id)
        node = bound[0] if len(bound) == 1 else None
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        node = node.values[0]
    if not isinstance(node, ast.Call) or node.args:
        return False
    return model.value_in(owner, node.func).ref in ("os.cpu_count", "multiprocessing.cpu_count")
