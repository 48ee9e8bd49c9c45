"""Slices: the statements of a function that one value rests on, so that the others need not be run for it."""

from __future__ import annotations

import ast
import bisect
import builtins
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.knowledge.torch_api import TENSOR_ONLY_METHODS
from torchperf_lint.model.index import dotted, last_name
from torchperf_lint.model.meaning import walks
from torchperf_lint.syntax.tree import children, subtree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from torchperf_lint.model.index import FunctionInfo, Place

GROWERS = frozenset("append add extend insert appendleft".split())
"""Methods by which a list or set gets more."""

_CHANGE_RECEIVER = GROWERS | frozenset("update setdefault to cuda cpu".split())
_PLACE_NOTHING = frozenset(
    "no_grad enable_grad set_grad_enabled inference_mode autocast open nullcontext suppress profile record_function "
    "no_sync accumulate join catch_warnings patch raises warns".split()
)
"""Contexts by name that are no devices."""

_MAKE_HOLDERS = frozenset({"list", "dict", "defaultdict", "OrderedDict"})
_BUILTINS = frozenset(dir(builtins))
_LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return)
_SCOPES = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)
_DEFINE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
_IMPORTS = (ast.Import, ast.ImportFrom)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def slices_of(function: FunctionInfo) -> Slices:
    """The slices of a function."""
    return function.index.note(("slices", function), lambda: Slices(function))


class Slice:
    """What has to be run: whole statements, and such as are only entered for what stands in them.

    `names` are the names that the slice reads, parameters among them; `asked` are expressions that are worked out when
    the statement `at` is reached, which need not be run. Equal slices of a function are one object.
    """

    __slots__ = ("_steps", "asked", "at", "entered", "names", "run")

    def __init__(self, run: frozenset[ast.stmt], entered: frozenset[ast.stmt], names: frozenset[str]) -> None:
        self.run = run
        self.entered = entered
        self.names = names
        self.at: ast.stmt | None = None
        self.asked: tuple[ast.expr, ...] = ()
        self._steps: dict[int, tuple[list[ast.stmt], list[ast.stmt]]] = {}

    def steps(self, block: list[ast.stmt]) -> list[ast.stmt]:
        """The statements of a block of the tree of which something has to be run, and those that leave it."""
        known = self._steps.get(id(block))
        if known is None:
            run, entered, at = self.run, self.entered, self.at
            steps = [
                each for each in block if each in run or each in entered or each is at or isinstance(each, _LEAVES)
            ]
            known = self._steps[id(block)] = block, steps  # while the block is held, nothing else has its number
        return known[1]


class _Effect(NamedTuple):
    """What a statement (of a compound one, its head) reads and binds or changes: dotted paths."""

    parents: tuple[ast.stmt, ...]
    reads: frozenset[str]
    binds: frozenset[str]
    narrows: str | None


