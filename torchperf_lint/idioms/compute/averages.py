"""Moving averages of parameters that a loop updates one parameter at a time."""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Edit
from torchperf_lint.model.domain.values import Device
from torchperf_lint.model.handles import dotted, last_name
from torchperf_lint.syntax.tree import children, subtree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeGuard

    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import FunctionInfo

_Names = tuple[str, str]


class Average(NamedTuple):
    """`for p, q in zip(...)`: the average is `decay` times itself plus `weight` times the parameter.

    Without a decay it is a `lerp_` by the weight. Without a weight it has a form that no fix supports, such as one
    over the entries of `state_dict()`, which are also buffers of any dtype.
    """

    loop: ast.For
    average: str  # the expression in `target`
    parameter: str
    target: str
    source: str
    targets: str  # the iterable
    sources: str
    decay: str | None
    weight: str | None


def averages(model: Model) -> Iterator[tuple[Site, Average]]:
    """The loops that only update a moving average, each with the site of its iterable."""
    for loop, function in model.all_loops:
        if not isinstance(loop, ast.For) or loop.orelse or not isinstance(loop.iter, ast.Call):
            continue
        is_zip = isinstance(loop.iter.func, ast.Name) and loop.iter.func.id == "zip" and model.keeps_builtin("zip")
        find = _average_of_pairs if is_zip else _average_by_name
        average = find(model, loop, loop.iter, function)
        site = None if average is None else model.site_at(loop.iter, loop)
        if average is not None and site is not None:
            yield site, average


def _average_of_pairs(model: Model, loop: ast.For, call: ast.Call, function: FunctionInfo) -> Average | None:
    """The average that a loop over `zip(averages, parameters)` updates."""
    target = loop.target
    if len(call.args) != 2 or not isinstance(target, ast.Tuple) or len(target.elts) != 2:
        return None
    names = [each.id for each in target.elts if isinstance(each, ast.Name)]
    sides = [_joined(model, function, each) for each in call.args]
    parts = [each for side in sides for each in side]
    if len(names) != 2 or not all(any(map(_gives_parameters, side)) for side in sides):
        return None
    if not all(_gives_parameters(each) or _gives_buffers(each, "buffers") for each in parts):
        return None
    if any((last_name(record.call.func) or "").startswith("_foreach_") for record in function.calls_made):
        return None
    owners = [owner for each in parts if (owner := _owner(each)) is not None]
    if any(model.value_in(function, owner).device is Device.CPU for owner in owners):
        return None
    of_states = any(
        _gives_buffers(each, "buffers") or (isinstance(each, ast.Call) and _gives_states(each, "values"))
        for each in parts
    )
    body = _innermost(loop.body, set(names) if of_states else set())
    for place, other in ((1, 0), (0, 1)):
        found = _update(body, names[place], names[other])
        if found is not None:
            average, parameter, decay, weight = found
            given = [ast.unparse(each) for each in call.args]
            weight = None if of_states else weight
            return Average(
                loop, average, parameter, names[place], names[other], given[place], given[other], decay, weight
            )
    return None


_ENTRY = "_entry_of_this_name"
"""Replaces `averages[name]` while the update is parsed."""


def _average_by_name(model: Model, loop: ast.For, call: ast.Call, function: FunctionInfo) -> Average | None:
    """The average that a loop over `model.named_parameters()` updates, stored in a dict or module dict by name."""
    names = [each.id for each in loop.target.elts if isinstance(each, ast.Name)] if _is_pair(loop.target) else []
    joined = _joined(model, function, call)
    walked = [each for each in joined if isinstance(each, ast.Call)]
    if len(names) != 2 or len(walked) != len(joined) or not any(map(_gives_names, walked)):
        return None
    if not all(_gives_names(each) or _gives_buffers(each, "named_buffers") for each in walked):
        return None
    of_states = any(_gives_buffers(each, "named_buffers") or _gives_states(each, "items") for each in walked)
    body = _innermost(loop.body, set(names) if of_states else set())
    bodies = [body]
    if of_states and len(body) > 1 and all(isinstance(each, ast.If) for each in body):
        bodies = [_innermost([each], set(names)) for each in body]  # one dict has the parameters, another the buffers
    updated = [_average_of_entries(model, loop, walked, function, each, of_states) for each in bodies]
    return None if None in updated else updated[0]


