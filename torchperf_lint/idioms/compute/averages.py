"""Moving averages of parameters that a loop updates one parameter after the other."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Edit
from torchperf_lint.model.index import dotted, last_name
from torchperf_lint.model.meaning.values import Device

if TYPE_CHECKING:
    from torchperf_lint.model import Model, Site

_Names = tuple[str, str]


class Average(NamedTuple):
    """`for p, q in zip(...)`: the average is `decay` times itself and `weight` times the parameter.

    Without a decay it is a `lerp_` by the weight; with no weight it is of another form than a fix could take up.
    """

    loop: ast.For
    average: str  # what is written, as an expression of `target`
    parameter: str
    target: str
    source: str
    targets: str  # what is walked over
    sources: str
    decay: str | None
    weight: str | None


def average_of(model: Model, site: Site) -> Average | None:
    """The moving average that the loop over the `zip(...)` at the site updates, if it does nothing else."""
    loop = model.statement_of(site.node)
    call = model.ast_of(site.node)
    if not isinstance(loop, ast.For) or loop.iter is not call or loop.orelse or not isinstance(call, ast.Call):
        return None
    target = loop.target
    if len(call.args) != 2 or not isinstance(target, ast.Tuple) or len(target.elts) != 2:
        return None
    names = [each.id for each in target.elts if isinstance(each, ast.Name)]
    if len(names) != 2 or not all(_gives_parameters(each) for each in call.args):
        return None
    function = model.function_of(site)
    if any((last_name(record.call.func) or "").startswith("_foreach_") for record in function.calls_made):
        return None
    owners = [
        each.func.value for each in call.args if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)
    ]
    if any(model.world.frame_value(function, owner).device is Device.CPU for owner in owners):
        return None
    body = loop.body
    while len(body) == 1 and isinstance(body[0], ast.With):
        body = body[0].body
    for place, other in ((1, 0), (0, 1)):
        found = _update(body, names[place], names[other])
        if found is not None:
            average, parameter, decay, weight = found
            given = [ast.unparse(each) for each in call.args]
            return Average(
                loop, average, parameter, names[place], names[other], given[place], given[other], decay, weight
            )
    return None


def _gives_parameters(node: ast.expr) -> bool:
    """`model.parameters()`, or a name that says that it holds parameters."""
    if isinstance(node, ast.Call):
        return last_name(node.func) == "parameters" and not node.args
    return "param" in (dotted(node) or "").rpartition(".")[2].lower()


_Update = tuple[str, str, str | None, str | None]


def _update(body: list[ast.stmt], average: str, parameter: str) -> _Update | None:
    """The average, the parameter, decay and weight, where the statements are the update of an average."""
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
    return any(isinstance(each, ast.Name) and each.id in names for each in ast.walk(node))


def in_place_of_loop(model: Model, loop: ast.For, lines: list[str]) -> Edit | None:
    """Put these lines in the place of the loop; None where there are comments in it, or it shares its rows."""
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
