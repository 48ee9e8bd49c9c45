"""Inference loops: each pass runs a model on what an earlier pass made, as in decoding or in reversing a diffusion."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import conventions, torch_api
from torchperf_lint.knowledge.containers import FILL
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.frequency.loop_bodies import made_of_item, names_given
from torchperf_lint.model.syntax.index import dotted, last_name
from torchperf_lint.model.syntax.iterables import counted, is_listed
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model.domain.frequency import Loop
    from torchperf_lint.model.domain.interfaces import ValueQuestions
    from torchperf_lint.model.syntax.index import CallRecord, FunctionInfo

_GROWS = FILL | {"add_", "copy_"}
_METADATA = torch_api.METADATA_ATTRIBUTES | {"device"}
_PASSES_OF_A_STEP = 8
"""A literal number of passes up to this is a part of one step: a refinement, not a generation."""
_NO_INFERENCE = frozenset({"forward", "__init__"})
_EVALUATION = re.compile(r"(^|_)(eval|evaluate|evaluation|validate|validation|test|predict|infer|inference)(_|$)")
_NO_DATA = frozenset(
    "case cases cfg config epoch fold key lr mode name phase scale seed size split stage step t task".split()
)
"""Names for items that are none of a data set, and few."""
_OF_MODULES = re.compile(r"(?:load|save|set|get|fit|train|reset|register|add|from|to|apply|state_dict|eval)(?:_|$)")
"""Beginnings of names of methods that change or make a model, and do not run it."""
_WITHOUT_GRADIENTS = frozenset({"no_grad", "inference_mode"})


def fed_back(loop: Loop, function: FunctionInfo) -> list[CallRecord]:
    """The calls directly in the loop that get what they have returned in an earlier pass, or what was made of it.

    None in `forward`, where such a loop is a part of the model, and none where the loop goes over what it calls.
    """
    if function.name in _NO_INFERENCE or (isinstance(loop, (ast.For, ast.AsyncFor)) and _counts_to_a_few(loop.iter)):
        return []
    calls = [record for record in function.calls_made if record.place.loops()[:1] == [loop]]
    walked = set() if isinstance(loop, ast.While) else _names_in(loop.target)
    if not calls or any(walked & _names_in(each.call.func) for each in calls):
        return []
    if any(dotted(each.call.func) == "input" for each in calls):
        return []  # each pass waits for somebody
    bound = [(made, read) for node in subtree(loop) if node is not loop for made, read in _bound_by(node)]
    return [record for record in calls if _given(record) & _made_of(record, bound)]


def about_items(loop: Loop, function: FunctionInfo) -> list[CallRecord]:
    """The calls directly in a loop that get its items, or what is made of these, where the function only evaluates.

    None in `forward`, and none where the loop counts, walks what it calls, or walks a few items that the code lists.
    """
    if not isinstance(loop, ast.For) or function.name in _NO_INFERENCE or not _evaluates(function):
        return []
    if counted(loop.iter) is not None or is_listed(loop.iter, function) or dotted(loop.iter) in function.defaults:
        return []
    if not _NO_DATA.isdisjoint(_names_in(loop.target)):
        return []
    made, walked = made_of_item(loop), _names_in(loop.target)
    direct = [record for record in function.calls_made if record.place.loops()[:1] == [loop]]
    return [each for each in direct if made & names_given(each) and not walked & _names_in(each.call.func)]


def runs_part(inference: ValueQuestions, record: CallRecord, function: FunctionInfo) -> bool:
    """`model.decode(x)`: a method of a module, which the project defines."""
    func = record.call.func
    if not isinstance(func, ast.Attribute) or inference.frame_value(function, func).function is None:
        return False
    return inference.frame_value(function, func.value).kind is Kind.MODULE


def runs_again(inference: ValueQuestions, record: CallRecord, function: FunctionInfo) -> bool:
    """The same where each call gets what an earlier one returned, also of a model of a class that is not known.

    Then it is named as one, gets a tensor of the accelerator, and the function evaluates. A function of the project may
    run the model, too.
    """
    if runs_part(inference, record, function) or _runs_in_helper(inference, record, function):
        return True
    func = record.call.func
    if not isinstance(func, ast.Attribute) or _OF_MODULES.match(func.attr) or not _evaluates(function):
        return False
    if inference.frame_value(function, func).function is not None:
        return False
    owner, name = inference.frame_value(function, func.value), last_name(func.value) or ""
    is_named = name in conventions.MODEL_NAMES or name.endswith(conventions.MODEL_ENDINGS)
    is_open = owner.kind is Kind.MODULE and owner.cls is None and not owner.is_layer
    given = (inference.frame_value(function, each) for each in record.call.args)
    is_on_device = any(each.holds_tensors and each.device.on_accelerator for each in given)
    return is_named and (is_open or owner.kind is Kind.UNKNOWN) and is_on_device


def _runs_in_helper(inference: ValueQuestions, record: CallRecord, function: FunctionInfo) -> bool:
    """`self._next_scores(tokens)`: a function of the project that is no model's own, and that runs one, in no loop."""
    helper = inference.frame_value(function, record.call.func).function
    if helper is None or helper.name in _NO_INFERENCE or _is_of_module(inference, helper):
        return False
    home = inference.home(helper.index)
    calls = [each.call for each in helper.calls_made if not each.place.loops()]
    known = [home.frame_value(helper, each) for each in map(named_model, calls) if each is not None]
    return any(each.kind is Kind.MODULE or (each.kind is Kind.METHOD and each.function is None) for each in known)


