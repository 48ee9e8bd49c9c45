"""`for i in range(n): f(t[i].item())`: all elements are read once before the loop."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Fix, NoFix, Safety
from torchperf_lint.idioms import effects, placing, surroundings, writes
from torchperf_lint.idioms.sync.passes import conditions_within
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import last_name, names_bound_in
from torchperf_lint.syntax import edits
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_lint.idioms.sync.reads import HostRead
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.handles import FunctionInfo

_TITLE = "read all elements at once, before the loop"
_ASSUMES = "nothing writes to the tensor while the loop runs"
_READS = frozenset("shape dtype device ndim size numel dim item backward mean sum max min".split())
"""What gives no other name to the memory of a tensor."""
_NUMBERS = frozenset({"builtins.float", "builtins.int", "builtins.bool", "builtins.len"})
_LEAVES = (ast.Continue, ast.Break, ast.Return, ast.Raise, ast.Yield, ast.YieldFrom, ast.Await)
_COUNTS = frozenset({"builtins.range", "builtins.enumerate"})


def _never(use: ast.Name) -> bool:
    return False


def read_before_loop(model: Model, read: HostRead) -> Fix | NoFix:
    """`numbers = t.flatten().tolist()` before the loop, and `numbers[i]` in it; of `t[i, j]`, before the outer loop."""
    node, function = model.ast_of(read.tensor), model.function_of(read.site)
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
        return NoFix.FORM
    tensor, indices = node.value, _indices(node)
    loop = _loop_that_counts(model, read, [each.id for each in indices])
    if loop is None:
        return NoFix.FORM
    value = model.value_in(function, tensor)
    is_tensor = value.kind is Kind.TENSOR or (value.device.on_accelerator and _is_no_list(model, function, tensor.id))
    if not is_tensor or value.mixed:
        return NoFix.SHAPE_UNKNOWN
    if tensor.id in names_bound_in(loop) or model.may_be_rebound(tensor.id) or _runs_later(function, node):
        return NoFix.VARIES
    if tensor.id in function.bound_names and not is_bound_before(model, function, tensor.id, loop):
        return NoFix.VARIES
    if is_asked_about(model, read, loop, tensor.id) or surroundings.is_spelled_out(model, read.site):
        return NoFix.VARIES
    if writes.may_write(model, function, [tensor], loop.body):
        return NoFix.MAY_BE_WRITTEN
    name = model.remember(
        ("numbers before the loop", loop, tensor.id, len(indices)),
        lambda: surroundings.new_name(model, function, f"{tensor.id}_numbers"),
    )
    flat = "" if value.vector else ".flatten()"
    if len(indices) > 1:
        flat = f".reshape({tensor.id}.shape[:{len(indices)}])"  # what follows has one element, or none is read
    number = f"{name}{''.join(f'[{each.id}]' for each in indices)}"
    changed = edits.together(
        placing.beside(model, loop, [f"{name} = {tensor.id}{flat}.tolist()"], behind=False),
        edits.replace(read.site.tree, read.site.node, number if read.reader == "item" else f"{read.reader}({number})"),
    )
    if changed is None:
        return NoFix.NO_ROOM
    is_known = value.is_tensor and _is_never_none(model, function, tensor.id)
    is_known = is_known and not surroundings.may_be_caught(model, read.site)
    kept = is_own(model, read.site, tensor.id) or (is_known and not effects.of_loop(model, function, loop).tensors)
    is_row = len(indices) == 1 or _reads_sequences(model, read, loop, value)
    return Fix(_TITLE, Safety.SAFE if kept and is_row else Safety.UNSAFE, changed, _ASSUMES)


def _reads_sequences(model: Model, read: HostRead, loop: ast.For, value: Value) -> bool:
    """Whether each pass of two loops reads a whole number of a row.

    Other rows may be as long as a vocabulary, of which the loop reads few elements. If a pass may read none, a tensor
    of more dimensions might do no harm.
    """
    if not (value.dtype or "").startswith(("int", "uint", "bool")):
        return False
    node, place = model.ast_of(read.site.node), model.place(read.site.node)
    leaves = (each for each in subtree(loop) if isinstance(each, _LEAVES))
    is_certain = isinstance(node, ast.expr) and surroundings.is_always_evaluated(model.function_of(read.site), node)
    return is_certain and not any(place.tests(loop)) and not any(leaves)


def _is_never_none(model: Model, function: FunctionInfo, name: str) -> bool:
    """Whether a name is bound to what is computed, and to no choice; a parameter has no default of None.

    A parameter that is declared as optional, or bound again, may be None too.
    """
    if name in function.parameter_names:
        given = function.defaults.get(name)
        is_none = isinstance(given, ast.Constant) and given.value is None
        return not is_none and name not in function.bound_names and not _is_optional(function, name)
    made = model.all_bindings(function, name)
    return bool(made) and all(isinstance(each, (ast.Call, ast.BinOp, ast.Subscript, ast.Compare)) for each in made)


def _is_optional(function: FunctionInfo, name: str) -> bool:
    """Whether a parameter's annotation allows None: `Tensor | None`, `Optional[Tensor]`."""
    given = function.node.args if isinstance(function.node, (ast.FunctionDef, ast.AsyncFunctionDef)) else None
    named = [] if given is None else [*given.posonlyargs, *given.args, *given.kwonlyargs]
    declared = next((each.annotation for each in named if each.arg == name), None)
    text = "" if declared is None else ast.unparse(declared)
    return "None" in text or "Optional" in text


