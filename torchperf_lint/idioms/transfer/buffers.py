"""Tensors that a module stores as plain attributes, so that `module.to(device)` leaves them on the host."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Because, Edit
from torchperf_lint.idioms.transfer.transfers import MOVERS
from torchperf_lint.idioms.writes import writes_of
from torchperf_lint.knowledge import torch_api
from torchperf_lint.knowledge.containers import CHANGE
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.values import UNKNOWN, Device, Kind
from torchperf_lint.model.handles import dotted, last_name
from torchperf_lint.syntax import cst, shape
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_lint.idioms.transfer.transfers import Move
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import AttributeStore, ClassInfo, FunctionInfo

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_REGISTERS = ("register_buffer", "register_parameter", "setattr")
_MOVING = ("_apply", "to", "cuda", "cpu")
_COPIES = frozenset({"detach", "clone", "contiguous", "repeat"})


class PlainTensor(NamedTuple):
    """A tensor built on the host that a module's constructor, and no other code, binds to an attribute.

    `inside` says that the attribute is a list or a dict of such tensors.
    """

    name: str
    cls: ClassInfo
    stores: tuple[AttributeStore, ...]
    inside: bool


def kept_path(moved: cst.BaseExpression) -> str | None:
    """`self.table` of `self.table[:n].unsqueeze(0).float()`."""
    node = moved
    while True:
        if isinstance(node, cst.Subscript):
            node = node.value
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and _is_same(node.func.attr.value):
            node = node.func.value
        else:
            return shape.dotted(node)


def _is_same(method: str) -> bool:
    """Whether the result of the method is what it is called on, in another form."""
    return method in torch_api.VIEW_METHODS or method in torch_api.DTYPE_METHODS or method in _COPIES


def kept_by_module(model: Model, move: Move) -> PlainTensor | None:
    """The tensor that a module keeps on the host, and that a function without a loop moves; None for any other."""
    path = kept_path(move.moved)
    return None if path is None or move.hot_path.loop is not None else plain_tensor(model, path, move.moved, move.site)


def plain_tensor(model: Model, path: str, moved: cst.BaseExpression, site: Site) -> PlainTensor | None:
    """The tensor that `self.mask` names in a method of a module, or one of `self.masks`; None for any other."""
    function = model.function_of(site)
    walked = None if "." in path else _walked(function, model.ast_of(moved))
    path = path if walked is None else walked
    owner, _, name = path.rpartition(".")
    cls = _class_around(function)
    if cls is None or owner != _self_name(function) or not model.makes_modules(cls):
        return None
    lineage = model.lineage(cls)
    holders = [each for each in lineage if name in each.attributes]
    if len(holders) != 1:
        return None
    holder = holders[0]
    stores = tuple(holder.attributes[name])
    if any(each.function.name != "__init__" or each.function.cls is not holder for each in stores):
        return None
    kinds = {_plain_kind(model, each) for each in stores}
    if len(kinds) != 1 or None in kinds or _is_bound_elsewhere(model, name, lineage, stores):
        return None
    inside = Kind.CONTAINER in kinds
    later = [method for each in lineage for method in each.methods.values() if method.name != "__init__"]
    if any(_moves_by_itself(each, name) for each in later):
        return None
    if inside:
        value = model.value(moved)
        if not value.is_tensor or value.device is not Device.CPU or any(_is_refilled(each, name) for each in later):
            return None
    return PlainTensor(name, holder, stores, inside)


def _walked(function: FunctionInfo, use: ast.expr | None) -> str | None:
    """`self.masks` of a use of the name in `for mask in self.masks` or `for key, mask in self.masks.items()`."""
    name = next((node.id for node in subtree(use) if isinstance(node, ast.Name)), None) if use is not None else None
    around, parents = use, function.parents
    while around is not None and name is not None:
        loops = around.generators if isinstance(around, _COMPREHENSIONS) else [around]
        for loop in loops:
            if isinstance(loop, (ast.For, ast.comprehension)) and (places := _places(loop.target, name)):
                return None if _is_rebound(loop, name, use) else _iterated(loop.iter, places[0])
        around = parents.get(around)  # type: ignore[assignment]
    return None


def _places(target: ast.expr, name: str) -> list[int | None]:
    """Where a loop's target binds the name: None for the whole target, else the place in the tuple."""
    parts = list(enumerate(target.elts)) if isinstance(target, ast.Tuple) else [(None, target)]
    return [place for place, part in parts if isinstance(part, ast.Name) and part.id == name]


