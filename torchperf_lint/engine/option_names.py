"""Options by their names: fields of settings with literal defaults, and whether code nearby sets another value."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from torchperf_lint.knowledge.conventions import SETTINGS, WRAP_DEFAULTS
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.syntax.names import last_name, positional_of
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchperf_lint.model import Model
    from torchperf_lint.model.syntax.index import CallRecord, ClassInfo, FunctionInfo

_LOOKUPS = frozenset({"get", "pop"})
_RETURNS = frozenset({"output", "return"})
"""First words in options that ask for a further result."""

OF_TRAINING = frozenset("fit finetune learn train training".split())
"""Words in options that ask whether to train."""

_OF_LOSSES = frozenset({"criterion", "loss", "losses"})
"""Words in options of `forward` that ask for a loss, as who trains the module does."""

_OF_COMMAND_LINES = frozenset({"add_argument", "option"})
_SWITCHES = {"store_true": False, "store_false": True}
"""Actions of argparse, and what the option is where the command line does not name it."""

_LOADS = frozenset({"full_load", "load", "loads", "safe_load", "unsafe_load"})
"""Functions that read settings from a file or a text."""


class Declared(NamedTuple):
    """A field in the body of a class, and the class; `default` is the literal."""

    cls: ClassInfo
    default: ast.expr


def literal_of(node: ast.expr) -> ast.Constant | None:
    """The literal that an expression is: a constant, or a negative number."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        number = node.operand.value
        return ast.Constant(-number) if isinstance(number, (int, float)) else None
    return node if isinstance(node, ast.Constant) and node.value is not ... else None  # `Field(...)` has no default


def declared(model: Model, cls: ClassInfo, name: str) -> Declared | None:
    """The field of settings that a class or one above it declares: `smooth: bool = False`, `= field(default=False)`.

    None if a method sets it, or if it is no literal.
    """
    stores = [(each, store) for each in model.lineage(cls) for store in each.attributes.get(name, ())]
    if not stores or any(store.target not in _fields(each) for each, store in stores):
        return None
    owner = stores[0][0]
    default = next((value for target, value in _fields(owner).items() if last_name(target) == name), None)
    return None if default is None or literal_of(default) is None else Declared(owner, default)


def _fields(cls: ClassInfo) -> dict[ast.expr, ast.expr]:
    """The annotated fields in the body of a class, each with its default, which a call may wrap."""
    found: dict[ast.expr, ast.expr] = {}
    for each in cls.head.body:
        if isinstance(each, ast.AnnAssign) and each.value is not None:
            found[each.target] = _unwrapped(each.value, each.annotation)
    return found


def _unwrapped(value: ast.expr, annotation: ast.expr) -> ast.expr:
    """The default in `field(default=False)`, `Field(4, ge=1)`, `Default(False)`.

    A class of the project's own may wrap it, `smooth: bool = OwnDefault(False)`: what it gets is of the field's type.
    """
    if not isinstance(value, ast.Call):
        return value
    named = next((each.value for each in value.keywords if each.arg == "default"), None)
    if named is not None:
        return named
    first = value.args[0] if value.args else value
    if last_name(value.func) in WRAP_DEFAULTS:
        return first
    is_own = len(value.args) == 1 and not value.keywords and "default" in (last_name(value.func) or "").lower()
    return first if is_own and _is_of_type(first, annotation) else value


def _is_of_type(node: ast.expr, annotation: ast.expr) -> bool:
    literal = literal_of(node)
    return literal is not None and last_name(annotation) == type(literal.value).__name__