def _average_of_entries(
    model: Model, loop: ast.For, walked: list[ast.Call], function: FunctionInfo, body: list[ast.stmt], of_states: bool
) -> Average | None:
    """The average that these statements of a loop over names update."""
    key, own = (ast.unparse(each) for each in loop.target.elts)  # type: ignore[attr-defined]
    if of_states:
        body = _stored_in_place(body, key, own, function)
    entries = [each for statement in body for each in subtree(statement) if _is_entry(each, key)]
    holders = {dotted(each.value) or "" for each in entries}
    holder = holders.pop() if len(holders) == 1 else ""
    root = holder.partition(".")[0]
    if not root or root in (key, own):
        return None
    given = [each.func.value for each in walked if isinstance(each.func, ast.Attribute)]
    owners = [*given, *(_owner(each) for each in walked), entries[0].value]
    if any(_is_on_host(model, function, each) for each in owners if each is not None):
        return None
    renamed = [_Renamed(key).visit(copy.deepcopy(statement)) for statement in body]
    if any(_reads(statement, key) for statement in renamed):
        return None
    for average, parameter in ((_ENTRY, own), (own, _ENTRY)):
        found = _update(renamed, average, parameter)
        if found is not None:
            entry, items, target = f"{holder}[{key}]", ast.unparse(loop.iter), f"{key}, {own}"
            written, read, decay, weight = (each and each.replace(_ENTRY, entry) for each in found)
            weight = None if of_states else weight
            return Average(loop, written or "", read or "", target, target, items, items, decay, weight)
    return None


def _joined(model: Model, function: FunctionInfo, node: ast.expr) -> list[ast.expr]:
    """What a loop goes over: the arguments of `itertools.chain`, or the expression itself."""
    if not isinstance(node, ast.Call) or model.value_in(function, node.func).ref != "itertools.chain":
        return [node]
    return list(node.args)


