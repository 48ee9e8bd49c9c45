"""Values of a function's parameters: from its callers, annotations, framework contracts, defaults and names."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because, OfSomeObjects, Unproven
from torchperf_lint.knowledge import conventions, hooks
from torchperf_lint.model import bounds
from torchperf_lint.model.callgraph import calling, hierarchy
from torchperf_lint.model.domain.frequency import names_evaluation
from torchperf_lint.model.domain.provenance import ByName
from torchperf_lint.model.domain.values import (
    NUMBER,
    UNKNOWN,
    Device,
    Kind,
    Value,
    container,
    join_all,
)
from torchperf_lint.model.syntax.arguments import is_of_class
from torchperf_lint.model.syntax.bulk_moves import stores_by_moves_alone
from torchperf_lint.model.syntax.index import last_name
from torchperf_lint.model.syntax.size_parameters import used_as_sizes
from torchperf_lint.model.values import own_parts, parameter_defaults, records
from torchperf_lint.model.values.annotations import annotated
from torchperf_lint.model.values.name_heuristics import BATCH, conventional
from torchperf_lint.model.values.spreading import has_known_keys, is_starred, spread
from torchperf_lint.model.values.tensors import element_of, element_of_mapping, holds_unknown, is_of_host, placed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model.domain.contracts import Contract
    from torchperf_lint.model.domain.frames import Env, Frame
    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import AttributeStore, CallRecord, ClassInfo, FunctionInfo

_DATA = (Kind.CONTAINER, Kind.NUMPY)
_PLACES = (Kind.DEVICE, Kind.STRING)


def initial(inference: ValueQuestions, frame: Frame) -> Env:
    """The initial environment of a new frame whose function runs in general."""
    env: Env = {}
    function = frame.function
    arguments = function.arguments
    if arguments is None:
        return env
    wanted = set(function.parameter_names)
    if frame.part is not None:
        wanted &= frame.part.names
    if function.self_name in wanted:
        env[function.self_name] = own_object(inference, function)
        wanted.remove(function.self_name)
    if not wanted:
        return env
    everything = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    promises = {each.arg: inference.annotation(function, each) for each in everything if each.arg in wanted}
    promises = {name: promise for name, promise in promises.items() if not _is_a_librarys_batch(promise)}
    open_to_calls = {name for name in wanted if not _says_enough(inference, promises.get(name))}
    nothing: tuple[Env, set[str]] = ({}, set())
    by_calls, on_host = nothing
    if open_to_calls:
        by_calls, on_host = inference.one_call_up(lambda: _from_calls(inference, function, open_to_calls)) or nothing
    contract = inference.contract(function)
    defaults = function.defaults
    for argument in everything:
        name = argument.arg
        if name not in wanted:
            continue
        value = _as_loader(name, by_calls.get(name, UNKNOWN))
        if contract is not None and contract.gives_batch(name) and _is_on_device(value):
            value = UNKNOWN  # the framework calls it as well, with a batch as it was loaded
        if (promises.get(name) or UNKNOWN).kind is Kind.INSTANCE and value.items is None:
            value = UNKNOWN
        if (promises.get(name) or UNKNOWN).ref == "dict" and value.kind is Kind.TENSOR:
            value = UNKNOWN  # the call is one of another class's method of that name
        if _is_mere_attribute(value):
            value = python_data(promises.get(name)) or value
        if value.kind in (Kind.UNKNOWN, Kind.PYTREE) or holds_unknown(value):
            promised = promises.get(name)
            named = conventional(name, UNKNOWN)
            if promised is not None and holds_unknown(promised) and named.kind is not Kind.UNKNOWN:
                promised = named
            plain = promised is not None and promised.kind in (Kind.NUMBER, Kind.STRING)
            if promised is not None and (plain or value.kind in (Kind.UNKNOWN, promised.kind)):
                value = promised
            elif promised is not None and promised.kind is Kind.TENSOR and value.kind is Kind.PYTREE:
                value = value._replace(kind=Kind.TENSOR, ref=None)  # a possible pytree that is known to be one tensor
        if contract is not None and (value.kind in (Kind.UNKNOWN, Kind.TENSOR) or holds_unknown(value)):
            promised = _by_contract(
                function, contract, name, UNKNOWN if holds_unknown(value) else value, defaults.get(name)
            )
            value = value if promised.kind is Kind.UNKNOWN else promised
        from_host = name in on_host or conventions.stays_on_host(name)
        if contract is not None and contract.places(name) and not from_host:
            step = Because(function.node.lineno, contract.says)  # type: ignore[union-attr]
            value = records.promised(inference, value, (step,))
        if contract is not None and contract.holder == name and value.cls is None and value.items is None:
            step = Because(function.node.lineno, contract.says)  # type: ignore[union-attr]
            value = records.of_step(value, contract.device, (step,))
        if name not in defaults and not from_host and (there := inference.placed(function)):
            value = placed(value, there)
        if value.kind is Kind.UNKNOWN and value.device is Device.UNKNOWN and not value.among:
            value = parameter_defaults.by_default(inference, function, name, defaults.get(name))
            if value.device.is_cuda and name in by_calls:
                value = value._replace(device=Device.LIKELY)  # the callers pass something else
        if value.kind is Kind.UNKNOWN and not value.among and name in used_as_sizes(function):
            value = NUMBER._replace(dtype="int")
        if value.kind is Kind.UNKNOWN and name in conventions.DEVICE_NAMES and value.device is Device.UNKNOWN:
            value = Value(Kind.DEVICE, Device.LIKELY, because=(ByName(argument.lineno, f"parameter `{name}`"),))
        env[name] = conventional(name, value)
    for collected in (arguments.vararg, arguments.kwarg):
        if collected is not None and collected.arg in wanted:
            ref = "tuple" if collected is arguments.vararg else "dict"
            element = UNKNOWN
            if collected is arguments.vararg and contract is not None:
                element = _by_contract(function, contract, collected.arg, UNKNOWN, None)
            env[collected.arg] = by_calls.get(collected.arg) or container(element, ref=ref)
    return env


def _is_a_librarys_batch(promised: Value | None) -> bool:
    """Whether an annotation promises a batch of a library's class, such as `Batch` of PyTorch Geometric: the calls say
    where it comes from, which the annotation does not.
    """
    if promised is None or promised.kind is not Kind.INSTANCE or promised.cls is not None:
        return False
    return conventions.BATCH_CLASSES.search((promised.ref or "").rpartition(".")[2]) is not None


def _says_enough(inference: ValueQuestions, promised: Value | None) -> bool:
    """Whether the annotation alone decides the value: a string, or an object that holds no tensors by name."""
    if promised is None or promised.kind is not Kind.INSTANCE:
        return promised is not None and promised.kind is Kind.STRING
    return promised.cls is None or not records.declares_tensors(inference, promised.cls)


def _is_on_device(value: Value) -> bool:
    held = value.element if value.kind is Kind.CONTAINER else value
    return held is not None and held.device.on_accelerator


def _is_mere_attribute(value: Value) -> bool:
    """`module.x`, of which only the owner is known."""
    return value.kind is Kind.METHOD and value.function is None and (value.element or UNKNOWN).kind is Kind.MODULE


def declared(inference: ValueQuestions, stores: list[AttributeStore], value: Value) -> Value | None:
    """The Python data that an attribute's stores declare, `self.x: dict[str, float] = {}`, or the project's object."""
    promises = [
        annotated(each.annotation, inference.home(each.function.index), None, each.function)
        for each in stores
        if each.annotation is not None
    ]
    data = next((promise for promise in map(python_data, promises) if promise is not None), None)
    if data is not None or value.kind not in (Kind.UNKNOWN, Kind.NONE) or value.among:
        return None if value.kind is Kind.NONE else data
    objects = (each for each in promises if each is not None and each.kind is Kind.INSTANCE and each.cls is not None)
    return next(objects, None)


def python_data(promised: Value | None) -> Value | None:
    """The promised value if it is a number, a string, or a container of these or of unknown values."""
    inner = promised
    while inner is not None and inner.kind is Kind.CONTAINER:
        inner = inner.element
    return promised if inner is not None and inner.kind in (Kind.NUMBER, Kind.STRING, Kind.UNKNOWN) else None


def own_object(inference: ValueQuestions, function: FunctionInfo, cls: ClassInfo | None = None) -> Value:
    """The value of a method's first parameter, which may be an object of a subclass."""
    cls = cls or function.cls
    assert cls is not None
    if is_of_class(function):
        return Value(Kind.CLASS, cls=cls)
    value = inference.instance(cls)
    if value.kind is Kind.MODULE and not inference.cpu_only:
        step = Because(function.node.lineno, "a module's tensors live where the module lives")  # type: ignore[union-attr]
        return value._replace(device=Device.LIKELY, because=(step,))
    return value


