"""Interfaces between the packages of the model, for queries to a package further up the import order.

Values depend on callers, callers depend on values, and both depend on other files. The queries are lazy, so at run
time the packages need each other. Imports still go one way: a package sees those above it only as these protocols.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TypeVar

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.model.domain.contracts import Contract
    from torchperf_lint.model.domain.flows import Flow, Handing, PossibleCall
    from torchperf_lint.model.domain.frames import Env, Frame, Outcome
    from torchperf_lint.model.domain.frequency import HotPath, Loop, LoopInfo
    from torchperf_lint.model.domain.loaders import Route, Samples
    from torchperf_lint.model.domain.naming import LateImports, NameQuestions
    from torchperf_lint.model.domain.values import Device, Value
    from torchperf_lint.model.project.dependencies import DependencyRecorder, Node
    from torchperf_lint.model.project.exports import Exports, Meaning
    from torchperf_lint.model.project.inquiry import Inquiry
    from torchperf_lint.model.project.query_cache import QueryCache
    from torchperf_lint.model.syntax.call_sites import CallSite, ImplicitCall
    from torchperf_lint.model.syntax.code import Code
    from torchperf_lint.model.syntax.index import CallRecord, ClassInfo, FunctionInfo, Index
    from torchperf_lint.model.syntax.slices import Slice, Slices
    from torchperf_lint.syntax.source import Source

    _R = TypeVar("_R")


class ValueQuestions(Protocol):
    """The values of one file (`values/inference.py`)."""

    index: Index
    cpu_only: bool
    transforms_samples: bool
    counts_steps_on_host: bool
    default_device: Device | None

    @property
    def program(self) -> ProjectQuestions | None:
        """The project that the file belongs to, if there is one."""

    @property
    def names(self) -> NameQuestions:
        """The meanings of free names in the file."""

    @property
    def exports(self) -> Exports:
        """The meanings of the names at the file's top level."""

    def home(self, index: Index) -> ValueQuestions:
        """The value inference of the file that an index belongs to."""

    def frame(self, function: FunctionInfo, part: Slice | None = None) -> Frame:
        """The function's interpretation for all callers."""

    def at_end(self, function: FunctionInfo, name: str) -> Value | None:
        """The value of a name (or path) after the function or module has run; None if it does not bind the name."""

    def placed(self, function: FunctionInfo) -> tuple[Because, ...]:
        """Evidence that the function's tensors are where its module's inputs are; empty if there is none."""

    def called(
        self, function: FunctionInfo, arguments: list[Value], keywords: dict[str, Value], starred: bool = False
    ) -> Value:
        """The value that the function returns for these arguments."""

    def promise(self, function: FunctionInfo) -> Value:
        """What the function's annotation says that it returns."""

    def annotation(self, function: FunctionInfo, parameter: ast.arg) -> Value | None:
        """What the annotation of a parameter promises; None if the model does not know it, or there is none."""

    def overriding(self, function: FunctionInfo) -> tuple[FunctionInfo, ...]:
        """The methods that override one, if they may return tensors and are few."""

    def in_call(self, function: FunctionInfo, given: Env) -> Mapping[ast.expr, Value] | None:
        """The values of the expressions in one call of a function of this file; None in a cycle."""

    def in_object(self, function: FunctionInfo, cls: ClassInfo, node: ast.expr) -> Value:
        """The value of an expression in a method of this file that is called on an object of a subclass."""

    def outcome(
        self, function: FunctionInfo, arguments: list[Value], keywords: dict[str, Value], part: Slice
    ) -> Outcome:
        """The returned value of a call, and the lists and dicts that it fills."""

    def in_general(self, answer: Callable[[], _R]) -> _R:
        """A result that does not depend on the calls that are being followed: none of them counts."""

    def frame_with(self, function: FunctionInfo, part: Callable[[Slices], Slice | None]) -> Frame:
        """The function's interpretation for all callers, at least as far as that slice goes."""

    def filled(self, function: FunctionInfo, arguments: list[Value], keywords: dict[str, Value]) -> Env:
        """Parameter -> the list or dict among these arguments, as the function's insertions leave it."""

    def attribute(self, cls: ClassInfo, name: str) -> Value:
        """The value of `self.name`."""

    def optimizer_state(self, cls: ClassInfo) -> Value:
        """The value of `self.state` in an optimizer class."""

    def instance(self, cls: ClassInfo, base: str | None = None) -> Value:
        """A new object of the class."""

    def lineage(self, cls: ClassInfo) -> list[ClassInfo]:
        """The class and its bases in the program, nearest first."""

    def library_bases(self, cls: ClassInfo) -> list[str]:
        """Qualified names of the library classes among its ancestors."""

    def base_names(self, cls: ClassInfo) -> list[str]:
        """Qualified names of all its ancestors."""

    def method(self, cls: ClassInfo, name: str) -> FunctionInfo | None:
        """The method of that name, looked up through the bases."""

    def frame_value(self, function: FunctionInfo, node: ast.expr) -> Value:
        """The value of an expression of the function."""

    def parts(self, record: CallRecord, *nodes: ast.expr) -> list[Value]:
        """The values of expressions in a call."""

    def values_of(self, function: FunctionInfo, statement: ast.stmt) -> Mapping[ast.expr, Value]:
        """The values of the expressions in a statement of the function."""

    def files_passing(self, function: FunctionInfo) -> Sequence[ValueQuestions]:
        """The files that may pass the function to others by its name."""

    def making(self, maker: FunctionInfo | ClassInfo | None, taker: str) -> Sequence[ValueQuestions]:
        """The other files that may pass what the function or class makes to something called `taker`."""

    def contract(self, function: FunctionInfo) -> Contract | None:
        """The contract under which a framework calls the function, if one does."""

    def callers(self, function: FunctionInfo) -> tuple[CallRecord, ...]:
        """The calls in the program that reach the function."""

    def flows(self, function: FunctionInfo) -> tuple[Flow, ...]:
        """The calls that the function, or an object whose method it is, reaches as a value."""

    def implicit_uses(self, name: str, is_property: bool) -> Mapping[FunctionInfo | ClassInfo, Sequence[ImplicitCall]]:
        """The expressions of this file that run a method of that name without calling it, by method and by class."""

    def may_be_hot(self, record: CallRecord) -> bool:
        """False if names alone show that the call is not made in every step."""

    def given_to(self, node: ast.Lambda) -> Env:
        """The parameters of a lambda, by the calls of it that are known."""

    def lambda_of(self, node: ast.Lambda) -> FunctionInfo:
        """The function that a lambda makes."""

    def seen_alone(self, function: FunctionInfo, node: ast.expr) -> Value:
        """The value of an expression, inferred without the function's callers."""

    def alone(self, answer: Callable[[], _R]) -> _R:
        """A result that is computed without the callers of any function."""

    def one_call_up(self, answer: Callable[[], _R]) -> _R | None:
        """A result that is computed from the function's callers; None beyond the bound on callers of callers."""


