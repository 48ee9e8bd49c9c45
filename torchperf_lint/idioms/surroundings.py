"""The surroundings of a site: its loops, what they bind and iterate over, and what may catch an exception."""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.idioms import writes
from torchperf_lint.model.domain.frequency import LoopKind
from torchperf_lint.model.domain.values import WHOLE_BATCH, Kind
from torchperf_lint.model.handles import last_name, names_bound_in, names_in
from torchperf_lint.syntax import cst
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model import HotPath, Model, Site, Value
    from torchperf_lint.model.handles import ClassInfo, FunctionInfo, NameUses

_GIVE_ITEMS = frozenset({"zip", "enumerate", "reversed"})
_RECKONS = frozenset({"min", "max", "int", "round", "abs"})


class Walk(NamedTuple):
    """A `for` loop: the names it binds, the text of its iterable, and whether the iterable holds device tensors."""

    targets: set[str]
    iterated: str
    over_tensors: bool


def inner_walks(model: Model, site: Site) -> list[Walk]:
    """The `for` loops around the site inside its batch loop, innermost first."""
    function = model.function_of(site)
    found: list[Walk] = []
    for loop in model.place(site.node).loops():
        if model.loop_info(loop).kind is not LoopKind.OTHER:
            break
        if isinstance(loop, (ast.For, ast.AsyncFor)):
            targets = {node.id for node in subtree(loop.target) if isinstance(node, ast.Name)}
            is_display = isinstance(loop.iter, (ast.Tuple, ast.List, ast.Set))
            nodes = [] if is_display else subtree(loop.iter)
            parts = [node for node in nodes if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript))]
            values = [model.value_in(function, part) for part in parts]
            is_made = isinstance(loop.iter, ast.Call) and last_name(loop.iter.func) not in _GIVE_ITEMS
            walked = [value for value in values if value.kind is Kind.TENSOR or not is_made]
            tensors = any(may_be_tensor(value) and value.device.on_accelerator for value in walked)
            found.append(Walk(targets, ast.unparse(loop.iter), tensors))
    return found


def may_be_tensor(value: Value) -> bool:
    """Whether it is a tensor, or a part of a batch that may be one."""
    return value.kind is Kind.TENSOR or (value.kind is Kind.PYTREE and value.ref != WHOLE_BATCH)


def statement_around(function: FunctionInfo, node: ast.AST) -> ast.stmt:
    """The statement of a function that an expression is a part of."""
    while not isinstance(node, ast.stmt):
        node = function.parents[node]
    return node


def step_counter(model: Model, site: Site) -> str | None:
    """The name that counts the passes of the batch loop around the site (`for i, batch in enumerate(...)`)."""
    hot_path = model.hot_path(site)
    loop = hot_path.loop if hot_path is not None else None
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Tuple) or not isinstance(loop.iter, ast.Call):
        return None
    counter = loop.target.elts[0]
    counted = any(isinstance(node, ast.Call) and last_name(node.func) == "enumerate" for node in subtree(loop.iter))
    return counter.id if counted and isinstance(counter, ast.Name) else None


def names_of_loop(model: Model, hot_path: HotPath) -> set[str]:
    """The names and paths (`self.x`) that the hot loop binds, its targets included."""
    loop = hot_path.loop
    if loop is None:
        return set()
    return model.remember(("names of loop", loop), lambda: names_bound_in(loop) | writes.paths_bound_in(loop))


def binds_on_way(model: Model, hot_path: HotPath, path: str) -> bool:
    """Whether the hot loop binds the path or a prefix of it: `self.x` of `self.x.y`."""
    parts, bound = path.split("."), names_of_loop(model, hot_path)
    return any(".".join(parts[: end + 1]) in bound for end in range(len(parts)))


def always_in_loop(model: Model, site: Site, hot_path: HotPath) -> bool:
    """Whether the site's statement is directly in the body of the hot loop."""
    place = model.place(site.node)
    return hot_path.loop is not None and place.parent is hot_path.loop and place.field == "body"


