"""Branches that only the first pass enters: what they bind makes their test fail from then on.

`if preds is None: preds = ...`, `if not hasattr(self, "queue"): self.queue = ...`, `if key not in cache: ...`, also by
way of a method that is called there. What is set anew within the pass, or by other code that may run in every step, is
no such guard.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from torchperf_lint.model.index import FunctionInfo, dotted, last_name, names_in
from torchperf_lint.model.running.loops import Loop, LoopKind
from torchperf_lint.model.running.slots import Slot, State, asked, changes_in, is_empty, keeps, settles
from torchperf_lint.model.running.terms import given_for
from torchperf_lint.model.running.throttles import throttles
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model.index import Index
    from torchperf_lint.model.running.heat import HeatMap
    from torchperf_lint.model.running.slots import Change

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_WITHS = (ast.With, ast.AsyncWith)
_CACHE = re.compile(r"cache|memo|lazy|lookup", re.IGNORECASE)
_STEADY = frozenset("items keys parameters named_parameters modules named_modules range".split())
MOST_CALLS = 2
"""How many calls into methods are followed for what they bind."""


class FirstPass:
    """One branch, or what stands behind an `if` that leaves: `block` is what runs where the test lets it."""

    def __init__(self, heats: HeatMap, at: ast.stmt, block: list[ast.stmt]) -> None:
        """`at` is the statement with the test."""
        self._heats = heats
        self._at = at
        self._block = block
        self._index: Index = heats.world.index
        self._function: FunctionInfo = self._index.places[at].function

    def alone_enters(self, test: ast.expr, taken: bool) -> bool:
        """Whether only the first pass finds the test true (or false, if not `taken`)."""
        slots = asked(test, taken)
        if not slots:
            return False
        loop = self._hot_loop()
        if any(_counts_passes(slot, loop) for slot in slots):
            return True
        return any(self._lasts(self._refined(slot), loop) for slot in slots)

    def _hot_loop(self) -> Loop | None:
        current: ast.stmt | None = self._at
        while current is not None:
            place = self._index.places[current]
            parent = place.parent
            is_loop = isinstance(parent, _LOOPS) and place.field == "body"
            if is_loop and self._heats.loops.classify(parent, self._function).kind is LoopKind.BATCH:  # type: ignore[arg-type]
                return parent  # type: ignore[return-value]
            current = parent
        return None

    def _refined(self, slot: Slot) -> Slot:
        """`not x` of what is None at first, or an empty container, as the program binds it elsewhere."""
        if slot.state is not State.FALSE or slot.key is not None:
            return slot
        bound = [change.value for change in self._changes_anywhere(slot) if change.how == "=" and change.key is None]
        if any(isinstance(value, ast.Constant) and value.value is None for value in bound):
            return slot._replace(state=State.NONE)
        is_container = any(
            value is not None and not isinstance(value, ast.Constant) and is_empty(value) for value in bound
        )
        return slot._replace(state=State.EMPTY) if is_container else slot

    def _lasts(self, slot: Slot, loop: Loop | None) -> bool:
        """Whether the branch ends the state that lets it be entered, and nothing brings that back in a later step."""
        if slot.key is not None and not self._comes_again(slot, loop):
            return False
        settling = set(self._settling(self._block, slot, self._function, MOST_CALLS))
        if slot.state is State.EQUAL:
            settling |= self._counting(slot, self._function.body if loop is None else loop.body)
        return bool(settling) and self._outlives_pass(slot, loop) and not self._comes_back(slot, loop, settling)

    @staticmethod
    def _counting(slot: Slot, block: list[ast.stmt]) -> set[ast.stmt]:
        """The statements that add a number to the slot in every pass: `n += 1`."""
        added = (change for each in block if isinstance(each, ast.AugAssign) for change in changes_in(each))
        return {
            change.statement for change in added if isinstance(change.value, ast.Constant) and settles(change, slot)
        }

    # -- what ends the state ---------------------------------------------------------------------------------------

    def _settling(self, block: list[ast.stmt], slot: Slot, function: FunctionInfo, calls: int) -> Iterator[ast.stmt]:
        """The statements of a block that end the state whatever else happens."""
        for statement in block:
            if isinstance(statement, (*_WITHS, ast.Try)):
                yield from self._settling(statement.body, slot, function, calls)
            elif isinstance(statement, ast.If):
                taken = list(self._settling(statement.body, slot, function, calls))
                other = list(self._settling(statement.orelse, slot, function, calls))
                if taken and other:
                    yield from (*taken, *other)
            elif not isinstance(statement, _LOOPS):
                is_settled = any(settles(change, slot) for change in changes_in(statement))
                if is_settled or (calls and self._settled_in_call(statement, slot, function, calls)):
                    yield statement

    def _settled_in_call(self, statement: ast.stmt, slot: Slot, function: FunctionInfo, calls: int) -> bool:
        """Whether a method of the same object that the statement calls ends the state."""
        owner = function.self_name
        if (
            owner is None
            or slot.root != owner
            or function.cls is None
            or not isinstance(statement, (ast.Expr, ast.Assign))
        ):
            return False
        call = statement.value
        if (
            not isinstance(call, ast.Call)
            or not isinstance(call.func, ast.Attribute)
            or dotted(call.func.value) != owner
        ):
            return False
        method = self._heats.world.method(function.cls, call.func.attr)
        if method is None or method.self_name is None:
            return False
        key = slot.key
        if key is not None:
            given = {name: given_for(method, call, name) for name in method.parameter_names}
            asked_for = ast.unparse(key)
            same = (name for name, value in given.items() if value is not None and ast.unparse(value) == asked_for)
            key = next((ast.Name(name) for name in same), None)
            if key is None:
                return False
        there = slot._replace(path=method.self_name + slot.path[len(owner) :], key=key)
        return any(True for _ in self._settling(method.body, there, method, calls - 1))

    # -- what brings it back ---------------------------------------------------------------------------------------

    def _outlives_pass(self, slot: Slot, loop: Loop | None) -> bool:
        """Whether the next step finds the same object under the slot's first name."""
        if slot.root == self._function.self_name:
            init = None if self._function.cls is None else self._heats.world.method(self._function.cls, "__init__")
            return init is None or not self._heats.home(init).may_be_hot(init.body[0])
        if loop is not None or not self._is_local(slot.root):
            return True
        bound = [change for change in self._changes_anywhere(slot) if change.path == slot.root]
        return bool(bound) and all(self._takes_from_self(change, slot) for change in bound)

    def _takes_from_self(self, change: Change, slot: Slot) -> bool:
        """`state = self.state[p]`: what is put into it stays with the object."""
        node = change.value
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        is_held = slot.key is not None or slot.state is State.EMPTY or change.path != slot.path
        return is_held and isinstance(node, ast.Name) and node.id == self._function.self_name

    def _is_local(self, name: str) -> bool:
        is_own = name == self._function.self_name or name in self._index.rebound_elsewhere
        return not is_own and name in self._index.bound_names(self._function)

    def _comes_back(self, slot: Slot, loop: Loop | None, settling: set[ast.stmt]) -> bool:
        own = set(self._function.statements)
        behind = self._at.lineno
        for change in self._changes_anywhere(slot):
            statement = change.statement
            if statement in settling or statement is self._at:
                continue
            is_here = statement in own
            if keeps(change, slot, not is_here or statement.lineno > behind) or self._takes_from_self(change, slot):
                continue
            if not is_here:
                if not self._is_local(slot.root) and self._heats.home(self._owner(change)).may_be_hot(statement):
                    return True
            elif (loop is None or self._is_in(statement, loop)) and not self._is_rare(statement, loop):
                return True
        return False

    def _changes_anywhere(self, slot: Slot) -> Iterator[Change]:
        """What changes the slot, or what holds it: in this file by its name, in others of the project by its class."""
        by_name = self._index.note("changes", lambda: _changes_by_name(self._index))
        names = slot.path.split(".")
        for count in range(1 if len(names) == 1 or names[0] != self._function.self_name else 2, len(names) + 1):
            path = ".".join(names[:count])
            for change in by_name.get(names[count - 1], ()):
                here = self._index.places[change.statement].function is self._function
                if change.path == path if here or count == 1 else "." in change.path:
                    yield change if here else change._replace(path=path)
        cls = self._function.cls
        if cls is None or names[0] != self._function.self_name or len(names) == 1:
            return
        for owner in self._heats.world.lineage(cls):
            if owner.index is not self._index:
                by_name = owner.index.note("changes", lambda: _changes_by_name(owner.index))  # noqa: B023
                for change in by_name.get(slot.attribute, ()):
                    if "." in change.path:
                        yield change._replace(path=slot.path)

    def _owner(self, change: Change) -> FunctionInfo:
        """The function that the change stands in."""
        place = self._index.places.get(change.statement)
        if place is not None:
            return place.function
        cls = self._function.cls
        assert cls is not None
        indexes = (owner.index for owner in self._heats.world.lineage(cls))
        return next(index.places[change.statement].function for index in indexes if change.statement in index.places)

    def _is_in(self, statement: ast.stmt, loop: Loop) -> bool:
        current: ast.stmt | None = statement
        while current is not None and current is not loop:
            current = self._index.places[current].parent
        return current is loop

    def _is_rare(self, statement: ast.stmt, loop: Loop | None) -> bool:
        """Whether a throttle lets the statement run now and then only."""
        current = statement
        while (parent := self._index.places[current].parent) is not loop and parent is not None:
            field = self._index.places[current].field
            bound = lambda name: self._heats.bindings(self._function, name)  # noqa: E731
            if isinstance(parent, ast.If) and throttles(parent.test, field == "body", bound):
                return True
            current = parent
        return False

    def _comes_again(self, slot: Slot, loop: Loop | None) -> bool:
        """Whether later steps ask for the entry again: a literal, the name of a layer; or it is a cache."""
        assert slot.key is not None
        if _CACHE.search(slot.path):
            return True
        return all(self._is_steady(node.id, loop) for node in subtree(slot.key) if isinstance(node, ast.Name))

    def _is_steady(self, name: str, loop: Loop | None) -> bool:
        """Whether a name stands for few things, which do not come from the batch."""
        if not self._is_local(name):
            return True
        if loop is None or name in self._function.parameter_names:
            return False
        fresh = set(names_in(loop.target)) if not isinstance(loop, ast.While) else set()
        for change in self._index.note("changes", lambda: _changes_by_name(self._index)).get(name, ()):
            statement = change.statement
            if self._index.places[statement].function is not self._function or not self._is_in(statement, loop):
                continue
            if statement is loop or not isinstance(statement, (ast.For, ast.AsyncFor)):
                return False
            walked = statement.iter
            called = last_name(walked.func) if isinstance(walked, ast.Call) else None
            is_key = isinstance(statement.target, ast.Name) or called == "items"
            if not (called in _STEADY and is_key) and not fresh.isdisjoint(names_in(walked)):
                return False
        return True


def _changes_by_name(index: Index) -> dict[str, list[Change]]:
    """What the statements of a file change, by the last name of the path."""
    found: dict[str, list[Change]] = {}
    for statement in index.places:
        for change in changes_in(statement):
            found.setdefault(change.path.rpartition(".")[2], []).append(change)
    return found


def _counts_passes(slot: Slot, loop: Loop | None) -> bool:
    """Whether the slot is the loop's own counter, asked for one value: `for n, x in enumerate(...)`, `if n == 0`."""
    if slot.state is not State.EQUAL or isinstance(loop, ast.While) or loop is None:
        return False
    is_counted = isinstance(loop.iter, ast.Call) and last_name(loop.iter.func) == "enumerate"
    first = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) else None
    return is_counted and first is not None and dotted(first) == slot.path