def _by_contract(
    function: FunctionInfo, contract: Contract, name: str, value: Value, default: ast.expr | None
) -> Value:
    if default is not None and not (isinstance(default, ast.Constant) and default.value is None):
        return value
    if value.kind is Kind.UNKNOWN and name in contract.arrays:
        return Value(Kind.NUMPY)
    if value.kind is Kind.UNKNOWN and name in contract.numbers:
        return NUMBER
    is_tensor = name in contract.tensors or (contract.all_tensors and not conventions.DESCRIPTIONS.search(name))
    if value.kind is Kind.UNKNOWN and not is_tensor:
        return value
    if value.kind is Kind.UNKNOWN and contract.device is Device.UNKNOWN and name in contract.tensors:
        return BATCH
    if value.device is not Device.UNKNOWN or contract.device is Device.UNKNOWN:
        return value
    step = Because(function.node.lineno, contract.says)  # type: ignore[union-attr]
    kind = value.kind if value.kind is Kind.TENSOR else Kind.PYTREE
    return value._replace(kind=kind, device=contract.device, because=(step,), origin=contract.origin_of(name))


def _as_loader(name: str, given: Value) -> Value:
    """The value that calls pass for a parameter; one named like a loader also accepts loaders, even if these pass none.

    A list of batches, or a tensor or an array of rows, is iterated like a loader.
    """
    if given.kind is not Kind.TENSOR and given.kind not in _DATA:
        return given
    meant, item = conventional(name, UNKNOWN), element_of(given)
    if meant.kind is not Kind.LOADER or item.kind in (Kind.NUMBER, Kind.STRING):
        return given
    return meant._replace(element=item) if item.device.on_accelerator else meant


