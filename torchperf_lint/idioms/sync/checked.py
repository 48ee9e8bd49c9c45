"""Distributions of torch that check what they are given."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge.distributions_api import CHECKED

if TYPE_CHECKING:
    from torchperf_lint.model import Model, Value
    from torchperf_lint.syntax import cst


def keeps_check(model: Model, receiver: cst.BaseExpression | None, distribution: Value) -> bool:
    """Whether a distribution was made elsewhere, by a call that leaves the check as it is or asks for it.

    One that is made in the same expression, `Normal(0.0, s).log_prob(x)`, is reported itself.
    """
    made, position = distribution.created, CHECKED.get(distribution.ref or "")
    if made is None or position is None or (receiver is not None and model.ast_of(receiver) is made):
        return False
    if any(isinstance(each, ast.Starred) for each in made.args) or any(each.arg is None for each in made.keywords):
        return False
    given = [each.value for each in made.keywords if each.arg == "validate_args"] or made.args[position:][:1]
    return all(isinstance(each, ast.Constant) and each.value is True for each in given)
