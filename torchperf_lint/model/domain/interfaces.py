"""What the packages of the model may ask each other, where the one that asks stands below the one that answers.

Values rest on who calls a function, who calls a function rests on values, and both rest on other files. The questions
are worked out on demand, so the packages need each other while they run. Their imports still go one way: each of them
knows only these protocols of what stands above it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TypeVar

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.model.domain.contracts import Contract
    from torchperf_lint.model.domain.frames import Env, Frame, Outcome
    from torchperf_lint.model.domain.frequency import HotPath, Loop, LoopInfo
    from torchperf_lint.model.domain.loaders import Route, Samples
    from torchperf_lint.model.domain.values import Device, Value
    from torchperf_lint.model.project.dependencies import DependencyRecorder
    from torchperf_lint.model.project.exports import Exports, Meaning
    from torchperf_lint.model.syntax.code import Code
    from torchperf_lint.model.syntax.index import CallRecord, ClassInfo, FunctionInfo, Index
    from torchperf_lint.model.syntax.slices import Slice, Slices
    from torchperf_lint.syntax.source import Source

    _R = TypeVar("_R")

FARTHEST = 3
"""How many files and attributes of objects away an answer may come from: each is asked one level below."""


class NameQuestions(Protocol):
    """What names stand for that a function does not bind itself (`values/names.py`)."""

    @property
    def late_imports(self) -> Mapping[str, str]:
        """The module's imports that are looked up when a name is read."""

    def imported(self, ref: str) -> Value:
        """What a dotted name that the file imports stands for."""

    def free(self, frame: Frame, name: str) -> Value | None:
        """A name that the frame's function does not bind."""

    def late(self, name: str) -> Value | None:
        """What a late import makes of the name; None if none binds it."""

    def at_top(self, name: str) -> Value:
        """What the module knows by the name, once it has run."""

    def all_at_top(self) -> list[Value]:
        """All that the module knows by some name."""


class ValueQuestions(Protocol):
    """The values of one file (`values/inference.py`)."""

    index: Index
    level: int
    cpu_only: bool
    transforms_samples: bool
    default_device: Device | None

    @property
    def program(self) -> ProjectQuestions | None:
        """The project that the file belongs to, if there is one."""

    @property
    def names(self) -> NameQuestions:
        """What names stand for in the file."""

    @property
    def exports(self) -> Exports:
        """What the names at the file's top level stand for."""

    def home(self, index: Index) -> ValueQuestions | None:
        """The values of another file."""

    def scout(self, index: Index) -> ValueQuestions | None:
        """The values of another file, as far as they tell whom a call reaches."""

    def frame(self, function: FunctionInfo, part: Slice | None = None) -> Frame:
        """The function as it is run in general."""

    def at_end(self, function: FunctionInfo, name: str) -> Value | None:
        """What a name (or path) is once the function or module has run; None where it does not bind it."""

    def placed(self, function: FunctionInfo) -> tuple[Because, ...]:
        """What shows that the function's tensors live where a module's inputs live; nothing where nothing does."""

    def called(
        self, function: FunctionInfo, arguments: list[Value], keywords: dict[str, Value], starred: bool = False
    ) -> Value:
        """What the function returns for these arguments."""

    def in_call(self, function: FunctionInfo, given: Env) -> Mapping[ast.expr, Value] | None:
        """The values of what a call of this file's function comes to; None if that leads too far."""

    def outcome(
        self, function: FunctionInfo, arguments: list[Value], keywords: dict[str, Value], part: Slice
    ) -> Outcome:
        """What a call gives back, and what its arguments are then."""

    def in_general(self, answer: Callable[[], _R]) -> _R:
        """An answer that does not depend on how many calls were followed until it was asked for."""

    def frame_with(self, function: FunctionInfo, part: Callable[[Slices], Slice | None]) -> Frame:
        """The function as it is run in general, as far as that slice of it goes, or further."""

    def filled(self, function: FunctionInfo, arguments: list[Value], keywords: dict[str, Value]) -> Env:
        """The lists and dicts among these arguments that the function puts something into, by its parameters."""

    def attribute(self, cls: ClassInfo, name: str) -> Value:
        """What `self.name` is."""

    def one_below(self, function: FunctionInfo, node: ast.expr) -> Value:
        """The value of an expression for a question that may come back to it."""

    def optimizer_state(self, cls: ClassInfo) -> Value:
        """What `self.state` is in the class of an optimizer."""

    def instance(self, cls: ClassInfo, base: str | None = None) -> Value:
        """A new object of the class."""

    def lineage(self, cls: ClassInfo) -> list[ClassInfo]:
        """The class and its bases in the program, nearest first."""

    def library_bases(self, cls: ClassInfo) -> list[str]:
        """Qualified names of the library classes that it descends from."""

    def base_names(self, cls: ClassInfo) -> list[str]:
        """Qualified names of all that it descends from."""

    def method(self, cls: ClassInfo, name: str) -> FunctionInfo | None:
        """The method of that name, looked up through the bases."""

    def frame_value(self, function: FunctionInfo, node: ast.expr) -> Value:
        """The value of an expression that stands in the function."""

    def parts(self, record: CallRecord, *nodes: ast.expr) -> list[Value]:
        """The values of expressions in a call."""

    def values_of(self, function: FunctionInfo, statement: ast.stmt) -> Mapping[ast.expr, Value]:
        """The values of what a statement of the function holds."""

    def handing_on(self, function: FunctionInfo) -> Sequence[ValueQuestions]:
        """The files that may hand the function to others by its name."""

    def making(self, maker: FunctionInfo | ClassInfo | None, taker: str) -> Sequence[ValueQuestions]:
        """The other files that may hand what the function or class makes to something called `taker`."""

    def contract(self, function: FunctionInfo) -> Contract | None:
        """What a framework promises of the function, if it calls it."""

    def callers(self, function: FunctionInfo) -> tuple[CallRecord, ...]:
        """The calls in the program that reach the function."""

    def may_be_hot(self, record: CallRecord) -> bool:
        """Whether names alone allow that the call is made in every step."""

    def seen_alone(self, function: FunctionInfo, node: ast.expr) -> Value:
        """The value of an expression as the function alone shows it."""

    def alone(self, answer: Callable[[], _R]) -> _R:
        """An answer without regard to the callers of any function."""

    def one_call_up(self, answer: Callable[[], _R]) -> _R | None:
        """An answer from those who call a function; None where that leads too far."""


