"""Transform pipelines: torchvision's `Compose` and its subclasses, with their steps.

A step may itself be a pipeline or a `Sequential`: its steps then count as steps of the outer pipeline.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.knowledge import transforms
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import names_in
from torchperf_lint.syntax import cst

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import CallRecord, ClassInfo, FunctionInfo

Branch = tuple[tuple[ast.stmt, str], ...]


class Element(NamedTuple):
    """A step as written (None: possibly several, or none), and the branches around it."""

    node: cst.BaseExpression | None
    branch: Branch = ()


class Pipeline(NamedTuple):
    """The call that makes it, and its steps in order; `movable`: they are in one list that nothing else uses."""

    site: Site
    elements: list[Element]
    movable: bool


def pipelines(model: Model) -> Iterator[Pipeline]:
    """The pipelines whose steps are literals: in the call, or in a list that the same function builds for it."""
    for site in model.calls(*transforms.PIPELINES):
        yield from _pipeline(model, site, plain=True)
    made = tuple(name for name in model.called_names if name.lstrip("_")[:1].isupper() and name != "Compose")
    for site in model.sites(made, False, lambda record: _of_subclass(model, record) is not None):
        record = next(each for each in model.function_of(site).calls_made if each.call is model.ast_of(site.node))
        cls = _of_subclass(model, record)
        own = None if cls is None else _runs_it(model, cls)
        if cls is not None and model.method(cls, "__init__") is None and (own is None or _in_order(own)):
            yield from _pipeline(model, site, plain=own is None)


def _of_subclass(model: Model, record: CallRecord) -> ClassInfo | None:
    """The class that the call instantiates, if it inherits from a `Compose`."""
    value = model.callee(record)
    if value.kind is not Kind.CLASS or value.cls is None:
        return None
    return value.cls if set(transforms.PIPELINES) & set(model.library_bases(value.cls)) else None


def _runs_it(model: Model, cls: ClassInfo) -> FunctionInfo | None:
    return model.method(cls, "__call__") or model.method(cls, "forward")


def _in_order(function: FunctionInfo) -> bool:
    """Whether the method that runs the steps iterates over all of them: `for t in self.transforms: x = t(x)`."""
    loops = [node for node in function.nodes if isinstance(node, ast.For)]
    walked = [
        name
        for loop in loops
        if ast.unparse(loop.iter) in (f"{function.self_name}.transforms", f"enumerate({function.self_name}.transforms)")
        for name in names_in(loop.target)
    ]
    return any(ast.unparse(record.call.func) in walked for record in function.calls_made)


def _pipeline(model: Model, site: Site, plain: bool) -> Iterator[Pipeline]:
    call = site.node
    assert isinstance(call, cst.Call)
    if len(call.args) != 1 or call.args[0].star:
        return
    steps = call.args[0].value
    named = None
    if isinstance(steps, cst.List):
        named = [_element(each, ()) for each in steps.elements], True
    elif isinstance(steps, cst.Name):
        named = _named(model, site, steps.value)
    if named is not None:
        elements, in_one_list = named
        opened = [step for each in elements for step in _opened(model, each, bounds.MOST_PIPELINES_NESTED)]
        yield Pipeline(site, opened, plain and in_one_list and opened == elements)


def _opened(model: Model, element: Element, depth: int) -> list[Element]:
    """The steps of a nested pipeline; the step itself if it is none, or if its steps are unknown."""
    steps = _steps_within(model, element.node) if depth else None
    if steps is None:
        return [element]
    return [inner for each in steps for inner in _opened(model, each._replace(branch=element.branch), depth - 1)]


def _steps_within(model: Model, node: cst.BaseExpression | None) -> list[Element] | None:
    """The arguments of `Compose([...])` and `Sequential(...)` written as a step."""
    if not isinstance(node, cst.Call) or any(argument.star or argument.keyword for argument in node.args):
        return None
    callee = model.value(node.func)
    if callee.kind is not Kind.LIBRARY:
        return None
    if callee.ref in transforms.PIPELINES and len(node.args) == 1 and isinstance(node.args[0].value, cst.List):
        return [_element(each, ()) for each in node.args[0].value.elements]
    return [Element(argument.value) for argument in node.args] if callee.ref == transforms.SEQUENCE else None


def _element(element: cst.BaseElement, branch: Branch) -> Element:
    return Element(element.value if isinstance(element, cst.Element) else None, branch)


def _named(model: Model, site: Site, name: str) -> tuple[list[Element], bool] | None:
    """The steps in a list that the function around binds once and passes only to the call at the site."""
    function = model.function_of(site)
    bound = [
        statement
        for statement in function.statements
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and _binds(statement, name)
    ]
    if len(bound) != 1 or not model.bound_once(function, name):
        return None
    literal = model.site_at(bound[0].value, bound[0]) if isinstance(bound[0].value, ast.List) else None
    if literal is None or not isinstance(literal.node, cst.List):
        return None
    grown = [record for record in function.calls_made if _grows(record, name)]
    uses = [node for node in function.nodes if isinstance(node, ast.Name) and node.id == name]
    if len(uses) != len(grown) + 2 or any(
        _is_repeated(model, each) for each in (*bound, *(r.statement for r in grown))
    ):
        return None
    elements = [_element(each, _branch(model, bound[0])) for each in literal.node.elements]
    for record in sorted(grown, key=lambda each: each.call.lineno):
        added = model.site_at(record.call, record.statement)
        if added is None or not isinstance(added.node, cst.Call):
            return None
        elements.append(Element(added.node.args[0].value, _branch(model, record.statement)))
    return elements, not grown


def _binds(statement: ast.Assign | ast.AnnAssign, name: str) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    return [ast.unparse(target) for target in targets] == [name]


def _grows(record: CallRecord, name: str) -> bool:
    """`name.append(step)` as a statement."""
    func = record.call.func
    is_append = isinstance(func, ast.Attribute) and func.attr == "append" and ast.unparse(func.value) == name
    alone = isinstance(record.statement, ast.Expr) and record.statement.value is record.call
    return is_append and alone and len(record.call.args) == 1 and not record.call.keywords


def _branch(model: Model, statement: ast.stmt) -> Branch:
    """The compound statements around a statement, outermost first, with the part of each that contains it."""
    around = [(place.parent, place.field) for place in model.place_of(statement).outwards() if place.parent is not None]
    return tuple(reversed(around))


def _is_repeated(model: Model, statement: ast.stmt) -> bool:
    return any(isinstance(each, (ast.For, ast.AsyncFor, ast.While)) for each in model.place_of(statement).around())
