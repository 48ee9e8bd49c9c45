"""What expressions are by default: options of calls and of objects that nothing in the project sets."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_lint.engine.option_calls import applied, applied_to, constructed_with, given_or_left
from torchperf_lint.engine.option_groups import default_of_group
from torchperf_lint.engine.option_names import (
    declared,
    handed_on,
    has_computed_names,
    left_or_handed_on,
    literal_of,
    looked_up,
    may_hold_more,
    named_otherwise,
)
from torchperf_lint.engine.option_tests import tests
from torchperf_lint.engine.queue_calls import runs_its_body
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.syntax.arguments import given_for
from torchperf_lint.model.syntax.device_tests import device_test
from torchperf_lint.model.syntax.names import last_name, paired
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torchperf_lint.model import Model
    from torchperf_lint.model.syntax.index import CallRecord, ClassInfo, FunctionInfo

MOST_STEPS = 6
"""Names and attributes that are followed from a test to the literal which decides it."""

_MOST_CALLS = 20
"""Calls of one function that are looked at."""

CALLED_BY_OTHERS = frozenset({"__call__", "forward"})
"""Functions that calls reach without their names."""

_ASKS = (ast.Compare, ast.BoolOp, ast.UnaryOp)
_LEADS = (ast.AnnAssign, ast.Assert, ast.Assign, ast.Expr, ast.If, ast.Return)
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: lambda left, right: left == right,
    ast.NotEq: lambda left, right: left != right,
    ast.Is: lambda left, right: left is right,
    ast.IsNot: lambda left, right: left is not right,
    ast.Lt: lambda left, right: left < right,
    ast.LtE: lambda left, right: left <= right,
    ast.Gt: lambda left, right: left > right,
    ast.GtE: lambda left, right: left >= right,
}

_SOMETHING = object()
"""The value of what is not None, and of which nothing else is known."""


class Option(NamedTuple):
    """What an expression is if nobody sets it; `default` is the literal where it stands, None for a bare literal."""

    value: object
    name: str = ""
    default: ast.expr | None = None
    path: str = ""


class Spot(NamedTuple):
    """A function in its file's model, and what is known of its parameters.

    `made` is the class of the objects that a constructor makes there: its own or one below.
    """

    model: Model
    function: FunctionInfo
    known: Mapping[str, Option] = {}
    made: ClassInfo | None = None


def by_default(model: Model, function: FunctionInfo, node: ast.expr) -> Option | None:
    """What an expression of a function is if nobody sets it; None if that is open."""
    return _option(Spot(model, function), node, MOST_STEPS)


def truth(spot: Spot, test: ast.expr, steps: int) -> Option | None:
    """What the test is by default; None if that is open."""
    if steps <= 0:
        return None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = truth(spot, test.operand, steps)
        return None if inner is None else inner._replace(value=not inner.value)
    if isinstance(test, ast.BoolOp):
        decisive = isinstance(test.op, ast.Or)
        parts = [truth(spot, each, steps) for each in test.values]
        deciding = next((each for each in parts if each is not None and bool(each.value) is decisive), None)
        if deciding is not None or None in parts:
            return deciding
        return next((each for each in reversed(parts) if each is not None and each.default is not None), parts[-1])
    told = _on_device(spot, test)
    if told is not None:
        return told
    if isinstance(test, ast.Compare):
        return _compared(spot, test, steps) if len(test.ops) == 1 else None
    return _option(spot, test, steps)


def _on_device(spot: Spot, test: ast.expr) -> Option | None:
    """What a test for the device says of a tensor that is there: `x.is_cuda`, `any(x.is_cuda for x in xs)`."""
    if (
        isinstance(test, ast.Call)
        and last_name(test.func) in ("all", "any")
        and len(test.args) == 1
        and isinstance(test.args[0], ast.GeneratorExp)
    ):
        test = test.args[0].elt
    asked = device_test(test)
    if asked is None:
        return None
    subject = spot.model.value_in(spot.function, asked.subject)
    is_there = subject.device.on_accelerator and (subject.holds_tensors or subject.kind is Kind.DEVICE)
    return Option(asked.on_accelerator) if is_there else None


def _compared(spot: Spot, test: ast.Compare, steps: int) -> Option | None:
    compare = _COMPARE.get(type(test.ops[0]))
    left, right = (_option(spot, each, steps) for each in (test.left, test.comparators[0]))
    if compare is None or left is None or right is None:
        return None
    if _SOMETHING in (left.value, right.value) and not isinstance(test.ops[0], (ast.Is, ast.IsNot)):
        return None
    named = left if left.default is not None else right
    try:
        return named._replace(value=compare(left.value, right.value))
    except TypeError:
        return None


def _option(spot: Spot, node: ast.expr, steps: int) -> Option | None:
    """What an expression is by default: a literal, or what calls, constructors and settings make of one."""
    literal = _literal(node)
    if literal is not None or steps <= 0:
        return literal
    if isinstance(node, ast.Name):
        return _named(spot, node, steps)
    if isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name) and node.value.id == spot.function.self_name:
            return _attribute(spot, spot.function.cls, node.attr, steps - 1)
        return _field(spot, node.value, node.attr, steps - 1)
    if isinstance(node, ast.Subscript):
        return _of_group(spot, node, steps - 1)
    if isinstance(node, ast.Call):
        answers = (_looked_up, _of_group, _answer)
        return next(filter(None, (each(spot, node, steps - 1) for each in answers)), None)
    if isinstance(node, ast.IfExp):
        asked = truth(spot, node.test, steps - 1)
        chosen = None if asked is None else _option(spot, node.body if asked.value else node.orelse, steps - 1)
        return None if asked is None or chosen is None else _because_of(asked, chosen)
    if isinstance(node, ast.Lambda):
        return Option(_SOMETHING)
    return truth(spot, node, steps - 1) if isinstance(node, _ASKS) else None


def _because_of(asked: Option, chosen: Option) -> Option:
    """What a test chose; the default that decides it is the test's."""
    return chosen if asked.default is None else asked._replace(value=chosen.value)