def placing(inference: ValueQuestions, function: FunctionInfo) -> tuple[Because, ...]:
    """Evidence that the function's tensors live where a module's inputs live: its contract, or a caller's."""
    contract = inference.contract(function)
    if contract is not None and contract.device.on_accelerator and not contract.is_likely:
        return (Because(function.node.lineno, contract.says),)  # type: ignore[union-attr]
    return inference.one_call_up(lambda: _placing_callers(inference, function)) or ()


def _placing_callers(inference: ValueQuestions, function: FunctionInfo) -> tuple[Because, ...]:
    handed = calling.handed_over(inference, function)
    records = [record for record in handed if last_name(record.call.func) in hooks.CALLERS_OF_ARGUMENTS]
    if len(calling.possible_callers(inference, function)) <= bounds.MOST_CALLERS:
        records += inference.callers(function)
    for record in records:
        around = () if record.function is function else inference.placed(record.function)
        if around and not _gives_host_tensors(inference, record):
            path = record.function.index.path
            return tuple(step._replace(path=step.path or path) for step in around)
    return ()


def _gives_host_tensors(inference: ValueQuestions, record: CallRecord) -> bool:
    """Whether the call passes host tensors and no device tensors, so that the function works on the host."""
    call = record.call
    given = inference.parts(record, *call.args, *(keyword.value for keyword in call.keywords))
    return any(map(is_of_host, given)) and not any(each.device.on_accelerator for each in given if each.holds_tensors)


