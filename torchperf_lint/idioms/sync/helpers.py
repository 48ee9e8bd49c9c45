"""Helper functions of the project that only read their argument, or only display what they receive."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Because
from torchperf_lint.knowledge.loggers import DISPLAY_WORDS, DISPLAYS, READER_ENDINGS
from torchperf_lint.model.handles import is_sampling_guard, last_name, runs_eagerly
from torchperf_lint.syntax.tree import children, subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import CallRecord, FunctionInfo
    from torchperf_lint.syntax import cst

_COPIES = frozenset({"cpu", "numpy", "tolist"})
_CONVERSIONS = frozenset({"float", "int"})
_KEEP_VALUE = frozenset("detach clone contiguous float double squeeze to".split())
_QUESTIONS = frozenset("isinstance hasattr is_tensor callable type len numel dim is_floating_point".split())
_HARMLESS_DECORATORS = frozenset("staticmethod classmethod no_grad inference_mode unused ignore".split())
_STATEMENTS = (ast.Return, ast.If, ast.Assign, ast.AnnAssign, ast.Raise, ast.Pass, ast.Assert)
_COMPUTES = (ast.BinOp, ast.Lambda, ast.comprehension, ast.Await, ast.NamedExpr)
_BRANCHES = (ast.If, ast.IfExp)


class HelperRead(NamedTuple):
    """A call of a function that only reads its argument on the host."""

    site: Site
    argument: cst.BaseExpression
    reader: str  # what it does with it: `item`, `float`, `int`, or `cpu` and the like
    because: Because

    @property
    def copies(self) -> bool:
        """Whether it copies a whole tensor, not one number."""
        return self.reader in _COPIES


def helper_reads(model: Model) -> tuple[HelperRead, ...]:
    """The calls of such functions in every step, in source order."""
    return model.remember("helper_reads", lambda: tuple(_helper_reads(model)))


def _helper_reads(model: Model) -> Iterator[HelperRead]:
    names = tuple(name for name in model.called_names if name.lower().endswith(READER_ENDINGS))
    for site in model.sites(names, True, lambda record: _reader(model, record) is not None):
        call = site.node
        function = model.value(call.func).function
        read = None if function is None else _only_read(model, function)
        if function is not None and read is not None:
            because = Because(read.lineno, f"`{function.name}` only reads its argument", function.path)
            yield HelperRead(site, call.args[0].value, last_name(read.func) or "", because)


def _reader(model: Model, record: CallRecord) -> ast.Call | None:
    """The read in the called function, if it does nothing else with its first argument."""
    if not record.call.args or isinstance(record.call.args[0], ast.Starred):
        return None
    function = model.value_alone(record.function, record.call.func).function
    stands_in_one = _only_read(model, record.function) is not None
    return None if function is None or stands_in_one else _only_read(model, function)


def stands_in_reader(model: Model, site: Site) -> bool:
    """Whether the site is in such a function: then its calls are reported instead.

    The calls of a function whose name does not say that it reads are not searched for. Its read is reported unless no
    call in a step gives it a device tensor: one call may run in every step, and another one have the tensor.
    """
    function = model.function_of(site)
    if not _reads_only(model, function):
        return False
    runs_later = isinstance(function.node, ast.AsyncFunctionDef)
    return (
        _is_named_so(function)
        or runs_later
        or not model.remember(
            ("read in a step", function), lambda: any(_gives_in_a_step(model, each) for each in model.callers(function))
        )
    )


def _gives_in_a_step(model: Model, record: CallRecord) -> bool:
    """Whether a call runs in every step and has a device tensor for its first argument, or does not show it there."""
    home, given = model.home(record.function), next(iter(record.call.args), None)
    if home.hot_path_of(record.statement) is None:
        return False
    if given is None or isinstance(given, ast.Starred):
        return True  # by keyword, or in what is unpacked: the read itself is judged by what the function gets
    return home.value_in(record.function, given).device.on_accelerator


def _only_read(model: Model, function: FunctionInfo) -> ast.Call | None:
    """The call by which a function that is named so reads its first parameter, doing nothing else; None for others."""
    return _read_of(model, function) if _is_named_so(function) else None


def _reads_only(model: Model, function: FunctionInfo) -> bool:
    """Whether a function of any name does nothing but read its first parameter."""
    return _read_of(model, function) is not None


def _is_named_so(function: FunctionInfo) -> bool:
    return function.name.lower().endswith(READER_ENDINGS)


def _read_of(model: Model, function: FunctionInfo) -> ast.Call | None:
    return model.remember(("only_read", function), lambda: _find_read(function))


def _find_read(function: FunctionInfo) -> ast.Call | None:
    names = function.parameter_names[function.self_name is not None :]
    if not names or function.is_generator or not _is_plain(function, names[1:]):
        return None
    held = {names[0]}
    reads: list[ast.Call] = []
    for node in function.nodes:
        if isinstance(node, ast.Assign) and _held_in(node.value, held):
            held.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.Call):
            name, receiver = last_name(node.func), getattr(node.func, "value", None)
            if isinstance(node.func, ast.Name):
                receiver = node.args[0] if name in _CONVERSIONS else None
            elif name not in _COPIES and name != "item":
                receiver = None
            if _held_in(receiver, held):
                reads.append(node)
    numbers = [read for read in reads if last_name(read.func) not in _COPIES]
    return next(iter(numbers or reads), None)


def _is_plain(function: FunctionInfo, others: list[str]) -> bool:
    """Whether the function only branches on its first parameter and reads it."""
    if any(last_name(getattr(each, "func", each)) not in _HARMLESS_DECORATORS for each in function.decorators):
        return False
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.stmt) and not isinstance(node, _STATEMENTS) and not _is_text(node):
            return False
        if isinstance(node, _COMPUTES):
            return False
        if isinstance(node, _BRANCHES) and any(
            isinstance(each, ast.Name) and each.id in others for each in subtree(node.test)
        ):
            return False
        if isinstance(node, ast.Call) and not _is_part_of_read(node, function.name):
            return False
        if not isinstance(node, ast.Raise):
            pending.extend(children(node))
    return True


def _is_part_of_read(call: ast.Call, own_name: str) -> bool:
    name = last_name(call.func)
    if name in _QUESTIONS or name == own_name or runs_eagerly(call) is not None:
        return True
    if isinstance(call.func, ast.Name):
        return name in _CONVERSIONS and len(call.args) == 1
    return name in _COPIES or name in _KEEP_VALUE or name == "item"


def _held_in(node: ast.expr | None, held: set[str]) -> bool:
    """Whether the expression is the value of one of the names, detached, copied or converted."""
    while node is not None and not isinstance(node, ast.Name):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        elif isinstance(node, ast.Attribute) and node.attr == "data":
            node = node.value
        else:
            return False
    return node is not None and node.id in held


def display_names(model: Model) -> list[str]:
    """The names of functions that the file calls and that may only display their arguments."""
    return [name for name in model.called_names if any(word in name.lower() for word in DISPLAY_WORDS)]


def only_shows(model: Model, function: FunctionInfo) -> bool:
    """Whether a function only prints or logs its arguments, in this process or in another."""
    return model.remember(("only_shows", function), lambda: _find_display(function))


def _find_display(function: FunctionInfo) -> bool:
    given = set(function.parameter_names[function.self_name is not None :])
    shows = False
    pending = list(function.body)
    while pending:
        statement = pending.pop()
        if isinstance(statement, ast.If) and not is_sampling_guard(statement.test, True, lambda name: []):
            pending += [*statement.body, *statement.orelse]
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            call = statement.value
            passed = {each.id for part in call.args for each in subtree(part) if isinstance(each, ast.Name)}
            shows = shows or (last_name(call.func) in DISPLAYS and bool(passed & given))
        elif not _is_text(statement) and not isinstance(statement, (ast.Pass, ast.Return)):
            return False
    return shows


def _is_text(statement: ast.AST) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