def looked_up(node: ast.Call, function: FunctionInfo) -> tuple[ast.expr, str, ast.expr] | None:
    """The object, the name and the default of `getattr(config, "pooling", "first")`, `config.get("pooling", "first")`.

    What is no settings by its name may be data, `batch.get("masked", False)`.
    """
    if node.keywords:
        return None
    parts = tuple(node.args)
    if isinstance(node.func, ast.Attribute) and node.func.attr in _LOOKUPS:
        spread = None if function.arguments is None else function.arguments.kwarg
        owner_name = last_name(node.func.value)
        is_settings = owner_name in SETTINGS or (spread is not None and owner_name == spread.arg)
        parts = (node.func.value, *parts) if is_settings else ()
    elif last_name(node.func) != "getattr":
        return None
    if len(parts) != 3:
        return None
    owner, name, default = parts
    if not isinstance(name, ast.Constant) or not isinstance(name.value, str) or literal_of(default) is None:
        return None
    return owner, name.value, default


def may_hold_more(model: Model, function: FunctionInfo, settings: ast.expr) -> bool:
    """Whether settings may hold what no code names: they are loaded, bound again, or get computed names."""
    if isinstance(settings, ast.Name):
        if function.bound_names.count(settings.id) > 1:
            return True
        bound = None if settings.id in function.parameter_names else model.only_binding(function, settings.id)
        if isinstance(bound, ast.Call) and last_name(bound.func) in _LOADS:
            return True
    return any(last_name(settings) in _filled(near) for near in model.with_neighbours)


def _filled(model: Model) -> set[str]:
    """What the file fills by computed names: `config[key] = 1`, `setattr(args, key, 1)`, `config.update(given)`."""
    return model.remember("filled by computed names", lambda: {each for each in _fillings(model.top) if each})


def _fillings(top: FunctionInfo) -> Iterator[str | None]:
    for node in top.nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            if not isinstance(node.slice, ast.Constant):
                yield last_name(node.value)
        elif isinstance(node, ast.Call) and last_name(node.func) == "setattr" and len(node.args) == 3:
            if not isinstance(node.args[1], ast.Constant):
                yield last_name(node.args[0])
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "update":
            is_named = all(isinstance(each, ast.Dict) and None not in each.keys for each in node.args)
            if not is_named or any(each.arg is None for each in node.keywords):
                yield last_name(node.func.value)


def has_computed_names(call: ast.Call) -> bool:
    """Whether a call spreads a mapping that it makes of computed names: `run(**{name: True for name in names})`."""
    return any(each.arg is None and _is_computed(each.value) for each in call.keywords)


def _is_computed(mapping: ast.expr) -> bool:
    if not isinstance(mapping, ast.Call):
        return isinstance(mapping, ast.DictComp)
    made_of = (ast.Call, ast.GeneratorExp, ast.ListComp)
    is_dict = last_name(mapping.func) == "dict" and any(isinstance(each, made_of) for each in mapping.args)
    return is_dict or last_name(mapping.func) == "fromkeys"


def handed_on(model: Model, function: FunctionInfo, given: ast.expr, name: str, default: object) -> str | None:
    """The name of the option of unknown settings that a call hands on, if it is this one or falls back on the default.

    As in `smooth=config.smooth`, `smooth=config.smooths if config is not None else False`.
    """
    if isinstance(given, ast.Name):
        bound = None if given.id in function.parameter_names else model.only_binding(function, given.id)
        return None if bound is None else handed_on(model, function, bound, name, default)
    if isinstance(given, ast.IfExp):
        arms = given.body, given.orelse
        settings = (_setting(model, function, each) for each in arms)
        return next(filter(None, settings), None) if any(_is_same(each, default) for each in arms) else None
    setting = _setting(model, function, given)
    return setting if setting == name else None


def _setting(model: Model, function: FunctionInfo, node: ast.expr) -> str | None:
    """The name of an attribute of an object of which nothing is known; None for the method's own."""
    if not isinstance(node, ast.Attribute) or (
        isinstance(node.value, ast.Name) and node.value.id == function.self_name
    ):
        return None
    owner = model.value_in(function, node.value)
    is_unknown = owner.kind in (Kind.UNKNOWN, Kind.METHOD) and owner.function is None and owner.cls is None
    return node.attr if is_unknown else None


