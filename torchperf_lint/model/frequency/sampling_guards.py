"""Sampling guards: conditions that hardly any step meets: every n steps, first steps, time, a logging flag, NaN.

A test for another device than the accelerator counts as well, and so does any test before a warning.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from torchperf_lint.knowledge import conventions
from torchperf_lint.model import bounds
from torchperf_lint.model.frequency.leaving import jump_at_end
from torchperf_lint.model.frequency.other_devices import is_for_other_device
from torchperf_lint.model.syntax.index import dotted, last_name
from torchperf_lint.syntax.tree import COMPREHENSIONS, children, subtree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchperf_lint.model.syntax.index import FunctionInfo

_CONTAINERS = frozenset("dict list set deque OrderedDict Counter".split())
_CLOCKS = frozenset({"time", "perf_counter", "monotonic", "process_time", "now"})
_COUNTER = re.compile(
    r"(^|_)(step|steps|iter|iters|iteration|batch|idx|index|count|counter|it|i|j|n|k|itr|num_updates|batch_i)$"
)
_PLURALS = ("_steps", "_iters")
_PERIOD = re.compile(r"interval|period|freq|(^|_)every(_|$)|gap")
_TRAINING_PERIOD = re.compile(
    r"^(?:train|training|learn|learning|optimi[sz]e)_(?:every|freq|frequency|interval|period)$"
)
_ROLLOUT_PERIOD = re.compile(
    r"^(?:(?:train|learn|optimi[sz]e|replay|gradient|policy|agent|model)_)?"
    r"(?:train|training|learn|learning|optimi[sz]e|update|updates|replay|gradient)_(?:every|freq|frequency|interval|period)$"
)
_WARNS = frozenset("warn warning error critical exception".split())
_LOGGERS = re.compile(r"(?:^|_)(?:log|logger|logging|warnings)$", re.IGNORECASE)
SHORT_PERIOD = 16
"""A literal period up to this is one of training, in a loop that steps an environment or trains something else."""
_TURN = re.compile(r"critic|disc|(^|_)(gen|generator|actor|policy|target)(_|$)|(^|_)[dg]_(steps|iters)$|delay|ratio$")
"""Names of periods in which one of several networks has its turn."""
_FLAG = re.compile(
    r"^(should_|do_|need_|need|is_log|is_print|time_to_|to_log|will_|must_|log_now|log_this|print_)"
    r"|every_n|_every$|(^|_)(verbose|debug|debugging|debug_loss|visualize|end_of_epoch|is_last_batch|last_batch|should_log|should_stop)$"
    r"|(^|_)(onnx_trace|onnx_export|exporting)$"
    r"|^(init|do_init|initialize|initialise|first_(call|pass|batch|iteration))$"
    r"|^(log|logging|do_log|display|visualise|plot|profile|profiling|dump|save_now)$"
)
_OPTIONS = re.compile(r"(^|_)(args|opts?|options|cfg|conf|config|hparams|params|flags)$")
_NOT_A_NUMBER = frozenset({"isnan", "isinf", "isposinf", "isneginf"})
_NOT_FLAG = re.compile(
    r"(?:^|_)(?:update|step|accumulate)$|rank|main_process|master|wandb|tensorboard|writer|sync_gradients|global_zero",
    re.IGNORECASE,
)


def bindings_in(function: FunctionInfo) -> dict[str, list[ast.expr]]:
    """By name, what the function's plain assignments bind to it, and the numbers that are its parameters' defaults."""
    found: dict[str, list[ast.expr]] = {}
    for name, default in function.defaults.items():
        if isinstance(default, ast.Constant) and type(default.value) is int:
            found[name] = [default]
    for node in function.nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name) and not _only_narrows(node, target.id, function):
                    found.setdefault(target.id, []).append(node.value)
        elif isinstance(node, ast.NamedExpr):
            found.setdefault(node.target.id, []).append(node.value)
    return found


def _only_narrows(node: ast.Assign, name: str, function: FunctionInfo) -> bool:
    """`if fast: fast = fits(x)`: where the name is true after this, it was true before."""
    return any(
        place.field == "body" and isinstance(place.parent, ast.If) and _names_all(place.parent.test, name)
        for place in function.index.places[node].outwards()
    )


def _names_all(test: ast.expr, name: str) -> bool:
    """`name`, or a conjunction with it."""
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    return any(isinstance(part, ast.Name) and part.id == name for part in parts)


def _never(test: ast.expr, taken: bool) -> bool:
    return False


def is_sampling_guard(
    test: ast.expr,
    taken: bool,
    lookup: Callable[[str], list[ast.expr]],
    once: Callable[[ast.expr, bool], bool] = _never,
    depth: int = 0,
) -> bool:
    """Whether the branch of `test` (the true one if `taken`) is entered only sometimes.

    `lookup` returns the expressions that a local name is bound to, which shows `log_now = step % 50 == 0`; `once` says
    of a test without `and`, `or` and `not` whether the branch itself makes it fail afterwards.
    """

    def decides(part: ast.expr, taken: bool) -> bool:
        return _is_rare(part, taken, lookup, depth) or once(part, taken)

    return _by_parts(test, taken, decides)


def is_guard(
    test: ast.expr,
    taken: bool,
    other: list[ast.stmt],
    lookup: Callable[[str], list[ast.expr]],
    once: Callable[[ast.expr, bool], bool],
) -> bool:
    """The same for a branch beside the `other` block; what a check that raises lets pass once, it lets pass always."""
    if other and jump_at_end(other) is ast.Raise:
        return _by_parts(test, taken, lambda part, taken: is_for_other_device(part, taken) or once(part, taken))
    return is_sampling_guard(test, taken, lookup, once)


def _by_parts(test: ast.expr, taken: bool, decides: Callable[[ast.expr, bool], bool]) -> bool:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _by_parts(test.operand, not taken, decides)
    if isinstance(test, ast.BoolOp):
        conjunction = isinstance(test.op, ast.And) == taken
        answers = (_by_parts(value, taken, decides) for value in test.values)
        return any(answers) if conjunction else all(answers)
    if isinstance(test, ast.Compare) and _is_asked_for_truth(test):
        flag, value = test.left, test.comparators[0].value  # type: ignore[attr-defined]
        return decides(flag, taken == value) or decides(test, taken)
    return decides(test, taken)


def warns(block: list[ast.stmt]) -> bool:
    """Whether a block only warns or reports an error, and perhaps leaves: nobody keeps what does so in every step."""
    calls = [each.value for each in block if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call)]
    others = [each for each in block if not isinstance(each, (ast.Expr, ast.Continue, ast.Break, ast.Pass))]
    return all(map(_puts_text, others)) and any(map(_is_warning, calls)) and all(map(_reports, calls))


def _puts_text(statement: ast.stmt) -> bool:
    """`text = f"..."`, `text = "..." % (...)`: no other work, such as a step, is done beside the warning."""
    return isinstance(statement, ast.Assign) and isinstance(statement.value, (ast.Constant, ast.JoinedStr, ast.BinOp))


def _is_warning(call: ast.Call) -> bool:
    """`warnings.warn(...)`, `logger.error(...)`; what is told once only is no sign."""
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr not in _WARNS:
        return False
    categories = [each for given in (*call.args, *(k.value for k in call.keywords)) for each in subtree(given)]
    told_once = any((last_name(each) or "").endswith("Warning") for each in categories if isinstance(each, ast.Name))
    return not told_once and _LOGGERS.search(last_name(func.value) or "") is not None


def _reports(call: ast.Call) -> bool:
    func = call.func
    if isinstance(func, ast.Attribute):
        return _LOGGERS.search(last_name(func.value) or "") is not None
    return isinstance(func, ast.Name) and func.id == "print"


def names_training_period(test: ast.expr, *, in_rollout: bool) -> bool:
    """Whether the test asks for a period of training by its name: `t % args.train_every == 0`.

    In a rollout, between whose steps training takes place, `t % update_every == 0` and `t % 4 == 0` do so as well.
    """
    names = [last_name(node) or "" for node in subtree(test) if isinstance(node, (ast.Name, ast.Attribute))]
    wanted = _ROLLOUT_PERIOD if in_rollout else _TRAINING_PERIOD
    return any(map(wanted.search, names)) or (in_rollout and _asks_for_short_period(test))


def names_turn(test: ast.expr) -> bool:
    """Whether the test asks for a network's turn in every few passes: `i % n_critic == 0`, `step % 5 == 0`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        left: ast.expr = test.operand
    elif isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        left = test.left
    else:
        return False
    if not isinstance(left, ast.BinOp) or not isinstance(left.op, ast.Mod):
        return False
    period = left.right.slice if isinstance(left.right, ast.Subscript) else left.right
    if isinstance(period, ast.Constant) and type(period.value) is int:
        return 1 < period.value <= SHORT_PERIOD
    name = period.value if isinstance(period, ast.Constant) else dotted(period)
    return isinstance(name, str) and _TURN.search(name.rpartition(".")[2]) is not None