def _named(spot: Spot, node: ast.Name, steps: int) -> Option | None:
    if node.id in spot.known:
        return spot.known[node.id]
    if node.id in spot.function.parameter_names:
        return _parameter(spot, node.id, steps)
    bound = spot.model.only_binding(spot.function, node.id) or _unpacked(spot, node.id)
    if bound is not None:
        return _option(spot, bound, steps - 1)
    is_function = any(
        isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) and each.name == node.id
        for each in spot.function.statements
    )
    return Option(_SOMETHING) if is_function and spot.function.bound_names.count(node.id) == 1 else None


def _unpacked(spot: Spot, name: str) -> ast.expr | None:
    """The expression of a name that one assignment binds beside others: `decay, eps = group["decay"], group["eps"]`."""
    if not spot.model.bound_once(spot.function, name):
        return None
    assignments = (each for each in spot.function.statements if isinstance(each, ast.Assign))
    pairs = (pair for each in assignments for target in each.targets for pair in paired(target, each.value))
    return next((value for part, value in pairs if isinstance(part, ast.Name) and part.id == name), None)


def _literal(node: ast.expr) -> Option | None:
    value = literal_of(node)
    return None if value is None else Option(value.value)


def _parameter(spot: Spot, name: str, steps: int) -> Option | None:
    """What all calls that are found give a parameter by default; without any, its own default.

    A default None says nothing without calls: what the function is made for may be given there.
    """
    function = spot.function
    question = ("option", function, name, steps, spot.made)
    return spot.model.remember(question, lambda: _given_by_calls(spot, name, steps))


def _given_by_calls(spot: Spot, name: str, steps: int) -> Option | None:
    function, default = spot.function, spot.function.defaults.get(name)
    if function.bound_names.count(name) != 1 or _is_rebound(function, name):
        return None
    literal = None if default is None else literal_of(default)
    own = None if literal is None else Option(literal.value, name, default, function.path)
    if function.name == "__init__":
        return _given_by_constructions(spot, name, own, steps)
    by_apply = applied(spot.model, function)
    records = by_apply or spot.model.possible_callers(function)
    if len(records) > _MOST_CALLS:
        return None
    if not by_apply and function.name == "forward":
        is_off = own is not None and own.value is False and left_or_handed_on(spot.model, function, name, own.value)
        return own if is_off else None
    if not by_apply and (function.name in CALLED_BY_OTHERS or is_handed_over(spot.model, function)):
        return None
    found: list[Option] = []
    for record in records:
        given = applied_to(function, record.call, name) if by_apply else given_for(function, record.call, name)
        if given is None and not by_apply:
            given, is_spread = given_or_left(spot.model, function, record.call, name)
            if is_spread and _may_be_given(spot.model, record, name, own):
                return None
        if given is not None and record.function is function and _goes_on(given, name, own):
            continue
        option = None if given is None else own if given is default else _given(spot, record, given, name, own, steps)
        if option is None or (found and option.value != found[0].value):
            return None
        found.append(option)
    # Without a call that is sure to mean it, None may be replaced, and a decorator may keep the function in a table.
    if own is not None and own.value is None and not by_apply and not spot.model.callers(function):
        return None
    if not found:
        return own if own is not None and own.value is not None and runs_its_body(function) else None
    return next((each for each in found if each.default is not None), found[0])


