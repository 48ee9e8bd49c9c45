"""Autograd graphs that outlive their step: a loss that is trained on and also stored across steps."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Because
from torchperf_lint.knowledge.containers import EMPTY
from torchperf_lint.model.handles import dotted, last_name, names_bound_in
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import HotPath, Model, Site
    from torchperf_lint.model.handles import FunctionInfo

_BACKWARD = ("backward", "manual_backward")
_KEEPS_GRAPH = frozenset(
    "mean sum clone float double half bfloat16 squeeze unsqueeze view reshape to cpu cuda flatten contiguous".split()
)
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_ENDS_AS_NUMBER = frozenset("item tolist detach".split())
_GATHERS = frozenset("stack cat sum mean max min median std as_tensor".split())
_NUMBERS = frozenset("float int len round".split())
_RETURNED_LOSS = {"training_step": "Lightning", "compute_loss": "the Trainer"}
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


class Kept(NamedTuple):
    """An expression with a graph that a running sum, a list or a meter keeps across steps.

    `site` is where `detach()` goes; `kept` is the statement's text. `ends_as_number` says that the sum or the list
    is only ever converted to numbers.
    """

    site: Site
    kept: str
    sink: str
    hot_path: HotPath
    because: tuple[Because, ...]
    ends_as_number: bool


class _Backward(NamedTuple):
    """A backward pass: the names whose graphs it frees, its place, and the loop whose every pass makes it."""

    names: dict[str, int]  # with the line where each is used in it
    statement: ast.stmt
    loop: ast.stmt | None
    says: str


def kept_graphs(model: Model) -> tuple[Kept, ...]:
    """The places where each step's graph is stored, in source order."""
    return model.remember("kept_graphs", lambda: tuple(_kept_graphs(model)))


def _kept_graphs(model: Model) -> Iterator[Kept]:
    for function in model.functions:
        for statement, sink, stored in _sinks(function):
            if not model.may_be_hot(statement) or _adds_without_recording(statement, function):
                continue
            loop = _loop_of(statement, function)
            for node, because in _carried(model, stored, statement, loop, function):
                hot_path = model.hot_path_of(statement)
                site = model.site_at(node, statement)
                if hot_path is None or site is None or _feeds_backward(model, sink, function):
                    continue
                if not all(_lives_on(sink, each, function, model) for each in {loop, hot_path.loop}):
                    continue
                text = " ".join(ast.unparse(statement).split())
                yield Kept(
                    site, text, sink, hot_path, (because, *hot_path.because), _ends_as_number(sink, statement, function)
                )


# -- where something is stored --------------------------------------------------------------------------------------


def _adds_without_recording(statement: ast.stmt, function: FunctionInfo) -> bool:
    """`total += loss` under `torch.no_grad()`: the sum has no graph. A list would still keep its entry's graph."""
    if isinstance(statement, ast.Expr):
        return False
    for around in function.place_of(statement).around():
        if isinstance(around, (ast.With, ast.AsyncWith)):
            names = [dotted(getattr(item.context_expr, "func", item.context_expr)) or "" for item in around.items]
            if any(name.rpartition(".")[2] in ("no_grad", "inference_mode") for name in names):
                return True
    return False


def _sinks(function: FunctionInfo) -> Iterator[tuple[ast.stmt, str, ast.expr]]:
    """Statements that add to something: the statement, the path of what grows, and what is added."""
    for node in function.statements:
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            path = _path(node.target)
            if path is not None:
                yield node, path, node.value
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.BinOp):
            path = _path(node.targets[0])
            sides = (node.value.left, node.value.right)
            if path is not None and isinstance(node.value.op, ast.Add) and any(_path(side) == path for side in sides):
                yield node, path, sides[_path(sides[0]) == path]
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            call = node.value
            if isinstance(call.func, ast.Attribute) and call.func.attr == "append" and len(call.args) == 1:
                path = _path(call.func.value)
                if path is not None:
                    yield node, path, call.args[0]


