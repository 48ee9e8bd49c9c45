"""Average meters: whether a method would treat a tensor like a number, only adding it up and storing it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from torchperf_lint.idioms.arguments import passed
from torchperf_lint.knowledge import conventions
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import asks_for_tensor, assigned_to, dotted, last_name, names_in
from torchperf_lint.syntax.tree import children, subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Value
    from torchperf_lint.model.handles import ClassInfo, FunctionInfo

_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)
_AS_DICT = frozenset({"vars", "asdict", "to_dict", "as_dict", "model_dump"})
_WRITE_ROWS = ("writerow", "writerows")
_SETTLES = frozenset({"item", "detach", "double", "reshape"})
_OF_NUMBERS = frozenset({"max", "min", "abs", "round", "float", "int", "len"})
_NO_NUMBERS = (ast.List, ast.Tuple, ast.Dict, ast.Set, ast.Lambda, ast.ListComp, ast.DictComp, ast.GeneratorExp)
_MAY_HOLD = (ast.Assign, ast.AnnAssign, ast.Return, ast.Expr, ast.Attribute, ast.Tuple, ast.keyword)


def is_meter(value: Value, name: str) -> bool:
    """Whether a value is an average meter: its class stores a sum and a count, or meters; else by the names."""
    if value.cls is not None:
        return keeps_average(value.cls)
    named = (value.ref or "").rpartition(".")[2]
    return named in conventions.METER_CLASSES or name.lower().endswith(("meter", "metric_logger"))


def readers_take_numbers_alone(model: Model) -> bool:
    """Whether the file or a neighbour calls, outside of meters, what raises for a tensor, or writes it otherwise.

    `round(meter.avg, 3)` raises, and a table gets `tensor(0.25, device='cuda:0')` for 0.25.
    """
    return any(map(_takes_numbers_alone, model.with_neighbours))


def _takes_numbers_alone(model: Model) -> bool:
    if next(iter(model.method_calls(*_WRITE_ROWS)), None) is not None:
        return True
    for site in model.calls("builtins.round", "json.dump", "json.dumps"):
        owner, call = model.function_of(site).cls, model.ast_of(site.node)
        if owner is not None and "update" in owner.methods:
            continue
        given = call.args[0] if isinstance(call, ast.Call) and call.args else None
        if given is None or not _comes_from_elsewhere(model, model.function_of(site), given):
            return True
    return False


def _comes_from_elsewhere(model: Model, function: FunctionInfo, given: ast.expr) -> bool:
    """Whether what is rounded or written is a number already, an element of a list of numbers, or the settings."""
    if model.value_in(function, given).kind is Kind.NUMBER:
        return True
    if isinstance(given, ast.Call):
        owner = given.func.value if isinstance(given.func, ast.Attribute) else next(iter(given.args), None)
        return last_name(given.func) in _AS_DICT and (last_name(owner) if owner else None) in conventions.SETTINGS
    walks = (each for each in function.nodes if isinstance(each, (ast.For, ast.comprehension)))
    lists = [
        _taken_from(each, given.id)
        for each in walks
        if isinstance(given, ast.Name) and given.id in names_in(each.target)
    ]
    return bool(lists) and all(isinstance(each, ast.Call) and last_name(each.func) == "tolist" for each in lists)


def _taken_from(walk: ast.For | ast.comprehension, name: str) -> ast.expr:
    """`weights.tolist()` of `for name, weight in zip(names, weights.tolist())`."""
    names = walk.target.elts if isinstance(walk.target, ast.Tuple) else []
    zipped = walk.iter.args if isinstance(walk.iter, ast.Call) and last_name(walk.iter.func) == "zip" else []
    pairs = zip(names, zipped, strict=False)
    return next((part for each, part in pairs if isinstance(each, ast.Name) and each.id == name), walk.iter)


def only_adds_up(model: Model, value: Value, method: str, parameter: int | str) -> bool:
    """Whether a method of the value's class, and all that it calls, only computes with the parameter and stores it.

    The parameter is given by its name or by its position after `self`. Rejected are calls of anything but the
    class's own methods, and branches on, comparisons of and strings from the argument or stored values.
    """
    cls = value.cls
    function = None if cls is None else model.method(cls, method)
    if cls is None or function is None:
        return False
    if isinstance(parameter, int):
        names = function.parameter_names[1:]
        if parameter >= len(names):
            return False
        parameter = names[parameter]
    return _Walk(model, cls).passes(function, {parameter})


class Fed(NamedTuple):
    """The parameter that a meter's method reads and only adds up, and the additions in place to what is kept."""

    name: str
    additions: tuple[ast.AugAssign, ...]