def _from_calls(inference: ValueQuestions, function: FunctionInfo, wanted: set[str]) -> tuple[Env, set[str]]:
    """Each wanted parameter joined over the calls that reach the function, and the names of those from the host."""
    if wanted <= {function.self_name} or len(calling.possible_callers(inference, function)) > bounds.MOST_CALLERS:
        return {}, set()
    per_call: list[Env] = []
    records: list[CallRecord] = []
    # What joins them has the evidence of the first: that is to be training, where an evaluation calls as well.
    callers = inference.callers(function)
    likely = [] if callers else calling.likely_callers(inference, function)
    for record in sorted(callers or likely, key=lambda each: names_evaluation(each.function.name)):
        if record.function is function:
            continue
        call = record.call
        takes_self = function.self_name is not None and (is_of_class(function) or not _names_class(call, function))
        starred = is_starred(call)
        asked = _all_given(call) if starred else _given_for(function, call, wanted, takes_self)
        values = dict(zip(asked, inference.parts(record, *asked), strict=True))
        if _makes_another(record, function):
            own = own_parts.passed_on(record.function)
            values = {node: UNKNOWN if holds_unknown(v) and own(node) else v for node, v in values.items()}
        records.append(record)
        per_call.append(_given_in(function, call, values, takes_self, starred))
    names = {name for env in per_call for name in env} & wanted
    on_host = {name for env in per_call for name, value in env.items() if value.device is Device.CPU}
    on_host -= {name for env in per_call for name, value in env.items() if value.device.on_accelerator}
    joined = {name: _seen(_of_steps(inference, name, per_call, records)) for name in names}
    kwarg = None if function.arguments is None or function.arguments.kwarg is None else function.arguments.kwarg.arg
    if kwarg in joined:
        given = [(env[kwarg], record) for env, record in zip(per_call, records, strict=True) if kwarg in env]
        of_steps = [mapping for mapping, record in given if inference.may_be_hot(record)]
        joined[kwarg] = _by_keyword(of_steps or [mapping for mapping, _ in given])
    if likely and records:
        step = Unproven(
            records[0].call.lineno, hierarchy.says(inference, records[0], function), records[0].function.index.path
        )
        not_shown = {name for env in per_call for name, value in env.items() if value == UNKNOWN}
        joined = {
            name: UNKNOWN if name in not_shown and value.device is Device.CPU else _with(value, step)
            for name, value in joined.items()
        }
    made = next((each for each in records if _makes_an_heir(each, function)), None)
    if made is not None:
        text = f"no proof that all objects of `{function.cls.name}` are made like this"  # type: ignore[union-attr]
        step = OfSomeObjects(made.call.lineno, text, made.function.index.path)
        joined = {name: _with(value, step) for name, value in joined.items()}
    # Other files may call with another number, so its value and type are unknown.
    return {name: NUMBER if value.kind is Kind.NUMBER else value for name, value in joined.items()}, on_host


def _with(value: Value, step: Because) -> Value:
    return value if value == UNKNOWN else value._replace(because=(*value.because, step))


def _makes_another(record: CallRecord, function: FunctionInfo) -> bool:
    """Whether a method of the class makes another object of it."""
    return function.name == "__init__" and function.cls is not None and record.function.cls is function.cls


def _makes_an_heir(record: CallRecord, function: FunctionInfo) -> bool:
    """Whether the call runs a constructor by another name than that of its class, which inherits it or is a value."""
    names = (function.called_as, "__init__", *function.index.also_called(function.called_as))
    return function.name == "__init__" and last_name(record.call.func) not in names


def _given_in(
    function: FunctionInfo, call: ast.Call, values: dict[ast.expr, Value], takes_self: bool, starred: bool
) -> Env:
    """The function's parameters in one call, of whose arguments these values are known."""
    rest: list[Value] = []
    if starred:
        given, keywords = spread(function, takes_self, call, lambda each: values.get(each, UNKNOWN))
        mappings = [values.get(each.value, UNKNOWN) for each in call.keywords if each.arg is None]
        rest = [element_of_mapping(each) for each in mappings if not has_known_keys(each)]
    else:
        given = [values.get(argument, UNKNOWN) for argument in call.args]
        keywords = {each.arg: values.get(each.value, UNKNOWN) for each in call.keywords if each.arg}
    arguments = [UNKNOWN] * takes_self + given
    collected = _collected(function, arguments, keywords, rest)
    return {**_left_out(function), **_positional(function, arguments, keywords), **collected}


