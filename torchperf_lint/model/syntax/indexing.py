"""The pass over a file's `ast` that fills its index."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeVar

from torchperf_lint.model.syntax.index import AttributeStore, CallRecord, ClassInfo, FunctionInfo, Index, Place
from torchperf_lint.model.syntax.names import given_to, last_name
from torchperf_lint.model.syntax.reads import ATTRIBUTES, ENTRIES, MEMBERS, METHODS
from torchperf_lint.model.syntax.units import Unit, units_of
from torchperf_lint.syntax.tree import COMPREHENSIONS, children

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_lint.model.syntax.index import Block, FunctionNode
    from torchperf_lint.model.syntax.reads import Entered
    from torchperf_lint.syntax.tree import Comprehension

_R = TypeVar("_R")
_HOLDING = frozenset({ast.List, ast.Tuple, ast.Set, ast.Dict, ast.BoolOp, ast.ListComp, ast.SetComp, ast.GeneratorExp})


def index_of(tree: ast.Module, path: str = "") -> Index:
    """The index of a file; `path` is the file's path as the user sees it."""
    index = Index(tree, path)
    assemble(index, tree.body, fragments_of(index, units_of(tree.body)))
    return index


def fragments_of(index: Index, units: list[Unit]) -> list[Fragment]:
    """What these units add to the tables; classes come before their methods, or are in the index already."""
    apart = {unit.nodes[0] for unit in units if unit.around is not None}
    new: dict[ast.AST, FunctionInfo | ClassInfo] = {}
    fragments = []
    for unit in units:
        cls: ClassInfo | None = None
        if unit.around is not None:
            info = new[unit.around] if unit.around in new else dict.__getitem__(index.info_of, unit.around)
            assert isinstance(info, ClassInfo)
            cls = info
        fragments.append(Fragment(index, unit, apart, cls))
        if isinstance(unit.nodes[0], ast.ClassDef):
            new.update(fragments[-1].info_of)
    return fragments


class Fragment:
    """What a unit adds to the tables of its file's index, and to those of its classes."""

    def __init__(self, index: Index, unit: Unit, apart: set[ast.stmt], cls: ClassInfo | None) -> None:
        """`apart` are the methods that are units of their own, `cls` is the class of such a method."""
        self.calls: dict[str, list[CallRecord]] = {}
        self.handed: dict[str, list[CallRecord]] = {}
        self.defaults: dict[str, list[tuple[FunctionInfo, str]]] = {}
        self.aliases: dict[str, set[str]] = {}
        self.held: set[str] = set()
        self.rebound_elsewhere: set[str] = set()
        self.places: dict[ast.stmt, Place] = {}
        self.info_of: dict[ast.AST, FunctionInfo | ClassInfo] = {}
        self.texts: dict[ast.stmt, None] = {}
        self.lambdas: dict[ast.stmt, list[FunctionInfo]] = {}
        self.lambdas_given: dict[ast.expr, CallRecord] = {}
        self.comprehensions: dict[ast.stmt, list[Comprehension]] = {}
        self.stores: dict[str, list[AttributeStore]] = {}
        self.all_functions: list[FunctionInfo] = []
        self.all_classes: list[ClassInfo] = []
        self.all_loops: list[tuple[ast.For | ast.AsyncFor | ast.While, FunctionInfo]] = []
        self.all_augmented: list[tuple[ast.AugAssign, FunctionInfo]] = []
        self.methods: list[tuple[ClassInfo, FunctionInfo]] = []
        self.attributes: list[tuple[ClassInfo, str, AttributeStore]] = []
        self.calls_made: list[CallRecord] = []  # of the module
        self.statements: list[ast.stmt] = []
        module = index.module
        module.calls_made, module.statements, module.is_generator = self.calls_made, self.statements, False
        index.reads.unheard(lambda: _Indexer(index, self, apart).fill(unit, cls))
        self.is_generator = module.is_generator
        self.first = unit.nodes[0]
        self.entered: Entered = {table: frozenset(getattr(self, table)) for table in ENTRIES if getattr(self, table)}
        self.entered |= self._members()

    def _members(self) -> Entered:
        """What is entered into the tables of classes whose methods are units."""
        methods = frozenset(f"{cls.name}.{each.name}" for cls, each in self.methods if cls.is_split)
        attributes = frozenset(f"{cls.name}.{name}" for cls, name, _ in self.attributes if cls.is_split)
        found = {METHODS: methods, ATTRIBUTES: attributes, MEMBERS: self._split_classes()}
        return {table: names for table, names in found.items() if names}

    def _split_classes(self) -> frozenset[str]:
        info = self.info_of.get(self.first)
        cls = info.cls if isinstance(info, FunctionInfo) else info
        return frozenset() if cls is None or not cls.is_split else frozenset({cls.name})


