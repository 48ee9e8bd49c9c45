"""The `non_blocking` of moves: options that no code of the project sets, and moves beside others that set it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Because, Unproven
from torchperf_lint.idioms import surroundings
from torchperf_lint.idioms.arguments import passed
from torchperf_lint.idioms.transfer.transfers import hot_moves
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.values import Origin
from torchperf_lint.model.handles import ClassInfo, dotted, last_name
from torchperf_lint.syntax import cst, shape

if TYPE_CHECKING:
    from torchperf_lint.idioms.transfer.transfers import Move
    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import AttributeStore, CallRecord, FunctionInfo


def waits_by_default(model: Model, move: Move) -> tuple[Because, ...] | None:
    """Evidence that `non_blocking` is an option that stays off; None if it is set anywhere, or is no option."""
    given = shape.argument(move.call, "non_blocking")
    node = model.ast_of(given) if isinstance(given, (cst.Name, cst.Attribute)) else None
    search = _Search(model)
    if not isinstance(node, ast.expr) or not search.is_off(
        model.function_of(move.site), node, bounds.MOST_STEPS_TO_OPTION
    ):
        return None
    if not search.defaults or search.may_be_set_elsewhere():
        return None
    row, path = search.defaults[0]
    return (Unproven(row, f"`{ast.unparse(node)}` is off by default, and nothing in the project sets it", path),)


def does_not_wait_beside(model: Model, move: Move) -> bool:
    """Whether the same block sends another part of a batch to the same device by `non_blocking=True` already."""
    function, statement = model.function_of(move.site), model.statement_of(move.site.node)
    if move.device is None or not _is_certain(model, move) or _is_bound_again(function, model.text(move.device)):
        return False
    return any(
        each.site is not move.site
        and each.device is not None
        and model.text(each.device) == model.text(move.device)
        and model.statement_of(each.site.node) in model.place_of(statement).block
        and _is_certain(model, each)
        and any(shape.is_literal(item.value, "True") for item in each.call.args if _is_non_blocking(item))
        and model.value(each.moved).origin is Origin.BATCH
        for each in hot_moves(model)
    )


def _is_certain(model: Model, move: Move) -> bool:
    """Whether its statement makes the move in any case."""
    node = model.ast_of(move.call)
    return isinstance(node, ast.expr) and surroundings.is_always_evaluated(model.function_of(move.site), node)


def _is_bound_again(function: FunctionInfo, path: str) -> bool:
    """Whether the function binds a name more than once, or an attribute at all."""
    stores = [
        each
        for each in function.nodes
        if isinstance(each, (ast.Name, ast.Attribute)) and not isinstance(each.ctx, ast.Load) and dotted(each) == path
    ]
    return len(stores) > (0 if "." in path or path in function.parameter_names else 1)


def _is_non_blocking(argument: cst.Arg) -> bool:
    return argument.keyword is not None and argument.keyword.value == "non_blocking"


_MOVES = frozenset({"to", "cuda", "copy_"})
"""Methods of tensors whose own `non_blocking` is no option."""


class _Search:
    """Follows an option back over calls and attributes to the defaults that it rests on."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._seen: set[tuple[FunctionInfo | ClassInfo, str]] = set()
        self.defaults: list[tuple[int, str]] = []

    def is_off(self, function: FunctionInfo, node: ast.expr, steps: int) -> bool:
        """Whether the code shows everything that the expression may be, and all of it is False."""
        if isinstance(node, ast.Constant):
            return node.value is False or node.value is None
        if steps == 0:
            return False
        if isinstance(node, ast.Name):
            return self._stays_off(function, node.id, steps - 1)
        if isinstance(node, ast.Attribute):
            cls = self._class_of(function, node.value)
            return cls is not None and self._is_kept_off(cls, node.attr, steps - 1)
        default = _default_of_field(node)
        return default is not None and self.is_off(function, default, steps - 1)

    def may_be_set_elsewhere(self) -> bool:
        """Whether a file nearby gives a followed attribute another value, or a parameter one by `partial`."""
        names = {name for owner, name in self._seen if isinstance(owner, ClassInfo)}
        every = {name for _, name in self._seen}
        for home in self._model.with_neighbours:
            for record in home.all_calls:
                called = last_name(record.call.func)
                given = () if called in _MOVES else record.call.keywords
                asked = every if called == "partial" else names
                if any(each.arg in asked and _may_be_on(each.value) for each in given):
                    return True
            for statement in home.statements:
                targets = _targets(statement)
                if any(last_name(each) in names for each in targets) and _may_be_on(statement.value):  # type: ignore[attr-defined]
                    return True
        return False

    def _stays_off(self, function: FunctionInfo, name: str, steps: int) -> bool:
        """Whether a parameter is False by default, and in all calls that are known."""
        if (function, name) in self._seen:
            return True
        self._seen.add((function, name))
        default = function.defaults.get(name)
        if not isinstance(default, ast.Constant) or not self.is_off(function, default, steps):
            return False
        if name not in function.parameter_names or function.bound_names.count(name) != 1:
            return False
        self.defaults.append((default.lineno, function.path))
        for record in self._model.callers(function):
            given = passed(record.call, function, name)
            if given is None and self._may_be_spread(record, name):
                return False
            if given is not None and not self.is_off(record.function, given, steps):
                return False
        return True

    def _may_be_spread(self, record: CallRecord, name: str) -> bool:
        """Whether `*args` or `**options` of a call may hold the argument.

        A dict that the function makes itself does not where the file never writes the argument's name.
        """
        if any(isinstance(each, ast.Starred) for each in record.call.args):
            return True
        spread = [each.value for each in record.call.keywords if each.arg is None]
        home = self._model.home(record.function)
        return any(not _is_made_here(home, record.function, each) for each in spread) or (
            bool(spread) and _writes(home, name)
        )

    def _is_kept_off(self, cls: ClassInfo, name: str, steps: int) -> bool:
        """Whether an attribute is False wherever it is stored, or a property that gives what is."""
        if (cls, name) in self._seen:
            return True
        self._seen.add((cls, name))
        getter = self._model.method(cls, name)
        if getter is not None:
            given = [each.value for each in getter.statements if isinstance(each, ast.Return)]
            return len(given) == 1 and given[0] is not None and self.is_off(getter, given[0], steps)
        stores = self._stores(cls, name)
        written = (each for _, each in stores if isinstance(each, (ast.Constant, ast.Call)))
        self.defaults += [(each.lineno, cls.path) for each in written]
        return bool(stores) and all(each is not None and self.is_off(home, each, steps) for home, each in stores)

    def _class_of(self, function: FunctionInfo, owner: ast.expr) -> ClassInfo | None:
        """The class of an object, or of the one that is made where none is given."""
        if isinstance(owner, ast.Name) and owner.id == function.self_name:
            return function.cls
        known = self._model.value_in(function, owner).cls
        if known is not None:
            return known
        made: set[ClassInfo | None] = set()
        if isinstance(owner, ast.Name):
            made = {self._model.value_in(function, each).cls for each in self._model.bindings(function, owner.id)}
        elif (
            function.cls is not None and isinstance(owner, ast.Attribute) and dotted(owner.value) == function.self_name
        ):
            for home, each in self._stores(function.cls, owner.attr):
                made.add(self._class_of(home, each) if isinstance(each, ast.Name) else None)
        return made.pop() if len(made) == 1 else None

    def _stores(self, cls: ClassInfo, name: str) -> list[tuple[FunctionInfo, ast.expr | None]]:
        """The expressions that are stored in an attribute, each with its function."""
        owners = self._model.lineage(cls)
        return [(each.function, _stored(owner, each)) for owner in owners for each in owner.attributes.get(name, ())]


