"""Places of a row: which expression of it an object in a rule's hands is, or belongs to."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model.syntax.index import CallRecord
from torchperf_lint.syntax.site import Site

if TYPE_CHECKING:
    from torchperf_lint.model import Model
    from torchperf_lint.why.inside import Inside
    from torchperf_lint.why.recorder import About, Place


def about_of(inside: Inside, model: Model, statements: list[ast.stmt]) -> About:
    """A function from any object to the expression of these statements that it is, or that it is made for."""
    inner = {
        id(node): node
        for statement in statements
        for node in inside.expressions(statement)
        if not isinstance(node, ast.Constant)
    }

    def about(thing: object, deep: bool = True) -> Place | None:
        if isinstance(thing, Site):
            return thing if inside.statement_of(model, thing) in statements else None
        if isinstance(thing, ast.stmt):
            return thing if thing in statements else None
        if isinstance(thing, ast.AST):
            return inner.get(id(thing))
        if isinstance(thing, CallRecord):
            return inner.get(id(thing.call))
        if deep and isinstance(thing, tuple):
            for each in thing:
                found = about(each, False)
                if found is not None:
                    return found
        return None

    return about
