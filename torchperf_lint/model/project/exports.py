"""The meanings of the names at the top level of a file, from its statements alone."""

from __future__ import annotations

import ast
from typing import NamedTuple

from torchperf_lint.model.syntax.index import ClassInfo, FunctionInfo, Index
from torchperf_lint.model.syntax.reads import AtTop
from torchperf_lint.syntax.tree import COMPREHENSIONS, children


class Imported(NamedTuple):
    """A name that an import binds: `ref` is what it imports, with leading dots as written."""

    ref: str


class Variable(NamedTuple):
    """A name that a file binds at its top level to a value."""

    home: Index
    name: str


class ModuleName(NamedTuple):
    """A module of the project, by its dotted name."""

    name: str


class LibraryName(NamedTuple):
    """Something outside the project, by its dotted name."""

    name: str


Meaning = FunctionInfo | ClassInfo | Variable | ModuleName | LibraryName
"""The possible meanings of a dotted name."""


class Exports(NamedTuple):
    """The names with a single known meaning; `variables` are the other bound names, whatever their values."""

    meanings: AtTop[FunctionInfo | ClassInfo | Imported]
    variables: AtTop[None]


def exports_of(index: Index) -> Exports:
    """The exports of a file; where a name is bound in several ways, a definition takes precedence over an import."""
    meanings: dict[str, FunctionInfo | ClassInfo | Imported] = {}
    variables: set[str] = set()
    pending: list[ast.AST] = list(reversed(index.tree.body))
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            meanings[node.name] = index.info_of[node]
        elif isinstance(node, ast.ImportFrom):
            root = "." * node.level + (node.module or "")
            joint = "" if root.endswith(".") else "."
            for alias in node.names:
                if alias.name != "*":
                    _import(meanings, alias.asname or alias.name, f"{root}{joint}{alias.name}")
        elif isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                _import(meanings, alias.asname or first, alias.name if alias.asname else first)
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                variables.add(node.id)
        elif not isinstance(node, (ast.Lambda, *COMPREHENSIONS)):
            pending += reversed(children(node))
    return Exports(
        index.listed(AtTop(meanings)), index.listed(AtTop(dict.fromkeys(sorted(variables - meanings.keys()))))
    )


def _import(meanings: dict[str, FunctionInfo | ClassInfo | Imported], name: str, ref: str) -> None:
    if isinstance(meanings.get(name), (FunctionInfo, ClassInfo)):
        return
    # `try: from torch import x / except ImportError: from .compat import x`: the first is the intended one.
    meanings.setdefault(name, Imported(ref))