def holds_whole_training(model: Model, site: Site) -> bool:
    """Whether the object made at the site is active while a training loop runs to its end.

    Either in a `with` around the loop, perhaps by name, or from `x.start()` to `x.stop()` in one block.
    """
    place = model.place(site.node)
    if isinstance(place.statement, ast.With):
        return _trains(model, [place.statement])
    name = model.name_given(site)
    if name is None:
        return False
    block = place.block
    spans = [[each] for each in block if _opens(each, name)]
    begins, ends = ([i for i, each in enumerate(block) if _calls(each, name, method)] for method in ("start", "stop"))
    if len(begins) == len(ends) == 1:
        spans.append(block[begins[0] : ends[0]])
    return any(_trains(model, span) for span in spans)


def _opens(statement: ast.stmt, name: str) -> bool:
    """`with name:`."""
    items = statement.items if isinstance(statement, ast.With) else []
    return any(isinstance(item.context_expr, ast.Name) and item.context_expr.id == name for item in items)


def _calls(statement: ast.stmt, name: str, method: str) -> bool:
    """`name.method()` as a statement."""
    return isinstance(statement, ast.Expr) and ast.unparse(statement.value) == f"{name}.{method}()"


def _trains(model: Model, statements: list[ast.stmt]) -> bool:
    """Whether a training loop in these statements runs to its end."""
    return any(
        model.loop_info(node).trains and not any(isinstance(inner, (ast.Break, ast.Return)) for inner in subtree(node))
        for statement in statements
        for node in subtree(statement)
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While))
    )


def names_used(model: Model, site: Site) -> set[str]:
    """The names, attributes and keywords in the function (or file) around the site, and the function's own name."""
    function = model.function_of(site)
    found = {function.name}
    for node in function.nodes:
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, (ast.arg, ast.keyword)) and node.arg is not None:
            found.add(node.arg)
    return found


def new_name(model: Model, function: FunctionInfo, hint: str) -> str:
    """A name that is new in the function, and used by no other fix."""
    used, counted = model.remember(("names used", function), lambda: (_names_of(model, function), Counter[str]()))
    while True:
        counted[hint] += 1
        name = hint if counted[hint] == 1 else f"{hint}_{counted[hint]}"
        if name not in used and not hasattr(builtins, name):
            used.add(name)
            return name


def _names_of(model: Model, function: FunctionInfo) -> set[str]:
    """The names in the function, and those that any function of the file binds."""
    bound: frozenset[str] = model.remember(
        "names bound", lambda: frozenset(name for each in model.functions for name in each.bound_names)
    )
    return {node.id for node in function.nodes if isinstance(node, ast.Name)} | bound


def ends_plainly(model: Model, hot_path: HotPath, uses: NameUses) -> bool:
    """Whether all that sees a name behind the hot loop runs behind the code that a fix puts there.

    It may not if the loop has an `else`, or if the function may catch an exception (a `try`, a `suppress()`), unless
    the name is used in nothing but the block of the `try` that the loop is in.
    """
    loop = hot_path.loop
    if loop is None or loop.orelse:
        return False
    block = _block_to_be_left(model, loop)
    if block is None:
        return True
    last = block[-1]
    start = model.source.offset(block[0].lineno, block[0].col_offset)
    end = model.source.offset(last.end_lineno or last.lineno, last.end_col_offset or 0)
    return all(start <= use.start < end and (use.inside or use.after) for use in uses.uses if use.kind != "store")


def only_filled(model: Model, uses: NameUses) -> bool:
    """Whether a name is a new list that one place in the loop fills, and that nothing reads before the loop ends."""
    is_called = any(use.constant == "list()" for use in uses.of("store"))
    return uses.only_filled and not (is_called and not model.keeps_builtin("list"))


def _block_to_be_left(model: Model, statement: ast.stmt) -> list[ast.stmt] | None:
    """The block around the statement that an exception may leave, so that the function goes on behind it."""
    while (parent := (place := model.place_of(statement)).parent) is not None:
        if _catches_in(model, parent):
            return place.block
        statement = parent
    return None