def left_or_handed_on(model: Model, forward: FunctionInfo, name: str, default: object) -> bool:
    """Whether calls nearby leave an argument of `forward`, or each that names it hands on settings or the default.

    Nothing nearby gives the settings another value, and no call that may run it spreads arguments or counts that far.
    Calls inside this `forward` run other modules. A parameter for which no call hands on settings counts only if its
    name asks for a further result, `return_weights`, and does not speak of training or a loss: who trains sets it.
    """
    given = [
        (near, record.function, keyword.value)
        for near in model.with_neighbours
        for record in near.all_calls
        for keyword in record.call.keywords
        if keyword.arg == name
    ]
    others = [each for each in given if not _is_same(each[2], default)]
    settings = [handed_on(*each, name, default) for each in others]
    if any(each is None or named_otherwise(model, each, default) for each in settings):
        return False
    words = name.split("_")
    asks_for_result = words[0] in _RETURNS and (OF_TRAINING | _OF_LOSSES).isdisjoint(words)
    if not settings and (not asks_for_result or named_otherwise(model, name, default)):
        return False
    positional = positional_of(forward.arguments)[1:]
    at = positional.index(name) if name in positional else None
    return not any(
        record.function is not forward and _may_count_to(record.call, at) and _may_run(near, record, forward)
        for near in model.with_neighbours
        for record in near.all_calls
    )


def _may_count_to(call: ast.Call, at: int | None) -> bool:
    """Whether a call spreads arguments, or gives so many that one stands at that position."""
    is_spread = any(isinstance(each, ast.Starred) for each in call.args) or None in [each.arg for each in call.keywords]
    return is_spread or (at is not None and len(call.args) > at)


def _may_run(model: Model, record: CallRecord, forward: FunctionInfo) -> bool:
    """Whether what is called may be an object of the class of `forward`: all but what is known to be something else."""
    func = record.call.func
    by_name = isinstance(func, ast.Attribute) and func.attr == forward.name
    called = model.value_in(record.function, func.value if isinstance(func, ast.Attribute) and by_name else func)
    if called.cls is None or called.among or forward.cls is None:
        return called.kind in (Kind.UNKNOWN, Kind.MODULE)
    is_class = called.kind is Kind.CLASS and not by_name
    return not is_class and (forward.cls in model.lineage(called.cls) or called.cls in model.lineage(forward.cls))


def _is_same(node: ast.expr, default: object) -> bool:
    literal = literal_of(node)
    return literal is not None and literal.value == default and type(literal.value) is type(default)


def named_otherwise(model: Model, name: str, default: object) -> bool:
    """Whether the file, one that imports it or one that it imports gives something of that name another value.

    What hands on something of the same name gives no other one. Arguments by position may be any field of settings
    that can stand there.
    """
    around = model.with_neighbours
    given = [
        *(each for near in around for each in _all_given(near).get(name, ())),
        *model.remember(("given by position", name), lambda: list(_by_position(around, name))),
    ]
    return any(not _is_same(each, default) and not _has_name(each, name) for each in given)


def _by_position(around: list[Model], name: str) -> Iterator[ast.expr]:
    """What calls in these files give by position to a class that has such a field, or to one below it."""
    for near in around:
        for cls in near.classes:
            lineage = near.lineage(cls)
            if any(last_name(target) == name for each in lineage for target in _fields(each)):
                methods = [method for each in lineage for method in each.methods.values()]
                by_itself = [
                    each for method in methods for each in method.calls_made if last_name(each.call.func) == "cls"
                ]
                by_name = [each for file in around for each in file.calls_named(cls.name)]
                first = 0 if any(each.name == "__init__" for each in methods) else _least_position(lineage, name)
                for each in (*by_itself, *by_name):
                    is_starred = any(isinstance(given, ast.Starred) for given in each.call.args)
                    yield from each.call.args if is_starred else each.call.args[first:]


