"""Registries: dicts and objects that decorators fill with classes, and that look a class up by its name.

They are recognized by text and by the meanings of names, without values, so no query of them is part of a cycle.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.knowledge.other_libraries import REGISTRARS, REGISTRIES
from torchperf_lint.model.domain.values import UNKNOWN, Kind, Registry, Value, container
from torchperf_lint.model.project.exports import Imported, LibraryName, Variable
from torchperf_lint.model.syntax.index import ClassInfo, FunctionInfo, dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model.domain.interfaces import ProjectQuestions
    from torchperf_lint.model.project.exports import Meaning
    from torchperf_lint.model.syntax.index import Index

_NEW_DICTS = ("dict", "OrderedDict")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class _Holder(NamedTuple):
    """What a decorator adds classes to: a dict of its file, or of the object whose method it is."""

    cls: ClassInfo | None
    name: str


def seen_as(program: ProjectQuestions, meaning: Variable) -> Value | None:
    """The value of a top-level name by its text alone, if it is a registry or a table of classes."""
    bound = _bound_once(meaning.home, meaning.name)
    if isinstance(bound, ast.Call) and not _makes_dict(bound):
        meant = meaning_of(program, meaning.home, bound.func)
        if isinstance(meant, LibraryName) and meant.name in REGISTRIES:
            return Value(Kind.INSTANCE, ref=meant.name, created=bound)
        if isinstance(meant, ClassInfo) and _kept_by(meant):
            return Value(Kind.INSTANCE, cls=meant, created=bound)
        return None
    filled = entries(meaning.home, meaning.name)
    if filled is not None:
        return filled
    return _table(program, meaning.home, bound) if isinstance(bound, ast.Dict) and bound.values else None


def entries(index: Index, name: str) -> Value | None:
    """The top-level dict that decorators of this file fill with classes; None if it is no such dict."""
    bound = _bound_once(index, name)
    if bound is None or not _makes_dict(bound):
        return None
    index.reads.mentions(name)
    if name not in _kept_at_top(index):
        return None
    return container(Value(Kind.CLASS, among=(Registry((index, name)),)), None, "dict")


def _table(program: ProjectQuestions, index: Index, bound: ast.Dict) -> Value | None:
    """The value of a dict literal from names to classes."""
    found = [(key, meaning_of(program, index, value)) for key, value in zip(bound.keys, bound.values, strict=True)]
    classes = [(key.value, cls) for key, cls in found if isinstance(key, ast.Constant) and isinstance(cls, ClassInfo)]
    if len(classes) < len(found):
        return None
    element = Value(Kind.CLASS, among=tuple(dict.fromkeys(cls for _, cls in classes)))
    return container(element, [(key, Value(Kind.CLASS, cls=cls)) for key, cls in classes], "dict")


def held(owner: Value, name: str) -> Value | None:
    """The value of a registry object's attribute, if that is where it stores the classes."""
    if owner.created is None or owner.cls is None:
        return None
    if name not in _kept_by(owner.cls):
        return None
    return container(Value(Kind.CLASS, among=(Registry(owner.created),)), None, "dict")


def given_by(registry: Value, method: str, arguments: list[Value]) -> Value:
    """The result of a method of a library's registry."""
    if registry.created is None or method not in ("build", "get"):
        return UNKNOWN
    asked = arguments[0] if arguments else UNKNOWN
    if method == "build":
        asked = next((value for key, value in asked.items or () if key == "type"), UNKNOWN)
    return named(Value(Kind.CLASS if method == "get" else Kind.UNKNOWN, among=(Registry(registry.created),)), asked)


def named(value: Value, name: Value) -> Value:
    """The result of a lookup in a registry by a name."""
    if not value.among or not isinstance(name.constant, str):
        return value
    asked = (each._replace(asked=name.constant) if isinstance(each, Registry) else each for each in value.among)
    return value._replace(among=tuple(asked))


# -- what is in a registry ---------------------------------------------------------------------------------------------


def registries_of(program: ProjectQuestions, cls: ClassInfo | FunctionInfo) -> dict[Registry, Index]:
    """The registries that decorators add a class or function to, each with its file; none if a decorator wraps it."""
    found: dict[Registry, Index] = {}
    for decorator in cls.decorators:
        call = decorator if isinstance(decorator, ast.Call) else None
        func = decorator if call is None else call.func
        registry = _registry_of(program, cls.index, func, call is not None)
        if registry is None:
            return {}
        found[registry[0]._replace(asked=_name_in(cls, call))] = registry[1]
    return found


def _name_in(cls: ClassInfo | FunctionInfo, call: ast.Call | None) -> str | None:
    """The name under which a decorator registers a class: its argument, else the class's own; None if unclear."""
    given = [] if call is None else [*call.args[:1], *(k.value for k in call.keywords if k.arg in (None, "name"))]
    if not given:
        return cls.name
    return given[0].value if isinstance(given[0], ast.Constant) and isinstance(given[0].value, str) else None


def is_in(program: ProjectQuestions, cls: ClassInfo, registry: Registry) -> bool:
    """Whether the class is in the registry, and may be the result of the registry's lookup."""
    return any(
        each.made == registry.made and (registry.asked is None or each.asked in (None, registry.asked))
        for each in registries_of(program, cls)
    )


