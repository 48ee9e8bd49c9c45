"""`assert not torch.isnan(x).any()` in every step: the GPU can check by itself, and fail later."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Fix, NoFix, Safety
from torchperf_lint.idioms import placing, surroundings
from torchperf_lint.idioms.scripting import may_be_scripted
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from torchperf_lint.engine.findings import Edit
    from torchperf_lint.model import Model, Site

_TITLE = "check on the GPU, where what fails is an error of the device later"
_ASSUMES = "nothing catches the failed assertion, and it need not stop the program at once"
_HELPER = "_passes"
_TEXT = (
    f"def {_HELPER}(check):",
    '    """Whether a check holds; one on a GPU is made there, and fails as an error of the device later."""',
    "    if {torch}.is_tensor(check) and check.is_cuda:",
    "        {torch}._assert_async(check)",
    "        return True",
    "    return check",
)
_GIVES_BOOL = frozenset("isnan isinf isfinite isposinf isneginf isclose logical_and logical_or logical_not".split())


def checked_there(model: Model, site: Site) -> Fix | NoFix:
    """`assert _passes(...)`, and the function `_passes` above the file's definitions."""
    asserted = _asserted(model, site.node)
    if asserted is None:
        return NoFix.ASSERTS
    if may_be_scripted(model, model.function_of(site)):
        return NoFix.SCRIPTED
    if not model.value(site.node).is_tensor:
        return NoFix.ASSERTS  # a number that was read before: `assert mask.all().item()`
    if surroundings.may_be_caught(model, site):
        return NoFix.MAY_BE_CAUGHT
    node, is_negated = asserted
    torch, checked = model.name_of("torch", site), _checked(model, site, is_negated=is_negated)
    if torch is None or not site.tree.lossless or shape.binds_or_defers(node):
        return NoFix.NO_ROOM
    replaced = edits.replace(site.tree, node, f"{_HELPER}({checked})")
    changed = edits.together(_defined(model, torch, model.statement_of(site.node)), replaced)
    return NoFix.NO_ROOM if changed is None else Fix(_TITLE, Safety.UNSAFE, changed, _ASSUMES)


def _asserted(model: Model, node: cst.CSTNode) -> tuple[cst.BaseExpression, bool] | None:
    """What an assertion states of a tensor, one of several conditions perhaps, and whether that is `not tensor`."""
    assert isinstance(node, cst.BaseExpression)
    whole, parent, is_negated = node, model.parent(node), False
    if isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not):
        whole, parent, is_negated = parent, model.parent(parent), True
    around: cst.CSTNode = whole
    while isinstance(parent, cst.BooleanOperation) and isinstance(parent.operator, cst.And):
        around, parent = parent, model.parent(parent)
    return (whole, is_negated) if isinstance(parent, cst.Assert) and parent.test is around else None


def _checked(model: Model, site: Site, *, is_negated: bool) -> str:
    node = site.node
    assert isinstance(node, cst.BaseExpression)
    if not is_negated:
        return edits.text_of(site.tree, node)
    text = edits.postfix(site.tree, node)
    return f"~{text}" if _is_of_bools(model, node) else f"{text} == 0"


def _is_of_bools(model: Model, node: cst.BaseExpression) -> bool:
    """Whether the value, of torch or NumPy, is surely of their dtype bool, which `~` negates."""
    if not isinstance(node, cst.Call) or node.args or shape.method_name(node) not in ("any", "all"):
        return False
    inner = shape.receiver(node)
    if isinstance(inner, cst.Call):
        return shape.method_name(inner) in _GIVES_BOOL
    return isinstance(inner, cst.Comparison) and len(inner.comparisons) == 1


def _defined(model: Model, torch: str, used: ast.stmt) -> tuple[Edit, ...] | None:
    """The edit that defines the function; none where this very one stands at the top of the file."""
    text = model.source.newline.join(each.format(torch=torch) for each in _TEXT).replace("    ", model.source.indent)
    for statement in model.top.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == _HELPER:
            start = model.source.line_starts[statement.lineno - 1]
            return () if model.source.utf8[start:].decode().startswith(text) else None
    return None if model.code.names(_HELPER) else edits.together(placing.above_definitions(model, text, {torch}, used))
