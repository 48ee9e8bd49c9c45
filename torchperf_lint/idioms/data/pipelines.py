"""Transform pipelines: which loader's samples use one, and where the program moves their batches."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Because
from torchperf_lint.knowledge import torch_api
from torchperf_lint.model.handles import last_name
from torchperf_lint.syntax import cst, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import CallRecord, FunctionInfo

_FOR_LABELS = ("target", "label", "mask")
"""Parts of parameter names: their arguments do not transform images."""


class Fed(NamedTuple):
    """A loader whose samples go through a pipeline, and evidence that its batches go to the accelerator."""

    loader: CallRecord
    because: tuple[Because, ...]


class Move(NamedTuple):
    """The statement that moves a batch's images, and the loop over the loader around it."""

    name: str
    site: Site
    device: str
    loop: ast.stmt
    statement: ast.stmt


def fed_loader(model: Model, site: Site) -> Fed | None:
    """The loader whose dataset receives the pipeline made at the site, if its batches go to the accelerator."""
    pipeline = model.ast_of(site.node)
    for there in model.with_neighbours:
        for record in there.calls_named("DataLoader"):
            called = model.callee(record)
            if called.ref not in torch_api.LOADERS or pipeline not in list(_transforms_of(model, record)):
                continue
            route = there.route_of(record.call)
            if route is not None:
                path = None if there is model else there.path
                says = Because(record.call.lineno, "the loader's samples go through it", path)
                steps = (step if step.path is not None else step._replace(path=path) for step in route.because)
                return Fed(record, (says, *steps))
    return None


def _transforms_of(model: Model, record: CallRecord) -> Iterator[ast.Call]:
    """The calls that made the dataset arguments for images; empty if batches are collated by hand."""
    loader = record.call
    keywords = {each.arg: each.value for each in loader.keywords}
    if len(loader.args) > 6 or "collate_fn" in keywords or None in keywords:
        return
    node = loader.args[0] if loader.args else keywords.get("dataset")
    made = None if node is None else model.value_in(record.function, node).created
    function = None if made is None else _function_around(model, made)
    if made is None or function is None:
        return
    named = [each.value for each in made.keywords if not any(word in (each.arg or "") for word in _FOR_LABELS)]
    for given in (*made.args, *named):
        created = model.value_in(function, given).created
        if created is not None:
            yield created


def _function_around(model: Model, made: ast.Call) -> FunctionInfo | None:
    records = (record for there in model.with_neighbours for record in there.calls_named(last_name(made.func) or ""))
    return next((record.function for record in records if record.call is made), None)


def move_of_images(model: Model, loader: CallRecord) -> Move | None:
    """The statement of this file that moves the images of the loader's batches: `images = images.to(device)`.

    The images are the first name that the loop over the loader binds.
    """
    for record in model.calls_named("to", "cuda"):
        func, statement = record.call.func, record.statement
        if not isinstance(func, ast.Attribute) or not isinstance(func.value, ast.Name):
            continue
        value = model.value_in(record.function, func.value)
        loop = record.place.parent
        if loader.call not in value.sources or not isinstance(loop, ast.For):
            continue
        if _first_name(loop) == func.value.id and _keeps_name(statement, record.call, func.value.id):
            site = model.site_at(record.call, statement)
            device = None if site is None else _device(model, site)
            if site is not None and device is not None:
                return Move(func.value.id, site, device, loop, statement)
    return None


def _first_name(loop: ast.For) -> str | None:
    """`images` of `for images, labels in ...` and of `for step, (images, labels) in enumerate(...)`."""
    target = loop.target
    counts = isinstance(loop.iter, ast.Call) and last_name(loop.iter.func) == "enumerate"
    if counts and isinstance(target, ast.Tuple) and len(target.elts) == 2:
        target = target.elts[1]
    if isinstance(target, (ast.Tuple, ast.List)) and len(target.elts) > 1:
        return last_name(target.elts[0])
    return None


def _keeps_name(statement: ast.stmt, call: ast.Call, name: str) -> bool:
    """Whether the call's result is bound to the name again, alone or beside others."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    target, value = statement.targets[0], statement.value
    pairs = [(target, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs = list(zip(target.elts, value.elts, strict=True))
    return any(given is call and isinstance(to, ast.Name) and to.id == name for to, given in pairs)


def _device(model: Model, site: Site) -> str | None:
    if shape.method_name(site.node) == "cuda":
        return '"cuda"'
    given = shape.argument(site.node, "device", 0)
    return model.text(given) if isinstance(given, cst.BaseExpression) else None
