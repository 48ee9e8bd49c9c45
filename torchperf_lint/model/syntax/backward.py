"""What a function sends backward: the names of losses, and of the terms and factors that they are made of."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from torchperf_lint.model.syntax.index import dotted, last_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchperf_lint.model.syntax.index import FunctionInfo

_Found = TypeVar("_Found")
_REDUCE = frozenset({"mean", "sum"})
_METHODS = frozenset({"backward", "scale", "manual_backward"})
_KEEP_PLACE = frozenset("abs clamp exp float flatten log mean neg pow reshape sqrt square squeeze sum view".split())
_LOSS = re.compile(r"^(?:\w+_)?loss$")
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_COMPARES = re.compile(
    r"^(?:F|functional|nn\.functional|torch\.nn\.functional)\."
    r"(?:(?:mse|l1|smooth_l1|huber|poisson_nll|gaussian_nll|nll|hinge_embedding|cosine_embedding)_loss"
    r"|binary_cross_entropy|binary_cross_entropy_with_logits|cross_entropy|kl_div)$"
    r"|^self\.(?:mse|l1|smooth_l1|huber)_loss$"
)
"""Functions of `torch.nn.functional`, and modules of such names, whose first two arguments lie on one device."""
_OF_TENSORS = frozenset({"mean", "sum", "min", "max", "minimum", "maximum", "abs", "exp", "log", "clamp", "square"})
"""Functions of torch that are called for a tensor, or two of one device."""
_TRAINING_STEPS = frozenset({"training_step", "training_step_end"})
"""Methods whose loss a framework sends backward: Lightning's, which others have taken over."""


class SentBackward(NamedTuple):
    """What a function sends backward."""

    names: frozenset[str]  # `loss` of `loss.backward()`
    entries: frozenset[tuple[str, str]]  # `losses` and "total" of `losses["total"].backward()`
    terms: frozenset[str]  # what arithmetic joins to it
    computed: frozenset[str]  # those of the terms that are tensors if a call computes them
    tensors: frozenset[str]  # those of the terms, and of what a loss function compares, that surely are tensors


def sent_backward(function: FunctionInfo) -> SentBackward:
    """All of what the function sends backward."""

    def find() -> SentBackward:
        names, entries = names_sent_backward(function), entries_sent_backward(function)
        computed, tensors = computed_and_sent_backward(function), tensors_sent_backward(function)
        return SentBackward(names, entries, terms_sent_backward(function), computed, tensors)

    return _known(function, "all backward", find)


def names_sent_backward(function: FunctionInfo) -> frozenset[str]:
    """Names `x` with `x.backward()`, `accelerator.backward(x)` or `scaler.scale(x)` in the function.

    The loss that a `training_step` returns counts, too: the framework sends it backward.
    """
    return _known(function, "backward", lambda: frozenset(_paths(_sent(function))))


def entries_sent_backward(function: FunctionInfo) -> frozenset[tuple[str, str]]:
    """Names `x` with the keys `k` of `x["k"].backward()` in the function."""
    return _known(function, "backward entries", lambda: frozenset(_entries(function)))


def _entries(function: FunctionInfo) -> Iterator[tuple[str, str]]:
    for node in _sent(function):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            name, key = dotted(node.value), node.slice.value
            if name is not None and isinstance(key, str):
                yield name, key


def reduced_and_sent_backward(function: FunctionInfo) -> frozenset[str]:
    """Names `x` with `x.mean().backward()` or `torch.mean(x).backward()` in the function: tensors of any shape."""
    return _known(function, "backward reduced", lambda: frozenset(_paths(_reduced(function))))


