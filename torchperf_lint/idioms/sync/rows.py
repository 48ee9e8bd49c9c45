"""`for p in preds: f(p.tolist())`: rows of a device tensor that are copied one by one, where one copy takes all."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Fix, NoFix, Safety
from torchperf_lint.idioms import placing, surroundings
from torchperf_lint.idioms.scripting import judged
from torchperf_lint.idioms.sync.element_loops import is_bound_before
from torchperf_lint.idioms.sync.walks import (
    around,
    is_left_alone,
    is_never_written,
    loads_in,
    walk_instead,
    walk_that_binds,
    walked,
)
from torchperf_lint.knowledge.torch_api import DTYPE_METHODS, VIEW_METHODS
from torchperf_lint.model.domain.frequency import LoopKind
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import last_name
from torchperf_lint.syntax import edits
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.engine.findings import Edit
    from torchperf_lint.model import Model, Site, Value
    from torchperf_lint.model.handles import FunctionInfo
    from torchperf_lint.syntax import cst

_TITLE = "copy all rows at once, before the loop"
_ASSUMES = "nothing writes to `{name}` while the loop runs"
_ASSUMES_SHARED = f"{_ASSUMES}, and rows may be parts of one tensor in memory, and of one graph"
_ASSUMES_ARRAYS = "`{name}` has more than one dimension, and nothing writes to it while the loop runs"
_COPIES = frozenset({"cpu", "numpy", "tolist"})
_PAIRS = ("zip", "enumerate")
_COUNTS = ("range", "enumerate")
_REPEAT = (ast.For, ast.AsyncFor, ast.While)
_OF_ROWS = VIEW_METHODS | {*DTYPE_METHODS, "detach", "clone", "contiguous"}


class Rows(NamedTuple):
    """A row that a walk copies, the tensor that has it, and the statement before which all can be copied.

    The statement comes with what repeats: the statement itself, or a display in it.
    """

    row: ast.Name | ast.Subscript
    tensor: ast.expr
    before: tuple[ast.stmt, ast.AST]


def rows_copied(model: Model, site: Site, copied: cst.BaseExpression) -> Rows | None:
    """The rows of which a copy to the host takes one in each pass of a loop within the step."""
    function, node = model.function_of(site), model.ast_of(copied)
    row = None if node is None else _row(model, function, node)
    if row is None:
        return None
    counter = row.slice if isinstance(row, ast.Subscript) else row
    walk = walk_that_binds(function, row, counter.id) if isinstance(counter, ast.Name) else None
    if walk is None or not isinstance(counter, ast.Name):
        return None
    if isinstance(walk, ast.For) and model.loop_info(walk).kind is not LoopKind.OTHER:
        return None
    tensor = row.value if isinstance(row, ast.Subscript) else walked(model, walk.target, walk.iter, counter.id)
    before = around(function, walk)
    if tensor is None or before is None or not _has_rows(model.value_in(function, tensor)):
        return None
    return Rows(row, tensor, before) if is_left_alone(model, function, tensor, before) else None


def _has_rows(value: Value) -> bool:
    """Whether it is a tensor, or a part of a batch that was moved; what a model gives may be a list of tensors."""
    return value.kind is Kind.TENSOR or (value.origin is not None and surroundings.may_be_tensor(value))


def _row(model: Model, function: FunctionInfo, node: ast.expr) -> ast.Name | ast.Subscript | None:
    """`p` of `p[:n].long()`, `preds[i]` of `preds[i].detach()`: what a loop takes, beneath views and casts."""
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Subscript):
            counts = isinstance(node.slice, ast.Name) and model.value_in(function, node.slice).kind is Kind.NUMBER
            if counts and isinstance(node.value, (ast.Name, ast.Attribute)):
                return node
            parts = [each for each in subtree(node.slice) if isinstance(each, ast.expr)]
            if any(model.value_in(function, each).holds_tensors for each in parts):
                return None
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _OF_ROWS:
            node = node.func.value
        else:
            return None
    return node


def is_walked(model: Model, site: Site) -> bool:
    """Whether a loop walks what a copy gives: `for row in x.tolist()`, perhaps beside others."""
    whole, parent = _outermost(model, site)
    return isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is whole


def serves_rows(model: Model, site: Site) -> bool:
    """Whether a copy gets a name that loops do nothing with but take its rows: `numbers[i]`."""
    function, (whole, parent) = model.function_of(site), _outermost(model, site)
    target = parent.targets[0] if isinstance(parent, ast.Assign) and parent.value is whole else None
    if not isinstance(target, ast.Name) or function.bound_names.count(target.id) != 1:
        return False
    loads = [each for each in function.nodes if isinstance(each, ast.Name) and each.id == target.id]
    taken = [function.parents.get(each) for each in loads if isinstance(each.ctx, ast.Load)]
    counters = [each.slice for each in taken if isinstance(each, ast.Subscript) and isinstance(each.slice, ast.Name)]
    is_taken_alone = bool(taken) and len(counters) == len(taken)
    return is_taken_alone and all(walk_that_binds(function, each, each.id) is not None for each in counters)


def _outermost(model: Model, site: Site) -> tuple[ast.AST | None, ast.AST | None]:
    """The methods called on a site, or the pairing of the result, as a whole; and what this is a part of."""
    parents = model.function_of(site).parents
    whole: ast.AST | None = model.ast_of(site.node)
    parent = None if whole is None else parents.get(whole)
    while isinstance(parent, ast.Attribute) or (isinstance(parent, ast.Call) and _passes_on(parent, whole)):
        whole, parent = parent, parents.get(parent)
    return whole, parent


def _passes_on(call: ast.Call, node: ast.AST | None) -> bool:
    """Whether a call is a method of the expression, or pairs it up for a loop."""
    return call.func is node or last_name(call.func) in _PAIRS


def copied_at_once(model: Model, site: Site, rows: Rows) -> Fix | NoFix:
    """`for p in preds.tolist()` in the place of `p.tolist()`, or a copy before the loop that counts."""
    function = model.function_of(site)
    chain, _ = _chain(function, rows.row)
    value, name = model.value_in(function, rows.tensor), ast.unparse(rows.tensor)
    if not _COPIES.intersection(chain):
        return NoFix.FORM
    if not _is_local(function, rows.tensor) or not _once_in_each_pass(function, rows):
        return NoFix.VARIES
    if "numpy" in chain and value.vector:
        return NoFix.SHAPE_UNKNOWN  # an array's elements are numbers, a tensor's are arrays
    by_item = isinstance(rows.row, ast.Name)
    changed = _by_item(model, function, rows, chain) if by_item else _by_count(model, function, rows, chain)
    if isinstance(changed, NoFix):
        return changed
    is_kept = is_never_written(model, site, rows.tensor, rows.before, lambda use: _is_only_copied(model, function, use))
    is_safe = is_kept and value.is_tensor and chain[-1] == "tolist"
    safety = Safety.SAFE if is_safe else Safety.UNSAFE
    assumes = _ASSUMES if chain[-1] == "tolist" else _ASSUMES_ARRAYS if "numpy" in chain else _ASSUMES_SHARED
    assumes = assumes.format(name=name)
    return judged(model, function, Fix(_TITLE, safety, changed, assumes))


def _is_local(function: FunctionInfo, tensor: ast.expr) -> bool:
    """Whether no call in the loop can bind the tensor's name to another one."""
    if not isinstance(tensor, ast.Name) or function.is_module:
        return False
    declared = (each for each in function.nodes if isinstance(each, (ast.Global, ast.Nonlocal)))
    is_own = tensor.id in function.bound_names or tensor.id in function.parameter_names
    return is_own and not any(tensor.id in each.names for each in declared)


