"""Roles: what the shape of a library's class says of its methods, where no call in the project says more.

A library's users call a metric's `update`, a trainer's `train_step` or a distribution's `log_prob` once per batch. The
project itself shows no such call, so this is likely, and never proven.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.knowledge import roles, torchmetrics_api
from torchperf_lint.model.domain.contracts import Contract
from torchperf_lint.model.domain.values import Device, Origin

if TYPE_CHECKING:
    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import ClassInfo, FunctionInfo

_NAMES = frozenset().union(
    roles.METRIC_UPDATES,
    roles.BATCH_HOOKS,
    roles.STEPS,
    roles.DISTRIBUTION_METHODS,
    roles.AVERAGE_UPDATES,
    roles.LOSS_CALLS,
)


def may_have(function: FunctionInfo) -> bool:
    """Whether the function has the name of such a method; False is certain."""
    return function.cls is not None and function.name in _NAMES


def contract(inference: ValueQuestions, function: FunctionInfo, cls: ClassInfo) -> Contract | None:
    """The contract of a method whose class has such a role, and that nothing in the project calls."""
    if not may_have(function) or len(function.parameter_names) < 2:
        return None
    found = _by_role(inference, function, cls)
    return None if found is None or inference.callers(function) else found


def _by_role(inference: ValueQuestions, function: FunctionInfo, cls: ClassInfo) -> Contract | None:
    name = function.name
    if name in roles.METRIC_UPDATES and _is_metric(inference, cls):
        says = f"users call `{name}` of a metric such as `{cls.name}` for every batch"
        return _likely(says, torchmetrics_api.INPUTS)
    if name in roles.BATCH_HOOKS and any(roles.HOOK_OWNERS.search(each) for each in _names(inference, cls)):
        return _likely(f"trainers call `{name}` of a callback such as `{cls.name}` for every batch", roles.HOOK_TENSORS)
    if name in roles.STEPS and any(roles.STEP_OWNERS.search(each) for each in _names(inference, cls)):
        return Contract(True, f"users call `{name}` of `{cls.name}` for every batch", is_likely=True)
    refs = inference.library_bases(cls)
    if name in roles.DISTRIBUTION_METHODS and any(ref.startswith("torch.distributions.") for ref in refs):
        says = f"users call `{name}` of a distribution such as `{cls.name}` for every batch"
        return _likely(says, roles.DISTRIBUTION_TENSORS)
    if name in roles.AVERAGE_UPDATES and roles.AVERAGES.search(cls.name):
        says = f"users call `{name}` of an average of a model such as `{cls.name}` in every step"
        return Contract(True, says, is_likely=True)
    if name in roles.LOSS_CALLS and roles.LOSSES.search(cls.name):
        return _likely(f"users call `{name}` of a loss such as `{cls.name}` for every batch", torchmetrics_api.INPUTS)
    return None


def _likely(says: str, tensors: frozenset[str]) -> Contract:
    return Contract(True, says, Device.LIKELY, tensors=tensors, origin=Origin.BATCH, is_likely=True)


def _is_metric(inference: ValueQuestions, cls: ClassInfo) -> bool:
    """Whether the class starts anew by one method and gives what it has gathered by another."""
    return any(inference.method(cls, name) is not None for name in roles.METRIC_RESETS) and any(
        inference.method(cls, name) is not None for name in roles.METRIC_RESULTS
    )


def _names(inference: ValueQuestions, cls: ClassInfo) -> list[str]:
    """The class's own name, and the last names of its bases."""
    return [cls.name, *(ref.rpartition(".")[2] for ref in inference.base_names(cls))]
