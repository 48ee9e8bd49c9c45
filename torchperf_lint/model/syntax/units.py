"""The units of a file: what is read, and after an edit parsed again, as one.

A unit is a statement of the top level, with those that share rows with it. A class there is several: each of its
methods, and all the rest of it.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from torchperf_lint.model.syntax.names import grouped

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Unit(NamedTuple):
    """Statements with the rows where their text begins; that of a class without its methods has several parts.

    Of a method, `around` is the class, and `position` its place among the statements there.
    """

    rows: list[int]
    nodes: list[ast.stmt]
    around: ast.ClassDef | None = None
    position: int = 0

    @property
    def row(self) -> int:
        """The first row."""
        return self.rows[0]


def units_of(body: list[ast.stmt]) -> list[Unit]:
    """The units of statements of the top level; a class comes before its methods."""
    return [unit for row, nodes in grouped(body) for unit in _parts(row, nodes)]


def _parts(row: int, nodes: list[ast.stmt]) -> list[Unit]:
    rest = Unit([row], nodes)
    units = [rest]
    (around,) = nodes if len(nodes) == 1 else (None,)
    if not isinstance(around, ast.ClassDef):
        return units
    position, in_rest = 0, True
    for begin, inner in grouped(around.body):
        is_method = len(inner) == 1 and isinstance(inner[0], _FUNCTIONS)
        if is_method:
            units.append(Unit([begin], inner, around, position))
        elif not in_rest:
            rest.rows.append(begin)
        in_rest = not is_method
        position += len(inner)
    return units
