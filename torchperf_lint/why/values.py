"""What is known of the values in a statement, and where the device of each was lost."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Because
from torchperf_lint.model.domain.values import Device, Kind, Origin
from torchperf_lint.model.reveal import describe
from torchperf_lint.model.syntax.index import dotted
from torchperf_lint.model.syntax.names import positional_of
from torchperf_lint.syntax.tree import subtree
from torchperf_lint.why.answer import Known

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.syntax.index import FunctionInfo
    from torchperf_lint.why.inside import Inside

_MOST_STEPS = 40
"""Expressions on the way of one value; a person follows no longer way."""

_LONGEST = 50
"""Characters of an expression that are quoted."""

_NAMED = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)
_CARRIES = (Kind.TENSOR, Kind.PYTREE, Kind.UNKNOWN, Kind.MODULE, Kind.METRIC, Kind.LOADER)
"""Kinds whose device matters."""

_NOTHING_TO_SAY = (Kind.NONE, Kind.LIBRARY, Kind.FUNCTION, Kind.CLASS, Kind.STRING)


def known_values(inside: Inside, statement: ast.stmt, row: int = 0, column: int | None = None) -> Iterator[Known]:
    """The names, attributes, calls and subscripts of a statement with their values, in source order.

    With `column`, only those that stand at this column of the row.
    """
    function = inside.place(statement).function
    shown: set[str] = set()
    called = {id(node.func) for node in inside.expressions(statement) if isinstance(node, ast.Call)}
    for node in inside.expressions(statement):
        if not isinstance(node, _NAMED) or not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            continue
        if isinstance(node, ast.Name) and node.id == function.self_name and column is None:
            continue
        if column is not None and not inside.stands_at(node, row, column):
            continue
        value, text = inside.value(function, node), short(node)
        if text in shown or value.kind in _NOTHING_TO_SAY or _is_of_annotation(node, statement):
            continue
        is_object = isinstance(node, ast.Name) and value.kind is not Kind.UNKNOWN
        if id(node) in called and (value.kind is Kind.METHOD or not is_object):
            continue  # what is called: its object, or the call, has a line of its own
        if value.kind is Kind.UNKNOWN and isinstance(statement, ast.Expr) and node is statement.value:
            continue  # its value is dropped
        shown.add(text)
        matters = _innermost(value).kind in _CARRIES
        placed = _innermost(value).device
        is_own = isinstance(node, ast.Attribute) and inside.value(function, node.value).cls is not None
        unknown = placed is Device.UNKNOWN and (matters or (value.kind is Kind.METHOD and is_own))
        lost = Losses(inside).of(function, node) if unknown else None
        yield Known(
            text,
            node.lineno,
            node.col_offset + 1,
            "attribute, not known" if value.kind is Kind.METHOD else describe(value),
            None if placed is Device.UNKNOWN else placed.value,
            unknown or matters,
            tuple(step._replace(path=step.path or inside.index.path) for step in _innermost(value).because),
            () if lost is None else (lost,),
        )


def _is_of_annotation(node: ast.expr, statement: ast.stmt) -> bool:
    annotations: list[ast.expr | None] = []
    if isinstance(statement, ast.AnnAssign):
        annotations = [statement.annotation]
    elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        arguments = statement.args
        annotations = [each.annotation for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        annotations.append(statement.returns)
    return any(node is inner for each in annotations if each is not None for inner in subtree(each))


def _innermost(value: Value) -> Value:
    """What a container or loader holds, since its own device says nothing."""
    while value.kind in (Kind.CONTAINER, Kind.LOADER) and value.element is not None:
        value = value.element
    return value


class _Source(NamedTuple):
    """An expression that a value may come from."""

    node: ast.expr
    function: FunctionInfo


class Losses:
    """Where the devices of values were lost: follows a value back to the first expression that loses its device."""

    def __init__(self, inside: Inside) -> None:
        self._inside = inside
        self._seen: set[int] = set()

    def of(self, function: FunctionInfo, node: ast.expr) -> Because | None:
        """The first expression on the way whose inputs are known and whose result is not; None if all is known."""
        if id(node) in self._seen or len(self._seen) > _MOST_STEPS:
            return None
        self._seen.add(id(node))
        value = _innermost(self._inside.value(function, node))
        if value.origin is not None and value.device is Device.UNKNOWN:
            part = "is a batch" if value.origin is Origin.BATCH else "comes from a batch"
            return self._here(function, node, f"`{short(node)}` {part} as the loader made it: nothing moves it before")
        if isinstance(node, ast.Name):
            return self._of_name(function, node)
        if isinstance(node, ast.Attribute):
            return self._of_attribute(function, node)
        if isinstance(node, ast.Call):
            return self._of_call(function, node)
        inputs = _inputs(node)
        return self._first(function, inputs) or self._here(function, node, "what it gives is not known")

    def _first(self, function: FunctionInfo, nodes: list[ast.expr]) -> Because | None:
        """Where the first of the inputs that is unknown was lost."""
        for each in nodes:
            if self._is_lost(function, each):
                found = self.of(function, each)
                if found is not None:
                    return found
        return None

    def _is_lost(self, function: FunctionInfo, node: ast.expr) -> bool:
        if isinstance(node, ast.Constant):
            return False
        value = _innermost(self._inside.value(function, node))
        return value.device is Device.UNKNOWN and value.kind in (Kind.UNKNOWN, Kind.TENSOR, Kind.PYTREE, Kind.MODULE)

    # -- names -----------------------------------------------------------------------------------------------------

    def _of_name(self, function: FunctionInfo, node: ast.Name) -> Because | None:
        name = node.id
        walked = _walked_by(function, node)
        if walked is not None:
            text = f"`{name}` is an element of `{short(walked)}`: its device is not known from there on"
            return self._first(function, [walked]) or self._here(function, node, text)
        scope: FunctionInfo | None = function
        while scope is not None:
            bound = self._bindings(scope, name, node if scope is function else None)
            if bound is not None:
                return bound
            if name in scope.parameter_names:
                return self._of_parameter(scope, name)
            scope = scope.outer
        return self._here(function, node, f"`{name}` is not known")

    def _bindings(self, function: FunctionInfo, name: str, read: ast.Name | None) -> Because | None:
        """Where the assignments of a name lose its device; the last one before the place that reads it counts first."""
        found = [each for each in _bound_in(function, name) if each[1].function is function]
        if read is not None:
            before = [each for each in found if (each[0].lineno, each[0].col_offset) < (read.lineno, read.col_offset)]
            if not before and name in function.parameter_names:
                return None
            found = before or found
        for target, source, how in reversed(found):
            if isinstance(target, ast.alias):
                home = self._inside.home_of_variable(function, name)
                if home is not None:
                    return self._bindings(home, name, None)
                return self._here(function, target, f"what `{name}` stands for is not known: {how}")
            lost = self._first(function, [source.node])
            if lost is not None:
                return lost
            if self._is_lost(function, target) or read is not None:
                given = self._inside.value(function, source.node)
                known = "" if given.kind is Kind.UNKNOWN else f" ({describe(given)})"
                says = f"`{name}` is {how or 'bound to'} `{short(source.node)}`{known}"
                return self._here(function, target, f"{says}: its device is not known from there on")
        return None

    def _of_parameter(self, function: FunctionInfo, name: str) -> Because | None:
        calls = [record for record in self._inside.callers(function) if record.function is not function]
        says = f"parameter `{name}` of `{function.name}`"
        row = 1 if function.is_module else function.row
        here = Because(row, "", function.index.path)
        if function.cls is not None and name == function.self_name:
            return here._replace(text=f"`{function.cls.name}` is not known to be a module")
        if not calls:
            return here._replace(text=f"{says}: no call of it is known")
        places: dict[Device, str] = {}
        lost: Because | None = None
        for record in calls:
            given = _given(function, record.call, name)
            if given is None:
                continue
            value = _innermost(self._inside.value(record.function, given))
            place = f"{record.function.index.path}:{record.call.lineno}"
            places.setdefault(value.device, f"{place} gives {describe(value)}")
            if lost is None and self._is_lost(record.function, given):
                lost = self.of(record.function, given)
        if len(places) > 1 and sum(device.on_accelerator for device in places) != len(places):
            return here._replace(text=f"{says}: its calls disagree: {'; '.join(list(places.values())[:3])}")
        if lost is not None:
            return lost
        if not places:
            return here._replace(text=f"{says}: the calls of it do not name what they give it")
        return here._replace(text=f"{says}: {next(iter(places.values()))}")

    # -- attributes ------------------------------------------------------------------------------------------------

    def _of_attribute(self, function: FunctionInfo, node: ast.Attribute) -> Because | None:
        owner = self._inside.value(function, node.value)
        path = dotted(node)
        stored = [each for each in _bound_in(function, path or "") if each[0].lineno < node.lineno]
        for _, source, _ in reversed(stored):
            lost = self._first(function, [source.node])
            if lost is not None:
                return lost
        if owner.cls is not None:
            stores = self._inside.stores(owner.cls, node.attr)
            if not stores:
                return self._here(
                    function, node, f"nothing in class `{owner.cls.name}` sets `{node.attr}`, as far as is known"
                )
            for store in stores:
                for _, source, _ in _bound_at(store.function, store.target):
                    lost = self._first(store.function, [source.node])
                    if lost is not None:
                        return lost
            first = stores[0]
            text = f"`{short(first.target)}` is set here, and its device is not known"
            return self._here(first.function, first.target, text)
        if self._is_lost(function, node.value):
            found = self.of(function, node.value)
            if found is not None:
                return found
        return self._here(function, node, f"`{short(node)}`: what `.{node.attr}` gives is not known")

    # -- calls -----------------------------------------------------------------------------------------------------

    def _of_call(self, function: FunctionInfo, node: ast.Call) -> Because | None:
        callee = self._inside.value(function, node.func)
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        given = [each.value if isinstance(each, ast.Starred) else each for each in node.args]
        given += [keyword.value for keyword in node.keywords]
        takes_device = any(self._inside.value(function, each).device.on_accelerator for each in given)
        if callee.function is not None and takes_device:
            return self._in_returns(callee.function) or self._at_call(function, node, callee)
        if takes_device:
            return self._at_call(function, node, callee)
        if owner is not None and callee.function is None and callee.kind is not Kind.LIBRARY:
            found = self._first(function, [owner])
            if found is not None:
                return found
        if callee.kind is Kind.MODULE and callee.device is Device.UNKNOWN:
            found = self.of(function, node.func)
            if found is not None:
                return found
        if callee.function is not None or (callee.ref or "").startswith("torch."):
            found = self._first(function, given)
            if found is not None:
                return found
        in_returns = None if callee.function is None else self._in_returns(callee.function)
        return in_returns or self._at_call(function, node, callee)

    def _at_call(self, function: FunctionInfo, node: ast.Call, callee: Value) -> Because:
        if callee.kind is Kind.UNKNOWN:
            return self._here(function, node, f"`{short(node)}`: what is called is not known, nor what it returns")
        value = self._inside.value(function, node)
        what = "what it returns" if value.kind is Kind.UNKNOWN else "the device of what it returns"
        return self._here(function, node, f"`{short(node)}`: {what} is not known")

    def _in_returns(self, callee: FunctionInfo) -> Because | None:
        """Where the values that a function returns lose their device."""
        for statement in callee.statements:
            if isinstance(statement, ast.Return) and statement.value is not None:
                found = self._first(callee, [statement.value])
                if found is not None:
                    return found
        return None

    def _here(self, function: FunctionInfo, node: ast.expr | ast.alias, text: str) -> Because:
        return Because(node.lineno, text, function.index.path)


def _walked_by(function: FunctionInfo, node: ast.Name) -> ast.expr | None:
    """What the comprehension around a name walks over, if it binds the name."""
    around: ast.AST | None = function.parents.get(node)
    while around is not None and not isinstance(around, ast.stmt):
        for each in getattr(around, "generators", ()):
            if any(isinstance(inner, ast.Name) and inner.id == node.id for inner in subtree(each.target)):
                walked: ast.expr = each.iter
                return walked
        around = function.parents.get(around)
    return None


_Binding = tuple["ast.expr | ast.alias", _Source, str]
"""A target, what it is bound to, and how: `an element of`; empty for a plain assignment."""


def _bound_in(function: FunctionInfo, name: str) -> list[_Binding]:
    """The bindings of a name, or of a dotted path, by statements of the function, in source order."""
    found = [each for statement in function.statements for each in _bindings(statement, function)]
    return [each for each in found if _name_of(each[0]) == name]


def _bound_at(function: FunctionInfo, target: ast.expr) -> list[_Binding]:
    found = [each for statement in function.statements for each in _bindings(statement, function)]
    return [each for each in found if each[0] is target]


def _name_of(target: ast.expr | ast.alias) -> str | None:
    return (target.asname or target.name.partition(".")[0]) if isinstance(target, ast.alias) else dotted(target)


def _bindings(statement: ast.stmt, function: FunctionInfo) -> Iterator[_Binding]:
    pairs: list[tuple[ast.expr, ast.expr, str]] = []
    if isinstance(statement, ast.Assign):
        pairs = [(target, statement.value, "") for target in statement.targets]
    elif isinstance(statement, (ast.AnnAssign, ast.AugAssign)) and statement.value is not None:
        pairs = [(statement.target, statement.value, "")]
    elif isinstance(statement, (ast.For, ast.AsyncFor)):
        pairs = [(statement.target, statement.iter, "an element of")]
    elif isinstance(statement, (ast.With, ast.AsyncWith)):
        pairs = [(i.optional_vars, i.context_expr, "given by") for i in statement.items if i.optional_vars is not None]
    elif isinstance(statement, (ast.Import, ast.ImportFrom)):
        module = "" if isinstance(statement, ast.Import) else f"{'.' * statement.level}{statement.module or ''}"
        for alias in statement.names:
            how = f"it is imported from `{module or alias.name}`"
            yield alias, _Source(ast.Constant(None), function), how
    for target, value, how in pairs:
        if isinstance(target, (ast.Tuple, ast.List)):
            values = value.elts if isinstance(value, (ast.Tuple, ast.List)) and not how else []
            for position, each in enumerate(target.elts):
                inner = each.value if isinstance(each, ast.Starred) else each
                if len(values) == len(target.elts):
                    yield inner, _Source(values[position], function), ""
                else:
                    for leaf in inner.elts if isinstance(inner, (ast.Tuple, ast.List)) else [inner]:
                        yield leaf, _Source(value, function), how or "a part of"
        else:
            yield target, _Source(value, function), how


def _inputs(node: ast.expr) -> list[ast.expr]:
    """The expressions that an expression is made of."""
    if isinstance(node, ast.Subscript):
        return [node.value]
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
        return [node.elt, *(each.iter for each in node.generators)]
    if isinstance(node, ast.DictComp):
        return [node.value, *(each.iter for each in node.generators)]
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, ast.Dict):
        return node.values
    return [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]


def _given(function: FunctionInfo, call: ast.Call, name: str) -> ast.expr | None:
    """The argument that a call gives a parameter, by keyword or position; None for its default."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    names = positional_of(function.arguments)[function.self_name is not None :]
    place = names.index(name) if name in names else len(call.args)
    return call.args[place] if place < len(call.args) else function.defaults.get(name)


def short(node: ast.expr) -> str:
    """The text of an expression on one row, cut where it is long."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
