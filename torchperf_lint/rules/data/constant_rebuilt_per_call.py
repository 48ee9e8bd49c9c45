"""`torch.tensor([[0.299, ...], ...])` in a transform or collate function: every sample rebuilds the same tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Rate, Safety, Severity
from torchperf_lint.idioms import placing
from torchperf_lint.idioms.caches import filled_once
from torchperf_lint.idioms.data import sample_code
from torchperf_lint.idioms.data.handed import VIEWS, only_read, reckons
from torchperf_lint.knowledge import torch_api
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site

_MAKERS = (
    *sorted(torch_api.HOST_DATA_FACTORIES),
    "torch.FloatTensor",
    "torch.LongTensor",
    "numpy.array",
    "numpy.asarray",
)
_FEW = 1
"""A tensor of one number costs too little to report."""


@rule(
    code="TPL410",
    name="constant-rebuilt-per-call",
    category=Category.DATA,
    summary="a tensor of constants is created again for each sample",
    message="`{call}` makes the same {count} numbers into a new {kind} {where}",
    severity=Severity.NOTE,
    rate=Rate.ELEMENT,
    fix=Safety.UNSAFE,
    assumes="nothing writes into the constant, and no default dtype or device is set later",
    triggers=(
        ("tensor([", "tensor((", "Tensor([", "array([", "array((", "tensor(\n", "array(\n"),
        ("__getitem__", "collate_fn", "transform", "Compose"),
    ),
    cpu_only_too=True,  # samples are made on the host
)
def constant_rebuilt_per_call(model: Model) -> Iterator[Finding]:
    """Tensors and arrays of literal numbers that code for samples creates and then only reads."""
    taken: set[str] = set()
    for site in model.calls(*_MAKERS):
        call = site.node
        first = call.args[0] if call.args else None
        if (
            first is None
            or first.star
            or first.keyword is not None
            or not isinstance(first.value, (cst.List, cst.Tuple))
        ):
            continue
        count = _numbers(first.value)
        if count is None or count <= _FEW or not _is_plain(call) or model.in_test(site):
            continue
        name = _bound_name(model, site)
        if not (only_read(model, site, name) if name is not None else _is_operand(model, site)) or filled_once(
            model, site
        ):
            continue
        because = sample_code.makes_samples(model, site)
        if because is None:
            continue
        kind = "array" if (model.value(call.func).ref or "").startswith("numpy.") else "tensor"
        where = f"in every call of `{model.function_name(site)}`"
        fields = {"call": f"{model.text(call.func)}(...)", "count": str(count), "kind": kind, "where": where}
        yield Finding(site, because, _hoisted(model, site, name, taken), fields)


def _numbers(node: cst.BaseExpression) -> int | None:
    """The number of numbers in a nested list; None if it contains anything else."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        node = node.expression
    if isinstance(node, (cst.Integer, cst.Float)):
        return 1
    if not isinstance(node, (cst.List, cst.Tuple)):
        return None
    counts = [_numbers(element.value) if isinstance(element, cst.Element) else None for element in node.elements]
    return None if any(each is None for each in counts) else sum(each or 0 for each in counts)


def _is_plain(call: cst.Call) -> bool:
    """Whether the call has no option but a dtype."""
    return all(
        item.keyword is not None and item.keyword.value == "dtype" and shape.dotted(item.value) is not None
        for item in call.args[1:]
    )


def _bound_name(model: Model, site: Site) -> str | None:
    """The name that the new tensor, or a view of it, is bound to."""
    assigned = model.parent(_seen(model, site))
    if isinstance(assigned, cst.Assign) and len(assigned.targets) == 1:
        return shape.dotted(assigned.targets[0].target)
    return None


def _seen(model: Model, site: Site) -> cst.CSTNode:
    """The expression around the call that only takes a view of it: `torch.tensor([...])[:, None]`, `.view(3, 1, 1)`.

    Or `torch.broadcast_to(torch.tensor([...]), shape)`.
    """
    node: cst.CSTNode = site.node
    while True:
        parent = model.parent(node)
        if isinstance(parent, cst.Subscript) and parent.value is node:
            node = parent
        elif isinstance(parent, cst.Arg):
            around = model.parent(parent)
            first = isinstance(around, cst.Call) and around.args[0] is parent
            ref = model.value(around.func).ref or "" if isinstance(around, cst.Call) and first else ""
            if not ref.startswith(("torch.", "numpy.")) or ref.rpartition(".")[2] not in VIEWS:
                return node
            node = parent = around  # type: ignore[assignment]
        elif isinstance(parent, cst.Attribute) and parent.attr.value in VIEWS:
            around = model.parent(parent)
            if not isinstance(around, cst.Call):
                return node
            node = around
        else:
            return node


def _is_operand(model: Model, site: Site) -> bool:
    """Whether it is directly an operand of arithmetic."""
    node = _seen(model, site)
    parent = model.parent(node)
    if isinstance(parent, cst.Arg):
        call = model.parent(parent)
        made = isinstance(call, cst.Call) and model.value(call.func).ref in _MAKERS
        return isinstance(call, cst.Call) and not made and reckons(model, call)
    return isinstance(parent, (cst.BinaryOperation, cst.Comparison))


def _hoisted(model: Model, site: Site, name: str | None, taken: set[str]) -> Fix | None:
    """Create it once, at module level."""
    paths = [shape.dotted(site.node.func), *(shape.dotted(item.value) for item in site.node.args[1:])]
    roots = {path.partition(".")[0] for path in paths if path is not None}
    if any(model.binds(each, site) for each in roots):
        return None
    constant = "_" + (name.upper().strip("_") if name is not None and name.isidentifier() else "CONSTANT")
    free = (each for each in (constant, *(f"{constant}_{number}" for number in range(2, 100))) if each not in taken)
    constant = next((each for each in free if not model.code.names(each)), "")
    taken.add(constant)
    text = (
        " ".join(model.text(site.node).split())
        .replace("( ", "(")
        .replace("[ ", "[")
        .replace(" ]", "]")
        .replace(",]", "]")
    )
    line = placing.at_module_level(model, site, f"{constant} = {text.replace(', ]', ']').replace(' )', ')')}", roots)
    changed = edits.together(line, edits.replace(site.tree, site.node, constant))
    return (
        None
        if changed is None or not constant
        else Fix("make it once, as a constant of the module", Safety.UNSAFE, changed)
    )
