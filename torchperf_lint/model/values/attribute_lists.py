"""Lists in attributes: what the methods of a class append to `self.rows`, or to the lists in `self.rows`, by key."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge.containers import GROW
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.values import UNKNOWN, Kind, Value, container, join_all
from torchperf_lint.model.values.mutation import entry_of
from torchperf_lint.model.values.tensors import element_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import CallRecord, ClassInfo, Index


def filled(inference: ValueQuestions, held: Value, classes: list[ClassInfo], name: str) -> Value:
    """An empty list or dict with what these classes add to it; with unknown elements if it may get others as well."""
    records = [record for cls in classes for record in _growing(cls, name)]
    if not records:
        return held
    is_own = all(_is_own(record) and record.call.args for record in records)
    if len(records) > bounds.MOST_CHOICES or not is_own or any(_has_entries_set(cls, name) for cls in classes):
        return held._replace(element=UNKNOWN, items=None)
    added = [_added(inference, record) for record in records]
    return held._replace(element=join_all(added)._replace(constant=None), items=None)


def _has_entries_set(cls: ClassInfo, name: str) -> bool:
    """Whether the file of a class sets entries of an attribute of this name, or passes it on by `update`."""
    return name in cls.index.note("attributes with entries set", lambda: _with_entries_set(cls.index))


def _with_entries_set(index: Index) -> frozenset[str]:
    subscripts = (
        node
        for function in index.functions
        for node in function.nodes
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load)
    )
    holders = [entry_of(node)[0] for node in subscripts]
    holders += [
        record.call.func.value
        for record in index.calls.get("update", ())
        if isinstance(record.call.func, ast.Attribute)
    ]
    return frozenset(holder.attr for holder in holders if isinstance(holder, ast.Attribute))


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
            holder = entry_of(func.value)[0] if isinstance(func, ast.Attribute) else None
            is_meant = isinstance(holder, ast.Attribute) and holder.attr == name
            if is_meant and (not _is_own(record) or record.function.cls is cls):
                yield record


def _is_own(record: CallRecord) -> bool:
    """Whether the call adds to an attribute of `self`."""
    holder = entry_of(record.call.func.value)[0].value  # type: ignore[attr-defined]
    return isinstance(holder, ast.Name) and holder.id == record.function.self_name and record.function.cls is not None


def _added(inference: ValueQuestions, record: CallRecord) -> Value:
    value = inference.frame_value(record.function, record.call.args[-1])
    value = element_of(value) if record.call.func.attr == "extend" else value  # type: ignore[attr-defined]
    for _ in entry_of(record.call.func.value)[1]:  # type: ignore[attr-defined]
        value = container(value)
    return value
