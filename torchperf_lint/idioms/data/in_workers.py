"""Code that a loader's worker processes run, and its uses of the accelerator."""

from __future__ import annotations

import ast
from collections import deque
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.provenance import ByName
from torchperf_lint.model.domain.values import NONE, Kind, Value
from torchperf_lint.model.handles import as_device, last_name, without_partial

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import CallRecord, ClassInfo, FunctionInfo

_READERS = ("__getitem__", "__getitems__", "__iter__", "__next__")
_CALLED = ("__call__", "forward")
_ASKS = ("get_worker_info", "current_process", "parent_process")

_Way = tuple[Because, ...]
_Passed = dict[str, Value]


def device_use(model: Model, site: Site) -> _Way | None:
    """The call path from the loader built at the site to a line of its workers that uses the accelerator.

    Only samples and batches count, not the `worker_init_fn`.
    """
    for current, way, passed in _functions_of_workers(model, site):
        for record in current.calls_made:
            used = _use(model, record, passed)
            if used is not None:
                return (*way, Because(record.call.lineno, used, current.path))
    return None


def functions_of_workers(model: Model, site: Site) -> Iterator[tuple[FunctionInfo, _Way]]:
    """The functions that the workers of the loader built at the site run, each with the call path to it.

    Functions that test whether they run in a worker are left out.
    """
    found: dict[FunctionInfo, _Way] = {}
    for function, way, _ in _functions_of_workers(model, site):
        found.setdefault(function, way)
    return iter(found.items())


def _functions_of_workers(model: Model, site: Site) -> Iterator[tuple[FunctionInfo, _Way, _Passed]]:
    """The same, with the device arguments passed on that path, whatever other callers pass."""
    loader = model.ast_of(site.node)
    if not isinstance(loader, ast.Call):
        return
    bound = {keyword.arg for record in model.calls_named("partial") for keyword in record.call.keywords}
    pending: deque[tuple[FunctionInfo, _Way, _Passed]] = deque(
        (each, way, _left_out(each, bound)) for each, way in _entries(model, loader, model.function_of(site))
    )
    seen = {(each, *passed.items()) for each, _, passed in pending}
    while pending and len(seen) <= bounds.MOST_FUNCTIONS_OF_WORKERS:
        current, way, passed = pending.popleft()
        if any(last_name(record.call.func) in _ASKS for record in current.calls_made):
            continue
        yield current, way, passed
        for record in current.calls_made:
            called = model.value_in(current, record.call.func)
            for callee in _called(model, called):
                there = _passed(model, record, callee, passed)
                if (callee, *there.items()) not in seen:
                    seen.add((callee, *there.items()))
                    step = Because(record.call.lineno, f"`{_named(callee)}` is called here", current.path)
                    pending.append((callee, (*way, step), there))


def _left_out(function: FunctionInfo, given: Collection[str | None]) -> _Passed:
    """The parameters that are None if a call leaves them out."""
    return {
        name: NONE
        for name, default in function.defaults.items()
        if name not in given and isinstance(default, ast.Constant) and default.value is None
    }


def _passed(model: Model, record: CallRecord, callee: FunctionInfo, passed: _Passed) -> _Passed:
    """The device arguments of the call, in a function that received `passed`."""
    call = record.call
    if any(isinstance(given, ast.Starred) for given in call.args) or any(each.arg is None for each in call.keywords):
        return {}
    taken = callee.parameter_names[callee.self_name is not None :]
    named = {**dict(zip(taken, call.args, strict=False)), **{each.arg or "": each.value for each in call.keywords}}
    values = {name: _value(model, record, node, passed) for name, node in named.items()}
    return {
        **_left_out(callee, named),
        **{name: value for name, value in values.items() if value.kind in (Kind.NONE, Kind.DEVICE, Kind.STRING)},
    }


def _value(model: Model, record: CallRecord, node: ast.expr, passed: _Passed) -> Value:
    """The value of an expression in the call, if the enclosing function received `passed`."""
    function = record.function
    if isinstance(node, ast.Name) and node.id in passed and function.bound_names.count(node.id) == 1:
        return passed[node.id]
    return model.value_in(function, node)