def _owner(node: ast.expr) -> ast.expr | None:
    """The model of `model.parameters()`, `model.state_dict().values()`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
        if not isinstance(node, ast.Call):
            return node
    return None


def _gives_states(call: ast.Call, part: str) -> bool:
    """`model.state_dict().values()`, `model.state_dict().items()`."""
    func = call.func
    return (
        isinstance(func, ast.Attribute)
        and func.attr == part
        and isinstance(func.value, ast.Call)
        and last_name(func.value.func) == "state_dict"
        and not (call.args or call.keywords or func.value.args or func.value.keywords)
    )


def _innermost(body: list[ast.stmt], names: set[str]) -> list[ast.stmt]:
    """The statements inside `with torch.no_grad():`, and inside tests of one of these names that guard all of them.

    `if v.dtype.is_floating_point:` skips counters, `if name in other:` what only one of the models has.
    """
    while len(body) == 1:
        only = body[0]
        is_guard = isinstance(only, ast.If) and _leaves_out(only.test, names) and _ends(only.orelse)
        if not isinstance(only, ast.With) and not is_guard:
            break
        body = only.body  # type: ignore[attr-defined]
    return body


def _leaves_out(test: ast.expr, names: set[str]) -> bool:
    if isinstance(test, ast.Compare):
        return isinstance(test.left, ast.Name) and test.left.id in names and isinstance(test.ops[0], ast.In)
    asked = test.func if isinstance(test, ast.Call) else test
    return last_name(asked) == "is_floating_point" and _reads(test, *names)


def _ends(body: list[ast.stmt]) -> bool:
    return not body or (len(body) == 1 and isinstance(body[0], (ast.Raise, ast.Pass, ast.Continue)))


def _stored_in_place(body: list[ast.stmt], key: str, own: str, function: FunctionInfo) -> list[ast.stmt]:
    """`v.copy_(...)` for `new[name] = ...` in a dict that the function loads into a model afterwards."""
    only = body[0]
    if len(body) != 1 or not isinstance(only, ast.Assign) or not _is_entry(only.targets[0], key):
        return body
    holder = dotted(only.targets[0].value)
    loaded = [
        dotted(record.call.args[0])
        for record in function.calls_made
        if last_name(record.call.func) == "load_state_dict" and record.call.args
    ]
    if holder is None or holder not in loaded:
        return body
    return [_call_of(ast.Name(own, ast.Load()), "copy_", only.value)]


def _call_of(owner: ast.expr, method: str, argument: ast.expr) -> ast.Expr:
    return ast.Expr(ast.Call(ast.Attribute(owner, method, ast.Load()), [argument], []))


def _is_pair(node: ast.expr) -> TypeGuard[ast.Tuple]:
    return isinstance(node, ast.Tuple) and len(node.elts) == 2


def _is_entry(node: ast.AST, key: str) -> TypeGuard[ast.Subscript]:
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name) and node.slice.id == key


class _Renamed(ast.NodeTransformer):
    """Replaces `averages[name]` by a plain name."""

    def __init__(self, key: str) -> None:
        self._key = key

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        return ast.Name(_ENTRY, node.ctx) if _is_entry(node, self._key) else self.generic_visit(node)


def _gives_names(call: ast.Call) -> bool:
    """Whether the call is `model.named_parameters()`, or `.items()` of a dict built from it or named for parameters."""
    if call.args or call.keywords or not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr == "named_parameters" or _gives_states(call, "items"):
        return True
    return call.func.attr == "items" and "param" in (dotted(call.func.value) or "").rpartition(".")[2].lower()


def _gives_buffers(node: ast.expr, method: str) -> bool:
    """Whether the node is `model.buffers()` or, for the other method, `model.named_buffers()`."""
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    return is_call and last_name(node.func) == method and not (node.args or node.keywords)  # type: ignore[attr-defined]


def _is_on_host(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    value = model.value_in(function, node)
    held = value if value.element is None else value.element
    return Device.CPU in (value.device, held.device)


def _gives_parameters(node: ast.expr) -> bool:
    """Whether the node is `model.parameters()`, or a name for parameters."""
    if isinstance(node, ast.Call):
        return (last_name(node.func) == "parameters" and not node.args) or _gives_states(node, "values")
    return "param" in (dotted(node) or "").rpartition(".")[2].lower()


_Update = tuple[str, str, str | None, str | None]


def _update(body: list[ast.stmt], average: str, parameter: str) -> _Update | None:
    """The average, the parameter, decay and weight, if the statements update an average."""
    body = [_as_method(statement) for statement in body]
    if len(body) == 2:
        one, two = (each.value if isinstance(each, ast.Expr) else None for each in body)
        scaled, added = _method(one, "mul_", average), _method(two, "add_", average)
        if scaled is None or added is None or ast.unparse(scaled.func.value) != ast.unparse(added.func.value):  # type: ignore[attr-defined]
            return None
        return _scaled_and_added(scaled, added, average, parameter)
    if len(body) != 1:
        return None
    if isinstance(body[0], ast.Assign) and len(body[0].targets) == 1:
        left = body[0].targets[0]
        is_data = isinstance(left, ast.Attribute) and left.attr == "data" and dotted(left.value) == average
        return _sum(left, body[0].value, average, parameter) if is_data else None
    call = body[0].value if isinstance(body[0], ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or not call.args:
        return None
    written = call.func.value
    if call.func.attr == "add_" and isinstance(written, ast.Call):
        scaled = _method(written, "mul_", average)
        return None if scaled is None else _scaled_and_added(scaled, call, average, parameter)
    if call.func.attr == "copy_" and _is_of(written, average):
        return _sum(written, call.args[0], average, parameter)
    if call.func.attr == "lerp_" and _is_of(written, average) and len(call.args) + len(call.keywords) == 2:
        weight = call.args[1] if len(call.args) == 2 else call.keywords[0].value
        if _is_of(call.args[0], parameter) and not _reads(weight, average, parameter):
            return ast.unparse(written), ast.unparse(call.args[0]), None, ast.unparse(weight)
    return None


def _as_method(statement: ast.stmt) -> ast.stmt:
    """`q.mul_(m)` for `q *= m`, `q.add_(p)` for `q += p`, which are the same for tensors."""
    if not isinstance(statement, ast.AugAssign) or not isinstance(statement.op, (ast.Mult, ast.Add)):
        return statement
    method = "mul_" if isinstance(statement.op, ast.Mult) else "add_"
    return _call_of(statement.target, method, statement.value)


def _method(node: ast.expr | None, name: str, of: str) -> ast.Call | None:
    """`q.data.mul_(m)`: a call of this method, with one argument or two, on the loop's name."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != name:
        return None
    return node if _is_of(node.func.value, of) and node.args else None


