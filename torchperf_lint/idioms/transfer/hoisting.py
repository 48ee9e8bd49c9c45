"""Tensors of constants that a loop makes in every pass, and the edits that make them once before it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Edit
from torchperf_lint.idioms import placing, surroundings
from torchperf_lint.idioms.transfer import spending
from torchperf_lint.idioms.writes import writes_in_place
from torchperf_lint.knowledge import torch_api
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import dotted, last_name
from torchperf_lint.syntax import edits
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.transfer.hostmade import Maker
    from torchperf_lint.model import HotPath, Model, Site
    from torchperf_lint.model.handles import FunctionInfo

ASSUMES = "nothing that the loop calls writes to the tensor or keeps it"
"""What an edit that makes a tensor once takes for granted."""

_SAME_EACH_TIME = (
    torch_api.HOST_DATA_FACTORIES
    | frozenset(torch_api.LEGACY_FACTORIES)
    | frozenset("torch." + name for name in "zeros ones full eye arange linspace logspace".split())
)
_STEPS = spending.VIEWS | frozenset(torch_api.DTYPE_METHODS) | {"to", "cuda", "new_tensor"}
_ALWAYS_RUN = (
    ast.Call,
    ast.keyword,
    ast.BinOp,
    ast.UnaryOp,
    ast.Compare,
    ast.Attribute,
    ast.Subscript,
    ast.Tuple,
    ast.Slice,
)


class _Place(NamedTuple):
    """Where a tensor is made: the expression with its direct views, and its surroundings."""

    whole: ast.expr
    statement: ast.stmt
    function: FunctionInfo
    parents: dict[ast.AST, ast.AST]


def _changes_device(model: Model) -> bool:
    """Whether the file may change state so that the same call makes another tensor in a loop than before it."""
    if model.code.speaks_of("set_device", "set_default_d", "inference_mode") or model.code.names("cuda.device"):
        return True
    entered = (each for each in model.statements if isinstance(each, (ast.With, ast.AsyncWith)))
    opened = (item.context_expr for each in entered for item in each.items)
    return any(isinstance(each, ast.Call) and last_name(each.func) == "device" for each in opened)


def in_front(model: Model, site: Site, hot_path: HotPath, maker: Maker | None = None) -> tuple[Edit, ...] | None:
    """Make the site's tensor once, before the hot loop; `maker` makes what the site moves, lines above.

    None unless all arguments of the call stay the same in the loop, and its result is only computed with there.
    """
    call = model.ast_of(site.node)
    if hot_path.loop is None or not isinstance(call, ast.Call) or _changes_device(model):
        return None
    place = _place_of(model, site, call)
    first = () if maker is None else _lifted_maker(model, site, hot_path, maker, call, place)
    moved = None if maker is None else _moved_name(call)
    made_before = set() if moved is None else {moved}
    if first is None or not _is_in_body(model, hot_path, place.statement):
        return None
    if not _stays_the_same(model, hot_path, place, made_before):
        return None
    if isinstance(place.statement, ast.Assign) and place.statement.value is place.whole:
        target = place.statement.targets[0]
        if len(place.statement.targets) != 1 or not isinstance(target, ast.Name):
            return None
        if not _is_only_read(model, hot_path, site, place, target.id):
            return None
        return edits.together(first, _lifted(model, site, hot_path))
    return edits.together(first, _named(model, site, hot_path, place, moved))


def _place_of(model: Model, site: Site, call: ast.Call) -> _Place:
    function = model.function_of(site)
    parents = function.parents
    whole: ast.expr = call
    while True:
        parent = parents[whole]
        around = parents.get(parent)
        if isinstance(parent, ast.Attribute) and parent.attr in spending.VIEWS and isinstance(around, ast.Call):
            whole = around
        elif isinstance(parent, ast.Subscript) and parent.value is whole and isinstance(parent.ctx, ast.Load):
            whole = parent
        else:
            return _Place(whole, model.statement_of(site.node), function, parents)


def _is_in_body(model: Model, hot_path: HotPath, statement: ast.stmt) -> bool:
    place = model.place_of(statement)
    return place.parent is hot_path.loop and place.field == "body"


def _stays_the_same(model: Model, hot_path: HotPath, place: _Place, made_before: set[str]) -> bool:
    """Whether every pass evaluates the expression to the same numbers, on the same device."""
    bound = surroundings.names_of_loop(model, hot_path) - made_before
    for node in subtree(place.whole):
        if isinstance(node, ast.Name) and (node.id in bound or model.may_be_rebound(node.id)):
            return False
        if isinstance(node, ast.Attribute):
            path = dotted(node)
            if path in bound or _is_assigned_later(model, node.attr):
                return False
        if isinstance(node, ast.Call) and not _gives_the_same(model, place.function, node, made_before):
            return False
        if isinstance(node, (ast.Lambda, ast.NamedExpr, ast.Await, ast.Starred, ast.GeneratorExp, ast.ListComp)):
            return False
    return True


def _is_assigned_later(model: Model, attribute: str) -> bool:
    """Whether the file assigns an attribute of that name outside of `__init__`: a call in the loop may do so."""

    def assigned() -> set[str]:
        return {
            node.attr
            for function in model.functions
            if function.name != "__init__"
            for statement in function.body
            if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            for node in subtree(statement)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        }

    return attribute in model.remember("attributes_assigned_later", assigned)


def _gives_the_same(model: Model, function: FunctionInfo, call: ast.Call, made_before: set[str]) -> bool:
    ref = model.value_in(function, call.func).ref or ""
    if ref == "torch.device":
        return True
    steps = isinstance(call.func, ast.Attribute) and call.func.attr in _STEPS
    if ref not in _SAME_EACH_TIME and not ref.startswith("torch.cuda.") and not steps:
        return False
    packs = ref in torch_api.HOST_DATA_FACTORIES or (steps and getattr(call.func, "attr", "") == "new_tensor")
    packs = packs or ref in torch_api.LEGACY_FACTORIES or ref.startswith("torch.cuda.")
    if packs:
        return bool(call.args) and _is_constant(model, function, call.args[0])
    if steps and isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
        return call.func.value.id in made_before  # a tensor with any other source may be written to
    return all(_is_constant(model, function, argument) for argument in call.args) or steps


def _is_constant(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """Whether an expression is numbers, as literals or by name, or lists of them."""
    if isinstance(node, (ast.List, ast.Tuple)):
        return all(_is_constant(model, function, element) for element in node.elts)
    if isinstance(node, ast.UnaryOp):
        return _is_constant(model, function, node.operand)
    if isinstance(node, ast.BinOp):
        return _is_constant(model, function, node.left) and _is_constant(model, function, node.right)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (bool, int, float))
    return isinstance(node, ast.Name) and model.value_in(function, node).kind is Kind.NUMBER


def _is_only_read(model: Model, hot_path: HotPath, site: Site, place: _Place, name: str) -> bool:
    """Whether the statement alone binds the name, and all its readers come later and only compute with it."""
    if not model.bound_once(place.function, name):
        return False
    if writes_in_place(model, name, site) or hot_path.loop is None:
        return False
    for node in place.parents:
        if not isinstance(node, ast.Name) or node.id != name or isinstance(node.ctx, ast.Store):
            continue
        if isinstance(node.ctx, ast.Del) or node.lineno <= place.statement.lineno:
            return False
        if not spending.is_spent(model, place.function, place.parents, node):
            return False
    return True


def _moved_name(call: ast.Call) -> str | None:
    moved = call.func.value if isinstance(call.func, ast.Attribute) else None
    return moved.id if isinstance(moved, ast.Name) else None


def _lifted_maker(
    model: Model, site: Site, hot_path: HotPath, maker: Maker, move: ast.Call, place: _Place
) -> tuple[Edit, ...] | None:
    """Move the statement that makes a value that only the site reads."""
    name = _moved_name(move)
    statement = next((each for each in model.statements if _binds(each, name) and maker.call in subtree(each)), None)
    if name is None or statement is None or maker.function is not place.function:
        return None
    if not _is_in_body(model, hot_path, statement) or not isinstance(statement, ast.Assign):
        return None
    uses = [node for node in place.parents if isinstance(node, ast.Name) and node.id == name]
    if len(uses) != 2 or not model.bound_once(place.function, name):
        return None
    if statement.lineno >= place.statement.lineno:
        return None
    if not _stays_the_same(model, hot_path, place._replace(whole=statement.value, statement=statement), set()):
        return None
    made = model.site_at(maker.call, statement)
    return None if made is None else _lifted(model, made, hot_path)


def _binds(statement: ast.AST, name: str | None) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return len(targets) == 1 and isinstance(targets[0], ast.Name) and targets[0].id == name


def _lifted(model: Model, site: Site, hot_path: HotPath) -> tuple[Edit, ...] | None:
    """Move the lines of the site's statement before the loop; None if that leaves the body empty."""
    rows, place = placing.own_rows(model, site), model.place(site.node)
    if rows is None or not site.tree.lossless or len(place.block) < 2 or hot_path.loop is None:
        return None
    source = model.source
    start = source.line_starts[rows[0] - 1]
    end = source.line_starts[rows[1]] if rows[1] < len(source.line_starts) else len(source.utf8)
    deeper = place.statement.col_offset - hot_path.loop.col_offset
    lines = source.utf8[start:end].decode().splitlines()
    shallower = [line[deeper:] if not line[:deeper].strip() else line for line in lines]
    inserted = placing.before(model, hot_path, source.newline.join([shallower[0].strip(), *shallower[1:]]))
    return None if inserted is None else (inserted, Edit(start, end, b""))


