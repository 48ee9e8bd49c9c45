"""The one way of `why` into the model: what it asks beyond the questions that rules may ask."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from torchperf_lint.engine.declare import ACCELERATOR_TRIGGERS
from torchperf_lint.model import Model
from torchperf_lint.model.callgraph import calling
from torchperf_lint.model.domain.frequency import Frequency, HotPath, LoopKind
from torchperf_lint.model.frequency import settings
from torchperf_lint.model.frequency.branches import Step, calls_own_method, demands
from torchperf_lint.model.frequency.execution import _AS_THE_FUNCTION, ExecutionFrequency
from torchperf_lint.model.project.exports import Imported, Variable
from torchperf_lint.model.syntax.index import CallRecord
from torchperf_lint.syntax.site import first_row
from torchperf_lint.syntax.tree import children

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.knowledge.versions import Target
    from torchperf_lint.model.analyzed_file import AnalyzedFile
    from torchperf_lint.model.domain.flows import Handing, PossibleCall
    from torchperf_lint.model.domain.frequency import Loop, LoopInfo
    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.syntax.call_sites import CallSite
    from torchperf_lint.model.syntax.index import AttributeStore, ClassInfo, FunctionInfo, Index, Place
    from torchperf_lint.syntax.site import Site

_LOOPS = (ast.For, ast.AsyncFor, ast.While)


class Guard(NamedTuple):
    """What keeps a statement from running in every pass of its surroundings: its row, and its text."""

    row: int
    text: str


class Inside:
    """One file of a project, or a file alone, and what the model knows of it."""

    def __init__(self, analyzed: AnalyzedFile, target: Target) -> None:
        self.analyzed = analyzed
        self.target = target
        self.index: Index = analyzed.index
        self.inference = analyzed.inference()
        self.frequency = analyzed.frequency

    def model(self) -> Model:
        """A model without any memoised answer of an earlier rule."""
        return Model(self.analyzed, self.target)

    @property
    def cpu_only(self) -> bool:
        """Whether nothing in the file, or in the files that use it, speaks of an accelerator."""
        return self.inference.cpu_only

    @property
    def accelerated_by_itself(self) -> bool:
        """Whether the file's own bytes speak of an accelerator."""
        return any(word in self.analyzed.source.utf8 for word in ACCELERATOR_TRIGGERS)

    @staticmethod
    def statement_of(model: Model, site: Site) -> ast.stmt:
        """The statement that a site of the model stands in."""
        return model.statement_of(site.node)

    # -- statements ------------------------------------------------------------------------------------------------

    def statements_at(self, row: int) -> list[ast.stmt]:
        """The statements that stand in the row themselves; of compound ones, those whose header does."""
        return [statement for statement in self.index.places if row in _rows_of(statement)]

    def stands_at(self, node: ast.expr, row: int, column: int) -> bool:
        """Whether an expression of the file covers that column (1-based, in characters) of the row."""
        source = self.analyzed.source
        offset = source.line_starts[row - 1] + len(source.line(row)[: column - 1].encode())
        start = source.offset(node.lineno, node.col_offset)
        return start <= offset < source.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)

    def place(self, statement: ast.stmt) -> Place:
        """Where a statement of any file stands in its function."""
        return self.index.places[statement]

    @staticmethod
    def expressions(statement: ast.stmt) -> Iterator[ast.expr]:
        """The expressions of a statement, without those of nested statements, in source order."""
        found = [node for node in _own_nodes(statement) if isinstance(node, ast.expr)]
        yield from sorted(found, key=lambda node: (node.lineno, node.col_offset, -(node.end_col_offset or 0)))

    # -- how often -------------------------------------------------------------------------------------------------

    def hot_path(self, statement: ast.stmt) -> HotPath | None:
        """What runs the statement in every step."""
        return self.frequency.of(statement)

    def runs_as_its_function(self, statement: ast.stmt, function: FunctionInfo) -> bool:
        """Whether the statement runs in every call of its function, and in no loop over batches."""
        return self._home(function).within(statement) is _AS_THE_FUNCTION

    def runs_in_loop(self, statement: ast.stmt, function: FunctionInfo) -> bool:
        """Whether a loop over batches in its function runs the statement in every pass."""
        return self._home(function).within(statement) not in (None, _AS_THE_FUNCTION)

    def own_hot_path(self, function: FunctionInfo) -> HotPath | None:
        """What runs a function in every step, whoever calls it."""
        return self._home(function).own_hot_path(function)

    def may_be_hook(self, function: FunctionInfo) -> bool:
        """Whether a library may call the function: a method of a class that inherits from one of a library."""
        return function.cls is not None and bool(self._home(function).inference.library_bases(function.cls))

    def guard(self, statement: ast.stmt, function: FunctionInfo) -> Guard | None:
        """The condition around or before a statement that holds in few steps."""
        home = self._home(function)
        index = function.index
        current: ast.stmt | None = statement
        while current is not None:
            place = index.places[current]
            position = home._first_skip(place.block, place.function)
            if position < place.position:
                skip: Any = place.block[position]
                return Guard(skip.lineno, f"if {ast.unparse(skip.test)}: {ast.unparse(skip.body[-1])}")
            parent: Any = place.parent
            if parent is not None and home._guarded(parent, place.field, place.function):
                if not isinstance(parent, ast.If):
                    return Guard(parent.lineno, "except")
                return Guard(
                    parent.lineno, f"{'if' if place.field == 'body' else 'else of if'} {ast.unparse(parent.test)}"
                )
            current = parent
        return None

    def leaves(self, statement: ast.stmt, function: FunctionInfo) -> Guard | None:
        """The jump behind a statement in a branch, which ends the loop or the run."""
        current: ast.stmt | None = statement
        while current is not None:
            place = function.index.places[current]
            last = place.block[-1]
            if isinstance(place.parent, ast.If) and isinstance(last, (ast.Break, ast.Return, ast.Raise)):
                return Guard(last.lineno, ast.unparse(last).splitlines()[0])
            current = place.parent
        return None

    def loops_around(self, statement: ast.stmt, function: FunctionInfo) -> list[tuple[Loop, LoopInfo]]:
        """The loops of the same function around a statement, innermost first, each with its kind."""
        loops = self._home(function).loops
        return [(loop, loops.classify(loop, function)) for loop in loops.enclosing(statement)]

    def calls_of(self, function: FunctionInfo, handed: tuple[Handing, ...] = ()) -> list[tuple[PossibleCall, bool]]:
        """The calls that may mean the function by name, each with whether it is shown to reach it."""
        home = self._home(function)
        return [
            (call, bool(call.says) or calling.reaches(home.inference, call.record, function))
            for call in home.calls_of(function, handed)
        ]

    def arrives(self, statement: ast.stmt, function: FunctionInfo, way: tuple[tuple[CallSite, bool], ...]) -> bool:
        """Whether the arguments of a chain of calls, which leads outwards, allow the statement to be reached."""
        return demands(statement, function, tuple(Step(record, shows) for record, shows in way)) is not None

    def is_never_so(self, statement: ast.stmt, function: FunctionInfo, way: tuple[tuple[CallSite, bool], ...]) -> bool:
        """Whether the object that the last call of the chain uses is made without the flags that lead further."""
        asked: frozenset[settings.Asked] = frozenset()
        steps: tuple[Step, ...] = ()
        current = function
        for record, shows in way:
            asked |= settings.asked_of_object(current, demands(statement, function, steps) or ())
            plain = record if isinstance(record, CallRecord) else None
            is_own = plain is not None and calls_own_method(plain.call.func, plain.function)
            if plain is not None and not is_own and any(self.frequency._is_never_so(each, plain) for each in asked):
                return True
            asked = asked if is_own else frozenset()
            steps, current = (*steps, Step(record, shows)), record.function
        return False

    def may_be_hot(self, record: CallRecord) -> bool:
        """False only if a call is certainly not made in every step."""
        return self._home(record.function).may_be_hot(record.statement)

    def hot_path_of_call(self, record: CallRecord) -> HotPath | None:
        """What makes a call in every step."""
        return self._home(record.function).of(record.statement)

    def _home(self, function: FunctionInfo) -> ExecutionFrequency:
        return cast("ExecutionFrequency", self.frequency.home(function))

    def as_if_hot(self, statements: list[ast.stmt]) -> Model:
        """A model that takes these statements for ones that run in every step."""
        model = self.model()
        model._frequency = _AsIfHot(self.frequency, statements)
        return model

    # -- values ----------------------------------------------------------------------------------------------------

    def value(self, function: FunctionInfo, node: ast.expr) -> Value:
        """The value of an expression of a function of any file."""
        return self.inference.frame_value(function, node)

    def callers(self, function: FunctionInfo) -> tuple[CallRecord, ...]:
        """The calls that are shown to reach a function of any file."""
        return self.inference.home(function.index).callers(function)

    def home_of_variable(self, function: FunctionInfo, name: str) -> FunctionInfo | None:
        """The top level of the other file of the project from which the function's file imports a variable."""
        program = self.analyzed.program
        found = None if program is None else program.file_of(function.index).exports.meanings.get(name)
        meant = (
            program.meaning(found.ref, function.index) if program is not None and isinstance(found, Imported) else None
        )
        return meant.home.module if isinstance(meant, Variable) and meant.name == name else None

    def stores(self, cls: ClassInfo, name: str) -> list[AttributeStore]:
        """The statements that set the attribute of an object, in the class and its bases."""
        found = []
        for owner in self.inference.lineage(cls):
            found += owner.attributes.get(name, [])
        return found


