"""Calls by class hierarchy.

Either the receiver's class is unknown, and the method's name has one meaning in the project; a name that many classes
have, such as `add`, has it among the classes that are called like the receiver (`self.buffer`, `RolloutBuffer`). Or the
receiver is shown to be of a class, by an annotation for example, and may be of a subclass that overrides the method.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge.common_names import COMMON_METHODS, DELEGATED_STEPS
from torchperf_lint.model.domain.values import Device, Kind, Registry
from torchperf_lint.model.project.exports import LibraryName
from torchperf_lint.model.syntax.class_names import is_named_like
from torchperf_lint.model.syntax.index import dotted, last_name
from torchperf_lint.model.syntax.names import positional_of
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model.domain.interfaces import ProjectQuestions, ValueQuestions
    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.syntax.index import CallRecord, ClassInfo, FunctionInfo


def may_mean(inference: ValueQuestions, record: CallRecord, function: FunctionInfo) -> bool:
    """Whether the receiver of the call may be an object with this method, as far as classes show."""
    program, cls, func = inference.program, function.cls, record.call.func
    if program is None or cls is None or not isinstance(func, ast.Attribute) or func.attr != function.name:
        return False
    if not may_be_meant(inference, function, func.value) or not takes(function, record.call):
        return False
    home = inference.home(record.function.index)
    if not program.is_in_program(record.function.index, function.index):
        return False
    callee, receiver = home.parts(record, func, func.value)
    if callee.function is not None:
        return receiver.created is None and overrides(inference, function, callee.function)
    if receiver.among:
        return receiver.created is None and _overridden(inference, receiver, function) is not None
    if topmost(inference, function, record.function, func.value) is None:
        return False
    if not _is_open(inference, receiver, cls) and not _hands_on(inference, receiver, function.name):
        return False
    return not _is_of_library(program, func.value, record)


def may_hold(inference: ValueQuestions, receiver: ast.expr, caller: FunctionInfo, function: FunctionInfo) -> bool:
    """Whether the receiver, read in `caller`, is of unknown class, and the method's name has one meaning."""
    program, cls = inference.program, function.cls
    if program is None or cls is None or not is_telling(function, caller):
        return False
    if topmost(inference, function, caller) is None:
        return False
    if not program.is_in_program(caller.index, function.index):
        return False
    home = program.inference(caller.index)
    return _is_open(inference, home.seen_alone(caller, receiver), cls)


def may_be_meant(inference: ValueQuestions, function: FunctionInfo, receiver: ast.expr) -> bool:
    """Whether the name of the method or of the receiver tells something, or a base of its class has the method, too."""
    cls, name = function.cls, function.name
    if cls is None or name.startswith("__"):
        return False
    if is_telling(function) or is_named_like(receiver, cls.name):
        return True
    return any(name in owner.methods for owner in inference.lineage(cls)[1:])


def overrides(inference: ValueQuestions, function: FunctionInfo, other: FunctionInfo) -> bool:
    """Whether the method overrides the other one in a subclass."""
    if function.cls is None or other.cls is None or function is other or function.name != other.name:
        return False
    return other.cls in inference.lineage(function.cls)


def inherits(inference: ValueQuestions, caller: FunctionInfo, function: FunctionInfo) -> bool:
    """Whether an object with the method, of a class below, runs the base's method `caller`, too.

    It does not if its class overrides that one, and no method of it calls the base's by `super()` or its name.
    """
    base, cls = caller.cls, function.cls
    if base is None or cls is None or base is cls or base not in inference.lineage(cls):
        return False
    own = inference.method(cls, caller.name)
    if own is None or own is caller:
        return True
    calls = [each.call.func for method in cls.methods.values() for each in method.calls_made]
    named = {each.name for each in inference.lineage(cls)}
    return any(
        isinstance(func, ast.Attribute)
        and func.attr == caller.name
        and last_name(func.value.func if isinstance(func.value, ast.Call) else func.value) in ("super", *named)
        for func in calls
    )


