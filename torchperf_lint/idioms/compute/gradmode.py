"""Gradient modes: gradients filled with zeros in every step, graphs recorded where a model only evaluates."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Because, Edit
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.frequency import LoopKind
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import Vocabulary, dotted, last_name, names_in
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import HotPath, Model, Site
    from torchperf_lint.model.handles import CallRecord, FunctionInfo

_SETS_MODE = re.compile(r"grad|inference|infer_", re.IGNORECASE)
_NEUTRAL = re.compile(
    r"autocast|amp|profil|tqdm|timer|record|progress|open|device|suppress|sdp|join|lock", re.IGNORECASE
)
_NEUTRAL_DECORATORS = frozenset("staticmethod classmethod property override record".split())
_NEEDS_GRADIENTS = ("attack", "adversar", "saliency", "GradCAM", "captum", "retain_grad", "jacobian", "functorch")
"""Parts of names in files that compute gradients of something other than parameters."""


class Evaluation(NamedTuple):
    """A call of an evaluated model in a loop over batches that records graphs; `decorate` turns that off."""

    site: Site
    hot_path: HotPath
    because: tuple[Because, ...]
    decorate: Edit | None


def filled_gradients(model: Model) -> Iterator[tuple[Site, HotPath]]:
    """`p.grad.zero_()` in loops over parameters that run in every step."""
    for record in model.calls_named("zero_"):
        func = record.call.func
        path = ast.unparse(func) if isinstance(func, ast.Attribute) else ""
        around = record.place.loops()[:1]
        if not re.fullmatch(r"\w+\.grad(\.data|\.detach\(\)|\.detach_\(\))?\.zero_", path) or not around:
            continue
        walk = around[0]
        of_parameters = isinstance(walk, (ast.For, ast.AsyncFor)) and "param" in ast.unparse(walk.iter)
        names = {node.id for node in subtree(walk.target) if isinstance(node, ast.Name)} if of_parameters else set()  # type: ignore[union-attr]
        hot_path = model.hot_path_of(record.statement) if path.partition(".")[0] in names else None
        site = model.site_at(record.call, record.statement) if hot_path is not None else None
        if hot_path is not None and site is not None:
            yield site, hot_path


def recorded_evaluations(model: Model) -> Iterator[Evaluation]:
    """Recorded evaluations, one for each function and model, in source order."""
    for function in model.functions:
        evaluated = list(_evaluated(model, function))
        if not evaluated or not _is_plain(model, function):
            continue
        seen: set[str] = set()
        for record in function.calls_made:
            path = _runs(model, record, function)
            at = next((row for each, row in evaluated if each == path and row < record.call.lineno), None)
            if path is None or at is None or path in seen:
                continue
            found = _recorded(model, record, function, path, at)
            if found is not None:
                seen.add(path)
                yield found


def _recorded(model: Model, record: CallRecord, function: FunctionInfo, path: str, at: int) -> Evaluation | None:
    hot_path = model.hot_path_of(record.statement)
    if hot_path is None or hot_path.loop is None or hot_path.loop.lineno < at:
        return None
    info = model.loop_info(hot_path.loop)
    if info.kind is not LoopKind.BATCH or info.trains or _back_to_training(function, path, at, record.call.lineno):
        return None
    if _guarded(record.statement, function) or _called_without(model, function, bounds.MOST_CALLS_TO_GRAD_MODE):
        return None
    if _sent_backward_by_caller(model, function):
        return None
    site = model.site_at(record.call, record.statement)
    if site is None:
        return None
    shown = Because(at, f"`{path}` is set to evaluation here", function.path)
    alone = not _trains(model, function, bounds.MOST_CALLS_TO_GRAD_MODE)
    return Evaluation(site, hot_path, (shown, *hot_path.because), _decorator(model, function) if alone else None)


def _trains(model: Model, function: FunctionInfo, hops: int) -> bool:
    """Whether a function, a nested one or one it calls calls backward or steps an optimizer."""
    calls = [node for node in function.nodes if isinstance(node, ast.Call)]
    for call in calls:
        name = last_name(call.func) or ""
        sets_mode = name == "train" and isinstance(call.func, ast.Attribute) and len(call.args) <= 1
        if name in ("backward", "step", "zero_grad", "fit") or (name.startswith("train") and not sets_mode):
            return True
    callees = [model.value_in(function, call.func).function for call in calls] if hops else []
    return any(each is not None and each is not function and _trains(model, each, hops - 1) for each in callees)


def _sent_backward_by_caller(model: Model, function: FunctionInfo) -> bool:
    """Whether a caller calls backward on the function's result: `loss = evaluate(...)`, `loss.backward()`."""
    for record in model.possible_callers(function):
        bound = {node.id for node in subtree(record.statement) if isinstance(node, ast.Name) and _is_stored(node)}
        for each in record.function.calls_made:
            if last_name(each.call.func) == "backward" and bound.intersection(names_in(each.call)):
                return True
    return False