def _is_made_here(model: Model, function: FunctionInfo, mapping: ast.expr) -> bool:
    """Whether a mapping is a display of named options, or a name for one that is only spread."""
    made = model.all_bindings(function, mapping.id) if isinstance(mapping, ast.Name) else [mapping]
    if isinstance(mapping, ast.Name):
        parents = function.parents
        uses = (each for each in parents if isinstance(each, ast.Name) and each.id == mapping.id)
        if any(isinstance(use.ctx, ast.Load) and not _is_spread(parents[use]) for use in uses):
            return False
    return bool(made) and all(_has_written_keys(model, function, each) for each in made)


def _is_spread(parent: ast.AST) -> bool:
    """`**options`."""
    return isinstance(parent, ast.keyword) and parent.arg is None


def _has_written_keys(model: Model, function: FunctionInfo, mapping: ast.expr) -> bool:
    """`{"size": 8}`, `{name: f(name) for name in NAMES}` with names that the code lists."""
    if isinstance(mapping, ast.Dict):
        return all(isinstance(key, ast.Constant) and isinstance(key.value, str) for key in mapping.keys)
    if not isinstance(mapping, ast.DictComp):
        return False
    first = mapping.generators[0]
    is_same = len(mapping.generators) == 1 and ast.unparse(mapping.key) == ast.unparse(first.target)
    walked = model.value_in(function, first.iter)
    names = [key if walked.ref == "dict" else each.constant for key, each in walked.items or ()]
    return is_same and bool(names) and all(isinstance(each, str) for each in names)


def _writes(model: Model, name: str) -> bool:
    """Whether the file writes the name as a string, from which a key may be made."""
    texts = model.remember("texts written", lambda: _texts(model))
    return name in texts


def _texts(model: Model) -> frozenset[str]:
    constants = (node.value for node in model.top.nodes if isinstance(node, ast.Constant))
    return frozenset(each for each in constants if isinstance(each, str))


def _stored(owner: ClassInfo, store: AttributeStore) -> ast.expr | None:
    """The expression that a store assigns, in a method or in the class's own body; None if it is unpacked."""
    for statement in owner.head.body if isinstance(store.target, ast.Name) else store.function.statements:
        if isinstance(statement, ast.Assign) and store.target in statement.targets:
            return statement.value
        if isinstance(statement, ast.AnnAssign) and statement.target is store.target:
            return statement.value
    return None


def _default_of_field(node: ast.expr) -> ast.expr | None:
    """`False` of `field(default=False)`."""
    if not isinstance(node, ast.Call) or last_name(node.func) != "field":
        return None
    return next((each.value for each in node.keywords if each.arg == "default"), None)


def _targets(statement: ast.stmt) -> list[ast.expr]:
    if isinstance(statement, ast.Assign):
        return statement.targets
    return [statement.target] if isinstance(statement, ast.AnnAssign) and statement.value is not None else []


def _may_be_on(node: ast.expr) -> bool:
    """Whether a value is neither False nor None; one that only hands a name on was followed."""
    if isinstance(node, ast.Constant):
        return node.value is not False and node.value is not None
    return not isinstance(node, (ast.Name, ast.Attribute)) and _default_of_field(node) is None
