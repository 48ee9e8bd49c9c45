"""The pass over a file's `ast` that fills its index."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.syntax.index import AttributeStore, CallRecord, ClassInfo, FunctionInfo, Index, Place
from torchperf_lint.model.syntax.names import given_to, last_name
from torchperf_lint.syntax.tree import children

if TYPE_CHECKING:
    from torchperf_lint.model.syntax.index import Block, FunctionNode

_HOLDING = frozenset({ast.List, ast.Tuple, ast.Set, ast.Dict, ast.BoolOp, ast.ListComp, ast.SetComp, ast.GeneratorExp})


def index_of(tree: ast.Module, path: str = "") -> Index:
    """The index of a file; `path` is the file's path as the user sees it."""
    index = Index(tree, path)
    _Indexer(index).fill(tree)
    return index


class _Indexer:
    def __init__(self, index: Index) -> None:
        self._index = index

    def fill(self, tree: ast.Module) -> None:
        """Visit the whole file."""
        self._block(tree.body, self._index.module, None, "body", None)

    def _block(
        self, block: Block, function: FunctionInfo, parent: ast.stmt | None, field: str, cls: ClassInfo | None
    ) -> None:
        for position, statement in enumerate(block):
            self._index.places[statement] = Place(function, parent, field, block, position)
            if cls is None:
                function.statements.append(statement)
            self._statement(statement, function, cls)

    def _statement(self, statement: ast.stmt, function: FunctionInfo, cls: ClassInfo | None) -> None:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._function(statement, function, cls)
        elif isinstance(statement, ast.ClassDef):
            info = ClassInfo(statement, function)
            self._index.info_of[statement] = info
            self._index.all_classes.append(info)
            for expression in (*statement.decorator_list, *statement.bases, *statement.keywords):
                self._expression(expression, statement, function)
            self._block(statement.body, function, statement, "body", info)
        else:
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                self._import(statement)
            elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
                self._assignment(statement, function, cls)
            elif isinstance(statement, (ast.Global, ast.Nonlocal)):
                self._index.rebound_elsewhere.update(statement.names)
            elif isinstance(statement, ast.AugAssign):
                self._index.all_augmented.append((statement, function))
            elif isinstance(statement, ast.Return) and isinstance(statement.value, (ast.Name, ast.Attribute)):
                self._index.held.add(last_name(statement.value) or "")
            elif isinstance(statement, (ast.For, ast.AsyncFor, ast.While)):
                self._index.all_loops.append((statement, function))
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
        self._index.info_of[node] = info
        self._index.all_functions.append(info)
        if cls is not None:
            cls.methods[node.name] = info
        for expression in (*node.decorator_list, *node.args.defaults, *node.args.kw_defaults):
            if expression is not None:
                self._expression(expression, node, outer)
        for parameter, default in info.defaults.items():
            if isinstance(default, (ast.Name, ast.Attribute)):
                self._index.defaults.setdefault(last_name(default) or "", []).append((info, parameter))
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
                self._index.aliases.setdefault(old, set()).add(new)

    def _attribute_stores(
        self, target: ast.expr, function: FunctionInfo, cls: ClassInfo | None, annotation: ast.expr | None
    ) -> None:
        store = AttributeStore(function, target, annotation)
        if isinstance(target, (ast.Tuple, ast.List)):
            for item in target.elts:
                self._attribute_stores(item, function, cls, None)
        elif isinstance(target, ast.Name) and cls is not None:
            cls.attributes.setdefault(target.id, []).append(store)
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            owner = function
            if owner.cls is not None and target.value.id == owner.self_name:
                owner.cls.attributes.setdefault(target.attr, []).append(store)

    def _import(self, statement: ast.Import | ast.ImportFrom) -> None:
        for alias in statement.names:
            if alias.asname:
                self._index.aliases.setdefault(alias.name.rpartition(".")[2], set()).add(alias.asname)

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
                self._index.calls.setdefault(name, []).append(record)
                function.calls_made.append(record)
                for given in given_to(node):  # type: ignore[arg-type]
                    if type(given) is ast.Lambda:
                        self._index.lambdas_given[given] = record
                        continue
                    handed = last_name(given)
                    if handed is not None:
                        self._index.handed.setdefault(handed, []).append(record)
            elif kind is ast.JoinedStr or (kind is ast.BinOp and isinstance(node.op, ast.Mod)):  # type: ignore[attr-defined]
                self._index.texts[statement] = None
            elif kind in _HOLDING:
                self._index.held.update(name for name in map(last_name, children(node)) if name is not None)  # type: ignore[arg-type]
            elif kind is ast.Lambda:
                made = FunctionInfo(node, None, function, self._index)  # type: ignore[arg-type]
                self._index.lambdas.setdefault(statement, []).append(made)
            elif kind is ast.Yield or kind is ast.YieldFrom:
                function.is_generator = True
            pending += children(node)
