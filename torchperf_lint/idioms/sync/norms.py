"""Norms of parameters or gradients that are read one by one, and a loop's total of them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Edit
from torchperf_lint.model.domain.frequency import LoopKind
from torchperf_lint.model.handles import dotted, last_name, names_bound_in
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import FunctionInfo
    from torchperf_lint.syntax import cst

_NORMS = frozenset({"norm", "vector_norm"})
_PARAMETERS = frozenset({"parameters", "named_parameters"})
_SQUARE_ROOTS = ("math.sqrt", "sqrt")


class Total(NamedTuple):
    """A loop that only adds up squared norms, and the statements around it, in the form of one expression.

    `normed` is the argument of each norm, `norm` the norm itself, `walk` the rest of a comprehension over them.
    """

    statements: tuple[ast.stmt, ...]
    name: str | None  # the name of the root; None if it is returned
    normed: str
    norm: str
    walk: str


def is_one_of_many(model: Model, site: Site, tensor: cst.BaseExpression) -> bool:
    """Whether a read in a loop or comprehension over parameters is of one parameter's norm, or of its gradient's."""
    place, meaning = model.place(site.node), model.ast_of(tensor)
    function = place.function
    if meaning is None:
        return False
    walks: list[tuple[ast.expr, ast.expr]] = [
        (loop.target, loop.iter)
        for loop in place.loops()
        if isinstance(loop, ast.For) and model.loop_info(loop).kind is LoopKind.OTHER
    ]
    walks += [
        (part.target, part.iter)
        for node in subtree(place.statement)
        if isinstance(node, (ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp))
        for part in node.generators
    ]
    bound = [meaning]
    if isinstance(meaning, ast.Name):
        bound = model.bindings(function, meaning.id)
    return bool(bound) and all(_is_norm_of_one(_spelled(model, function, each), walks) for each in bound)


def _spelled(model: Model, function: FunctionInfo, node: ast.expr) -> ast.expr:
    """The call with the function's name in torch, if it is a torch function under another name."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id not in _NORMS:
        ref = model.value_in(function, node.func).ref or ""
        if ref.startswith("torch."):
            return ast.Call(ast.Name(ref.rpartition(".")[2], ast.Load()), node.args, node.keywords)
    return node


def _is_norm_of_one(node: ast.expr, walks: list[tuple[ast.expr, ast.expr]]) -> bool:
    normed = _normed(node)
    if normed is None:
        return False
    names = {each.id for each in subtree(normed) if isinstance(each, ast.Name)}
    of_gradient = any(isinstance(each, ast.Attribute) and each.attr == "grad" for each in subtree(normed))
    for target, iterated in walks:
        bound = {each.id for each in subtree(target) if isinstance(each, ast.Name)}
        over_parameters = any(
            last_name(each) in _PARAMETERS for each in subtree(iterated) if isinstance(each, ast.expr)
        )
        if names & bound and (of_gradient or over_parameters):
            return True
    return False


def _normed(node: ast.expr) -> ast.expr | None:
    """`g` of `g.norm(2)`, `torch.norm(g)`, `g.pow(2).sum()` and `(g ** 2).sum()`."""
    if not isinstance(node, ast.Call):
        return None
    name = last_name(node.func)
    if name in _NORMS:
        return _subject(node)
    if name != "sum" or len(node.args) > 1 or node.keywords:
        return None
    squared = _subject(node)
    if isinstance(squared, ast.BinOp) and isinstance(squared.op, ast.Pow):
        return squared.left if _is_two(squared.right) else None
    if isinstance(squared, ast.Call) and last_name(squared.func) in ("pow", "square"):
        return _subject(squared)
    return None


def _subject(call: ast.Call) -> ast.expr | None:
    """The receiver of a method, or the first argument of a torch function."""
    if isinstance(call.func, ast.Attribute):
        root = dotted(call.func.value) or ""
        if root.partition(".")[0] not in ("torch", "LA", "linalg"):
            return call.func.value
    return call.args[0] if call.args else None


def is_summed_up(model: Model, name: str, site: Site) -> bool:
    """Whether the function around the site adds the name's value to something."""
    function = model.function_of(site)
    return name in model.remember(("summed up", function), lambda: _summed_up_in(function))


