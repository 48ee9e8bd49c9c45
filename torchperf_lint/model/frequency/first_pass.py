"""Branches that only the first pass enters, because what they bind makes their test fail afterwards.

`if preds is None: preds = ...`, `if not hasattr(self, "queue"): self.queue = ...`, `if key not in cache: ...`, also
through a method that is called there. A slot that is reset within the pass, or by other code that may run in every
step, is no such guard.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from torchperf_lint.model import bounds
from torchperf_lint.model.callgraph import calling, implicit
from torchperf_lint.model.domain.frequency import Loop, LoopKind
from torchperf_lint.model.frequency.sampling_guards import is_sampling_guard
from torchperf_lint.model.frequency.shared_loops import may_share_loop
from torchperf_lint.model.syntax.arguments import given_for
from torchperf_lint.model.syntax.index import FunctionInfo, dotted, last_name, names_in
from torchperf_lint.model.syntax.slots import (
    ANY,
    Slot,
    State,
    asked,
    changes_in,
    entry,
    is_empty,
    is_extent,
    keeps,
    restores,
    settles,
)
from torchperf_lint.syntax.tree import children, subtree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchperf_lint.model.domain.interfaces import FrequencyQuestions
    from torchperf_lint.model.syntax.index import Index
    from torchperf_lint.model.syntax.reads import ByName
    from torchperf_lint.model.syntax.slots import Change

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_WITHS = (ast.With, ast.AsyncWith)
_CACHE = re.compile(r"cache|memo|lazy|lookup", re.IGNORECASE)
_SELDOM = re.compile(r"epoch|^__(init|new|post_init|setstate)__$")
_STEADY = frozenset("items keys parameters named_parameters modules named_modules range".split())


class FirstPass:
    """One branch, or the code after an `if` that jumps: `block` runs if the test allows it."""

    def __init__(self, frequency: FrequencyQuestions, at: ast.stmt, block: list[ast.stmt]) -> None:
        """`at` is the statement with the test."""
        self._frequency = frequency
        self._at = at
        self._block = block
        self._index: Index = frequency.inference.index
        self._function: FunctionInfo = self._index.places[at].function

    def alone_enters(self, test: ast.expr, taken: bool) -> bool:
        """Whether only the first pass finds the test true (or false, if not `taken`)."""
        slots = [*(found := asked(test, taken)), *self._looked_up(found)]
        if not slots:
            return False
        if any(self._is_lazy(slot) for slot in slots):
            return True
        loop = self._hot_loop()
        if any(_counts_passes(slot, loop) for slot in slots):
            return True
        return any(self._lasts(self._refined(slot), loop) for slot in slots)

    def _looked_up(self, slots: list[Slot]) -> Iterator[Slot]:
        """The entry that a tested name holds: `x = cache.get(key)` before `if x is None`."""
        place = self._index.places[self._at]
        for slot in slots:
            before = (change for each in reversed(place.block[: place.position]) for change in changes_in(each))
            bound = next((change for change in before if change.path == slot.path), None)
            if slot.state is State.NONE and slot.key is None and bound is not None and bound.value is not None:
                yield from (each for each in entry(bound.value, State.NONE) if each.key is not None)

    def _is_lazy(self, slot: Slot) -> bool:
        """Whether it is how a property computes what it returns: `if self._x is None: ...` before `return self._x`."""
        if not implicit.is_property(self._function) or slot.state not in (State.NONE, State.MISSING) or slot.key:
            return False
        given = [each.value for each in self._function.statements if isinstance(each, ast.Return)]
        return any(each is not None and dotted(each) == slot.path for each in given)

    def _hot_loop(self) -> Loop | None:
        current: ast.stmt | None = self._at
        while current is not None:
            place = self._index.places[current]
            parent = place.parent
            is_loop = isinstance(parent, _LOOPS) and place.field == "body"
            if is_loop and self._frequency.loops.classify(parent, self._function).kind is LoopKind.BATCH:  # type: ignore[arg-type]
                return parent  # type: ignore[return-value]
            current = parent
        return None

    def _refined(self, slot: Slot) -> Slot:
        """The slot of `not x`, refined to None or an empty container if the program binds it to that elsewhere."""
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
        """Whether the branch ends the state that its test needs, and nothing restores that state in a later step."""
        if slot.key is not None and not self._comes_again(slot, loop):
            return False
        settling = set(self._settling(self._block, slot, self._function, bounds.MOST_CALLS_TO_BINDING))
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
        """The statements of a block that always end the state."""
        for statement in block:
            if isinstance(statement, (*_WITHS, ast.Try)):
                yield from self._settling(statement.body, slot, function, calls)
            elif isinstance(statement, ast.If):
                taken = list(self._settling(statement.body, slot, function, calls))
                other = list(self._settling(statement.orelse, slot, function, calls)) if taken else []
                if other:
                    yield from (*taken, *other)
            elif not isinstance(statement, _LOOPS):
                is_settled = _is_given_to_fill(slot, statement)
                is_settled = is_settled or any(settles(change, slot) for change in changes_in(statement))
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
        method = self._frequency.inference.method(function.cls, call.func.attr)
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

    # -- what restores it ----------------------------------------------------------------------------------------

    def _outlives_pass(self, slot: Slot, loop: Loop | None) -> bool:
        """Whether the next step finds the same object under the slot's root name."""
        if slot.root == self._function.self_name:
            init = (
                None if self._function.cls is None else self._frequency.inference.method(self._function.cls, "__init__")
            )
            return init is None or not self._frequency.home(init).may_be_hot(init.body[0])
        if loop is not None or not self._is_local(slot.root):
            return True
        changes = self._changes_anywhere(slot)
        bound = [change for change in changes if change.path == slot.root and change.key is None]
        return bool(bound) and all(self._takes_from_self(change, slot) for change in bound)

    def _takes_from_self(self, change: Change, slot: Slot) -> bool:
        """`state = self.state[p]`: what is put into it stays in the object."""
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
                if not self._is_local(slot.root) and self._may_run_in_steps(change, slot):
                    return True
            elif (loop is None or self._is_in(statement, loop)) and not self._is_rare(statement, slot, loop):
                return True
        return False

    def _may_run_in_steps(self, change: Change, slot: Slot) -> bool:
        """Whether a change in another function may run in a step; without evidence, only if it is a plain reset."""
        owner = self._owner(change)
        path, home = change.said or change.path, self._frequency.home(owner)
        if home.may_be_hot(change.statement):
            is_same = "." in path or self._means_same(path, slot, owner)
            return is_same and may_share_loop(self._frequency, self._at, owner, change.statement)
        is_rare = owner.is_module or _SELDOM.search(owner.name)
        if is_rare or home.inference.contract(owner) is not None or not restores(change, slot):
            return False
        if not self._means_same(path, slot, owner):
            return False
        return _is_handed_on(owner) or not calling.callers_by_name(home.inference, owner)

    def _means_same(self, path: str, slot: Slot, owner: FunctionInfo) -> bool:
        """Whether a path in another function may lead to the slot, or to its container."""
        root, _, rest = path.partition(".")
        if rest:
            is_own = slot.root == self._function.self_name and slot.path.count(".") == 1
            is_own_there = root == owner.self_name and "." not in rest
            return not (is_own and is_own_there) or self._is_related(owner)
        if root not in owner.index.bound_names(owner) or owner.is_module:
            return True
        said = [
            each for each in owner.statements if isinstance(each, (ast.Global, ast.Nonlocal)) and root in each.names
        ]
        shared = set(_scopes(owner)).intersection(_scopes(self._function))
        return any(isinstance(each, ast.Global) for each in said) or owner in shared or bool(said and shared)

    def _is_related(self, owner: FunctionInfo) -> bool:
        """Whether the other function is a method of the class, or of one of its bases or subclasses."""
        one, other, inference = self._function.cls, owner.cls, self._frequency.inference
        return (
            one is not None
            and other is not None
            and (other in inference.lineage(one) or one in inference.lineage(other))
        )

    def _changes_anywhere(self, slot: Slot) -> Iterator[Change]:
        """The changes of the slot or its container: in this file by its name, in other files by its class."""
        by_name = _changes_of(self._index)
        names = slot.path.split(".")
        for count in range(1 if len(names) == 1 or names[0] != self._function.self_name else 2, len(names) + 1):
            path = ".".join(names[:count])
            for change in by_name.get(names[count - 1], ()):
                here = self._index.places[change.statement].function is self._function
                if change.path == path if here or count == 1 else "." in change.path:
                    yield change if here else change._replace(path=path, said=change.path)
        yield from self._set_by_any_name(slot, self._index.reads.unheard(lambda: by_name.get(ANY, ())))
        cls = self._function.cls
        if cls is None or names[0] != self._function.self_name or len(names) == 1:
            return
        for owner in self._frequency.inference.lineage(cls):
            if owner.index is not self._index:
                by_name = _changes_of(owner.index)
                for change in by_name.get(slot.attribute, ()):
                    if "." in change.path:
                        yield change._replace(path=slot.path, said=change.path)

    def _set_by_any_name(self, slot: Slot, changes: Iterable[Change]) -> Iterator[Change]:
        """`setattr(self, name, None)`: it may restore the state, whatever the slot's name is."""
        held, _, attribute = slot.path.rpartition(".")
        for change in changes:
            where, owner = self._index.places[change.statement].function, change.path.rpartition(".")[0]
            named = change._replace(path=slot.path, said=f"{owner}.{attribute}")
            is_own = owner == where.self_name and held == self._function.self_name and self._is_related(where)
            if held and (owner == held if where is self._function else is_own) and restores(named, slot):
                yield named

    def _owner(self, change: Change) -> FunctionInfo:
        """The function that contains the change."""
        place = self._index.places.get(change.statement)
        if place is not None:
            return place.function
        cls = self._function.cls
        assert cls is not None
        indexes = (owner.index for owner in self._frequency.inference.lineage(cls))
        return next(index.places[change.statement].function for index in indexes if change.statement in index.places)

    def _is_in(self, statement: ast.stmt, loop: Loop) -> bool:
        current: ast.stmt | None = statement
        while current is not None and current is not loop:
            current = self._index.places[current].parent
        return current is loop

    def _is_rare(self, statement: ast.stmt, slot: Slot, loop: Loop | None) -> bool:
        """Whether a sampling guard lets the statement run only sometimes, or it runs only while the slot is None."""
        current = statement
        while (parent := self._index.places[current].parent) is not loop and parent is not None:
            field = self._index.places[current].field
            bound = lambda name: self._frequency.bindings(self._function, name)  # noqa: E731
            if isinstance(parent, ast.If):
                if is_sampling_guard(parent.test, field == "body", bound):
                    return True
                if slot._replace(state=State.NONE) in asked(parent.test, field == "body"):
                    return True
            current = parent
        return False

    def _comes_again(self, slot: Slot, loop: Loop | None) -> bool:
        """Whether later steps look the entry up again: by a literal, a layer's name, an identity, or in a cache."""
        assert slot.key is not None
        if all(self._is_steady(node.id, loop) for node in subtree(slot.key) if isinstance(node, ast.Name)):
            return True
        is_new = loop is not None and not self._new_in(loop).isdisjoint(_content_names(slot.key))
        by_identity = isinstance(slot.key, ast.Call) and last_name(slot.key.func) == "id"
        return (by_identity or _CACHE.search(slot.path) is not None) and not is_new

    def _new_in(self, loop: Loop) -> set[str]:
        """The names whose values change in every pass: those that the loop binds, and those computed from them."""
        new = set() if isinstance(loop, ast.While) else set(names_in(loop.target))
        inside = [each for each in self._function.statements if each is not loop and self._is_in(each, loop)]
        changes = [change for each in inside for change in changes_in(each) if change.key is None]
        before = -1
        while len(new) > before:
            before = len(new)
            for change in changes:
                walked = change.statement.iter if isinstance(change.statement, (ast.For, ast.AsyncFor)) else None
                names = _content_names(change.value or walked)
                is_counted = isinstance(change.statement, ast.AugAssign)
                if is_counted or "next" in names or not new.isdisjoint(names):
                    new.add(change.path)
        return new

    def _is_steady(self, name: str, loop: Loop | None) -> bool:
        """Whether a name has few values, which do not come from the batch."""
        if not self._is_local(name):
            return True
        if loop is None or name in self._function.parameter_names:
            return False
        fresh = set(names_in(loop.target)) if not isinstance(loop, ast.While) else set()
        for change in _changes_of(self._index).get(name, ()):
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