def _iterated(walked: ast.expr, place: int | None) -> str | None:
    """The path of the list or dict whose elements a loop's target gets at this place."""
    if isinstance(walked, ast.Call) and isinstance(walked.func, ast.Attribute) and not walked.args:
        is_value = (walked.func.attr, place) in (("values", None), ("items", 1))
        return dotted(walked.func.value) if is_value else None
    if isinstance(walked, ast.Call) and dotted(walked.func) == "enumerate" and place == 1:
        return dotted(walked.args[0]) if walked.args else None
    return dotted(walked) if place is None else None


def _is_rebound(loop: ast.For | ast.comprehension, name: str, use: ast.expr | None) -> bool:
    """Whether the loop's body binds the name to something else before the use."""
    body = loop.body if isinstance(loop, ast.For) else []
    stores = (node for each in body for node in subtree(each) if isinstance(node, ast.Name) and node.id == name)
    return use is not None and any(isinstance(each.ctx, ast.Store) and each.lineno < use.lineno for each in stores)


def _is_refilled(method: FunctionInfo, name: str) -> bool:
    """Whether a method changes which tensors are in the attribute: `self.masks[key] = mask`, `self.masks.append(x)`."""
    path = f"{method.self_name}.{name}"
    bound = [node for node in method.nodes if isinstance(node, ast.Assign) and dotted(node.value) == path]
    paths = {path, *(dotted(target) for each in bound for target in each.targets)} - {None}
    for node in method.nodes:
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load) and dotted(node.value) in paths:
            return True
        func = node.func if isinstance(node, ast.Call) else None
        if isinstance(func, ast.Attribute) and func.attr in CHANGE and dotted(func.value) in paths:
            return True
    return False


def _moves_by_itself(method: FunctionInfo, name: str) -> bool:
    """Whether the method is one by which modules are moved, and takes the attribute along."""
    path = f"{method.self_name}.{name}"
    reads = (isinstance(node, ast.Attribute) and node.attr == name and dotted(node) == path for node in method.nodes)
    return method.name in _MOVING and any(reads)


def kept_here(model: Model, tensor: PlainTensor) -> Because:
    """The place where the constructor binds it."""
    path = None if model.has(tensor.cls) else tensor.cls.path
    says = "built on the CPU and kept " + ("in a list or a dict" if tensor.inside else "as a plain attribute")
    return Because(tensor.stores[0].target.lineno, says, path)


def _class_around(function: FunctionInfo) -> ClassInfo | None:
    around: FunctionInfo | None = function
    while around is not None and around.cls is None:
        around = around.outer
    return None if around is None else around.cls


def _self_name(function: FunctionInfo) -> str | None:
    around: FunctionInfo | None = function
    while around is not None and around.cls is None:
        around = around.outer
    return None if around is None else around.self_name


def _plain_kind(model: Model, store: AttributeStore) -> Kind | None:
    """The kind of what the constructor stores here: a host tensor that is no parameter, or a list or a dict of such."""
    statement = _statement_of(store)
    if statement is None:
        return None
    value = model.home(store.function).value_in(store.function, statement.value)
    if value.kind is Kind.CONTAINER and value.element is None:
        return value.kind  # the constructor fills it
    held = value.element or UNKNOWN if value.kind is Kind.CONTAINER else value
    if held.kind is not Kind.TENSOR or held.mixed or held.device is not Device.CPU or held.ref is not None:
        return None
    is_bound = any(
        isinstance(node, ast.keyword) and node.arg in ("requires_grad", "pin_memory") for node in subtree(statement)
    )
    return None if is_bound else value.kind


def _statement_of(store: AttributeStore) -> ast.Assign | None:
    """The statement that binds the attribute, and nothing else: `self.mask = ...`."""
    for statement in store.function.statements:
        if isinstance(statement, ast.Assign) and statement.targets == [store.target]:
            return statement
    return None


def _is_bound_elsewhere(
    model: Model, name: str, lineage: Sequence[ClassInfo], stores: tuple[AttributeStore, ...]
) -> bool:
    """Whether other code in the classes' files binds an attribute of that name, or registers something under it."""
    for there in dict.fromkeys((model, *map(model.home, lineage))):
        unrelated = [cls for cls in there.classes if not set(model.lineage(cls)) & set(lineage)]
        others = [each for cls in unrelated for each in cls.attributes.get(name, ())]
        known = {id(each.target) for each in (*stores, *others)}
        for node in there.top.nodes:
            if isinstance(node, ast.Attribute) and node.attr == name and not isinstance(node.ctx, ast.Load):
                if id(node) not in known:
                    return True
            elif isinstance(node, ast.Call) and last_name(node.func) in _REGISTERS and _names(node, name):
                return True
    return any(_binds_by_text(node) for cls in lineage for node in subtree(cls.node))