def _named(model: Model, site: Site, hot_path: HotPath, place: _Place, moved: str | None) -> tuple[Edit, ...] | None:
    """Name the expression before the loop, and replace it by the name."""
    node: ast.AST = place.whole
    around = list(_around(place))
    if not all(isinstance(each, _ALWAYS_RUN) for each in around):
        return None
    if not spending.is_spent(model, place.function, place.parents, node):
        return None
    parent = place.parents[node]
    hint = "constant" if moved is None else f"{moved}_on_device"
    hint = parent.arg if isinstance(parent, ast.keyword) and parent.arg else hint
    name = surroundings.new_name(model, place.function, hint)
    whole, source = place.whole, model.source
    start = source.offset(whole.lineno, whole.col_offset)
    end = source.offset(whole.end_lineno or whole.lineno, whole.end_col_offset or 0)
    text = source.utf8[start:end].decode()
    if "#" in text or "\\" in text or not site.tree.lossless:
        return None
    line = " ".join(text.split()).replace("( ", "(").replace("[ ", "[").replace(" ]", "]").replace(" )", ")")
    line = line.replace(",]", "]").replace(",)", ")") if "\n" in text else line
    before = placing.before(model, hot_path, f"{name} = {line}")
    return edits.together(before, Edit(start, end, name.encode()))


def _around(place: _Place) -> Iterator[ast.AST]:
    """The nodes between the expression and its statement."""
    node: ast.AST = place.parents[place.whole]
    while not isinstance(node, ast.stmt):
        yield node
        node = place.parents[node]
