"""What a finding weighs: how often its cost is paid, how well it is shown, and what makes it matter less."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine import same_pass
from torchperf_lint.engine.findings import Because, Confidence, Cost, Loss, Rate, Severity, Unproven
from torchperf_lint.engine.lowered import Lowered, lowered
from torchperf_lint.engine.options import by_default
from torchperf_lint.engine.same_pass import Link
from torchperf_lint.knowledge import conventions
from torchperf_lint.model.domain.frequency import LoopKind
from torchperf_lint.model.domain.values import WHOLE_BATCH, Kind
from torchperf_lint.model.syntax.index import FunctionInfo
from torchperf_lint.model.syntax.names import dotted, last_name, names_in
from torchperf_lint.syntax.tree import COMPREHENSIONS, own_expressions, subtree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchperf_lint.engine.declare import Rule
    from torchperf_lint.engine.findings import Finding
    from torchperf_lint.model import HotPath, Model, Site
    from torchperf_lint.model.syntax.index import CallRecord

_DWARFED = (Loss.WAIT, Loss.KERNELS)
"""Losses of microseconds to milliseconds, which a call of seconds dwarfs."""

_WALKERS = conventions.LOADER_WRAPPERS | conventions.REARRANGE
_OF_ALL_ELEMENTS = frozenset({"chunk", "split", "tolist", "unbind"})
_MOST_BINDINGS = 3
"""Names that are followed to what they are bound to."""


class Weight(NamedTuple):
    """The weight of one finding; `because` is its evidence, with the reasons for a lower severity."""

    cost: Cost | None
    severity: Severity
    confidence: Confidence
    because: tuple[Because, ...]
    about: str
    behind: int | None = None  # the start of the expression that has waited for the same work
    only_if: str = ""  # the end of the message: the option that makes the place run


def weigh(rule: Rule, finding: Finding, model: Model) -> Weight:
    """The weight of a finding in the file of `model`."""
    if rule.loses is None:
        return Weight(None, rule.severity, _confidence(finding.because), finding.because, "")
    because = (*finding.because, *_assumed(finding, model))
    hot_path = model.hot_path(finding.site)
    way = list(_way(model, finding.site, hot_path)) if rule.is_paid_here else []
    rate, severity = _rate(rule, way), rule.severity
    minor = finding.minor or _minor_by_default(finding, model)
    reason = None if minor is None else Lowered(Severity.NOTE, minor)
    if hot_path is None and rate is Rate.ELEMENT and rule.loses is Loss.WAIT:
        row = finding.site.rows[0]
        if _runs_once(model, finding.site):
            rate, text = Rate.ONCE, "this runs once: where a script starts, or an object is made"
            reason = Lowered(Severity.NOTE, Because(row, text))
        else:
            reason = Lowered(Severity.WARNING, Because(row, "nothing shows that every step runs this"))
    elif hot_path is not None and rule.loses in _DWARFED:
        slow = next(filter(None, (same_pass.slow_call(*each) for each in way)), None)
        if slow is not None:
            reason = Lowered(Severity.NOTE, _dwarfed_by(slow))
        reason = reason or lowered(rule, hot_path, way)
    if reason is not None:
        severity = severity.at_most(reason.at_most)
        because = (*because, reason.because)
    behind = None if reason is None else reason.behind
    only_if = "" if reason is None else reason.only_if
    about = _about(model, finding)
    return Weight(Cost(rate, rule.loses), severity, _confidence(because), because, about, behind, only_if)


def _minor_by_default(finding: Finding, model: Model) -> Because | None:
    """What makes it matter less as long as nothing sets an option."""
    asked = finding.minor_if
    option = None if asked is None else by_default(model, model.function_of(finding.site), asked.node)
    if asked is None or option is None or option.default is None or option.value != asked.value:
        return None
    return Because(option.default.lineno, f"by default of `{option.name}`, {asked.text}", option.path)


def _way(model: Model, site: Site, hot_path: HotPath | None) -> Iterator[Link]:
    """The site, and the calls that the evidence of its hot path names, the last one first."""
    yield Link(model, model.statement_of(site.node), model.ast_of(site.node))
    if hot_path is None or hot_path.loop is not None:
        return
    named = {(step.path or model.path, step.row) for step in hot_path.because}
    passed, function = set[FunctionInfo](), model.function_of(site)
    while function not in passed:
        passed.add(function)
        for record in model.home(function).possible_callers(function):
            if (record.function.path, record.call.lineno) in named:
                yield Link(model.home(record.function), record.statement, record.call)
                function = record.function
                break


def _runs_once(model: Model, site: Site) -> bool:
    """Whether the site runs when a script starts or an object is made, and no loop repeats it there."""
    place = model.place(site.node)
    return not place.loops() and (place.function is model.top or place.function.name == "__init__")


def _dwarfed_by(slow: CallRecord) -> Because:
    text = f"`{ast.unparse(slow.call.func)}(...)` runs in the same pass and takes far longer"
    return Because(slow.call.lineno, text, slow.function.path)


def _confidence(because: Iterable[Because]) -> Confidence:
    return Confidence.LIKELY if any(isinstance(each, Unproven) for each in because) else Confidence.PROVEN


def _assumed(finding: Finding, model: Model) -> Iterator[Because]:
    """What is not proven of the value of the finding's own expression, and is not among its evidence."""
    for step in model.value(finding.site.node).because:
        if isinstance(step, Unproven) and step not in finding.because:
            yield step


# -- how often ---------------------------------------------------------------------------------------------------------


def _rate(rule: Rule, way: Iterable[Link]) -> Rate:
    """How often the cost is paid: as the rule says, and as often as loops inside the step repeat the site."""
    rate = rule.rate or Rate.STEP
    if rate in (Rate.SELDOM, Rate.ONCE):
        return rate
    return _costliest(rate, *(_repeated(*each) for each in way))


