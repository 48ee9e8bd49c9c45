"""Where a local name is bound and read: what a fix must know before it changes what the name holds."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.knowledge.loggers import DISPLAYS, LOG_OBJECTS
from torchperf_lint.model.index import FunctionInfo, dotted, last_name

if TYPE_CHECKING:
    from torchperf_lint.model.heat import HeatMap
    from torchperf_lint.model.index import Index
    from torchperf_lint.syntax.source import Source


class Use(NamedTuple):
    """One occurrence of a name in its function.

    `kind` is load, store, augment (`x += ...`) or delete. `inside` says that it stands in the loop asked about
    (body or else-branch), `after` that it stands behind it; `throttled` that it runs there only now and then;
    `nested` that it stands in a function, lambda or class inside the function. `constant` is the literal that
    a plain `x = <literal>` binds. `formatted_with_name` marks `{x=}` in an f-string. `displayed` says that the
    use is printed, formatted or logged; `decides` that a branch depends on it; `call` is the function that takes
    it (`env.step`), as text.
    """

    kind: str
    start: int
    end: int
    inside: bool
    after: bool
    throttled: bool
    nested: bool
    constant: object
    formatted_with_name: bool
    displayed: bool
    decides: bool
    call: str | None
    same_block: bool  # stands in the same block as the loop (a plain statement before or after it)
    as_float: bool  # divided, or formatted as a float: 0 and 0.0 give the same there


class NameUses(NamedTuple):
    """Every occurrence of a name in one function, and whether the name is local to it."""

    local: bool
    uses: tuple[Use, ...]

    def of(self, *kinds: str) -> list[Use]:
        """The occurrences of these kinds."""
        return [use for use in self.uses if use.kind in kinds]


class _Context(NamedTuple):
    nested: bool
    displayed: bool
    decides: bool
    call: str | None
    as_float: bool


def _entered(context: _Context, parent: ast.AST, child: ast.AST) -> _Context:
    """The context of a child node."""
    nested, displayed, decides, call, _ = context
    if isinstance(child, ast.stmt):
        displayed, decides, call = False, False, None
    if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
        nested = True
    if isinstance(parent, (ast.If, ast.While, ast.Assert, ast.IfExp)) and child is parent.test:
        decides = True
    if isinstance(child, ast.FormattedValue):
        displayed = True
    if isinstance(child, ast.Call):
        call = dotted(child.func)
        if last_name(child.func) in DISPLAYS or (call or "").partition(".")[0] in LOG_OBJECTS:
            displayed = True
    return _Context(nested, displayed, decides, call, _takes_floats(parent, child))


def _takes_floats(parent: ast.AST, child: ast.AST) -> bool:
    """Whether the parent makes a float of an integer child anyway."""
    if isinstance(parent, (ast.BinOp, ast.AugAssign)):
        return isinstance(parent.op, ast.Div)
    if isinstance(parent, ast.FormattedValue) and child is parent.value and isinstance(parent.format_spec, ast.JoinedStr):
        last = parent.format_spec.values[-1] if parent.format_spec.values else None
        return isinstance(last, ast.Constant) and str(last.value)[-1:] in ("f", "F", "e", "E", "g", "G", "%")
    return False


def uses_of(
    name: str, function: FunctionInfo, loop: ast.stmt | None, index: Index, heat: HeatMap, source: Source
) -> NameUses:
    """All uses of `name` in the function, related to `loop`."""
    found: list[Use] = []
    local = not isinstance(function.node, ast.Module)
    augmented = {id(node.target) for node, _ in index.augmented}
    constants = _constants(function)

    def visit(node: ast.AST, statement: ast.stmt | None, context: _Context) -> None:
        nonlocal local
        for child in ast.iter_child_nodes(node):
            place = child if isinstance(child, ast.stmt) else statement
            if isinstance(child, (ast.Global, ast.Nonlocal)) and name in child.names:
                local = False
            inner = _entered(context, node, child)
            if isinstance(child, ast.Name) and child.id == name:
                found.append(describe(child, place, inner))
            visit(child, place, inner)

    def describe(node: ast.Name, statement: ast.stmt | None, context: _Context) -> Use:
        kind = {ast.Load: "load", ast.Store: "store", ast.Del: "delete"}[type(node.ctx)]
        if id(node) in augmented:
            kind = "augment"
        start = source.offset(node.lineno, node.col_offset)
        end = source.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
        inside = loop is not None and loop.lineno <= node.lineno <= (loop.end_lineno or 0)
        after = loop is not None and node.lineno > (loop.end_lineno or 0)
        throttled = inside and statement is not None and not context.nested and heat.throttled(statement)
        with_name = source.utf8[end : end + 4].lstrip().startswith(b"=") and source.utf8[start - 1 : start] == b"{"
        siblings = index.places[loop].block if loop is not None else []
        return Use(
            kind,
            start,
            end,
            inside,
            after,
            throttled,
            context.nested,
            constants.get(id(node)),
            with_name,
            context.displayed,
            context.decides,
            context.call,
            statement in siblings,
            context.as_float,
        )

    visit(function.node, None, _Context(False, False, False, None, False))
    return NameUses(local, tuple(sorted(found, key=lambda use: use.start)))


def _constants(function: FunctionInfo) -> dict[int, object]:
    """Literals bound by plain assignments, by the id of the target's node."""
    found: dict[int, object] = {}
    for node in ast.walk(function.node):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            found.update({id(target): node.value.value for target in node.targets if isinstance(target, ast.Name)})
        elif isinstance(node, ast.Assign) and isinstance(node.value, (ast.List, ast.Dict)) and not ast.unparse(node.value)[1:-1]:
            found.update({id(target): "[]" if isinstance(node.value, ast.List) else "{}" for target in node.targets})
    return found


def names_bound_in(loop: ast.stmt) -> set[str]:
    """Every name that the loop binds, its targets included."""
    return {
        node.id
        for node in ast.walk(loop)
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del))
    }