def _may_be_given(model: Model, record: CallRecord, name: str, own: Option | None) -> bool:
    """Whether what a call spreads may hold another value than the default: something nearby has it by this name."""
    if own is None or own.value is None:
        return True
    return any(named_otherwise(each, name, own.value) for each in (model, model.home(record.function)))


def _given(spot: Spot, record: CallRecord, given: ast.expr, name: str, own: Option | None, steps: int) -> Option | None:
    """What a call gives for an option by default; the option's own default where it hands on settings' of its name."""
    there = Spot(spot.model.home(record.function), record.function, made=spot.made)
    option = _option(there, given, steps - 1)
    if own is None:
        return option
    if option is not None:
        return own if _is_alike(option, own) else option
    stored = _stored_alone(there, given)
    if stored is not None:
        there, given = stored
    setting = None if own.value is None else handed_on(there.model, there.function, given, name, own.value)
    if setting is None or any(named_otherwise(each, setting, own.value) for each in (spot.model, there.model)):
        return None
    return own


def _is_alike(option: Option, own: Option) -> bool:
    """Whether a call writes the default itself."""
    return option.default is None and type(option.value) is type(own.value) and option.value == own.value


def _stored_alone(spot: Spot, node: ast.expr) -> tuple[Spot, ast.expr] | None:
    """What the constructor stores as an attribute of the method's own object, if it is the only one."""
    cls = spot.function.cls
    if cls is None or not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
        return None
    if node.value.id != spot.function.self_name:
        return None
    stored = spot.model.home(cls).stored_by_constructor(cls, node.attr)
    if stored is None or len(stored.stores) != 1:
        return None
    return Spot(spot.model.home(stored.init), stored.init), stored.stores[0][1]


def _given_by_constructions(spot: Spot, name: str, own: Option | None, steps: int) -> Option | None:
    """What all calls that run a constructor give a parameter by default; without any, its own default.

    Settings may be spread, and a table of classes may call it: then nothing nearby may give anything of the name
    another value.
    """
    init = spot.function
    made = spot.model.constructions(init)
    records = [] if made is None else [each for each in made.records if _may_make(spot, each)]
    if own is None or made is None or len(records) > _MOST_CALLS:
        return None
    if own.value is None and not made.records and _is_wanted(spot, name):
        return None
    is_open, found = made.is_open, own
    if any(has_computed_names(each.call) for each in records):
        return None
    for record in records:
        given = constructed_with(init, record.call, name)
        if given is None:
            is_open = True
            continue
        option = own if given is own.default else _given(spot, record, given, name, own, steps)
        if option is None or option.value != own.value:
            return None
        found = option if option.default is not None else found
    if is_open and (own.value is None or named_otherwise(spot.model, name, own.value)):
        return None
    return found


def _may_make(spot: Spot, record: CallRecord) -> bool:
    """Whether a call may run the constructor for an object of the class that is asked about.

    Siblings are others: `Sibling(workers=4)`, and `super().__init__(workers=4)` in their constructors.
    """
    made, cls = spot.made, None
    if last_name(record.call.func) == "__init__":
        cls = record.function.cls if record.function.name == "__init__" else None
    elif made is not None:
        called = spot.model.home(record.function).value_in(record.function, record.call.func)
        cls = called.cls if called.kind is Kind.CLASS and not called.among else None
    return made is None or cls is None or cls in spot.model.lineage(made) or made in spot.model.lineage(cls)


def _is_wanted(spot: Spot, name: str) -> bool:
    """Whether objects are likely to be given something for a parameter that is None by default.

    The constructor asserts something of it, or is that of a class below another, which may well be made with it.
    """
    init = spot.function
    asserted = (each.test for each in init.statements if isinstance(each, ast.Assert))
    is_asserted = any(isinstance(node, ast.Name) and node.id == name for test in asserted for node in subtree(test))
    return is_asserted or (init.cls is not None and len(spot.model.lineage(init.cls)) > 1)


def _is_rebound(function: FunctionInfo, name: str) -> bool:
    """Whether a function within it, or a pattern, may set the name."""
    return any(
        (isinstance(each, ast.Nonlocal) and name in each.names)
        or (isinstance(each, (ast.MatchAs, ast.MatchStar)) and each.name == name)
        or (isinstance(each, ast.MatchMapping) and each.rest == name)
        for each in subtree(function.node)
    )


def _goes_on(given: ast.expr, name: str, own: Option | None) -> bool:
    """Whether a function that calls itself hands on what it was given; with None nothing is reckoned."""
    names = [each.id for each in subtree(given) if isinstance(each, ast.Name)]
    return name in names and (isinstance(given, ast.Name) or (own is not None and own.value is None))


