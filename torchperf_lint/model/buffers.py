"""Tensors that a module keeps as plain attributes, so that `module.to(device)` leaves them on the host."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Because, Edit
from torchperf_lint.model.index import dotted, last_name
from torchperf_lint.model.values import Device, Kind

if TYPE_CHECKING:
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.index import AttributeStore, ClassInfo, FunctionInfo

_REGISTERS = ("register_buffer", "register_parameter", "setattr")


class PlainTensor(NamedTuple):
    """A tensor built on the host that the constructor of a module, and nothing else, binds to an attribute."""

    name: str
    cls: ClassInfo
    stores: tuple[AttributeStore, ...]


def plain_tensor(model: Model, path: str, site: Site) -> PlainTensor | None:
    """What `self.mask` names in a method of a module, if it is such a tensor."""
    function = model._function(site)
    owner, _, name = path.rpartition(".")
    cls = _class_around(function)
    if cls is None or owner != _self_name(function) or model._world.instance(cls).kind is not Kind.MODULE:
        return None
    lineage = model._world.lineage(cls)
    holders = [each for each in lineage if name in each.attributes]
    if len(holders) != 1:
        return None
    holder = holders[0]
    stores = tuple(holder.attributes[name])
    if any(each.function.name != "__init__" or each.function.cls is not holder for each in stores):
        return None
    if not all(_is_plain(model, each) for each in stores) or _is_bound_elsewhere(model, name, lineage, stores):
        return None
    return PlainTensor(name, holder, stores)


def kept_here(model: Model, tensor: PlainTensor) -> Because:
    """Where the constructor binds it."""
    index = tensor.cls.index
    path = None if index is model._index else index.path
    return Because(tensor.stores[0].target.lineno, "built on the CPU and kept as a plain attribute", path)


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


def _is_plain(model: Model, store: AttributeStore) -> bool:
    """Whether the constructor stores a tensor of the host here that is no parameter."""
    program, index, statement = model._world.program, store.function.index, _statement_of(store)
    if statement is None:
        return False
    world = model._world if program is None or index is model._index else program.unit_of(index).world()
    value = world.frame_value(store.function, statement.value)
    if value.kind is not Kind.TENSOR or value.mixed or value.device is not Device.CPU or value.ref is not None:
        return False
    return not any(
        isinstance(node, ast.keyword) and node.arg in ("requires_grad", "pin_memory") for node in ast.walk(statement)
    )


def _statement_of(store: AttributeStore) -> ast.Assign | None:
    """The statement that binds the attribute, and nothing else: `self.mask = ...`."""
    for statement in store.function.index.places:
        if isinstance(statement, ast.Assign) and statement.targets == [store.target]:
            return statement
    return None


def _is_bound_elsewhere(model: Model, name: str, lineage: list[ClassInfo], stores: tuple[AttributeStore, ...]) -> bool:
    """Whether code in the files of the classes binds an attribute of that name, or registers something under it."""
    for index in {id(each): each for each in (model._index, *(cls.index for cls in lineage))}.values():
        unrelated = [cls for cls in index.classes if not set(model._world.lineage(cls)) & set(lineage)]
        others = [each for cls in unrelated for each in cls.attributes.get(name, ())]
        known = {id(each.target) for each in (*stores, *others)}
        for node in ast.walk(index.module.node):
            if isinstance(node, ast.Attribute) and node.attr == name and not isinstance(node.ctx, ast.Load):
                if id(node) not in known:
                    return True
            elif isinstance(node, ast.Call) and last_name(node.func) in _REGISTERS and _names(node, name):
                return True
    return any(_binds_by_text(node) for cls in lineage for node in ast.walk(cls.node))


def _binds_by_text(node: ast.AST) -> bool:
    """`setattr(self, name, value)`, `self.__dict__[name] = value`: any attribute may be bound there."""
    if isinstance(node, ast.Call) and last_name(node.func) == "setattr" and len(node.args) > 1:
        return not isinstance(node.args[1], ast.Constant)
    return isinstance(node, ast.Attribute) and node.attr == "__dict__"


def _names(call: ast.Call, name: str) -> bool:
    return any(isinstance(each, ast.Constant) and each.value == name for each in call.args)


def register(model: Model, tensor: PlainTensor) -> tuple[Edit, ...] | None:
    """Make `self.mask = value` a `self.register_buffer("mask", value, persistent=False)`."""
    if tensor.cls.index is not model._index:
        return None
    edits: list[Edit] = []
    for store in tensor.stores:
        statement = _statement_of(store)
        self_name = store.function.self_name
        if statement is None or self_name is None or not _is_constructed(store, statement):
            return None
        source = model._source
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


def _is_constructed(store: AttributeStore, statement: ast.stmt) -> bool:
    """Whether the base's constructor has run before the statement: `register_buffer` needs what it makes."""
    for earlier in store.function.body:
        if earlier.lineno >= statement.lineno:
            return False
        for node in ast.walk(earlier):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "__init__":
                base = node.func.value
                if isinstance(base, ast.Call) or dotted(base) is not None:
                    return isinstance(earlier, ast.Expr)
    return False


def read_on_host(model: Model, tensor: PlainTensor) -> bool:
    """Whether the file reads the attribute's numbers on the host: they would have to come from the device."""
    for node in ast.walk(model._index.module.node):
        if isinstance(node, ast.Attribute) and node.attr in ("numpy", "tolist", "item", "cpu"):
            base: ast.expr = node.value
            while isinstance(base, (ast.Subscript, ast.Call)):
                base = base.value if isinstance(base, ast.Subscript) else base.func
                base = base.value if isinstance(base, ast.Attribute) and base.attr != tensor.name else base
            if isinstance(base, ast.Attribute) and base.attr == tensor.name:
                return True
    return False
