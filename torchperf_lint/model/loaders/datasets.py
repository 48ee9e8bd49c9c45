"""Datasets: whether visible code makes one, and shows that its samples are on the host."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import loading, torch_api
from torchperf_lint.knowledge.containers import FILL
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.values import Device, Kind, Value
from torchperf_lint.model.syntax.index import dotted
from torchperf_lint.model.syntax.slices import slices_of
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import AttributeStore, ClassInfo, FunctionInfo, Index

_GIVES_ANOTHER = frozenset(
    "map filter shuffle select sort skip take with_transform set_transform cast cast_column remove_columns "
    "rename_column rename_columns train_test_split flatten select_columns".split()
)
"""Methods of Hugging Face datasets that return a dataset derived from this one."""

_SETTINGS = re.compile(
    r"^_?(?:args?|opts?|options?|cfg|conf|config|configs|params|hparams|hyperparams|settings|flags)$"
    r"|path|root|(?:^|_)(?:dir|file|folder|fname|url|split|mode|name|seed|transform|tokenizer|processor|vocab)s?$"
    r"|_?(?:size|len|length|rate|ratio|prefix|suffix|num|count)$|^(?:num|max|min|n)_|dir$"
)
"""Names of arguments that do not become part of samples: settings, file locations, transforms."""


class Making:
    """Traces one dataset back to the data that it is made of."""

    def __init__(self, inference: ValueQuestions) -> None:
        self._inference = inference
        self._steps = 0
        self._seen: set[ast.expr] = set()

    def is_on_host(self, node: ast.expr, function: FunctionInfo) -> bool:
        """Whether every value that the expression may have is made of host data by visible code."""
        self._steps += 1
        if node in self._seen:
            return True  # `dataset = dataset.map(...)`: the earlier binding is checked elsewhere
        if self._steps > bounds.MOST_MAKING_STEPS:
            return False
        self._seen.add(node)
        if isinstance(node, ast.Name):
            bound = list(self._bindings(node.id, function))
            return bool(bound) and all(each is not None and self.is_on_host(*each) for each in bound)
        if isinstance(node, ast.Attribute):
            return self._is_kept(node, function)
        if isinstance(node, ast.Subscript):
            return self.is_on_host(node.value, function)
        if isinstance(node, ast.IfExp):
            return self.is_on_host(node.body, function) and self.is_on_host(node.orelse, function)
        if isinstance(node, (ast.List, ast.Tuple, ast.ListComp)):
            if _holds_host_data(self._inference.frame_value(function, node)):
                return True
            parts = [] if isinstance(node, ast.ListComp) else node.elts
            return bool(parts) and all(self.is_on_host(each, function) for each in parts)
        return isinstance(node, ast.Call) and self._is_made(node, function)

    def _bindings(self, name: str, function: FunctionInfo) -> Iterator[tuple[ast.expr, FunctionInfo] | None]:
        """The expressions that the name is bound to, in any enclosing function; None for each unknown binding."""
        if name in function.parameter_names:
            yield None
            return
        found = False
        for statement in function.statements:
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            targets += [statement.target] if isinstance(statement, ast.AnnAssign) and statement.value else []
            for target in targets:
                if any(isinstance(part, ast.Name) and part.id == name for part in subtree(target)):
                    found = True
                    yield (statement.value, function)  # type: ignore[attr-defined]
        bound = name in function.index.bound_names(function)
        if bound and not found:
            yield None
        elif not bound and function.outer is not None:
            yield from self._bindings(name, function.outer)

    def _is_kept(self, node: ast.Attribute, function: FunctionInfo) -> bool:
        """Whether `self.dataset` is on the host in every method of the class that stores it."""
        if not isinstance(node.value, ast.Name) or node.value.id != function.self_name or function.cls is None:
            return False
        stores = self._stores(function.cls, node.attr)
        given = [(_stored(each.function, each.target), each.function) for each in stores]
        return bool(given) and all(value is not None and self.is_on_host(value, where) for value, where in given)

    def _is_made(self, call: ast.Call, function: FunctionInfo) -> bool:
        callee = self._inference.frame_value(function, call.func)
        ref = callee.ref or ""
        if callee.kind is Kind.LIBRARY:
            if ref.startswith(loading.HOST_DATASETS):
                return True
            if ref in torch_api.DATASET_PARTS or ref == "torch.utils.data.ConcatDataset":
                return bool(call.args) and self.is_on_host(call.args[0], function)
            return ref == "torch.utils.data.TensorDataset" and all(
                self._inference.frame_value(function, each).device is Device.CPU for each in call.args
            )
        if callee.cls is not None and callee.kind is Kind.CLASS:
            return self._reads_host_data(callee.cls, call, function)
        if callee.function is not None and callee.kind is Kind.FUNCTION:
            made = callee.function
            given = [each.value for each in made.statements if isinstance(each, ast.Return) and each.value is not None]
            return bool(given) and all(self.is_on_host(each, made) for each in given)
        if isinstance(call.func, ast.Attribute) and call.func.attr in _GIVES_ANOTHER:
            return self.is_on_host(call.func.value, function)
        return False

    # -- classes of the project ------------------------------------------------------------------------------------

    def _reads_host_data(self, cls: ClassInfo, call: ast.Call, function: FunctionInfo) -> bool:
        """Whether nothing in the object's samples may have been moved to a device before the function is called."""
        lineage = self._inference.lineage(cls)
        readers = [
            method for name in loading.DATASET_READERS if (method := self._inference.method(cls, name)) is not None
        ]
        if not readers or any(_loads_tensors(owner.node) for owner in lineage):
            return False
        readers = list(self._helped(readers, cls))
        held = {name for reader in readers for name in _attributes_read(reader)}
        stores = [each for owner in lineage for name in sorted(held) for each in owner.attributes.get(name, ())]
        if any(_lies_on_device(self._inference.frame_value(store.function, store.target)) for store in stores):
            return False
        others = (each for owner in lineage for each in owner.methods.values() if each not in readers)
        if any(each.name != "__init__" and _fills(each, held) for each in others):
            return False  # so it is where what the samples hold is added later
        if not self._stays_on_host([(each.node, each) for each in (*readers, *(store.function for store in stores))]):
            return False
        wanted: set[str] = set()
        for store in stores:
            needed = slices_of(store.function).of(store.target)
            names = set(store.function.parameter_names[1:])
            names &= names if needed is None else needed.names
            if store.function.name != "__init__" and names:
                return False  # the data is passed later
            wanted |= names
        made = self._inference.method(cls, "__init__")
        return all(self._tells(each, function) for each in _given_for(call, made, wanted))

    def _helped(self, readers: list[FunctionInfo], cls: ClassInfo) -> Iterator[FunctionInfo]:
        """The methods that read samples, and those of the object that they call, also by an attribute: `self.fetch`."""
        pending, seen = list(readers), set(readers)
        while pending:
            reader = pending.pop(0)
            yield reader
            for name in _own_attributes(reader):
                stored = (_stored(each.function, each.target) for each in self._stores(cls, name))
                named = {name, *(each.attr for each in stored if isinstance(each, ast.Attribute))}
                methods = [
                    owner.methods[each]
                    for owner in self._inference.lineage(cls)
                    for each in named & owner.methods.keys()
                ]
                further = [each for each in methods if each not in seen]
                pending += further
                seen.update(further)

    def _stores(self, cls: ClassInfo, name: str) -> list[AttributeStore]:
        return [each for owner in self._inference.lineage(cls) for each in owner.attributes.get(name, ())]

    def _tells(self, node: ast.expr | None, function: FunctionInfo) -> bool:
        """Whether an argument that the samples are made of is known not to hold data on a device."""
        if node is None:
            return False
        value = self._inference.frame_value(function, node)
        is_unset = value.kind is Kind.NONE and isinstance(node, ast.Attribute)  # what sets it later is not known
        if _holds_host_data(value) and not is_unset:
            return True
        if value.holds_tensors or value.device.on_accelerator:
            return False
        if value.kind is Kind.INSTANCE:
            return self.is_on_host(node, function)
        read = {part.id for part in subtree(node) if isinstance(part, ast.Name)}
        slices = [slices_of(function).at_end(name) for name in sorted(read.difference(function.parameter_names))]
        steps = (node, *(step for part in slices for step in part.run))
        if not self._stays_on_host([(each, function) for each in steps]):
            return False
        if not all(self._keeps_host_data(part, function) for step in steps for part in subtree(step)):
            return False
        names = read.union(*(part.names for part in slices))
        parameters = names & set(function.parameter_names) - {function.self_name}
        env = self._inference.frame(function).env
        others = [env[name] for name in sorted(names - parameters) if name in env]
        if any(each.device.on_accelerator or each.kind is Kind.MODULE for each in others):
            return False
        return all(_SETTINGS.search(name) is not None for name in parameters)

    def _keeps_host_data(self, node: ast.AST, function: FunctionInfo) -> bool:
        """Whether it is no attribute of the object that the data of a caller may be in."""
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name) or function.cls is None:
            return True
        if node.value.id != function.self_name or _SETTINGS.search(node.attr) or node in self._seen:
            return True
        if self._inference.method(function.cls, node.attr) is not None:
            return True  # its code is looked at
        value = self._inference.frame_value(function, node)
        if _holds_host_data(value) and value.kind is not Kind.NONE:
            return True
        self._seen.add(node)
        self._steps += 1
        stores = self._stores(function.cls, node.attr) if self._steps <= bounds.MOST_MAKING_STEPS else []
        given = [(_stored(each.function, each.target), each.function) for each in stores]
        return bool(given) and all(self._tells(*each) for each in given)

    def _stays_on_host(self, codes: list[tuple[ast.AST, FunctionInfo]]) -> bool:
        """Whether the code, each part with its function, and everything it calls leave all tensors on the host.

        Code imported from elsewhere in the project that is not visible may move them anywhere.
        """
        pending = [(code, function, 0) for code, function in codes]
        seen = {code for code, _ in codes}
        for code, function, depth in pending:
            if _loads_tensors(code) or (depth and places_on_device(code)):
                return False
            for node in subtree(code):
                if not isinstance(node, (ast.Name, ast.Attribute)) or not isinstance(node.ctx, ast.Load):
                    continue
                named = self._inference.frame_value(function, node)
                if named.kind is Kind.LIBRARY and dotted(node) in _names_of_neighbours(function.index):
                    return False
                further = [each for each in self._run_by(named) if each.node not in seen]
                if further and (depth == bounds.MOST_SAMPLE_CALLS or len(seen) > bounds.MOST_SAMPLE_FUNCTIONS):
                    return False
                pending += [(each.node, each, depth + 1) for each in further]
                seen.update(each.node for each in further)
        return True

    def _run_by(self, named: Value) -> list[FunctionInfo]:
        """The functions of the project that a call of the value runs."""
        if named.kind in (Kind.FUNCTION, Kind.METHOD):
            return [] if named.function is None else [named.function]
        if named.kind is Kind.CLASS and named.cls is not None:
            return [method for owner in self._inference.lineage(named.cls) for method in owner.methods.values()]
        return []