class ExpressionValues(Protocol):
    """The values of the expressions of one frame (`values/evaluate.py`)."""

    default_device: Device | None
    frame: Frame

    @property
    def inference(self) -> ValueQuestions:
        """The values of the file."""

    @property
    def placed(self) -> tuple[Because, ...]:
        """What shows that the frame's tensors live where a module's inputs live."""

    def __call__(self, node: ast.expr, env: Env) -> Value:
        """The value of `node` in `env`, noted for the rules."""

    def because(self, node: ast.AST, text: str) -> Because:
        """Evidence at a node's row."""

    def leans(self, test: ast.expr) -> bool:
        """Whether the condition asks whether (or which) accelerator is used."""

    def attribute_of(self, base: Value, name: str, node: ast.AST) -> Value:
        """`base.name`."""

    def trained(self, gradient: Value, node: ast.AST) -> Value:
        """A gradient, which is where the model is trained."""

    def combine(self, left: Value, right: Value, operator: ast.operator) -> Value:
        """What an operator makes of two values."""


class LoopQuestions(Protocol):
    """The loops of one file (`frequency/loops.py`)."""

    def enclosing(self, statement: ast.stmt) -> list[Loop]:
        """The loops of the same function around a statement, innermost first."""

    def classify(self, loop: Loop, function: FunctionInfo) -> LoopInfo:
        """What kind of loop this is."""

    def loader_in(self, iterable: ast.expr, function: FunctionInfo) -> str | None:
        """The text of the loader that an iterable walks over."""

    def makes_step(self, function: FunctionInfo, hops: int = 2) -> bool:
        """Whether one call of the function is one training step."""


class EntryPointQuestions(Protocol):
    """What names alone tell of how often statements of one file run (`frequency/entry_points.py`)."""

    def may_be_hot(self, statement: ast.stmt) -> bool:
        """False only if the statement is certainly cold."""

    def in_loop(self, statement: ast.stmt) -> bool:
        """Whether the statement stands in a loop that may take a batch per pass."""


class FrequencyQuestions(Protocol):
    """How often the statements of one file run (`frequency/execution.py`)."""

    recorder: DependencyRecorder
    reachability: dict[tuple[int, str], tuple[bool, int]]

    @property
    def inference(self) -> ValueQuestions:
        """The values of the file."""

    @property
    def loops(self) -> LoopQuestions:
        """The loops of the file."""

    @property
    def entry_points(self) -> EntryPointQuestions:
        """Where its steps may begin."""

    def home(self, function: FunctionInfo) -> FrequencyQuestions:
        """The answers of the file that the function stands in."""

    def may_be_hot(self, statement: ast.stmt) -> bool:
        """False only if the statement is certainly cold."""

    def of(self, statement: ast.stmt, ignore_sampling: bool = False) -> HotPath | None:
        """What repeats a statement in every step; None where it is cold, unknown, or seldom reached."""

    def within(self, statement: ast.stmt, ignore_sampling: bool = False) -> HotPath | None:
        """What the statement's own function tells of that."""

    def own_hot_path(self, function: FunctionInfo) -> HotPath | None:
        """What makes a function hot whoever calls it."""

    def sampled(self, statement: ast.stmt) -> bool:
        """Whether the statement would run in every step were it not for a sampling guard around it."""

    def sampled_on_the_way(self, statement: ast.stmt) -> bool:
        """Whether it would run in every step were it not for a sampling guard around it, or around a call."""

    def guarded_in_expression(self, statement: ast.stmt, call: ast.expr) -> bool:
        """Whether the call runs only now and then within its statement."""

    def bindings(self, function: FunctionInfo, name: str) -> list[ast.expr]:
        """What the function's plain assignments bind the name to."""

    def calls_of(self, function: FunctionInfo) -> Iterator[tuple[CallRecord, str]]:
        """Calls that may mean the function, and what else is to be said of them."""


