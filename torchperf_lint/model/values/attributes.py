"""Attributes of the project's classes: what their methods, their subclasses and other code bind them to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.knowledge import torch_api
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.values import UNKNOWN, Device, Kind, Value, join_all, located
from torchperf_lint.model.syntax.index import dotted
from torchperf_lint.model.syntax.slices import slices_of
from torchperf_lint.model.values import attribute_entries, attribute_lists, own_changes, parameters, subclass_attributes
from torchperf_lint.model.values.devices import filled_since, moved_since
from torchperf_lint.model.values.name_heuristics import conventional
from torchperf_lint.model.values.tensors import holds_unknown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import AttributeStore, ClassInfo


def joined(inference: ValueQuestions, cls: ClassInfo, name: str) -> Value:
    """The value of `self.name`, joined over all statements setting it in the class and its bases of the program."""
    for owner in inference.lineage(cls):
        stores = owner.attributes.get(name)
        if stores:
            bound = [store for store in stores if own_changes.is_bound(store, owner)]
            value = own_changes.joined(inference, cls, [(store, _stored(inference, store)) for store in bound])
            value = own_changes.trained(inference, cls, name, value)
            if value.kind is Kind.CONTAINER and value.element is None:
                value = attribute_lists.filled(inference, value, inference.lineage(cls), name)
            elif value.kind is Kind.CONTAINER and attribute_lists.is_filled_openly(
                inference, inference.lineage(cls), name
            ):
                value = value._replace(element=UNKNOWN, items=None)
            elif value.kind is Kind.CONTAINER and value.ref == "dict" and value.items:
                value = attribute_entries.with_entries(inference, value, cls, name)
            if value.kind is Kind.MODULE and value.ref in torch_api.HOLDERS:
                value = attribute_lists.with_all_modules(inference, value, inference.lineage(cls), name)
            if owner is not cls and subclass_attributes.is_open(value):
                value = subclass_attributes.as_set_for(inference, cls, owner, bound) or value
            elif owner is cls and subclass_attributes.is_open(value):
                value = subclass_attributes.among_subclasses(inference, cls, bound) or value
            if value.kind in (Kind.UNKNOWN, Kind.NONE) or holds_unknown(value):
                value = parameters.declared(inference, stores, value) or value
            if value.kind is Kind.NONE:
                set_elsewhere = _set_elsewhere(inference, owner, name)
                value = value if set_elsewhere == UNKNOWN else set_elsewhere
            if value.device is Device.CPU and own_changes.registered(inference, cls, name) is not None:
                value = value._replace(device=Device.UNKNOWN)  # as a buffer it moves with the module
            if value.kind is Kind.MODULE and own_changes.is_sent_to_host(inference, cls, name):
                return Value(Kind.METHOD, element=UNKNOWN, ref=name)  # it is not where the object's other parts are
            if value.kind is not Kind.UNKNOWN or value.device.on_accelerator or value.among:
                return conventional(name, value)
    registered = own_changes.registered(inference, cls, name)
    if registered is None and not any(name in owner.attributes for owner in inference.lineage(cls)):
        by_heirs = subclass_attributes.set_by_heirs(inference, cls, name)
        return conventional(name, _set_elsewhere(inference, cls, name) if by_heirs is None else by_heirs)
    return conventional(name, UNKNOWN) if registered is None else registered


def _stored(inference: ValueQuestions, store: AttributeStore) -> Value:
    value = inference.frame_value(store.function, store.target)
    path = dotted(store.target)
    if path is None or not slices_of(store.function).changes_again(path):
        return value
    later = inference.home(store.function.index).at_end(store.function, path) or UNKNOWN
    if store.function.index is not inference.index:
        later = located(later, store.function.index.path)
    return filled_since(moved_since(value, later), later)


def _set_elsewhere(inference: ValueQuestions, cls: ClassInfo, name: str) -> Value:
    """The value that other code gives to an object's attribute, `state.loss = loss`.

    Its class sets it to None, or does not set it. A module's tensors are its own, so only plain objects count.
    """
    if inference.instance(cls).kind is not Kind.INSTANCE:
        return UNKNOWN
    stores = list(_stores_elsewhere(inference, cls, name))
    if not 0 < len(stores) <= bounds.MOST_STORES_ELSEWHERE:
        return UNKNOWN
    return join_all(_stored(inference, store) for store in stores)


def _stores_elsewhere(inference: ValueQuestions, cls: ClassInfo, name: str) -> Iterator[AttributeStore]:
    """The statements that set the attribute of an object of the class, in its file and in those that import it."""
    program = inference.program
    files = [] if program is None else [each.inference().index for each in program.naming_class(cls)]
    for index in (cls.index, *files):
        for store in index.stores.get(name, ()):
            owner = inference.frame_value(store.function, store.target.value)
            if owner.cls is not None and cls in inference.lineage(owner.cls):
                yield store
