"""`assert not torch.isnan(x).any()` in every step, or `if ...: raise`: the GPU can check by itself, and fail later."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING, NamedTuple, cast

from torchperf_lint.engine.findings import Fix, NoFix, Safety
from torchperf_lint.idioms import surroundings, writes
from torchperf_lint.idioms.scripting import judged_at
from torchperf_lint.idioms.written_helpers import Helper, defined
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import last_name
from torchperf_lint.syntax import cst, edits, shape
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import FunctionInfo

_TITLE = "check on the GPU, where what fails is an error of the device later"
_ASSUMES = "nothing catches the failed assertion, and it need not stop the program at once"
_HELPER = Helper(
    "_passes",
    (
        "def _passes(check):",
        '    """Whether a check holds; one on a GPU is made there, and fails as an error of the device later."""',
        "    if {torch}.is_tensor(check) and check.is_cuda:",
        "        {torch}._assert_async(check)",
        "        return True",
        "    return check",
    ),
)
STEERS = ("Stop", "Skip", "Retry", "Early", "Exit", "Interrupt", "Break", "Prune", "Continue", "Done", "Finish")
"""Words in the names of exceptions that a program raises to go on elsewhere."""
_ALL = frozenset({"Exception", "BaseException"})
_BUILTINS = frozenset(
    f"builtins.{name}" for name in "str repr format len int float bool abs round min max sum tuple list type".split()
)
_TEXT_METHODS = frozenset("format join item tolist size numel dim".split())
_GIVES_BOOL = frozenset("isnan isinf isfinite isposinf isneginf isclose logical_and logical_or logical_not".split())


def checked_there(model: Model, site: Site) -> Fix | NoFix:
    """`assert _passes(...)`, and the function `_passes` above the file's definitions."""
    stated = _asserted(model, site.node)
    if stated is None:
        return NoFix.ASSERTS
    if is_caught(model, model.function_of(site), AssertionError.__name__):
        return NoFix.MAY_BE_CAUGHT
    return _by_helper(model, site, stated, NoFix.ASSERTS)


def raised_there(model: Model, site: Site) -> Fix | NoFix:
    """`if not _passes(...): raise ...` for `if tensor: raise ...`, and the function `_passes`."""
    stated = _refused(model, site)
    if stated is None:
        return NoFix.DECIDES_A_BRANCH
    return _by_helper(model, site, stated, NoFix.DECIDES_A_BRANCH)


class _Stated(NamedTuple):
    """A part of a statement, the tensor that it asks, and what has to hold of this: true, or false if `is_negated`."""

    node: cst.BaseExpression
    tensor: cst.BaseExpression
    is_negated: bool
    text: str  # what takes the place of the part, around the helper's call


def _by_helper(model: Model, site: Site, stated: _Stated, otherwise: NoFix) -> Fix | NoFix:
    if not model.value(stated.tensor).is_tensor:
        return otherwise  # a number that was read before: `assert mask.all().item()`
    if surroundings.may_be_caught(model, site):
        return NoFix.MAY_BE_CAUGHT
    torch, checked = model.name_of("torch", site), _checked(model, site, stated)
    if torch is None or not site.tree.lossless or shape.binds_or_defers(stated.node):
        return NoFix.NO_ROOM
    replaced = edits.replace(site.tree, stated.node, stated.text.format(call=f"{_HELPER.name}({checked})"))
    changed = edits.together(defined(model, _HELPER, torch, model.statement_of(site.node)), replaced)
    fix = NoFix.NO_ROOM if changed is None else Fix(_TITLE, Safety.UNSAFE, changed, _ASSUMES)
    return judged_at(model, site, fix)


def _asserted(model: Model, node: cst.CSTNode) -> _Stated | None:
    """What an assertion states of a tensor, one of several conditions perhaps."""
    assert isinstance(node, cst.BaseExpression)
    whole, is_negated = _with_not(model, node)
    around, parent = whole, model.parent(whole)
    while isinstance(parent, cst.BooleanOperation) and isinstance(parent.operator, cst.And):
        around, parent = parent, model.parent(parent)
    if not isinstance(parent, cst.Assert) or parent.test is not around:
        return None
    return _Stated(whole, node, is_negated, "{call}")


def _refused(model: Model, site: Site) -> _Stated | None:
    """The test of a tensor in `if ...: raise ...`, if the tensor alone decides it once it is asked."""
    node, statement = site.node, model.statement_of(site.node)
    assert isinstance(node, cst.BaseExpression)
    if not isinstance(statement, ast.If) or not _only_raises(model, site, statement):
        return None
    whole, is_negated = _with_not(model, node)
    refused = _refused_by(model, whole)
    if refused is None or (isinstance(node, cst.Comparison) and len(node.comparisons) != 1):
        return None
    return _Stated(whole, _tensor(model, node), is_negated is not refused, "not {call}" if refused else "{call}")