def is_handed_over(model: Model, function: FunctionInfo) -> bool:
    """Whether a framework calls the function, or another one that gets it as an argument."""
    return model.contract(function) is not None or bool(model.given_away(function))


def _answer(spot: Spot, call: ast.Call, steps: int) -> Option | None:
    """What a function of the project says of options, or of the device: `exists(mask)`, `fuses(foreach, params)`."""
    asked = spot.model.value_in(spot.function, call.func).function
    if asked is None or not runs_its_body(asked) or has_computed_names(call) or spot.model.is_overridden(asked):
        return None
    known: dict[str, Option] = {}
    for name in asked.parameter_names[asked.self_name is not None :]:
        given = given_for(asked, call, name) if asked.bound_names.count(name) == 1 else None
        option = None if given is None else _option(spot, given, steps)
        if option is not None:
            known[name] = option
    return _said(Spot(spot.model.home(asked), asked, known), asked.body, steps) if known else None


def _said(spot: Spot, block: Sequence[ast.stmt], steps: int) -> Option | None:
    """What a block returns by default, where nothing but tests leads to that."""
    because: Option | None = None
    for each in block:
        if isinstance(each, ast.Return):
            said = None if each.value is None else truth(spot, each.value, steps)
            return said if said is None or because is None else _because_of(because, said)
        if not isinstance(each, _LEADS):
            return None
        if isinstance(each, ast.If):
            if each.orelse or not isinstance(each.body[-1], ast.Return):
                return None
            asked = truth(spot, each.test, steps)
            if asked is None:
                return None
            because = asked if because is None or because.default is None else because
            if asked.value:
                said = _said(spot, each.body, steps)
                return None if said is None else _because_of(because, said)
    return None


def _looked_up(spot: Spot, call: ast.Call, steps: int) -> Option | None:
    """`getattr(config, "pooling", "first")`: what the settings have by default, or else what the call says."""
    asked = looked_up(call, spot.function)
    if asked is None:
        return None
    owner, name, default = asked
    if isinstance(owner, ast.Name) and owner.id == spot.function.self_name:
        return None
    field = _field(spot, owner, name, steps)
    if field is not None:
        return field
    literal = literal_of(default)
    if literal is None or literal.value is None or named_otherwise(spot.model, name, literal.value):
        return None
    if may_hold_more(spot.model, spot.function, owner):
        return None
    return Option(literal.value, name, default, spot.model.path)


def _of_group(spot: Spot, node: ast.expr, steps: int) -> Option | None:
    """What the groups of an optimizer's parameters have by default: `group["decay"]`."""
    found = default_of_group(spot.model, spot.function, node)
    if found is None:
        return None
    init, given = found
    option = _option(Spot(spot.model.home(init), init), given, steps)
    return None if option is None or option.default is None else option


def _field(spot: Spot, node: ast.expr, name: str, steps: int) -> Option | None:
    """What an object of settings has by default: a field of its class that nothing nearby gives another value."""
    owner = spot.model.value_in(spot.function, node)
    if owner.cls is None or owner.among or owner.kind is Kind.CLASS:
        return None
    home = spot.model.home(owner.cls)
    field = declared(home, owner.cls, name)
    if field is None:
        return _attribute(spot, owner.cls, name, steps)
    literal = literal_of(field.default)
    around = dict.fromkeys([spot.model, home, home.home(field.cls)])
    if literal is None or any(named_otherwise(each, name, literal.value) for each in around):
        return None
    return Option(literal.value, name, field.default, field.cls.path)


def _attribute(spot: Spot, cls: ClassInfo | None, name: str, steps: int) -> Option | None:
    """What the constructor of an object's class stores there by default."""
    if cls is None:
        return None
    return spot.model.remember(
        ("option of object", cls, name, steps), lambda: _stored_by_default(spot, cls, name, steps)
    )


def _stored_by_default(spot: Spot, cls: ClassInfo, name: str, steps: int) -> Option | None:
    stored = spot.model.home(cls).stored_by_constructor(cls, name)
    if stored is None:
        return None
    there = Spot(spot.model.home(stored.init), stored.init, made=cls)
    found: Option | None = None
    for statement, expression in stored.stores:
        option = _option(there, expression, steps)
        if len(stored.stores) > 1:
            place = there.model.place_of(statement)
            if not all(isinstance(each, ast.If) for each in place.around()):
                return None
            for test, wanted in tests(place):
                asked = truth(there, test, steps)
                if asked is None:
                    return None
                is_skipped = bool(asked.value) is not wanted
                option = found if is_skipped else option
                option = None if option is None else _because_of(asked, option)
                if is_skipped:
                    break
        found = option
    return None if found is None or found.default is None else found
