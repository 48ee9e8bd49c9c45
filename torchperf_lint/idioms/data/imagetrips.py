"""Tensors that become images of PIL and tensors again: in a pipeline's list of steps, and in calls around calls."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.idioms.data.composed import pipelines
from torchperf_lint.idioms.data.sample_code import makes_samples
from torchperf_lint.knowledge import transforms
from torchperf_lint.knowledge.other_libraries import IMAGE_FUNCTIONS
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import last_name
from torchperf_lint.syntax import cst, shape
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.idioms.data.composed import Element
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import FunctionInfo

_TORCHVISION = "torchvision.transforms."
_TO_IMAGE = ("to_pil_image", "ToPILImage")
_TO_TENSOR = frozenset({"to_tensor", "pil_to_tensor", "to_image", *transforms.CONVERSIONS})
_NOT_FOR_ALL = frozenset({"Lambda", *_TO_IMAGE, *_TO_TENSOR, *transforms.CHOICES, *transforms.OF_BYTES})
"""Steps that are no transform of torchvision's own on what they get, or that may not take each image and tensor."""
_LISTS = ("torch.nn.ModuleList", transforms.SEQUENCE)
_OF_IMAGES = frozenset("resize crop rotate transpose".split())
"""Methods of PIL's images that torchvision has for tensors as well."""


class RoundTrip(NamedTuple):
    """The place that makes an image of a tensor, the one that makes a tensor again, and what runs them."""

    there: Site
    back: cst.BaseExpression
    where: str
    because: tuple[Because, ...]


def trips_in_pipelines(model: Model) -> Iterator[RoundTrip]:
    """`ToTensor()`, later `ToPILImage()`, and `ToTensor()` again, with steps between them that take tensors as well."""
    found: set[int] = set()
    for _, elements, _ in pipelines(model):
        names = [_name(model, element.node) for element in elements]
        for place, name in enumerate(names):
            if name != "ToPILImage" or not any(_is_before(names, elements, each, place) for each in range(place)):
                continue
            back = next((each for each in range(place + 1, len(names)) if names[each] in _TO_TENSOR), None)
            there = elements[place].node
            if back is None or there is None:
                continue
            if not all(_takes_tensors(model, element.node) for element in elements[place + 1 : back]):
                continue
            node, site = elements[back].node, model.site(there)
            if node is not None and _follows(elements[place], elements[back]) and site.start not in found:
                found.add(site.start)
                yield RoundTrip(site, node, "for each sample", ())


def trips_in_calls(model: Model) -> Iterator[RoundTrip]:
    """`to_tensor(resize(to_pil_image(x), 224))` of a tensor, for each sample or in each step."""
    names = [name for name in model.called_names if name in _TO_TENSOR or "tensor" in name.lower()]
    for site in model.sites((*_TO_TENSOR, *names), False, lambda record: True):
        call, function = model.ast_of(site.node), model.function_of(site)
        if not isinstance(call, ast.Call) or _converts(model, function, call) not in _TO_TENSOR or not call.args:
            continue
        there = _made_of_tensor(model, function, call.args[0])
        if there is None:
            continue
        hot_path = model.hot_path(site)
        because = makes_samples(model, site) if hot_path is None else hot_path.because
        place = model.site_at(there, _statement_of(function, there, model.statement_of(site.node)))
        if because is not None and place is not None:
            yield RoundTrip(place, site.node, "for each sample" if hot_path is None else hot_path.where, because)


def _statement_of(function: FunctionInfo, call: ast.Call, nearest: ast.stmt) -> ast.stmt:
    """The function's statement that holds the call."""
    return next((each.statement for each in function.calls_made if each.call is call), nearest)


def _name(model: Model, node: cst.BaseExpression | None) -> str | None:
    """The name of a transform of torchvision; None for any other step."""
    if node is None:
        return None
    value = model.value(node.func) if isinstance(node, cst.Call) else model.value(node)
    ref = value.ref or ""
    is_own = value.kind is not Kind.CLASS and value.cls is None
    return ref.rpartition(".")[2] if is_own and ref.startswith(_TORCHVISION) else None


def _is_before(names: list[str | None], elements: list[Element], first: int, place: int) -> bool:
    """Whether a step before the place makes a tensor whenever the place runs."""
    return names[first] in transforms.CONVERSIONS and _follows(elements[first], elements[place])


def _follows(one: Element, other: Element) -> bool:
    """Whether the first of two steps runs whenever the other one does."""
    return other.branch[: len(one.branch)] == one.branch


def _takes_tensors(model: Model, node: cst.BaseExpression | None) -> bool:
    """Whether a step, with the steps that it chooses from, is one of torchvision's that take tensors and images."""
    name = _name(model, node)
    if name not in transforms.CHOICES:
        return name is not None and name not in _NOT_FOR_ALL
    within = _steps_of(model, node)
    return bool(within) and all(_takes_tensors(model, each) for each in within)


def _steps_of(model: Model, node: cst.BaseExpression | None) -> list[cst.BaseExpression | None]:
    """The steps in a list that is the first argument; nothing if they are not written there."""
    steps = shape.argument(node, "transforms", 0) if isinstance(node, cst.Call) else None
    if isinstance(steps, cst.Call) and model.value(steps.func).ref in _LISTS and len(steps.args) > 0:
        if not isinstance(steps.args[0].value, cst.List):
            return [None if each.star else each.value for each in steps.args]
        steps = steps.args[0].value
    if not isinstance(steps, (cst.List, cst.Tuple)):
        return []
    return [each.value if isinstance(each, cst.Element) else None for each in steps.elements]


def _converts(model: Model, function: FunctionInfo, call: ast.Call) -> str | None:
    """The name of the function or transform of torchvision that the call runs on its argument."""
    callee = model.value_in(function, call.func)
    ref = callee.ref or ""
    runs = callee.kind is Kind.LIBRARY and ref.startswith(IMAGE_FUNCTIONS)
    runs = runs or (callee.kind in (Kind.INSTANCE, Kind.MODULE) and callee.cls is None and ref.startswith(_TORCHVISION))
    return ref.rpartition(".")[2] if runs else None


def _made_of_tensor(model: Model, function: FunctionInfo, node: ast.expr, steps: int = 0) -> ast.Call | None:
    """The call that made an image of a tensor, from which the expression is worked out as an image."""
    if isinstance(node, ast.Name):
        bound = model.only_binding(function, node.id)
        return (
            None
            if bound is None or not _is_read_once(function, node.id)
            else _made_of_tensor(model, function, bound, steps + 1)
        )
    if not isinstance(node, ast.Call) or steps > bounds.MOST_STEPS_OF_IMAGE:
        return None
    name = _converts(model, function, node)
    if name in _TO_IMAGE:
        value = model.value_in(function, node.args[0]) if node.args else None
        return node if value is not None and value.holds_tensors and not value.mixed else None
    if name is not None:
        goes_on = bool(node.args) and name not in _NOT_FOR_ALL
        return _made_of_tensor(model, function, node.args[0], steps + 1) if goes_on else None
    if isinstance(node.func, ast.Attribute) and last_name(node.func) in _OF_IMAGES:
        return _made_of_tensor(model, function, node.func.value, steps + 1)
    return None


def _is_read_once(function: FunctionInfo, name: str) -> bool:
    """Whether nothing else reads the name, which might change the image, keep it or show it."""
    uses = [node for node in subtree(function.node) if isinstance(node, ast.Name) and node.id == name]
    return sum(isinstance(node.ctx, ast.Load) for node in uses) == 1