def _costliest(*rates: Rate) -> Rate:
    return min(rates, key=list(Rate).index)


def _repeated(model: Model, statement: ast.stmt, node: ast.expr | None) -> Rate:
    """How often one pass of a step runs a part of a statement, by the loops of its function."""
    rate, function = Rate.STEP, model.place_of(statement).function
    for iterable in _inner_iterables(model, statement, node):
        per_element = iterable is not None and _is_of_elements(model, function, iterable)
        rate = _costliest(rate, Rate.ELEMENT if per_element else Rate.SEVERAL)
    return rate


def _inner_iterables(model: Model, statement: ast.stmt, node: ast.expr | None) -> Iterator[ast.expr | None]:
    """What the loops and comprehensions inside the step go over; None for a `while`."""
    hot_path, place = model.hot_path_of(statement), model.place_of(statement)
    for loop in place.loops():
        if model.loop_info(loop).kind is not LoopKind.OTHER or (hot_path is not None and loop is hot_path.loop):
            break
        if not isinstance(loop.body[-1], ast.Break):
            yield None if isinstance(loop, ast.While) else loop.iter
    for outer in own_expressions(statement) if node is not None else ():
        if isinstance(outer, COMPREHENSIONS):
            first = outer.generators[0]
            if any(each is node for each in subtree(outer)) and not any(each is node for each in subtree(first.iter)):
                for walked in (each.iter for each in outer.generators):
                    if hot_path is not None or not model.gives_batches(place.function, walked):
                        yield walked


def _is_of_elements(model: Model, function: FunctionInfo, iterable: ast.expr, bindings: int = 0) -> bool:
    """Whether an iterable has an item per element of a tensor, or of a part of a batch."""
    if isinstance(iterable, ast.Call):
        name = last_name(iterable.func)
        if name in ("range", "trange"):
            return any(_is_size(model, function, each, bindings) for each in iterable.args)
        if name in _WALKERS:
            return any(_is_of_elements(model, function, each, bindings) for each in iterable.args)
        if name in _OF_ALL_ELEMENTS and isinstance(iterable.func, ast.Attribute):
            return model.value_in(function, iterable.func.value).kind in (Kind.TENSOR, Kind.NUMPY)
    value = model.value_in(function, iterable)
    if value.kind in (Kind.TENSOR, Kind.NUMPY):
        return not value.mixed
    if value.kind is Kind.UNKNOWN and value.device.on_accelerator:
        return True  # what was moved to the device, and can be gone over, is a tensor
    if value.origin is not None and value.ref != WHOLE_BATCH:
        return value.holds_tensors
    return any(_is_of_elements(model, function, each, bindings + 1) for each in _bound(function, iterable, bindings))


def _is_size(model: Model, function: FunctionInfo, number: ast.expr, bindings: int) -> bool:
    """`len(x)`, `x.shape[0]`, `x.size(0)`, or a name that is bound to one."""
    for node in subtree(number):
        if isinstance(node, ast.Attribute) and node.attr == "shape":
            return True
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in ("numel", "size"):
                return True
            if last_name(node.func) == "len" and node.args:
                return _is_of_elements(model, function, node.args[0], bindings)
    return any(_is_size(model, function, each, bindings + 1) for each in _bound(function, number, bindings))


def _bound(function: FunctionInfo, node: ast.expr, bindings: int) -> list[ast.expr]:
    """What the function's assignments bind a name to, by itself or as one of several: `b, t = x.shape`."""
    if not isinstance(node, ast.Name) or bindings == _MOST_BINDINGS:
        return []
    return [
        each.value
        for each in function.statements
        if isinstance(each, ast.Assign) and node.id in {name for target in each.targets for name in names_in(target)}
    ]


# -- what it is about --------------------------------------------------------------------------------------------------


def _about(model: Model, finding: Finding) -> str:
    """The name or path of the value whose part the finding's expression takes; empty where it begins otherwise.

    Names that one assignment or loop binds together, as in `images, labels = batch`, are parts of one value.
    """
    node = model.ast_of(finding.site.node)
    while isinstance(node, (ast.Call, ast.Subscript, ast.Attribute)):
        if isinstance(node, ast.Call):
            node = node.func.value if isinstance(node.func, ast.Attribute) else next(iter(node.args), None)
        elif dotted(node) is not None:
            break
        else:
            node = node.value
    path = None if node is None else dotted(node)
    if path is None:
        return ""
    function = model.function_of(finding.site)
    first, _, rest = path.partition(".")
    if first == function.self_name:
        return ".".join(path.split(".")[:2]) if rest else ""
    root = next(each for each in subtree(node) if isinstance(each, ast.Name))  # type: ignore[arg-type]
    if model.value_in(function, root).kind in (Kind.LIBRARY, Kind.FUNCTION, Kind.CLASS):
        return ""
    return _bound_with(function, first) or first


def _bound_with(function: FunctionInfo, name: str) -> str:
    """The tuple of names that a loop or an assignment binds together with this one; empty where none does."""
    return function.note(("bound together", function), lambda: dict(_tuples_of(function))).get(name, "")


def _tuples_of(function: FunctionInfo) -> Iterator[tuple[str, str]]:
    """Names that one target binds together, each with the target's text; the function's first target comes last."""
    for statement in reversed(function.statements):
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, (ast.For, ast.AsyncFor)):
            targets = [statement.target]
        else:
            continue
        for part in (part for target in targets for part in subtree(target)):
            for each in part.elts if isinstance(part, ast.Tuple) else ():
                if isinstance(each, ast.Name):
                    yield each.id, ast.unparse(part)
