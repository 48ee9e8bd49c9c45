"""Classes derived from a library's data loader: the call in their constructor that builds it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import torch_api
from torchperf_lint.model.syntax.names import last_name

if TYPE_CHECKING:
    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import CallRecord, ClassInfo

_OPTIONS = frozenset({"pin_memory", "num_workers", "persistent_workers", "prefetch_factor"})
"""Options of a loader that are attributes of it."""


def loader_class(inference: ValueQuestions, cls: ClassInfo) -> str | None:
    """The library's loader that the class descends from, by its qualified name."""
    return next((base for base in inference.library_bases(cls) if base in torch_api.LOADERS), None)


def building_call(inference: ValueQuestions, cls: ClassInfo) -> CallRecord | None:
    """The `super().__init__(...)` that runs the library's constructor for objects of the class; None if not known."""
    constructors = [each.methods["__init__"] for each in inference.lineage(cls) if "__init__" in each.methods]
    if not constructors or loader_class(inference, cls) is None:
        return None
    built = [each for each in constructors[-1].calls_made if _is_of_super(each)]
    if len(built) != 1 or any(map(_chooses_otherwise, inference.lineage(cls))):
        return None
    return built[0]


def _chooses_otherwise(cls: ClassInfo) -> bool:
    """Whether the class sets an option of the loader as an attribute, or pins what it gives by itself."""
    iterated = cls.methods.get("__iter__")
    called = () if iterated is None else (last_name(each.call.func) for each in iterated.calls_made)
    return not _OPTIONS.isdisjoint(cls.attributes) or "pin_memory" in called


def _is_of_super(record: CallRecord) -> bool:
    func = record.call.func
    if not isinstance(func, ast.Attribute) or func.attr != "__init__" or not isinstance(func.value, ast.Call):
        return False
    return last_name(func.value.func) == "super"
