"""Where a value that the host reads goes: why no fix keeps it on the device, and which the host needs anyway."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import NoFix
from torchperf_lint.knowledge.containers import FILL
from torchperf_lint.knowledge.distributions_api import SAMPLE
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.frequency import Frequency
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import names_in, reaches
from torchperf_lint.syntax import cst, shape
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_lint.model import HotPath, Model, Site
    from torchperf_lint.model.handles import FunctionInfo

_NUMBERS = ("builtins.int", "builtins.float")


def is_action(model: Model, site: Site, tensor: cst.BaseExpression, hot_path: HotPath) -> bool:
    """Whether a rollout reads what a distribution draws: an action, which the environment needs at once."""
    if hot_path.frequency is not Frequency.ROLLOUT_LOOP:
        return False
    node = model.ast_of(tensor)
    if isinstance(node, ast.Name):
        node = model.only_binding(model.function_of(site), node.id)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in SAMPLE:
        return False
    return model.value_in(model.function_of(site), node.func.value).kind is not Kind.MODULE


def is_asked_by_search(model: Model, site: Site) -> bool:
    """Whether a search on the host, such as SciPy's, asks for the value: an objective returns it, once per call."""
    node, inner = site.node, model.parent(site.node)
    while inner is not None and not isinstance(inner, cst.BaseStatement):
        if isinstance(inner, (cst.ListComp, cst.DictComp, cst.SetComp, cst.GeneratorExp, cst.Lambda)):
            return False
        inner = model.parent(inner)
    return _is_given_to_search(model, model.function_of(site), model.statement_of(node), bounds.MOST_CALLS_TO_SEARCH)


def _is_given_to_search(model: Model, function: FunctionInfo, statement: ast.stmt, calls: int) -> bool:
    if calls == 0 or model.place_of(statement).loops() or not _is_returned(function, statement):
        return False
    contract = model.contract(function)
    if contract is not None:
        return bool(contract.arrays)
    callers = model.callers(function)
    return bool(callers) and all(
        _is_given_to_search(model.home(each.function), each.function, each.statement, calls - 1) for each in callers
    )


def _is_returned(function: FunctionInfo, statement: ast.stmt) -> bool:
    """Whether the statement returns its value, or binds it to a name that is returned."""
    if isinstance(statement, ast.Return):
        return True
    if not isinstance(statement, ast.Assign):
        return False
    bound = {name for target in statement.targets for name in names_in(target)}
    returned = (each.value for each in function.statements if isinstance(each, ast.Return) and each.value is not None)
    return any(not bound.isdisjoint(names_in(each)) for each in returned)


def is_needed_by_callers(model: Model, site: Site, works_on_host: Callable[[str], bool]) -> bool:
    """Whether the function returns the value, alone or in a tuple, and all its callers give it to the host's work."""
    function, node = model.function_of(site), model.ast_of(site.node)
    statement, callers = model.statement_of(site.node), model.callers(function)
    if not isinstance(statement, ast.Return) or statement.value is None or not callers:
        return False
    place = None
    if isinstance(statement.value, ast.Tuple):
        parts = statement.value.elts
        place = next((at for at, each in enumerate(parts) if any(inner is node for inner in subtree(each))), None)
        if place is None or any(isinstance(each, ast.Starred) for each in parts):
            return False
    return all(
        _is_taken_by_host(model.home(each.function), each.function, each.call, place, works_on_host) for each in callers
    )


def _is_taken_by_host(
    model: Model, function: FunctionInfo, node: ast.expr, place: int | None, works_on_host: Callable[[str], bool]
) -> bool:
    """Whether work on the host gets a value, or the part at its place, as it is or through functions of NumPy."""
    pending, seen = [(node, place)], set[ast.Assign]()
    reads = _reads(function)
    while pending:
        node, place = pending.pop()
        parent = _taker(function, node)
        while place is None and isinstance(parent, ast.Call) and parent.func is not node:
            if works_on_host(ast.unparse(parent.func)):
                return True
            ref = model.value_in(function, parent.func).ref or ""
            if not ref.startswith("numpy.") and ref not in _NUMBERS:
                break
            node, parent = parent, _taker(function, parent)
        if not isinstance(parent, ast.Assign) or len(parent.targets) != 1 or parent in seen:
            continue
        seen.add(parent)
        target = parent.targets[0]
        if place is not None:
            parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
            target = parts[place] if place < len(parts) else target
        if isinstance(target, ast.Name):
            name, is_only = target.id, model.bound_once(function, target.id)
            found = (each for each in reads.get(name, ()) if is_only or reaches(parent, each, name, function))
            pending += [(each, None) for each in found]
    return False


def _reads(function: FunctionInfo) -> dict[str, list[ast.expr]]:
    """Where the function reads each name."""
    found: dict[str, list[ast.expr]] = {}
    for node in function.nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.setdefault(node.id, []).append(node)
    return found


def _taker(function: FunctionInfo, node: ast.expr) -> ast.AST | None:
    """What a value is a part of, past the keyword by which a call gets it."""
    parent = function.parents.get(node)
    return function.parents.get(parent) if isinstance(parent, ast.keyword) else parent


def goes_to(model: Model, node: cst.CSTNode) -> NoFix:
    """The nearest expression or statement around the value that takes it."""
    parent = model.parent(node)
    while parent is not None:
        reason = _taken_by(model, parent)
        if reason is not None:
            return reason
        parent = model.parent(parent)
    return NoFix.FORM


def _taken_by(model: Model, parent: cst.CSTNode) -> NoFix | None:
    if isinstance(parent, (cst.If, cst.While, cst.IfExp)):
        return NoFix.DECIDES_A_BRANCH
    if isinstance(parent, cst.Assert):
        return NoFix.ASSERTS
    if isinstance(parent, (cst.For, cst.CompFor)):
        return NoFix.ITERATED
    if isinstance(parent, (cst.Return, cst.Yield, cst.Lambda)):
        return NoFix.RETURNED
    if isinstance(parent, cst.Call):
        return NoFix.PUT_IN_A_CONTAINER if shape.method_name(parent) in FILL else NoFix.HANDED_ON
    if isinstance(parent, (cst.Dict, cst.List, cst.Set, cst.DictComp, cst.ListComp, cst.GeneratorExp)):
        return NoFix.PUT_IN_A_CONTAINER
    if isinstance(parent, (cst.BinaryOperation, cst.Attribute)):
        return NoFix.COMPUTED_WITH
    if isinstance(parent, (cst.Index, cst.Slice)):
        return NoFix.INDEX_FROM_DEVICE
    if isinstance(parent, cst.FormattedStringExpression):
        return NoFix.HANDED_ON
    if isinstance(parent, cst.Assign):
        return _bound_to(parent.targets[0].target) if len(parent.targets) == 1 else NoFix.USED_OTHERWISE
    if isinstance(parent, (cst.AugAssign, cst.AnnAssign)):
        return _bound_to(parent.target)
    return NoFix.FORM if isinstance(parent, cst.BaseStatement) else None


def _bound_to(target: cst.BaseExpression) -> NoFix:
    if isinstance(target, cst.Attribute):
        return NoFix.KEPT_IN_AN_OBJECT
    return NoFix.PUT_IN_A_CONTAINER if isinstance(target, cst.Subscript) else NoFix.NEEDED_IN_THE_STEP
