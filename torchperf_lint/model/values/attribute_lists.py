"""Lists in attributes: what the methods of a class append to `self.rows`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge.containers import GROW
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.values import UNKNOWN, Kind, Value, join_all
from torchperf_lint.model.values.tensors import element_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import CallRecord, ClassInfo


def filled(inference: ValueQuestions, held: Value, classes: list[ClassInfo], name: str) -> Value:
    """An empty list with what these classes add to it; with unknown elements if it may get others as well."""
    records = [record for cls in classes for record in _growing(cls, name)]
    if not records:
        return held
    if len(records) > bounds.MOST_CHOICES or not all(_is_own(record) and record.call.args for record in records):
        return held._replace(element=UNKNOWN, items=None)
    added = [_added(inference, record) for record in records]
    return held._replace(element=join_all(added)._replace(constant=None), items=None)


def with_all_modules(inference: ValueQuestions, holder: Value, classes: list[ClassInfo], name: str) -> Value:
    """A container of modules with what these classes add to it; with unknown modules if it may get others as well."""
    records = [record for cls in classes for record in _growing(cls, name)]
    if not records or holder.element is None or holder.element.kind is not Kind.MODULE:
        return holder
    if len(records) > bounds.MOST_CHOICES or not all(_is_own(record) and record.call.args for record in records):
        return holder._replace(element=None, items=None)
    added = join_all([holder.element, *(_added(inference, record) for record in records)])
    return holder._replace(element=added if added.kind is Kind.MODULE else None, items=None)


def _growing(cls: ClassInfo, name: str) -> Iterator[CallRecord]:
    """The calls in the file of a class that add to an attribute of this name, of an object of it or of any other."""
    for grower in sorted(GROW):
        for record in cls.index.calls.get(grower, ()):
            func = record.call.func
            holder = func.value if isinstance(func, ast.Attribute) else None
            is_meant = isinstance(holder, ast.Attribute) and holder.attr == name
            if is_meant and (not _is_own(record) or record.function.cls is cls):
                yield record


def _is_own(record: CallRecord) -> bool:
    """Whether the call adds to an attribute of `self`."""
    holder = record.call.func.value.value  # type: ignore[attr-defined]
    return isinstance(holder, ast.Name) and holder.id == record.function.self_name and record.function.cls is not None


def _added(inference: ValueQuestions, record: CallRecord) -> Value:
    value = inference.frame_value(record.function, record.call.args[-1])
    return element_of(value) if record.call.func.attr == "extend" else value  # type: ignore[attr-defined]