def _overridden(inference: ValueQuestions, receiver: Value, function: FunctionInfo) -> FunctionInfo | None:
    """The method of one of the receiver's classes that the function overrides."""
    classes = [each for each in receiver.among if not isinstance(each, Registry)]
    found = (inference.method(each, function.name) for each in classes)
    return next((each for each in found if each is not None and overrides(inference, function, each)), None)


def is_telling(function: FunctionInfo, caller: FunctionInfo | None = None) -> bool:
    """Whether the method's name is not one that unrelated classes have in common; None: whatever calls it.

    A step that calls another one of the same name delegates to it: `self.task.training_step(batch)`.
    """
    if function.cls is None or function.name.startswith("__"):
        return False
    delegates = caller is None or caller.name == function.name
    return function.name not in COMMON_METHODS or (delegates and function.name in DELEGATED_STEPS)


def topmost(
    inference: ValueQuestions, function: FunctionInfo, caller: FunctionInfo, receiver: ast.expr | None = None
) -> ClassInfo | None:
    """The class that all methods of the function's name in the project lead back to; None if there are several.

    Where the name tells nothing, only the classes that are called like the receiver count. A method that calls one of
    its own name, `self.task.training_step(batch)`, delegates: its own classes do not count. Mixins lead back to the
    class that they are mixed with.
    """
    methods = _methods(inference, function, caller, receiver)
    if function not in methods:
        return None
    found: set[ClassInfo] = set()
    for method in methods:
        assert method.cls is not None
        definers = [each for each in inference.lineage(method.cls) if function.name in each.methods]
        found.update(each for each in definers if not any(_is_below(inference, each, other) for other in definers))
    tops = [each for each in found if all(other is each or _is_mixed(inference, other, each) for other in found)]
    return min(tops, key=lambda each: (each.index.path, each.row), default=None)


def _methods(
    inference: ValueQuestions, function: FunctionInfo, caller: FunctionInfo, receiver: ast.expr | None
) -> list[FunctionInfo]:
    """The methods that a call in `caller` may mean by the names of the function and, if need be, of the receiver."""
    program = inference.program
    methods = None if program is None else program.methods_named(function.name, function.index)
    if not is_telling(function, caller):
        methods = [
            each
            for each in methods or ()
            if receiver is not None and each.cls is not None and is_named_like(receiver, each.cls.name)
        ]
    if caller.cls is None or caller.name != function.name:
        return methods or []
    own = {*inference.lineage(caller.cls)}
    return [each for each in methods or () if each.cls is not None and own.isdisjoint(inference.lineage(each.cls))]


def _is_mixed(inference: ValueQuestions, mixin: ClassInfo, cls: ClassInfo) -> bool:
    """Whether a class without bases is one of those that classes below `cls` inherit from, and no others do."""
    if inference.program is None or mixin.node.bases:
        return False
    heirs = inference.program.heirs(mixin)
    return bool(heirs) and all(cls in inference.lineage(each) for each in heirs)


def _is_below(inference: ValueQuestions, cls: ClassInfo, other: ClassInfo) -> bool:
    return cls is not other and other in inference.lineage(cls)


def says(inference: ValueQuestions, record: CallRecord, function: FunctionInfo) -> str:
    """What a finding says of such a call."""
    if function.cls is None or function.name == "__call__":
        name = function.name if function.cls is None else function.cls.name
        return f"no proof that this calls `{name}`, but it calls what the registry gives that it is in"
    start = f"no proof that this calls `{function.cls.name}.{function.name}`, but"
    if any(flow.record is record and flow.is_guess for flow in inference.flows(function)):
        return f"{start} it calls a method that is looked up by a name like this"
    home = inference.home(record.function.index)
    func = record.call.func
    callee: FunctionInfo | None = None
    if isinstance(func, ast.Attribute):
        called, receiver = home.parts(record, func, func.value)
        callee = called.function or _overridden(inference, receiver, function)
    if callee is not None and callee.cls is not None:
        return f"{start} it overrides `{callee.cls.name}.{callee.name}`, which this calls"
    receiver_node = func.value if isinstance(func, ast.Attribute) else None
    top = topmost(inference, function, record.function, receiver_node)
    assert top is not None
    if not is_telling(function, record.function):
        return f"{start} what it is called on has the name of `{top.name}`"
    if len(_methods(inference, function, record.function, receiver_node)) == 1:
        return f"{start} it is the only method of that name in the project"
    return f"{start} all methods of that name that it may mean are of `{top.name}` and classes related to it"


