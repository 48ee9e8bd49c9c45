"""The tests between the beginning of a function and a place in it."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING, TypeVar

from torchperf_lint.model.syntax.names import parameters_of
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchperf_lint.model.syntax.index import FunctionInfo, Place

_Part = TypeVar("_Part", bound=ast.AST)

_FARTHEST = 20
"""Only so many blocks around a place, and statements before it in each, are searched for tests."""

_LEAVES = (ast.Return, ast.Continue, ast.Break)


def tests(place: Place) -> Iterator[tuple[ast.expr, bool]]:
    """The tests between the beginning of the function and a place, and what each of them has to be."""
    for each in itertools.islice(place.outwards(), _FARTHEST):
        for earlier in each.before[-_FARTHEST:]:
            if isinstance(earlier, ast.If):
                yield from _passed(earlier)
        if isinstance(each.parent, ast.If) and each.field in ("body", "orelse"):
            yield each.parent.test, each.field == "body"


def _passed(branch: ast.If) -> Iterator[tuple[ast.expr, bool]]:
    """The tests of branches that leave, and what each of them has to be for what follows the last branch."""
    if isinstance(branch.body[-1], (*_LEAVES, ast.Raise)):
        if not isinstance(branch.body[-1], ast.Raise):  # what a default raises for has to be set
            yield branch.test, False
        if len(branch.orelse) == 1 and isinstance(branch.orelse[0], ast.If):
            yield from _passed(branch.orelse[0])
    elif branch.orelse and isinstance(branch.orelse[-1], _LEAVES):
        yield branch.test, True


def tests_inside(function: FunctionInfo, statement: ast.stmt, node: ast.expr) -> list[tuple[ast.expr, bool]]:
    """The tests between the beginning of a statement and a part of it, and what each of them has to be.

    `trace and x.any()`, `x.item() if trace else 0`, `[x.item() for x in losses if trace]`.
    """
    found: list[tuple[ast.expr, bool]] = []
    here: ast.AST = node
    above = function.parents.get(here)
    while above is not None and here is not statement:
        if isinstance(above, ast.BoolOp):
            found += ((each, isinstance(above.op, ast.And)) for each in _before(above.values, here))
        elif isinstance(above, ast.IfExp) and here is not above.test:
            found.append((above.test, here is above.body))
        elif isinstance(above, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            found += ((each, True) for part in _before(above.generators, here) for each in part.ifs)
        elif isinstance(above, ast.comprehension):
            found += ((each, True) for each in (_before(above.ifs, here) if here in above.ifs else ()))
        elif isinstance(above, ast.Lambda):
            hidden = parameters_of(above.args)
            found = [each for each in found if not _has_name_of(each[0], hidden)]
        here, above = above, function.parents.get(above)
    return found


def _has_name_of(test: ast.expr, names: Sequence[str]) -> bool:
    return any(isinstance(each, ast.Name) and each.id in names for each in subtree(test))


def _before(parts: Sequence[_Part], part: ast.AST) -> Iterator[_Part]:
    """The parts before this one, all if it is none of them."""
    return itertools.takewhile(lambda each: each is not part, parts)
