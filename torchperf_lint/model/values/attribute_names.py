"""Attributes by a part of their name: `getattr(self, f"{stage}_metrics")` is one of those that end like this."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from torchperf_lint.model import bounds
from torchperf_lint.model.domain.values import join_all

if TYPE_CHECKING:
    from torchperf_lint.model.domain.interfaces import ExpressionValues
    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.syntax.index import ClassInfo

_ANYTHING = r"\w*"


def by_pattern(evaluator: ExpressionValues, base: Value, name: ast.expr, node: ast.AST) -> Value | None:
    """The join of the attributes that the name may mean; None if the name or the object's class does not say."""
    pattern = _pattern(name)
    if base.cls is None or pattern is None:
        return None
    owners = evaluator.inference.lineage(base.cls)
    methods, attributes = ({name for each in owners for name in _members(each)[at]} for at in (0, 1))
    if any(re.fullmatch(pattern, method) for method in methods):
        return None
    names = {each for each in attributes if re.fullmatch(pattern, each)}
    if not names or len(names) > bounds.MOST_CHOICES:
        return None
    return join_all([evaluator.attribute_of(base, each, node) for each in sorted(names)])


def _members(cls: ClassInfo) -> tuple[list[str], list[str]]:
    """The names of the methods of a class, and those of its attributes."""
    return cls.sum_up("names", lambda: (list(cls.methods), list(cls.attributes)))


def _pattern(name: ast.expr) -> str | None:
    """A regular expression for a name of which a part is known."""
    parts = _parts(name)
    known = "".join(part for part in parts if part is not None).strip("_")
    if not known:
        return None
    return "".join(_ANYTHING if part is None else re.escape(part) for part in parts)


def _parts(name: ast.expr) -> list[str | None]:
    """The known parts of a text and None for each unknown one between them."""
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        return [name.value]
    if isinstance(name, ast.JoinedStr):
        return [part for value in name.values for part in _parts(value)]
    if isinstance(name, ast.BinOp) and isinstance(name.op, ast.Add):
        return [*_parts(name.left), *_parts(name.right)]
    return [None]
