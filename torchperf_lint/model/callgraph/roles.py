"""Roles: what the shape of a library's class says of its methods, where no call in the project says more.

A library's users call a metric's `update`, a trainer's `train_step` or a distribution's `log_prob` once per batch. The
project itself shows no such call, so this is likely, and never proven.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import distributions_api, environments, roles, torchmetrics_api
from torchperf_lint.model.domain.contracts import Contract
from torchperf_lint.model.domain.values import Device, Origin
from torchperf_lint.model.syntax.index import dotted

if TYPE_CHECKING:
    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import CallRecord, ClassInfo, FunctionInfo

_NAMES = frozenset().union(
    roles.METRIC_UPDATES,
    roles.BATCH_HOOKS,
    roles.STEPS,
    distributions_api.ASKED_PER_BATCH,
    roles.AVERAGE_UPDATES,
    roles.LOSS_CALLS,
    (environments.STEPS_IT,),
)


def may_have(function: FunctionInfo) -> bool:
    """Whether the function's names are those of such a role; False is certain."""
    return (function.cls is not None and function.name in _NAMES) or _compares(function) or _trains(function)


def contract(inference: ValueQuestions, function: FunctionInfo, cls: ClassInfo | None) -> Contract | None:
    """The contract of a function that has such a role, alone or by its class, and that nothing in the project calls."""
    if not may_have(function) or (cls is not None and roles.TESTS.search(cls.name)):
        return None
    found = None
    if len(function.parameter_names) > 1:
        found = _of_predictions(function) if cls is None else _by_role(inference, function, cls)
    if found is None and _trains(function):
        found = Contract(True, f"`{function.name}` takes one step of an optimizer, as for every batch", is_likely=True)
    return None if found is None or _is_called_elsewhere(inference, function) else found


def _is_called_elsewhere(inference: ValueQuestions, function: FunctionInfo) -> bool:
    """Whether the project itself calls it; a distribution that asks another only passes on what its users ask for."""
    callers, cls = inference.callers(function), function.cls
    if cls is None or not _is_of_distributions(inference, cls):
        return bool(callers)
    own = inference.lineage(cls)
    owners = {record.function.cls for record in callers}
    return any(owner is None or not (owner in own or _is_of_distributions(inference, owner)) for owner in owners)


def _is_of_distributions(inference: ValueQuestions, cls: ClassInfo) -> bool:
    """Whether the class is a distribution, or a transform of one."""
    return any(map(distributions_api.BASES.match, inference.library_bases(cls)))


def _trains(function: FunctionInfo) -> bool:
    """Whether a call of the function goes backward once and takes a step of an optimizer that outlives the call."""
    return function.note(("trains", function), lambda: _takes_one_step(function))


def _takes_one_step(function: FunctionInfo) -> bool:
    arguments = function.arguments
    taken = function.parameter_names[function.self_name is not None :]
    has_any = arguments is not None and bool(taken or arguments.vararg or arguments.kwarg)
    return has_any and takes_a_step(function)


def takes_a_step(function: FunctionInfo) -> bool:
    """Whether the function's own statements go backward and take a step of an optimizer, in none of its loops."""
    return function.note(("takes a step", function), lambda: _goes_backward_and_steps(function))


def _goes_backward_and_steps(function: FunctionInfo) -> bool:
    if function.is_module or function.is_lambda or function.is_generator or roles.ONE_STEP_ALONE.search(function.name):
        return False
    index, given = function.index, function.parameter_names

    def once(record: CallRecord) -> bool:
        return record.function is function and not index.places[record.statement].loops()

    def steps(record: CallRecord) -> bool:
        owner: ast.expr = record.call
        func = record.call.func
        if isinstance(func, ast.Attribute):
            owner = func.value.value if isinstance(func.value, ast.Subscript) else func.value
        path = dotted(owner)
        return path is not None and path.split(".")[0] in given and bool(roles.OPTIMIZERS.search(path.split(".")[-1]))

    return any(once(record) for name in roles.BACKWARDS for record in index.calls_named(name)) and any(
        once(record) and steps(record) for record in index.calls_named("step")
    )