def _fills(function: FunctionInfo, names: set[str]) -> bool:
    """Whether a method adds what it is given to attributes of these names: `self.x.append(y)`, `self.x[key] = y`."""
    own = {f"{function.self_name}.{name}" for name in names} if function.parameter_names[1:] else set()
    calls = (node.func for node in function.nodes if isinstance(node, ast.Call))
    filled = [func.value for func in calls if isinstance(func, ast.Attribute) and func.attr in FILL]
    items = (node for node in function.nodes if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store))
    return any(dotted(each) in own for each in [*filled, *(item.value for item in items)])


def _names_of_neighbours(index: Index) -> set[str]:
    """The names that a file imports from other files of its package."""
    return index.note(
        "names of neighbours",
        lambda: {
            alias.asname or alias.name
            for statement in index.places
            if isinstance(statement, ast.ImportFrom) and statement.level
            for alias in statement.names
        },
    )


def _loads_tensors(code: ast.AST) -> bool:
    """Whether the code calls `torch.load` without mapping the result to the host.

    Otherwise the tensors return to the devices they were saved from.
    """
    calls = (node for node in subtree(code) if isinstance(node, ast.Call) and dotted(node.func) == "torch.load")
    return any(not any(map(_is_host, _places_given(call))) for call in calls)


def _places_given(call: ast.Call) -> list[ast.expr]:
    """The arguments for `map_location` of a `torch.load` call."""
    return [*call.args[1:2], *(keyword.value for keyword in call.keywords if keyword.arg == "map_location")]


