"""torchvision's `normalize(x, mean, std)` of a tensor on the device: each call copies mean and deviation there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.idioms.arguments import given
from torchperf_lint.knowledge.transforms import (
    IMAGE,
    NORMALIZERS,
    NORMALIZING,
    PIPELINES,
    SEQUENCE,
    STATISTICS,
    TENSORS_TO_TENSORS,
)
from torchperf_lint.model.domain.values import Device, Kind
from torchperf_lint.syntax import cst, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.model import HotPath, Model, Site

_OBJECTS = frozenset({*NORMALIZERS, *PIPELINES, SEQUENCE})
_OF_SAMPLES = re.compile(r"Transform|Augment|Process")
"""Names of classes, modules among them, that prepare images on the host, one by one."""


class Normalizing(NamedTuple):
    """A call in every step, with the evidence that its tensor is on the device."""

    site: Site
    hot_path: HotPath
    because: tuple[Because, ...]


def normalizing(model: Model) -> Iterator[Normalizing]:
    """The calls whose mean or deviation is shown to be on the host."""
    for site in model.calls(*NORMALIZING, hot=True):
        if _has_statistics_of_host(model, site, 1):
            yield from filter(None, [_on_device(model, site)])
    names = tuple(model.called_names) if model.code.speaks_of("torchvision") else ()
    for site in model.sites(names, True, lambda record: model.callee(record).ref in _OBJECTS):
        made = model.creation(model.value(site.node.func))
        if made is not None and any(_has_statistics_of_host(model, each, 0) for each in _normalizers(model, made)):
            yield from filter(None, [_on_device(model, site)])


def _normalizers(model: Model, made: Site) -> list[Site]:
    """The object itself, or those that a pipeline runs where the image is: what stands before leaves it there."""
    if model.value(made.node.func).ref in NORMALIZERS:
        return [made]
    listed = [argument.value for argument in made.node.args]
    if len(listed) == 1 and isinstance(listed[0], (cst.List, cst.Tuple)):
        listed = [element.value for element in listed[0].elements]
    found: list[Site] = []
    for step in map(model.value, listed):
        if step.ref not in TENSORS_TO_TENSORS:
            break
        normalizer = model.creation(step) if step.ref in NORMALIZERS else None
        found += [] if normalizer is None else [normalizer]
    return found


def _on_device(model: Model, site: Site) -> Normalizing | None:
    given_as = (shape.argument(site.node, name, 0) for name in IMAGE)
    image = next((each for each in given_as if isinstance(each, cst.BaseExpression)), None)
    because = None if image is None else model.on_device(image)
    cls = model.function_of(site).cls
    is_of_samples = cls is not None and _OF_SAMPLES.search(cls.name)
    hot_path = None if because is None or is_of_samples else model.hot_path(site)
    return None if because is None or hot_path is None else Normalizing(site, hot_path, because)


def _has_statistics_of_host(model: Model, site: Site, place: int) -> bool:
    return any(_is_of_host(model, site, name, place + i) for i, name in enumerate(STATISTICS))


def _is_of_host(model: Model, site: Site, name: str, place: int) -> bool:
    """Whether a statistic is shown to be numbers, an array or a tensor of the host."""
    argument = given(model, site.node, name, place)
    value = None if argument is None else argument.value
    while value is not None and value.kind is Kind.CONTAINER:
        value = value.element
    if value is None:
        return False
    return value.kind in (Kind.NUMBER, Kind.NUMPY) or (value.kind is Kind.TENSOR and value.device is Device.CPU)