def _compares(function: FunctionInfo) -> bool:
    """Whether it is a public function that takes predictions, then what is expected: `iou(preds, target)`."""
    names = function.parameter_names
    is_public = function.outer is function.index.module and not function.name.startswith("_")
    if not is_public or function.cls is not None or len(names) < 2:
        return False
    return names[0] in roles.PREDICTED and names[1] in roles.EXPECTED and not roles.OF_ALL_DATA.search(function.name)


def _of_predictions(function: FunctionInfo) -> Contract | None:
    """The contract of a function that is annotated to compare tensors."""
    if not _takes_tensors(function, 0):
        return None
    says = f"users call `{function.name}` with predictions and targets for every batch"
    return _likely(says, frozenset(function.parameter_names[:2]))


def _takes_tensors(function: FunctionInfo, first: int) -> bool:
    """Whether the parameter in this place and the next one are annotated as tensors."""
    arguments = function.arguments
    given = [] if arguments is None else [*arguments.posonlyargs, *arguments.args][first : first + 2]
    annotated = [each.annotation is not None and "Tensor" in ast.unparse(each.annotation) for each in given]
    return len(annotated) > 1 and all(annotated)


def _by_role(inference: ValueQuestions, function: FunctionInfo, cls: ClassInfo) -> Contract | None:
    name = function.name
    if name in roles.METRIC_UPDATES and _is_metric(inference, cls):
        says = f"users call `{name}` of a metric such as `{cls.name}` for every batch"
        return _likely(says, torchmetrics_api.INPUTS)
    if name in roles.BATCH_HOOKS and any(roles.HOOK_OWNERS.search(each) for each in _names(inference, cls)):
        return _likely(f"trainers call `{name}` of a callback such as `{cls.name}` for every batch", roles.HOOK_TENSORS)
    if name in roles.STEPS and any(roles.STEP_OWNERS.search(each) for each in _names(inference, cls)):
        return Contract(True, f"users call `{name}` of `{cls.name}` for every batch", is_likely=True)
    if name in distributions_api.ASKED_PER_BATCH and _is_of_distributions(inference, cls):
        values = function.parameter_names[1 : 1 + distributions_api.VALUES.get(name, 0)]
        if name in distributions_api.STEPS_OF_TRANSFORMS:
            says = f"torch calls `{name}` of a transform such as `{cls.name}` for every batch"
            return Contract(True, says, Device.LIKELY, tensors=frozenset(values), is_likely=True)
        says = f"users call `{name}` of a distribution such as `{cls.name}` for every batch"
        return _likely(says, frozenset(values) | distributions_api.NAMED_VALUES)
    if name in roles.AVERAGE_UPDATES and roles.AVERAGES.search(cls.name):
        says = f"users call `{name}` of an average of a model such as `{cls.name}` in every step"
        return Contract(True, says, is_likely=True)
    if (
        name == environments.STEPS_IT
        and environments.ACTIONS.search(function.parameter_names[1])
        and _is_environment(inference, cls)
    ):
        return Contract(True, f"rollouts call `{name}` of an environment such as `{cls.name}`", is_likely=True)
    if name == "__call__" and _is_called_metric(inference, function, cls):
        says = f"users call a metric such as `{cls.name}` with predictions and targets for every batch"
        return _likely(says, frozenset(function.parameter_names[1:3]))
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


def _is_called_metric(inference: ValueQuestions, function: FunctionInfo, cls: ClassInfo) -> bool:
    """Whether the class starts anew by one method, and compares tensors when it is called."""
    names = function.parameter_names[1:3]
    compares = len(names) > 1 and names[0] in roles.PREDICTED and names[1] in roles.EXPECTED
    starts_anew = any(inference.method(cls, name) is not None for name in roles.METRIC_RESETS)
    return compares and starts_anew and _takes_tensors(function, 1)


def _is_environment(inference: ValueQuestions, cls: ClassInfo) -> bool:
    is_named_so = any(environments.CLASSES.search(each) for each in _names(inference, cls))
    return is_named_so and inference.method(cls, environments.STARTS_IT) is not None


def _names(inference: ValueQuestions, cls: ClassInfo) -> list[str]:
    """The class's own name, and the last names of its bases."""
    return [cls.name, *(ref.rpartition(".")[2] for ref in inference.base_names(cls))]
