"""Tensors that are certainly made on the host, from sizes and numbers alone: the calls that make them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.knowledge import distributions_api, torch_api
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.values import UNKNOWN, Device, Kind, Value
from torchperf_lint.model.handles import FunctionInfo, dotted, last_name
from torchperf_lint.syntax.tree import children, subtree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from torchperf_lint.model import Model

PLAIN_KEYWORDS = frozenset("dtype size fill_value start end step n m steps low high base data window_length".split())
"""Factory arguments that do not bind the tensor to the host: no generator, no pinning, no leaf for autograd."""

_MOVERS = ("to", "cuda", "type_as")
_NEUTRAL = (Kind.NUMBER, Kind.STRING, Kind.DTYPE, Kind.NONE)
_LEAVES_TORCH = frozenset(
    "cpu cuda numpy item tolist pin_memory share_memory_ requires_grad_ backward register_hook retain_grad copy_ "
    "set_ record_stream __array__ data_ptr".split()
)
_READ_FROM_MEMORY = frozenset("torch." + name for name in "load from_numpy from_file frombuffer from_dlpack".split())
_SHAPE_ONLY = torch_api.METADATA_ATTRIBUTES | torch_api.METADATA_METHODS | torch_api.NEW_TENSOR_METHODS | {"device"}
_TENSOR_WORDS = frozenset(
    "size shape dim view reshape float long half permute unsqueeze squeeze cuda cpu to device flatten ndim dtype numel "
    "repeat expand transpose sum mean item tolist detach numpy".split()
)
_SIZE_FIRST = frozenset({"torch.zeros", "torch.ones", "torch.empty"})
_HOST_LIBRARIES = ("builtins.", "math.", "random.")
_NUMBERS_OF_NUMPY = frozenset("numpy." + name for name in "log log2 log10 exp sqrt prod power ceil floor".split())
_KEEPS_FUNCTION = frozenset("staticmethod classmethod no_grad inference_mode".split())
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_COMPREHENSIONS = (ast.ListComp, ast.GeneratorExp)


class Maker(NamedTuple):
    """A call that makes a tensor on the host; `packs` names its data, None if only sizes and numbers."""

    call: ast.Call
    function: FunctionInfo
    packs: str | None

    @property
    def name(self) -> str:
        """The called function, as written."""
        return ast.unparse(self.call.func)


_Makers = tuple[Maker, ...]


def _is_plain(call: ast.Call) -> bool:
    """Whether a factory has no arguments that bind the tensor to the host."""
    return all(keyword.arg in PLAIN_KEYWORDS for keyword in call.keywords)


def packs_host_data(node: ast.expr, value: Value) -> bool:
    """Whether an expression is a list, tuple, range or shape, whatever it holds; not an empty one."""
    if isinstance(node, (ast.List, ast.Tuple)):
        return any(not isinstance(each, (ast.List, ast.Tuple)) or packs_host_data(each, UNKNOWN) for each in node.elts)
    if value.kind is Kind.CONTAINER and value.ref in ("list", "tuple", "range"):
        return value.element is not None
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        node = node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr == "size" and not node.args and not node.keywords
    return isinstance(node, ast.Attribute) and node.attr == "shape"


def packed_kind(node: ast.expr, value: Value) -> str:
    """The kind of the packed data, in words; for an expression that satisfies `packs_host_data`."""
    if isinstance(node, ast.List) or value.ref == "list":
        return "a list"
    return "a range" if value.ref == "range" else "a tuple"


def gives_size(node: ast.expr, value_of: Callable[[ast.expr], Value]) -> bool | None:
    """Whether an expression is a `torch.Size`, from which the old constructors make a tensor of that size.

    None if that depends on whose shape it is: an array's is a tuple of data.
    """
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        node = node.value
    if isinstance(node, ast.Attribute) and node.attr == "shape":
        owner = value_of(node.value)
        return True if owner.holds_tensors else False if owner.kind is Kind.NUMPY else None
    return isinstance(node, ast.Call) and last_name(node.func) in ("size", "Size")


class HostMade:
    """Host-made tensors of one file: whether what a move copies is made here on the host; empty if unknown."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._functions: dict[FunctionInfo, _Tracer] = {}

    def makers(self, node: ast.expr, function: FunctionInfo) -> _Makers:
        """The calls, in the same hot code, that make the moved tensor; empty if it has any other source."""
        tracer = self.tracer(function, 0)
        makers = tracer.makers(node)
        return makers if makers and tracer.serve_moves(node) else ()

    def tracer(self, function: FunctionInfo, depth: int) -> _Tracer:
        """The tracer of one function, `depth` calls away from the move."""
        if depth:
            return _Tracer(self, function, depth)
        if function not in self._functions:
            self._functions[function] = _Tracer(self, function, 0)
        return self._functions[function]

    def value(self, function: FunctionInfo, node: ast.expr) -> Value:
        """The value of an expression of the function."""
        return self._model.value_in(function, node)

    def may_be_rebound(self, function: FunctionInfo, name: str) -> bool:
        """Whether other functions of its file may bind a name of the function."""
        return self._model.home(function).may_be_rebound(name)

    def is_hot(self, statement: ast.stmt) -> bool:
        """Whether a statement of this file runs in every step."""
        return self._model.hot_path_of(statement) is not None


