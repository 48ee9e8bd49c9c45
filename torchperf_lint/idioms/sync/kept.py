"""Tensors that a list stores across passes: whether something may overwrite them in the meantime."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.idioms.aliases import HANDS_OUT, MAY_BE_ITSELF, bound_by
from torchperf_lint.idioms.writes import only_computes, written_in
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import dotted, last_name
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import HotPath, Model, Site
    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.handles import ClassInfo, FunctionInfo
    from torchperf_lint.syntax import cst

_ONLY_READS = frozenset("len print append extend isinstance float int range zip enumerate list tuple str repr".split())


_BUFFER = "a module's own tensor"


def is_never_written(model: Model, node: cst.BaseExpression, site: Site, hot_path: HotPath) -> bool:
    """Whether the function makes the tensor itself, and passes it to nothing that may write to it.

    Any code may write to an attribute (`layer.weight`), such as an optimizer.
    """
    meaning = model.ast_of(node)
    return meaning is not None and _Sharing(model, model.function_of(site), hot_path.loop).is_never_written(meaning)


class _Sharing:
    """The names of a function that may share memory."""

    def __init__(self, model: Model, function: FunctionInfo, loop: ast.stmt | None) -> None:
        self._model = model
        self._function = function
        self._made: dict[str, list[set[str]]] = {}
        self._stores: dict[str, int] = {}
        for node in function.nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self._stores[node.id] = self._stores.get(node.id, 0) + 1
            for target, value in bound_by(node):
                shared = set() if node is loop or value is None else self._shares(value)
                for each in subtree(target):
                    if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                        self._made.setdefault(each.id, []).append(shared)

    def is_never_written(self, node: ast.expr) -> bool:
        known = self._shares(node)
        pending = list(known)
        for name in pending:
            made = self._made.get(name, [])
            if not made or len(made) != self._stores[name]:
                return False  # a parameter, or an unknown form of binding
            others = {each for each, values in self._made.items() if any(name in shared for shared in values)}
            found = others.union(*made) - known
            known |= found
            pending += found
        return known.isdisjoint(self._touched())

    def _shares(self, node: ast.expr) -> set[str]:
        """The names whose memory an expression may share."""
        if isinstance(node, ast.Name):
            return {node.id}
        if isinstance(node, ast.Call):
            return self._shared_by_call(node)
        if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Constant, ast.JoinedStr)):
            return set()
        if isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
            return self._shares(node.value)
        return set().union(*(self._shares(each) for each in subtree(node) if isinstance(each, ast.Name)))

    def _shared_by_call(self, call: ast.Call) -> set[str]:
        name = last_name(call.func) or ""
        found = set().union(*(self._shares(each.value) for each in call.keywords if each.arg == "out"))
        if any(each.arg == "inplace" for each in call.keywords) or name in HANDS_OUT:
            return found.union(*map(self._shares, call.args))
        value = self._model.value_in(self._function, call.func)
        if value.kind is Kind.LIBRARY:
            itself = name in MAY_BE_ITSELF or name.endswith("_")
            return found | self._shares(call.args[0]) if itself and call.args else found
        if value.kind is Kind.MODULE:
            return found | ({_BUFFER} if writes_its_output(self._model, value) else set())
        if not isinstance(call.func, ast.Attribute):
            return found
        receiver = self._model.value_in(self._function, call.func.value)
        if receiver.kind is Kind.MODULE and writes_its_output(self._model, receiver):
            return found | {_BUFFER}
        itself = name in MAY_BE_ITSELF or name.endswith("_")
        gives = not call.args and not call.keywords and receiver.kind not in (Kind.TENSOR, Kind.LIBRARY)
        return found | self._shares(call.func.value) if itself or gives else found

    def _touched(self) -> set[str]:
        """The names that the function writes to in place, or passes to something that may do so."""
        touched: set[str] = set()
        for written, _ in written_in(self._function):
            touched |= self._shares(written)
        for node in self._function.nodes:
            if isinstance(node, ast.Assign) and any(isinstance(each, ast.Attribute) for each in node.targets):
                touched |= self._shares(node.value)  # other code that reads it there may write to it
        for record in self._function.calls_made:
            call = record.call
            value = self._model.value_in(self._function, call.func)
            name, ref = last_name(call.func) or "", value.ref or ""
            writes = name.endswith("_") or any(each.arg == "inplace" for each in call.keywords)
            of_tensor = isinstance(call.func, ast.Attribute) and (
                self._model.value_in(self._function, call.func.value).kind is Kind.TENSOR
            )
            library = value.kind is Kind.LIBRARY and (not ref.startswith("torch.") or only_computes(ref, call))
            harmless = name in _ONLY_READS or of_tensor or library or "loss" in ref.lower()
            if writes or not (harmless or ref == "criterion"):
                touched = touched.union(*(self._shares(each) for each in call.args))
                touched = touched.union(*(self._shares(each.value) for each in call.keywords))
        return touched


def writes_its_output(model: Model, module: Value) -> bool:
    """Whether a module may return a tensor of its own, which its next call overwrites.

    The module's class is searched, with the classes of its file that it names; if the class is unknown, this file and
    its neighbours are.
    """
    if module.cls is not None:
        classes = [module.cls]
        for known in classes:
            named = {node.id for node in subtree(known.node) if isinstance(node, ast.Name)}
            classes += [each for each in model.home(known).classes if each.name in named and each not in classes]
    elif (module.ref or "").startswith("torch."):
        return False
    else:
        classes = [cls for each in model.with_neighbours for cls in each.classes]
    return any(_gives_what_it_writes(cls) for cls in classes)


def _gives_what_it_writes(cls: ClassInfo) -> bool:
    """Whether a class stores a tensor in an attribute that its methods write in place, and returns it."""
    methods = [method for name, method in cls.methods.items() if name != "__init__"]
    written, given = set(), set()
    for method in methods:
        own = f"{method.self_name}."
        written |= {path for each, _ in written_in(method) if (path := dotted(each) or "").startswith(own)}
        for node in subtree(method.node):
            value = node.value if isinstance(node, (ast.Return, ast.Yield, ast.Assign, ast.NamedExpr)) else None
            given |= set() if value is None else set(_may_be(value))
    return bool(written & given)


def _may_be(node: ast.expr) -> Iterator[str]:
    """The paths (`self.out`) whose memory an expression may share."""
    path = dotted(node)
    if path is not None:
        yield path
    if isinstance(node, (ast.Tuple, ast.List)):
        for element in node.elts:
            yield from _may_be(element)
    elif isinstance(node, ast.Dict):
        for each in node.values:
            yield from _may_be(each)
    elif isinstance(node, ast.IfExp):
        yield from (*_may_be(node.body), *_may_be(node.orelse))
    elif isinstance(node, ast.Subscript):
        yield from _may_be(node.value)
    elif isinstance(node, ast.Call):
        name = last_name(node.func) or ""
        for each in (each.value for each in node.keywords if each.arg == "out"):
            yield from _may_be(each)
        if isinstance(node.func, ast.Attribute) and (name in MAY_BE_ITSELF or name.endswith("_")):
            yield from _may_be(node.func.value)


def goes_backward_behind(model: Model, site: Site, hot_path: HotPath) -> bool:
    """Whether the function calls backward outside the loop, perhaps on what the loop has collected."""
    inside = set() if hot_path.loop is None else {id(node) for node in subtree(hot_path.loop)}
    calls = [record.call for record in model.function_of(site).calls_made if id(record.call) not in inside]
    return any(last_name(call.func) in ("backward", "manual_backward", "grad") for call in calls)