def assemble(index: Index, body: Block, fragments: Sequence[Fragment]) -> None:
    """Make the index that of the statements in `body`, which the fragments have been made from."""
    module, tree = index.module, index.tree
    tree.body[:] = body
    index.empty(_is_about_function)
    index.all_functions, index.all_classes, index.all_loops, index.all_augmented = [module], [], [], []
    index.entered = {id(each.first): each.entered for each in fragments}
    for each in fragments:
        _add(index.calls, each.calls)
        _add(index.handed, each.handed)
        _add(index.defaults, each.defaults)
        _add(index.stores, each.stores)
        for name, names in each.aliases.items():
            index.aliases.setdefault(name, set()).update(names)
        index.held.update(each.held)
        index.rebound_elsewhere.update(each.rebound_elsewhere)
        index.places.update(each.places)
        index.info_of.update(each.info_of)
        index.texts.update(each.texts)
        index.lambdas.update(each.lambdas)
        index.lambdas_given.update(each.lambdas_given)
        index.comprehensions.update(each.comprehensions)
        index.all_functions += each.all_functions
        index.all_classes += each.all_classes
        index.all_loops += each.all_loops
        index.all_augmented += each.all_augmented
    index.places.update(
        (statement, Place(module, None, "body", tree.body, position)) for position, statement in enumerate(tree.body)
    )
    module.calls_made = [record for each in fragments for record in each.calls_made]
    module.statements = [statement for each in fragments for statement in each.statements]
    module.is_generator = any(each.is_generator for each in fragments)
    _fill_classes(index.all_classes, fragments)


def _fill_classes(classes: list[ClassInfo], fragments: Sequence[Fragment]) -> None:
    """Fill the tables of the classes, in the order of the text: a class comes before its methods, but not its end."""
    for cls in classes:
        cls.methods.clear()
        cls.attributes.clear()
    methods = [each for fragment in fragments for each in fragment.methods]
    for cls, function in sorted(methods, key=lambda each: each[1].row):
        cls.methods[function.name] = function
    attributes = [each for fragment in fragments for each in fragment.attributes]
    for cls, name, store in sorted(attributes, key=lambda each: each[2].target.lineno):
        cls.attributes.setdefault(name, []).append(store)


def _add(table: dict[str, list[_R]], added: dict[str, list[_R]]) -> None:
    for name, records in added.items():
        table.setdefault(name, []).extend(records)


def functions_in(question: object) -> list[FunctionInfo]:
    """The functions that a question to an index is about."""
    return [each for each in question if isinstance(each, FunctionInfo)] if isinstance(question, tuple) else []


def _is_about_function(question: object) -> bool:
    """Whether the question is about a function, not a module: who asks has read all of it."""
    return any(not function.is_module for function in functions_in(question))


