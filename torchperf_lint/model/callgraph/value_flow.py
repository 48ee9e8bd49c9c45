"""Where functions and objects go as values: names, attributes, containers, arguments and results, in any file.

A search begins where a function is named without being called, or where an object is made, and goes forward to the
calls that use the value. It asks for values without callers only, so it never depends on itself.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.knowledge.containers import FILL
from torchperf_lint.model import bounds
from torchperf_lint.model.callgraph import (
    calling,
    class_unions,
    constructors,
    hierarchy,
    implicit,
    reaching,
    registered,
    trees,
)
from torchperf_lint.model.callgraph.dispatch import Lookups
from torchperf_lint.model.domain.accelerator_tests import is_for_host, parts_on_accelerator
from torchperf_lint.model.domain.flows import Flow, Handing, still_handed
from torchperf_lint.model.domain.grades import Grade
from torchperf_lint.model.domain.values import Kind, Registry
from torchperf_lint.model.syntax.arguments import parameter_at
from torchperf_lint.model.syntax.index import ClassInfo, FunctionInfo, last_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.syntax.index import CallRecord, Index

_HOLDERS = frozenset(
    "list tuple set reversed sorted enumerate iter deque ModuleList ModuleDict OrderedDict dict".split()
)
_SAME = frozenset("to cuda cpu train eval requires_grad_".split())
_PARTS = frozenset("values items copy".split())
_ENTRIES = frozenset("get pop popleft".split())


class _Spot(NamedTuple):
    """An expression that may be the value, or a container that holds it, under `key` if that is a known literal."""

    node: ast.AST
    file: Index
    held: bool = False
    is_method: bool = False  # the value is the method itself, and no longer the object
    shifted: bool = False
    handed: tuple[Handing, ...] = ()
    grade: Grade = Grade.PROVEN
    key: object = None
    is_guess: bool = False


def flows(inference: ValueQuestions, function: FunctionInfo) -> tuple[Flow, ...]:
    """The calls that the function, or an object whose method it is, reaches as a value; none beyond the bound."""
    return tuple(_Search(inference, function).run())


class _Search:
    """One search; `inference` is that of the function's file."""

    def __init__(self, inference: ValueQuestions, function: FunctionInfo) -> None:
        self.inference = inference
        self.function = function
        self.found: dict[tuple[ast.Call, tuple[Handing, ...]], Flow] = {}
        self.pending: list[_Spot] = []
        self.seen: set[_Spot] = set()
        self.places: set[_Spot] = set()  # the same, whatever calls lead there

    def run(self) -> Iterator[Flow]:
        self.pending += self._sources()
        while self.pending:
            spot = self.pending.pop(0)
            if spot in self.seen:
                continue
            self.seen.add(spot)
            self.places.add(spot._replace(handed=()))
            if len(self.places) > bounds.MOST_PLACES_OF_VALUE or len(self.seen) > bounds.MOST_WAYS_OF_VALUE:
                return
            self._follow(spot)
        yield from self.found.values()

    # -- where it begins -----------------------------------------------------------------------------------------

    def _sources(self) -> Iterator[_Spot]:
        function = self.function
        if function.is_lambda:
            yield _Spot(function.node, function.index, is_method=True)
            return
        if function.cls is None:
            yield from self._named_function()
            for node, index in registered.given(self.inference.program, function):
                yield _Spot(node, index, is_method=True, grade=Grade.BY_HIERARCHY)
            return
        if function.name == "__init__":
            yield from self._named_classes()
            return
        makers = [cls for cls in self._classes() if self.inference.method(cls, function.name) is function]
        for cls in makers:
            for index in self._files_naming(cls):
                for record in index.calls_named(cls.name):
                    if self._makes(record, cls):
                        yield _Spot(record.call, index)
            for call, index in registered.builds(self.inference.program, cls) if function.name == "__call__" else ():
                yield _Spot(call, index, grade=Grade.BY_HIERARCHY)
        if not function.name.startswith("__"):
            indexes = [cls.index for cls in (*self.inference.lineage(function.cls), *makers)]
            for index in dict.fromkeys([*indexes, *self._files_keeping_it()]):
                for node in trees.upside_down(index).attributes.get(function.name, ()):
                    if not self._is_called(node, index) and self._is_of(node.value, index, function.cls):
                        yield _Spot(node, index, is_method=True)
        yield from self._looked_up(function.cls)

    def _files_keeping_it(self) -> list[Index]:
        """The other files that may keep the bound method: `act = self.policy.act`; not where any class may have one."""
        program, function = self.inference.program, self.function
        if program is None or implicit.is_property(function) or not hierarchy.is_telling(function):
            return []
        return [file.index for file in program.naming_method(function)]

    def _looked_up(self, cls: ClassInfo) -> Iterator[_Spot]:
        """Where the method is looked up by its name: in an object of the class, or in one of unknown class."""
        for lookup in Lookups(self.inference.home, self.function).found():
            index, receiver = lookup.function.index, lookup.call.args[0]
            spot = _Spot(lookup.call, index, is_method=True)
            if self._is_of(receiver, index, cls):
                yield spot if lookup.is_shown else spot._replace(grade=Grade.BY_HIERARCHY, is_guess=True)
            elif lookup.is_shown and hierarchy.may_hold(self.inference, receiver, lookup.function, self.function):
                yield spot._replace(grade=Grade.BY_HIERARCHY)

    def _classes(self) -> list[ClassInfo]:
        cls, program = self.function.cls, self.inference.program
        assert cls is not None
        return [cls, *(() if program is None else program.heirs(cls))]

    def _files_naming(self, cls: ClassInfo) -> list[Index]:
        program = self.inference.program
        return [cls.index, *(() if program is None else (file.index for file in program.calling_class(cls)))]

    def _makes(self, record: CallRecord, cls: ClassInfo) -> bool:
        program = self.inference.program
        meant = None if program is None else calling.named(program, record)
        if meant is not None:
            return meant is cls
        home = self.inference.home(record.function.index)
        return home.seen_alone(record.function, record.call.func).cls is cls

    def _named_function(self) -> Iterator[_Spot]:
        function = self.function
        for home in self.inference.files_passing(function):
            tables, is_own = trees.upside_down(home.index), home.index is function.index
            for node in (*tables.names.get(function.name, ()), *tables.attributes.get(function.name, ())):
                owner, is_name = trees.owner_of(node, home.index), isinstance(node, ast.Name)
                if self._is_called(node, home.index) or (is_name and not calling.may_name(node, owner, function)):
                    continue
                if not (is_own and is_name) and home.seen_alone(owner, node).function is not function:
                    continue  # another one by that name; `layers.f` is the function of a module
                yield _Spot(node, home.index, is_method=True)

    def _named_classes(self) -> Iterator[_Spot]:
        """Where a class that the constructor makes objects of is named; calls of classes below are found at once."""
        for record in constructors.calls_by_heirs(self.inference, self.function):
            self.found[record.call, ()] = Flow(record, shifted=False)
        for cls in constructors.built_by(self.inference, self.function):
            program = self.inference.program
            passing = () if program is None else (file.index for file in program.files_passing(cls))
            for index in dict.fromkeys([*self._files_naming(cls), *passing]):
                for record in index.calls_named(cls.name) if cls is not self.function.cls else ():
                    if self._makes(record, cls):
                        self.found[record.call, ()] = Flow(record, shifted=False)
                tables, home = trees.upside_down(index), self.inference.home(index)
                for node in (*tables.names.get(cls.name, ()), *tables.attributes.get(cls.name, ())):
                    parent = tables.parents.get(node)
                    if not isinstance(node.ctx, ast.Load) or self._is_called(node, index) or _is_large(parent):
                        continue
                    if home.seen_alone(trees.owner_of(node, index), node).cls is cls:
                        yield _Spot(node, index, is_method=True)

    # -- one step ------------------------------------------------------------------------------------------------

    def _follow(self, spot: _Spot) -> None:
        node, index = spot.node, spot.file
        tables = trees.upside_down(index)
        parent = tables.parents.get(node)
        if isinstance(parent, ast.Call) and parent.func is node:
            if not spot.held and (spot.is_method or self.function.name == "__call__"):
                self._land(parent, spot)
        elif isinstance(parent, ast.Call):
            self._given(parent, parent.args.index(node), spot)  # type: ignore[arg-type]
        elif isinstance(parent, ast.keyword):
            call = tables.parents[parent]
            if isinstance(call, ast.Call) and parent.arg is not None:
                self._given(call, parent.arg, spot)
        elif isinstance(parent, ast.Attribute):
            self._attribute(parent, spot)
        elif isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
            place = index.places.get(parent) if isinstance(parent, ast.stmt) else None
            if place is not None and is_for_host(place):
                return
            targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
            if parent.value is node:
                for target in targets:
                    self._bind(target, spot)
            if isinstance(parent, ast.NamedExpr):
                self._go(parent, spot)
        elif isinstance(parent, (ast.IfExp, ast.BoolOp, ast.Starred, ast.Await)):
            if not isinstance(parent, ast.IfExp) or node in parts_on_accelerator(parent):
                self._go(parent, spot)
        elif (
            isinstance(parent, ast.Dict)
            and self.function.name == "__init__"
            and len(parent.values) > bounds.MOST_CLASSES
        ):
            return  # each of its classes would be followed through all that is done with the table
        elif isinstance(parent, (ast.List, ast.Tuple, ast.Set, ast.Dict)) or (
            isinstance(parent, (ast.ListComp, ast.SetComp, ast.GeneratorExp)) and parent.elt is node
        ):
            self._go(parent, spot._replace(held=True, key=trees.key_in(parent, node)))
        elif isinstance(parent, ast.Subscript) and parent.value is node and spot.held:
            if isinstance(parent.ctx, ast.Load) and not _is_other_key(parent.slice, spot):
                self._go(parent, spot._replace(held=isinstance(parent.slice, ast.Slice), key=None))
        elif isinstance(parent, (ast.For, ast.AsyncFor, ast.comprehension)) and parent.iter is node and spot.held:
            self._loop(parent, spot)
        elif isinstance(parent, ast.Return):
            self._returned(parent, spot)

    def _go(self, node: ast.AST, spot: _Spot) -> None:
        self.pending.append(spot._replace(node=node))

    def _land(self, call: ast.Call, spot: _Spot) -> None:
        record = trees.upside_down(spot.file).records.get(call)
        if record is not None and not self._is_other(call.func, spot):
            handed = still_handed(spot.handed, record.function)
            self.found.setdefault((call, handed), Flow(record, spot.shifted, handed, spot.grade, spot.is_guess))

    def _attribute(self, parent: ast.Attribute, spot: _Spot) -> None:
        call = trees.upside_down(spot.file).parents.get(parent)
        called = call if isinstance(call, ast.Call) and call.func is parent else None
        if spot.held:
            is_another = called is not None and any(_is_other_key(each, spot) for each in called.args[:1])
            if called is not None and parent.attr in _PARTS | _ENTRIES and not is_another:
                key = spot.key if parent.attr == "copy" else None
                self._go(called, spot._replace(held=parent.attr in _PARTS, key=key))
        elif spot.is_method:
            return
        elif parent.attr == self.function.name:
            if called is not None:
                self._land(called, spot)
            elif not self._is_other(parent, spot):
                self._go(parent, spot._replace(is_method=True))
        elif called is not None and parent.attr in _SAME:
            self._go(called, spot)

    def _loop(self, loop: ast.For | ast.AsyncFor | ast.comprehension, spot: _Spot) -> None:
        targets = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
        inside = spot._replace(held=False, key=None)
        for target in targets:
            if isinstance(loop, ast.comprehension) and isinstance(target, ast.Name):
                around = trees.upside_down(spot.file).parents[loop]
                within = {id(each) for each in ast.walk(around)}
                for use in trees.upside_down(spot.file).names.get(target.id, ()):
                    if id(use) in within:
                        self._go(use, inside)
            else:
                self._bind(target, inside)

    def _given(self, call: ast.Call, place: int | str, spot: _Spot) -> None:
        """The value is an argument of the call."""
        name = last_name(call.func)
        if name == "partial" and place == 0:
            bound = {keyword.arg for keyword in call.keywords}
            shifted = len(call.args) > 1 or None in bound or not bound.isdisjoint(self.function.defaults)
            if spot.is_method and not spot.held:
                self._go(call, spot._replace(shifted=spot.shifted or shifted))
            return
        if isinstance(call.func, ast.Attribute) and name in FILL:
            key = trees.literal(call.args[0]) if name == "setdefault" and place == 1 else None
            self._bind(call.func.value, spot._replace(held=True, key=key))
            if not isinstance(call.func.value, ast.Name) or name in ("append", "extend", "appendleft", "insert"):
                return
        if name in _HOLDERS:
            key = spot.key if name == "dict" and place == 0 else place if isinstance(place, str) else None
            self._go(call, spot._replace(held=True, key=key))
            return
        record = trees.upside_down(spot.file).records.get(call)
        callee = None if record is None else self._callee(record)
        if record is None or callee is None or any(isinstance(each, ast.Starred) for each in call.args):
            return
        parameter = parameter_at(callee, place)
        above = still_handed(spot.handed, record.function)
        if parameter is not None and all(each.record is not record for each in above):
            handed = (Handing(record, callee), *above)[: bounds.MOST_CALLS_HANDING]
            self._named(parameter, callee, spot._replace(file=callee.index, handed=handed))

    def _callee(self, record: CallRecord) -> FunctionInfo | None:
        """The function that gets the arguments of a call, as far as names and values without callers show."""
        program, caller, func = self.inference.program, record.function, record.call.func
        home = self.inference.home(caller.index)
        meant = None if program is None else calling.named(program, record)
        if isinstance(meant, FunctionInfo):
            return meant
        if isinstance(meant, ClassInfo):
            return home.method(meant, "__init__")
        if meant is not None:
            return None
        if isinstance(func, ast.Attribute) and caller.cls is not None:
            if isinstance(func.value, ast.Name) and func.value.id == caller.self_name:
                return home.method(caller.cls, func.attr)
            if isinstance(func.value, ast.Call) and last_name(func.value.func) == "super":
                above = home.lineage(caller.cls)[1:]
                return next((cls.methods[func.attr] for cls in above if func.attr in cls.methods), None)
        value = home.seen_alone(caller, func)
        if value.kind is Kind.CLASS and value.cls is not None:
            return home.method(value.cls, "__init__")
        return value.function

    def _returned(self, node: ast.Return, spot: _Spot) -> None:
        """The value is the result of a function: it goes on from this function's calls."""
        function = trees.owner_of(node, spot.file)
        home = self.inference.home(spot.file)
        if function is spot.file.module or function.is_generator:
            return
        handed = still_handed(spot.handed, function)
        if handed:
            caller = handed[0].record
            self._go(caller.call, spot._replace(file=caller.function.index, handed=handed[1:]))
            return
        owner = function.cls if implicit.is_property(function) else None
        for record in calling.callers_by_name(home, function):
            func, index = record.call.func, record.function.index
            if owner is not None:
                if isinstance(func, ast.Attribute) and self._is_of(func.value, index, owner):
                    self._go(func, spot._replace(file=index, handed=()))
            elif calling.reaches_alone(home, record, function):
                self._go(record.call, spot._replace(file=index, handed=()))

    # -- names and attributes ------------------------------------------------------------------------------------

    def _bind(self, target: ast.expr, spot: _Spot) -> None:
        owner = trees.owner_of(target, spot.file)
        if isinstance(target, ast.Subscript):
            self._bind(target.value, spot._replace(held=True, key=trees.literal(target.slice)))
        elif isinstance(target, ast.Name):
            cls = self._class_body(target, spot.file)
            if cls is None:
                is_bound = not isinstance(target.ctx, ast.Load)
                binding = trees.upside_down(spot.file).statement_of(target) if is_bound else None
                self._named(target.id, self._binder(target.id, owner), spot, binding)
            elif not spot.is_method:
                self._stored(target.id, cls, spot)
        elif isinstance(target, ast.Attribute):
            cls = trees.class_of_self(target.value, owner)
            if cls is not None:
                self._stored(target.attr, cls, spot)

    def _named(self, name: str, function: FunctionInfo, spot: _Spot, binding: ast.stmt | None = None) -> None:
        """The value is bound to a name of the function, by this statement."""
        if name in function.index.rebound_elsewhere:
            return
        is_rebound = function.index.bound_names(function).count(name) > 1
        for use in trees.upside_down(function.index).names.get(name, ()):
            owner = trees.owner_of(use, function.index)
            if self._binder(name, owner) is not function:
                continue
            has_order = is_rebound and owner is function
            if has_order and binding is not None and not reaching.reaches(binding, use, name, function):
                continue
            if not (is_rebound and self._has_lost(use, owner, spot)):
                self._go(use, spot)

    def _stored(self, name: str, cls: ClassInfo, spot: _Spot) -> None:
        """The value is bound to an attribute of the class's objects."""
        program = self.inference.program
        family = [*self.inference.lineage(cls), *(() if program is None else program.heirs(cls))]
        for index in dict.fromkeys([*(each.index for each in family), *self._files_naming(cls)]):
            for use in trees.upside_down(index).attributes.get(name, ()):
                if self._is_of(use.value, index, cls):
                    self._go(use, spot._replace(file=index, handed=()))

    def _is_of(self, node: ast.expr, index: Index, cls: ClassInfo) -> bool:
        """Whether the expression is an object of the class, of a base or of a subclass."""
        owner = trees.owner_of(node, index)
        own = trees.class_of_self(node, owner)
        if own is not None:
            return self._are_related(own, cls)
        if isinstance(node, ast.Name) and node.id == owner.self_name:
            return False
        value = self.inference.home(index).seen_alone(owner, node)
        classes = [value.cls, *value.among]
        return any(isinstance(each, ClassInfo) and self._are_related(each, cls) for each in classes) or any(
            isinstance(each, Registry) and class_unions.is_registered(self.inference, each, self.function)
            for each in value.among
        )

    def _are_related(self, one: ClassInfo, other: ClassInfo) -> bool:
        return one in self.inference.lineage(other) or other in self.inference.lineage(one)

    def _is_other(self, func: ast.expr, spot: _Spot) -> bool:
        """Whether values show that the callee is something else: the name has been bound again.

        No value shows that for a lambda, which is not one; the bindings that reach a name do.
        """
        if self.function.is_lambda and isinstance(func, ast.Name):
            return False
        home = self.inference.home(spot.file)
        owner = trees.owner_of(func, spot.file)
        value = home.seen_alone(owner, func)
        if value.kind is Kind.CLASS and self.function.name == "__init__":
            return not constructors.builds(self.inference, value, self.function)
        return _shows_another(home, value, self.function)

    def _has_lost(self, use: ast.expr, owner: FunctionInfo, spot: _Spot) -> bool:
        """Whether a name that is bound several times has another value here."""
        if self.function.is_lambda:
            return False
        value = self.inference.home(owner.index).seen_alone(owner, use)
        if spot.held or value.among:
            return False
        if self.function.name == "__init__":
            return value.cls is not None and not constructors.builds(self.inference, value, self.function)
        if spot.is_method:
            return value.cls is not None or value.function not in (None, self.function)
        cls = self.function.cls
        return value.cls is not None and cls is not None and not self._are_related(value.cls, cls)

    def _binder(self, name: str, owner: FunctionInfo) -> FunctionInfo:
        """The function whose name it is, as read in `owner`."""
        scope = owner
        while scope.outer is not None and name not in scope.index.bound_names(scope):
            scope = scope.outer
        return scope

    def _is_called(self, node: ast.expr, index: Index) -> bool:
        parent = trees.upside_down(index).parents.get(node)
        return isinstance(parent, ast.Call) and parent.func is node

    def _class_body(self, node: ast.AST, index: Index) -> ClassInfo | None:
        """The class in whose body a name is bound."""
        statement = trees.upside_down(index).parents.get(node)
        around = None if statement is None else trees.upside_down(index).parents.get(statement)
        info = None if around is None else index.info_of.get(around)
        return info if isinstance(info, ClassInfo) else None


def _is_large(parent: ast.AST | None) -> bool:
    """Whether it is a table of too many classes to follow each of them through all that is done with it."""
    held = parent.values if isinstance(parent, ast.Dict) else getattr(parent, "elts", ())
    return len(held) > bounds.MOST_CLASSES


def _shows_another(inference: ValueQuestions, callee: Value, function: FunctionInfo) -> bool:
    if any(isinstance(each, Registry) for each in callee.among):
        return False
    if callee.kind in (Kind.LIBRARY, Kind.CLASS, Kind.TENSOR, Kind.NUMBER):
        return True
    if callee.function is not None and callee.function is not function:
        return not calling.is_overridden_by(inference, callee.function, function)
    if callee.cls is not None and function.name == "__call__":
        return inference.method(callee.cls, "__call__") not in (function, None)
    return False


def _is_other_key(node: ast.expr, spot: _Spot) -> bool:
    """Whether a container that holds the value is asked for another key or position."""
    asked = trees.literal(node)
    return spot.key is not None and asked is not None and type(asked) is type(spot.key) and asked != spot.key
