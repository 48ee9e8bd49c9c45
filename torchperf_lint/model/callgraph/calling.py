"""Callers of a function: the calls that may mean it by name, and which of them provably reach it."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import hooks
from torchperf_lint.knowledge.common_names import TENSOR_METHODS
from torchperf_lint.model import bounds
from torchperf_lint.model.callgraph import class_unions, constructors, hierarchy, registered
from torchperf_lint.model.domain.accelerator_tests import is_for_host, parts_on_accelerator
from torchperf_lint.model.domain.flows import Flow, Handing
from torchperf_lint.model.domain.grades import Grade
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.project.exports import Imported, LibraryName
from torchperf_lint.model.syntax import finding
from torchperf_lint.model.syntax.call_sites import ImplicitCall
from torchperf_lint.model.syntax.index import ClassInfo, FunctionInfo, dotted, given_to, last_name, names_in
from torchperf_lint.model.syntax.names import positional_of
from torchperf_lint.model.syntax.slices import slices_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from torchperf_lint.model.domain.interfaces import ProjectQuestions, ValueQuestions
    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.project.exports import Meaning
    from torchperf_lint.model.syntax.call_sites import CallSite
    from torchperf_lint.model.syntax.index import CallRecord


_BUILTINS = frozenset(dir(builtins))
CALL_AT_ONCE = frozenset({"step", *hooks.CALLERS_OF_ARGUMENTS})
"""Functions that call their arguments before they return."""


def callers(inference: ValueQuestions, function: FunctionInfo) -> list[CallRecord]:
    """The calls in the program that reach the function."""
    return [record for record in possible_callers(inference, function) if reaches(inference, record, function)]


def possible_callers(inference: ValueQuestions, function: FunctionInfo, in_part: bool = False) -> list[CallRecord]:
    """The calls in the program that could mean the function, by name or as a parameter; those of its own file first.

    Where there are too many in other files, none of these, or, if `in_part`, as many as are followed.
    """
    if function.is_module:
        return []
    if function.is_lambda:
        flows = inference.flows(function) if may_call_lambda(inference, function) else ()
        return [flow.record for flow in flows]
    given = (flow.record for flow in _through_parameters(inference, function))
    found = [*_own_calls(function), *given, *_calls_elsewhere(inference, function, in_part)]
    if may_be_value(inference, function):
        found += (flow.record for flow in inference.flows(function) if not flow.shifted)
    return list({id(record): record for record in found}.values())


def as_value(inference: ValueQuestions, function: FunctionInfo) -> list[Flow]:
    """The calls in the program that the function reaches as a value or as a parameter."""
    flows = inference.flows(function) if may_be_value(inference, function) else ()
    return [*_through_parameters(inference, function), *flows]


def may_mean_by_name(record: CallRecord, function: FunctionInfo) -> bool:
    """Whether the call may mean the function without it being there as a value: by its name, which is not local."""
    func = record.call.func
    return last_name(func) == function.called_as and not (
        isinstance(func, ast.Name) and _is_local(func.id, record.function)
    )


def may_be_value(inference: ValueQuestions, function: FunctionInfo) -> bool:
    """Whether, by names, something names the function without calling it, or makes objects that are called."""
    if function.name == "__call__":
        # A module's own `__call__` is machinery around `forward`.
        return function.cls is not None and inference.instance(function.cls).kind is not Kind.MODULE
    if function.name == "__init__":
        return constructors.may_be_chosen(inference, function)
    if function.is_lambda:
        return may_call_lambda(inference, function)
    if not _is_followed(function):
        return False
    index = function.index
    if function.name in index.handed or function.name in index.held or index.also_called(function.name):
        return True
    if inference.program is not None and inference.program.names_elsewhere(function.name, index):
        return True
    return may_be_looked_up(inference, function) or any(True for _ in registered.given(inference.program, function))


def may_be_looked_up(inference: ValueQuestions, function: FunctionInfo) -> bool:
    """Whether, by names, something may look up the method by its name: `getattr(callback, "on_batch_end")`."""
    if function.cls is None or function.name.startswith("__"):
        return False
    if inference.program is None:
        return "getattr" in function.index.calls
    return inference.program.may_be_looked_up(function.name, function.index)


def _is_followed(function: FunctionInfo) -> bool:
    """Whether the function, or the objects whose method it is, may be worth following.

    Most calls of a name of tensors' methods are on tensors, and frameworks call `forward` anyway.
    """
    if function.name in ("__call__", "__init__"):
        return function.cls is not None
    if function.name.startswith("__") or function.is_module:
        return False
    if function.cls is None:
        return True
    is_property = any(isinstance(each, ast.Name) and each.id == "property" for each in function.decorators)
    return not is_property and function.name != "forward" and function.name not in TENSOR_METHODS


def callers_by_name(inference: ValueQuestions, function: FunctionInfo, in_part: bool = False) -> list[CallRecord]:
    """The calls in the program whose last name could mean the function."""
    if function.is_module or function.is_lambda:
        return []
    return [*_own_calls(function), *_calls_elsewhere(inference, function, in_part)]


def _own_calls(function: FunctionInfo) -> list[CallRecord]:
    own = function.index.calls_named(function.called_as)
    if function.name == "__call__" and function.cls is not None:
        own = [*own, *finding.calls_of_objects(function.index, function.cls.name)]
    return own


def _calls_elsewhere(inference: ValueQuestions, function: FunctionInfo, in_part: bool = False) -> list[CallRecord]:
    program, most = inference.program, bounds.MOST_CALLS_ELSEWHERE
    if program is None:
        return []
    found = program.calls_elsewhere(function, most)
    return program.some_calls_elsewhere(function, most) if found is None and in_part else found or []


def may_call_lambda(inference: ValueQuestions, function: FunctionInfo) -> bool:
    """Whether code of the project may call the lambda: not if only a library gets it."""
    record = function.index.lambdas_given.get(function.node)  # type: ignore[arg-type]
    return record is None or not _is_foreign(inference, record)


def is_given_away(inference: ValueQuestions, function: FunctionInfo) -> bool:
    """Whether, by names, the function is passed to something that may call it."""
    if function.is_lambda:
        return False
    homes = {home.index: None for home in inference.files_passing(function)}
    if function.cls is not None:
        homes.update((owner.index, None) for owner in inference.lineage(function.cls))
    return any(
        function.name in index.defaults
        or any(
            _may_receive(record, function)
            and (
                last_name(record.call.func) in CALL_AT_ONCE
                or (_may_call(inference, record) and not _is_foreign(inference, record))
            )
            for record in index.handed.get(function.name, ())
        )
        for index in homes
    )


def _may_receive(record: CallRecord, function: FunctionInfo) -> bool:
    """Whether one of the call's arguments may be the function, by its name."""
    return any(may_name(given, record.function, function) for given in given_to(record.call))