class _Tracer:
    """Traces what one function makes on the host."""

    def __init__(self, owner: HostMade, function: FunctionInfo, depth: int) -> None:
        self._owner = owner
        self._function = function
        self._depth = depth
        self._parents = function.parents
        self._names = [node for node in function.nodes if isinstance(node, ast.Name)]
        self._attributes_read: dict[str, set[str]] = {}
        for node in self._parents:
            if isinstance(node, ast.Attribute):
                self._attributes_read.setdefault(dotted(node.value) or "", set()).add(node.attr)
        self._asked: set[ast.expr] = set()
        self._cache: dict[ast.expr, _Makers | None] = {}

    # -- makers of an expression -----------------------------------------------------------------------------------

    def makers(self, node: ast.expr) -> _Makers | None:
        """The calls that make an expression's tensors; () if it holds none, None if one has another source."""
        if node not in self._cache:
            if node in self._asked:
                return ()  # a name that is bound to an expression of itself
            self._asked.add(node)
            self._cache[node] = self._makers(node)
        return self._cache[node]

    def _makers(self, node: ast.expr) -> _Makers | None:
        value = self._value(node)
        is_there = value.device.on_accelerator and value.kind is not Kind.METHOD
        if is_there or value.origin is not None or value.kind is Kind.PYTREE:
            return None
        if isinstance(node, (ast.Constant, ast.Slice)) or _is_neutral(value):
            return ()
        if isinstance(node, ast.Call):
            return self._called(node)
        if isinstance(node, ast.Name) and (value.holds_tensors or value.kind is Kind.CONTAINER):
            return self._bound(node)
        if isinstance(node, ast.Attribute) and value.holds_tensors:
            return self.makers(node.value) if node.attr in torch_api.TENSOR_ATTRIBUTES else None
        if isinstance(node, ast.Subscript) and self.makers(node.value):
            return self._all((node.value, node.slice))
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            return self._number(node)
        parts = _parts(node)
        return None if parts is None else self._all(parts)

    def _all(self, nodes: Iterable[ast.expr]) -> _Makers | None:
        found: _Makers = ()
        for node in nodes:
            makers = self.makers(node)
            if makers is None:
                return None
            found += makers
        return found

    def _number(self, node: ast.expr) -> _Makers | None:
        """() for a value without evidence of being a tensor, which may therefore be a number."""
        value = self._value(node)
        if value.kind is Kind.LIBRARY:
            return () if (value.ref or "").startswith(("math.", "numpy.")) else None
        held = value.element if value.kind is Kind.METHOD else value
        if isinstance(node, ast.Subscript):
            return self._number(node.value)
        path = dotted(node)
        if path is None or held is None or held.kind not in (Kind.UNKNOWN, Kind.INSTANCE, Kind.MODULE):
            return None
        return None if self._attributes_read.get(path, set()) & _TENSOR_WORDS else ()

    def _called(self, node: ast.Call) -> _Makers | None:
        if any(keyword.arg in (None, "generator", "device", "pin_memory") for keyword in node.keywords):
            return None
        if any(keyword.arg == "out" and not self.makers(keyword.value) for keyword in node.keywords):
            return None
        callee = self._value(node.func)
        if callee.kind is Kind.LIBRARY:
            return self._library(node, callee.ref or "")
        if callee.function is not None:
            return self._helper(node, callee.function)
        if not isinstance(node.func, ast.Attribute):
            return None
        drawn_from = (callee.element or UNKNOWN).ref
        if drawn_from in distributions_api.FAMILIES and node.func.attr in distributions_api.DRAW:
            on_host = self._value(node).device is Device.CPU
            return (Maker(node, self._function, None),) if on_host else None
        name, made = node.func.attr, self.makers(node.func.value)
        if not made:
            is_size = name in torch_api.METADATA_METHODS and not self._value(node).holds_tensors
            return () if is_size else None
        if name in _LEAVES_TORCH or (name in ("to", "type", "type_as") and not self._only_casts(node)):
            return None
        if name in torch_api.LAY_OUT_BY_SIZES:
            return made
        rest = self._all(self._given(node))
        return None if rest is None else made + rest

    def _given(self, node: ast.Call) -> Iterator[ast.expr]:
        yield from (arg.value if isinstance(arg, ast.Starred) else arg for arg in node.args)
        yield from (keyword.value for keyword in node.keywords)

    def _only_casts(self, node: ast.Call) -> bool:
        """`x.to(torch.long)`, `x.type(dtype)`."""
        given = list(self._given(node))
        return len(given) == 1 and self._value(given[0]).kind is Kind.DTYPE

    def _library(self, node: ast.Call, ref: str) -> _Makers | None:
        first = node.args[0] if node.args else None
        if ref in torch_api.HOST_DATA_FACTORIES or ref in torch_api.LEGACY_FACTORIES:
            return self._of_data(node, ref, first)
        if ref in torch_api.FACTORIES:
            is_empty = ref in _SIZE_FIRST and first is not None and self._value(first).constant == 0
            on_host = self._value(node).device is Device.CPU and _is_plain(node)
            return (Maker(node, self._function, None),) if on_host and not is_empty else None
        if ref.startswith(_HOST_LIBRARIES) or ref in _NUMBERS_OF_NUMPY:
            return None if any(self.makers(each) != () for each in self._given(node)) else ()
        gives = self._value(node)
        if not ref.startswith("torch.") or ref in _READ_FROM_MEMORY or first is None:
            return None
        if not gives.holds_tensors and gives.kind is not Kind.CONTAINER:
            return None
        whole = first.elts if isinstance(first, (ast.List, ast.Tuple)) else [first]
        if not all(self.makers(each) or _is_neutral(self._value(each)) for each in whole):
            return None
        if last_name(node.func) in torch_api.LAY_OUT_BY_SIZES:
            return self.makers(first)
        return self._all(self._given(node))

    def _of_data(self, node: ast.Call, ref: str, first: ast.expr | None) -> _Makers | None:
        if first is None or not _is_plain(node) or self._value(node).device is not Device.CPU:
            return None
        value = self._value(first)
        is_size = gives_size(first, self._value) if ref in torch_api.LEGACY_FACTORIES else False
        if is_size is not False:
            return (Maker(node, self._function, None),) if is_size else None
        if packs_host_data(first, value):
            return (Maker(node, self._function, packed_kind(first, value)),)
        if value.kind is Kind.NUMBER:
            packs = None if ref in torch_api.LEGACY_FACTORIES else "a Python number"  # they treat it as a size
            return (Maker(node, self._function, packs),)
        return None

    def _helper(self, node: ast.Call, function: FunctionInfo) -> _Makers | None:
        """A function of the project that makes everything it returns."""
        value = self._value(node)
        kept = {last_name(each.func if isinstance(each, ast.Call) else each) for each in function.decorators}
        if value.kind is not Kind.TENSOR or value.device is not Device.CPU or not kept <= _KEEPS_FUNCTION:
            return None
        if function.is_generator or self._depth >= bounds.MOST_HELPERS_DEEP or function is self._function:
            return None
        if any(self._value(each).holds_tensors or self._value(each).kind is Kind.NUMPY for each in self._given(node)):
            return None
        inner = self._owner.tracer(function, self._depth + 1)
        returned = [each.value for each in _own_statements(function) if isinstance(each, ast.Return)]
        found: _Makers = ()
        for each in returned:
            makers = None if each is None else inner.makers(each)
            if each is None or not makers or not inner.serve_moves(each):
                return None
            found += makers
        return found or None

    # -- names -----------------------------------------------------------------------------------------------------

    def _bound(self, name: ast.Name) -> _Makers | None:
        """The makers of every value that a local name may have here."""
        value = self._value(name)
        if value.holds_tensors and value.device is not Device.CPU:
            return None
        if name.id in self._function.parameter_names or self._owner.may_be_rebound(self._function, name.id):
            return None
        found: _Makers = ()
        for store in self._stores(name):
            bound = self._binding(store)
            if bound is None or (not self._depth and not self._owner.is_hot(self._statement(store))):
                return None
            is_empty = isinstance(bound, ast.List) and not bound.elts
            makers = self._all(self._appended(name.id)) if is_empty else self.makers(bound)
            if makers is None:
                return None
            found += makers
        return found or None

    def _appended(self, name: str) -> Iterator[ast.expr]:
        """What the function appends to a list of that name."""
        for node in self._parents:
            if isinstance(node, ast.Call) and dotted(node.func) == f"{name}.append":
                yield from node.args

    def _stores(self, name: ast.Name) -> Iterator[ast.Name]:
        """The places that bind the name and may run before it is read here."""
        again = [loop for loop in self._around(name) if isinstance(loop, _LOOPS)]
        for store in self._names:
            if store.id != name.id or not isinstance(store.ctx, ast.Store) or not self._is_own(store):
                continue
            before = (store.lineno, store.col_offset) < (name.lineno, name.col_offset)
            repeated = any(loop.lineno <= store.lineno <= (loop.end_lineno or 0) for loop in again)
            on_device = self._value(store).device.on_accelerator
            same_statement = self._statement(store) is self._statement(name) and not repeated
            excluded = not repeated and self._exclude_each_other(store, name)
            if (before or repeated) and not on_device and not same_statement and not excluded:
                yield store

    def _exclude_each_other(self, one: ast.AST, other: ast.AST) -> bool:
        """Whether the nodes stand in different branches of an `if`."""
        arms = {id(around): self._arm(around, one) for around in self._around(one) if isinstance(around, ast.If)}
        others = [(id(each), self._arm(each, other)) for each in self._around(other) if isinstance(each, ast.If)]
        return any(id_ in arms and {arm, arms[id_]} == {"body", "orelse"} for id_, arm in others)

    def _arm(self, test: ast.If, node: ast.AST) -> str:
        """The field of the `if` that holds the node."""
        child = node
        while self._parents[child] is not test:
            child = self._parents[child]
        return "test" if child is test.test else "body" if child in test.body else "orelse"

    def _binding(self, store: ast.Name) -> ast.expr | None:
        """The expression that a name is bound to, or (with several names) whose parts it is bound to."""
        parent = self._parents[store]
        if isinstance(parent, (ast.Tuple, ast.List)):
            whole, parent = parent, self._parents[parent]
            if isinstance(parent, ast.Assign) and isinstance(parent.value, (ast.Tuple, ast.List)):
                same = len(parent.value.elts) == len(whole.elts)
                return parent.value.elts[whole.elts.index(store)] if same else None
        if isinstance(parent, ast.Assign) and len(parent.targets) > 1:
            return None  # a value with two names may be used under the other one
        return parent.value if isinstance(parent, (ast.Assign, ast.AnnAssign, ast.AugAssign)) else None

    def serve_moves(self, node: ast.expr) -> bool:
        """Whether the names in an expression are read only for moves, as are the names that they are made of."""
        pending, names = [node], dict[str, None]()
        while pending:
            for name in subtree(pending.pop()):
                if isinstance(name, ast.Name) and name.id not in names and self._gives_made(name):
                    names[name.id] = None
                    bound = (self._binding(store) for store in self._stores(name))
                    pending += [each for each in bound if each is not None]
                    pending += self._appended(name.id)
        seen: set[str] = set()
        return all(self._serves_moves(name, seen) for name in names)

    def _serves_moves(self, name: str, seen: set[str]) -> bool:
        """Whether the function reads the host tensor only to move it, or to make others that are only moved."""
        if name in seen:
            return True
        seen.add(name)
        nodes = [node for node in self._names if node.id == name]
        stores = [each for each in nodes if isinstance(each.ctx, ast.Store)]
        made = [each for each in stores if self._gives_made(self._binding(each))]
        loads = [each for each in nodes if isinstance(each.ctx, ast.Load) and not self._reads_other(each, stores, made)]
        return all(self._value(load).device.on_accelerator or self._serves(load, seen) for load in loads)

    def _reads_other(self, load: ast.Name, stores: list[ast.Name], made: list[ast.Name]) -> bool:
        """Whether a read gets what its own branch binds, where other branches bind what is made on the host."""
        if not made or not all(self._exclude_each_other(each, load) for each in made):
            return False
        return any(each.lineno < load.lineno and not self._exclude_each_other(each, load) for each in stores)

    def _serves(self, load: ast.Name, seen: set[str]) -> bool:
        """Whether one read of a name ends in a move, in the tensor's own shape, or in names that do."""
        if isinstance(target := self._parents[load], ast.Subscript) and isinstance(target.ctx, ast.Store):
            return target.value is load and self._writes_numbers(target, load)
        node: ast.expr = load
        while True:
            parent = self._parents[node]
            parent = self._parents[parent] if isinstance(parent, ast.keyword) else parent
            if not isinstance(parent, ast.expr):
                return self._keeps(parent, load, seen)
            if isinstance(parent, ast.Attribute):
                call = self._parents[parent]
                moves = parent.attr in _MOVERS and isinstance(call, ast.Call) and not self._gives_made(call)
                if moves or parent.attr in _SHAPE_ONLY or parent.attr == "append":
                    return True
                parent = call if isinstance(call, ast.Call) and call.func is parent else parent
            elif isinstance(parent, ast.Subscript) and parent.slice is node and self._on_device(parent.value):
                return True
            if not self._gives_made(parent):
                return False
            node = parent

    def _keeps(self, statement: ast.AST, load: ast.Name, seen: set[str]) -> bool:
        """Whether a statement binds the tensor to names that serve moves, returns it, or writes into it once."""
        if not isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            is_given_back = isinstance(statement, ast.Return) and self._depth > 0
            return is_given_back or (isinstance(statement, ast.Expr) and self._is_written_once(load))
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        parts = [part for each in targets for part in (each.elts if isinstance(each, ast.Tuple) else [each])]
        return all(self._takes(part, seen) for part in parts)

    def _takes(self, target: ast.expr, seen: set[str]) -> bool:
        owner = target.value if isinstance(target, ast.Subscript) else target
        return isinstance(owner, ast.Name) and self._serves_moves(owner.id, seen)

    def _gives_made(self, node: ast.AST | None) -> bool:
        return isinstance(node, ast.expr) and bool(self.makers(node))

    def _on_device(self, node: ast.expr) -> bool:
        return self._value(node).device.on_accelerator

    def _writes_numbers(self, target: ast.Subscript, load: ast.Name) -> bool:
        """`mask[:, 0] = 1`, and not element by element."""
        parent = self._parents[target]
        is_plain = isinstance(parent, (ast.Assign, ast.AugAssign)) and self.makers(parent.value) is not None
        return is_plain and self._is_written_once(load)

    def _is_written_once(self, load: ast.Name) -> bool:
        """Whether no loop repeats the read without rebinding the name: filling it repeatedly is host work."""
        loops = {each for each in self._around(load) if isinstance(each, _LOOPS)}
        stores = [each for each in self._names if each.id == load.id and isinstance(each.ctx, ast.Store)]
        return any(loops <= set(self._around(store)) for store in stores)

    # -- places ----------------------------------------------------------------------------------------------------

    def _is_own(self, node: ast.AST) -> bool:
        """Whether the node is in this function, and not in a nested one."""
        scopes = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
        around = next((each for each in self._around(node) if isinstance(each, scopes)), self._function.node)
        return around is self._function.node

    def _value(self, node: ast.expr) -> Value:
        return self._owner.value(self._function, node)

    def _around(self, node: ast.AST) -> Iterator[ast.AST]:
        around = self._parents.get(node)
        while around is not None:
            yield around
            around = self._parents.get(around)

    def _statement(self, node: ast.AST) -> ast.stmt:
        return next(each for each in self._around(node) if isinstance(each, ast.stmt))


def _is_neutral(value: Value) -> bool:
    """Whether the value is a number, a string, a dtype, or a container of such."""
    while value.kind is Kind.CONTAINER and value.element is not None:
        value = value.element
    return value.kind in _NEUTRAL


def _parts(node: ast.expr) -> list[ast.expr] | None:
    """The operands whose values make up that of an operator, a display or a comprehension."""
    if isinstance(node, ast.BinOp):
        parts = [node.right]
        while isinstance(node.left, ast.BinOp):
            node = node.left
            parts.append(node.right)
        return [node.left, *reversed(parts)]
    if isinstance(node, ast.UnaryOp):
        return [node.operand]
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, (ast.List, ast.Tuple)):
        return node.elts
    return [node.elt] if isinstance(node, _COMPREHENSIONS) else None


def _own_statements(function: FunctionInfo) -> Iterator[ast.stmt]:
    """The statements of a function without those of nested functions."""
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        if isinstance(node, ast.stmt):
            yield node
        pending.extend(children(node))
