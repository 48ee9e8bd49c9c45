"""Contracts of functions that a framework is given: ignite's process functions and handlers, hooks, objectives."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.knowledge import hooks
from torchperf_lint.model.callgraph import calling
from torchperf_lint.model.domain.contracts import Contract
from torchperf_lint.model.domain.values import Device, Kind, Value
from torchperf_lint.model.syntax.index import last_name, names_in
from torchperf_lint.syntax.tree import own_expressions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import CallRecord, FunctionInfo

_TRAINER, _ENGINE = "Trainer", "Engine"
_TAKERS = (
    _ENGINE,
    *sorted(hooks.EVENT_TAKERS),
    "on",
    *hooks.FUNCTION_KEYWORDS,
    *sorted(hooks.MINIMIZERS),
    _TRAINER,
    *hooks.FORWARD_HOOK_REGISTRARS,
)
"""The last names of all that takes a function to call it for every batch."""


def of_callback(inference: ValueQuestions, function: FunctionInfo) -> Contract | None:
    """The contract of a function passed to a framework by name: ignite's process functions, handlers, torch's hooks."""
    for decorator in function.decorators:
        handled = decorator.args if isinstance(decorator, ast.Call) and last_name(decorator.func) == "on" else []
        if any(map(_is_hot_event, handled)):
            made = Contract(True, _says_handler(inference, handled[0]))
            return made if _has_ignite(inference) else made._replace(is_likely=True)
    if takes_gradients(function):
        return Contract(True, "DistributedDataParallel calls its communication hook in every backward pass")
    taken = next(filter(None, (_by_argument(home, function) for home in _files_passing(inference, function))), None)
    return taken or _by_annotation(inference, function)


def of_process(inference: ValueQuestions, function: FunctionInfo) -> Contract | None:
    """The contract of a method that a subclass of ignite's Engine passes to `super().__init__` as process function."""
    for record in calling.handed_over(inference, function, ("__init__",)):
        maker = record.function
        if maker.name != "__init__" or maker.cls is None:
            continue
        if any(name.rpartition(".")[2] == _ENGINE for name in inference.base_names(maker.cls)):
            says = "ignite's Engine calls this method for every batch"
            return _processes(function, says)._replace(row=record.call.lineno, path=maker.index.path)
    return None


def _processes(function: FunctionInfo, says: str) -> Contract:
    """The contract of ignite's process functions: they get the engine, and a batch as the loader yields it."""
    given = function.parameter_names[function.self_name is not None :]
    return Contract(True, says, tensors=frozenset(given[1:2]))


def _by_annotation(inference: ValueQuestions, function: FunctionInfo) -> Contract | None:
    """The contract of `f(engine: Engine, batch)`: only a process function of ignite has these two parameters."""
    annotation = of_engine_and_batch(function)
    if annotation is None:
        return None
    engine = next(filter(None, (_engine(inference, name) for name in names_in(annotation))), None)
    if engine is None:
        return None
    says = "ignite's Engine calls a function of this and a batch for every batch"
    contract = _processes(function, says)
    cls = engine.cls
    return contract if cls is None else contract._replace(row=cls.row, path=cls.index.path)


def of_engine_and_batch(function: FunctionInfo) -> ast.expr | None:
    """The annotation of the first of two parameters, if the second has the name of a batch."""
    arguments = function.arguments
    given = [] if arguments is None else arguments.args[function.self_name is not None :]
    is_so = len(given) == 2 and given[1].arg.startswith("batch") and not given[1].arg.startswith("batches")
    return given[0].annotation if is_so else None


def _engine(inference: ValueQuestions, name: str) -> Value | None:
    """The value of the name, if it is ignite's Engine or a subclass."""
    value = inference.names.at_top(name)
    names = [value.ref or ""] if value.cls is None else inference.library_bases(value.cls)
    is_engine = any(each.startswith("ignite.") and each.endswith(".Engine") for each in names)
    return value if is_engine else None


def _files_passing(inference: ValueQuestions, function: FunctionInfo) -> Sequence[ValueQuestions]:
    """The files that may pass the function to a framework: itself, in an object, or as another function's result."""
    cls, outer = function.cls, function.outer
    if function.is_lambda:
        return [inference]
    if cls is None and outer is function.index.module:
        return inference.files_passing(function)
    if cls is not None and function.name != "__call__":
        return [inference.home(index) for index in dict.fromkeys(owner.index for owner in inference.lineage(cls))]
    return [inference, *inference.making(cls or outer, _ENGINE)]


def takes_gradients(function: FunctionInfo) -> bool:
    """Whether a parameter is annotated as a bucket of gradients: a communication hook, or a part of one."""
    arguments = function.arguments
    named = [] if arguments is None else [*arguments.posonlyargs, *arguments.args]
    return any(
        hooks.GRADIENT_BUCKET in (last_name(each.annotation), getattr(each.annotation, "value", None))
        for each in named
        if each.annotation is not None
    )


def without_partial(node: ast.expr) -> ast.expr:
    """`f` of `partial(f, ...)`."""
    return node.args[0] if isinstance(node, ast.Call) and last_name(node.func) == "partial" and node.args else node


def _is_temporary(record: CallRecord) -> bool:
    """Whether a hook is only temporary: registered by a context manager, or removed where it is registered."""
    caller = record.function
    in_context = caller.cls is not None and "__exit__" in caller.cls.methods
    return in_context or any(last_name(each.call.func) == "remove" and not each.call.args for each in caller.calls_made)


def _of_registrar(registrar: str, record: CallRecord, path: str) -> Contract:
    says = f"`{registrar}` has it called for every batch"
    return Contract(True, says, Device.LIKELY, all_tensors=True, row=record.call.lineno, path=path)