def named(program: ProjectQuestions, record: CallRecord) -> Meaning | None:
    """The meaning of the called `f(...)` or `module.f(...)` by imports and definitions; None if that needs values."""
    path, index = dotted(record.call.func), record.function.index
    if path is None:
        return None
    root, _, rest = path.partition(".")
    scope: FunctionInfo | None = record.function
    while scope is not None and scope is not index.module:
        if root in index.bound_names(scope):
            return None
        scope = scope.outer
    found = program.file_of(index).exports.meanings.get(root)
    if isinstance(found, Imported):
        return program.meaning(f"{found.ref}.{rest}" if rest else found.ref, index)
    if rest or found is not None:
        return None if rest else found
    is_builtin = root in _BUILTINS and root not in index.bound_names(index.module)
    return LibraryName(f"builtins.{root}") if is_builtin else None


def _is_foreign(inference: ValueQuestions, record: CallRecord) -> bool:
    """Whether the call is of a builtin or of another library, whose code is not available."""
    return inference.program is not None and isinstance(named(inference.program, record), LibraryName)


def may_name(node: ast.expr, caller: FunctionInfo, function: FunctionInfo) -> bool:
    """Whether an expression may be the function by its name alone: `self.f` for a method, else a non-local `f`."""
    if last_name(node) != function.name or isinstance(node, ast.Name) is (function.cls is not None):
        return False
    scope: FunctionInfo | None = caller
    while isinstance(node, ast.Name) and scope is not None and scope is not function.outer:
        if function.name in scope.index.bound_names(scope):
            return scope is scope.index.module
        scope = scope.outer
    return True