def _summed_up_in(function: FunctionInfo) -> frozenset[str]:
    """The names in the terms that a function adds to something."""
    return frozenset(
        each.id
        for node in subtree(function.node)
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add)
        for each in subtree(node.value)
        if isinstance(each, ast.Name)
    )


def total_of(model: Model, site: Site) -> Total | None:
    """The root of a sum of squared norms that the loop around the site computes, if it does nothing else."""
    statement = model.statement_of(site.node)
    loop = next(iter(model.place(site.node).loops()), None)
    if not isinstance(loop, ast.For) or loop.orelse or not isinstance(statement, ast.AugAssign):
        return None
    place = model.place_of(loop)
    if place.position + 1 >= len(place.block) or place.position == 0 or not isinstance(statement.target, ast.Name):
        return None
    name, last = statement.target.id, place.block[place.position + 1]
    start = next((each for each in reversed(place.before) if _starts_at_zero(each, name)), None)
    norm, condition = _one_norm(loop, statement)
    normed = None if norm is None else _normed(norm)
    bound = _bound_root(last, name)
    if start is None or norm is None or normed is None or bound is None:
        return None
    between = place.block[place.block.index(start) + 1 : place.position]
    if any(isinstance(node, ast.Name) and node.id == name for each in between for node in subtree(each)):
        return None
    if _leaves_names_behind(loop, name, model.function_of(site)):
        return None
    if _is_of_matrix(model, norm, model.function_of(site)):
        return None
    target = ast.unparse(loop.target)
    target = target[1:-1] if isinstance(loop.target, ast.Tuple) and target.startswith("(") else target
    walk = f"for {target} in {_operand(loop.iter)}" + (f" if {_operand(condition)}" if condition else "")
    is_norm = last_name(norm.func) in _NORMS if isinstance(norm, ast.Call) else False
    whole = isinstance(normed, (ast.Name, ast.Attribute, ast.Call))
    taken = ast.unparse(normed) if whole else f"({ast.unparse(normed)})"
    text = ast.unparse(norm) if is_norm else f"{taken}.norm()"
    return Total((start, loop, last), bound or None, ast.unparse(normed), text, walk)


def _operand(node: ast.expr) -> str:
    """The text of an expression after `in` or `if` in a comprehension."""
    text = ast.unparse(node)
    return f"({text})" if isinstance(node, (ast.IfExp, ast.Lambda)) else text


def _is_of_matrix(model: Model, norm: ast.expr, function: FunctionInfo) -> bool:
    """Whether the norm is `torch.linalg.norm(g, 2)`, which is the largest singular value of a matrix."""
    if not isinstance(norm, ast.Call) or len(norm.args) + len(norm.keywords) < 2:
        return False
    return model.value_in(function, norm.func).ref == "torch.linalg.norm"


def _leaves_names_behind(loop: ast.For, name: str, function: FunctionInfo) -> bool:
    """Whether a name that the loop binds, except the sum, is read outside it: a comprehension binds none."""
    bound = names_bound_in(loop) - {name}
    inside = {id(node) for node in subtree(loop)}
    return any(
        isinstance(node, ast.Name) and node.id in bound and isinstance(node.ctx, ast.Load) and id(node) not in inside
        for node in function.nodes
    )


def _starts_at_zero(statement: ast.stmt, name: str) -> bool:
    return (
        isinstance(statement, ast.Assign)
        and len(statement.targets) == 1
        and dotted(statement.targets[0]) == name
        and isinstance(statement.value, ast.Constant)
        and statement.value.value == 0
    )


def _bound_root(statement: ast.stmt, name: str) -> str | None:
    """The name bound by `name = total ** 0.5`, the empty string for `return total ** 0.5`; None for anything else."""
    value = statement.value if isinstance(statement, (ast.Assign, ast.Return)) else None
    if value is None or not _is_root_of(value, name):
        return None
    if isinstance(statement, ast.Return):
        return ""
    same = isinstance(statement, ast.Assign) and len(statement.targets) == 1 and dotted(statement.targets[0]) == name
    return name if same else None