def _is_given_to_fill(slot: Slot, statement: ast.stmt) -> bool:
    """Whether a call gets a cache and the key that it lacks, to fill it: `self.compile(data, key, cache)`."""
    if slot.key is None or slot.state is not State.MISSING or not _CACHE.search(slot.path):
        return False
    key = ast.unparse(slot.key)
    calls = (node for node in subtree(statement) if isinstance(node, ast.Call))
    given = ([ast.unparse(each) for each in call.args] for call in calls)
    return any(key in texts and slot.path in texts for texts in given)


def _content_names(node: ast.expr | None) -> set[str]:
    """The names whose content an expression depends on, not only their size, type or remainder."""
    names: set[str] = set()
    pending: list[ast.AST] = [] if node is None else [node]
    while pending:
        each = pending.pop()
        if isinstance(each, ast.Name):
            names.add(each.id)
        is_type = isinstance(each, ast.Call) and last_name(each.func) == "type"
        is_remainder = isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mod)
        if not (is_type or is_remainder or (isinstance(each, ast.expr) and is_extent(each))):
            pending.extend(children(each))
    return names


def _scopes(function: FunctionInfo) -> Iterator[FunctionInfo]:
    """The function and its enclosing functions."""
    current: FunctionInfo | None = function
    while current is not None and not current.is_module:
        yield current
        current = current.outer


