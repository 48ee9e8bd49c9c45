"""The number of a loader's worker processes, if the file shows it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.idioms.arguments import given
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.syntax import shape

if TYPE_CHECKING:
    from torchperf_lint.model import Model, Site
    from torchperf_lint.syntax import cst


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
