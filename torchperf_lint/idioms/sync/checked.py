"""Distributions of torch that check what they are given."""

from __future__ import annotations

import ast


def keeps_check(made: ast.Call, position: int) -> bool:
    """Whether the call that makes a distribution leaves the check as it is by default, or asks for it.

    `position` is that of the argument `validate_args`, counted from 0.
    """
    given = [each.value for each in made.keywords if each.arg == "validate_args"] or made.args[position:][:1]
    if any(isinstance(each, ast.Starred) for each in made.args) or any(each.arg is None for each in made.keywords):
        return False
    return all(isinstance(each, ast.Constant) and each.value is True for each in given)