def _scaled_and_added(scaled: ast.Call, added: ast.Call, average: str, parameter: str) -> _Update | None:
    """`q.mul_(m).add_(p, alpha=1 - m)` and `q.mul_(m).add_((1 - m) * p)`."""
    decay, alpha = scaled.args[0], next((each.value for each in added.keywords if each.arg == "alpha"), None)
    weighed = (added.args[0], alpha) if alpha is not None else _weighed(added.args[0], parameter)
    if weighed is None or not _is_of(weighed[0], parameter) or len(scaled.args) + len(added.args) != 2:
        return None
    if _reads(decay, average, parameter) or _reads(weighed[1], average, parameter):
        return None
    written = scaled.func.value  # type: ignore[attr-defined]
    return ast.unparse(written), ast.unparse(weighed[0]), ast.unparse(decay), ast.unparse(weighed[1])


def _sum(written: ast.expr, value: ast.expr, average: str, parameter: str) -> _Update | None:
    """`m * q + (1 - m) * p`."""
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add):
        return None
    for one, other in ((value.left, value.right), (value.right, value.left)):
        mine, its = _weighed(one, average), _weighed(other, parameter)
        if (
            mine is not None
            and its is not None
            and not any(_reads(each[1], average, parameter) for each in (mine, its))
        ):
            return ast.unparse(written), ast.unparse(its[0]), ast.unparse(mine[1]), ast.unparse(its[1])
    return None


def _weighed(node: ast.expr, name: str) -> tuple[ast.expr, ast.expr] | None:
    """The tensor and the number of `w * p.data`."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return None
    pairs = [(node.left, node.right), (node.right, node.left)]
    return next((pair for pair in pairs if _is_of(pair[0], name)), None)


def _is_of(node: ast.expr, name: str) -> bool:
    """`p`, `p.data`, `p.detach()`."""
    while True:
        if isinstance(node, ast.Call) and not node.args and not node.keywords and isinstance(node.func, ast.Attribute):
            if node.func.attr != "detach":
                return False
            node = node.func.value
        elif isinstance(node, ast.Attribute) and node.attr == "data":
            node = node.value
        else:
            return isinstance(node, ast.Name) and node.id == name


def _reads(node: ast.expr, *names: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id in names for each in subtree(node))


def names_live_on(model: Model, site: Site, loop: ast.For) -> bool:
    """Whether code outside the loop may read the names that it binds."""
    bound = {node.id for node in subtree(loop.target) if isinstance(node, ast.Name)}
    inside = {id(node) for node in subtree(loop)}
    pending: list[tuple[ast.AST, set[str]]] = [(model.function_of(site).node, bound)]
    for node, free in pending:
        if isinstance(node, ast.Name) and node.id in free and isinstance(node.ctx, ast.Load) and id(node) not in inside:
            return True
        if isinstance(node, (ast.For, ast.AsyncFor)):
            free = free - {each.id for each in subtree(node.target) if isinstance(each, ast.Name)}
        generators = getattr(node, "generators", [])
        free = free - {each.id for part in generators for each in subtree(part.target) if isinstance(each, ast.Name)}
        pending += [(child, free) for child in children(node)]
    return False


def in_place_of_loop(model: Model, loop: ast.For, lines: list[str]) -> Edit | None:
    """Replace the loop by these lines; None if it contains comments or shares its lines."""
    source = model.source
    first, last = loop.lineno, loop.end_lineno or loop.lineno
    rows = [source.line(row) for row in range(first, last + 1)]
    indent = rows[0][: len(rows[0]) - len(rows[0].lstrip())]
    if any("#" in row for row in rows[1:]) or rows[0].encode()[: loop.col_offset].strip():
        return None
    _, mark, comment = rows[0].partition("#")
    kept = [f"{mark}{comment.rstrip()}"] if mark else []
    start = source.line_starts[first - 1]
    end = source.line_starts[last] if last < len(source.line_starts) else len(source.utf8)
    text = "".join(f"{indent}{line}{source.newline}" for line in (*kept, *lines))
    return Edit(start, end, text.encode())