def _registry_of(
    program: ProjectQuestions, index: Index, func: ast.expr, called: bool
) -> tuple[Registry, Index] | None:
    meant = meaning_of(program, index, func)
    if isinstance(meant, FunctionInfo):
        holder = _holder_of(meant, called)
        if holder is None or holder.cls is not None or _bound_once(meant.index, holder.name) is None:
            return None
        return Registry((meant.index, holder.name)), meant.index
    owner = meaning_of(program, index, func.value) if isinstance(func, ast.Attribute) else None
    if not isinstance(owner, Variable):
        return None
    value = seen_as(program, owner)
    if value is None or value.created is None:
        return None
    if value.cls is None:
        known = called and func.attr in REGISTRARS  # type: ignore[attr-defined]
    else:
        method = value.cls.methods.get(func.attr)  # type: ignore[attr-defined]
        known = method is not None and _holder_of(method, called) is not None
    return (Registry(value.created), owner.home) if known else None


def _holder_of(function: FunctionInfo, called: bool) -> _Holder | None:
    """What a function adds its argument to, which it returns; `called`: the function that it returns does."""
    index = function.index

    def find() -> _Holder | None:
        near = [each for each in index.all_functions if function in (each, each.outer)]
        return dict(_find_registrars(index, near)).get((function, called))

    return index.note(("registrar", function, called), find)


def _kept_by(cls: ClassInfo) -> frozenset[str]:
    """The attributes of a class to which its methods add what they decorate."""

    def find() -> frozenset[str]:
        methods = set(cls.methods.values())
        own = [each for each in cls.index.all_functions if each in methods or each.outer in methods]
        return frozenset(holder.name for _, holder in _find_registrars(cls.index, own) if holder.cls is cls)

    return cls.sum_up("registers", find)


def _kept_at_top(index: Index) -> frozenset[str]:
    """The names of a module to which its functions add what they decorate; each follows from units that mention it."""

    def find() -> frozenset[str]:
        found = (holder for _, holder in _find_registrars(index, index.functions))
        return frozenset(holder.name for holder in found if holder.cls is None)

    return index.note("registrars", lambda: index.reads.unheard(find))


def _find_registrars(
    index: Index, functions: list[FunctionInfo]
) -> Iterator[tuple[tuple[FunctionInfo, bool], _Holder]]:
    """The functions that add what they decorate to a dict and return it; True: called to decorate."""
    for function in functions:
        returned = _returned(function)
        for name in function.parameter_names:
            if name == function.self_name or not returned or returned != {name}:
                continue
            holder = _put_into(function, name, True)
            maker = function.outer
            if holder is None or maker is None:
                continue
            if function.cls is not None or maker is index.module:
                yield (function, False), holder
            elif function.name in _returned(maker):
                yield (maker, True), holder


def _returned(function: FunctionInfo) -> set[str | None]:
    """The names that a function returns; None stands for any other expression."""
    given = [each.value for each in function.statements if isinstance(each, ast.Return) and each.value is not None]
    return {node.id if isinstance(node, ast.Name) else None for node in given}


def _put_into(function: FunctionInfo, parameter: str, by_helper: bool) -> _Holder | None:
    """The dict to which a function adds its parameter, by itself, or one of its object by a helper of this."""
    outer = function.outer
    around = function if function.cls is not None or outer in (None, function.index.module) else outer
    for node in function.nodes:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id == parameter:
            target = node.targets[0]
            path = dotted(target.value) if isinstance(target, ast.Subscript) else None
            root, _, rest = (path or "").partition(".")
            if rest and root == around.self_name and around.cls is not None:
                return _Holder(around.cls, rest)
            if path is not None and not rest and root not in function.index.bound_names(around):
                return _Holder(None, root)
    for record in function.calls_made if by_helper else ():
        helper = _helper(record.call, around)
        names = [] if helper is None else helper.parameter_names[helper.self_name is not None :]
        given = [*zip(names, record.call.args, strict=False), *((k.arg, k.value) for k in record.call.keywords)]
        for name, node in given:
            if helper is not None and name in names and isinstance(node, ast.Name) and node.id == parameter:
                put = _put_into(helper, name, False)
                return put if put is not None and put.cls is not None else None
    return None


def _helper(call: ast.Call, around: FunctionInfo) -> FunctionInfo | None:
    root, _, name = (dotted(call.func) or "").partition(".")
    return around.cls.methods.get(name) if around.cls is not None and root == around.self_name else None


# -- names -------------------------------------------------------------------------------------------------------------


def meaning_of(program: ProjectQuestions, index: Index, node: ast.expr) -> Meaning | None:
    """The meaning of a dotted name at the top of a file, by its imports and definitions."""
    root, _, rest = (dotted(node) or "").partition(".")
    bound = index.bound_names(index.module)
    if not root or bound.count(root) > 1 or root in index.rebound_elsewhere:
        return None
    exports = program.file_of(index).exports
    found = exports.meanings.get(root)
    if isinstance(found, Imported):
        return program.meaning(f"{found.ref}.{rest}" if rest else found.ref, index)
    if found is None and root not in bound:
        starred = program.starred(root, index)
        return None if starred is None else program.meaning(f"{starred}.{rest}" if rest else starred, index)
    if rest:
        return None
    return found or (Variable(index, root) if root in exports.variables else None)


def _bound_once(index: Index, name: str) -> ast.expr | None:
    """The only value that is assigned to the name, if that is at the top of the file."""
    return index.note(("bound once", name), lambda: _find_bound(index, name))


def _find_bound(index: Index, name: str) -> ast.expr | None:
    if index.bound_names(index.module).count(name) != 1 or name in index.rebound_elsewhere:
        return None
    for statement in index.module.block:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and any(
            isinstance(target, ast.Name) and target.id == name for target in targets
        ):
            return statement.value
    return None


def _makes_dict(node: ast.expr) -> bool:
    """Whether it creates an empty dict."""
    if isinstance(node, ast.Dict):
        return not node.keys
    is_call = isinstance(node, ast.Call) and not node.args and not node.keywords
    return is_call and (dotted(node.func) or "").rpartition(".")[2] in _NEW_DICTS  # type: ignore[attr-defined]