def _asks_for_short_period(test: ast.expr) -> bool:
    """`t % 4 == 0`, also after `t > warmup`, but with no other remainder or equality that makes it rarer."""
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    periods = [each for each in parts if _is_short_period(each)]
    others = [node for each in parts if each not in periods for node in subtree(each)]
    return len(periods) == 1 and not any(isinstance(node, (ast.Mod, ast.Eq)) for node in others)


def _is_short_period(part: ast.expr) -> bool:
    if not isinstance(part, ast.Compare) or len(part.ops) != 1 or not isinstance(part.ops[0], ast.Eq):
        return False
    left = part.left
    if not isinstance(left, ast.BinOp) or not isinstance(left.op, ast.Mod) or dotted(left.left) is None:
        return False
    period = left.right.value if isinstance(left.right, ast.Constant) else None
    return type(period) is int and 0 < period <= SHORT_PERIOD


def waits_for_interval(test: ast.expr, block: list[ast.stmt]) -> bool:
    """`if step - self.shown >= interval: ...; self.shown = step`: not again before the interval is over."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(waits_for_interval(value, block) for value in test.values)
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], (ast.Gt, ast.GtE)):
        return False
    left, interval = test.left, test.comparators[0]
    if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Div):
        if not isinstance(interval, ast.Constant) or interval.value not in (1, 1.0):
            return False
        interval, left = left.right, left.left
    if not isinstance(left, ast.BinOp) or not isinstance(left.op, ast.Sub) or not _may_be_long(interval):
        return False
    now, last = ast.dump(left.left), dotted(left.right)
    return last is not None and any(
        isinstance(statement, ast.Assign) and dotted(statement.targets[0]) == last and ast.dump(statement.value) == now
        for statement in block
    )


def _may_be_long(interval: ast.expr) -> bool:
    """Whether it is a literal above one, or a name that says that it is a period."""
    if isinstance(interval, ast.Constant):
        return isinstance(interval.value, (int, float)) and interval.value > 1
    name = (last_name(interval) or "").lower() if isinstance(interval, (ast.Name, ast.Attribute)) else ""
    return _PERIOD.search(name) is not None and conventions.ACCUMULATION.search(name) is None


def _is_asked_for_truth(test: ast.Compare) -> bool:
    """`flag is True`, `flag == False`."""
    wanted = test.comparators[0]
    is_equality = len(test.ops) == 1 and isinstance(test.ops[0], (ast.Is, ast.Eq))
    return is_equality and isinstance(wanted, ast.Constant) and isinstance(wanted.value, bool)


def _is_rare(test: ast.expr, taken: bool, lookup: Callable[[str], list[ast.expr]], depth: int) -> bool:
    """The same for a test without `and`, `or` and `not`, by its own condition."""
    if isinstance(test, ast.Compare):
        return is_for_other_device(test, taken) or _comparison(test, taken, lookup, depth)
    if isinstance(test, ast.BinOp) and isinstance(test.op, ast.Mod):
        return not taken and _is_period(test, lookup)
    if _finds_broken_numbers(test, taken, lookup) or is_for_other_device(test, taken):
        return True
    if isinstance(test, ast.Call):
        name = last_name(test.func)
        return taken and name is not None and (conventions.EXPORT_QUESTIONS.search(name) is not None or _is_flag(name))
    if isinstance(test, (ast.Name, ast.Attribute)):
        return _flag(test, taken, lookup, depth)
    return False


def _finds_broken_numbers(test: ast.expr, taken: bool, lookup: Callable[[str], list[ast.expr]]) -> bool:
    """`torch.isnan(x).any()`, `not torch.isfinite(x).all()`, also of a mask bound earlier."""
    asked = last_name(test.func) if isinstance(test, ast.Call) else None
    nodes = list(subtree(test)) if isinstance(test, ast.Call) else []
    mask = _asked_of(test)
    bound = lookup(mask.id) if isinstance(mask, ast.Name) else []
    nodes += [node for each in bound for node in subtree(each)]
    called = {last_name(node.func) for node in nodes if isinstance(node, ast.Call)}
    if asked == "any" or asked in _NOT_A_NUMBER:
        is_turned = "logical_not" in called or any(isinstance(node, ast.Invert) for node in nodes)
        return taken and not is_turned and bool(called & _NOT_A_NUMBER)
    return not taken and asked in ("all", "isfinite") and "isfinite" in called


def _asked_of(test: ast.expr) -> ast.expr | None:
    """`x` of `x.any()` and of `torch.any(x)`."""
    if not isinstance(test, ast.Call):
        return None
    return test.args[0] if test.args else test.func.value if isinstance(test.func, ast.Attribute) else None


def _flag(test: ast.Name | ast.Attribute, taken: bool, lookup: Callable[[str], list[ast.expr]], depth: int) -> bool:
    if isinstance(test, ast.Name) and depth < 3:
        bound = lookup(test.id)
        if bound and all(
            is_sampling_guard(value, taken, lookup, depth=depth + 1) or _is_constant_false(value) for value in bound
        ):
            return any(not _is_constant_false(value) for value in bound)
    name = last_name(test)
    return taken and name is not None and _is_flag(name) and not _is_option(test)


def _is_option(test: ast.Name | ast.Attribute) -> bool:
    """`args.do_distillation`: an option of the whole run, the same in every step."""
    if not isinstance(test, ast.Attribute) or not test.attr.startswith("do_"):
        return False
    return _OPTIONS.search((last_name(test.value) or "").lower()) is not None


def _is_constant_false(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and not value.value


def _is_flag(name: str) -> bool:
    lower = name.lower()
    return _FLAG.search(lower) is not None and _NOT_FLAG.search(lower) is None


def _comparison(test: ast.Compare, taken: bool, lookup: Callable[[str], list[ast.expr]], depth: int) -> bool:
    if len(test.ops) != 1:
        return False
    left, operator, right = test.left, test.ops[0], test.comparators[0]
    if isinstance(left, ast.Name) and depth < 3:
        bound = lookup(left.id)
        if len(bound) == 1 and isinstance(bound[0], ast.BinOp) and isinstance(bound[0].op, ast.Mod):
            left = bound[0]
    if isinstance(left, ast.Constant) and isinstance(operator, (ast.Eq, ast.NotEq)):
        left, right = right, left
    if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod) and _is_period(left, lookup):
        if isinstance(operator, (ast.Eq, ast.Lt, ast.LtE)):
            return taken
        return not taken and isinstance(operator, (ast.NotEq, ast.Gt))
    if isinstance(operator, (ast.Is, ast.IsNot)):
        return False
    if _counts_elements(left, lookup) and isinstance(right, ast.Constant) and right.value == 0:
        return taken == isinstance(operator, ast.Eq) and isinstance(operator, (ast.Eq, ast.NotEq, ast.Gt))
    if _reads_clock(left, lookup) or _reads_clock(right, lookup):
        late = isinstance(operator, (ast.Gt, ast.GtE)) == _reads_clock(left, lookup)
        return taken == late
    for counter, bound_side in ((left, right), (right, left)):
        if not _is_counter(counter) and not _is_counter(_sum_bound(counter, lookup)):
            continue
        if isinstance(operator, ast.Eq):
            return taken
        if isinstance(operator, ast.NotEq):
            return not taken
        if isinstance(operator, (ast.In, ast.NotIn)) and counter is left:
            return taken == isinstance(operator, ast.In)
        small = (
            isinstance(bound_side, ast.Constant)
            and isinstance(bound_side.value, int)
            and bound_side.value <= bounds.MOST_STEPS_OF_WARM_UP
        )
        below = isinstance(operator, (ast.Lt, ast.LtE)) == (counter is left)
        if _is_number_of_steps(counter, lookup):
            return False
        if small and isinstance(operator, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
            return taken == below
    return False


def _counts_elements(node: ast.expr, lookup: Callable[[str], list[ast.expr]]) -> bool:
    """`x.size(0)`, `len(x)`, `x.numel()`, `x.shape[0]`: zero only for an empty batch."""
    if isinstance(node, ast.Call):
        name = last_name(node.func)
        counted = node.args[0] if name == "len" and node.args else None
        if counted is not None and (_is_shape(counted) or _begins_empty(counted, lookup)):
            return False
        return name in ("len", "size", "numel", "nelement")
    return isinstance(node, ast.Subscript) and last_name(node.value) == "shape"


def _begins_empty(node: ast.expr, lookup: Callable[[str], list[ast.expr]]) -> bool:
    """Whether the program binds the name to an empty container, which it fills itself: `seen = {}`."""
    return isinstance(node, ast.Name) and any(
        (isinstance(bound, ast.Dict) and not bound.keys)
        or (isinstance(bound, (ast.List, ast.Tuple)) and not bound.elts)
        or (isinstance(bound, ast.Call) and not bound.args and last_name(bound.func) in _CONTAINERS)
        for bound in lookup(node.id)
    )


def _is_shape(node: ast.expr) -> bool:
    """`x.shape`, `x.size()`: one number per dimension of the tensor."""
    return last_name(node.func if isinstance(node, ast.Call) else node) in ("shape", "size")


def _is_period(test: ast.BinOp, lookup: Callable[[str], list[ast.expr]]) -> bool:
    """`step % n` with a period that is neither one nor the number of accumulated micro-batches."""
    if isinstance(test.left, (ast.Constant, ast.JoinedStr)) and not isinstance(getattr(test.left, "value", None), int):
        return False
    period = test.right
    if isinstance(period, ast.Constant):
        return isinstance(period.value, int) and period.value > 1
    if isinstance(period, ast.Name) and any(_is_one(each) for each in lookup(period.id)):
        return False
    names = [last_name(node) or "" for node in subtree(period) if isinstance(node, (ast.Name, ast.Attribute))]
    return not any(conventions.ACCUMULATION.search(name.lower()) for name in names)


def _is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 1


def _sum_bound(node: ast.expr, lookup: Callable[[str], list[ast.expr]]) -> ast.expr:
    """`i + batches * epoch` of a name that is bound to that alone; anything else as it is."""
    bound = lookup(node.id) if isinstance(node, ast.Name) else []
    is_sum = len(bound) == 1 and isinstance(bound[0], ast.BinOp) and isinstance(bound[0].op, ast.Add)
    return bound[0] if is_sum else node


def _is_counter(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        return _is_counter(node.left)
    name = last_name(node)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        name = str(node.slice.value)  # `group["step"]`
    return name is not None and _COUNTER.search(name.lower()) is not None


def _is_number_of_steps(node: ast.expr, lookup: Callable[[str], list[ast.expr]]) -> bool:
    """`rollout_steps` that is bound to `1`: how many steps there are, since a counter begins with zero."""
    bound = lookup(node.id) if isinstance(node, ast.Name) and node.id.endswith(_PLURALS) else []
    return bool(bound) and all(isinstance(each, ast.Constant) and each.value != 0 for each in bound)


def _reads_clock(node: ast.expr, lookup: Callable[[str], list[ast.expr]]) -> bool:
    for inner in subtree(node):
        if isinstance(inner, ast.Call) and last_name(inner.func) in _CLOCKS:
            return True
        if isinstance(inner, ast.Name) and any(
            isinstance(call, ast.Call) and last_name(call.func) in _CLOCKS
            for bound in lookup(inner.id)
            for call in subtree(bound)
        ):
            return True
    return False


def tests_around(statement: ast.stmt, part: ast.expr) -> Iterator[tuple[ast.expr, bool, list[ast.expr]]]:
    """The tests in a statement on which a part of it depends, each with its outcome there and the values it guards."""
    pending: list[ast.AST] = [child for child in children(statement) if isinstance(child, ast.expr)]
    while pending:
        node = pending.pop()
        branches: list[tuple[ast.expr, bool, list[ast.expr]]] = []
        if isinstance(node, ast.IfExp):
            branches = [(node.test, True, [node.body]), (node.test, False, [node.orelse])]
        elif isinstance(node, ast.BoolOp):
            taken = isinstance(node.op, ast.And)
            branches = [(test, taken, node.values[i + 1 :]) for i, test in enumerate(node.values)]
        elif isinstance(node, COMPREHENSIONS):
            made = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            for at, generator in enumerate(node.generators):
                later = [*made, *(each.iter for each in node.generators[at + 1 :])]
                tests = enumerate(generator.ifs)
                branches += [(test, True, [*generator.ifs[i + 1 :], *later]) for i, test in tests]
        for test, taken, inside in branches:
            if any(inner is part for value in inside for inner in subtree(value)):
                yield test, taken, inside
        pending.extend(children(node))