def takes(function: FunctionInfo, call: ast.Call) -> bool:
    """Whether the function accepts the call's arguments, as far as their number and names show."""
    arguments = function.arguments
    assert arguments is not None
    if any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg is None for each in call.keywords):
        return True
    positional = positional_of(arguments)[function.self_name is not None :]
    if len(call.args) > len(positional) and arguments.vararg is None:
        return False
    given = {*positional[: len(call.args)], *(each.arg for each in call.keywords)}
    named = {*positional, *(each.arg for each in arguments.kwonlyargs)}
    if not given <= named and arguments.kwarg is None:
        return False
    return named <= given | set(function.defaults)


def _is_open(inference: ValueQuestions, receiver: Value, cls: ClassInfo) -> bool:
    """Whether nothing is known of the receiver, or only that it is a module as the class is."""
    if receiver.kind is Kind.METHOD and receiver.function is None:
        return _is_open_attribute(inference, receiver)
    if receiver.among or receiver.cls is not None or receiver.created is not None:
        return False
    if receiver.kind is Kind.MODULE:
        return inference.instance(cls).kind is Kind.MODULE
    return receiver.kind is Kind.UNKNOWN and receiver.device is Device.UNKNOWN and not receiver.ref


def _hands_on(inference: ValueQuestions, receiver: Value, name: str) -> bool:
    """Whether its class lacks the method and gives that of other objects, by `getattr(each, name)` in `__getattr__`."""
    if receiver.cls is None or inference.method(receiver.cls, name) is not None:
        return False
    instead = inference.method(receiver.cls, "__getattr__")
    if instead is None or len(instead.parameter_names) != 2:
        return False
    asked = instead.parameter_names[1]
    calls = (each for each in subtree(instead.node) if isinstance(each, ast.Call) and last_name(each.func) == "getattr")
    own = instead.self_name
    return any(
        len(each.args) > 1 and last_name(each.args[1]) == asked and dotted(each.args[0]) != own for each in calls
    )


def _is_open_attribute(inference: ValueQuestions, receiver: Value) -> bool:
    """Whether it is an attribute of unknown value: of an unknown module, or one that a class of the project sets."""
    owner = receiver.element
    if owner is None or owner.kind not in (Kind.INSTANCE, Kind.MODULE):
        return False
    if owner.cls is None:
        return owner.kind is Kind.MODULE and not owner.ref and owner.created is None
    return any(receiver.ref in each.attributes for each in inference.lineage(owner.cls))


def _is_of_library(program: ProjectQuestions, node: ast.expr, record: CallRecord) -> bool:
    """Whether the receiver is made by a class of a library, as far as the assignments in reach show."""
    return any(_makes_library_object(program, made, record) for made in _bindings(node, record.function))


def _bindings(node: ast.expr, function: FunctionInfo) -> list[ast.expr]:
    """The expressions that are assigned to a name in its function, or to `self.x` in its class."""
    if isinstance(node, ast.Call):
        return [node]
    path = dotted(node)
    if path is None:
        return []
    places = [function]
    if function.cls is not None and path.startswith(f"{function.self_name}."):
        places = [*function.cls.methods.values()]
    return [
        statement.value
        for place in places
        for statement in place.statements
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None
        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
        if dotted(target) == path
    ]


def _makes_library_object(program: ProjectQuestions, node: ast.expr, record: CallRecord) -> bool:
    path = dotted(node.func) if isinstance(node, ast.Call) else None
    if path is None:
        return False
    root = path.partition(".")[0]
    index = record.function.index
    found = program.file_of(index).exports.meanings.get(root)
    ref = getattr(found, "ref", None)
    if ref is None or not isinstance(program.meaning(ref, index), LibraryName):
        return False
    return any(part.lstrip("_")[:1].isupper() for part in path.split("."))
