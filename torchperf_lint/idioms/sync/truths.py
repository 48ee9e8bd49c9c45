"""Truth tests: where the program needs a tensor's truth value, in a branch or a comparison on the host."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Unproven
from torchperf_lint.idioms.sync.assertions import STEERS, is_caught
from torchperf_lint.idioms.sync.reads import Sink, hot_reads
from torchperf_lint.idioms.sync.shown import element_in, is_shown
from torchperf_lint.knowledge.torch_api import COMPARES_ON_HOST
from torchperf_lint.model.domain.values import UNKNOWN, Kind
from torchperf_lint.model.handles import dotted, is_host_data, last_name
from torchperf_lint.syntax import cst
from torchperf_lint.syntax.tree import children, own_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.model import HotPath, Model, Site
    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.handles import FunctionInfo

_ASKS_ITS_ARGUMENT = frozenset({"builtins.bool"})
_ASKS_ITS_ELEMENTS = frozenset({"builtins.any", "builtins.all", "builtins.sorted"})
_COMPARES_ARGUMENTS = frozenset({"builtins.max", "builtins.min"})
_GO_OVER = frozenset({"any", "all", "sorted", "max", "min"})
_BUILTINS = _GO_OVER | {"bool"}
_WHOLES = (ast.Is, ast.IsNot)
_WITHIN = (ast.In, ast.NotIn)


_TESTS = (ast.If, ast.While, ast.Assert, ast.BoolOp, ast.UnaryOp, ast.IfExp, ast.comprehension, ast.Compare)
"""What tests a truth, or may."""


class Truth(NamedTuple):
    """A place, in every step, where the host needs the content of a tensor on the accelerator.

    `site` is the expression whose truth is tested, or, with `calls`, the call that compares on the host.
    """

    site: Site
    calls: bool
    hot_path: HotPath
    because: tuple[Because, ...]
    is_mixed: bool = False  # what is compared is a tensor on some paths and a number on others


class _Names(NamedTuple):
    """The names under which a file may call comparing functions: those of torch, and the module `math`."""

    functions: frozenset[str]
    math: frozenset[str]

    def may_compare(self, node: ast.Call) -> bool:
        """Whether a call may be one of these, or of Python's own functions that test or compare their arguments."""
        if isinstance(node.func, ast.Name):
            return node.func.id in _BUILTINS or node.func.id in self.functions
        owner = last_name(node.func.value) if isinstance(node.func, ast.Attribute) else None
        return last_name(node.func) in self.functions or owner in self.math


def hot_truths(model: Model) -> Iterator[Truth]:
    """The truth tests of device tensors that run in every step, in source order."""
    called = _Names(model.names_for(*COMPARES_ON_HOST), model.names_for("math"))

    def asked(statement: ast.stmt, function: FunctionInfo) -> list[ast.expr]:
        return [node for node in _asked(statement, called) if not _is_flag(node, function)]

    def asks_the_device(node: ast.expr, values: Mapping[ast.expr, Value]) -> bool:
        value = _asked_of(node, _tensor_asked(node, called, values), values)
        return value.device.on_accelerator and value.holds_tensors

    for found in model.hot_expressions(asked, asks_the_device):
        node, values = found.node, found.values
        tensor = _tensor_asked(node, called, values)
        calls = _may_compare(node, called)
        assert tensor is not None
        takes_tensors = isinstance(node, ast.Call) and calls and _takes_tensors(node, values)
        shown = (takes_tensors and not values[tensor].mixed) or _is_asked(model, found.function, tensor, values)
        is_mixed = not shown and calls and values[tensor].mixed and values[tensor].scalar is True
        site = model.site_at(node, found.statement) if shown or is_mixed else None
        if site is None:
            continue
        because = _asked_of(node, tensor, values).because
        if is_mixed:
            says = f"`{ast.unparse(tensor)}` is a number on other paths, or in other calls"
            because = (*because, Unproven(node.lineno, says))
        yield Truth(site, calls, found.hot_path, because, is_mixed)


def _asked_of(node: ast.expr, tensor: ast.expr | None, values: Mapping[ast.expr, Value]) -> Value:
    """The value that is tested or compared; the items of a list or tuple where a function goes over them."""
    value = UNKNOWN if tensor is None else values.get(tensor, UNKNOWN)
    goes_over = isinstance(node, ast.Call) and last_name(node.func) in _GO_OVER
    is_row = goes_over and value.kind is Kind.CONTAINER and value.ref in ("list", "tuple")
    return (value.element or UNKNOWN) if is_row else value