def _indices(node: ast.Subscript) -> list[ast.Name]:
    """`i` and `j` of `t[i, j]`; none if anything else is among them."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    names = [each for each in parts if isinstance(each, ast.Name)]
    return names if len(names) == len(parts) else []


def _loop_that_counts(model: Model, read: HostRead, indices: list[str]) -> ast.For | None:
    """The outermost of the loops next around the read that count these names, each loop one of them."""
    function, left = model.function_of(read.site), set(indices)
    if len(left) != len(indices):
        return None
    for loop in model.place(read.site.node).loops():
        if not isinstance(loop, ast.For):
            return None
        counted = [each for each in left if _counts(model, function, loop, each)]
        if len(counted) != 1:
            return None
        left -= {*counted}
        if not left:
            return loop
    return None


def _is_no_list(model: Model, function: FunctionInfo, name: str) -> bool:
    """Whether the function binds the name to differences and quotients alone, which lists do not have."""
    bound = model.all_bindings(function, name)
    return bool(bound) and all(
        isinstance(each, ast.BinOp) and isinstance(each.op, (ast.Div, ast.Sub)) for each in bound
    )


def _counts(model: Model, function: FunctionInfo, loop: ast.For, index: str) -> bool:
    """Whether the loop alone binds the index, to whole numbers."""
    call = loop.iter
    if not isinstance(call, ast.Call) or model.value_in(function, call.func).ref not in _COUNTS:
        return False
    if all(isinstance(each, ast.Constant) for each in call.args):
        return False  # a few elements, perhaps of many
    target = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) else loop.target
    bound = [name for statement in loop.body for name in _bound(statement)]
    return isinstance(target, ast.Name) and target.id == index and index not in bound


def _bound(node: ast.AST) -> list[str]:
    return [each.id for each in subtree(node) if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)]


def is_own(model: Model, site: Site, name: str, only_reads: Callable[[ast.Name], bool] = _never) -> bool:
    """Whether the function makes the tensor itself, and only reads it, so that nothing else can write to it.

    `only_reads` tells of more uses that do.
    """
    function = model.function_of(site)
    if not writes.makes_afresh(model, name, site) or not _is_assigned_once(function, name):
        return False
    if surroundings.may_be_caught(model, site):
        return False  # perhaps that an element is none: `t[i].item()` of a row
    uses = [each for each in function.parents if isinstance(each, ast.Name) and each.id == name]
    loads = [each for each in uses if isinstance(each.ctx, ast.Load)]
    return all(_only_reads(model, function, each) or only_reads(each) for each in loads)


def _is_assigned_once(function: FunctionInfo, name: str) -> bool:
    """Whether one statement binds the name, and that one alone: `t = ...`, not `t = u = ...`, nor `u = (t := ...)`."""
    stores = [each for each in function.nodes if isinstance(each, ast.Name) and each.id == name]
    stores = [each for each in stores if isinstance(each.ctx, ast.Store)]
    statement = function.parents.get(stores[0]) if len(stores) == 1 else None
    return isinstance(statement, ast.Assign) and len(statement.targets) == 1


def is_bound_before(model: Model, function: FunctionInfo, name: str, loop: ast.stmt) -> bool:
    """Whether the name is certainly bound where the loop begins."""
    if name in function.parameter_names:
        return True
    for place in model.place_of(loop).outwards():
        around = place.parent
        if isinstance(around, (ast.For, ast.AsyncFor)) and place.field == "body" and name in _bound(around.target):
            return True
        if _bind(place.before, name):
            return True
    return False


def _bind(statements: list[ast.stmt], name: str) -> bool:
    """Whether statements bind a name in any case: by an assignment, or in both branches of a test."""
    return any(
        (isinstance(each, (ast.Assign, ast.AnnAssign)) and name in _bound(each))
        or (isinstance(each, ast.If) and _bind(each.body, name) and _bind(each.orelse, name))
        for each in statements
    )


def is_asked_about(model: Model, read: HostRead, loop: ast.stmt, name: str) -> bool:
    """Whether a condition in the loop, on the way to the read, is about the name: `t is not None`, `t.ndim == 2`.

    Where it only reads elements, `t[i].item() > 0`, it asks for the same as the read.
    """
    node, function = model.ast_of(read.site.node), model.function_of(read.site)
    conditions = [] if node is None else conditions_within(function, node)
    tests = [*conditions, *model.place(read.site.node).tests(loop)]
    named = (each for test in tests for each in subtree(test) if isinstance(each, ast.Name) and each.id == name)
    return not all(is_element_read(model, function, each) for each in named)


def is_element_read(model: Model, function: FunctionInfo, node: ast.AST) -> bool:
    """Whether a number is all that is taken of a tensor: `t` of `t[i, j].item()`."""
    taken = node
    while isinstance(parent := function.parents.get(taken), ast.Subscript) and parent.value is taken:
        if not are_numbers(model, function, parent.slice):
            return False
        taken = parent
    if taken is node:
        return False
    if isinstance(parent, ast.Attribute):
        called = function.parents.get(parent)
        return parent.attr == "item" and isinstance(called, ast.Call) and called.func is parent
    return isinstance(parent, ast.Call) and last_name(parent.func) in ("int", "float") and taken in parent.args


def are_numbers(model: Model, function: FunctionInfo, index: ast.expr) -> bool:
    """Whether an index takes one element: numbers of the host, or names for nobody knows what, which is read then."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    values = [(each, model.value_in(function, each)) for each in parts]
    return all(
        value.kind is Kind.NUMBER or (isinstance(each, ast.Name) and value.kind is Kind.UNKNOWN)
        for each, value in values
    )


def _runs_later(function: FunctionInfo, node: ast.expr) -> bool:
    """Whether the expression is not evaluated where it stands: in a lambda or a generator."""
    current: ast.AST | None = node
    while current is not None and not isinstance(current, ast.stmt):
        if isinstance(current, (ast.Lambda, ast.GeneratorExp)):
            return True
        current = function.parents.get(current)
    return False


def _only_reads(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """Whether nothing can write to a tensor by what is done with it here, nor by what that gives."""
    parent = function.parents.get(node)
    if isinstance(parent, ast.Subscript) and parent.value is node:  # a view, perhaps
        return isinstance(parent.ctx, ast.Load) and _only_reads(model, function, parent)
    if isinstance(parent, ast.Attribute):
        return parent.attr in _READS
    if isinstance(parent, ast.Call):
        return parent.func is not node and model.value_in(function, parent.func).ref in _NUMBERS
    if isinstance(parent, ast.UnaryOp):
        return not isinstance(parent.op, ast.UAdd)  # `+t` is `t`
    return isinstance(parent, (ast.BinOp, ast.Compare))