class _AsIfHot:
    """Execution frequencies of a file in which some statements are taken to run in every step."""

    def __init__(self, frequency: Any, statements: list[ast.stmt]) -> None:
        self._frequency = frequency
        self._statements = statements

    def __getattr__(self, name: str) -> Any:
        return getattr(self._frequency, name)

    def of(self, statement: ast.stmt, ignore_sampling: bool = False) -> HotPath | None:
        return self._as_if(statement, self._frequency.of(statement, ignore_sampling))

    def of_part(self, statement: ast.stmt, node: ast.expr) -> HotPath | None:
        return self._as_if(statement, self._frequency.of_part(statement, node))

    def _as_if(self, statement: ast.stmt, found: HotPath | None) -> HotPath | None:
        if found is None and statement in self._statements:
            function = self._frequency.inference.index.places[statement].function
            return HotPath(None, Frequency.FUNCTION, (), function.name)
        return found

    def may_be_hot(self, statement: ast.stmt) -> bool:
        return statement in self._statements or self._frequency.may_be_hot(statement)

    def guarded_in_expression(self, statement: ast.stmt, call: ast.expr) -> bool:
        return statement not in self._statements and self._frequency.guarded_in_expression(statement, call)


def is_batch_loop(info: LoopInfo) -> bool:
    """Whether each pass of the loop takes a batch."""
    return info.kind is LoopKind.BATCH


def is_epoch_loop(info: LoopInfo) -> bool:
    """Whether the loop holds loops over batches."""
    return info.kind is LoopKind.EPOCH


def _own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement, without those of nested statements, its own node last."""
    pending: list[ast.AST] = [child for child in children(statement) if not isinstance(child, ast.stmt)]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(child for child in children(node) if not isinstance(child, ast.stmt))


def _rows_of(statement: ast.stmt) -> set[int]:
    """The rows in which a statement stands itself; of a compound one, those of its header, or of its handlers."""
    if not hasattr(statement, "body") and not isinstance(statement, ast.Match):
        return set(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    ends = [(node.lineno, node.end_lineno or 0) for node in _own_nodes(statement) if isinstance(node, ast.expr)]
    if isinstance(statement, (ast.Try, ast.Match)) or type(statement).__name__ == "TryStar":
        return {statement.lineno, *(row for first, last in ends for row in range(first, last + 1))}
    return set(range(first_row(statement), max([statement.lineno, *(last for _, last in ends)]) + 1))
