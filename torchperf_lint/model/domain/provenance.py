"""Provenance kept apart from values: calls whose arguments differ only in their evidence share one interpretation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_lint.model.domain.values import Value

_TOKEN = "\0"
"""The text of a placeholder step; its row is the index of the evidence that it replaces."""

Evidence = tuple[Because, ...]


class ByName(Because):
    """A step that relies on a name alone, not on the program's behaviour."""

    __slots__ = ()


def strip(values: Mapping[str, Value]) -> tuple[dict[str, Value], list[Evidence]]:
    """The values with placeholders for their evidence, and the evidence by index."""
    numbers: dict[Evidence, int] = {}
    bare = {name: _bare(value, numbers) for name, value in values.items()}
    return bare, list(numbers)


def _bare(value: Value, numbers: dict[Evidence, int]) -> Value:
    if not value.because and value.element is None and not value.items:
        return value
    because = value.because
    if because:
        because = (Because(numbers.setdefault(because, len(numbers)), _TOKEN),)
    element = None if value.element is None else _bare(value.element, numbers)
    items = value.items and tuple((key, _bare(item, numbers)) for key, item in value.items)
    if not because and element is value.element and not items:
        return value
    return value._replace(because=because, element=element, items=items)


def restore(value: Value, evidence: list[Evidence]) -> Value:
    """The value with its placeholders replaced by the evidence."""
    if not value.because and value.element is None and not value.items:
        return value
    because = value.because
    if any(step.text == _TOKEN for step in because):
        because = tuple(each for step in because for each in _evidence_of(step, evidence))
    element = None if value.element is None else restore(value.element, evidence)
    items = value.items and tuple((key, restore(item, evidence)) for key, item in value.items)
    if because is value.because and element is value.element and not items:
        return value
    return value._replace(because=because, element=element, items=items)


def _evidence_of(step: Because, evidence: list[Evidence]) -> Evidence:
    if step.text != _TOKEN:
        return (step,)
    # `located` put another file's path on the placeholder: the evidence without a path is of that file.
    return tuple(each if each.path is not None else each._replace(path=step.path) for each in evidence[step.row])