def differentiates(inference: ValueQuestions, record: CallRecord, loop: Loop, function: FunctionInfo) -> bool:
    """`torch.autograd.grad(y, x)`, or a function of the project that calls it in no loop: a product with a Hessian.

    Each pass moves on what it starts from, `x = x - step`; derivatives of derivatives are few.
    """
    if not isinstance(loop, ast.While) and counted(loop.iter) is None:
        return False
    given = _given(record)
    if not any(_moves_on(node, given) for node in subtree(loop)):
        return False
    called = inference.frame_value(function, record.call.func)
    if called.ref == torch_api.GRADIENTS or called.function is None:
        return called.ref == torch_api.GRADIENTS
    home, helper = inference.home(called.function.index), called.function
    calls = [each.call for each in helper.calls_made if not each.place.loops()]
    return any(home.frame_value(helper, each.func).ref == torch_api.GRADIENTS for each in calls)


def _moves_on(node: ast.AST, given: set[str]) -> bool:
    """`x -= step`, `x = x - step`, of a name that is given to a call."""
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, (ast.Add, ast.Sub)) and bool(_stored(node.target) & given)
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.BinOp):
        return False
    stored = {name for target in node.targets for name in _stored(target)}
    return bool(stored & given & _values_in(node.value))


def _is_of_module(inference: ValueQuestions, function: FunctionInfo) -> bool:
    return function.cls is not None and inference.instance(function.cls).kind is Kind.MODULE


def named_model(call: ast.Call) -> ast.expr | None:
    """`self.decoder` of `self.decoder(x)` and `self.decoder.forward(x)`: what is called, if it is named as a model."""
    func = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr == "forward" else call.func
    name = last_name(func) or ""
    is_model = name in conventions.MODEL_NAMES or name.endswith(conventions.MODEL_ENDINGS)
    return func if is_model and not conventions.MAKERS.match(name) else None


def _evaluates(function: FunctionInfo) -> bool:
    """Whether the function says that it records no gradients, puts a model into evaluation, or is named for that."""
    if _EVALUATION.search(function.name):
        return True
    named = [last_name(each.func if isinstance(each, ast.Call) else each) for each in function.decorators]
    called = [last_name(record.call.func) for record in function.calls_made]
    return not _WITHOUT_GRADIENTS.isdisjoint(named) or not (_WITHOUT_GRADIENTS | {"eval"}).isdisjoint(called)


def _counts_to_a_few(iterable: ast.expr) -> bool:
    """`range(3)`: so few passes are parts of one step."""
    counts = counted(iterable)
    numbers = [] if counts is None else [each.value if isinstance(each, ast.Constant) else None for each in counts.args]
    return bool(numbers) and all(type(each) is int and each <= _PASSES_OF_A_STEP for each in numbers)


def _given(record: CallRecord) -> set[str]:
    """The names whose values a call gets."""
    given = [*record.call.args, *(keyword.value for keyword in record.call.keywords)]
    return {name for each in given for name in _values_in(each)}


def _values_in(node: ast.AST) -> set[str]:
    """The names in an expression, but for those that are asked for their size, dtype or device alone.

    `x.` stands for an attribute of x that is not called.
    """
    nodes = list(subtree(node))
    asked = {id(inner) for each in nodes for part in _asked_about(each) for inner in subtree(part)}
    called = {id(each.func) for each in nodes if isinstance(each, ast.Call)}
    kept = (each for each in nodes if isinstance(each, ast.Attribute) and id(each) not in called)
    attributes = {f"{each.value.id}." for each in kept if isinstance(each.value, ast.Name)}
    return attributes | {each.id for each in nodes if isinstance(each, ast.Name) and id(each) not in asked}


def _asked_about(node: ast.AST) -> list[ast.expr]:
    """`x` of `x.shape`, `x.size(0)` and `len(x)`."""
    if isinstance(node, ast.Attribute) and (node.attr in _METADATA or node.attr in torch_api.METADATA_METHODS):
        return [node.value]
    return node.args if isinstance(node, ast.Call) and last_name(node.func) == "len" else []


def _made_of(record: CallRecord, bound: list[tuple[set[str], set[str]]]) -> set[str]:
    """The names that the loop binds to what the call returns, and to what it computes from that."""
    made = {name for names, _ in _bound_by(record.statement) for name in names}
    while True:
        more = {name for names, read in bound if read & made for name in names} - made
        if not more:
            return made
        made |= more


def _bound_by(node: ast.AST) -> list[tuple[set[str], set[str]]]:
    """The names that a statement binds, or whose objects it writes to, with those that it reads for that."""
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return [({name for target in targets for name in _stored(target)}, _values_in(node.value))]
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return [(_stored(node.target), _values_in(node.iter))]
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        owner = (dotted(node.value.func.value) or "").partition(".")[0]
        if node.value.func.attr in _GROWS:
            read = {name for each in node.value.args for name in _values_in(each)}
            return [({owner}, read)] if owner else []
        if not owner or owner == "self" or _OF_MODULES.match(node.value.func.attr):
            return []
        # An object may keep what a method that returns nothing of use is given: `beams.advance(scores)`.
        return [({f"{owner}."}, {each.id for each in node.value.args if isinstance(each, ast.Name)})]
    return []


def _stored(target: ast.expr) -> set[str]:
    """`x` of `x`, `x[i]` and `x, y`; nothing of `self.x`."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return {name for each in target.elts for name in _stored(each)}
    while isinstance(target, (ast.Subscript, ast.Starred)):
        target = target.value
    return {target.id} if isinstance(target, ast.Name) else set()


def _names_in(node: ast.AST) -> set[str]:
    return {each.id for each in subtree(node) if isinstance(each, ast.Name)}