def is_another(inference: ValueQuestions, record: CallRecord, function: FunctionInfo) -> bool:
    """Whether the syntax of a call shows that it means something other than the function."""
    return _by_syntax(inference.home(record.function.index), record, function) is False


def grade(inference: ValueQuestions, record: CallRecord, function: FunctionInfo) -> Grade | None:
    """What shows that the call calls the function; None if something shows that it does not."""
    if reaches(inference, record, function):
        return Grade.PROVEN
    flows = inference.flows(function) if may_be_value(inference, function) else ()
    if any(flow.record is record and flow.grade is Grade.BY_HIERARCHY for flow in flows):
        return Grade.BY_HIERARCHY if hierarchy.takes(function, record.call) else Grade.BY_NAME
    if is_another(inference, record, function):
        return None
    return Grade.BY_HIERARCHY if hierarchy.may_mean(inference, record, function) else Grade.BY_NAME


def likely_callers(inference: ValueQuestions, function: FunctionInfo) -> list[CallRecord]:
    """The calls that reach the method by class hierarchy alone: of steps that delegate, of trainers with callbacks.

    Or those that reach the function by the registry that a decorator adds it to.
    """
    if function.cls is None:
        flows = inference.flows(function) if may_be_value(inference, function) else ()
        return [each.record for each in flows if each.grade is Grade.BY_HIERARCHY]
    possible = possible_callers(inference, function)
    return [
        each
        for each in possible
        if each.function is not function and grade(inference, each, function) is Grade.BY_HIERARCHY
    ]


def may_be_by_hierarchy(inference: ValueQuestions, record: CallSite, function: FunctionInfo) -> bool:
    """Whether a call that is not proven may count by class hierarchy, as far as names and syntax tell."""
    if isinstance(record, ImplicitCall):
        return True
    if function.cls is None or function.name == "__call__":  # a registry may give it
        flows = inference.flows(function) if may_be_value(inference, function) else ()
        return any(flow.record is record and flow.grade is Grade.BY_HIERARCHY for flow in flows)
    receiver = record.call.func.value if isinstance(record.call.func, ast.Attribute) else record.call.func
    if not hierarchy.may_be_meant(inference, function, receiver):
        return False
    return not is_another(inference, record, function)


def reaches(inference: ValueQuestions, record: CallSite, function: FunctionInfo) -> bool:
    """Whether the call provably calls the function; values have shown for an implicit one whether it does."""
    if isinstance(record, ImplicitCall):
        return record.overridden is None
    if function.is_lambda:
        return any(flow.record is record for flow in inference.flows(function))
    there = inference.home(record.function.index)
    settled = _settled(there, record, function)
    if settled is not None:
        return settled
    func = record.call.func
    is_parameter = isinstance(func, ast.Name) and func.id in record.function.parameter_names
    if is_parameter and any(flow.record is record for flow in _through_parameters(there, function)):
        return True
    flows = inference.flows(function) if _is_followed(function) else ()
    return any(flow.record is record and flow.grade is Grade.PROVEN for flow in flows)


def reaches_alone(inference: ValueQuestions, record: CallRecord, function: FunctionInfo) -> bool:
    """Whether names and values without any callers show that the call calls the function."""
    return _settled(inference.home(record.function.index), record, function, is_alone=True) is True


def _settled(
    inference: ValueQuestions, record: CallRecord, function: FunctionInfo, is_alone: bool = False
) -> bool | None:
    """What names and values in the call's file show; None if they do not settle it."""
    by_syntax = _by_syntax(inference, record, function)
    if by_syntax is not None:
        return by_syntax
    func = record.call.func
    asked = (func, func.value) if isinstance(func, ast.Attribute) else (func,)
    callee, *receiver = inference.alone(lambda: inference.parts(record, *asked))
    is_open = callee.kind is Kind.UNKNOWN or (callee.kind is Kind.METHOD and callee.function is None)
    if is_open and not is_alone and rests_on_parameters(record):
        callee, *receiver = inference.parts(record, *asked)
    if function.name == "__init__" and callee.kind is Kind.CLASS:
        return constructors.builds(inference, callee, function)
    if callee.function is not None:
        return callee.function is function or is_overridden_by(inference, callee.function, function)
    if receiver and receiver[0].among and function.cls is not None:
        return class_unions.may_mean(inference, receiver[0], function, is_overridden_by) or None
    if isinstance(func, ast.Name) and _is_one_of_several(function, record.function):
        return True
    if callee.kind is Kind.FUNCTION and isinstance(func, ast.Name):
        return any(value.function is function for value in _choices(inference, func.id, record.function)) or None
    if callee.kind is Kind.INSTANCE and callee.cls is not None and function.name == "__call__":
        return inference.method(callee.cls, "__call__") is function
    if callee.kind is Kind.LIBRARY and callee.ref is not None and inference.program is not None:
        return inference.program.defines(callee.ref, function)
    return None