def _reduced(function: FunctionInfo) -> Iterator[ast.expr]:
    for node in _sent(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _REDUCE:
            by_function = dotted(node.func.value) == "torch"
            yield from node.args[:1] if by_function else (node.func.value,)


def terms_sent_backward(function: FunctionInfo) -> frozenset[str]:
    """Names that arithmetic joins to what the function sends backward: `a`, `b` of `(a + 0.5 * b.mean()).backward()`.

    They are found through assignments, too, by name alone and whatever the order of the statements.
    """
    return _known(function, "backward terms", lambda: frozenset(_joined(function).terms))


def calls_sent_backward(function: FunctionInfo) -> dict[str, int]:
    """What is called for the results that a function sends backward, `self.model` of `self.model(x)["loss"].sum()`.

    With the first row of such a call; the arguments of calls are left out.
    """
    return function.index.note(("calls backward", function), lambda: _called(function))


def _called(function: FunctionInfo) -> dict[str, int]:
    assigned = _assigned(function) if function.calls_made else {}
    pending = [(node, False) for node in _sent(function)]
    seen, found = set[tuple[str, bool]](), dict[str, int]()
    while pending:
        node, is_factor = pending.pop()
        path = dotted(node)
        if path is not None and (path, is_factor) not in seen:
            seen.add((path, is_factor))
            pending += [(each, is_factor) for each in assigned.get(path, ())]
        if isinstance(node, ast.BinOp):
            pending += [(node.left, is_factor or isinstance(node.op, ast.Mult))]
            pending += [(node.right, is_factor or not isinstance(node.op, (ast.Add, ast.Sub)))]
        elif isinstance(node, (ast.Subscript, ast.Attribute)):
            pending.append((node.value, is_factor))
        elif isinstance(node, ast.UnaryOp):
            pending.append((node.operand, is_factor))
        elif isinstance(node, ast.Call):
            name = dotted(node.func)
            # What is called without data for a factor may give a number: `schedule.weight()`.
            if name is not None and not (is_factor and not node.args and not node.keywords):
                found[name] = min(node.lineno, found.get(name, node.lineno))
            if isinstance(node.func, ast.Attribute) and node.func.attr in _KEEP_PLACE:
                pending.append((node.func.value, is_factor))
    return found


def _assigned(function: FunctionInfo) -> dict[str, list[ast.expr]]:
    """Names and attributes with what the function assigns to them, or unpacks into them."""
    assigned: dict[str, list[ast.expr]] = {}
    for node in function.nodes:
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for part in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
                    assigned.setdefault(dotted(part) or "", []).append(node.value)
    return assigned


def _known(function: FunctionInfo, question: str, find: Callable[[], _Found]) -> _Found:
    index = function.index
    if not function.is_module:
        return index.note((question, function), find)
    index.reads.asks("fact", "backward")
    return index.note((question, function), lambda: index.reads.unheard(find))


def _sent(function: FunctionInfo) -> Iterator[ast.expr]:
    for record in function.calls_made:
        func = record.call.func
        if not isinstance(func, ast.Attribute) or func.attr not in _METHODS:
            continue
        if func.attr != "scale" or "scaler" in (dotted(func.value) or "").lower():
            given = [*record.call.args[:1], *(each.value for each in record.call.keywords if each.arg == "loss")]
            if not any("loss" in (last_name(each) or "").lower() for each in given):  # else it is an engine's
                yield func.value
            yield from given
    if returns_its_loss(function):
        yield from _losses_returned(function)


def returns_its_loss(function: FunctionInfo) -> bool:
    """Whether it is a `training_step(self, batch, batch_idx)` whose loss only its framework sends backward."""
    if function.cls is None or function.name not in _TRAINING_STEPS or len(function.parameter_names) < 3:
        return False
    if "automatic_optimization" in function.cls.attributes:
        return False
    return not any(last_name(record.call.func) in ("backward", "manual_backward") for record in function.calls_made)


def _losses_returned(function: FunctionInfo) -> Iterator[ast.expr]:
    """`loss` of `return loss` and of `return {"loss": loss}`."""
    for node in function.nodes:
        value = node.value if isinstance(node, ast.Return) else None
        if isinstance(value, ast.Dict):
            keyed = zip(value.keys, value.values, strict=True)
            yield from (each for key, each in keyed if isinstance(key, ast.Constant) and key.value == "loss")
        elif value is not None and _LOSS.search((last_name(value) or "").lower()):
            yield value


def _paths(nodes: Iterator[ast.expr]) -> Iterator[str]:
    yield from filter(None, map(dotted, nodes))


def tensors_sent_backward(function: FunctionInfo) -> frozenset[str]:
    """Those of them that are surely tensors: a loss function compares them, or one of their methods is called."""

    def find() -> frozenset[str]:
        joined = _joined(function)
        # A part of a loss that has this method is neither a Python number nor one of NumPy.
        return frozenset(joined.compared | (joined.terms & _owners_of(function, "detach")))

    return _known(function, "backward tensors", find)


def computed_and_sent_backward(function: FunctionInfo) -> frozenset[str]:
    """Those of them that are tensors if a call computes them: a method reads a summand, or they are named as losses."""

    def find() -> frozenset[str]:
        joined = _joined(function)
        read = joined.summands & _owners_of(function, "item", "cpu")
        return frozenset(read | {each for each in joined.terms if _LOSS.search(each.rpartition(".")[2].lower())})

    return _known(function, "computed and sent backward", find)


def _owners_of(function: FunctionInfo, *methods: str) -> set[str]:
    """The names whose methods of these names the function calls."""
    called = (dotted(record.call.func) or "" for record in function.calls_made)
    return {owner for owner, _, method in (path.rpartition(".") for path in called) if method in methods}


class _Joined(NamedTuple):
    """The names that arithmetic joins to what a function sends backward.

    `summands` are those that are no factors; `compared` is what a loss function compares.
    """

    terms: set[str]
    summands: set[str]
    compared: set[str]


def _joined(function: FunctionInfo) -> _Joined:
    found = _Joined(set(), set(), set())
    pending = [(node, True) for node in _sent(function)]
    if not pending:
        return found
    assigned: dict[str, list[ast.expr]] = {}
    for node in function.nodes:
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                assigned.setdefault(dotted(target) or "", []).append(node.value)
    for record in function.calls_made:
        func = record.call.func
        if isinstance(func, ast.Attribute) and func.attr == "append":
            assigned.setdefault(dotted(func.value) or "", []).extend(record.call.args)
    while pending:
        node, is_added = pending.pop()
        path = dotted(node)
        if path is not None:
            if path not in found.terms or (is_added and path not in found.summands):
                found.terms.add(path)
                found.summands.update([path] if is_added else [])
                pending += [(each, is_added) for each in assigned.get(path, ())]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            pending.append((node.left, is_added))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC):
            pending.append((node.left, is_added and not isinstance(node.op, ast.Mult)))
            pending.append((node.right, is_added and isinstance(node.op, (ast.Add, ast.Sub))))
        elif isinstance(node, ast.UnaryOp):
            pending.append((node.operand, is_added))
        elif isinstance(node, ast.IfExp):
            pending += [(node.body, is_added), (node.orelse, is_added)]
        elif isinstance(node, ast.Call):
            if _COMPARES.search(dotted(node.func) or ""):
                found.compared.update(filter(None, map(dotted, node.args[:2])))
            pending += [(each, is_added) for each in _operands(node)]
    return found


def _operands(call: ast.Call) -> list[ast.expr]:
    """What lies where the result of a call does: `x` of `x.mean()`, `torch.mean(x)` and `sum(x)`, both of a loss."""
    name = dotted(call.func) or ""
    if name == "sum" or (name.startswith("torch.") and name.removeprefix("torch.") in _OF_TENSORS):
        return [each for each in call.args[:2] if not isinstance(each, ast.Constant)]
    if _COMPARES.search(name):
        return [*call.args[:2]]
    is_kept = isinstance(call.func, ast.Attribute) and call.func.attr in _KEEP_PLACE
    return [call.func.value] if is_kept and isinstance(call.func, ast.Attribute) else []