def _is_handed_on(function: FunctionInfo) -> bool:
    """Whether its file reads the function's name other than to call it: the receiver may call it at any time."""
    index = function.index
    return function.name in index.by_name("handed on", lambda: dict.fromkeys(_read_uncalled(index)))


def _read_uncalled(index: Index) -> set[str]:
    called: set[ast.AST] = set()
    read: list[ast.expr] = []
    for statement in index.places:
        parts = [child for child in children(statement) if not isinstance(child, ast.stmt)]
        for node in (each for part in parts for each in subtree(part)):
            if isinstance(node, ast.Call):
                called.add(node.func)
            elif isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
                read.append(node)
    return {last_name(node) or "" for node in read if node not in called}


def _changes_of(index: Index) -> ByName[list[Change]]:
    for by_text in ("setattr", "delattr"):  # the name that they change may be put together, or be any
        index.reads.mentions(by_text)
    return index.by_name("changes", lambda: _changes_by_name(index))


def _changes_by_name(index: Index) -> dict[str, list[Change]]:
    """The changes that the statements of a file make, by the last name of the path."""
    found: dict[str, list[Change]] = {}
    for statement in index.places:
        for change in changes_in(statement):
            found.setdefault(change.path.rpartition(".")[2], []).append(change)
    return found


def _counts_passes(slot: Slot, loop: Loop | None) -> bool:
    """Whether the slot is the loop's counter, compared with one value: `for n, x in enumerate(...)`, `if n == 0`."""
    if slot.state is not State.EQUAL or isinstance(loop, ast.While) or loop is None:
        return False
    is_counted = isinstance(loop.iter, ast.Call) and last_name(loop.iter.func) == "enumerate"
    first = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) else None
    return is_counted and first is not None and dotted(first) == slot.path
