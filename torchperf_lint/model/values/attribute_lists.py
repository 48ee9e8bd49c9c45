"""Lists in attributes: what the methods of a class append to `self.rows`, or to the lists in `self.rows`, by key."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge.containers import GROW
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.values import UNKNOWN, Kind, Value, container, join_all
from torchperf_lint.model.values.mutation import entry_of, is_named
from torchperf_lint.model.values.tensors import element_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import CallRecord, ClassInfo, Index


_ASKS = frozenset("get keys values items setdefault".split())
"""Methods of a dict that change it in no other way than by a key that it lacks."""


def filled(inference: ValueQuestions, held: Value, classes: list[ClassInfo], name: str) -> Value:
    """An empty list or dict with what these classes add to it; with unknown elements if it may get others as well.

    Lists in a dict count where nothing else in the program can change the dict.
    """
    records = [record for cls in classes for record in _growing(cls, name)]
    if not records:
        return held
    is_own = all(_is_own(record) and record.call.args for record in records)
    by_key = any(_keys_of(record) for record in records)
    if len(records) > bounds.MOST_CHOICES or not is_own or (by_key and _is_open(inference, classes, name)):
        return held._replace(element=UNKNOWN, items=None)
    added = [_added(inference, record) for record in records]
    return held._replace(element=join_all(added)._replace(constant=None), items=None)


def is_filled_openly(inference: ValueQuestions, classes: list[ClassInfo], name: str) -> bool:
    """Whether `self.rows.setdefault(key, []).append(x)` fills an attribute that other code may change as well."""
    is_filled = any(name in _filled_by_setdefault(cls.index) for cls in classes)
    return is_filled and _is_open(inference, classes, name)


def _filled_by_setdefault(index: Index) -> frozenset[str]:
    """The attributes in a file whose lists, by key, grow where `setdefault` gives them."""

    def find() -> frozenset[str]:
        records = (record for grower in sorted(GROW) for record in index.calls.get(grower, ()))
        entries = (each.call.func.value for each in records if isinstance(each.call.func, ast.Attribute))
        holders = (entry_of(each)[0] for each in entries if isinstance(each, ast.Call))
        return frozenset(holder.attr for holder in holders if isinstance(holder, ast.Attribute))

    return index.note("filled by setdefault", find)


def _is_open(inference: ValueQuestions, classes: list[ClassInfo], name: str) -> bool:
    """Whether anything but its constructor sets an attribute of this name, its entries, or hands it on."""
    index = classes[0].index
    own = [store for cls in classes for store in cls.attributes.get(name, ())]
    if any(cls.index is not index for cls in classes) or len(own) > 1 or index.stores.get(name):
        return True
    program = inference.program
    if program is not None and program.names_elsewhere(name, index):
        return True
    return name in index.note("attributes that are changed or handed on", lambda: _changed_or_handed_on(index))


def _changed_or_handed_on(index: Index) -> frozenset[str]:
    """Attributes that the file uses in other ways than to set them, to fill them by key, and to look into them."""
    found: set[str] = set()
    for function in index.all_functions:
        for node in function.nodes:
            if isinstance(node, ast.Attribute) and not _is_looked_into(node, function.parent_of(node)):
                found.add(node.attr)
    return frozenset(found)


def _is_looked_into(node: ast.Attribute, parent: ast.AST | None) -> bool:
    """Whether an attribute is only read by key, or plainly set."""
    if isinstance(node.ctx, ast.Store):
        return isinstance(parent, (ast.Assign, ast.AnnAssign, ast.Tuple))
    looks = isinstance(parent, ast.Subscript) and parent.value is node and isinstance(parent.ctx, ast.Load)
    asks = isinstance(parent, ast.Attribute) and parent.attr in _ASKS
    return isinstance(node.ctx, ast.Load) and (looks or asks or isinstance(parent, ast.Compare))


def with_all_modules(inference: ValueQuestions, holder: Value, classes: list[ClassInfo], name: str) -> Value:
    """A container of modules with what these classes add to it; with unknown modules if it may get others as well."""
    records = [record for cls in classes for record in _growing(cls, name) if not _keys_of(record)]
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
    if is_named(record.call.func.value):  # type: ignore[attr-defined]
        value = UNKNOWN
    for _ in _keys_of(record):
        value = container(value)
    return value


def _keys_of(record: CallRecord) -> list[ast.expr]:
    """The keys of the list that a call adds to: none if the attribute itself is the list."""
    return entry_of(record.call.func.value)[1]  # type: ignore[attr-defined]