class ExpressionValues(Protocol):
    """The values of the expressions of one frame (`values/evaluate.py`)."""

    default_device: Device | None
    frame: Frame

    @property
    def inference(self) -> ValueQuestions:
        """The values of the file."""

    @property
    def placed(self) -> tuple[Because, ...]:
        """Evidence that the frame's tensors are where the module's inputs are."""

    def __call__(self, node: ast.expr, env: Env) -> Value:
        """The value of `node` in `env`; it is recorded for the rules."""

    def because(self, node: ast.AST, text: str) -> Because:
        """Evidence at the row of a node."""

    def leans(self, test: ast.expr) -> bool:
        """Whether the condition tests if an accelerator, or which one, is used."""

    def attribute_of(self, base: Value, name: str, node: ast.AST) -> Value:
        """`base.name`."""

    def trained(self, gradient: Value, node: ast.AST) -> Value:
        """A gradient, placed where the model is trained."""

    def combine(self, left: Value, right: Value, operator: ast.operator) -> Value:
        """The value of a binary operation."""


class LoopQuestions(Protocol):
    """The loops of one file (`frequency/loops.py`)."""

    def enclosing(self, statement: ast.stmt) -> list[Loop]:
        """The loops around a statement within its function, innermost first."""

    def classify(self, loop: Loop, function: FunctionInfo) -> LoopInfo:
        """The kind of the loop."""

    def by_itself(self, loop: Loop, function: FunctionInfo) -> LoopInfo:
        """The same, whatever takes the items that it yields."""

    def loader_in(self, iterable: ast.expr, function: FunctionInfo) -> str | None:
        """The source text of the loader that an iterable iterates over."""

    def makes_step(self, function: FunctionInfo, hops: int = 2) -> bool:
        """Whether one call of the function is one training step."""


class EntryPointQuestions(Protocol):
    """What names alone show of how often statements of one file run (`frequency/entry_points.py`)."""

    def may_be_hot(self, statement: ast.stmt) -> bool:
        """False only if the statement is certainly not hot."""

    def in_loop(self, statement: ast.stmt) -> bool:
        """Whether the statement is in a loop that may take one batch per pass."""


