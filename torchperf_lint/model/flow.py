"""Definitions and uses of a local name: what a fix must know before it changes the name's value."""

from __future__ import annotations

import ast
import functools
import re
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.knowledge.loggers import DISPLAYS, LOG_OBJECTS
from torchperf_lint.knowledge.torch_api import MAKES_OF_SIZES, TAKES_SIZES
from torchperf_lint.model.syntax.index import FunctionInfo, dotted, last_name
from torchperf_lint.syntax.tree import children

if TYPE_CHECKING:
    from torchperf_lint.model.domain.interfaces import FrequencyQuestions
    from torchperf_lint.model.syntax.index import Index
    from torchperf_lint.syntax.source import Source


_SEES_ALL_NAMES = frozenset({"locals", "vars", "eval", "exec"})
EMPTY_LISTS = ("[]", "list()")
"""The constants of a name that is bound to a new list; of the second, `list` has to be Python's own."""
_EQUALS = re.compile(rb"[ \t\r\n)]*=")


class Use(NamedTuple):
    """One occurrence of a name in its function.

    `kind` is load, store, augment (`x += ...`) or delete. `inside` means in the given loop (body or else-branch),
    `after` means behind the loop. `sampled` means that it runs under a sampling guard in the loop (without a loop: in
    the function). `nested` means in a nested function, lambda or class. `constant` is the literal that a plain
    `x = <literal>` binds. `formatted_with_name` marks `{x=}` or `{x / 2=}` in an f-string. `displayed` means that the
    use is printed, formatted or logged; `decides` that a branch, a size or an index depends on it; `call` is the text
    of the function that takes it (`env.step`).
    """

    kind: str
    start: int
    end: int
    inside: bool
    after: bool
    sampled: bool
    nested: bool
    constant: object
    formatted_with_name: bool
    displayed: bool
    decides: bool
    call: str | None
    same_run: bool  # in a block around the loop, or in its own, with no other loop in between
    leads: bool  # always executed before the loop begins
    as_float: bool  # divided, or formatted as a float: 0 and 0.0 give the same there
    again: bool  # behind the loop, in another loop that runs it in every step


class NameUses:
    """Every occurrence of a name in one function, and whether the name is local to it.

    Many sites read the same name, so properties of all occurrences are computed once.
    """

    def __init__(self, local: bool, uses: tuple[Use, ...]) -> None:
        self.local = local
        self.uses = uses
        self._of: dict[tuple[str, ...], list[Use]] = {}

    def of(self, *kinds: str) -> list[Use]:
        """The occurrences of these kinds."""
        if kinds not in self._of:
            self._of[kinds] = [use for use in self.uses if use.kind in kinds]
        return self._of[kinds]

    @functools.cached_property
    def is_plain_counter(self) -> bool:
        """Whether it is a local number with one update in the loop, read only after it or under a sampling guard."""
        stores, loads = self.of("store"), self.of("load")
        return (
            self.local
            and any(use.leads for use in stores)
            and all(type(use.constant) in (int, float) for use in stores)
            and sum(use.inside for use in self.of("augment")) == 1
            and not self.of("delete")
            and not self.any_nested
            and not any(use.formatted_with_name for use in loads if use.inside)
            and all(use.sampled for use in loads if use.inside)
        )

    @functools.cached_property
    def any_nested(self) -> bool:
        """Whether a nested function uses it."""
        return any(use.nested for use in self.uses)

    @functools.cached_property
    def is_read_now_and_then(self) -> bool:
        """Whether a sampling guard covers any read of it."""
        return any(use.sampled for use in self.of("load"))

    @functools.cached_property
    def only_filled(self) -> bool:
        """Whether it is a new list that one place in the loop fills, and that nothing reads before the loop ends."""
        fills = [use for use in self.of("load", "augment") if use.inside]
        first = [use for use in self.of("store") if not use.after]
        return (
            self.local
            and len(first) == 1
            and first[0].constant in EMPTY_LISTS
            and first[0].same_run
            and len(fills) == 1
            and not any(use.nested or use.kind == "delete" for use in self.uses)
            and all(use.inside or (use.after and use.kind == "load") for use in self.of("load", "augment"))
        )


_MODULES = frozenset("torch np numpy F functional".split())
"""Last names of modules whose functions take their data first."""


class _Context(NamedTuple):
    nested: bool
    displayed: bool
    decides: bool
    call: str | None
    as_float: bool
    spelled: bool


