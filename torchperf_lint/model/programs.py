"""Programs that run on no accelerator but CUDA: every run of them executes a statement that raises without CUDA."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.model import bounds
from torchperf_lint.model.syntax import finding
from torchperf_lint.model.syntax.index import dotted, last_name
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model.domain.interfaces import FileQuestions, ValueQuestions
    from torchperf_lint.model.syntax.index import FunctionInfo

_AVAILABLE = "torch.cuda.is_available"
_ENDS = frozenset({"sys.exit", "exit", "quit", "os._exit"})


def needs_cuda(analyzed: FileQuestions) -> bool:
    """Whether each program that the file is part of raises without CUDA, whatever its options."""
    analyzed_files = [analyzed] if analyzed.program is None else analyzed.program.programs_with(analyzed.index)
    return bool(analyzed_files) and all(map(_raises_without_cuda, analyzed_files))


def _raises_without_cuda(analyzed: FileQuestions) -> bool:
    inference = analyzed.inference()
    return any(
        _asks_for_cuda(statement, function, inference) and _always_runs(statement, function, frozenset({function}))
        for function in analyzed.index.functions
        for statement in function.statements
    )


def _asks_for_cuda(statement: ast.stmt, function: FunctionInfo, inference: ValueQuestions) -> bool:
    """A check that ends the program without CUDA, a process group over NCCL, or a CUDA device set by index."""

    def ref(node: ast.expr) -> str:
        return inference.frame_value(function, node).ref or ""

    def says_available(node: ast.expr) -> bool:
        parts = node.values if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And) else [node]
        return any(isinstance(part, ast.Call) and ref(part.func) == _AVAILABLE for part in parts)

    if isinstance(statement, ast.Assert):
        return says_available(statement.test)
    if isinstance(statement, ast.If) and isinstance(statement.test, ast.UnaryOp):
        is_missing = isinstance(statement.test.op, ast.Not) and says_available(statement.test.operand)
        return is_missing and _ends(statement.body[-1])
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return False
    given = [*call.args[:1], *(each.value for each in call.keywords if each.arg in ("backend", "device"))]
    name = last_name(call.func)
    if name == "init_process_group" and ref(call.func).startswith("torch.distributed."):
        return any(isinstance(each, ast.Constant) and each.value == "nccl" for each in given)
    return name == "set_device" and ref(call.func) == "torch.cuda.set_device" and any(map(_is_index, given))


def _is_index(node: ast.expr) -> bool:
    """Whether the argument cannot be negative. Options often default to -1, for which no device is selected."""
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    if isinstance(node, ast.Call) and last_name(node.func) == "int":
        return any(isinstance(part, ast.Attribute) and part.attr == "environ" for part in subtree(node))
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)


def _ends(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(statement, ast.Raise) or (isinstance(call, ast.Call) and dotted(call.func) in _ENDS)


def _always_runs(statement: ast.stmt, function: FunctionInfo, seen: frozenset[FunctionInfo]) -> bool:
    """Whether each run of the file as a program reaches the statement."""
    index = function.index
    outer: ast.stmt | None = statement
    while outer is not None:
        place = index.places[outer]
        if isinstance(place.parent, ast.If):
            if place.field != "body" or not _is_main_guard(place.parent.test):
                return False
        elif place.parent is not None and not isinstance(place.parent, (ast.With, ast.AsyncWith)):
            return False
        outer = place.parent
    before = [each for each in function.statements if each.lineno < statement.lineno]
    if any(isinstance(each, ast.Return) or (_ends(each) and not isinstance(each, ast.Raise)) for each in before):
        return False
    if function is index.module:
        return True
    if len(seen) > bounds.MOST_CALLS_TO_RAISE or function.cls is not None or function.outer is not index.module:
        return False
    if function.decorators and index.bound_names(index.module).count(function.name) != 1:
        return False
    records = [*index.calls.get(function.name, ()), *index.handed.get(function.name, ())]
    return any(
        each.function not in seen
        and finding.means_module_function(index, function.name, each.function, function)
        and _is_started(each.call, function.name)
        and _always_runs(each.statement, each.function, seen | {each.function})
        for each in records
    )


def _is_started(call: ast.Call, name: str) -> bool:
    """Whether the call is one of the function, or starts processes that run it: `mp.spawn(main, ...)`."""
    if isinstance(call.func, ast.Name) and call.func.id == name:
        return True
    return last_name(call.func) == "spawn" and bool(call.args) and last_name(call.args[0]) == name


def _is_main_guard(test: ast.expr) -> bool:
    names = {node.id for node in subtree(test) if isinstance(node, ast.Name)}
    texts = {node.value for node in subtree(test) if isinstance(node, ast.Constant)}
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], ast.Eq)
        and names == {"__name__"}
        and texts == {"__main__"}
    )