class FrequencyQuestions(Protocol):
    """How often the statements of one file run (`frequency/execution.py`)."""

    recorder: DependencyRecorder
    reachability: dict[tuple[int, str], tuple[bool, Node]]

    @property
    def inference(self) -> ValueQuestions:
        """The values of the file."""

    @property
    def loops(self) -> LoopQuestions:
        """The loops of the file."""

    @property
    def entry_points(self) -> EntryPointQuestions:
        """Where hot execution may begin in the file."""

    def home(self, function: FunctionInfo) -> FrequencyQuestions:
        """The same queries for the file of the function."""

    def may_be_hot(self, statement: ast.stmt) -> bool:
        """False only if the statement is certainly not hot."""

    def of(self, statement: ast.stmt, ignore_sampling: bool = False) -> HotPath | None:
        """What repeats a statement in every step; None if it is not hot, unknown, or under a sampling guard."""

    def function_may_be_hot(self, function: FunctionInfo) -> bool:
        """False only if the function, or lambda, is certainly not called in every step, by names alone."""

    def of_part(self, statement: ast.stmt, node: ast.expr) -> HotPath | None:
        """The same for an expression of the statement: in a lambda, what repeats the calls of that."""

    def within(self, statement: ast.stmt, ignore_sampling: bool = False, infers: bool = False) -> HotPath | None:
        """What repeats the statement within its own function; with `infers`, an inference loop may."""

    def of_call(self, record: CallSite, ignore_sampling: bool = False) -> HotPath | None:
        """The same for a call: a comprehension over a loader makes it for each batch."""

    def own_hot_path(self, function: FunctionInfo) -> HotPath | None:
        """What makes a function hot independently of its callers."""

    def sampled(self, statement: ast.stmt) -> bool:
        """Whether a sampling guard in its function is all that keeps the statement from running in every step."""

    def sampled_on_the_way(self, statement: ast.stmt) -> bool:
        """The same for sampling guards around the statement or around a call on the path to it."""

    def guarded_in_expression(self, statement: ast.stmt, call: ast.expr) -> bool:
        """Whether a guard within the statement makes the call run only sometimes."""

    def runs_in_calls(self, statement: ast.stmt, node: ast.expr) -> bool:
        """Whether an expression of the statement is in a lambda whose calls are known."""

    def caller(self, record: CallSite) -> FunctionInfo:
        """The function that makes a call of this file, or the lambda whose calls make it."""

    def bindings(self, function: FunctionInfo, name: str) -> list[ast.expr]:
        """The expressions that the function's plain assignments bind the name to."""

    def calls_of(self, function: FunctionInfo, handed: tuple[Handing, ...] = ()) -> Iterator[PossibleCall]:
        """Calls that may mean the function, each with a remark for the finding; an implicit call has one.

        With `handed`, only the call that hands over what the function calls.
        """


class LoaderQuestions(Protocol):
    """The data loaders of one file (`loaders/loader_flow.py`)."""

    @property
    def runs_elsewhere(self) -> bool:
        """Whether the file runs only on the CPU, or on accelerators other than CUDA."""

    @property
    def index(self) -> Index:
        """The file."""

    @property
    def routes_here(self) -> dict[ast.Call, Route]:
        """The routes that this file shows, by the call that creates the loader."""

    def route(self, loader: ast.Call) -> Route | None:
        """Evidence that the batches of a loader go to an accelerator; None if there is none."""

    def moved_by(self, record: CallRecord, device: Device) -> Route:
        """The route of batches that this call of the file moves there."""

    def handed_on(self, loader: ast.Call, function: FunctionInfo) -> Iterator[FunctionInfo]:
        """The functions that this one passes the loader to."""

    def files(self, loader: ast.Call) -> Iterator[Index]:
        """The files that may use the loader."""

    def samples(self, loader: ast.Call, function: FunctionInfo) -> Samples:
        """What is known of the samples that a loader reads."""


class FileQuestions(Protocol):
    """One file and its analyses (`analyzed_file.py`)."""

    source: Source
    index: Index
    recorder: DependencyRecorder

    @property
    def program(self) -> ProjectQuestions | None:
        """The project that the file belongs to, if there is one."""

    @property
    def exports(self) -> Exports:
        """The meanings of the names at its top level."""

    @property
    def late_imports(self) -> LateImports:
        """Name -> dotted name that it imports from the project, for top-level names bound by a single import only."""

    @property
    def code(self) -> Code:
        """The identifiers in its code."""

    @property
    def frequency(self) -> FrequencyQuestions:
        """How often its statements run."""

    @property
    def loops(self) -> LoopQuestions:
        """Its loops."""

    @property
    def entry_points(self) -> EntryPointQuestions:
        """Where hot execution may begin in the file."""

    @property
    def loading(self) -> LoaderQuestions:
        """Its data loaders."""

    def inference(self) -> ValueQuestions:
        """The values of the file."""


