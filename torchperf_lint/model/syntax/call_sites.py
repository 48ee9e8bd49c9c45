"""What runs a function: a call, or an expression that runs it without calling it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.model.syntax.index import CallRecord

if TYPE_CHECKING:
    import ast

    from torchperf_lint.model.syntax.index import FunctionInfo


class ImplicitCall(NamedTuple):
    """An expression that runs a function without calling it: `self.total` a property's getter, a `with` its object.

    `overridden` is the method that `self` has by the class around the expression, where the function only overrides it.
    """

    node: ast.expr
    statement: ast.stmt
    function: FunctionInfo
    overridden: FunctionInfo | None = None


CallSite = CallRecord | ImplicitCall