def only_adds_up_once_read(model: Model, function: FunctionInfo, reading: ast.stmt) -> Fed | None:
    """What a meter's method reads by a statement, `value = value.item()`, and then only adds up.

    The statement may stand under a test of the parameter's type; None for anything else.
    """
    name = _rebound(reading)
    if function.cls is None or name not in function.parameter_names or not keeps_average(function.cls):
        return None
    walk = _Walk(model, function.cls, reading)
    return Fed(name, tuple(walk.additions)) if walk.passes(function, {name}) else None


def given(model: Model, function: FunctionInfo, name: str) -> Iterator[Value]:
    """What the calls of a meter's method give for its parameter, as far as they are known."""
    for record in model.callers(function):
        expression = passed(record.call, function, name)
        if expression is not None:
            yield model.home(record.function).value_in(record.function, expression)


def keeps_average(cls: ClassInfo) -> bool:
    """Whether a class stores a sum and a count, or meters."""
    kept = set(cls.attributes)
    return {"sum", "count"} <= kept or {"total", "count"} <= kept or "meters" in kept


def _rebound(statement: ast.AST) -> str:
    """The name in `value = value.item()`, `value = value.detach().double()`; empty for anything else."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return ""
    target, made = statement.targets[0], statement.value
    while isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and made.func.attr in _SETTLES:
        if made.keywords or [ast.unparse(each) for each in made.args] != ["()"] * (made.func.attr == "reshape"):
            return ""
        made = made.func.value
    is_same = isinstance(target, ast.Name) and isinstance(made, ast.Name) and target.id == made.id
    return target.id if is_same and isinstance(target, ast.Name) and made is not statement.value else ""


def _settles(node: ast.AST, reading: ast.stmt | None) -> bool:
    """Whether a statement only makes a tensor of its parameter one that can be added, perhaps under a test of types.

    What reads it is the one `reading` alone.
    """
    if isinstance(node, ast.If):
        return (
            asks_for_tensor(node.test) and len(node.body) == 1 and not node.orelse and _settles(node.body[0], reading)
        )
    reads = any(isinstance(each, ast.Attribute) and each.attr == "item" for each in subtree(node))
    return bool(_rebound(node)) and (not reads or node is reading)


class _Walk:
    """A traversal of one method and the methods of its class that it calls."""

    def __init__(self, model: Model, cls: ClassInfo, reading: ast.stmt | None = None) -> None:
        """`reading` is the statement that reads the parameter, which does not count."""
        self._reading = reading
        self._model = model
        self._cls = cls
        self._stored: set[str] = set()  # attributes that store the argument
        self._settled = False  # a statement makes a tensor of it that may be any
        self.additions: list[ast.AugAssign] = []

    def passes(self, function: FunctionInfo, given: set[str]) -> bool:
        """Whether every use of the argument is harmless; repeated until no further attribute stores it."""
        while True:
            known = len(self._stored)
            if not self._method_passes(function, given, {function}):
                return False
            if len(self._stored) == known:
                return not self._settled or self._adds_numbers()

    def _method_passes(self, function: FunctionInfo, given: set[str], seen: set[FunctionInfo]) -> bool:
        self._follow(function, given)
        if self._is_shared(function, given):
            return False
        settling = {part for each in function.statements if _settles(each, self._reading) for part in subtree(each)}
        self._settled = self._settled or bool(settling)
        for node in function.nodes:
            if node in settling:
                continue
            held = [child for child in children(node) if self._holds(child, function, given)]
            if held and not self._may_hold(node, held, function):
                return False
            called = self._own(node, function)
            if isinstance(node, ast.Call) and self._own(node.func, function) is None:
                return False
            if called is not None and called not in seen:
                seen.add(called)
                if not self._method_passes(called, set(called.parameter_names[1:]), seen):
                    return False
        return True

    def _adds_numbers(self) -> bool:
        """Whether all that the class reckons with begins as numbers, and a tensor of it is never written to in place.

        Of what is read by a statement, the additions in place are `additions`, which a fix writes anew.
        """
        near = (each for file in self._model.with_neighbours for each in file.classes)
        if any(self._cls in self._model.lineage(each) for each in near if each is not self._cls):
            return False
        methods = [each for owner in self._model.lineage(self._cls) for each in owner.methods.values()]
        reckoned = set(self._stored)
        for function in methods:
            for node in function.nodes:
                if isinstance(node, (ast.BinOp, ast.AugAssign)):
                    reckoned |= {each.attr for each in subtree(node) if _is_own(each, function)}
                if isinstance(node, ast.AugAssign) and last_name(node.target) in self._stored:
                    self.additions.append(node)
                    if self._model.home(function) is not self._model:
                        return False
        plain = [
            assigned_to(function.parents, node)
            for function in methods
            for node in function.nodes
            if _is_own(node, function) and node.attr in reckoned and isinstance(node.ctx, ast.Store)
            if not isinstance(function.parents.get(node), ast.AugAssign)
        ]
        return (self._reading is not None or not self.additions) and all(map(_is_reckoned, plain))

    def _is_shared(self, function: FunctionInfo, given: set[str]) -> bool:
        """Whether an object that is added to in place may also be stored under another name.

        `self.before = self.sum; self.sum += value` stores two numbers, but one tensor.
        """
        shared: set[str] = set()
        grown: set[str] = set()
        for node in function.nodes:
            if isinstance(node, ast.AugAssign):
                grown.add(last_name(node.target) or "")
            elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                bare = [part for part in _choices(node.value) if isinstance(part, (ast.Name, ast.Attribute))]
                held = [part for part in bare if self._holds(part, function, given)]
                if held:
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    shared.update(last_name(part) or "" for part in (*held, *targets))
        return bool(shared & grown)

    def _own(self, node: ast.AST, function: FunctionInfo) -> FunctionInfo | None:
        """The method of the class that `self.name` names, if any."""
        is_own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if not is_own or node.value.id != function.self_name:  # type: ignore[attr-defined]
            return None
        return self._model.method(self._cls, node.attr)  # type: ignore[attr-defined]

    def _follow(self, function: FunctionInfo, given: set[str]) -> None:
        """Add to `given`, and to the attributes, the names bound to values from the argument."""
        for node in function.nodes:
            value = getattr(node, "value", None)
            if not isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) or value is None:
                continue
            if not self._holds(value, function, given):
                continue
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for inner in subtree(target):
                    if isinstance(inner, ast.Name) and inner.id != function.self_name:
                        given.add(inner.id)
                    elif isinstance(inner, ast.Attribute):
                        self._stored.add(inner.attr)

    def _holds(self, node: ast.AST, function: FunctionInfo, given: set[str]) -> bool:
        """Whether an expression contains the argument, an attribute that stores it, or a result of an own method."""
        return isinstance(node, (ast.expr, ast.keyword)) and any(
            (isinstance(inner, ast.Name) and inner.id in given)
            or (isinstance(inner, ast.Attribute) and inner.attr in self._stored)
            or self._own(inner, function) is not None
            for inner in subtree(node)
        )

    def _may_hold(self, node: ast.AST, held: list[ast.AST], function: FunctionInfo) -> bool:
        if isinstance(node, (ast.BinOp, ast.AugAssign)):
            return isinstance(node.op, _OPERATORS)
        if isinstance(node, ast.UnaryOp):
            return not isinstance(node.op, ast.Not)
        if isinstance(node, ast.IfExp):
            return node.test not in held
        if isinstance(node, ast.Subscript):
            return node.slice not in held
        if isinstance(node, ast.Call):
            return self._own(node.func, function) is not None
        return isinstance(node, _MAY_HOLD)


def _is_own(node: ast.AST, function: FunctionInfo) -> TypeGuard[ast.Attribute]:
    """`self.sum`."""
    return isinstance(node, ast.Attribute) and dotted(node.value) == function.self_name


def _is_reckoned(made: ast.expr | None) -> bool:
    """Whether an expression is a number, or made of names and attributes by arithmetic."""
    parts = [] if made is None else list(subtree(made))
    calls = [each for each in parts if isinstance(each, ast.Call)]
    return (
        made is not None
        and not any(isinstance(each, _NO_NUMBERS) for each in parts)
        and all(dotted(each.func) in _OF_NUMBERS for each in calls)
    )


def _choices(value: ast.expr) -> list[ast.expr]:
    """The expressions whose value it may be: the elements of a tuple and the branches of `a if b else c`."""
    if isinstance(value, ast.IfExp):
        return [*_choices(value.body), *_choices(value.orelse)]
    if isinstance(value, (ast.Tuple, ast.List)):
        return [choice for element in value.elts for choice in _choices(element)]
    return [value]