def _path(node: ast.expr) -> str | None:
    """`total`, `self.total`, and `totals` of `totals["loss"]`."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return dotted(node)


def _lives_on(sink: str, loop: ast.stmt | None, function: FunctionInfo, model: Model) -> bool:
    """Whether the growing object exists before the loop, is never emptied in it, and is unbounded."""
    if loop is None:
        if not sink.startswith(f"{function.self_name}."):
            return False
        around: ast.AST = function.node
    else:
        around = loop
    if isinstance(around, (ast.For, ast.AsyncFor)) and sink in names_bound_in(around) - _grown(around):
        return False
    for node in subtree(around):
        if isinstance(node, ast.Assign) and any(dotted(target) == sink for target in node.targets):
            if not any(
                dotted(side) == sink for side in subtree(node.value) if isinstance(side, (ast.Name, ast.Attribute))
            ):
                return False
        elif _empties(node, sink):
            return False
    made = model.bindings(function, sink)
    return not any(keyword.arg == "maxlen" for each in made if isinstance(each, ast.Call) for keyword in each.keywords)


def _empties(node: ast.AST, sink: str) -> bool:
    """`losses.clear()`, `del losses[:]`."""
    if isinstance(node, ast.Delete):
        return any(_path(target) == sink for target in node.targets)
    func = node.func if isinstance(node, ast.Call) else None
    return isinstance(func, ast.Attribute) and func.attr in {*EMPTY, "reset"} and _path(func.value) == sink


def _grown(loop: ast.stmt) -> set[str]:
    """The names that the loop binds by plain statements, not as targets of `for` or `with`."""
    assigned = [node for node in subtree(loop) if isinstance(node, (ast.Assign, ast.AugAssign))]
    targets = [
        target for node in assigned for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    return {path for path in map(dotted, targets) if path is not None}


def _feeds_backward(model: Model, sink: str, function: FunctionInfo) -> bool:
    """Whether backward runs on the growing object, or on something computed from it."""
    for backward in _backwards(model, function):
        if sink in backward.names:
            return True
        for node in function.statements:
            if isinstance(node, (ast.Assign, ast.AugAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = {path for path in map(dotted, targets) if path is not None}
                used = {dotted(each) for each in subtree(node.value) if isinstance(each, (ast.Name, ast.Attribute))}
                if names & set(backward.names) and sink in used:
                    return True
    return False


# -- what carries a graph -------------------------------------------------------------------------------------------


def _carried(
    model: Model, stored: ast.expr, statement: ast.stmt, loop: ast.stmt | None, function: FunctionInfo
) -> Iterator[tuple[ast.Name | ast.Call, Because]]:
    """The parts of the stored value with a graph that a backward pass of the same step frees."""
    for node in _leaves(stored):
        if isinstance(node, ast.Name):
            shown = _freed(model, node.id, statement, loop, function)
            shown = shown or _given_by_step(model, node, statement, loop, function)
        else:
            shown = _returns_loss(model, node, function)
        if shown is not None:
            yield node, shown


def _leaves(node: ast.expr) -> Iterator[ast.Name | ast.Call]:
    """The names and calls that an expression combines by arithmetic and by methods that keep the graph."""
    if isinstance(node, ast.Name):
        yield node
    elif isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC):
        yield from _leaves(node.left)
        yield from _leaves(node.right)
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in _KEEPS_GRAPH:
            yield from _leaves(node.func.value)
        else:
            yield node


def _freed(
    model: Model, name: str, statement: ast.stmt, loop: ast.stmt | None, function: FunctionInfo
) -> Because | None:
    """The backward pass that always goes through the name's value at the statement."""
    for backward in _backwards(model, function):
        row = backward.names.get(name)
        if row is None or backward.loop is not loop:
            continue
        same = _binding(name, row, loop, function) == _binding(name, statement.lineno, loop, function) is not None
        if same and _guards(backward.statement, loop, function) <= _guards(statement, loop, function):
            return Because(backward.statement.lineno, backward.says, function.path)
    return None


