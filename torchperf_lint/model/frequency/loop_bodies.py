"""What the syntax of a loop shows: the calls in it, the names that it makes from one another, the words it uses."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import conventions
from torchperf_lint.model.syntax.index import dotted, last_name
from torchperf_lint.model.syntax.iterables import counted, walked
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchperf_lint.model.domain.frequency import Loop
    from torchperf_lint.model.syntax.index import CallRecord, FunctionInfo

_FACTOR = 1.5
"""By what, or by the inverse of what, a number is multiplied at least in a search that ends after a few passes."""


def nexts(function: FunctionInfo) -> Iterator[tuple[CallRecord, ast.expr]]:
    """The calls `next(x)` and `x.next()` in the function, each with `x`."""
    for record in function.index.calls.get("next", ()):
        func, given = record.call.func, record.call.args
        if record.function is function and (given or isinstance(func, ast.Attribute)):
            yield record, given[0] if given else func.value


def counts(loop: ast.For | ast.AsyncFor) -> bool:
    """Whether the loop counts, also with a progress bar."""
    node = walked(loop.iter)
    return counted(node) is not None or (isinstance(node, ast.Call) and last_name(node.func) == "count")


def speaks_of_dataset(node: ast.AST) -> bool:
    """Whether the node is named as a dataset."""
    return isinstance(node, (ast.Name, ast.Attribute)) and "dataset" in (last_name(node) or "").lower()


def is_name(node: ast.expr | None, name: str) -> bool:
    """Whether the expression is the name alone."""
    return isinstance(node, ast.Name) and node.id == name


def evaluates_between_steps(function: FunctionInfo) -> bool:
    """`model.eval()` and `model.train()` in one function: training pauses here to evaluate."""
    return {"eval", "train"} <= {last_name(record.call.func) for record in function.calls_made if not record.call.args}


def names_given(record: CallRecord) -> set[str]:
    """The names in the arguments of a call."""
    given = [*record.call.args, *(keyword.value for keyword in record.call.keywords)]
    return {node.id for argument in given for node in subtree(argument) if isinstance(node, ast.Name)}


def made_of_item(loop: ast.For | ast.AsyncFor) -> set[str]:
    """The names of the loop's item, and of what its body computes from it."""
    made = {node.id for node in subtree(loop.target) if isinstance(node, ast.Name)}
    made_from(loop, lambda node: isinstance(node, ast.Name) and node.id in made, made)
    return made


def made_from(loop: Loop, counts: Callable[[ast.AST], bool], made: set[str]) -> None:
    """Add the names of what the loop's body computes from the nodes that count."""
    assigned = [node for node in subtree(loop) if isinstance(node, ast.Assign)]
    for _ in range(2):
        for each in assigned:
            if any(map(counts, subtree(each.value))):
                made.update(
                    name.id for target in each.targets for name in subtree(target) if isinstance(name, ast.Name)
                )


def searches(loop: Loop) -> bool:
    """Whether each pass doubles or halves what the loop's test compares, or its distance: it ends after a few passes.

    `while size <= most: ... size *= 2`, `while low <= high: middle = (low + high) // 2`.
    """
    if not isinstance(loop, ast.While) or not isinstance(loop.test, ast.Compare):
        return False
    compared = {each.id for each in (loop.test.left, *loop.test.comparators) if isinstance(each, ast.Name)}
    in_each_pass = list(_in_each_pass(loop.body))
    halved = (node for each in in_each_pass if isinstance(each, ast.Assign) for node in subtree(each.value))
    return any(_scales(each, compared) for each in in_each_pass) or any(_halves(node, compared) for node in halved)


def _in_each_pass(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that each pass runs, unless it leaves the loop: `if fits(size): size *= 2`, `else: break`."""
    for each in body:
        yield each
        if isinstance(each, ast.If) and each.orelse and isinstance(each.orelse[-1], (ast.Break, ast.Return)):
            yield from each.body
        elif isinstance(each, ast.If) and isinstance(each.body[-1], (ast.Break, ast.Return)):
            yield from each.orelse


def _scales(node: ast.AST, compared: set[str]) -> bool:
    if not isinstance(node, ast.AugAssign) or not isinstance(node.op, (ast.Mult, ast.Div, ast.FloorDiv)):
        return False
    factor = node.value.value if isinstance(node.value, ast.Constant) else None
    is_far_from_one = isinstance(factor, (int, float)) and (factor >= _FACTOR or 0 < factor <= 1 / _FACTOR)
    return is_far_from_one and isinstance(node.target, ast.Name) and node.target.id in compared


def _halves(node: ast.AST, compared: set[str]) -> bool:
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.FloorDiv, ast.Div, ast.RShift)):
        return False
    added = node.left if isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Add) else None
    names = {each.id for each in (added.left, added.right) if isinstance(each, ast.Name)} if added else set()
    return len(names) > 1 and names <= compared


def trains(record: CallRecord) -> bool:
    """`self.train_phase(target)`: the call is a training of its own, by its name."""
    return (last_name(record.call.func) or "").lower().startswith(("train", "fit"))


def names_model(record: CallRecord) -> bool:
    """Whether the call takes a model, or several: `generator.generate(models, batch)`."""
    given = [*record.call.args, *(keyword.value for keyword in record.call.keywords)]
    names = {last_name(each) or "" for each in given if isinstance(each, (ast.Name, ast.Attribute))}
    return any(name in conventions.MODEL_NAMES or name.removesuffix("s") in conventions.MODEL_NAMES for name in names)


def names_batches(iterable: ast.expr) -> bool:
    """Whether a name in the iterable speaks of batches or data."""
    names = [last_name(node) or "" for node in subtree(iterable) if isinstance(node, (ast.Name, ast.Attribute))]
    return any(word in name.lower() for name in names for word in ("batch", "data", "loader", "dataset", "iterator"))


def loader_text(iterable: ast.expr) -> str:
    """The name of the loader that the iterable walks, for a message."""
    if isinstance(iterable, ast.Call) and iterable.args:
        return loader_text(iterable.args[0])
    return dotted(iterable) or "the loader"


def call_text(record: CallRecord) -> str:
    """The call without its arguments, for a message."""
    return f"{ast.unparse(record.call.func)}()"


def step_loop(record: CallRecord) -> Loop | None:
    """The loop that makes a training call in each pass: the innermost, but for loops over optimizers or losses."""
    for loop in record.place.loops():
        if isinstance(loop, ast.While) or not _walks_parts(loop, record):
            return loop
    return None


def _walks_parts(loop: ast.For | ast.AsyncFor, record: CallRecord) -> bool:
    """`for optimizer in optimizers: optimizer.step()`: the loop's own item takes the step."""
    func = record.call.func
    receiver = dotted(func.value) if isinstance(func, ast.Attribute) else None
    targets = {node.id for node in subtree(loop.target) if isinstance(node, ast.Name)}
    return receiver is not None and receiver.partition(".")[0] in targets
