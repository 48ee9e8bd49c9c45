"""Functions that move a whole tree of tensors: they call themselves for what dicts and lists hold, and move tensors."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Moved
from torchperf_lint.model.domain.values import UNKNOWN, Device, Kind, Value, container
from torchperf_lint.model.syntax.index import dotted, last_name
from torchperf_lint.model.values import parameters
from torchperf_lint.model.values.name_heuristics import BATCH
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import FunctionInfo

_MOVERS = ("to", "cuda")
_TYPE_TESTS = frozenset({"isinstance", "is_tensor", "hasattr"})
_MAKERS = frozenset({"list", "tuple", "dict", "set", "map", "__class__"})


def result(
    inference: ValueQuestions, function: FunctionInfo, arguments: list[Value], keywords: dict[str, Value]
) -> Value:
    """What the call of such a function returns; UNKNOWN for another function, or where the destination is not known.

    `arguments` are those of the call, with the object of a method before them.
    """
    found = function.note(("moves a tree", function), lambda: _move_of_tree(function))
    if found is None:
        return UNKNOWN
    name, move = found
    home = inference.home(function.index)
    bound = parameters.bind(inference, function, arguments, keywords)
    values = home.in_call(function, {**bound, name: UNKNOWN})
    place = UNKNOWN if values is None else values.get(move, UNKNOWN)
    if not place.device.on_accelerator:
        return UNKNOWN
    path = None if function.index is inference.index else function.index.path
    step = Moved(move.lineno, f"`{function.name}` moves what it is given to the device", path)
    return placed(step, bound.get(name, UNKNOWN), place.device)


def placed(step: Because, value: Value, device: Device) -> Value:
    """The value with its tensors on the device; UNKNOWN where it has none. What is not known counts as a batch."""
    if value.kind is Kind.CONTAINER:
        element = None if value.element is None else placed(step, value.element, device)
        return container(element, ref=value.ref or "list")
    if value.kind is Kind.UNKNOWN:
        value = BATCH
    is_moved = value.holds_tensors or value.kind is Kind.MODULE
    return value._replace(device=device, because=(step,)) if is_moved else UNKNOWN


def _move_of_tree(function: FunctionInfo) -> tuple[str, ast.Call] | None:
    """The parameter, and the call that moves it where it is a tensor; None for a function that does anything else."""
    names = function.parameter_names[function.self_name is not None :]
    if not names or function.is_lambda or function.is_generator:
        return None
    again = [record.call for record in function.calls_made if _means(record.call, function)]
    moving = [record for record in function.calls_made if _is_move(record.call, names[0], function)]
    moves = [record.call for record in moving]
    if not again or not moves or _sets_attributes(function, names[0]):
        return None
    tree = _Tree(function, names[0], {*again, *moves})
    if not all(tree.depends_on_types(record.statement) for record in moving):
        return None
    returned = [node for node in function.nodes if isinstance(node, ast.Return)]
    is_so = bool(returned) and all(map(tree.is_given_by, returned)) and tree.is_bound_to_what_is_moved()
    return (names[0], moves[0]) if is_so else None


class _Tree:
    """What a function gives of the tree that is its parameter `name`; `moved` are the calls that move a part."""

    def __init__(self, function: FunctionInfo, name: str, moved: set[ast.Call]) -> None:
        self._function = function
        self._name = name
        self._moved = moved

    def is_given_by(self, statement: ast.Return) -> bool:
        """Whether it returns what is made of moved parts; or the tree as it is, where that is asked to be no tensor."""
        return self._gives(statement.value, self.depends_on_types(statement))

    def depends_on_types(self, statement: ast.stmt) -> bool:
        """Whether it runs in any case, or is chosen by tests of types alone."""
        return all(map(self._asks_type, self._function.place_of(statement).tests()))

    def is_bound_to_what_is_moved(self) -> bool:
        """Whether everything that is bound to the tree's own name is moved."""
        return all(self._is_moved(each) for each in self._bound(self._name))

    def _gives(self, node: ast.expr | None, as_it_is: bool) -> bool:
        """Whether an expression is what is made of moved parts; `as_it_is`: or the tree itself, which is no tensor."""
        if isinstance(node, ast.IfExp):
            asks = as_it_is and self._asks_type(node.test)
            return self._gives(node.body, asks) and self._gives(node.orelse, asks)
        if isinstance(node, ast.Name):
            return (node.id == self._name and as_it_is) or (node.id != self._name and self._gathers(node.id))
        return node is not None and self._is_moved(node)

    def _asks_type(self, test: ast.expr) -> bool:
        """`isinstance(x, dict)`, `torch.is_tensor(x)`, `hasattr(x, "to")`, `x is None`, and what joins such tests."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self._asks_type(test.operand)
        if isinstance(test, ast.BoolOp):
            return all(map(self._asks_type, test.values))
        if isinstance(test, ast.Compare):
            constant = test.comparators[0]
            is_none = isinstance(constant, ast.Constant) and constant.value is None
            return isinstance(test.ops[0], (ast.Is, ast.IsNot)) and is_none and self._is_part(test.left)
        is_test = isinstance(test, ast.Call) and last_name(test.func) in _TYPE_TESTS and bool(test.args)
        return is_test and self._is_part(test.args[0])  # type: ignore[attr-defined]

    def _is_part(self, node: ast.expr) -> bool:
        """The tree, or what a loop takes out of it."""
        return isinstance(node, ast.Name) and (node.id == self._name or node.id in _walked(self._function))

    def _is_moved(self, node: ast.expr) -> bool:
        """Whether it is a moved part, or a list, dict or another object that is made of such."""
        if node in self._moved:
            return True
        if isinstance(node, ast.Call) and not self._makes(node.func):
            return False
        parts = list(_parts(node))
        return bool(parts) and all(map(self._is_moved, parts))

    def _makes(self, func: ast.expr) -> bool:
        """`list`, `type(x)`, `x.__class__`, a class by its name, or a name for any of these."""
        name = last_name(func) or ""
        if isinstance(func, ast.Name) and func.id in self._function.bound_names:
            return True
        return name in _MAKERS or name[:1].isupper() or (isinstance(func, ast.Call) and last_name(func.func) == "type")

    def _gathers(self, name: str) -> bool:
        """Whether a name is an empty list or dict that gets moved parts, or is made of them."""
        given = list(self._given(name))
        return any(map(self._is_moved, given)) and all(self._is_moved(each) or _is_empty(each) for each in given)

    def _given(self, name: str) -> Iterator[ast.expr]:
        """What is bound to a name, or put into what it names."""
        yield from self._bound(name)
        for node in self._function.nodes:
            if isinstance(node, ast.Call) and dotted(node.func) == f"{name}.append":
                yield from node.args

    def _bound(self, name: str) -> Iterator[ast.expr]:
        """What is assigned to a name, or to an entry of what it names."""
        for node in self._function.nodes:
            if isinstance(node, ast.Assign):
                targets = [
                    each.value if isinstance(each, (ast.Subscript, ast.Attribute)) else each for each in node.targets
                ]
                if any(_is_named(each, name) for each in targets):
                    yield node.value


def _is_empty(node: ast.expr) -> bool:
    """`[]`, `{}`, `dict()`."""
    is_maker = isinstance(node, (ast.Dict, ast.List)) or (
        isinstance(node, ast.Call) and last_name(node.func) in _MAKERS
    )
    return is_maker and not any(True for _ in _parts(node))


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    """What a display, a comprehension or a call is made of."""
    if isinstance(node, ast.Dict):
        yield from node.values
    elif isinstance(node, ast.DictComp):
        yield node.value
    elif isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
        yield node.elt
    elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        yield from node.elts
    elif isinstance(node, ast.Starred):
        yield node.value
    elif isinstance(node, ast.Call):
        yield from (*node.args, *(each.value for each in node.keywords))


def _means(node: ast.Call, function: FunctionInfo) -> bool:
    """`walk(...)`, or `self.walk(...)` in a method."""
    if last_name(node.func) != function.name:
        return False
    if isinstance(node.func, ast.Name):
        return function.cls is None
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    return function.cls is not None and isinstance(owner, ast.Name) and owner.id in (function.self_name, "cls")


def _is_move(call: ast.Call, name: str, function: FunctionInfo) -> bool:
    """`x.to(...)` or `x.cuda()` of the parameter, or of what a loop takes out of it."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _MOVERS:
        return False
    owner = call.func.value
    while isinstance(owner, ast.Subscript):
        owner = owner.value
    return isinstance(owner, ast.Name) and (owner.id == name or owner.id in _walked(function))


def _walked(function: FunctionInfo) -> set[str]:
    """The targets of the function's loops."""
    loops = (node.target for node in function.nodes if isinstance(node, (ast.For, ast.comprehension)))
    return {each.id for target in loops for each in subtree(target) if isinstance(each, ast.Name)}


def _sets_attributes(function: FunctionInfo, name: str) -> bool:
    """`tree.shadow = ...`."""
    return any(
        isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store) and _is_named(each.value, name)
        for each in function.nodes
    )


def _is_named(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