class _Indexer:
    def __init__(self, index: Index, tables: Fragment, apart: set[ast.stmt]) -> None:
        """`tables` are filled; functions are those of `index`; the statements in `apart` are left out."""
        self._index = index
        self._tables = tables
        self._apart = apart

    def fill(self, unit: Unit, cls: ClassInfo | None) -> None:
        """Visit the statements of a unit; `cls` is the class of a method."""
        if unit.around is None:
            self._block(unit.nodes, self._index.module, None, "body", None)
            return
        for statement in unit.nodes:
            place = Place(self._index.module, unit.around, "body", unit.around.body, unit.position)
            self._tables.places[statement] = place
            self._statement(statement, self._index.module, cls)

    def _block(
        self, block: Block, function: FunctionInfo, parent: ast.stmt | None, field: str, cls: ClassInfo | None
    ) -> None:
        for position, statement in enumerate(block):
            if statement in self._apart and parent is not None:
                continue
            self._tables.places[statement] = Place(function, parent, field, block, position)
            if cls is None:
                function.statements.append(statement)
            self._statement(statement, function, cls)

    def _statement(self, statement: ast.stmt, function: FunctionInfo, cls: ClassInfo | None) -> None:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._function(statement, function, cls)
        elif isinstance(statement, ast.ClassDef):
            is_split = function.is_module and not self._apart.isdisjoint(statement.body)
            info = ClassInfo(statement, function, is_split=is_split)
            self._tables.info_of[statement] = info
            self._tables.all_classes.append(info)
            for expression in (*statement.decorator_list, *statement.bases, *statement.keywords):
                self._expression(expression, statement, function)
            self._block(statement.body, function, statement, "body", info)
        else:
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                self._import(statement)
            elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
                self._assignment(statement, function, cls)
            elif isinstance(statement, (ast.Global, ast.Nonlocal)):
                self._tables.rebound_elsewhere.update(statement.names)
            elif isinstance(statement, ast.AugAssign):
                self._tables.all_augmented.append((statement, function))
            elif isinstance(statement, ast.Return) and isinstance(statement.value, (ast.Name, ast.Attribute)):
                self._tables.held.add(last_name(statement.value) or "")
            elif isinstance(statement, (ast.For, ast.AsyncFor, ast.While)):
                self._tables.all_loops.append((statement, function))
            self._parts(statement, statement, function, cls)

    def _parts(self, node: ast.AST, statement: ast.stmt, function: FunctionInfo, cls: ClassInfo | None) -> None:
        """Visit the expressions and blocks of a statement (or of a handler or match case inside it)."""
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                if value and isinstance(value[0], ast.stmt):
                    self._block(value, function, statement, "handlers" if node is not statement else field, cls)
                    continue
                for item in value:
                    if isinstance(item, (ast.excepthandler, ast.match_case)):
                        self._parts(item, statement, function, cls)
                    elif isinstance(item, ast.withitem):
                        self._expression(item.context_expr, statement, function)
                        if item.optional_vars is not None:
                            self._expression(item.optional_vars, statement, function)
                    elif isinstance(item, ast.expr):
                        self._expression(item, statement, function)
            elif isinstance(value, ast.expr):
                self._expression(value, statement, function)

    def _function(self, node: FunctionNode, outer: FunctionInfo, cls: ClassInfo | None) -> None:
        info = FunctionInfo(node, cls, outer, self._index)
        self._tables.info_of[node] = info
        self._tables.all_functions.append(info)
        if cls is not None and not _sets_property(node):  # what reads the attribute runs its getter
            self._tables.methods.append((cls, info))
        for expression in (*node.decorator_list, *node.args.defaults, *node.args.kw_defaults):
            if expression is not None:
                self._expression(expression, node, outer)
        for parameter, default in info.defaults.items():
            if isinstance(default, (ast.Name, ast.Attribute)):
                self._tables.defaults.setdefault(last_name(default) or "", []).append((info, parameter))
        self._block(node.body, info, None, "body", None)

    def _assignment(self, statement: ast.Assign | ast.AnnAssign, function: FunctionInfo, cls: ClassInfo | None) -> None:
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        value = statement.value
        annotation = statement.annotation if isinstance(statement, ast.AnnAssign) else None
        for target in targets:
            self._alias(target, value)
            self._attribute_stores(target, function, cls, annotation)

    def _alias(self, target: ast.expr, value: ast.expr | None) -> None:
        """Note `f = g`, `self.f = g`, `f = a if c else b`, `f = partial(g, x)`: another name of g."""
        new = last_name(target)
        if isinstance(value, ast.Call) and last_name(value.func) in ("partial", "partialmethod") and value.args:
            value = value.args[0]
        for given in (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,):
            old = None if given is None else last_name(given)
            if new is not None and old is not None and new != old:
                self._tables.aliases.setdefault(old, set()).add(new)

    def _attribute_stores(
        self, target: ast.expr, function: FunctionInfo, cls: ClassInfo | None, annotation: ast.expr | None
    ) -> None:
        store = AttributeStore(function, target, annotation)
        if isinstance(target, (ast.Tuple, ast.List)):
            for item in target.elts:
                self._attribute_stores(item, function, cls, None)
        elif isinstance(target, ast.Name) and cls is not None:
            self._tables.attributes.append((cls, target.id, store))
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            owner = function
            if owner.cls is not None and target.value.id == owner.self_name:
                self._tables.attributes.append((owner.cls, target.attr, store))
            else:
                self._tables.stores.setdefault(target.attr, []).append(store)
        elif isinstance(target, ast.Attribute):
            self._tables.stores.setdefault(target.attr, []).append(store)

    def _import(self, statement: ast.Import | ast.ImportFrom) -> None:
        for alias in statement.names:
            if alias.asname:
                self._tables.aliases.setdefault(alias.name.rpartition(".")[2], set()).add(alias.asname)

    def _expression(self, expression: ast.AST, statement: ast.stmt, function: FunctionInfo) -> None:
        pending = [expression]
        while pending:
            node = pending.pop()
            kind = type(node)
            if kind is ast.Name or kind is ast.Constant:
                continue
            if kind is ast.Call:
                record = CallRecord(node, statement, function)  # type: ignore[arg-type]
                name = last_name(node.func) or ""  # type: ignore[attr-defined]
                self._tables.calls.setdefault(name, []).append(record)
                function.calls_made.append(record)
                for given in given_to(node):  # type: ignore[arg-type]
                    if type(given) is ast.Lambda:
                        self._tables.lambdas_given[given] = record
                        continue
                    handed = last_name(given)
                    if handed is not None:
                        self._tables.handed.setdefault(handed, []).append(record)
            elif kind is ast.JoinedStr or (kind is ast.BinOp and isinstance(node.op, ast.Mod)):  # type: ignore[attr-defined]
                self._tables.texts[statement] = None
            elif kind in _HOLDING:
                self._tables.held.update(name for name in map(last_name, children(node)) if name is not None)  # type: ignore[arg-type]
            elif kind is ast.Lambda:
                made = FunctionInfo(node, None, function, self._index)  # type: ignore[arg-type]
                self._tables.lambdas.setdefault(statement, []).append(made)
            elif kind is ast.Yield or kind is ast.YieldFrom:
                function.is_generator = True
            if kind in COMPREHENSIONS:
                self._tables.comprehensions.setdefault(statement, []).append(node)  # type: ignore[arg-type]
            pending += children(node)


def _sets_property(node: FunctionNode) -> bool:
    """Whether it is the setter or deleter of a property, which has the same name: `@x.setter` before `def x`."""
    return any(
        isinstance(each, ast.Attribute) and each.attr in ("setter", "deleter") and last_name(each.value) == node.name
        for each in node.decorator_list
    )