def _is_asked(model: Model, function: FunctionInfo, tensor: ast.expr, values: Mapping[ast.expr, Value]) -> bool:
    """Whether what is tested is proven to be a tensor, or a list that the function fills with some: `min(losses)`."""
    if values[tensor].kind is not Kind.CONTAINER:
        return is_shown(model, function, tensor)
    tensor = _whole_list(model, function, tensor)
    made = model.only_binding(function, tensor.id) if isinstance(tensor, ast.Name) else None
    if isinstance(made, (ast.ListComp, ast.List, ast.Tuple)) and element_in(made) is not made:
        return not isinstance(element_in(made), ast.Starred) and is_shown(model, function, element_in(made))
    if not isinstance(made, ast.List):
        return False
    added = [each.call for each in function.calls_made if dotted(each.call.func) == f"{dotted(tensor)}.append"]
    return bool(added) and all(len(each.args) == 1 and is_shown(model, function, each.args[0]) for each in added)


def _whole_list(model: Model, function: FunctionInfo, node: ast.expr) -> ast.expr:
    """`losses` of `losses[1:]`, and of a name that is bound to that alone."""
    seen: set[str] = set()
    while True:
        made = model.only_binding(function, node.id) if isinstance(node, ast.Name) and node.id not in seen else node
        if not isinstance(made, ast.Subscript) or not isinstance(made.slice, ast.Slice):
            return node
        seen.update([node.id] if isinstance(node, ast.Name) else [])
        node = made.value


def read_truths(model: Model) -> Iterator[Truth]:
    """The same tests where the read is written out: `if mask.any().item()`, `assert bad.sum().item() == 0`.

    Not `if loss.item() > 3`, which decides what the program does next, unless that is to raise an error.
    """
    for read in hot_reads(model):
        if read.role is Sink.CONDITION and read.reader == "item" and _is_tested(model, read.site):
            yield Truth(read.site, True, read.hot_path, read.because)


def _is_tested(model: Model, site: Site) -> bool:
    """Whether the truth of the expression is asked for, by a branch or an assertion, alone or with others.

    `not` and the first operands of `and` and `or` ask for the truth themselves, wherever they stand. A comparison of it
    counts where all that it decides is whether the program fails.
    """
    node: cst.CSTNode = site.node
    parent = model.parent(node)
    if isinstance(parent, cst.ComparisonTarget):
        parent = model.parent(parent)
    is_compared = isinstance(parent, cst.Comparison)
    if isinstance(parent, cst.Comparison):
        node, parent = parent, model.parent(parent)
    asks_itself = False
    while isinstance(parent, (cst.BooleanOperation, cst.UnaryOperation)):
        if isinstance(parent, cst.UnaryOperation) and not isinstance(parent.operator, cst.Not):
            return False
        asks_itself = asks_itself or isinstance(parent, cst.UnaryOperation) or parent.left is node
        node, parent = parent, model.parent(parent)
    if not isinstance(parent, (cst.If, cst.While, cst.Assert, cst.IfExp)) or parent.test is not node:
        return asks_itself and not is_compared
    return not is_compared or (isinstance(parent, (cst.If, cst.Assert)) and _only_fails(model, site, parent))


def _only_fails(model: Model, site: Site, check: cst.If | cst.Assert) -> bool:
    """Whether all that a check decides is an error, which is not raised to go on elsewhere."""
    function, statement = model.function_of(site), model.statement_of(check.test)
    if isinstance(check, cst.Assert):
        return not is_caught(model, function, AssertionError.__name__)
    last = statement.body[-1] if isinstance(statement, ast.If) and not statement.orelse else None
    if not isinstance(last, ast.Raise) or last.exc is None:
        return False
    raised = last_name(last.exc.func if isinstance(last.exc, ast.Call) else last.exc) or ""
    return not any(word in raised for word in STEERS) and not is_caught(model, function, raised)


def _may_compare(node: ast.expr, called: _Names) -> bool:
    """Whether it is a call that may compare on the host."""
    return isinstance(node, ast.Call) and called.may_compare(node)


def _asked(statement: ast.stmt, called: _Names) -> Iterator[ast.expr]:
    """The expressions of a statement whose truth is tested, and the calls that may compare on the host."""
    nodes = own_nodes(statement)
    if not any(node.__class__ in _TESTS or (node.__class__ is ast.Call and called.may_compare(node)) for node in nodes):
        return  # most statements, and an editor waits for them
    pending: list[tuple[ast.AST, bool]] = [
        (child, isinstance(statement, (ast.If, ast.While, ast.Assert)) and child is statement.test)
        for child in children(statement)
        if not isinstance(child, ast.stmt)
    ]
    while pending:
        node, is_test = pending.pop()
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.BoolOp):
            last = len(node.values) - 1
            pending += [(value, is_test or position < last) for position, value in enumerate(node.values)]
            continue
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            pending.append((node.operand, True))
            continue
        if isinstance(node, ast.IfExp):
            pending += [(node.test, True), (node.body, is_test), (node.orelse, is_test)]
            continue
        if isinstance(node, ast.comprehension):
            pending += [(node.iter, False), *((condition, True) for condition in node.ifs)]
            continue
        asks = isinstance(node, ast.expr) and (_may_compare(node, called) or _may_ask(node, is_test))
        if isinstance(node, ast.expr) and asks and not _asks_the_host(node):
            yield node
        pending += [(child, False) for child in children(node) if not isinstance(child, ast.stmt)]