def _is_host(node: ast.expr) -> bool:
    """`"cpu"` or `torch.device("cpu")`."""
    if isinstance(node, ast.Call) and dotted(node.func) == "torch.device":
        return len(node.args) == 1 and not node.keywords and _is_host(node.args[0])
    return isinstance(node, ast.Constant) and node.value == "cpu"


def places_on_device(code: ast.AST) -> bool:
    """Whether the code may put a tensor on a device: `.cuda()`, `.to(...)`, `device=`."""
    for node in subtree(code):
        if isinstance(node, ast.Call):
            if any(keyword.arg == "device" and not _is_host(keyword.value) for keyword in node.keywords):
                return True
            method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            stays = bool(node.args) and (_is_dtype(node.args[0]) or _is_host(node.args[0]))
            if method == "cuda" or (method == "to" and node.args and not stays):
                return True
    return False


def _is_dtype(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and f"torch.{node.attr}" in torch_api.DTYPES


def _lies_on_device(value: Value) -> bool:
    """Whether the value is a tensor on the accelerator, or a container of such."""
    if value.kind is Kind.CONTAINER:
        held = [item for _, item in value.items or ()]
        return any(map(_lies_on_device, held if value.element is None else [*held, value.element]))
    return value.device.on_accelerator and value.kind not in (Kind.DEVICE, Kind.STRING, Kind.METHOD)


def _holds_host_data(value: Value) -> bool:
    """Whether the value is a host tensor, no tensor at all, or a container of such."""
    if value.kind is Kind.CONTAINER:
        return value.element is not None and _holds_host_data(value.element)
    return _is_plain(value) or (value.holds_tensors and value.device is Device.CPU)


def _is_plain(value: Value) -> bool:
    """Whether the value is a string, number, array, function or the like, and so contains no tensor."""
    if value.kind is Kind.CONTAINER and value.element is not None:
        return _is_plain(value.element)
    kinds = (Kind.NUMBER, Kind.STRING, Kind.NONE, Kind.NUMPY, Kind.FUNCTION, Kind.CLASS, Kind.LIBRARY, Kind.DTYPE)
    return value.kind in kinds


def _stored(function: FunctionInfo, target: ast.expr) -> ast.expr | None:
    """The expression assigned to the target."""
    for statement in function.statements:
        if isinstance(statement, ast.Assign) and target in statement.targets:
            return statement.value
        if isinstance(statement, ast.AnnAssign) and statement.target is target:
            return statement.value
    return None


def _attributes_read(method: FunctionInfo) -> set[str]:
    """The attributes of its object that a method reads; those that it only calls are transforms."""
    called = {dotted(node.func) for node in method.nodes if isinstance(node, ast.Call)}
    return {name for name in _own_attributes(method) if f"{method.self_name}.{name}" not in called}


def _own_attributes(method: FunctionInfo) -> list[str]:
    """The names of the attributes of its object that a method mentions."""
    return [
        node.attr
        for node in method.nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == method.self_name
    ]


def _given_for(call: ast.Call, made: FunctionInfo | None, wanted: set[str]) -> Iterator[ast.expr | None]:
    """The arguments that the call of a class passes for its constructor's parameters; None if unknown."""
    if not wanted or made is None:
        yield from (None for _ in wanted)
        return
    if any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg is None for each in call.keywords):
        yield None
        return
    named = {each.arg: each.value for each in call.keywords}
    placed = dict(zip(made.parameter_names[1:], call.args, strict=False))
    for name in sorted(wanted):
        given = named.get(name, placed.get(name))
        if given is not None or name not in made.defaults:
            yield given
