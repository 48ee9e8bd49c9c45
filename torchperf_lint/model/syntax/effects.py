"""The effects of a statement: names and dotted paths that it reads, binds and changes, from its text alone."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import conventions
from torchperf_lint.knowledge.containers import GROW
from torchperf_lint.knowledge.torch_api import RESHAPE_IN_PLACE, TENSOR_ONLY_METHODS
from torchperf_lint.model.syntax.device_tests import device_test
from torchperf_lint.model.syntax.index import dotted, last_name
from torchperf_lint.syntax.tree import children

if TYPE_CHECKING:
    from collections.abc import Iterator

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

_CHANGE_RECEIVER = GROW | RESHAPE_IN_PLACE | frozenset("update setdefault to cuda cpu".split())
_PLACE_NOTHING = frozenset(
    "no_grad enable_grad set_grad_enabled inference_mode autocast open nullcontext suppress profile record_function "
    "no_sync accumulate join catch_warnings patch raises warns".split()
)
"""Names of contexts that are no devices."""

_MOVERS = frozenset({"to", "cuda", "cpu"})
_OF_MOVERS = frozenset("to cuda gpu device move transfer send put place".split())
"""Words in the names of functions that move what they are given."""

_MAKE_HOLDERS = frozenset({"list", "dict", "defaultdict", "OrderedDict"})
_BUILTINS = frozenset(dir(builtins))


def own_parts(statement: ast.stmt) -> Iterator[ast.AST]:
    """The parts of a statement that run before (or instead of) its nested statements."""
    if isinstance(statement, FUNCTIONS):
        yield from statement.decorator_list
        yield from (each for each in (*statement.args.defaults, *statement.args.kw_defaults) if each is not None)
        return
    for child in children(statement):
        if isinstance(child, (ast.expr, ast.withitem, ast.keyword)):
            yield child
        elif isinstance(child, ast.ExceptHandler) and child.type is not None:
            yield child.type
        elif isinstance(child, ast.match_case) and child.guard is not None:
            yield child.guard


def blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks of a compound statement."""
    for field in ("body", "orelse", "finalbody"):
        block = getattr(statement, field, None)
        if block:
            yield block
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def sent(call: ast.AST) -> Iterator[str]:
    """The name of what a call such as `batch_to_device(batch, device)` may move in place, by the function's name."""
    name = (last_name(call.func) or "").lower() if isinstance(call, ast.Call) else ""
    if isinstance(call, ast.Call) and name not in _MOVERS and not _OF_MOVERS.isdisjoint(name.split("_")):
        yield from (each.id for each in call.args[:1] if isinstance(each, ast.Name))


def holders(block: list[ast.stmt]) -> Iterator[str]:
    """The names that the block's statements bind to a list or dict created there."""
    for statement in block:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                pairs = [(target, statement.value)]
                if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
                    pairs = list(zip(target.elts, statement.value.elts, strict=False))
                for name, made in pairs:
                    is_made = isinstance(made, (ast.List, ast.Dict, ast.ListComp, ast.DictComp)) or (
                        isinstance(made, ast.Call) and last_name(made.func) in _MAKE_HOLDERS
                    )
                    if is_made and isinstance(name, ast.Name):
                        yield name.id
        elif not isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            for inner in blocks(statement):
                yield from holders(inner)


def read(part: ast.AST, reads: set[str], binds: set[str], holders: set[str]) -> None:
    """Add to `reads` and `binds` what a part of a statement reads, and what it binds or changes.

    `holders` are the function's own lists and dicts; a call may fill those that it gets as arguments.
    """
    pending = [part]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in _BUILTINS):
            binds.update(given.id for given in node.args if isinstance(given, ast.Name) and given.id in holders)
            binds.update(sent(node))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CHANGE_RECEIVER:
            changed = node.func.value
            while isinstance(changed, ast.Subscript) and node.func.attr in GROW:
                changed = changed.value
            receiver = dotted(changed)
            if receiver is not None:
                binds.add(receiver)
        if isinstance(node, (ast.Name, ast.Attribute)):
            path = dotted(node)
            if path is not None:
                if not isinstance(node.ctx, ast.Load):
                    binds.add(path)
                reads.add(path)
                if isinstance(node, ast.Attribute) and node.attr in TENSOR_ONLY_METHODS:
                    binds.add(path.rpartition(".")[0])
                continue
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            holder = dotted(node.value)
            if holder is not None:
                binds.add(holder)
        pending += children(node)


def narrowed_paths(test: ast.expr) -> tuple[str, ...]:
    """The paths whose values decide the test, or are narrowed by it.

    They are `x` of `isinstance(x, T)`, of `all(isinstance(each, T) for each in x)`, of `x.is_cuda`, of `x == "train"`,
    of `x` itself, and `device` of `device is None`, also inside `and`, `or` and `not`.
    """
    if isinstance(test, ast.BoolOp):
        return tuple(dict.fromkeys(path for part in test.values for path in narrowed_paths(part)))
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return narrowed_paths(test.operand)
    asked, walk = device_test(test), item_test(test)
    if asked is not None:
        subject = asked.subject
    elif walk is not None:
        subject = walk[1].iter
    elif isinstance(test, ast.Call) and test.args:
        subject = test.args[0]
    elif isinstance(test, ast.Compare) and compares_name(test):
        subject = test.left
    elif isinstance(test, ast.Name):
        subject = test
    else:
        return ()
    path = dotted(subject)
    return () if path is None else (path,)


def compares_name(test: ast.Compare) -> bool:
    """Whether it compares a name with a literal text, or looks it up in a literal row of texts; or `device is None`."""
    is_of_name = len(test.ops) == 1 and isinstance(test.left, ast.Name)
    return is_of_name and (_are_texts(test.comparators[0]) or asks_for_device(test))


def asks_for_device(test: ast.Compare) -> bool:
    """`device is None`, `device is not None`: whether the call gave a device."""
    name, other = test.left, test.comparators[0]
    is_named = isinstance(name, ast.Name) and name.id in conventions.DEVICE_NAMES
    return (
        is_named
        and len(test.ops) == 1
        and isinstance(test.ops[0], (ast.Is, ast.IsNot))
        and isinstance(other, ast.Constant)
        and other.value is None
    )


def _are_texts(node: ast.expr) -> bool:
    """Whether it is a literal text, or a literal row of texts."""
    parts = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [node]
    return all(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in parts)


def item_test(test: ast.expr) -> tuple[ast.Call, ast.comprehension] | None:
    """`isinstance(each, T)` and the comprehension of `all(isinstance(each, T) for each in x)`."""
    walked = test.args[0] if isinstance(test, ast.Call) and len(test.args) == 1 else None
    if not isinstance(walked, (ast.GeneratorExp, ast.ListComp)) or dotted(test.func) != "all":  # type: ignore[attr-defined]
        return None
    walk, asked = walked.generators[0], walked.elt
    if len(walked.generators) > 1 or walk.ifs or not isinstance(asked, ast.Call) or not asked.args:
        return None
    return (asked, walk) if isinstance(walk.target, ast.Name) and dotted(asked.args[0]) == walk.target.id else None


def may_place(statement: ast.stmt) -> bool:
    """`with device:`, `with torch.device(...):`: tensors and modules created inside are on that device."""
    if not isinstance(statement, (ast.With, ast.AsyncWith)):
        return False
    made = (item.context_expr for item in statement.items)
    return any(not isinstance(each, ast.Call) or last_name(each.func) not in _PLACE_NOTHING for each in made)
