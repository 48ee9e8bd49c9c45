"""Classes derived from a library's data loader: the call in their constructor that builds it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import torch_api
from torchperf_lint.model.syntax.names import last_name

if TYPE_CHECKING:
    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import CallRecord, ClassInfo


def loader_class(inference: ValueQuestions, cls: ClassInfo) -> str | None:
    """The library's loader that the class descends from, by its qualified name."""
    return next((base for base in inference.library_bases(cls) if base in torch_api.LOADERS), None)


def building_call(inference: ValueQuestions, cls: ClassInfo) -> CallRecord | None:
    """The `super().__init__(...)` that runs the library's constructor for objects of the class; None if not known."""
    constructors = [each.methods["__init__"] for each in inference.lineage(cls) if "__init__" in each.methods]
    if not constructors or loader_class(inference, cls) is None:
        return None
    built = [each for each in constructors[-1].calls_made if _is_of_super(each)]
    return built[0] if len(built) == 1 else None


def _is_of_super(record: CallRecord) -> bool:
    func = record.call.func
    if not isinstance(func, ast.Attribute) or func.attr != "__init__" or not isinstance(func.value, ast.Call):
        return False
    return last_name(func.value.func) == "super"