def _entries(model: Model, loader: ast.Call, function: FunctionInfo) -> Iterator[tuple[FunctionInfo, _Way]]:
    """The functions that the workers call for each sample or batch."""
    keywords = {each.arg: each.value for each in loader.keywords}
    dataset = loader.args[0] if loader.args else keywords.get("dataset")
    collate = loader.args[6] if len(loader.args) > 6 else keywords.get("collate_fn")
    if dataset is not None:
        value = model.value_in(function, dataset)
        if value.cls is not None:
            for each in (model.method(value.cls, name) for name in _READERS):
                if each is not None:
                    yield each, (_runs(each, f"the workers call `{value.cls.name}.{each.name}` for the samples"),)
        for each in _transforms(model, value, function):
            yield each, (_runs(each, f"the workers call `{_named(each)}` for each sample"),)
    if collate is not None:
        value = model.value_in(function, without_partial(collate))
        for each in _called(model, value):
            yield each, (_runs(each, f"the workers call `{_named(each)}` for each batch"),)


def _transforms(model: Model, dataset: Value, function: FunctionInfo, levels: int = 3) -> Iterator[FunctionInfo]:
    """The project's functions and objects that a library's dataset, or a transform in it, is made with.

    For a dataset of the project, those that it takes as transforms.
    """
    if dataset.kind is Kind.CONTAINER:
        for _, item in dataset.items or ():
            yield from _called(model, item) or _transforms(model, item, function, levels - 1)
    made = dataset.created
    if made is None or levels == 0:
        return
    for given in _taken_as_transforms(model, dataset.cls, made) if dataset.cls is not None else _all_given(made):
        value = model.value_in(function, given)
        yield from _called(model, value) or _transforms(model, value, function, levels - 1)


def _all_given(made: ast.Call) -> Iterator[ast.expr]:
    yield from made.args
    yield from (each.value for each in made.keywords)


def _taken_as_transforms(model: Model, cls: ClassInfo, made: ast.Call) -> Iterator[ast.expr]:
    """The arguments for parameters such as `transform` in the call that made an object of the class."""
    constructor = model.method(cls, "__init__")
    names = [] if constructor is None else constructor.parameter_names[1:]
    named = [*zip(names, made.args, strict=False), *((each.arg or "", each.value) for each in made.keywords)]
    if any(isinstance(given, ast.Starred) for _, given in named):
        return
    yield from (given for name, given in named if "transform" in name)


def _called(model: Model, value: Value) -> list[FunctionInfo]:
    """The function that runs when the value is called: a function of the project, or an object's method."""
    if value.function is not None:
        return [value.function]
    if value.cls is None or value.kind not in (Kind.INSTANCE, Kind.MODULE):
        return []
    return [each for each in (model.method(value.cls, name) for name in _CALLED) if each is not None][:1]


def _use(model: Model, record: CallRecord, passed: _Passed) -> str | None:
    """What a call does with the accelerator, if the arguments `passed` prove it."""
    call, func = record.call, record.call.func
    named = [each.value for each in call.keywords if each.arg == "device"]
    if isinstance(func, ast.Attribute) and func.attr == "cuda":
        return None if named else "`.cuda()` runs in a worker"
    moves = isinstance(func, ast.Attribute) and func.attr == "to"
    if not moves and not (named and (model.value_in(record.function, func).ref or "").startswith("torch.")):
        return None
    for node in [*(call.args[:1] if moves else ()), *named]:
        value = _value(model, record, node, passed)
        device = as_device(value)
        # A device known by its name alone may be the CPU in a worker.
        by_name_only = any(isinstance(step, ByName) for step in value.because)
        if device is not None and device.on_accelerator and not by_name_only:
            return (
                "`.to(...)` moves to the device in a worker" if moves else "a tensor of the device is made in a worker"
            )
    return None


def _runs(function: FunctionInfo, says: str) -> Because:
    return Because(function.body[0].lineno, says, function.path)


def _named(function: FunctionInfo) -> str:
    return function.name if function.cls is None else f"{function.cls.name}.{function.name}"
