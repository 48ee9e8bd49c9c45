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
_EXTREMES = frozenset({"min", "max"})
"""What fails for an empty tensor."""


def asked_together(model: Model, site: Site) -> Fix | NoFix:
    """`if a | b:` for `if a or b:`, and `if a & b:` for `if a and b:`."""
    joined = _joined(model, site.node)
    if joined is None or not site.tree.lossless:
        return NoFix.DECIDES_A_BRANCH
    first = _evaluated(_without_not(_operands(joined)[0])[0])
    texts = [_text(model, site, each, first) for each in _operands(joined)]
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


def _evaluated(node: cst.BaseExpression) -> frozenset[str]:
    """What the first condition indexes, or takes the least or largest of: it fails first where one of these does."""
    if isinstance(node, cst.Comparison):
        return _evaluated(node.left).union(*(_evaluated(each.comparator) for each in node.comparisons))
    if isinstance(node, cst.Subscript):
        plain = not any(shape.calls_in(node)) and not shape.binds_or_defers(node)
        return frozenset({edits.code_of(node)} if plain else ())
    asked = _asked_whole(node)
    if asked is None:
        return frozenset()
    return _evaluated(asked) | ({edits.code_of(asked)} if _is_extreme(node) else set[str]())


def _text(model: Model, site: Site, operand: cst.BaseExpression, first: frozenset[str]) -> str | None:
    """A condition as an operand of `|` and `&`; None unless it is a tensor of bool that is computed in any case."""
    tensor, is_negated = _without_not(operand)
    value = model.value(tensor)
    computed = value.is_tensor and value.dtype == "bool" and value.device.on_accelerator
    if not computed or not _never_fails(tensor, first):
        return None
    text = edits.text_of(site.tree, tensor)
    text = text if isinstance(tensor, (cst.Call, cst.Name, cst.Attribute)) else f"({text})"
    return f"~{text}" if is_negated else text


def _paths(node: cst.BaseExpression) -> set[str]:
    """The names, paths and entries that such a condition asks about."""
    if isinstance(node, cst.Comparison):
        return _paths(node.left).union(*(_paths(each.comparator) for each in node.comparisons))
    if isinstance(node, cst.Subscript):
        return {edits.code_of(node)}
    asked, path = _asked_whole(node), shape.dotted(node)
    if asked is not None:
        return _paths(asked)
    return set() if path is None else {path}


def _never_fails(node: cst.BaseExpression, first: frozenset[str]) -> bool:
    """Whether an expression of tensors gives one, whatever their shapes and values are, and does nothing else.

    `first` is what was evaluated before.
    """
    if isinstance(node, cst.Comparison):
        parts = [node.left, *(each.comparator for each in node.comparisons)]
        return len(parts) == 2 and all(_never_fails(each, first) for each in parts)
    if isinstance(node, cst.Subscript):
        return edits.code_of(node) in first
    if isinstance(node, cst.Call):
        asked = _asked_whole(node)
        known = asked is not None and (not _is_extreme(node) or edits.code_of(asked) in first)
        return known and asked is not None and _never_fails(asked, first)
    return isinstance(node, (cst.Integer, cst.Float)) or shape.dotted(node) is not None


def _asked_whole(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """`x` of `x.any()` and `torch.any(x)`, where nothing else is given."""
    if not isinstance(node, cst.Call) or shape.method_name(node) not in _NEVER_FAIL | _EXTREMES:
        return None
    if _is_extreme(node) and not isinstance(node.func, cst.Attribute):
        return None  # Python's own functions go over the elements
    owner = shape.receiver(node)
    given = [each.value for each in node.args if not each.star and each.keyword is None]
    parts = [*given, *([owner] if owner is not None and shape.dotted(owner) != "torch" else [])]
    return parts[0] if len(given) == len(node.args) and len(parts) == 1 else None


def _is_extreme(node: cst.BaseExpression) -> bool:
    """Whether it takes the least or largest element."""
    return isinstance(node, cst.Call) and shape.method_name(node) in _EXTREMES
