"""Backward slices: the statements of a function on which a value depends; the others need not be interpreted for it."""

from __future__ import annotations

import ast
import bisect
import functools
import operator
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.model.syntax import bulk_moves
from torchperf_lint.model.syntax.effects import (
    FUNCTIONS,
    blocks,
    holders,
    may_place,
    narrowed_paths,
    own_parts,
    read,
)
from torchperf_lint.model.syntax.index import dotted
from torchperf_lint.syntax.tree import COMPREHENSIONS, TakenApart, subtree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from torchperf_lint.model.syntax.index import FunctionInfo, Place

_LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return)
_SCOPES = (*COMPREHENSIONS, ast.Lambda)
_DEFINE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
_IMPORTS = (ast.Import, ast.ImportFrom)


def slices_of(function: FunctionInfo) -> Slices:
    """The slices of a function."""
    reads = function.index.reads
    return function.index.note(("slices", function), lambda: reads.unheard(lambda: Slices(function)))


class Slice:
    """A slice: statements to interpret in full, and compound statements to enter for what they contain.

    `names` are the names that the slice reads, parameters included; `asked` are expressions that are evaluated when the
    statement `at` is reached, which itself need not be interpreted. Equal slices of a function are one object.
    """

    __slots__ = ("_all", "_steps", "asked", "at", "entered", "names", "run")

    def __init__(
        self, slices: Slices, run: frozenset[ast.stmt], entered: frozenset[ast.stmt], names: frozenset[str]
    ) -> None:
        self._all = slices
        self.run = run
        self.entered = entered
        self.names = names
        self.at: ast.stmt | None = None
        self.asked: tuple[ast.expr, ...] = ()
        self._steps: dict[int, list[ast.stmt]] | None = None

    @property
    def place(self) -> list[tuple[int, int]]:
        """Where its statements and expressions begin: plain data that tells it from others of its function."""
        where: list[ast.stmt | ast.expr] = [*self.run, *([] if self.at is None else [self.at]), *self.asked]
        return sorted((each.lineno, each.col_offset) for each in where)

    def contains(self, other: Slice) -> bool:
        """Whether all that the other slice interprets, enters and evaluates is part of this one."""
        reached = self.run | self.entered
        return (
            self.run >= other.run
            and reached >= other.entered
            and (other.at is None or other.at in self.run)
            and self.names >= other.names
        )

    def steps(self, block: list[ast.stmt]) -> list[ast.stmt]:
        """The statements of a block that are interpreted or entered, and those that leave the block."""
        if self._steps is None:
            reached = self.run | self.entered
            self._steps = self._all.by_block(reached if self.at is None else reached | {self.at})
        steps = self._steps.get(id(block))
        return self._all.leaving(block) if steps is None else steps


class _Effect(NamedTuple):
    """The dotted paths that a statement (of a compound one, its head) reads, and those that it binds or changes."""

    parents: tuple[ast.stmt, ...]
    reads: frozenset[str]
    binds: frozenset[str]
    narrows: tuple[str, ...]


class _Needs(NamedTuple):
    """Statements to interpret and statements to enter, by number, and names that are read, by number.

    Each is a bit set in an int.
    """

    run: int = 0
    entered: int = 0
    names: int = 0