def _entered(context: _Context, parent: ast.AST, child: ast.AST) -> _Context:
    """The context of a child node."""
    nested, displayed, decides, call, _, spelled = context
    if isinstance(child, ast.stmt):
        displayed, decides, call = False, False, None
    if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
        nested = True
    if isinstance(parent, (ast.If, ast.While, ast.Assert, ast.IfExp)) and child is parent.test:
        decides = True
    if isinstance(parent, ast.Subscript) and child is parent.slice:
        decides = True
    if isinstance(parent, ast.Call) and child is not parent.func and _takes_size(parent, child):
        decides = True
    if _asks_what_it_is(child):
        decides = False
    if isinstance(child, ast.FormattedValue):
        displayed = True
    if isinstance(child, ast.Call):
        call = dotted(child.func) or last_name(child.func)
        if last_name(child.func) in DISPLAYS or (call or "").partition(".")[0] in LOG_OBJECTS:
            displayed = True
    return _Context(nested, displayed, decides, call, _takes_floats(parent, child), spelled)


def _takes_size(call: ast.Call, given: ast.AST) -> bool:
    """Whether an argument is a size or a place: in `torch.topk(x, k)` the first one is not, in `x.topk(k)` it is."""
    name = last_name(call.func)
    is_function = isinstance(call.func, ast.Attribute) and last_name(call.func.value) in _MODULES
    is_data = is_function and name not in MAKES_OF_SIZES and given is next(iter(call.args), None)
    return name in TAKES_SIZES and not is_data


def _asks_what_it_is(node: ast.AST) -> bool:
    """`isinstance(x, ...)`, `x is None`: the result is the same for every number x."""
    if isinstance(node, ast.Compare):
        return all(isinstance(operator, (ast.Is, ast.IsNot)) for operator in node.ops)
    return isinstance(node, ast.Call) and last_name(node.func) in ("isinstance", "is_tensor")


def _takes_floats(parent: ast.AST, child: ast.AST) -> bool:
    """Whether the parent converts an integer child to float anyway."""
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Mult, ast.Add, ast.Sub)):
        return any(isinstance(side, ast.Constant) and type(side.value) is float for side in (parent.left, parent.right))
    if isinstance(parent, (ast.BinOp, ast.AugAssign)):
        return isinstance(parent.op, ast.Div)
    if (
        isinstance(parent, ast.FormattedValue)
        and child is parent.value
        and isinstance(parent.format_spec, ast.JoinedStr)
    ):
        last = parent.format_spec.values[-1] if parent.format_spec.values else None
        return isinstance(last, ast.Constant) and str(last.value)[-1:] in ("f", "F", "e", "E", "g", "G", "%")
    return False


class Occurrences:
    """All names and dotted paths of a function and their places, collected in one pass for `uses_of`."""

    def __init__(self, function: FunctionInfo, index: Index, source: Source) -> None:
        self.index = index
        self.source = source
        self.is_module = function.is_module
        self.constants = _constants(function)
        self.by_path: dict[str, list[tuple[ast.Name | ast.Attribute, ast.stmt | None, _Context]]] = {}
        self.hidden: set[str] = set()
        self.all_hidden = False
        self._walk(function)

    @functools.cached_property
    def augmented(self) -> frozenset[int]:
        """The targets of `x += ...`, by id."""
        return frozenset(id(node.target) for node, _ in self.index.augmented)

    def _walk(self, function: FunctionInfo) -> None:
        outside = _Context(False, False, False, None, False, False)
        pending: list[tuple[ast.AST, ast.stmt | None, _Context]] = [(function.node, None, outside)]
        while pending:
            node, statement, context = pending.pop()
            for child in children(node):
                place = child if isinstance(child, ast.stmt) else statement
                self._note_hidden(child)
                inner = _entered(context, node, child)
                if isinstance(child, ast.FormattedValue) and _spells_itself(child, self.source):
                    inner = inner._replace(spelled=True)
                if isinstance(child, (ast.Name, ast.Attribute)) and (path := dotted(child)) is not None:
                    self.by_path.setdefault(path, []).append((child, place, inner))
                pending.append((child, place, inner))

    def _note_hidden(self, node: ast.AST) -> None:
        """Note names that the node may use or bind in a way that `uses_of` does not list."""
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            self.hidden.update(node.names)
        elif isinstance(node, ast.Call):
            self.all_hidden |= isinstance(node.func, ast.Name) and node.func.id in _SEES_ALL_NAMES
        else:
            bound = node.asname or node.name if isinstance(node, ast.alias) else getattr(node, "name", None)
            self.hidden.update(name for name in (bound, getattr(node, "rest", None)) if name is not None)