def _is_stored(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _evaluated(model: Model, function: FunctionInfo) -> Iterator[tuple[str, int]]:
    """The paths of models with `model.eval()` in the function, and the lines."""
    for record in function.calls_made:
        func = record.call.func
        if isinstance(func, ast.Attribute) and func.attr == "eval" and not record.call.args:
            path = dotted(func.value)
            value = model.value_in(function, func.value)
            if path is not None and value.kind in (Kind.MODULE, Kind.UNKNOWN):
                yield path, record.call.lineno


def _runs(model: Model, record: CallRecord, function: FunctionInfo) -> str | None:
    """The path of the module that a call runs: `model(x)`, or `loss_of(model, x)` if that calls it."""
    path = dotted(record.call.func)
    if path is not None and model.callee(record).kind is Kind.MODULE:
        return path
    given = [(place, dotted(each)) for place, each in enumerate(record.call.args)]
    named = [(place, each) for place, each in given if each is not None and each.rpartition(".")[2].endswith("model")]
    if not named:
        return None
    callee = model.callee(record).function
    if callee is None or callee.cls is not None or _decorated(callee) is not False:
        return None
    for place, each in named:
        name = callee.parameter_names[place] if place < len(callee.parameter_names) else None
        runs = [inner for inner in callee.calls_made if dotted(inner.call.func) == name]
        if runs and not _guarded(runs[0].statement, callee) and not _goes_backward(callee):
            return each
    return None


def _goes_backward(function: FunctionInfo) -> bool:
    return any(last_name(record.call.func) in ("backward", "grad") for record in function.calls_made)


def _is_plain(model: Model, function: FunctionInfo) -> bool:
    """Whether the file computes no gradients but of parameters, and no framework calls the function."""
    if (
        model.code.speaks_of(*_NEEDS_GRADIENTS)
        or model.code.names("autograd.grad")
        or model.code.calls("requires_grad_")
    ):
        return False
    if model.code.gives("set_grad_enabled", False) or _switches_on(model):
        return False
    own = None if function.is_module else Vocabulary(function.node)
    if own is not None and (own.has("inference_mode") or own.speaks_of("enable_grad", "requires_grad")):
        return False
    if _decorated(function) is not False or function.name.startswith("test_"):
        return False
    return model.contract(function) is None


def _switches_on(model: Model) -> bool:
    """`x.requires_grad = True`."""
    return any(
        isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Constant)
        and statement.value.value is True
        and any(isinstance(each, ast.Attribute) and each.attr == "requires_grad" for each in statement.targets)
        for statement in model.statements
    )


def _decorated(function: FunctionInfo) -> bool | None:
    """Whether a decorator turns recording off or on; None if one may do anything."""
    names = [last_name(each.func if isinstance(each, ast.Call) else each) or "" for each in function.decorators]
    if any(map(_SETS_MODE.search, names)):
        return True
    return False if set(names) <= _NEUTRAL_DECORATORS else None


def _guarded(statement: ast.stmt, function: FunctionInfo) -> bool:
    """Whether a `with` around the statement turns recording off or on, or may do so."""
    for around in (statement, *function.place_of(statement).around()):
        if isinstance(around, (ast.With, ast.AsyncWith)):
            for item in around.items:
                text = ast.unparse(item.context_expr)
                if _SETS_MODE.search(text) or not _NEUTRAL.search(text):
                    return True
    return False


def _called_without(model: Model, function: FunctionInfo, hops: int) -> bool:
    """Whether some caller turns recording off, or the function is passed on to unknown callers."""
    if function.is_module:
        return False
    if model.given_away(function):
        return True
    for record in model.possible_callers(function):
        if record.function is function:
            continue
        if _guarded(record.statement, record.function) or _decorated(record.function) is not False:
            return True
        if hops and _called_without(model, record.function, hops - 1):
            return True
    return False


def _back_to_training(function: FunctionInfo, path: str, at: int, row: int) -> bool:
    """Whether the model is set to training again between the two lines."""
    return any(
        isinstance(record.call.func, ast.Attribute)
        and record.call.func.attr == "train"
        and dotted(record.call.func.value) == path
        and at < record.call.lineno < row
        for record in function.calls_made
    )


def _decorator(model: Model, function: FunctionInfo) -> Edit | None:
    """Insert `@torch.no_grad()` above the function, if torch is imported before it."""
    node = function.node
    if not isinstance(node, ast.FunctionDef) or function.is_generator:
        return None
    imported = [
        alias.asname or alias.name
        for statement in model.top.body
        if isinstance(statement, ast.Import) and statement.lineno < node.lineno
        for alias in statement.names
        if alias.name == "torch"
    ]
    indent = model.source.line(node.lineno)[: node.col_offset]
    if not imported or indent.strip():
        return None
    place = model.source.line_starts[node.lineno - 1]
    return Edit(place, place, f"{indent}@{imported[0]}.no_grad(){model.source.newline}".encode())
