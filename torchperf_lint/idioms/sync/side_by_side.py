"""Several reads in statements that stand side by side: one line before them reads the numbers at once."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Fix, Safety
from torchperf_lint.idioms import effects, placing, surroundings, writes
from torchperf_lint.idioms.scripting import judged_at
from torchperf_lint.idioms.sync import coalesced, scalars
from torchperf_lint.idioms.sync.bound import read_where_needed
from torchperf_lint.idioms.sync.delays import relies_on_waits
from torchperf_lint.idioms.sync.reads import Sink, hot_reads
from torchperf_lint.idioms.walked_twice import DRAWS
from torchperf_lint.idioms.written_helpers import ITEMS
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import last_name, names_bound_in, names_in
from torchperf_lint.syntax import edits
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchperf_lint.idioms.sync.reads import HostRead
    from torchperf_lint.idioms.sync.scalars import Scalar
    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import FunctionInfo, Place

_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return)
_ALWAYS = frozenset("Arg Call Attribute Element Tuple List DictElement Dict BinaryOperation UnaryOperation".split())
"""What evaluates all its parts, of libcst, which is loaded only where there is a candidate."""
_STATEMENTS = frozenset("Assign AnnAssign AugAssign Expr Return".split())
_ENTRY = "[]"
_GATHERED = (Sink.ACCUMULATED, Sink.COLLECTED)


class _Read(NamedTuple):
    """A read, the place of its statement, and what is known of its tensor; `is_seen` is false if that is nothing."""

    read: HostRead
    place: Place
    node: ast.expr
    kind: str
    scalar: Scalar | None
    is_seen: bool


def read_side_by_side(model: Model) -> dict[int, Fix]:
    """By the start of each read that stands beside others: the fix for all of them."""
    return model.remember("read_side_by_side", lambda: dict(_fixes(model)))


def _fixes(model: Model) -> Iterator[tuple[int, Fix]]:
    found = [read for each in hot_reads(model) if _is_left(each) for read in _understood(model, each)]
    if len(found) < 2 or relies_on_waits(model) or coalesced.may_differ(model):
        return
    blocks: dict[int, list[_Read]] = {}
    for each in found:
        blocks.setdefault(each.place.block_id, []).append(each)
    for several in blocks.values():
        for group in _groups(model, several):
            made = _at_once(model, group)
            fix = None if made is None else judged_at(model, group[0].read.site, made)
            if isinstance(fix, Fix):
                yield from ((each.read.site.start, fix) for each in group)


def _is_left(read: HostRead) -> bool:
    """Whether no other fix puts the read off: a sum or list of a name in the loop waits for its end."""
    if read.is_mixed:
        return False
    if read.role in _GATHERED:
        return read.by_helper or read.hot_path.loop is None or not read.sink.removesuffix(".append").isidentifier()
    return read.role is Sink.OTHER


def _understood(model: Model, read: HostRead) -> Iterator[_Read]:
    statement, node = model.statement_of(read.site.node), model.ast_of(read.tensor)
    if not isinstance(statement, _SIMPLE) or node is None or not _has_its_rows(model, statement):
        return
    if read.site.start in coalesced.coalesced_fixes(model) or not _always_runs(model, read):
        return
    if read.role is Sink.OTHER and not read.by_helper and isinstance(read_where_needed(model, read), Fix):
        return
    known = coalesced.kind_of(model, read, alike=False)
    may_ask = coalesced.asks_itself(read) and coalesced.may_be_float(model, read)
    if (known is not None or may_ask) and coalesced.reads_plainly(model, read):
        kind, scalar = known or (scalars.FLOAT, None)
        if read.site.tree.lossless:
            yield _Read(read, model.place_of(statement), node, kind, scalar, known is not None)


def _has_its_rows(model: Model, statement: ast.stmt) -> bool:
    """Whether nothing else is on the statement's lines, neither code nor a suppression or a type."""
    rows = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    marked = any(word in model.source.line(row) for row in rows for word in ("noqa", "# type:"))
    return not marked and placing.has_rows_to_itself(statement, model.source)


def _always_runs(model: Model, read: HostRead) -> bool:
    """Whether the statement makes the read whenever it runs."""
    parent = model.parent(read.site.node)
    while type(parent).__name__ in _ALWAYS and parent is not None:
        parent = model.parent(parent)
    return type(parent).__name__ in _STATEMENTS