def _once_in_each_pass(function: FunctionInfo, rows: Rows) -> bool:
    """Whether each pass of the walk copies one row of its own, once: two copies of a row are not one object."""
    counter = rows.row.slice if isinstance(rows.row, ast.Subscript) else rows.row
    loads = loads_in(function, counter, rows.before[1]) if isinstance(counter, ast.Name) else None
    if loads is None or not isinstance(counter, ast.Name):
        return False
    walk = walk_that_binds(function, rows.row, counter.id)
    if isinstance(walk, ast.comprehension) and len(getattr(rows.before[1], "generators", ())) != 1:
        return False
    above: ast.AST | None = rows.row
    while above is not walk and above is not rows.before[1]:
        above = function.parents.get(above) if above is not None else None
        if above is None or (isinstance(above, _REPEAT) and above is not walk):
            return False
    if isinstance(rows.row, ast.Name):
        return len(loads) == 1
    is_counted = walk is not None and isinstance(walk.iter, ast.Call) and last_name(walk.iter.func) in _COUNTS
    whole = ast.dump(rows.row)
    same = (each for each in subtree(rows.before[1]) if isinstance(each, ast.Subscript) and ast.dump(each) == whole)
    return is_counted and len(list(same)) == 1


def _is_only_copied(model: Model, function: FunctionInfo, use: ast.Name) -> bool:
    """Whether a use of a tensor takes rows alone, of which each is copied: `scores[i].tolist()`, `zip(scores, y)`."""
    parent = function.parents.get(use)
    if isinstance(parent, ast.Subscript):
        return isinstance(parent.ctx, ast.Load) and not _COPIES.isdisjoint(_chain(function, parent)[0])
    walk = parent
    while isinstance(walk, ast.Call) and last_name(walk.func) in _PAIRS:
        walk = function.parents.get(walk)
    if not isinstance(walk, (ast.For, ast.comprehension)):
        return False
    names = [each for each in subtree(walk.target) if isinstance(each, ast.Name)]
    name = next((each for each in names if walked(model, walk.target, walk.iter, each.id) is use), None)
    repeated = None if name is None else around(function, walk)
    loads = None if name is None or repeated is None else loads_in(function, name, repeated[1])
    return loads is not None and all(not _COPIES.isdisjoint(_chain(function, each)[0]) for each in loads)