def _is_flag(node: ast.expr, function: FunctionInfo) -> bool:
    """Whether it is a parameter annotated or defaulted as a boolean, and bound to nothing else."""
    if not isinstance(node, ast.Name) or node.id not in function.parameter_names:
        return False
    default = function.defaults.get(node.id)
    if not (isinstance(default, ast.Constant) and isinstance(default.value, bool)):
        arguments = function.arguments
        named = [] if arguments is None else [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        annotations = [each.annotation for each in named if each.arg == node.id and each.annotation is not None]
        if not any(dotted(each) == "bool" for each in annotations):
            return False
    return function.bound_names.count(node.id) == 1


def _asks_the_host(node: ast.expr) -> bool:
    """Whether the tested, compared or read expression is host data by its form."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], _WITHIN):
        return is_host_data(node.comparators[0]) and (is_host_data(node.left) or _holds_texts(node.comparators[0]))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _BUILTINS:
        return bool(node.args) and all(map(is_host_data, node.args))
    return is_host_data(node)


def _holds_texts(node: ast.expr) -> bool:
    """Whether it is no list or tuple that is written out, or one with a text in it: `mode in ("train", "val")`."""
    if not isinstance(node, (ast.List, ast.Tuple)):
        return True
    return any(isinstance(each, ast.Constant) and isinstance(each.value, (str, bytes)) for each in node.elts)


def _may_ask(node: ast.expr, is_test: bool) -> bool:
    if isinstance(node, ast.Compare):
        if all(isinstance(operator, _WITHIN) for operator in node.ops):
            return True
        if any(isinstance(operator, _WHOLES) for operator in node.ops) or _names_text(node):
            return False
        return is_test or len(node.ops) > 1
    return is_test and isinstance(node, (ast.Call, ast.Name, ast.Attribute, ast.Subscript, ast.BinOp, ast.UnaryOp))


def _names_text(node: ast.Compare) -> bool:
    """`kind == "train"`, `x == None`: no comparison of numbers."""
    sides = [node.left, *node.comparators]
    return any(isinstance(side, ast.Constant) and isinstance(side.value, (str, type(None))) for side in sides)


def _tensor_asked(node: ast.expr, called: _Names, values: Mapping[ast.expr, Value]) -> ast.expr | None:
    """The expression that may be a device tensor, and is tested, compared or read on the host."""
    if isinstance(node, ast.Compare):
        if isinstance(node.ops[0], _WITHIN):
            is_text = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
            searched = node.comparators[0]
            if is_text:
                return None
            return node.left if _is_compared_with_each(values.get(searched, UNKNOWN)) else searched
        return _first_tensor([node.left, *node.comparators], values)
    if isinstance(node, ast.Call) and called.may_compare(node):
        return _tensor_compared(node, values)
    return node


def _is_compared_with_each(value: Value) -> bool:
    """Whether `x in value` compares x with numbers one by one; a set and a dict look for the object itself."""
    held = value.element
    if value.kind is not Kind.CONTAINER or held is None or held.kind is not Kind.NUMBER:
        return False
    return value.ref in ("tuple", "range") or (value.ref == "list" and value.items is not None)


def _takes_tensors(node: ast.Call, values: Mapping[ast.expr, Value]) -> bool:
    """Whether it is a function or method that accepts only tensors."""
    ref = values.get(node.func, UNKNOWN).ref or ""
    return ref.removeprefix("torch.") in COMPARES_ON_HOST


def _first_tensor(nodes: list[ast.expr], values: Mapping[ast.expr, Value]) -> ast.expr | None:
    on_device = [node for node in nodes if values.get(node, UNKNOWN).device.on_accelerator]
    return next((node for node in on_device if values[node].is_tensor), next(iter(on_device), None))


def _tensor_compared(node: ast.Call, values: Mapping[ast.expr, Value]) -> ast.expr | None:
    """The argument of a call that compares, or reads its argument, on the host."""
    callee = values.get(node.func, UNKNOWN)
    if not node.args or any(isinstance(argument, ast.Starred) for argument in node.args):
        return None
    ref = callee.ref or ""
    if callee.kind is Kind.METHOD and isinstance(node.func, ast.Attribute):
        return node.func.value if callee.function is None else None
    if callee.kind is not Kind.LIBRARY or any(keyword.arg == "key" for keyword in node.keywords):
        return None
    if ref.startswith("math.") or ref in _ASKS_ITS_ARGUMENT or _takes_tensors(node, values):
        return _first_tensor(node.args, values)
    if ref in _COMPARES_ARGUMENTS and len(node.args) > 1:
        return _first_tensor(node.args, values)
    return element_in(node.args[0]) if ref in _COMPARES_ARGUMENTS | _ASKS_ITS_ELEMENTS else None