def _groups(model: Model, several: list[_Read]) -> Iterator[list[_Read]]:
    """Reads of one kind, in statements of which each follows on the one before."""
    pending = sorted(several, key=lambda each: each.read.site.start)
    while pending:
        first, last = pending[0], pending[0].place.position
        group, left = [first], []
        for each in pending[1:]:
            near = all(map(_only_binds_plainly, first.place.block[last + 1 : each.place.position]))
            last = each.place.position if near else last
            joins = near and each.kind == first.kind and len(group) < bounds.MOST_READ_AT_ONCE
            if joins and _may_come_first(model, [*group, each]):
                group.append(each)
            else:
                left.append(each)
        if len({ast.unparse(each.node) for each in group}) > 1:
            yield group
        pending = left


def _only_binds_plainly(statement: ast.stmt) -> bool:
    """Whether a statement between two reads calls nothing, and lets nobody else run: `count += 1`."""
    return isinstance(statement, _SIMPLE) and not any(
        isinstance(each, (ast.Call, ast.Await, ast.Yield, ast.YieldFrom)) for each in subtree(statement)
    )


def _may_come_first(model: Model, group: list[_Read]) -> bool:
    """Whether the last read gives the same before the first one's statement."""
    first, last = group[0], group[-1]
    function = model.function_of(last.read.site)
    between = first.place.block[first.place.position : last.place.position]
    if any(not names_bound_in(each).isdisjoint(names_in(last.node)) for each in between):
        return False
    code = [*between, last.place.statement]
    inside = [part for each in code for part in subtree(each)]
    if any(isinstance(part, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)) for part in inside):
        return False
    passed = [part for each in between for part in subtree(each)]
    if any(_may_rebind(part, last.node) for part in passed) or effects.writes_unseen(model, function, passed):
        return False
    helpers = [each for one in group if one.read.by_helper and (each := model.ast_of(one.read.site.node)) is not None]
    helpers += effects.harmless_calls(model, function, code, contents=_takes_parts(model, last))
    tensors = coalesced.tensors_in(last.node)
    called = [each.func for each in subtree(last.node) if isinstance(each, ast.Call)]
    of_objects = any(isinstance(each, ast.Attribute) and each not in called for each in tensors)
    if of_objects and _calls_others(model, function, inside, helpers):
        return False  # it may set the attribute, or step on the parameters
    return not writes.may_write(model, function, tensors, code, but=helpers)


def _may_rebind(target: ast.AST, read: ast.expr) -> bool:
    """Whether an attribute or entry that is bound (`self.aux = ...`, `out["k"] = ...`) may be part of what is read.

    One of another name is not: the log's entry `self.log["loss"]` does not change `self.aux`.
    """
    if not isinstance(target, (ast.Attribute, ast.Subscript)) or not isinstance(target.ctx, (ast.Store, ast.Del)):
        return False
    bound = _steps(target)
    if bound is None:
        return True
    for part in subtree(read):
        if isinstance(part, (ast.Attribute, ast.Subscript)):
            path = _steps(part)
            if path is not None and (_is_on_way(bound, path) or _is_alike(bound, path)):
                return True
        elif isinstance(part, ast.Call):
            handed = [part.func.value if isinstance(part.func, ast.Attribute) else part.func, *part.args]
            if any(isinstance(each, ast.Name) and each.id == bound[0] for each in handed):
                return True  # a method or a function may look at what is bound
    return False


def _is_on_way(bound: tuple[str, ...], read: tuple[str, ...]) -> bool:
    """Whether what is bound is read first: `self.aux` for `self.aux.mean`; an entry whose key varies may be any."""
    return len(bound) <= len(read) and all(
        one == other or (_ENTRY in (one, other) and one.startswith("[") and other.startswith("["))
        for one, other in zip(bound, read, strict=False)
    )


def _is_alike(bound: tuple[str, ...], read: tuple[str, ...]) -> bool:
    """Whether the objects may be one by two names: `net.weight` for `self.net.weight`."""
    return bound[0] != read[0] and bound[-1] != _ENTRY and bound[-1] in read[1:]


def _steps(node: ast.expr) -> tuple[str, ...] | None:
    """The name, and the attributes and entries after it: `self`, `log` and `['loss']` for `self.log["loss"]`."""
    steps: list[str] = []
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Attribute):
            steps.append(node.attr)
        else:
            is_text = isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
            steps.append(f"[{ast.unparse(node.slice)}]" if is_text else _ENTRY)
        node = node.value
    return (node.id, *reversed(steps)) if isinstance(node, ast.Name) else None


