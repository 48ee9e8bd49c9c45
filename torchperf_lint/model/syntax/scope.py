"""Scopes for fixes: whether a name that a fix would write still means the builtin, or a library imported by then."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from torchperf_lint.syntax.tree import COMPREHENSIONS, subtree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchperf_lint.model.syntax.index import FunctionInfo, Index

_NAMED = (ast.stmt, ast.excepthandler, ast.pattern, *([ast.type_param] if hasattr(ast, "type_param") else []))
_SHADOWED = frozenset("abs all any bool compile complex divmod float int max min pow range round sum".split())
_STARRED = re.compile(r"^\s*from[ \t]+(?:torch|numpy|pylab|matplotlib\.pylab)[ \t]+import[ \t]*\*", re.MULTILINE)
"""What gives the names in `_SHADOWED` a meaning of its own: `all` is `torch.all` behind it."""


def binds(index: Index, name: str, text: str) -> bool:
    """Whether anything in the file with this text binds the name: an assignment, a parameter, an import, ..."""
    # Builtins are mostly called: if the name has no other occurrence and no definition, nothing binds it.
    written = rf"{name}(?<![\w.]{name})(?![\w(])"  # a literal prefix is fast
    defined = rf"\b(?:def|class)[\s\\]+{name}\b"
    index.reads.mentions(name)
    index.reads.binds("*")
    if name in _SHADOWED and _STARRED.search(text):
        return True
    if text.isascii() and not re.search(written, text) and not re.search(defined, text):
        return False
    bound = index.by_name("every name that is bound", lambda: dict.fromkeys(_bound_in(index.module.nodes)))
    return name in bound


def _bound_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        kind = node.__class__
        if kind is ast.Name:
            if not isinstance(node.ctx, ast.Load):  # type: ignore[attr-defined]
                yield node.id  # type: ignore[attr-defined]
        elif kind is ast.arg:
            yield node.arg  # type: ignore[attr-defined]
        elif kind is ast.alias:
            yield _bound_by(node)  # type: ignore[arg-type]
        elif isinstance(node, _NAMED):
            named = getattr(node, "name", None), getattr(node, "rest", None)
            yield from (each for each in named if isinstance(each, str))


def bound_around(node: ast.AST | None, statement: ast.stmt) -> set[str]:
    """The names that lambdas and comprehensions around the node, within its statement, bind."""
    return set() if node is None else {name for name in _binders(node, statement) if name}


def _binders(node: ast.AST, around: ast.AST) -> Iterator[str]:
    for each in subtree(around):
        if isinstance(each, ast.Lambda):
            targets: list[ast.AST] = [each.args]
        elif isinstance(each, COMPREHENSIONS):
            targets = [generator.target for generator in each.generators]
        else:
            continue
        if any(inner is node for inner in subtree(each)):
            yield from (inner.arg for target in targets for inner in subtree(target) if isinstance(inner, ast.arg))
            yield from (inner.id for target in targets for inner in subtree(target) if isinstance(inner, ast.Name))


def imported_by_then(name: str, statement: ast.stmt, scope: FunctionInfo, index: Index) -> bool:
    """Whether an import in `scope` has bound the name whenever `statement` runs.

    An outer scope of the statement's function is assumed to have run in full, except for what only type checkers see.
    """
    imports = index.note(("imports", scope, name), lambda: _importing(name, scope, index))
    if index.places[statement].function is not scope:
        return not imports or any(not _for_type_checkers(each, index) for each in imports)
    passed = set()
    current: ast.stmt | None = statement
    while current is not None:
        passed.add(index.places[current].block_id)
        current = index.places[current].parent
    return any(each.lineno < statement.lineno and index.places[each].block_id in passed for each in imports)


def _importing(name: str, scope: FunctionInfo, index: Index) -> list[ast.stmt]:
    """The statements of a scope that import something under a name."""
    return [each for each in index.places if index.places[each].function is scope and _imports(each, name)]


def _imports(statement: ast.stmt, name: str) -> bool:
    is_import = isinstance(statement, (ast.Import, ast.ImportFrom))
    return is_import and any(_bound_by(alias) == name for alias in statement.names)  # type: ignore[attr-defined]


def _bound_by(alias: ast.alias) -> str:
    """`t` of `import torch as t`, `torch` of `import torch.nn`."""
    return alias.asname or alias.name.partition(".")[0]


def _for_type_checkers(statement: ast.stmt, index: Index) -> bool:
    parent = index.places[statement].parent
    return isinstance(parent, ast.If) and "TYPE_CHECKING" in ast.unparse(parent.test)


def names_bound_in(loop: ast.stmt) -> set[str]:
    """Every name that the loop binds, its targets included."""
    return {
        node.id for node in subtree(loop) if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del))
    }