class Slices:
    """The slices of one function, found on demand."""

    def __init__(self, function: FunctionInfo) -> None:
        self._function = function
        self._effects: dict[ast.stmt, _Effect] = {}
        self._binding: dict[str, list[ast.stmt]] = {}  # by the first name of the path
        self._changing_path: dict[str, list[ast.stmt]] = {}
        self._narrowing: dict[str, list[ast.stmt]] = {}
        self._starred: list[ast.stmt] = []
        self._leaving: list[ast.stmt] = []
        self._own_holders = set(_holders(function.body))
        self._in_scopes: dict[ast.stmt, set[ast.AST]] = {}
        self._known: dict[object, Slice] = {}
        self._same: dict[object, Slice] = {}
        self._collect(function.body, ())
        self._in_order = sorted(self._effects, key=_begins)
        self._beginnings = [_begins(statement) for statement in self._in_order]

    # -- questions -------------------------------------------------------------------------------------------------

    def of(self, node: ast.expr) -> Slice | None:
        """What the value of an expression in the function rests on; None if it is not found there."""
        statement = self._statement_of(node)
        return None if statement is None else self.of_statement(statement)

    def of_statement(self, statement: ast.stmt) -> Slice:
        """What the values of the expressions in a statement rest on, without those of statements in it."""
        return self._remember(statement, lambda: self._close([statement], []))

    def of_parts(self, statement: ast.stmt, nodes: tuple[ast.expr, ...]) -> Slice:
        """What the values of some expressions in a statement rest on, whatever else it holds."""
        if not isinstance(statement, _SIMPLE) or self._are_in_scopes(statement, nodes):
            return self.of_statement(statement)
        return self._remember((statement, *nodes), lambda: self._close_parts(statement, nodes))

    def _are_in_scopes(self, statement: ast.stmt, nodes: tuple[ast.expr, ...]) -> bool:
        """Whether one of the expressions reads names that only a comprehension or lambda around it knows."""
        inside = self._in_scopes.get(statement)
        if inside is None:
            scopes = (each for part in _own(statement) for each in subtree(part) if isinstance(each, _SCOPES))
            inside = self._in_scopes[statement] = {each for scope in scopes for each in subtree(scope)}
        return not inside.isdisjoint(nodes)

    @property
    def size(self) -> int:
        """How many statements the function has."""
        return len(self._effects)

    def may_bind(self, name: str) -> bool:
        """Whether a statement of the function, or a parameter, may give the name (or path) a value."""
        return _root(name) in self._binding or bool(self._starred) or name in self._function.parameter_names

    def definition(self, name: str) -> ast.stmt | None:
        """The statement of a module that alone binds the name, if that is a definition or an import.

        It stands at the top; an import may also be tried, or be for type checkers.
        """
        binding = self._binding.get(name, ())
        if len(binding) != 1 or self._starred or not isinstance(binding[0], _DEFINE):
            return None
        place = self._function.index.places[binding[0]]
        while place.parent is not None and isinstance(binding[0], _IMPORTS) and _is_tried(place):
            place = self._function.index.places[place.parent]
        return binding[0] if place.parent is None else None

    def is_from_outside(self, node: ast.expr) -> bool:
        """Whether it is a name, or an attribute of one, that nothing in the function has anything to do with.

        The object that a method is called on comes from outside too.
        """
        path = dotted(node)
        root = _root(path or "")
        if path is None or root in self._narrowing or self._starred:
            return False
        if root == self._function.self_name:
            if self._changing(path):
                return False
        elif self.may_bind(root):
            return False
        statement = self._statement_of(node)
        return statement is not None and not self._are_in_scopes(statement, (node,))

    def changes_again(self, path: str) -> bool:
        """Whether several statements bind or change what is found at the path."""
        return sum(path in self._effects[each].binds for each in self._binding.get(_root(path), ())) > 1

    def at_end(self, name: str) -> Slice:
        """What a name that the function binds rests on once the function has run."""
        return self._remember(name, lambda: self._close([], [name], self._returns()))

    def of_results(self) -> Slice:
        """What the function returns and yields rests on; nothing to run if it does neither."""
        return self._remember(None, lambda: self._close(list(self._giving()), []))

    def of_filling(self) -> Slice:
        """What the function puts into the lists and dicts that it is given; nothing to run if it changes none."""
        names = [name for name in self._function.parameter_names if name in self._binding]
        return self._remember((), lambda: self._close([], names, self._returns()) if names else self._close([], []))

    def _returns(self) -> list[ast.stmt]:
        return [each for each in self._leaving if isinstance(each, ast.Return)]

    def may_be_filled(self, name: str) -> bool:
        """Whether the name may be a list or dict of the function's own, which others put something into."""
        return name in self._own_holders

    def _giving(self) -> Iterator[ast.stmt]:
        for statement in self._effects:
            if isinstance(statement, ast.Return):
                if statement.value is not None:
                    yield statement
            elif self._function.is_generator and any(
                isinstance(inner, (ast.Yield, ast.YieldFrom)) for part in _own(statement) for inner in subtree(part)
            ):
                yield statement

    def _remember(self, question: object, close: Callable[[], Slice]) -> Slice:
        known = self._known.get(question)
        if known is None:
            found = close()
            same = (found.run, found.entered, found.names, found.at, found.asked)
            known = self._known[question] = self._same.setdefault(same, found)
        return known

    def _statement_of(self, node: ast.expr) -> ast.stmt | None:
        """The innermost statement of the function that holds the node, by its place in the text."""
        place = (node.lineno, node.col_offset)
        position = bisect.bisect_right(self._beginnings, place)
        if position == 0:
            return None
        last = self._in_order[position - 1]
        for statement in (last, *reversed(self._effects[last].parents)):
            if place < (statement.end_lineno or 0, statement.end_col_offset or 0):
                return statement
        return None

    # -- what each statement does ------------------------------------------------------------------------------------

    def _collect(self, block: list[ast.stmt], parents: tuple[ast.stmt, ...]) -> None:
        for statement in block:
            reads: set[str] = set()
            binds: set[str] = set()
            for part in _own(statement):
                _read(part, reads, binds, self._own_holders)
            self._bind_names(statement, binds)
            if parents and walks.is_move(statement, parents[-1]):
                binds.update(walks.paths_moved(parents[-1]))
            narrows = _narrowed_path(statement.test) if isinstance(statement, ast.If) else None
            self._effects[statement] = _Effect(parents, frozenset(reads), frozenset(binds), narrows)
            for path in binds:
                self._binding.setdefault(_root(path), []).append(statement)
            if narrows is not None:
                self._narrowing.setdefault(_root(narrows), []).append(statement)
            if isinstance(statement, _LEAVES):
                self._leaving.append(statement)
            if not isinstance(statement, _FUNCTIONS):
                for inner in _blocks(statement):
                    self._collect(inner, (*parents, statement))

    def _bind_names(self, statement: ast.stmt, binds: set[str]) -> None:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            binds.add(statement.name)
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            names = [alias.asname or alias.name.partition(".")[0] for alias in statement.names]
            binds.update(names)
            if "*" in names:
                self._starred.append(statement)
        elif hasattr(statement, "handlers"):
            binds.update(handler.name for handler in statement.handlers if handler.name)
        elif isinstance(statement, ast.Match):
            patterns = (inner for case in statement.cases for inner in subtree(case.pattern))
            names_of = (getattr(inner, "name", None) or getattr(inner, "rest", None) for inner in patterns)
            binds.update(name for name in names_of if isinstance(name, str))

    # -- what a value rests on -------------------------------------------------------------------------------------

    def _close_parts(self, statement: ast.stmt, nodes: tuple[ast.expr, ...]) -> Slice:
        reads: set[str] = set()
        for node in nodes:
            _read(node, reads, set(), self._own_holders)
        part = self._close([], list(reads), [statement])
        part.at, part.asked = statement, nodes
        return part

    def _close(self, statements: list[ast.stmt], paths: list[str], leaves: Iterable[ast.stmt] = ()) -> Slice:
        run: set[ast.stmt] = set()
        entered: set[ast.stmt] = set()
        read: set[str] = set()
        pending = list(statements)
        asked = [*paths]

        def enter(statement: ast.stmt) -> None:
            for parent in self._effects[statement].parents:
                if parent in entered:
                    continue
                entered.add(parent)
                if self._effects[parent].narrows is not None or _may_place(parent):
                    pending.append(parent)
                # A path that leaves takes what it has bound with it.
                for leave in self._leaving:
                    of_loop = isinstance(leave, (ast.Break, ast.Continue))
                    if parent in self._effects[leave].parents and (isinstance(parent, _LOOPS) or not of_loop):
                        enter(leave)

        for leave in leaves:
            enter(leave)
        while pending or asked:
            if pending:
                statement = pending.pop()
                if statement not in run:
                    run.add(statement)
                    enter(statement)
                    asked += self._effects[statement].reads
                continue
            path = asked.pop()
            if path in read:
                continue
            read.add(path)
            pending += self._starred
            pending += self._changing(path)
            for branch in self._narrowing.get(_root(path), ()):
                # What is known of a value behind the branch rests on whether the branch leaves.
                leaves = [leave for leave in self._leaving if branch in self._effects[leave].parents]
                if leaves and _related(self._effects[branch].narrows or "", path):
                    pending.append(branch)
                    for leave in leaves:
                        enter(leave)
        return Slice(frozenset(run), frozenset(entered), frozenset(map(_root, read)))

    def _changing(self, path: str) -> list[ast.stmt]:
        """The statements that may change what is found at the path: by the path itself, a part, or what holds it."""
        known = self._changing_path.get(path)
        if known is None:
            within = "" if path == self._function.self_name else f"{path}."
            known = self._changing_path[path] = [
                each
                for each in self._binding.get(_root(path), ())
                for bound in self._effects[each].binds
                if bound == path or path.startswith(f"{bound}.") or (within and bound.startswith(within))
            ]
        return known