def _is_one_of_several(function: FunctionInfo, caller: FunctionInfo) -> bool:
    """Whether the caller defines the function, and others by the same name in other branches, and nothing else so."""
    if function.outer is not caller or function.cls is not None or caller.is_module:
        return False
    alike = [each for each in caller.index.functions if each.outer is caller and each.name == function.name]
    return len(alike) > 1 and caller.bound_names.count(function.name) == len(alike)


def rests_on_parameters(record: CallRecord) -> bool:
    """Whether the callee may depend on a parameter of the calling function other than `self`."""
    function = record.function
    part = slices_of(function).of_parts(record.statement, (record.call.func,))
    return not part.names.isdisjoint(set(function.parameter_names) - {function.self_name})


def _by_syntax(inference: ValueQuestions, record: CallRecord, function: FunctionInfo) -> bool | None:
    """What the syntax of the call shows, before any value is inferred: yes, no, or unknown (None)."""
    func, caller = record.call.func, record.function
    named = _by_name(inference, record, function)
    if named is not None or last_name(func) != function.name:
        return named
    if isinstance(func, ast.Name):
        if function.cls is not None:
            return None if _is_local(func.id, caller) else False
        return True if finding.means_module_function(inference.index, func.id, caller, function) else None
    if function.cls is None:
        # `helpers.accuracy(...)` calls another module's function.
        return None if function.index is not inference.index else False
    receiver = func.value if isinstance(func, ast.Attribute) else None
    if caller.cls is not None and isinstance(receiver, ast.Name) and receiver.id == caller.self_name:
        meant = inference.method(caller.cls, function.name)
        return meant is function or hierarchy.inherits(inference, caller, function)
    if isinstance(receiver, ast.Call) and last_name(receiver.func) == "super":
        return caller.cls is not None and _inherited(inference, caller.cls, function.name) is function
    return None


def _is_local(name: str, function: FunctionInfo) -> bool:
    """Whether the function, or one around it, binds the name."""
    scope: FunctionInfo | None = function
    while scope is not None and scope.outer is not None:
        if name in scope.index.bound_names(scope):
            return True
        scope = scope.outer
    return False


def _by_name(inference: ValueQuestions, record: CallRecord, function: FunctionInfo) -> bool | None:
    """What the file's imports and definitions show about `f(...)` and `module.f(...)`; None if that needs values."""
    if inference.program is None:
        return None
    meant = named(inference.program, record)
    if isinstance(meant, ClassInfo) and function.name == "__init__":
        return meant is function.cls or inference.method(meant, "__init__") is function
    if isinstance(meant, (FunctionInfo, ClassInfo)):
        return meant is function
    return False if isinstance(meant, LibraryName) and not inference.program.defines(meant.name, function) else None


def _through_parameters(inference: ValueQuestions, function: FunctionInfo) -> list[Flow]:
    """The calls of a parameter whose argument or default is the function: `run_epoch(loader, fn=train_step)`."""
    found: list[Flow] = []
    for home in inference.files_passing(function):
        for record in home.index.handed.get(function.name, ()):
            callee = _callee(home, record) if _may_receive(record, function) and _may_call(home, record) else None
            if callee is not None:
                names = _parameters_for(home, record, callee, function)
                called = (each for each in callee.calls_made if last_name(each.call.func) in names)
                found += (Flow(each, shifted=False, handed=(Handing(record, callee),)) for each in called)
        for taker, name in home.index.defaults.get(function.name, ()):
            if home.names.at_top(function.name).function is function:
                found += (Flow(each, shifted=False) for each in _calls_of_parameter(taker, name))
    return found


