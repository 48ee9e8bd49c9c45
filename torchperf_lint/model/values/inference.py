"""Runs functions over an environment of Values, follows calls, and cuts cycles."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeVar

from torchperf_lint.model import bounds
from torchperf_lint.model.callgraph import calling, frameworks, implicit, registries, value_flow
from torchperf_lint.model.domain import provenance
from torchperf_lint.model.domain.frames import Env, Frame, Outcome, is_same
from torchperf_lint.model.domain.values import UNKNOWN, Device, Kind, Value, join_all, located
from torchperf_lint.model.project.inquiry import BEYOND, Inquiry
from torchperf_lint.model.project.query_cache import QueryCache
from torchperf_lint.model.syntax.index import CallRecord, ClassInfo, FunctionInfo, Index
from torchperf_lint.model.syntax.slices import Slice, slices_of
from torchperf_lint.model.values import (
    attributes,
    batches,
    class_hierarchy,
    host_uses,
    metrics,
    optimizers,
    parameters,
    results,
)
from torchperf_lint.model.values.annotations import annotated
from torchperf_lint.model.values.devices import default_device
from torchperf_lint.model.values.evaluate import Evaluator
from torchperf_lint.model.values.names import Names
from torchperf_lint.model.values.statements import Runner, merge_all

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.model.domain.contracts import Contract
    from torchperf_lint.model.domain.flows import Flow
    from torchperf_lint.model.domain.interfaces import FileQuestions, ProjectQuestions, ValueQuestions
    from torchperf_lint.model.project.exports import Exports
    from torchperf_lint.model.syntax.slices import Slices

_R = TypeVar("_R")

_DEFINED = (Kind.LIBRARY, Kind.FUNCTION, Kind.CLASS)
_NOTHING = Outcome(UNKNOWN, ())


class ValueInference:
    """Queries about the values of one file. Results are computed on demand and memoized."""

    def __init__(self, analyzed: FileQuestions) -> None:
        index, code, program = analyzed.index, analyzed.code, analyzed.program
        self.index: Index = index
        self.program: ProjectQuestions | None = program
        self._analyzed = analyzed
        self.default_device: Device | None = default_device(index, program)
        served = program is not None and program.serves_accelerator(index)
        self.cpu_only = frameworks.trains_on_cpu(code) or not (served or frameworks.speaks_of_accelerator(code))
        self.transforms_samples = frameworks.transforms_samples(code)
        self.counts_steps_on_host = frameworks.counts_steps_on_host(code)
        self._inquiry = Inquiry() if program is None else program.inquiry
        self._cache = QueryCache(analyzed.recorder, self._inquiry, is_same, self._rank)
        self.names = Names(self, analyzed)
        self._running: dict[tuple[FunctionInfo, Slice | None, int], Frame] = {}  # the int: the limit of calls up
        self._parts: dict[FunctionInfo, dict[Slice | None, None]] = {}  # the slices that have run; None: the whole
        self._asked: dict[FunctionInfo, int] = {}  # how many statements queries have asked to run so far

    def _rank(self, question: tuple[object, ...]) -> tuple[object, ...] | None:
        """A question's place in a fixed order; None for calls, whose questions hold values, and for implicit uses."""
        kind, about, *more = question
        if not isinstance(about, (FunctionInfo, ClassInfo)) or kind in ("call", "in call", "in object"):
            return None
        row, name = about.place
        rest = [each.place if isinstance(each, Slice) else each for each in more]
        return self.index.path, str(kind), row, name, str(rest)

    # -- queries -------------------------------------------------------------------------------------------------

    def home(self, index: Index) -> ValueQuestions:
        """The inference of the file that an index belongs to."""
        return self if index is self.index or self.program is None else self.program.inference(index)

    @property
    def exports(self) -> Exports:
        """What the names at the file's top level stand for."""
        return self._analyzed.exports

    def frame(self, function: FunctionInfo, part: Slice | None = None) -> Frame:
        """The function run in general: parameters from call sites, annotations, contracts and names.

        With `part`, only that slice runs.
        """
        home = self.home(function.index)
        if home is not self:
            return home.frame(function, part)
        return self._ask_by_calls_up(
            ("frame", function, part),
            lambda: self._run_in_general(function, part),
            lambda: self._so_far(function, part),
            lambda: Frame(function, part),
        )

    def frame_with(self, function: FunctionInfo, part: Callable[[Slices], Slice | None]) -> Frame:
        """The function run in general: that slice of it, or more.

        Slices overlap: once those queried have half as many statements as a function, all of it runs (never a module).
        """
        home = self.home(function.index)
        if home is not self:
            return home.frame_with(function, part)
        whole = ("frame", function, None)
        known = self._cache.reaches.get(whole)
        if known is not None and known[1] <= self._inquiry.context.calls_up and self._cache.has((*whole, known[0])):
            return self.frame(function)
        slices = slices_of(function)
        asked = part(slices)
        if asked is None:
            return self.frame(function)
        wider = self._wider(function, asked)
        if wider is not None:
            return wider
        self._asked[function] = self._asked.get(function, 0) + len(asked.run)
        goes_on = self._cache.depth or function.is_module or 2 * self._asked[function] <= slices.size
        return self.frame(function, asked if goes_on else None)

    def _wider(self, function: FunctionInfo, part: Slice) -> Frame | None:
        """A stored frame of the function that contains a slice which has not run: both give the same values."""
        limit = self._inquiry.context.calls_up
        if self._cache.has_under(limit, ("frame", function, part)):
            return None
        for each in self._parts.get(function, ()):
            if (each is None or each.contains(part)) and self._cache.has_under(limit, ("frame", function, each)):
                frame = self.frame(function, each)
                if frame.is_exact:
                    return frame
        return None

    def at_end(self, function: FunctionInfo, name: str) -> Value | None:
        """The value of a name (or path) after the function or module has run; None if it does not bind the name."""
        if function is self.index.module:
            may_be, definition = self.names.binding(name)
        else:
            may_be, definition = slices_of(function).may_bind(name), None
        if not may_be:
            return None
        if definition is not None:
            defined = self.names.defined(name, definition)
            if defined is None or defined.kind in _DEFINED:
                return defined
        value = self.frame_with(function, lambda slices: slices.at_end(name)).env.get(name)
        is_empty = value is not None and value.kind is Kind.CONTAINER and value.element is None
        return registries.entries(self.index, name) or value if is_empty and function is self.index.module else value

    def placed(self, function: FunctionInfo) -> tuple[Because, ...]:
        """Evidence that the function's tensors live where a module's inputs live; empty without evidence."""
        home = self.home(function.index)
        if home is not self:
            return home.placed(function)
        return self._ask_by_calls_up(("placed", function), lambda: parameters.placing(self, function), lambda: ())

    def called(
        self, function: FunctionInfo, arguments: list[Value], keywords: dict[str, Value], starred: bool = False
    ) -> Value:
        """What the function returns for these arguments."""
        if starred:
            return self.promise(function)
        returned = self.outcome(function, arguments, keywords, slices_of(function).of_results()).returned
        return results.beyond(self, function, arguments, keywords, returned)

    def promise(self, function: FunctionInfo) -> Value:
        """What the function's annotation says that it returns."""
        home = self.home(function.index)
        if home is not self:
            return home.promise(function)
        return self._ask_afresh(("promise", function), lambda: results.promised(self, function), lambda: UNKNOWN)

    def annotation(self, function: FunctionInfo, parameter: ast.arg) -> Value | None:
        """What the annotation of a parameter promises; None if the model does not know it, or there is none."""
        annotation = parameter.annotation
        if annotation is None:
            return None
        home = self.home(function.index)
        if home is not self:
            return home.annotation(function, parameter)
        question = ("annotation", function, parameter.arg)
        return self._ask_afresh(question, lambda: annotated(annotation, self, None, function), lambda: None)

    def overriding(self, function: FunctionInfo) -> tuple[FunctionInfo, ...]:
        """The methods that override one, if they may return tensors and are few."""
        home = self.home(function.index)
        if home is not self:
            return home.overriding(function)
        return self._ask_afresh(("overriding", function), lambda: results.overriding(self, function), tuple)

    def in_call(self, function: FunctionInfo, given: Env) -> Mapping[ast.expr, Value] | None:
        """The values of a call's expressions, for these parameters of a function of this file; None in a cycle."""
        bare, _ = provenance.strip(given)
        key = ("in call", function, tuple(sorted(bare.items(), key=lambda pair: pair[0])))
        return self._cache.ask(key, lambda: self._run_alone(function, bare).values, lambda: None)

    def in_object(self, function: FunctionInfo, cls: ClassInfo, node: ast.expr) -> Value:
        """The value of an expression in a method of this file that is called on an object of a subclass."""
        part = slices_of(function).of(node)

        def run() -> Mapping[ast.expr, Value]:
            own = parameters.own_object(self, function, cls)
            return self.alone(lambda: self._run(function, parameters.bind(self, function, [own], {}), part)).values

        values: Mapping[ast.expr, Value] = self._ask_afresh(("in object", function, part, cls), run, dict)
        return values.get(node, UNKNOWN)

    def _run_alone(self, function: FunctionInfo, bound: Env) -> Frame:
        return self.in_general(lambda: self.alone(lambda: self._run(function, bound, None)))

    def filled(self, function: FunctionInfo, arguments: list[Value], keywords: dict[str, Value]) -> Env:
        """The lists and dicts among these arguments that the function fills, by parameter."""
        part = slices_of(function).of_filling()
        return dict(self.outcome(function, arguments, keywords, part).filled)

    def outcome(
        self, function: FunctionInfo, arguments: list[Value], keywords: dict[str, Value], part: Slice
    ) -> Outcome:
        """The result of a call, and its arguments afterwards."""
        if not part.run and not function.is_lambda:
            return _NOTHING
        home = self.home(function.index)
        if home is not self:
            given = [located(value, self.index.path) for value in arguments]
            named = {name: located(value, self.index.path) for name, value in keywords.items()}
            there = home.outcome(function, given, named, part)
            filled = tuple((name, located(value, home.index.path)) for name, value in there.filled)
            return Outcome(located(there.returned, home.index.path), filled)
        context = self._inquiry.context
        if len(context.calls) >= bounds.MOST_CALLS_DEEP or context.budget.statements >= bounds.MOST_STATEMENTS_FOLLOWED:
            self._cache.mark_cut_off(context.origin)
            return _NOTHING
        before = [depth for called, depth in context.calls if called is function]
        if len(before) > bounds.MOST_RECURSION:
            # Recursive calls may have ever new arguments.
            self._cache.mark_cut_off(before[0])
            return _NOTHING
        bound = parameters.bind(self, function, arguments, keywords)
        if not function.is_generator and not function.is_lambda:
            bound = {name: value for name, value in bound.items() if name in part.names}
        bare, shown = provenance.strip(bound)
        key = ("call", function, part, tuple(sorted(bare.items(), key=lambda pair: pair[0])))
        deeper = context._replace(calls=(*context.calls, (function, self._cache.depth)))
        outcome = self._inquiry.within(
            deeper,
            lambda: self._cache.ask(
                key, lambda: self._followed(function, bare, part), lambda: _NOTHING, is_bounded=True
            ),
        )
        filled = tuple((name, provenance.restore(value, shown)) for name, value in outcome.filled)
        return Outcome(provenance.restore(outcome.returned, shown), filled)

    def _followed(self, function: FunctionInfo, bound: Env, part: Slice) -> Outcome:
        self._inquiry.context.budget.statements += len(part.run)
        if isinstance(function.node, ast.Lambda):
            returned, frame = function.node.body, Frame(function)
            frame.is_call = True
            return Outcome(self.alone(lambda: Evaluator(self, frame)(returned, bound)), ())
        frame = self.alone(lambda: self._run(function, bound, part))
        if function.is_generator:
            return Outcome(batches.generated(frame, bound), ())
        return Outcome(join_all(frame.returns), tuple(parameters.put_into(frame, bound)))

    def attribute(self, cls: ClassInfo, name: str) -> Value:
        """The value of `self.name`, joined over all statements setting it in the class and its bases of the program."""
        return self._ask_afresh(("attribute", cls, name), lambda: attributes.joined(self, cls, name), lambda: UNKNOWN)

    def optimizer_state(self, cls: ClassInfo) -> Value:
        """The value of `self.state` in an optimizer's class."""
        return self._ask_afresh(("state", cls), lambda: optimizers.state(self, cls), lambda: UNKNOWN)

    def instance(self, cls: ClassInfo, base: str | None = None) -> Value:
        """A new object of the class: a metric, a module, an optimizer, or a plain instance."""
        refs = self.library_bases(cls)
        metric = metrics.aggregator(self, cls, base)
        if metric is not None:
            return Value(Kind.METRIC, cls=cls, ref=metric)
        kind = Kind.MODULE if frameworks.is_module(refs) or self._acts_as_module(cls, refs) else Kind.INSTANCE
        if kind is Kind.INSTANCE and frameworks.is_optimizer(refs):
            kind = Kind.OPTIMIZER
        return Value(kind, cls=cls, ref=next(iter(refs), None))

    def _acts_as_module(self, cls: ClassInfo, refs: list[str]) -> bool:
        if not frameworks.has_unknown_base(refs):
            return False
        return self._ask_afresh(
            ("module", cls), lambda: class_hierarchy.acts_as_module(self, self.lineage(cls)), lambda: False
        )

    def lineage(self, cls: ClassInfo) -> list[ClassInfo]:
        """The class and its bases in the program, nearest first."""
        home = self.home(cls.index)
        if home is not self:
            return home.lineage(cls)
        return self._ask_afresh(("lineage", cls), lambda: class_hierarchy.lineage(self, cls), lambda: [cls])

    def library_bases(self, cls: ClassInfo) -> list[str]:
        """Qualified names of the library classes that it inherits from."""
        home = self.home(cls.index)
        if home is not self:
            return home.library_bases(cls)
        return self._ask_afresh(("bases", cls), lambda: class_hierarchy.library_bases(self, self.lineage(cls)), list)

    def base_names(self, cls: ClassInfo) -> list[str]:
        """Qualified names of all its bases: of libraries, and of the program."""
        own = [] if self.program is None else [self.program.name_of(base) for base in self.lineage(cls)[1:]]
        return [*self.library_bases(cls), *own]

    def method(self, cls: ClassInfo, name: str) -> FunctionInfo | None:
        """The method of that name, looked up through the class and its bases in the program."""
        for owner in self.lineage(cls):
            if name in owner.methods:
                return owner.methods[name]
        return None

    def frame_value(self, function: FunctionInfo, node: ast.expr) -> Value:
        """The value of an expression in the function."""
        if function.index is self.index and slices_of(function).is_from_outside(node):
            name = function.self_name
            env = {} if name is None else {name: parameters.own_object(self, function)}
            return self.in_general(lambda: Evaluator(self, Frame(function))(node, env))
        value = self.frame_with(function, lambda slices: slices.of(node)).values.get(node, UNKNOWN)
        return value if function.index is self.index else located(value, function.index.path)

    def parts(self, record: CallRecord, *nodes: ast.expr) -> list[Value]:
        """The values of expressions in a call, without running the rest of its statement."""
        function = record.function
        if function.index is self.index and all(map(slices_of(function).is_from_outside, nodes)):
            return [self.frame_value(function, node) for node in nodes]
        values = self.frame_with(function, lambda slices: slices.of_parts(record.statement, nodes)).values
        found = [values.get(node, UNKNOWN) for node in nodes]
        return found if function.index is self.index else [located(value, function.index.path) for value in found]

    def values_of(self, function: FunctionInfo, statement: ast.stmt) -> Mapping[ast.expr, Value]:
        """The values of a statement's expressions, without those of its nested statements."""
        return self.frame_with(function, lambda slices: slices.of_statement(statement)).values

    def files_passing(self, function: FunctionInfo) -> list[ValueQuestions]:
        """The files that may pass the function on by its name: its own, and those that import it."""
        if self.program is None or function.outer is not self.index.module:
            return [self]
        return [self, *(analyzed.inference() for analyzed in self.program.files_passing(function))]

    def making(self, maker: FunctionInfo | ClassInfo | None, taker: str) -> list[ValueQuestions]:
        """The other files that may pass what the function or class makes to something called `taker`."""
        if self.program is None or maker is None:
            return []
        return [analyzed.inference() for analyzed in self.program.making(maker, taker)]

    def contract(self, function: FunctionInfo) -> Contract | None:
        """The framework's contract for the function; None if no framework calls it."""
        return self._ask_by_calls_up(
            ("contract", function), lambda: frameworks.contract_of(self, function), lambda: None
        )

    def callers(self, function: FunctionInfo) -> tuple[CallRecord, ...]:
        """The calls in the program that reach the function."""
        return self._ask_by_calls_up(("callers", function), lambda: tuple(calling.callers(self, function)), tuple)

    def flows(self, function: FunctionInfo) -> tuple[Flow, ...]:
        """The calls that the function reaches as a value."""
        home = self.home(function.index)
        if home is not self:
            return home.flows(function)
        return self._ask_afresh(("flows", function), lambda: value_flow.flows(self, function), tuple)

    def implicit_uses(self, name: str, is_property: bool) -> implicit.Uses:
        """The expressions of this file that run a method of that name without calling it, by method and by class."""
        question = ("implicit", name, is_property)
        return self._ask_by_calls_up(question, lambda: implicit.uses_in_file(self, name, is_property), dict)

    def may_be_hot(self, record: CallRecord) -> bool:
        """Whether the call may run in every step, judged by names alone."""
        index = record.function.index
        analyzed = self._analyzed if index is self.index or self.program is None else self.program.file_of(index)
        return analyzed.frequency.may_be_hot(record.statement)

    def given_to(self, node: ast.Lambda) -> Env:
        """The parameters of a lambda, by the calls of it that are known; unknown where its body matters to no rule."""
        function = self.lambda_of(node)
        matters = function.parameter_names and any(isinstance(each, ast.Call) for each in function.nodes)
        return self.frame(function).env if matters else dict.fromkeys(function.parameter_names, UNKNOWN)

    def lambda_of(self, node: ast.Lambda) -> FunctionInfo:
        """The function that a lambda of this file makes."""
        index = self.index
        return index.note("lambdas", lambda: index.reads.unheard(lambda: _lambdas(index)))[node]

    # -- running a function --------------------------------------------------------------------------------------

    def _run_in_general(self, function: FunctionInfo, part: Slice | None) -> Frame:
        try:
            return self.in_general(lambda: self._run(function, None, part))
        finally:
            self._running.pop((function, part, self._inquiry.context.calls_up), None)

    def in_general(self, answer: Callable[[], _R]) -> _R:
        """A result that does not depend on how many calls have been followed so far."""
        return self._inquiry.in_general(answer)

    def alone(self, answer: Callable[[], _R]) -> _R:
        """A result computed without looking at any function's callers."""
        return self._inquiry.alone(answer)

    def one_call_up(self, answer: Callable[[], _R]) -> _R | None:
        """A result from a function's callers; None beyond the limit of calls up."""
        return self._inquiry.one_call_up(answer)

    def seen_alone(self, function: FunctionInfo, node: ast.expr) -> Value:
        """The value of an expression, ignoring the function's callers."""
        return self.alone(lambda: self.frame_value(function, node))

    def _ask_afresh(self, question: tuple[object, ...], compute: Callable[[], _R], default: Callable[[], _R]) -> _R:
        """A result that is the same whoever asks."""
        return self._cache.ask(question, lambda: self._inquiry.afresh(compute), default)

    def _ask_by_calls_up(
        self,
        question: tuple[object, ...],
        compute: Callable[[], _R],
        default: Callable[[], _R],
        unsettled: Callable[[], _R] | None = None,
    ) -> _R:
        """A result that may depend on callers, and on their callers, up to the current limit.

        A result that did not reach the limit is reused for every limit that is at least its reach.
        """
        inquiry = self._inquiry
        limit = inquiry.context.calls_up
        calls_up = self._cache.limit_of(question, limit)
        before, inquiry.reach = inquiry.reach, 0

        def work_out() -> tuple[_R, int]:
            inquiry.reach = 0
            return compute(), inquiry.reach

        asked = (*question, calls_up)
        at_last = None if unsettled is None else lambda: (unsettled(), BEYOND)
        answer, reach = self._cache.ask(asked, work_out, lambda: (default(), BEYOND), at_last)
        if reach <= limit and self._cache.has(asked):
            self._cache.reaches.setdefault(question, (calls_up, reach))
        inquiry.reach = max(before, reach)
        return answer

    def _so_far(self, function: FunctionInfo, part: Slice | None) -> Frame:
        """The frame of a function that is running: calls it makes already see the module's classes."""
        return self._running.get((function, part, self._inquiry.context.calls_up)) or Frame(function, part)

    def _run(self, function: FunctionInfo, bound: Env | None, part: Slice | None) -> Frame:
        frame = Frame(function, part)
        frame.is_call = bound is not None
        frame.on_host = host_uses.shown_on_host(function)
        evaluator = Evaluator(self, frame)
        env: Env = {}
        if not function.is_module:
            env = parameters.initial(self, frame) if bound is None else dict(bound)
        env.update({name: host_uses.on_host(env[name], shown) for name, shown in frame.on_host.items() if name in env})
        frame.env = env
        if bound is None:
            self._running[function, part, self._inquiry.context.calls_up] = frame
            self._parts.setdefault(function, {})[part] = None
        runner = Runner(self, evaluator, frame, part)
        final = runner.block(function.body if part is None else function.block, env)
        merged = runner.exits if final is None else [*runner.exits, final]
        if merged:
            frame.env = merged[0] if len(merged) == 1 else merge_all(merged)
        # A cycle may settle in more than one way, and a slice of it is another cycle.
        if self._inquiry.is_in_cycle or self._inquiry.context.budget.statements >= bounds.MOST_STATEMENTS_FOLLOWED:
            frame.is_exact = False
        return frame


def _lambdas(index: Index) -> dict[ast.AST, FunctionInfo]:
    return {each.node: each for found in index.lambdas.values() for each in found}