class ProjectQuestions(Protocol):
    """All files of a project (`program.py`)."""

    recorder: DependencyRecorder
    guarded_calls: QueryCache
    """Which calls in expressions run only sometimes, by all files."""
    inquiry: Inquiry
    """The queries about values that are in progress, and how far they may look."""

    def file_of(self, index: Index) -> FileQuestions:
        """The file that an index belongs to."""

    def inference(self, index: Index) -> ValueQuestions:
        """The values of the file that an index belongs to."""

    def reachability(self, index: Index) -> dict[tuple[int, str], tuple[bool, Node]]:
        """A table of which functions of the file may be reached from a step."""

    def steps_called_in(self, index: Index) -> frozenset[str]:
        """Names of functions anywhere that make a training step, as far as the file calls them."""

    def calls_name(self, name: str, index: Index) -> bool:
        """Whether a file calls something of that name."""

    def calls_given(self, name: str, index: Index) -> bool:
        """Whether some function of that name may call one of its arguments."""

    def speaks_of(self, topic: str, index: Index) -> bool:
        """Whether the file, or one that is connected to it by imports, mentions the topic."""

    def programs_with(self, index: Index) -> Sequence[FileQuestions]:
        """The programs that the file is part of, if all of them may require CUDA."""

    def absolute(self, name: str, index: Index) -> str:
        """An imported name as an absolute one, without leading dots."""

    def meaning(self, ref: str, index: Index) -> Meaning | None:
        """The meaning of a dotted name under the file's imports; None if the project does not show it."""

    def name_of(self, cls: ClassInfo) -> str:
        """The dotted name of a class of the project."""

    def defines(self, ref: str, function: FunctionInfo) -> bool:
        """Whether a qualified name of a library is this function of the project."""

    def stands_in_file(self, ref: str, index: Index) -> bool:
        """Whether the dotted name leads to a name in a file of the project."""

    def starred(self, name: str, index: Index) -> str | None:
        """The dotted name of what `from module import *` binds to `name` in the file."""

    def known_elsewhere(self, function: FunctionInfo) -> bool:
        """Whether another file calls or imports something of the function's name."""

    def calls_elsewhere(self, function: FunctionInfo, most: int) -> list[CallRecord] | None:
        """The calls in other files that may mean the function; None if there are more than `most`."""

    def some_calls_elsewhere(self, function: FunctionInfo, most: int) -> list[CallRecord]:
        """At most as many of these calls, those of the nearest files first."""

    def methods_named(self, name: str, index: Index) -> list[FunctionInfo] | None:
        """The methods of that name; None if a file cannot be read, or too many may have one."""

    def is_in_program(self, index: Index, other: Index) -> bool:
        """Whether the two files may be parts of one program."""

    def names_elsewhere(self, name: str, index: Index) -> bool:
        """Whether another file may name, without calling it, a function or method of that name."""

    def sets_elsewhere(self, name: str, index: Index) -> bool:
        """Whether another file may set an attribute of that name, other than of `self`."""

    def naming_method(self, function: FunctionInfo) -> Sequence[FileQuestions]:
        """The other files that may name a method without calling it; none if too many may."""

    def looking_up(self, name: str, index: Index) -> Sequence[FileQuestions]:
        """The files that may look up an attribute of that name by `getattr`."""

    def may_be_looked_up(self, name: str, index: Index) -> bool:
        """Whether there is such a file."""

    def calling_class(self, cls: ClassInfo) -> Sequence[FileQuestions]:
        """The other files that import the class by its name and may call it."""

    def importing(self, name: str, index: Index) -> Sequence[FileQuestions]:
        """The other files that may import this name of a file; none if they are too many."""

    def naming_class(self, cls: ClassInfo) -> Sequence[FileQuestions]:
        """The other files that import the class; none if too many may."""

    def reading_samples(self, cls: ClassInfo) -> Sequence[FileQuestions]:
        """The other files that import the class and define a dataset or a data module; none if too many may."""

    def files_passing(self, meant: FunctionInfo | ClassInfo) -> Sequence[FileQuestions]:
        """The other files that import the function or class by its name and pass it as an argument or put it away."""

    def making(self, maker: FunctionInfo | ClassInfo, taker: str) -> Sequence[FileQuestions]:
        """The other files that import the function or class, and call both it and something named `taker`."""

    def heirs(self, cls: ClassInfo) -> list[ClassInfo]:
        """The subclasses of the class."""

    def neighbours(self, index: Index) -> Sequence[FileQuestions]:
        """The files that import this one, and those that it imports."""

    def serves_accelerator(self, index: Index) -> bool:
        """Whether the file, or a file that imports it directly or transitively, mentions an accelerator."""