def _may_call(inference: ValueQuestions, record: CallRecord) -> bool:
    """Whether the callee may call its arguments, by its name; true for the name of a variable or an attribute."""
    index, name = record.function.index, last_name(record.call.func)
    if inference.program is None or name is None or inference.program.calls_given(name, index):
        return True
    if isinstance(record.call.func, ast.Attribute):
        return any(name in cls.attributes for cls in index.classes_with(name))
    scope: FunctionInfo | None = record.function
    while scope is not None and scope is not index.module:
        if name in index.bound_names(scope):
            return True
        scope = scope.outer
    return name in inference.program.file_of(index).exports.variables


def _callee(inference: ValueQuestions, record: CallRecord) -> FunctionInfo | None:
    """The function that a call in this file calls."""
    meant = None if inference.program is None else named(inference.program, record)
    if isinstance(meant, (ClassInfo, LibraryName)):
        return None
    return (
        meant if isinstance(meant, FunctionInfo) else inference.frame_value(record.function, record.call.func).function
    )


def _calls_of_parameter(function: FunctionInfo, name: str) -> Iterator[CallRecord]:
    """The calls of a parameter, and in its file those of the attributes that store it."""
    yield from (each for each in function.calls_made if last_name(each.call.func) == name)
    for attribute, stores in (function.cls.attributes if function.cls is not None else {}).items():
        if any(store.function is function and _stores(function, store.target, name) for store in stores):
            yield from function.index.calls.get(attribute, ())


def _stores(function: FunctionInfo, target: ast.expr, name: str) -> bool:
    """Whether the function assigns the value of the name to the target."""
    return any(
        target in statement.targets and name in names_in(statement.value)
        for statement in function.nodes
        if isinstance(statement, ast.Assign)
    )


def handed_over(
    inference: ValueQuestions, function: FunctionInfo, takers: Collection[str] | None = None
) -> list[CallRecord]:
    """The calls in its file and its class's bases' files that get the function as an argument.

    With `takers`, only the calls of these names.
    """
    files = {function.index: None}
    if function.cls is not None:
        files.update((owner.index, None) for owner in inference.lineage(function.cls))
    return [
        record
        for index in files
        for record in index.handed.get(function.name, ())
        if (takers is None or last_name(record.call.func) in takers)
        and any(is_meant(inference, given, record, function) for given in given_to(record.call))
    ]


def is_meant(inference: ValueQuestions, node: ast.expr, record: CallRecord, function: FunctionInfo) -> bool:
    """Whether an argument of the call is the function: by value, or as `self.f` in a class whose `f` it overrides."""
    caller = record.function
    if caller.cls is not None and function.cls is not None and dotted(node) == f"{caller.self_name}.{function.name}":
        meant = inference.method(caller.cls, function.name)
        return meant is function or caller.cls in inference.lineage(function.cls)
    return may_name(node, caller, function) and inference.frame_value(caller, node).function is function


def _parameters_for(
    inference: ValueQuestions, record: CallRecord, callee: FunctionInfo, function: FunctionInfo
) -> list[str]:
    """The callee's parameters whose argument in this call is the function."""
    names = positional_of(callee.arguments)[callee.self_name is not None :]
    pairs = [*zip(names, record.call.args, strict=False), *((k.arg, k.value) for k in record.call.keywords if k.arg)]
    return [
        name
        for name, given in pairs
        if last_name(given) == function.name and inference.frame_value(record.function, given).function is function
    ]


def _choices(inference: ValueQuestions, name: str, function: FunctionInfo) -> list[Value]:
    """The functions that assignments bind a name to, where it is bound to several; none that the host alone runs."""
    bound = [
        node.value
        for node in function.nodes
        if isinstance(node, ast.Assign)
        and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
        and not is_for_host(function.place_of(node))
    ]
    return [inference.frame_value(function, part) for value in bound for part in parts_on_accelerator(value)]


def _inherited(inference: ValueQuestions, cls: ClassInfo, name: str) -> FunctionInfo | None:
    """The method that `super().name` means in a method of the class."""
    return next((owner.methods[name] for owner in inference.lineage(cls)[1:] if name in owner.methods), None)


def is_overridden_by(inference: ValueQuestions, abstract: FunctionInfo, function: FunctionInfo) -> bool:
    """Whether the first function is an abstract method that the second one overrides."""
    if abstract.cls is None or function.cls is None or abstract.name != function.name:
        return False
    return abstract.is_abstract and abstract.cls in inference.lineage(function.cls)
