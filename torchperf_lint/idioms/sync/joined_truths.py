"""Several tensors that one branch asks, `if torch.isnan(x) or torch.isinf(x):`: they are joined on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Fix, NoFix, Safety
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from torchperf_lint.model import Model, Site

_TITLE = "join the conditions on the device and ask once"
_ASSUMES = "each condition is a tensor of one element, and all lie on one device"
_NEVER_FAIL = frozenset("isnan isinf isfinite any all abs detach".split())
"""What works on a tensor of any shape: the second condition is computed also where the first one decides."""


def asked_together(model: Model, site: Site) -> Fix | NoFix:
    """`if a | b:` for `if a or b:`, and `if a & b:` for `if a and b:`."""
    joined = _joined(model, site.node)
    if joined is None or not site.tree.lossless:
        return NoFix.DECIDES_A_BRANCH
    texts = [_text(model, site, each) for each in _operands(joined)]
    if None in texts or _without_not(_operands(joined)[0])[0] is site.node:
        return NoFix.DECIDES_A_BRANCH  # one question stays, the first one
    sign = " | " if isinstance(joined.operator, cst.Or) else " & "
    edit = edits.replace(site.tree, joined, sign.join(str(each) for each in texts))
    if edit is None:
        return NoFix.NO_ROOM
    asked = [_without_not(each)[0] for each in _operands(joined)]
    of_one = len({path for each in asked for path in _paths(each)}) == 1
    shown = of_one and all(model.value(each).scalar for each in asked)
    return Fix(_TITLE, Safety.SAFE if shown else Safety.UNSAFE, (edit,), _ASSUMES)


def _joined(model: Model, node: cst.CSTNode) -> cst.BooleanOperation | None:
    """The whole of `a or b or c` around one of its operands, where nothing but its truth is asked."""
    parent = model.parent(node)
    if isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not):
        parent = model.parent(parent)
    joined: cst.BooleanOperation | None = None
    while isinstance(parent, cst.BooleanOperation) and (joined is None or _is_alike(parent, joined)):
        joined, parent = parent, model.parent(parent)
    around: cst.CSTNode | None = joined
    if isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not):
        around, parent = parent, model.parent(parent)
    asks = isinstance(parent, (cst.If, cst.While, cst.IfExp)) and parent.test is around
    return joined if asks else None


def _is_alike(one: cst.BooleanOperation, other: cst.BooleanOperation) -> bool:
    return type(one.operator) is type(other.operator)


def _operands(joined: cst.BooleanOperation) -> list[cst.BaseExpression]:
    found: list[cst.BaseExpression] = []
    for each in (joined.left, joined.right):
        is_part = isinstance(each, cst.BooleanOperation) and _is_alike(each, joined)
        found += _operands(each) if is_part and isinstance(each, cst.BooleanOperation) else [each]
    return found


def _without_not(node: cst.BaseExpression) -> tuple[cst.BaseExpression, bool]:
    is_negated = isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not)
    return (node.expression, True) if is_negated and isinstance(node, cst.UnaryOperation) else (node, False)


def _text(model: Model, site: Site, operand: cst.BaseExpression) -> str | None:
    """A condition as an operand of `|` and `&`; None unless it is a tensor of bool that is computed in any case."""
    tensor, is_negated = _without_not(operand)
    value = model.value(tensor)
    if not value.is_tensor or value.dtype != "bool" or not value.device.on_accelerator or not _never_fails(tensor):
        return None
    text = edits.text_of(site.tree, tensor)
    text = text if isinstance(tensor, (cst.Call, cst.Name, cst.Attribute)) else f"({text})"
    return f"~{text}" if is_negated else text


def _paths(node: cst.BaseExpression) -> set[str]:
    """The names and paths that such a condition asks about."""
    if isinstance(node, cst.Comparison):
        return _paths(node.left) | _paths(node.comparisons[0].comparator)
    if isinstance(node, cst.Call):
        owner = shape.receiver(node)
        parts = [*(each.value for each in node.args), *([] if owner is None else [owner])]
        return {path for each in parts for path in _paths(each)} - {"torch"}
    path = shape.dotted(node)
    return set() if path is None else {path}


def _never_fails(node: cst.BaseExpression) -> bool:
    """Whether an expression of tensors gives one, whatever their shapes and values are, and does nothing else."""
    if isinstance(node, cst.Comparison):
        return len(node.comparisons) == 1 and all(map(_never_fails, (node.left, node.comparisons[0].comparator)))
    if isinstance(node, cst.Call):
        owner = shape.receiver(node)
        given = [each.value for each in node.args if not each.star and each.keyword is None]
        parts = [*given, *([owner] if owner is not None and shape.dotted(owner) != "torch" else [])]
        plain = shape.method_name(node) in _NEVER_FAIL and len(given) == len(node.args) and len(parts) == 1
        return plain and all(map(_never_fails, parts))
    return isinstance(node, (cst.Integer, cst.Float)) or shape.dotted(node) is not None