def _by_item(model: Model, function: FunctionInfo, rows: Rows, chain: tuple[str, ...]) -> tuple[Edit, ...] | NoFix:
    assert isinstance(rows.row, ast.Name)
    loads = loads_in(function, rows.row, rows.before[1])
    copies = [_chain(function, each) for each in loads or ()]
    if not copies or any(each != chain for each, _ in copies):
        return NoFix.USED_OTHERWISE
    wholes = [whole for _, whole in copies]
    changed = walk_instead(model, (rows.tensor, rows.before[0]), _called(chain), wholes, rows.row.id)
    return NoFix.NO_ROOM if changed is None else changed


def _by_count(model: Model, function: FunctionInfo, rows: Rows, chain: tuple[str, ...]) -> tuple[Edit, ...] | NoFix:
    assert isinstance(rows.row, ast.Subscript)
    statement, tensor = rows.before[0], ast.unparse(rows.tensor)
    _, whole = _chain(function, rows.row)
    at = model.site_at(whole, surroundings.statement_around(function, whole))
    if at is None or surroundings.is_spelled_out(model, at):
        return NoFix.NO_ROOM
    if not all(map(model.keeps_builtin, _COUNTS)) or not is_bound_before(model, function, tensor, statement):
        return NoFix.VARIES
    name = model.remember(
        ("rows before the loop", statement, tensor, chain),
        lambda: surroundings.new_name(model, function, f"{last_name(rows.tensor)}_on_host"),
    )
    changed = edits.together(
        placing.beside(model, statement, [f"{name} = {tensor}{_called(chain)}"], behind=False),
        edits.replace(at.tree, at.node, f"{name}[{ast.unparse(rows.row.slice)}]"),
    )
    return NoFix.NO_ROOM if changed is None else changed


def _chain(function: FunctionInfo, row: ast.expr) -> tuple[tuple[str, ...], ast.expr]:
    """The copying methods that are called on a row directly, and the whole of these calls."""
    names, whole = [], row
    while isinstance(attribute := function.parents.get(whole), ast.Attribute):
        call = function.parents.get(attribute)
        plain = isinstance(call, ast.Call) and call.func is attribute and not call.args and not call.keywords
        if not plain or attribute.attr not in (*_COPIES, "detach") or not isinstance(call, ast.Call):
            break
        names.append(attribute.attr)
        whole = call
    return tuple(names), whole


def _called(chain: tuple[str, ...]) -> str:
    return "".join(f".{each}()" for each in chain)