def _by_argument(inference: ValueQuestions, function: FunctionInfo) -> Contract | None:
    """The contract under which this file passes the function to a framework."""
    index, calls = inference.index, inference.index.calls
    if not index.note("takers", lambda: frozenset(each for each in _TAKERS if each in calls)):
        return None

    def means(node: ast.expr, record: CallRecord) -> bool:
        if isinstance(node, ast.IfExp):
            return means(node.body, record) or means(node.orelse, record)
        if function.is_lambda:
            return node is function.node
        if function.cls is not None and function.name != "__call__":
            return calling.is_meant(inference, node, record, function)
        if function.cls is None and function.index is inference.index and not isinstance(node, ast.Call):
            return isinstance(node, ast.Name) and node.id == function.name and _is_in_scope(function, record.function)
        given = inference.frame_value(record.function, node)
        if given.cls is not None and given.kind is Kind.INSTANCE:
            return inference.method(given.cls, "__call__") is function
        return given.function is function

    def contract(record: CallRecord, says: str) -> Contract:
        return Contract(True, says, row=record.call.lineno, path=inference.index.path)

    for record in calls.get(_ENGINE, ()):
        if record.call.args and means(record.call.args[0], record):
            ref = inference.frame_value(record.function, record.call.func).ref or ""
            if ref.startswith("ignite."):
                made = _processes(function, "ignite's Engine calls this function for every batch")
                return made._replace(row=record.call.lineno, path=inference.index.path)
    for handled in _handlers(inference):
        if means(handled.handler, handled.record):
            made = contract(handled.record, _says_handler(inference, handled.event))
            return made if _has_ignite(inference) else made._replace(is_likely=True)
    for taker, words in hooks.FUNCTION_KEYWORDS.items():
        for record in calls.get(taker, ()):
            if any(keyword.arg in words and means(keyword.value, record) for keyword in record.call.keywords):
                return contract(record, f"`{taker}` has it called for every batch")
    for taker in sorted(hooks.MINIMIZERS):
        for record in calls.get(taker, ()):
            given = [
                *record.call.args[:1],
                *(each.value for each in record.call.keywords if each.arg in hooks.MINIMIZED),
            ]
            ref = inference.frame_value(record.function, record.call.func).ref or ""
            if ref.startswith("scipy.optimize.") and any(means(without_partial(each), record) for each in given):
                made = contract(record, f"SciPy's `{taker}` calls it for each point of its search")
                return made._replace(arrays=frozenset(function.parameter_names[function.self_name is not None :][:1]))
    if _evaluates_by_batch(inference):
        for record in calls.get(_TRAINER, ()):
            if any(given.arg == "compute_metrics" and means(given.value, record) for given in record.call.keywords):
                says = "the Trainer calls `compute_metrics` for every batch under `batch_eval_metrics=True`"
                return contract(record, says)
    for registrar in hooks.FORWARD_HOOK_REGISTRARS:
        for record in calls.get(registrar, ()):
            is_meant = any(means(without_partial(given), record) for given in record.call.args[:1])
            if is_meant and not _is_temporary(record):
                return _of_registrar(registrar, record, inference.index.path)
    return None


class _Handled(NamedTuple):
    """An event of each step and the function that handles it, as a call gives them to an engine."""

    event: ast.expr
    handler: ast.expr
    record: CallRecord


def _handlers(inference: ValueQuestions) -> Iterator[_Handled]:
    """`engine.add_event_handler(Events.ITERATION_COMPLETED, f)` and `engine.on("batch_end")(f)` in the file."""
    calls = inference.index.calls
    for taker in sorted(hooks.EVENT_TAKERS):
        for record in calls.get(taker, ()):
            if len(record.call.args) > 1 and _is_hot_event(record.call.args[0]):
                yield _Handled(record.call.args[0], without_partial(record.call.args[1]), record)
    for record in calls.get("on", ()):
        if record.call.args and _is_hot_event(record.call.args[0]):
            event = record.call.args[0]
            made = (each for each in own_expressions(record.statement) if isinstance(each, ast.Call))
            given = (each.args[0] for each in made if each.func is record.call and each.args)
            yield from (_Handled(event, handler, record) for handler in given)


def _has_ignite(inference: ValueQuestions) -> bool:
    """Whether the file imports ignite."""
    names = inference.names
    return any((value.ref or "").startswith("ignite.") for value in names.all_at_top())


def _says_handler(inference: ValueQuestions, event: ast.expr) -> str:
    if _has_ignite(inference):
        return "ignite calls this handler at every iteration"
    return f"this handles `{ast.unparse(event)}`, which happens in every step by its name"


def _is_in_scope(function: FunctionInfo, caller: FunctionInfo) -> bool:
    """Whether the function is in scope at the caller."""
    around: FunctionInfo | None = caller
    while around is not None and around is not function.outer:
        around = around.outer
    return around is not None


def _evaluates_by_batch(inference: ValueQuestions) -> bool:
    """Whether some arguments of a Trainer in this file say `batch_eval_metrics=True`."""
    return any(
        keyword.arg == "batch_eval_metrics" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
        for name in ("TrainingArguments", "Seq2SeqTrainingArguments")
        for record in inference.index.calls.get(name, ())
        for keyword in record.call.keywords
    )


def _is_hot_event(event: ast.expr) -> bool:
    """`Events.ITERATION_COMPLETED` and `"batch_end"`, but not `Events.ITERATION_COMPLETED(every=100)`."""
    if isinstance(event, ast.BinOp):
        return _is_hot_event(event.left) or _is_hot_event(event.right)
    name = event.value if isinstance(event, ast.Constant) else getattr(event, "attr", None)
    return isinstance(name, str) and hooks.HOT_EVENTS.match(name) is not None