def _is_tried(place: Place) -> bool:
    """In the body of a `try:` or of an `if TYPE_CHECKING:`: what this imports is what the name is meant to be."""
    parent = place.parent
    return place.field == "body" and (isinstance(parent, ast.Try) or is_for_type_checkers(parent))


def is_for_type_checkers(statement: ast.stmt | None) -> bool:
    """`if TYPE_CHECKING:`: what it imports is what the other branch finds at run time, if it can."""
    return isinstance(statement, ast.If) and (dotted(statement.test) or "").rpartition(".")[2] == "TYPE_CHECKING"


def _related(one: str, other: str) -> bool:
    return one == other or one.startswith(other + ".") or other.startswith(one + ".")


def _root(path: str) -> str:
    return path.partition(".")[0]


def _begins(statement: ast.stmt) -> tuple[int, int]:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    first = min(((each.lineno, each.col_offset) for each in decorators), default=None)
    return first or (statement.lineno, statement.col_offset)


def _own(statement: ast.stmt) -> Iterator[ast.AST]:
    """The parts of a statement that are run before (or instead of) the statements in it."""
    if isinstance(statement, _FUNCTIONS):
        yield from statement.decorator_list
        yield from (each for each in (*statement.args.defaults, *statement.args.kw_defaults) if each is not None)
        return
    for child in children(statement):
        if isinstance(child, (ast.expr, ast.withitem, ast.keyword)):
            yield child
        elif isinstance(child, ast.ExceptHandler) and child.type is not None:
            yield child.type
        elif isinstance(child, ast.match_case) and child.guard is not None:
            yield child.guard


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for field in ("body", "orelse", "finalbody"):
        block = getattr(statement, field, None)
        if block:
            yield block
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def _holders(block: list[ast.stmt]) -> Iterator[str]:
    """The names that statements of the block give a list or dict made there."""
    for statement in block:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                pairs = [(target, statement.value)]
                if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
                    pairs = list(zip(target.elts, statement.value.elts, strict=False))
                for name, made in pairs:
                    is_made = isinstance(made, (ast.List, ast.Dict, ast.ListComp, ast.DictComp)) or (
                        isinstance(made, ast.Call) and last_name(made.func) in _MAKE_HOLDERS
                    )
                    if is_made and isinstance(name, ast.Name):
                        yield name.id
        elif not isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
            for inner in _blocks(statement):
                yield from _holders(inner)