def _all_given(call: ast.Call) -> list[ast.expr]:
    """The expressions that a call passes, without their stars."""
    positional = [each.value if isinstance(each, ast.Starred) else each for each in call.args]
    return [*positional, *(each.value for each in call.keywords)]


def _of_steps(inference: ValueQuestions, name: str, per_call: list[Env], records: list[CallRecord]) -> list[Value]:
    """The values that the calls pass for the parameter.

    Only calls that may be hot count if some pass a device and some None, some a loader's batch and some other data,
    such as an example input, or some a tensor and some a number.
    """
    given = [(env[name], record) for env, record in zip(per_call, records, strict=True) if name in env]
    values = [value for value, _ in given]
    places = any(value.kind is Kind.NONE for value in values) and any(value.kind in _PLACES for value in values)
    data = [value for value in values if value.holds_tensors or value.kind in _DATA]
    kinds = {value.kind for value in values}
    mixed = Kind.NUMBER in kinds and Kind.TENSOR in kinds
    if places or mixed or {value.origin is not None for value in data} == {True, False}:
        hot = [value for value, record in given if inference.may_be_hot(record)] or values
        return [*hot, NUMBER] if mixed and any(value.kind is Kind.TENSOR for value in hot) else hot
    return values


def _given_for(function: FunctionInfo, call: ast.Call, wanted: set[str], takes_self: bool) -> list[ast.expr]:
    """The expressions that the call passes for the wanted parameters."""
    parameters = function.arguments
    assert parameters is not None
    named = [a.arg for a in (*parameters.posonlyargs, *parameters.args)]
    rest = None if parameters.vararg is None else parameters.vararg.arg
    mapping = None if parameters.kwarg is None else parameters.kwarg.arg
    accepted = {*named, *(a.arg for a in parameters.kwonlyargs)}
    taken = named[takes_self:]
    places = [*taken, *[rest] * max(0, len(call.args) - len(taken))]
    pairs = list(zip(places, call.args, strict=False))
    pairs += [(k.arg if k.arg in accepted else mapping, k.value) for k in call.keywords]
    return [node for name, node in pairs if name in wanted]


def _collected(function: FunctionInfo, arguments: list[Value], keywords: dict[str, Value], spread: list[Value]) -> Env:
    """The values of `*args` and `**kwargs` in a call; `spread` are the values of mappings of unknown keys in it."""
    given: Env = {}
    parameters = function.arguments
    assert parameters is not None
    named = [a.arg for a in (*parameters.posonlyargs, *parameters.args)]
    if parameters.vararg is not None and len(arguments) > len(named):
        given[parameters.vararg.arg] = container(join_all(arguments[len(named) :]), ref="tuple")
    if parameters.kwarg is not None:
        accepted = {*named, *(a.arg for a in parameters.kwonlyargs)}
        named_so = [(name, value) for name, value in keywords.items() if name not in accepted]
        if named_so or spread:
            element = _seen([*(value for _, value in named_so), *spread])
            given[parameters.kwarg.arg] = container(element, None if spread else named_so, ref="dict")
    return given


def _seen(given: list[Value]) -> Value:
    """A parameter's value over the calls where it is known; unknown ones do not contradict the others.

    A device tensor from one caller costs the same there, whatever other callers pass.
    """
    shown = [value for value in given if value != UNKNOWN]
    known = [value for value in shown if value.kind is not Kind.METHOD or value.function is not None]
    if len(known) < len(shown) and any(value.holds_tensors for value in known):
        shown = [*known, NUMBER]  # an attribute that is not known may be a number, too
    if any(value.kind is Kind.PYTREE for value in shown):
        shown = [value for value in shown if not (value.kind is Kind.CONTAINER and holds_unknown(value))]
    if len(shown) > 1 and all(value.kind is Kind.CONTAINER for value in shown):
        return join_all(shown)._replace(element=_seen([value.element or UNKNOWN for value in shown]))
    if any(value.kind is Kind.NUMBER for value in shown):
        # A value that may also be a number is one tensor at most, not a pytree.
        shown = [v._replace(kind=Kind.TENSOR, ref=None) if v.kind is Kind.PYTREE else v for v in shown]
    # A value moved to the device in one call has the kind that the other calls show.
    value = join_all([value for value in shown if value.kind is not Kind.UNKNOWN] or shown)
    if len(shown) < len(given) and value.constant is not None:
        value = value._replace(constant=None)
    if len(shown) < len(given) and value.device.is_cuda:
        value = value._replace(device=Device.LIKELY)
    has_place = value.holds_tensors or value.kind is Kind.DEVICE
    if has_place and value.device is Device.UNKNOWN:
        placed = next((v for v in shown if v.device.on_accelerator), None)
        if placed is not None:
            value = value._replace(device=Device.LIKELY, because=placed.because)
    return value