def uses_of(name: str, loop: ast.stmt | None, occurrences: Occurrences, hot_path: FrequencyQuestions) -> NameUses:
    """All uses of `name` (or of a path such as `self.total`) in the function, related to `loop`.

    A name counts as local only if every use is visible here: no `global`, no `locals()`, no binding other than a plain
    name (such as an import or an exception), and each place confirmed in the text.
    """
    index, source = occurrences.index, occurrences.source
    before = _blocks_around(loop, index)
    near = _blocks_around(loop, index, up_to_loop=True)

    def describe(node: ast.Name | ast.Attribute, statement: ast.stmt | None, context: _Context) -> Use:
        kind = {ast.Load: "load", ast.Store: "store", ast.Del: "delete"}[type(node.ctx)]
        if id(node) in occurrences.augmented:
            kind = "augment"
        start = source.offset(node.lineno, node.col_offset)
        end = source.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
        inside = loop is not None and loop.lineno <= node.lineno <= (loop.end_lineno or 0)
        after = loop is not None and node.lineno > (loop.end_lineno or 0)
        in_step = (inside or loop is None) and statement is not None and not context.nested
        sampled = in_step and statement is not None and hot_path.sampled(statement)
        block = index.places[statement].in_block if loop is not None and statement is not None else None
        later = hot_path.of(statement) if after and statement is not None else None
        return Use(
            kind,
            start,
            end,
            inside,
            after,
            sampled,
            context.nested,
            occurrences.constants.get(id(node)),
            context.spelled,
            context.displayed,
            context.decides,
            context.call,
            block is not None and not inside and id(block) in near,
            block is not None and not inside and not after and id(block) in before,
            context.as_float,
            later is not None and later.loop is not None,
        )

    found = [describe(*each) for each in occurrences.by_path.get(name, ())]
    hidden = occurrences.is_module or occurrences.all_hidden or name in occurrences.hidden
    confirmed = all(source.utf8[use.start : use.end] == name.encode() for use in found)
    return NameUses(not hidden and confirmed, tuple(sorted(found, key=lambda use: use.start)))


def _spells_itself(node: ast.FormattedValue, source: Source) -> bool:
    """Whether an f-string also shows the expression's text (`{x / 2=}`)."""
    value = node.value
    end = source.offset(value.end_lineno or value.lineno, value.end_col_offset or 0)
    return _EQUALS.match(source.utf8, end) is not None


def _blocks_around(loop: ast.stmt | None, index: Index, *, up_to_loop: bool = False) -> set[int]:
    """The blocks that contain the loop or a statement around it, perhaps only those within the next loop."""
    blocks = set()
    while loop is not None:
        place = index.places[loop]
        blocks.add(place.block_id)
        loop = None if up_to_loop and isinstance(place.parent, (ast.For, ast.AsyncFor, ast.While)) else place.parent
    return blocks


def _constants(function: FunctionInfo) -> dict[int, object]:
    """Literals bound by plain assignments, by the id of the target's node."""
    found: dict[int, object] = {}
    for node in function.nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                _note_constants(target, node.value, found)
            if len(node.targets) > 1 and isinstance(node.value, (ast.List, ast.Dict, ast.Call)):
                # `x = self.x = []` binds one list to two names: other code may see it.
                for target in node.targets:
                    found.pop(id(target), None)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            _note_constants(node.target, node.value, found)
    return found


def _is_empty_list(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "list" and not call.args and not call.keywords


def _note_constants(target: ast.expr, value: ast.expr, found: dict[int, object]) -> None:
    if isinstance(target, ast.Name) and isinstance(value, ast.Constant):
        found[id(target)] = value.value
    elif isinstance(target, ast.Name) and isinstance(value, ast.List) and not value.elts:
        found[id(target)] = "[]"
    elif isinstance(target, ast.Name) and isinstance(value, ast.Call) and _is_empty_list(value):
        found[id(target)] = "list()"
    elif isinstance(target, ast.Name) and isinstance(value, ast.Dict) and not value.keys:
        found[id(target)] = "{}"
    elif isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
        starred = any(isinstance(element, ast.Starred) for element in (*target.elts, *value.elts))
        if len(target.elts) == len(value.elts) and not starred:
            for part, given in zip(target.elts, value.elts, strict=True):
                _note_constants(part, given, found)