class LoaderQuestions(Protocol):
    """The data loaders of one file (`loaders/loader_flow.py`)."""

    @property
    def runs_elsewhere(self) -> bool:
        """Whether the file is bound to the CPU, or to accelerators other than CUDA."""

    @property
    def index(self) -> Index:
        """The file."""

    @property
    def routes_here(self) -> dict[ast.Call, Route]:
        """The routes that lie in this file, by the call that builds the loader."""

    def route(self, loader: ast.Call) -> Route | None:
        """What shows that the batches of a loader go to an accelerator; None if nothing does."""

    def handed_on(self, loader: ast.Call, function: FunctionInfo) -> Iterator[FunctionInfo]:
        """The functions that get the loader from this one."""

    def files(self, loader: ast.Call) -> Iterator[Index]:
        """The files that the loader may be used in."""

    def samples(self, loader: ast.Call, function: FunctionInfo) -> Samples:
        """What can be told of the samples that a loader reads."""


class FileQuestions(Protocol):
    """One file, with the answers about it (`analyzed_file.py`)."""

    source: Source
    index: Index
    recorder: DependencyRecorder

    @property
    def program(self) -> ProjectQuestions | None:
        """The project that it belongs to, if there is one."""

    @property
    def exports(self) -> Exports:
        """What the names at its top level stand for."""

    @property
    def late_imports(self) -> dict[str, str]:
        """Name -> what it imports from the project, for the names that its top level binds by one import alone."""

    @property
    def code(self) -> Code:
        """What its code names."""

    @property
    def frequency(self) -> FrequencyQuestions:
        """How often its statements run."""

    @property
    def frequency_from_afar(self) -> FrequencyQuestions:
        """The same as another file asks for it."""

    @property
    def loops(self) -> LoopQuestions:
        """Its loops."""

    @property
    def entry_points(self) -> EntryPointQuestions:
        """Where its steps may begin."""

    @property
    def loading(self) -> LoaderQuestions:
        """Its data loaders."""

    def inference(self, level: int = FARTHEST) -> ValueQuestions:
        """The values of the file."""


class ProjectQuestions(Protocol):
    """All files of a project (`program.py`)."""

    recorder: DependencyRecorder

    def file_of(self, index: Index) -> FileQuestions:
        """The file that an index belongs to."""

    def inference(self, index: Index, level: int) -> ValueQuestions:
        """The values of the file that an index belongs to."""

    def reachability(self, index: Index, *, from_afar: bool) -> dict[tuple[int, str], tuple[bool, int]]:
        """What is known of which functions of the file may be hot."""

    def steps_called_in(self, index: Index) -> frozenset[str]:
        """Names that are called in the file, of functions anywhere that make a training step."""

    def calls_name(self, name: str, index: Index) -> bool:
        """Whether a file calls something of that name."""

    def calls_given(self, name: str, index: Index) -> bool:
        """Whether some function that goes by the name may call what it is given."""

    def speaks_of(self, topic: str, index: Index) -> bool:
        """Whether the file speaks of the topic, or one that imports tie it to."""

    def programs_with(self, index: Index) -> Sequence[FileQuestions]:
        """The programs that the file is part of, if all of them may be for CUDA alone."""

    def absolute(self, name: str, index: Index) -> str:
        """An imported name without the leading dots that it has in its file."""

    def meaning(self, ref: str, index: Index) -> Meaning | None:
        """What a dotted name, as the file's imports give it, stands for; None where the project cannot tell."""

    def name_of(self, cls: ClassInfo) -> str:
        """The dotted name of a class of the project."""

    def defines(self, ref: str, function: FunctionInfo) -> bool:
        """Whether a name that is taken for a library's is this function of the project."""

    def stands_in_file(self, ref: str, index: Index) -> bool:
        """Whether what a dotted name stands for is told by a file of the project."""

    def starred(self, name: str, index: Index) -> str | None:
        """What a name imports that `from module import *` binds in the file."""

    def known_elsewhere(self, function: FunctionInfo) -> bool:
        """Whether another file calls or imports anything of the function's name."""

    def calls_elsewhere(self, function: FunctionInfo, most: int) -> list[CallRecord]:
        """The calls in other files that may mean the function; none of them if there are more than `most`."""

    def handing_on(self, function: FunctionInfo) -> Sequence[FileQuestions]:
        """The other files that import the function by its name and hand it on."""

    def making(self, maker: FunctionInfo | ClassInfo, taker: str) -> Sequence[FileQuestions]:
        """The other files that import the function or class, and call it as well as something of the other name."""

    def heirs(self, cls: ClassInfo) -> list[ClassInfo]:
        """The classes that descend from the class."""

    def neighbours(self, index: Index) -> Sequence[FileQuestions]:
        """The files that import this one, and those that it imports."""

    def serves_accelerator(self, index: Index) -> bool:
        """Whether the file speaks of an accelerator, or a file that does imports it."""