class Slices(TakenApart):
    """The slices of one function, computed on demand."""

    def __init__(self, function: FunctionInfo) -> None:
        self._function = function
        self._index = function.index if function.is_module else None  # of a module, only what is looked up is read
        self._effects: dict[ast.stmt, _Effect] = {}
        self._binding: dict[str, list[ast.stmt]] = {}  # by the first name of the path
        self._changing_path: dict[str, list[ast.stmt]] = {}
        self._narrowing: dict[str, list[ast.stmt]] = {}
        self._starred: list[ast.stmt] = []
        self._leaving: list[ast.stmt] = []
        self._block_of: dict[ast.stmt, int] = {}  # ids of blocks are unique while the tree is alive
        self._leaving_block: dict[int, list[ast.stmt]] = {}
        self._taken_along: dict[ast.stmt, list[ast.stmt]] = {}  # nested statements that leave it and skip what follows
        self._known_direct: dict[int, _Needs] = {}
        self._known_within: dict[ast.stmt, _Needs] = {}
        self._known_behind: dict[str, _Needs] = {}
        self._closed: dict[ast.stmt | str | None, _Needs] = {}
        self._known_statements: dict[int, frozenset[ast.stmt]] = {}
        self._known_names: dict[int, frozenset[str]] = {}
        self._roots: dict[str, int] = {}
        self._names: list[str] = []  # by their number in `_roots`
        self._own_holders = set(holders(function.body))
        self._in_scopes: dict[ast.stmt, set[ast.AST]] = {}
        self._known: dict[object, Slice] = {}
        self._same: dict[object, Slice] = {}
        self._collect(function.body, ())
        self._all = list(self._effects)
        self._numbers = {statement: number for number, statement in enumerate(self._all)}
        self._in_order = sorted(self._effects, key=_begins)
        self._beginnings = [_begins(statement) for statement in self._in_order]

    # -- questions -------------------------------------------------------------------------------------------------

    def of(self, node: ast.expr) -> Slice | None:
        """The slice of an expression in the function; None if it is not found there."""
        statement = self._statement_of(node)
        return None if statement is None else self.of_statement(statement)

    def of_statement(self, statement: ast.stmt) -> Slice:
        """The slice of all expressions in a statement, without those of nested statements."""
        return self._remember(statement, lambda: self._close([statement], []))

    def of_parts(self, statement: ast.stmt, nodes: tuple[ast.expr, ...]) -> Slice:
        """The slice of some expressions in a statement, independent of the statement's other parts."""
        if not isinstance(statement, _SIMPLE) or self._are_in_scopes(statement, nodes):
            return self.of_statement(statement)
        return self._remember((statement, *nodes), lambda: self._close_parts(statement, nodes))

    def _are_in_scopes(self, statement: ast.stmt, nodes: tuple[ast.expr, ...]) -> bool:
        """Whether one of the expressions is in a comprehension or lambda, which may bind its names."""
        inside = self._in_scopes.get(statement)
        if inside is None:
            scopes = (each for part in own_parts(statement) for each in subtree(part) if isinstance(each, _SCOPES))
            inside = self._in_scopes[statement] = {each for scope in scopes for each in subtree(scope)}
        return not inside.isdisjoint(nodes)

    @property
    def size(self) -> int:
        """The number of statements in the function."""
        return len(self._effects)

    def may_bind(self, name: str) -> bool:
        """Whether a statement of the function, or a parameter, may bind the name (or path)."""
        self._read(name)
        return _root(name) in self._binding or bool(self._starred) or name in self._function.parameter_names

    def _read(self, path: str) -> None:
        """Note that what the module does with the name at the root of the path is read."""
        if self._index is not None:
            self._index.reads.binds("*")
            self._index.reads.binds(_root(path))
            self._index.reads.runs(_root(path))

    def _reads(self, found: Slice) -> Slice:
        if self._index is not None:
            self._index.reads.kind("Raise")
            for name in found.names:
                self._read(name)
        return found

    def definition(self, name: str) -> ast.stmt | None:
        """The only statement of a module that binds the name, if it is a definition or an import.

        It is at the top level; an import may also be in a `try:`, or be for type checkers.
        """
        self._read(name)
        binding = self._binding.get(name, ())
        if len(binding) != 1 or self._starred or not isinstance(binding[0], _DEFINE):
            return None
        place = self._function.index.places[binding[0]]
        while place.parent is not None and isinstance(binding[0], _IMPORTS) and _is_tried(place):
            place = self._function.index.places[place.parent]
        return binding[0] if place.parent is None else None

    def is_from_outside(self, node: ast.expr) -> bool:
        """Whether it is a name, or an attribute of one, that nothing in the function binds or changes.

        A method's `self` comes from outside too.
        """
        path = dotted(node)
        root = _root(path or "")
        self._read(root)
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
        """Whether several statements bind or change the value at the path."""
        self._read(path)
        return sum(path in self._effects[each].binds for each in self._binding.get(_root(path), ())) > 1

    def at_end(self, name: str) -> Slice:
        """The slice of a name's value at the end of the function."""
        return self._remember(name, lambda: self._close([], [name], self._returns()))

    def of_results(self) -> Slice:
        """The slice of what the function returns and yields; it has no statements if there is nothing of that."""
        return self._remember(None, lambda: self._close(list(self._giving()), []))

    def of_filling(self) -> Slice:
        """The slice of what the function puts into lists and dicts among its arguments; empty if it changes none."""
        names = [name for name in self._function.parameter_names if name in self._binding]
        return self._remember((), lambda: self._close([], names, self._returns()) if names else self._close([], []))

    def _returns(self) -> list[ast.stmt]:
        return [each for each in self._leaving if isinstance(each, ast.Return)]

    def by_block(self, statements: Iterable[ast.stmt]) -> dict[int, list[ast.stmt]]:
        """The statements, and those that leave their blocks, by the blocks' ids, each block in order."""
        parts: dict[int, set[ast.stmt]] = {}
        for statement in statements:
            block = self._block_of[statement]
            found = parts.get(block)
            if found is None:
                found = parts[block] = set(self._leaving_block.get(block, ()))
            found.add(statement)
        return {block: sorted(found, key=self._numbers.__getitem__) for block, found in parts.items()}

    def leaving(self, block: list[ast.stmt]) -> list[ast.stmt]:
        """The statements that leave the block."""
        return self._leaving_block.get(id(block), [])

    def may_be_filled(self, name: str) -> bool:
        """Whether the name may be a list or dict of the function's own, to which others add."""
        return name in self._own_holders

    def _giving(self) -> Iterator[ast.stmt]:
        for statement in self._effects:
            if isinstance(statement, ast.Return):
                if statement.value is not None:
                    yield statement
            elif self._function.is_generator and any(
                isinstance(inner, (ast.Yield, ast.YieldFrom))
                for part in own_parts(statement)
                for inner in subtree(part)
            ):
                yield statement

    def _remember(self, question: object, close: Callable[[], Slice]) -> Slice:
        known = self._known.get(question)
        if known is None:
            found = close()
            same = (found.run, found.entered, found.names, found.at, found.asked)
            known = self._known[question] = self._same.setdefault(same, found)
        return self._reads(known)

    def _statement_of(self, node: ast.expr) -> ast.stmt | None:
        """The innermost statement of the function that contains the node, by position."""
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
            for part in own_parts(statement):
                read(part, reads, binds, self._own_holders)
            self._bind_names(statement, binds)
            binds.update(bulk_moves.paths_moved(self._function, statement, parents))
            narrows = narrowed_paths(statement.test) if isinstance(statement, ast.If) else ()
            self._block_of[statement] = id(block)
            self._effects[statement] = _Effect(parents, frozenset(reads), frozenset(binds), narrows)
            for path in binds:
                self._binding.setdefault(_root(path), []).append(statement)
            for root in dict.fromkeys(map(_root, narrows)):
                self._narrowing.setdefault(root, []).append(statement)
            if isinstance(statement, _LEAVES):
                self._leaving.append(statement)
                self._leaving_block.setdefault(id(block), []).append(statement)
                of_loop = isinstance(statement, (ast.Break, ast.Continue))
                for parent in parents:
                    if isinstance(parent, _LOOPS) or not of_loop:
                        self._taken_along.setdefault(parent, []).append(statement)
            if not isinstance(statement, FUNCTIONS):
                for inner in blocks(statement):
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

    # -- what a value depends on -----------------------------------------------------------------------------------

    def _close_parts(self, statement: ast.stmt, nodes: tuple[ast.expr, ...]) -> Slice:
        reads: set[str] = set()
        for node in nodes:
            read(node, reads, set(), self._own_holders)
        part = self._close([], reads, [statement])
        part.at, part.asked = statement, nodes
        return part

    def _close(self, statements: Iterable[ast.stmt], paths: Iterable[str], reached: Iterable[ast.stmt] = ()) -> Slice:
        """The slice that interprets these statements, provides the values at the paths, and reaches statements."""
        parts = [
            *(self._closure(each, _Needs(self._bit(each))) for each in statements),
            *(self._closure(each, self._behind(each)) for each in paths),
            *(self._closure(None, self._around(each)) for each in reached),
        ]
        run, entered, names = (functools.reduce(operator.or_, bits, 0) for bits in zip(_Needs(), *parts, strict=True))
        return Slice(self, self._statements_in(run), self._statements_in(entered), self._names_in(names))

    def _closure(self, question: ast.stmt | str | None, begin: _Needs) -> _Needs:
        """The transitive closure of `begin`; memoized under the key, if there is one."""
        known = self._closed.get(question)
        if known is None:
            pending, entered, names = begin
            run = 0
            while pending:
                number = pending.bit_length() - 1
                needs = self._direct(number)
                run |= 1 << number
                entered |= needs.entered
                names |= needs.names
                pending = (pending | needs.run) & ~run
            known = _Needs(run, entered, names)
            if question is not None:
                self._closed[question] = known
        return known

    def _direct(self, number: int) -> _Needs:
        """The direct dependencies of a statement that is interpreted."""
        known = self._known_direct.get(number)
        if known is None:
            statement = self._all[number]
            run, entered, names = self._around(statement)
            for path in self._effects[statement].reads:
                needs = self._behind(path)
                run |= needs.run
                entered |= needs.entered
                names |= needs.names
            known = self._known_direct[number] = _Needs(run, entered, names)
        return known

    def _around(self, statement: ast.stmt) -> _Needs:
        """The direct dependencies of a statement that is reached."""
        run = entered = 0
        for parent in self._effects[statement].parents:
            needs = self._within(parent)
            run |= needs.run
            entered |= needs.entered
        return _Needs(run, entered)

    def _within(self, parent: ast.stmt) -> _Needs:
        """What a compound statement that is entered depends on, without the statements around it."""
        known = self._known_within.get(parent)
        if known is None:
            entered = self._bit(parent)
            run = entered if self._effects[parent].narrows or may_place(parent) else 0
            # A path that leaves does not merge its bindings behind the statement.
            for leave in self._taken_along.get(parent, ()):
                parents = self._effects[leave].parents
                for inner in parents[parents.index(parent) + 1 :]:
                    if not entered & self._bit(inner):
                        needs = self._within(inner)
                        run |= needs.run
                        entered |= needs.entered
            known = self._known_within[parent] = _Needs(run, entered)
        return known

    def _behind(self, path: str) -> _Needs:
        """The direct dependencies of the value at the path; `super()` rests on the method's own object."""
        path = self._function.self_name or path if path == "super" else path
        known = self._known_behind.get(path)
        if known is None:
            root = _root(path)
            run = entered = 0
            for each in (*self._starred, *self._changing(path)):
                run |= self._bit(each)
            for branch in self._narrowing.get(root, ()):
                # Whether a type test narrows the value behind the branch depends on whether the branch leaves.
                leaves = [leave for leave in self._leaving if branch in self._effects[leave].parents]
                if leaves and any(_related(each, path) for each in self._effects[branch].narrows):
                    for needs in map(self._around, leaves):
                        run |= needs.run
                        entered |= needs.entered
            if root not in self._roots:
                self._roots[root] = len(self._names)
                self._names.append(root)
            name = 1 << self._roots[root]
            known = self._known_behind[path] = _Needs(run, entered, name)
        return known

    def _bit(self, statement: ast.stmt) -> int:
        return 1 << self._numbers[statement]

    def _statements_in(self, bits: int) -> frozenset[ast.stmt]:
        known = self._known_statements.get(bits)
        if known is None:
            known = self._known_statements[bits] = frozenset(map(self._all.__getitem__, _numbers_in(bits)))
        return known

    def _names_in(self, bits: int) -> frozenset[str]:
        known = self._known_names.get(bits)
        if known is None:
            known = self._known_names[bits] = frozenset(map(self._names.__getitem__, _numbers_in(bits)))
        return known

    def _changing(self, path: str) -> list[ast.stmt]:
        """The statements that may change the value at the path: by the path itself, by a part, or by its owner."""
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


def _numbers_in(bits: int) -> Iterator[int]:
    while bits:
        number = bits.bit_length() - 1
        yield number
        bits ^= 1 << number


def _is_tried(place: Place) -> bool:
    """Whether it is in the body of a `try:` or `if TYPE_CHECKING:`: what this imports is the intended meaning."""
    parent = place.parent
    return place.field == "body" and (isinstance(parent, ast.Try) or is_for_type_checkers(parent))


def is_for_type_checkers(statement: ast.stmt | None) -> bool:
    """`if TYPE_CHECKING:`: its imports show what the other branch provides at run time."""
    return isinstance(statement, ast.If) and (dotted(statement.test) or "").rpartition(".")[2] == "TYPE_CHECKING"


def _related(one: str, other: str) -> bool:
    return one == other or one.startswith(other + ".") or other.startswith(one + ".")


def _root(path: str) -> str:
    return path.partition(".")[0]


def _begins(statement: ast.stmt) -> tuple[int, int]:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    first = min(((each.lineno, each.col_offset) for each in decorators), default=None)
    return first or (statement.lineno, statement.col_offset)