def _read(part: ast.AST, reads: set[str], binds: set[str], holders: set[str]) -> None:
    pending = [part]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in _BUILTINS):
            binds.update(given.id for given in node.args if isinstance(given, ast.Name) and given.id in holders)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGE_RECEIVER:
            changed = node.func.value
            while isinstance(changed, ast.Subscript) and node.func.attr in GROWERS:
                changed = changed.value
            receiver = dotted(changed)
            if receiver is not None:
                binds.add(receiver)
        if isinstance(node, (ast.Name, ast.Attribute)):
            path = dotted(node)
            if path is not None:
                if not isinstance(node.ctx, ast.Load):
                    binds.add(path)
                reads.add(path)
                if isinstance(node, ast.Attribute) and node.attr in TENSOR_ONLY_METHODS:
                    binds.add(path.rpartition(".")[0])
                continue
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            holder = dotted(node.value)
            if holder is not None:
                binds.add(holder)
        pending += children(node)


def _narrowed_path(test: ast.expr) -> str | None:
    """`x` of a test such as `isinstance(x, T)`, which tells what `x` is behind it."""
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    return dotted(test.args[0]) if isinstance(test, ast.Call) and test.args else None


def _may_place(statement: ast.stmt) -> bool:
    """`with device:`, `with torch.device(...):`: what is built inside is built there."""
    if not isinstance(statement, (ast.With, ast.AsyncWith)):
        return False
    made = (item.context_expr for item in statement.items)
    return any(not isinstance(each, ast.Call) or last_name(each.func) not in _PLACE_NOTHING for each in made)