def is_spelled_out(model: Model, site: Site) -> bool:
    """Whether an f-string shows the site's own text: `f"{x.item()=}"`."""
    node: cst.CSTNode | None = site.node
    while node is not None:
        if isinstance(node, cst.FormattedStringExpression) and node.equal is not None:
            return True
        node = model.parent(node)
    return False


_PERHAPS = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
"""What may leave a part of a statement out, or put it off."""


def is_always_evaluated(function: FunctionInfo, node: ast.expr) -> bool:
    """Whether the statement around an expression evaluates it in any case, at once."""
    parent = function.parents.get(node)
    while parent is not None and not isinstance(parent, ast.stmt):
        if isinstance(parent, _PERHAPS) or (isinstance(parent, ast.Compare) and len(parent.ops) > 1):
            return False
        parent = function.parents.get(parent)
    return parent is not None and not isinstance(parent, (ast.Assert, ast.Match))


def may_be_caught(model: Model, site: Site) -> bool:
    """Whether the function around the site may catch an exception that its statement raises."""
    return _may_catch(model, model.statement_of(site.node))


def _may_catch(model: Model, statement: ast.stmt) -> bool:
    """Whether an exception raised by the statement may be caught in its function."""
    return any(_catches_in(model, around) for around in model.place_of(statement).around())


def _catches_in(model: Model, around: ast.stmt) -> bool:
    """Whether a statement may catch what is raised in a block of it."""
    if isinstance(around, (ast.With, ast.AsyncWith)):
        return any(_catches(model, item) for item in around.items)
    return type(around).__name__ in ("Try", "TryStar")


def _catches(model: Model, item: ast.withitem) -> bool:
    """Whether a context manager may swallow an exception: a library's known for it, or one defined in this file."""
    call = item.context_expr
    if not isinstance(call, ast.Call):
        return any(map(_swallows, model.classes))
    name = last_name(call.func)
    if name in ("suppress", "raises", "assertRaises", "ExitStack", "AsyncExitStack"):
        return True
    return any(cls.name == name and _swallows(cls) for cls in model.classes) or any(
        function.name == name and any(isinstance(node, ast.Try) and node.handlers for node in function.nodes)
        for function in model.functions
    )


def _swallows(cls: ClassInfo) -> bool:
    """Whether `__exit__` may return anything but None or False."""
    exits = [cls.methods[name] for name in ("__exit__", "__aexit__") if name in cls.methods]
    returned = [node.value for each in exits for node in subtree(each.node) if isinstance(node, ast.Return)]
    return any(not (value is None or (isinstance(value, ast.Constant) and not value.value)) for value in returned)


def reckoned_from(model: Model, name: str, site: Site) -> list[str]:
    """The name, and those that the function computes from it: `left = max(x - 1, 0)`."""
    function = model.function_of(site)
    made = model.remember(("reckonings", function), lambda: _computed_names(function))
    found = {name: None}
    pending = [name]
    for known in pending:
        new = [each for each in made.get(known, ()) if each not in found]
        found.update(dict.fromkeys(new))
        pending += dict.fromkeys(new)
    return list(found)


def _computed_names(function: FunctionInfo) -> dict[str, list[str]]:
    """By each name in arithmetic, the names that the function binds to the result."""
    found: dict[str, list[str]] = {}
    for node in function.nodes:
        if isinstance(node, ast.Assign) and _is_arithmetic(node.value):
            named = [target.id for target in node.targets if isinstance(target, ast.Name)]
            for known in dict.fromkeys(names_in(node.value)):
                found.setdefault(known, []).extend(named)
    return found


def _is_arithmetic(value: ast.expr) -> bool:
    """Whether an expression is arithmetic that returns an index or a size for an index or a size."""
    if isinstance(value, ast.Call):
        return last_name(value.func) in _RECKONS and all(_is_arithmetic(each) for each in value.args)
    if isinstance(value, ast.BinOp):
        return _is_arithmetic(value.left) and _is_arithmetic(value.right)
    return isinstance(value, (ast.Name, ast.Attribute, ast.Constant))