def _binding(name: str, row: int, loop: ast.stmt | None, function: FunctionInfo) -> int | None:
    """The line that binds the name's value at `row`, traced through `x = x / n`; None if outside the loop."""
    around: ast.AST = function.node if loop is None else loop
    stores = sorted(
        (statement.lineno, _is_made_of_itself(name, statement))
        for statement in subtree(around)
        if isinstance(statement, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and statement.lineno < row
        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
        if any(isinstance(part, ast.Name) and part.id == name for part in subtree(target))
    )
    while stores and stores[-1][1]:
        stores.pop()
    return stores[-1][0] if stores else None


def _is_made_of_itself(name: str, statement: ast.Assign | ast.AugAssign | ast.AnnAssign) -> bool:
    if isinstance(statement, ast.AugAssign):
        return True
    leaves = [] if statement.value is None else _leaves(statement.value)
    return any(isinstance(leaf, ast.Name) and leaf.id == name for leaf in leaves)


def _given_by_step(
    model: Model, name: ast.Name, statement: ast.stmt, loop: ast.stmt | None, function: FunctionInfo
) -> Because | None:
    """`loss = train_step(batch)`, where `train_step` calls backward on what it returns."""
    row = _binding(name.id, statement.lineno, loop, function)
    made = [each for each in model.bindings(function, name.id) if each.lineno == row]
    return _returns_loss(model, made[0], function) if len(made) == 1 and isinstance(made[0], ast.Call) else None


def _returns_loss(model: Model, call: ast.Call, function: FunctionInfo) -> Because | None:
    """Evidence that a function of the project returns a tensor after calling backward on it."""
    callee = model.value_in(function, call.func).function
    if callee is None or callee.decorators or callee.is_generator:
        return None
    returns = [node for node in callee.statements if isinstance(node, ast.Return)]
    if len(returns) != 1 or not isinstance(returns[0].value, ast.Name):
        return None
    return _freed(model, returns[0].value.id, returns[0], None, callee) if _backwards(model, callee) else None


# -- backward passes ------------------------------------------------------------------------------------------------


def _backwards(model: Model, function: FunctionInfo) -> tuple[_Backward, ...]:
    return model.remember(("backward passes", function), lambda: tuple(_find_backwards(model, function)))


def _find_backwards(model: Model, function: FunctionInfo) -> Iterator[_Backward]:
    for record in function.calls_made:
        call = record.call
        if last_name(call.func) not in _BACKWARD or not isinstance(call.func, ast.Attribute):
            continue
        if any(keyword.arg in ("retain_graph", "create_graph", None) for keyword in call.keywords):
            return
        sent = call.args[0] if call.args else call.func.value
        if isinstance(sent, ast.Call) and last_name(sent.func) == "scale" and sent.args:
            sent = sent.args[0]
        loop = _loop_of(record.statement, function)
        says = f"`{ast.unparse(call)}` goes through this graph and is done with it"
        yield _Backward(_made_of(sent, record.statement, loop, function), record.statement, loop, says)
    by_hand = model.home(function).calls_named("manual_backward")
    if function.name in _RETURNED_LOSS and function.cls is not None and not by_hand:
        for node in function.statements:
            if isinstance(node, ast.Return) and isinstance(node.value, ast.Name):
                says = f"{_RETURNED_LOSS[function.name]} goes backward through what `{function.name}` returns"
                yield _Backward(_made_of(node.value, node, None, function), node, None, says)


def _made_of(sent: ast.expr, statement: ast.stmt, loop: ast.stmt | None, function: FunctionInfo) -> dict[str, int]:
    """The names in the argument of backward, and those that they were summed from in the same pass."""
    names: dict[str, int] = {}
    pending = [(sent, statement)]
    while pending:
        node, user = pending.pop()
        for leaf in _leaves(node):
            if not isinstance(leaf, ast.Name) or leaf.id in names:
                continue
            names[leaf.id] = user.lineno
            row = _binding(leaf.id, user.lineno, loop, function)
            pending += [
                (each.value, each)
                for each in subtree(function.node if loop is None else loop)
                if isinstance(each, ast.Assign)
                and each.lineno == row
                and len(each.targets) == 1
                and _guards(each, loop, function) <= _guards(statement, loop, function)
            ]
    return names


def _loop_of(statement: ast.stmt, function: FunctionInfo) -> ast.stmt | None:
    return next(iter(function.place_of(statement).loops()), None)


def _guards(statement: ast.stmt, loop: ast.stmt | None, function: FunctionInfo) -> frozenset[tuple[int, str]]:
    """The branches inside the loop around a statement."""
    found = set()
    for place in function.place_of(statement).outwards():
        if place.parent is None or place.parent is loop:
            break
        if not isinstance(place.parent, (ast.With, ast.AsyncWith)) and place.field != "finalbody":
            found.add((id(place.parent), place.field))
    return frozenset(found)


# -- how it is used -------------------------------------------------------------------------------------------------


def _ends_as_number(sink: str, statement: ast.stmt, function: FunctionInfo) -> bool:
    """Whether the function converts the sum or the list to numbers at every use, and no other code sees it."""
    if not sink.isidentifier() or sink in function.parameter_names or function.is_module:
        return False
    parents = function.parents
    for node in function.nodes:
        if isinstance(node, (ast.Global, ast.Nonlocal)) and sink in node.names:
            return False
        if isinstance(node, ast.Assign) and _may_have_another_name(sink, node):
            return False
        is_read = isinstance(node, ast.Name) and node.id == sink and isinstance(node.ctx, ast.Load)
        if is_read and not _is_within(node, statement, parents) and not _becomes_number(node, parents):
            return False
    return True


def _may_have_another_name(sink: str, bound: ast.Assign) -> bool:
    """`total = sums[0]`, `history = losses = []`: in-place additions are visible under the other name, too."""
    if not any(isinstance(target, ast.Name) and target.id == sink for target in bound.targets):
        return False
    if isinstance(bound.value, (ast.Name, ast.Attribute, ast.Subscript)):
        return True
    return len(bound.targets) > 1 and not isinstance(bound.value, ast.Constant)


def _is_within(node: ast.AST, statement: ast.stmt, parents: dict[ast.AST, ast.AST]) -> bool:
    while node in parents and not isinstance(node, ast.stmt):
        node = parents[node]
    return node is statement


def _becomes_number(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    while True:
        around = parents[node]
        if isinstance(around, ast.Attribute) and isinstance(parents[around], ast.Call):
            if around.attr in _ENDS_AS_NUMBER:
                return True
            if around.attr not in _KEEPS_GRAPH | _GATHERS:
                return False
            around = parents[around]
        elif isinstance(around, ast.Call) and node is not around.func:
            name = last_name(around.func)
            if isinstance(around.func, ast.Name) and name in _NUMBERS:
                return True
            if name not in _GATHERS:
                return False
        elif isinstance(around, ast.FormattedValue):
            return around.format_spec is not None
        elif not (isinstance(around, ast.BinOp) and isinstance(around.op, _ARITHMETIC)):
            return False
        node = around