def _least_position(lineage: Sequence[ClassInfo], name: str) -> int:
    """Before which position no argument of the call can be the field: those of bases come before a class's own."""
    fields = ([last_name(each.target) for each in cls.head.body if _is_taken(each)] for cls in lineage)
    return min((names.index(name) for names in fields if name in names), default=0)


def _is_taken(statement: ast.stmt) -> TypeGuard[ast.AnnAssign]:
    """Whether it declares a field that the constructor takes by position."""
    if not isinstance(statement, ast.AnnAssign):
        return False
    value = statement.value
    is_left_out = isinstance(value, ast.Call) and any(each.arg in ("init", "kw_only") for each in value.keywords)
    names = {last_name(each) for each in subtree(statement.annotation) if isinstance(each, (ast.Name, ast.Attribute))}
    return not is_left_out and names.isdisjoint({"ClassVar", "KW_ONLY"})


def _all_given(model: Model) -> dict[str, list[ast.expr]]:
    return model.remember("given by name", lambda: _given_by_name(model))


def _has_name(given: ast.expr, name: str) -> bool:
    if isinstance(given, ast.Call):
        return any(isinstance(each, ast.Constant) and each.value == name for each in given.args) or bool(
            isinstance(given.func, ast.Name) and given.args and _has_name(given.args[0], name)
        )
    if isinstance(given, ast.Subscript):
        return isinstance(given.slice, ast.Constant) and given.slice.value == name
    return last_name(given) == name or (
        isinstance(given, ast.IfExp) and (_has_name(given.body, name) or _has_name(given.orelse, name))
    )


def _given_by_name(model: Model) -> dict[str, list[ast.expr]]:
    """What the file gives by name: arguments, attributes, entries of dicts, fields and parameters."""
    found: dict[str, list[ast.expr]] = {}
    for name, value in _named(model.top):
        if name:
            found.setdefault(name, []).append(value)
    for cls in model.classes:  # a class below declares its own
        for target, value in _fields(cls).items():
            found.setdefault(last_name(target) or "", []).append(value)
        for each in cls.head.body:
            if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
                found.setdefault(each.targets[0].id, []).append(each.value)
    for function in model.functions:
        for name, default in function.defaults.items():
            found.setdefault(name, []).append(default)
    return found


def _named(top: FunctionInfo) -> Iterator[tuple[str, ast.expr]]:
    for node in top.nodes:
        if isinstance(node, ast.keyword):
            yield node.arg or "", node.value
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                yield from ((each, node.value) for each in _attributes(target))
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, value
        elif isinstance(node, ast.Call) and last_name(node.func) == "setattr" and len(node.args) == 3:
            named = node.args[1]
            yield str(named.value) if isinstance(named, ast.Constant) else "", node.args[2]
        elif isinstance(node, ast.Call) and last_name(node.func) == "setdefault" and len(node.args) == 2:
            named = node.args[0]
            yield str(named.value) if isinstance(named, ast.Constant) else "", node.args[1]
        elif isinstance(node, ast.Call) and last_name(node.func) in _OF_COMMAND_LINES:
            yield from _of_command_line(node)


def _of_command_line(call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """The default of an option of the program: `add_argument("--smooth", default=True)`, `action="store_false"`.

    `option("--smooth/--no-smooth", default=True)` is named by its first part.
    """
    named = {each.arg: each.value for each in call.keywords}
    action = named.get("action")
    default = named.get("default")
    if default is None and isinstance(action, ast.Constant) and action.value in _SWITCHES:
        default = ast.Constant(_SWITCHES[action.value])
    if default is None:
        return
    for each in (*call.args, named["dest"]) if "dest" in named else call.args:
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value.split("/")[0].strip("- ").replace("-", "_"), default


def _attributes(target: ast.expr) -> Iterator[str]:
    """The names of the attributes and entries that a target sets."""
    for each in subtree(target):
        if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store):
            yield each.attr
        elif (
            isinstance(each, ast.Subscript) and isinstance(each.slice, ast.Constant) and isinstance(each.ctx, ast.Store)
        ):
            yield str(each.slice.value)
