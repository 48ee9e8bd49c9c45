"""Tracks objects from the call that makes them: every call on them in the file, and where they escape."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Because
from torchperf_lint.knowledge import torchmetrics_api
from torchperf_lint.knowledge.containers import ADD_ONE
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.syntax.index import FunctionInfo, last_name
from torchperf_lint.model.syntax.mapping_loops import selection
from torchperf_lint.syntax.tree import children, subtree

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import ClassInfo

_SAME_OBJECT = frozenset("to cuda cpu train eval set_dtype requires_grad_ clone".split())
_HOLDERS = frozenset(
    "torch.nn.ModuleDict torch.nn.ModuleList torchmetrics.MetricCollection torchmetrics.collections.MetricCollection "
    "builtins.dict builtins.list builtins.tuple builtins.enumerate builtins.zip builtins.reversed "
    "collections.OrderedDict".split()
)
_LOOKERS = frozenset("builtins." + name for name in "print len isinstance type id hasattr repr str callable".split())
_HOLDER_METHODS = frozenset("update forward keys compute reset state_dict append add extend clear __len__".split())
_KNOWN_ROOTS = ("torch", "torchmetrics", "lightning", "pytorch_lightning", "transformers", "builtins", "abc", "typing")
_OTHER_THINGS = (Kind.TENSOR, Kind.PYTREE, Kind.NUMBER, Kind.STRING, Kind.NUMPY, Kind.LIBRARY)


class Traced(NamedTuple):
    """The calls on an object in the file, and the first place from which unseen code may use it.

    Each call comes with the method's name (`__call__` for the object itself). A name that may or may not
    be the object counts as the object.
    """

    calls: tuple[tuple[str, ast.Call], ...]
    escape: Because | None


class Objects:
    """Tracks objects of one file on demand."""

    def __init__(self, inference: ValueQuestions) -> None:
        self.inference = inference
        self.parents: dict[ast.AST, ast.AST] = {}
        self.owners: dict[ast.AST, FunctionInfo] = {}
        self.entry_stores: list[ast.Attribute] = []  # `self.metrics` of `self.metrics[...] = ...`
        self._map(inference.index.module.node, inference.index.module)

    def _map(self, node: ast.AST, function: FunctionInfo) -> None:
        pending = [(node, function)]
        while pending:
            current, owner = pending.pop()
            inner = self.inference.index.info_of.get(current, owner)
            for child in children(current):
                self.parents[child] = current
                # Decorators and defaults belong to the enclosing function, as in value inference.
                own = (
                    inner if isinstance(inner, FunctionInfo) and isinstance(child, (ast.stmt, ast.arguments)) else owner
                )
                self.owners[child] = own
                pending.append((child, own))
                is_entry_set = isinstance(child, ast.Subscript) and isinstance(child.ctx, ast.Store)
                if is_entry_set and isinstance(child.value, ast.Attribute):  # type: ignore[attr-defined]
                    self.entry_stores.append(child.value)  # type: ignore[attr-defined]

    def trace(self, created: ast.Call) -> Traced:
        """Track the object that `created` makes."""
        return _Trace(self, created).run()


class _Trace:
    """The tracking of one object; `held` says that an expression is a container (or collection) that holds it."""

    def __init__(self, objects: Objects, created: ast.Call) -> None:
        self.inference = objects.inference
        self.parents = objects.parents
        self.owners = objects.owners
        self.entry_stores = objects.entry_stores
        self.created = created
        self.calls: dict[ast.Call, str] = {}
        self.escape: Because | None = None
        self.seen: set[object] = set()
        self.pending: list[tuple[ast.AST, bool]] = [(created, False)]
        self.under: dict[type, Callable[[ast.AST, ast.AST, bool], None]] = {
            ast.Attribute: self._attribute,
            ast.Call: self._call,
            ast.keyword: self._keyword,
            ast.Assign: self._assign,
            ast.AnnAssign: self._assign,
            ast.NamedExpr: self._named,
            ast.Subscript: self._subscript,
            ast.For: self._iterated,
            ast.AsyncFor: self._iterated,
            ast.comprehension: self._iterated,
            ast.Tuple: self._display,
            ast.List: self._display,
            ast.Set: self._display,
            ast.Dict: self._display,
            ast.ListComp: self._display,
            ast.SetComp: self._display,
            ast.DictComp: self._display,
            ast.GeneratorExp: self._display,
            ast.IfExp: self._choice,
            ast.BoolOp: self._choice,
        }
        self.harmless = (ast.Expr, ast.Compare, ast.If, ast.While, ast.Assert, ast.UnaryOp, ast.FormattedValue)

    def run(self) -> Traced:
        while self.pending:
            node, held = self.pending.pop()
            if (node, held) in self.seen:
                continue
            self.seen.add((node, held))
            if not self._can_be(node, held):
                continue
            parent = self.parents[node]
            step = self.under.get(type(parent))
            if step is not None:
                step(node, parent, held)
            elif not isinstance(parent, self.harmless):
                self._escapes(node)
        return Traced(tuple((name, call) for call, name in self.calls.items()), self.escape)

    def _can_be(self, node: ast.AST, held: bool) -> bool:
        """Whether the expression's value may be the object, or a container that holds it."""
        value = self.inference.frame_value(self.owners[node], node)  # type: ignore[arg-type]
        is_plain = value.kind is Kind.METRIC and value.ref != torchmetrics_api.COLLECTION
        if held:
            return not is_plain
        is_other = is_plain and value.created is not None and value.created is not self.created
        return value.kind is not Kind.CONTAINER and not (is_other and self._is_fixed_entry(node))

    def _is_fixed_entry(self, node: ast.AST) -> bool:
        """`metrics["loss"]`, `metrics.get("loss")`; of `self.metrics` only if no statement sets an entry of it."""
        if not isinstance(node, (ast.Subscript, ast.Call)):
            return False
        holder = node.value if isinstance(node, ast.Subscript) else getattr(node.func, "value", None)
        if not isinstance(holder, ast.Attribute):
            return True
        cls = self._class_of_self(holder)
        stores = (store for store in self.entry_stores if store.attr == holder.attr)
        return not any(self._are_related(cls, self._class_of_self(store)) for store in stores)

    def _class_of_self(self, node: ast.Attribute) -> ClassInfo | None:
        """The class around `self.x`; None for attributes of other objects."""
        return self.owners[node].cls if self._is_self(node.value) else None

    def _are_related(self, one: ClassInfo | None, other: ClassInfo | None) -> bool:
        """Whether one object may have the attributes of both classes; True if a class is unknown."""
        if one is None or other is None or one is other:
            return True
        return any({one, other} <= {*self.inference.lineage(cls)} for cls in self.inference.index.classes)

    def _element(self, node: ast.AST) -> None:
        """An element of a container may be the object, or another container that holds it."""
        self.pending += [(node, False), (node, True)]

    def _escapes(self, node: ast.AST) -> None:
        if self.escape is None:
            self.escape = Because(getattr(node, "lineno", 1), "from here it may be used out of sight")

    # -- expressions around it -----------------------------------------------------------------------------------

    def _attribute(self, node: ast.AST, parent: ast.AST, held: bool) -> None:
        assert isinstance(parent, ast.Attribute)
        call = self.parents[parent]
        if not (isinstance(call, ast.Call) and call.func is parent):
            if held:
                self._element(parent)
            elif parent.attr in ("update", "forward", "__call__"):
                self._escapes(parent)
        elif parent.attr in _SAME_OBJECT:
            self.pending.append((call, held))
        elif not held or parent.attr in _HOLDER_METHODS:
            self.calls[call] = parent.attr
        elif parent.attr in ("values", "items", "copy", "children", "modules"):
            self.pending.append((call, True))
        elif parent.attr in ("get", "pop", "setdefault"):
            self._element(call)
        else:
            self._escapes(call)

    def _call(self, node: ast.AST, parent: ast.AST, held: bool) -> None:
        assert isinstance(parent, ast.Call)
        if parent.func is node:
            self.calls[parent] = "__call__"
        else:
            position = next((place for place, argument in enumerate(parent.args) if argument is node), None)
            self._given(parent, position, held)

    def _keyword(self, node: ast.AST, parent: ast.AST, held: bool) -> None:
        assert isinstance(parent, ast.keyword)
        call = self.parents[parent]
        if isinstance(call, ast.Call) and parent.arg is not None:
            self._given(call, parent.arg, held)
        else:
            self._escapes(node)

    def _given(self, call: ast.Call, place: int | str | None, held: bool) -> None:
        """The object is an argument of the call."""
        callee = self.inference.frame_value(self.owners[call], call.func)
        if callee.ref in _LOOKERS and callee.kind is Kind.LIBRARY:
            return
        if callee.kind is Kind.LIBRARY and callee.ref in _HOLDERS:
            self.pending.append((call, True))
        elif (
            isinstance(call.func, ast.Attribute)
            and call.func.attr in ("log", "log_dict")
            and self._is_self(call.func.value)
        ):
            return  # Lightning reads a metric passed to `log` and never updates it.
        elif isinstance(call.func, ast.Attribute) and call.func.attr in ADD_ONE:
            self._bind(call.func.value, True)
        elif callee.function is not None and callee.kind in (Kind.FUNCTION, Kind.METHOD):
            self._passed(callee.function, place, call, held)
        else:
            self._escapes(call)

    def _is_self(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == self.owners[node].self_name

    def _passed(self, function: FunctionInfo, place: int | str | None, call: ast.Call, held: bool) -> None:
        arguments = function.arguments
        if arguments is None or place is None or any(isinstance(argument, ast.Starred) for argument in call.args):
            self._escapes(call)
            return
        positional = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
        named = {*positional, *(argument.arg for argument in arguments.kwonlyargs)}
        if isinstance(place, int):
            place += function.self_name is not None
            name = positional[place] if place < len(positional) else None
        else:
            name = place if place in named else None
        if name is None or function.decorators:
            self._escapes(call)
        else:
            self._follow_name(name, function, held)

    def _display(self, node: ast.AST, parent: ast.AST, held: bool) -> None:
        """An element of a tuple, list, dict or comprehension; `a, b = x, y` binds element by element."""
        around = self.parents[parent]
        if isinstance(parent, ast.Tuple) and isinstance(around, ast.Assign) and not held:
            place = parent.elts.index(node)  # type: ignore[arg-type]
            for target in around.targets:
                if isinstance(target, (ast.Tuple, ast.List)) and len(target.elts) == len(parent.elts):
                    self._bind(target.elts[place], held)
                else:
                    self._bind(target, True)
            return
        self.pending.append((parent, True))

    def _choice(self, node: ast.AST, parent: ast.AST, held: bool) -> None:
        if not (isinstance(parent, ast.IfExp) and parent.test is node):
            self.pending.append((parent, held))

    def _subscript(self, node: ast.AST, parent: ast.AST, held: bool) -> None:
        assert isinstance(parent, ast.Subscript)
        if parent.value is node and isinstance(parent.ctx, ast.Load):
            if held:
                self._element(parent)
            else:
                self._escapes(node)

    # -- names and attributes that it is bound to ----------------------------------------------------------------

    def _assign(self, node: ast.AST, parent: ast.AST, held: bool) -> None:
        if isinstance(parent, ast.AnnAssign):
            if parent.value is node:
                self._bind(parent.target, held)
        elif isinstance(parent, ast.Assign) and parent.value is node:
            for target in parent.targets:
                self._bind(target, held)

    def _named(self, node: ast.AST, parent: ast.AST, held: bool) -> None:
        assert isinstance(parent, ast.NamedExpr)
        self._bind(parent.target, held)
        self.pending.append((parent, held))

    def _iterated(self, node: ast.AST, parent: ast.AST, held: bool) -> None:
        """`for m in holder`: any part of the target may be the object."""
        if getattr(parent, "iter", None) is not node:
            return
        for part in subtree(parent.target):  # type: ignore[attr-defined]
            if isinstance(part, (ast.Name, ast.Attribute)) and isinstance(part.ctx, ast.Store):
                self._bind(part, False)
                self._bind(part, True)
        if not held:
            self._escapes(node)

    def _bind(self, target: ast.expr, held: bool) -> None:
        function = self.owners[target]
        if isinstance(target, ast.Subscript):
            self._bind(target.value, True)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for part in target.elts:
                self._bind(part, held)
        elif isinstance(target, ast.Name):
            cls = self._class_body(target)
            if cls is None and isinstance(target.ctx, ast.Load):
                self._put_into(target, function)
            elif cls is None:
                self._follow_name(target.id, function, held)
            else:
                self._follow_attribute(target.id, cls, held, target)
        elif isinstance(target, ast.Attribute) and self._is_self(target.value) and function.cls is not None:
            self._follow_attribute(target.attr, function.cls, held, target)
        else:
            self._escapes(target)

    def _put_into(self, holder: ast.Name, function: FunctionInfo) -> None:
        """The object is put into a container by name: one made in this file, or an unknown one."""
        name, user = holder.id, function
        if self.inference.frame_value(function, holder).kind not in (Kind.CONTAINER, Kind.MODULE, Kind.METRIC):
            self._escapes(holder)
        while name not in self._names_bound(function) and function.outer is not None:
            function = function.outer
        # Other code can find what a function puts into its parameter or into a global registry.
        if name in function.parameter_names or (function is not user and function.outer is None):
            self._escapes(holder)
        self._follow_name(name, function, True)

    def _names_bound(self, function: FunctionInfo) -> set[str]:
        stored = {
            node.id
            for node, owner in self.owners.items()
            if owner is function and isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        return stored | set(function.parameter_names)

    def _class_body(self, node: ast.AST) -> ClassInfo | None:
        current = self.parents[node]
        while not isinstance(current, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.Module)):
            if isinstance(current, ast.ClassDef):
                return self.inference.index.info_of[current]  # type: ignore[return-value]
            current = self.parents[current]
        return None

    def _follow_name(self, name: str, function: FunctionInfo, held: bool) -> None:
        key = (name, function, held)
        if key in self.seen:
            return
        self.seen.add(key)
        for node in self.owners:
            if isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names:
                self._escapes(node)
            is_read = isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
            if not (is_read and self._sees(self.owners[node], function) and self._may_be_it(node)):
                continue
            if held or not self._is_passed_over(node):
                self.pending.append((node, held))

    def _is_passed_over(self, node: ast.AST) -> bool:
        """Whether the name is an item of a mapping whose key for the object never reaches this loop iteration."""
        assert isinstance(node, ast.Name)
        chosen = selection(node, self.parents)
        if chosen is None:
            return False
        items = self.inference.frame_value(self.owners[chosen.holder], chosen.holder).items or ()
        if any(value.created is None for _, value in items):
            return False
        keys = [key for key, value in items if value.created is self.created]
        return bool(keys) and not any(map(chosen.reaches, keys))

    def _sees(self, inner: FunctionInfo | None, outer: FunctionInfo) -> bool:
        while inner is not None and inner is not outer:
            inner = inner.outer
        return inner is outer

    def _follow_attribute(self, name: str, cls: ClassInfo, held: bool, place: ast.AST) -> None:
        key = (name, None, held)
        if key in self.seen:
            return
        self.seen.add(key)
        if not self._closed(cls):
            self._escapes(place)
        for node in self.owners:
            if isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Load):
                if self._are_related(cls, self._class_of_self(node)) and self._may_be_it(node):
                    self.pending.append((node, held))
            elif isinstance(node, ast.Call) and last_name(node.func) in ("getattr", "attrgetter", "vars"):
                asked = node.args[-1] if len(node.args) < 3 and node.args else node.args[1] if node.args else None
                if not isinstance(asked, ast.Constant) or asked.value == name:
                    self._escapes(node)

    def _closed(self, cls: ClassInfo) -> bool:
        """Whether all bases of the class are in the program or in a known library."""
        for current in self.inference.lineage(cls):
            for base in current.node.bases:
                value = self.inference.frame_value(current.scope, base)
                known = value.kind is Kind.LIBRARY and (value.ref or "").partition(".")[0] in _KNOWN_ROOTS
                if not known and value.kind is not Kind.CLASS:
                    return False
        return True

    def _may_be_it(self, node: ast.AST) -> bool:
        assert isinstance(node, ast.expr)
        value = self.inference.frame_value(self.owners[node], node)
        if value.kind is Kind.METRIC and value.element is None:
            return value.created is None or value.created is self.created
        return value.kind not in _OTHER_THINGS