def _calls_others(model: Model, function: FunctionInfo, inside: list[ast.AST], helpers: Sequence[ast.AST]) -> bool:
    """Whether the code calls anything but functions of torch and of Python, methods of tensors, and helpers."""
    for part in inside:
        if not isinstance(part, ast.Call) or part in helpers:
            continue
        called = model.value_in(function, part.func)
        of_tensor = called.kind is Kind.METHOD and called.function is None and called.element is not None
        if not of_tensor and called.kind is not Kind.LIBRARY and last_name(part.func) != "append":
            return True
    return False


def _at_once(model: Model, group: list[_Read]) -> Fix | None:
    first = group[0].read
    torch, function = model.name_of("torch", first.site), model.function_of(first.site)
    converted = {each.read.reader for each in group if not _gives_itself(each)}
    if torch is None or not all(map(model.keeps_builtin, converted)):
        return None
    texts = [edits.text_of(each.read.site.tree, each.read.tensor) for each in group]
    names = {
        text: surroundings.new_name(model, function, coalesced.hint(model, each.read))
        for text, each in dict(zip(texts, group, strict=True)).items()
    }
    replaced = []
    for each, text in zip(group, texts, strict=True):
        number = names[text] if _gives_itself(each) else f"{each.read.reader}({names[text]})"
        replaced.append(edits.replace(each.read.site.tree, each.read.site.node, number))
    grade = coalesced.safety(model, first, [each.scalar for each in group])
    helper = None
    if grade is not Safety.SAFE and all(coalesced.asks_itself(each.read) for each in group):
        helper = coalesced.items_helper(model, torch, group[0].place.statement)
    if helper is None and not all(each.is_seen for each in group):
        return None
    listed = f"[{', '.join(names)}]"
    line = f"{ITEMS.name}({listed})" if helper is not None else f"{torch}.stack({listed}).tolist()"
    line = f"{', '.join(names.values())} = {line}"
    before = placing.beside(model, group[0].place.statement, [line], behind=False)
    changed = edits.together(*(helper or ()), before, *replaced)
    if changed is None:
        return None
    is_quiet = all(_only_binds(model, each) for each in group) or _leave_tensors(model, group)
    if not is_quiet or _may_be_left(model, group):
        return Fix(coalesced.TITLE, Safety.UNSAFE, changed, coalesced.ASSUMES)
    return Fix(coalesced.TITLE, grade if helper is None else Safety.SAFE, changed, coalesced.ASSUMES)


def _leave_tensors(model: Model, group: list[_Read]) -> bool:
    """Whether nothing in the statements, but for the reads, writes to tensors or binds attributes; nor is one drawn."""
    place, last = group[0].place, group[-1].place
    reads = [each.read.site for each in group]
    own = {part for site in reads if (node := model.ast_of(site.node)) is not None for part in subtree(node)}
    parts = [each for one in place.block[place.position : last.position + 1] for each in subtree(one)]
    if any(isinstance(each, ast.Call) and last_name(each.func) in DRAWS for each in own):
        return False  # what a method draws before the read is drawn behind it
    done = effects.of_code(model, model.function_of(group[0].read.site), [each for each in parts if each not in own])
    return effects.leaves_tensors(done, contents=any(_takes_parts(model, each) for each in group))


def _may_be_left(model: Model, group: list[_Read]) -> bool:
    """Whether the program may go on where a later read fails, for which the statements before it have run."""
    first, last = group[0], group[-1]
    return last.place.position > first.place.position and surroundings.may_be_caught(model, first.read.site)


def _takes_parts(model: Model, each: _Read) -> bool:
    """Whether what is read is taken from a list or dict, which other code may fill: `parts[0]`, `sum(losses)`."""
    function, nodes = model.function_of(each.read.site), list(subtree(each.node))
    walked = (model.value_in(function, part).kind for part in nodes if isinstance(part, ast.expr))
    return any(isinstance(part, ast.Subscript) for part in nodes) or Kind.CONTAINER in walked


def _gives_itself(each: _Read) -> bool:
    """Whether `tolist` gives the number that the read gives."""
    return each.read.reader in ("item", "float" if each.kind == scalars.FLOAT else "int")


def _only_binds(model: Model, each: _Read) -> bool:
    """Whether all that the statement does is to give the number to a name, or to an entry of a list or dict."""
    statement, read = each.place.statement, each.read
    if read.by_helper or not isinstance(statement, ast.Assign) or statement.value is not model.ast_of(read.site.node):
        return False
    target = statement.targets[0] if len(statement.targets) == 1 else None
    if isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
        held = model.value_in(model.function_of(read.site), target.value).kind
        return held is Kind.CONTAINER and isinstance(target.slice, (ast.Constant, ast.Name))
    return isinstance(target, ast.Name)