def _is_root_of(node: ast.expr, name: str) -> bool:
    if isinstance(node, ast.Call) and dotted(node.func) in _SQUARE_ROOTS and len(node.args) == 1:
        return dotted(node.args[0]) == name
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Pow) or dotted(node.left) != name:
        return False
    halves = {"0.5", "1 / 2", "1.0 / 2", "1.0 / 2.0", "1 / 2.0"}
    return ast.unparse(node.right) in halves


def _one_norm(loop: ast.For, added: ast.AugAssign) -> tuple[ast.expr | None, ast.expr | None]:
    """The norm whose square each pass adds, and its condition."""
    body, condition = list(loop.body), None
    if len(body) == 1 and isinstance(body[0], ast.If) and not body[0].orelse:
        condition, body = body[0].test, list(body[0].body)
    elif isinstance(body[0], ast.If) and not body[0].orelse and isinstance(body[0].body[0], ast.Continue):
        condition, body = _opposite(body[0].test), body[1:]
        if condition is None:
            return None, None
    names: dict[str, ast.expr] = {}
    for statement in body[:-1]:
        if not (isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)):
            return None, None
        names[statement.targets[0].id] = statement.value
    if not body or body[-1] is not added or len(names) > 1 or len(names) != len(body) - 1:
        return None, None
    read, squares = _read_in(added.value)
    norm = names.get(read.id) if isinstance(read, ast.Name) else None if names else read
    if norm is None or _normed(norm) is None or squares is (last_name(getattr(norm, "func", norm)) == "sum"):
        return None, None
    return (norm, condition) if _is_second(norm) else (None, None)


def _opposite(test: ast.expr) -> ast.expr | None:
    """`p.grad is not None` for `p.grad is None`."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Is):
        return ast.Compare(test.left, [ast.IsNot()], test.comparators)
    return None


def _read_in(value: ast.expr) -> tuple[ast.expr | None, bool]:
    """`n` of `n.item() ** 2`, and whether it is squared."""
    squares = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Pow) and _is_two(value.right)
    call = value.left if isinstance(value, ast.BinOp) and squares else value
    if not isinstance(call, ast.Call):
        return None, squares
    if isinstance(call.func, ast.Attribute) and call.func.attr == "item" and not call.args:
        return call.func.value, squares
    is_float = isinstance(call.func, ast.Name) and call.func.id == "float" and len(call.args) == 1
    return (call.args[0] if is_float else None), squares


def _is_second(norm: ast.expr) -> bool:
    """Whether a norm is Euclidean: of order 2, or of no given order."""
    if not isinstance(norm, ast.Call) or last_name(norm.func) == "sum":
        return True
    asked = norm.args if _subject(norm) is getattr(norm.func, "value", None) else norm.args[1:]
    if any(keyword.arg not in ("p", "ord") for keyword in norm.keywords):
        return False
    asked = [*asked, *(keyword.value for keyword in norm.keywords)]
    return len(asked) <= 1 and all(_is_two(each) for each in asked)


def _is_two(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 2


def in_place_of(model: Model, site: Site, total: Total, line: str) -> tuple[Edit, ...] | None:
    """Replace the total's statements by one line, after their comments; None if impossible."""
    source = model.source
    made: list[Edit] = []
    kept: list[str] = []
    for statement in total.statements:
        first, last = statement.lineno, statement.end_lineno or statement.lineno
        rows = [source.line(row) for row in range(first, last + 1)]
        before, behind = rows[0].encode()[: statement.col_offset], rows[-1].encode()[statement.end_col_offset :]
        comments = [row.partition("#") for row in rows if "#" in row]
        texts = any(quote in code for code, _, _ in comments for quote in ("'", '"'))
        if texts or before.strip() or behind.strip()[:1] not in (b"", b"#"):
            return None
        indent = before.decode()
        kept += [f"{indent}#{comment.rstrip()}{source.newline}" for _, _, comment in comments]
        start = source.line_starts[first - 1]
        end = source.line_starts[last] if last < len(source.line_starts) else len(source.utf8)
        is_last = statement is total.statements[-1]
        text = "".join(kept) + f"{indent}{line}{source.newline}" if is_last else ""
        made.append(Edit(start, end, text.encode()))
    return tuple(made) if site.tree.lossless else None