def _refused_by(model: Model, node: cst.BaseExpression) -> bool | None:
    """The truth of a part of an `if` with which the test holds as soon as the part is asked; None if others decide."""
    inwards: list[tuple[cst.BooleanOperation | cst.UnaryOperation, cst.CSTNode]] = []
    around: cst.CSTNode = node
    parent = model.parent(node)
    while isinstance(parent, (cst.BooleanOperation, cst.UnaryOperation)):
        inwards.insert(0, (parent, around))
        around, parent = parent, model.parent(parent)
    if not isinstance(parent, cst.If) or parent.test is not around:
        return None
    truth = True
    for outer, inner in inwards:
        if isinstance(outer, cst.UnaryOperation):
            if not isinstance(outer.operator, cst.Not):
                return None
            truth = not truth
        elif outer.left is inner and isinstance(outer.operator, cst.Or) is not truth:
            return None  # what follows may decide otherwise
    return truth


def _with_not(model: Model, node: cst.BaseExpression) -> tuple[cst.BaseExpression, bool]:
    parent = model.parent(node)
    if isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not):
        return parent, True
    return node, False


def _tensor(model: Model, node: cst.BaseExpression) -> cst.BaseExpression:
    """`x` of `bool(x)` and of `x.item()`."""
    if not isinstance(node, cst.Call):
        return node
    if shape.method_name(node) == "item" and not node.args:
        return shape.receiver(node) or node
    converts = model.value(node.func).ref == "builtins.bool" and len(node.args) == 1
    return node.args[0].value if converts and not node.args[0].star else node


def _only_raises(model: Model, site: Site, statement: ast.If) -> bool:
    """Whether all that the branch does is to raise an exception, which nothing in the file catches."""
    *before, last = statement.body
    function = model.function_of(site)
    if not isinstance(last, ast.Raise) or last.exc is None:
        return False
    for each in before:
        if not isinstance(each, ast.Assign) or not all(isinstance(target, ast.Name) for target in each.targets):
            return False
        if not _only_computes(model, function, each.value):
            return False
    given = last.exc
    raised = last_name(given.func if isinstance(given, ast.Call) else given) or ""
    told = [*given.args, *(each.value for each in given.keywords)] if isinstance(given, ast.Call) else []
    if not raised or any(word in raised for word in STEERS):
        return False
    return all(_only_computes(model, function, each) for each in told) and not is_caught(model, function, raised)


def _only_computes(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """Whether an expression has no effect: it calls nothing but what makes texts and numbers of its parts."""
    return all(_has_no_effect(model, function, each) for each in subtree(node))


def _has_no_effect(model: Model, function: FunctionInfo, node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return not isinstance(node, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr))
    called = model.value_in(function, node.func)
    if called.kind is Kind.LIBRARY:
        ref = called.ref or ""
        return ref in _BUILTINS or writes.only_computes(ref, node)
    if not isinstance(node.func, ast.Attribute) or called.function is not None:
        return False
    of_tensor = called.kind is Kind.METHOD and called.element is not None and called.element.holds_tensors
    return node.func.attr in _TEXT_METHODS or (of_tensor and not node.func.attr.endswith("_"))


def is_caught(model: Model, function: FunctionInfo, raised: str) -> bool:
    """Whether a handler of the file names the exception or a base, or takes all that calls of the function raise."""
    named = _with_bases(model, raised)
    callers: set[str] | None = None
    for each in model.statements:
        if type(each).__name__ not in ("Try", "TryStar"):
            continue
        tried = cast("ast.Try", each)  # Python 3.10 has no `ast.TryStar`
        caught = [_names_caught(handler) for handler in tried.handlers]
        if any(not names.isdisjoint(named - _ALL) for names in caught):
            return True
        if any(not names or not names.isdisjoint(_ALL) for names in caught):
            callers = _leading_to(model, function) if callers is None else callers
            calls = (part for one in tried.body for part in subtree(one) if isinstance(part, ast.Call))
            if any(last_name(part.func) in callers for part in calls):
                return True
    return False


def _leading_to(model: Model, function: FunctionInfo) -> set[str]:
    """The name of the function, and those of the file's functions that call it, perhaps through others."""
    found, pending = {function.name}, [function.name]
    for name in pending:
        new = {record.function.name for record in model.calls_named(name)} - found
        found |= new
        pending += sorted(new)
    return found


def _with_bases(model: Model, raised: str) -> set[str]:
    """The name of an exception, and those of its bases: Python's, and what classes of the file name."""
    found, pending = {raised}, [raised]
    for name in pending:
        known = getattr(builtins, name, None)
        bases = {each.__name__ for each in known.__mro__} if isinstance(known, type) else set[str]()
        for cls in model.classes:
            if cls.name == name:
                bases |= {base for node in cls.head.bases if (base := last_name(node))}
        pending += sorted(bases - found)
        found |= bases
    return found


def _names_caught(handler: ast.ExceptHandler) -> set[str]:
    """The names of what a handler catches; none for a bare one."""
    parts = [] if handler.type is None else subtree(handler.type)
    return {each for part in parts if isinstance(part, ast.expr) and (each := last_name(part))}


def _checked(model: Model, site: Site, stated: _Stated) -> str:
    node = stated.tensor
    if not stated.is_negated:
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