def _by_keyword(given: list[Value]) -> Value:
    """A `**kwargs` whose values are known by their keywords: each over the calls that pass it."""
    mapping = _seen(given)
    if mapping.kind is not Kind.CONTAINER or not all(map(has_known_keys, given)):
        return mapping
    values: dict[object, list[Value]] = {}
    for each in given:
        for keyword, value in each.items or ():
            values.setdefault(keyword, []).append(value)
    return container(mapping.element, [(keyword, _seen(each)) for keyword, each in values.items()], ref="dict")


def _names_class(call: ast.Call, function: FunctionInfo) -> bool:
    """`Base.__init__(self, x)`: the object is passed like any other argument."""
    owner = last_name(call.func.value) if isinstance(call.func, ast.Attribute) else None
    return owner is not None and function.cls is not None and owner == function.cls.name


def _left_out(function: FunctionInfo) -> Env:
    """The value of each parameter with a default in a call that leaves it out."""
    return {name: parameter_defaults.literal(default) for name, default in function.defaults.items()}


def _positional(function: FunctionInfo, arguments: list[Value], keywords: dict[str, Value]) -> Env:
    parameters = function.arguments
    assert parameters is not None
    named = [a.arg for a in (*parameters.posonlyargs, *parameters.args)]
    env = dict(zip(named, arguments, strict=False))
    if keywords:
        accepted = {*named, *(a.arg for a in parameters.kwonlyargs)}
        env.update({name: value for name, value in keywords.items() if name in accepted})
    return env


def bind(inference: ValueQuestions, function: FunctionInfo, arguments: list[Value], keywords: dict[str, Value]) -> Env:
    """The environment of one particular call: its arguments, and defaults or annotations for the rest."""
    env = _positional(function, arguments, keywords)
    assert function.arguments is not None
    defaults = function.defaults
    parameters = (*function.arguments.posonlyargs, *function.arguments.args, *function.arguments.kwonlyargs)
    for argument in parameters:
        name = argument.arg
        value = env.get(name, UNKNOWN)
        default = None if name in env else defaults.get(name)
        if isinstance(default, ast.Constant):
            value = parameter_defaults.left_out(function, name, default)
        elif default is not None:
            value = parameter_defaults.called_by_default(inference, function, default)
        if value.kind is Kind.UNKNOWN and argument.annotation is not None:
            known = inference.annotation(function, argument)
            value = value if known is None else known._replace(device=value.device, because=value.because)
        env[name] = conventional(name, value)
    for collected in (function.arguments.vararg, function.arguments.kwarg):
        if collected is not None:
            env[collected.arg] = container(UNKNOWN, ref="tuple" if collected is function.arguments.vararg else "dict")
    return {**env, **_collected(function, arguments, keywords, [])}


_HOLD = (Kind.CONTAINER, Kind.PYTREE)


def put_into(frame: Frame, bound: Env) -> Iterator[tuple[str, Value]]:
    """The parameters whose lists and dicts the function has filled, or whose items it moved; not those it rebinds."""
    named = frame.function.parameter_names
    rebound = set(named).intersection(frame.function.index.bound_names(frame.function)[len(named) :])
    for name, before in bound.items():
        after = frame.env.get(name, before)
        if before.kind is not after.kind or before.kind not in _HOLD or after == before or name in rebound:
            continue
        if before.kind is Kind.CONTAINER or stores_by_moves_alone(frame.function, name):
            yield name, after