def _binds_by_text(node: ast.AST) -> bool:
    """`setattr(self, name, value)`, `self.__dict__[name] = value`: may bind any attribute."""
    if isinstance(node, ast.Call) and last_name(node.func) == "setattr" and len(node.args) > 1:
        return not isinstance(node.args[1], ast.Constant)
    return isinstance(node, ast.Attribute) and node.attr == "__dict__"


def _names(call: ast.Call, name: str) -> bool:
    return any(isinstance(each, ast.Constant) and each.value == name for each in call.args)


def register(model: Model, tensor: PlainTensor) -> tuple[Edit, ...] | None:
    """Replace `self.mask = value` by `self.register_buffer("mask", value, persistent=False)`."""
    if tensor.inside or not model.has(tensor.cls) or _is_method(model, tensor) or _copy_is_written(model, tensor):
        return None
    edits: list[Edit] = []
    for store in tensor.stores:
        statement = _statement_of(store)
        self_name = store.function.self_name
        if statement is None or self_name is None or not _is_constructed(store, statement):
            return None
        source = model.source
        start = source.offset(statement.lineno, statement.col_offset)
        end = source.offset(statement.end_lineno or 0, statement.end_col_offset or 0)
        target_end = source.offset(store.target.end_lineno or 0, store.target.end_col_offset or 0)
        value_start = source.utf8.index(b"=", target_end) + 1
        while source.utf8[value_start : value_start + 1] in (b" ", b"\t"):
            value_start += 1
        if source.utf8[value_start : value_start + 1] in (b"\\", b"\n", b"\r"):
            return None
        edits.append(Edit(start, value_start, f'{self_name}.register_buffer("{tensor.name}", '.encode()))
        edits.append(Edit(end, end, b", persistent=False)"))
    return tuple(edits)


def _is_method(model: Model, tensor: PlainTensor) -> bool:
    """Whether the classes have a method of that name: `register_buffer` rejects names that exist already."""
    return any(tensor.name in cls.methods for cls in model.lineage(tensor.cls))


def _copy_is_written(model: Model, tensor: PlainTensor) -> bool:
    """Whether the file writes in place to a moved copy of the tensor, which would be the buffer itself."""
    functions = [node for node in model.top.nodes if isinstance(node, _FUNCTIONS)]
    for function in functions:
        bound = [node for node in subtree(function) if isinstance(node, ast.Assign)]
        copies: set[str] = set()
        for _ in range(bounds.MOST_NAMES_OF_BUFFER):
            moved = [each for each in bound if _is_copy(each.value, tensor.name, copies)]
            paths = {path for each in moved for target in each.targets if (path := dotted(target)) is not None}
            if paths <= copies:
                break
            copies |= paths
        else:
            return True
        if any(dotted(_base(each)) in copies or _is_copy(each, tensor.name, copies) for each in writes_of(function)):
            return True
    return False


def _is_copy(node: ast.expr, name: str, copies: set[str]) -> bool:
    """Whether an expression is `self.mask.to(...)`, or a part of it or of one of `copies`."""
    moves = False
    while isinstance(node, (ast.Subscript, ast.Call)):
        if isinstance(node, ast.Subscript):
            node = node.value
            continue
        if not isinstance(node.func, ast.Attribute) or node.func.attr in ("clone", "repeat"):
            return False
        moves = moves or node.func.attr in MOVERS
        node = node.func.value
    return dotted(node) in copies or (moves and isinstance(node, ast.Attribute) and node.attr == name)


def _base(node: ast.expr) -> ast.expr:
    """`x` of `x[0]`."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node


def _is_constructed(store: AttributeStore, statement: ast.stmt) -> bool:
    """Whether the bases' constructors have run before the statement, as `register_buffer` requires."""
    calls = [
        earlier
        for earlier in store.function.body
        for node in subtree(earlier)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "__init__"
        if isinstance(node.func.value, ast.Call) or dotted(node.func.value) is not None
    ]
    return bool(calls) and all(isinstance(each, ast.Expr) and each.lineno < statement.lineno for each in calls)


def read_on_host(model: Model, tensor: PlainTensor) -> bool:
    """Whether the file reads the attribute's numbers on the host: a buffer would be copied back from the device."""
    for node in model.top.nodes:
        if isinstance(node, ast.Attribute) and node.attr in ("numpy", "tolist", "item", "cpu"):
            base: ast.expr = node.value
            while isinstance(base, (ast.Subscript, ast.Call)):
                base = base.value if isinstance(base, ast.Subscript) else base.func
                base = base.value if isinstance(base, ast.Attribute) and base.attr != tensor.name else base
            if isinstance(base, ast.Attribute) and base.attr == tensor.name:
                return True
    return False
