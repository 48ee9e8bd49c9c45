"""Sums and lists that are entries of a local dict: `sums["loss"] += loss.item()`, `log[k].append(v.item())`."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Fix, NoFix, Safety
from torchperf_lint.idioms import placing, surroundings
from torchperf_lint.idioms.scripting import outside_torchscript
from torchperf_lint.idioms.sync.factors import scale_of
from torchperf_lint.idioms.sync.fresh import is_fresh
from torchperf_lint.idioms.sync.put_off import put_off
from torchperf_lint.idioms.sync.reads import Sink, may_lack_float64
from torchperf_lint.idioms.written_helpers import ALL_SETTLED, SETTLED, defined
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import dotted
from torchperf_lint.syntax import edits
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.engine.findings import Edit
    from torchperf_lint.idioms.sync.reads import HostRead
    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import FunctionInfo

SUM_TITLE, LIST_TITLE = "sum in the dict on the device, read once after the loop", "collect in the dict on the device"
_ASSUMES = "all entries of the dict are numbers, and their tensors live on one device"


class _Entry(NamedTuple):
    """What a statement of the loop puts into the dict: the key, and the number that it adds or appends."""

    key: ast.expr
    number: ast.expr
    appended: bool


class _Dict(NamedTuple):
    """A local dict that a loop only fills, the expression that makes it, and the types of the values in it."""

    name: str
    made: ast.expr
    types: frozenset[type]
    entries: tuple[_Entry, ...]
    numbers: bool  # whether all that is put into it is shown to be a number

    def start_of(self, key: ast.expr) -> type | None:
        """The type that the sum of this entry begins with; None if it may be either."""
        if isinstance(self.made, ast.Dict) and isinstance(key, ast.Constant):
            pairs = zip(self.made.keys, self.made.values, strict=True)
            own = [each for its, each in pairs if isinstance(its, ast.Constant) and its.value == key.value]
            constant = all(isinstance(its, ast.Constant) for its in self.made.keys)
            if constant and len(own) == 1:
                return _type_of(own[0])
        return next(iter(self.types)) if len(self.types) == 1 else None


@outside_torchscript
def kept_in_entries(model: Model, read: HostRead) -> Fix | NoFix:
    """Leave the number on the device until the loop ends, if nothing looks into the dict before."""
    held = _dict_of(model, read)
    if held is None:
        return NoFix.PUT_IN_A_CONTAINER
    if read.hot_path.loop is None:
        return NoFix.LOOP_ELSEWHERE
    if not surroundings.ends_plainly(model, read.hot_path, model.uses(held.name, read.site, read.hot_path)):
        return NoFix.MAY_BE_CAUGHT
    return _listed(model, read, held) if read.role is Sink.COLLECTED else _summed(model, read, held)


# -- the dict -------------------------------------------------------------------------------------------------------


def _dict_of(model: Model, read: HostRead) -> _Dict | None:
    """The local dict that the read's statement fills, if the loop does nothing else with it."""
    function, loop = model.function_of(read.site), read.hot_path.loop
    name = read.sink.partition("[")[0].partition(".setdefault(")[0]
    if loop is None or not name.isidentifier() or not _is_made_for_the_loop(model, read, name):
        return None
    made = next((each for each in _given(function, name) if each.lineno < loop.lineno), None)
    types = None if made is None else _starts(model, function, made)
    if made is None or types is None:
        return None
    inside = {id(node) for node in subtree(loop)}
    nodes = [node for node in function.nodes if isinstance(node, ast.Name) and node.id == name and id(node) in inside]
    entries = [each for node in nodes if (each := _entry(function, node)) is not None]
    appends = read.role is Sink.COLLECTED
    if len(entries) != len(nodes) or any(each.appended is not appends for each in entries):
        return None
    if appends is not (list in types or not types):
        return None
    if any(model.value_in(function, each.number).is_tensor for each in entries):
        return None  # an entry that stays a tensor would become a number
    return _Dict(name, made, types, tuple(entries), all(_is_number(model, function, each.number) for each in entries))


def _is_made_for_the_loop(model: Model, read: HostRead, name: str) -> bool:
    """Whether the name is bound once before the loop, in each run of it, and seen by nothing until the loop."""
    uses = model.uses(name, read.site, read.hot_path)
    first = [use for use in uses.of("store") if not use.after]
    unseen = all(use.inside or use.after for use in uses.of("load"))
    plain = uses.local and not uses.any_nested and not uses.of("delete", "augment")
    return plain and unseen and len(first) == 1 and first[0].same_run


def _is_number(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """Whether an expression gives a number of Python's: `x.item()` does, whatever `x` is."""
    if isinstance(node, ast.BinOp):
        return all(_is_number(model, function, each) for each in (node.left, node.right))
    reads = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "item"
    return reads or model.value_in(function, node).kind is Kind.NUMBER


def _entry(function: FunctionInfo, node: ast.Name) -> _Entry | None:
    """`d[key] += number`, `d[key].append(number)` and `d.setdefault(key, []).append(number)`."""
    parents = function.parents
    around = parents[node]
    if isinstance(around, ast.Subscript) and around.value is node:
        held: ast.expr = around
        key = around.slice
        adds = parents[around]
        if isinstance(adds, ast.AugAssign) and adds.target is around and isinstance(adds.op, ast.Add):
            return _Entry(key, adds.value, appended=False)
    elif isinstance(around, ast.Attribute) and around.attr == "setdefault":
        call = parents[around]
        if not isinstance(call, ast.Call) or len(call.args) != 2 or not _is_empty_list(call.args[1]):
            return None
        held, key = call, call.args[0]
    else:
        return None
    method = parents[held]
    call = parents[method]
    appends = isinstance(method, ast.Attribute) and method.attr == "append" and isinstance(parents[call], ast.Expr)
    if not appends or not isinstance(call, ast.Call) or len(call.args) != 1 or call.keywords:
        return None
    return _Entry(key, call.args[0], appended=True)


def _given(function: FunctionInfo, name: str) -> Iterator[ast.expr]:
    """What assignments give to the name: `sums = ...`, and `sums, count = ..., 0`, but not `sums = other = ...`."""
    for node in function.nodes:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        pairs = [(targets[0], node.value)] if len(targets) == 1 else []
        for target, value in pairs:
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
                pairs += zip(target.elts, value.elts, strict=True)
            elif isinstance(target, ast.Name) and target.id == name:
                yield value


def _starts(model: Model, function: FunctionInfo, made: ast.expr) -> frozenset[type] | None:
    """The types of a new dict's values, which are numbers or new lists; None if it may be anything else."""
    if isinstance(made, ast.Dict):
        return _types(made.values) if None not in made.keys else None
    if isinstance(made, ast.DictComp):
        return _types([made.value])
    if not isinstance(made, ast.Call) or made.keywords:
        return None
    if model.value_in(function, made.func).ref == "collections.defaultdict" and len(made.args) == 1:
        return _types_of_maker(model, made.args[0])
    if dotted(made.func) == "dict.fromkeys" and len(made.args) == 2 and model.keeps_builtin("dict"):
        return _types(made.args[1:]) if isinstance(made.args[1], ast.Constant) else None
    return None


def _types_of_maker(model: Model, maker: ast.expr) -> frozenset[type] | None:
    """The type of what `defaultdict(maker)` makes: `float`, `int`, `list` or `lambda: 0.0`."""
    if isinstance(maker, ast.Lambda):
        return _types([maker.body])
    types: dict[str | None, type] = {"float": float, "int": int, "list": list}
    name = maker.id if isinstance(maker, ast.Name) else None
    return frozenset({types[name]}) if name in types and model.keeps_builtin(str(name)) else None


def _types(values: list[ast.expr]) -> frozenset[type] | None:
    """The types of literal numbers and empty lists; None if there is anything else."""
    found = {list if _is_empty_list(each) else _type_of(each) for each in values}
    return frozenset(found) if found <= {int, float} or found == {list} else None


def _type_of(node: ast.expr) -> type:
    """The type of a literal."""
    return type(node.value) if isinstance(node, ast.Constant) else type(None)


def _is_empty_list(node: ast.expr) -> bool:
    return isinstance(node, ast.List) and not node.elts


# -- sums -----------------------------------------------------------------------------------------------------------


def _summed(model: Model, read: HostRead, held: _Dict) -> Fix | NoFix:
    """`sums[k] += x.detach().double()`, and `sums.update(...)` behind the loop."""
    torch, scale = model.name_of("torch", read.site), scale_of(model, read)
    if scale is None:
        return NoFix.COMPUTED_WITH
    if len({_managers_around(model, read, each) for each in held.entries}) > 1:
        return NoFix.FORM  # nothing but an inference mode may add to a tensor that one has made
    kept = _exactly(model, read, held)
    definitions: tuple[Edit, ...] | None = ()
    if kept is None:
        mine, _ = _beside(model, read, held)
        later = put_off(model, read, to_float=held.start_of(mine.key) is float)
        if later is None or not scale.exact:
            return NoFix.DTYPE_UNKNOWN
        kept, definitions = later.kept, later.definitions
        grade = Safety.UNSAFE
    else:
        kept = edits.postfix(read.site.tree, read.tensor) + kept
        grade = Safety.SAFE if held.numbers else Safety.UNSAFE
    if torch is None:
        return NoFix.NO_ROOM
    line = f"{held.name}.update({{key: {SETTLED.name}(kept) for key, kept in {held.name}.items()}})"
    changed = edits.together(
        definitions,
        defined(model, SETTLED, torch, model.statement_of(read.site.node)),
        edits.replace(read.site.tree, read.site.node, kept),
        placing.after(model, read.hot_path, line),
    )
    return NoFix.NO_ROOM if changed is None else Fix(SUM_TITLE, grade, changed, _ASSUMES)


def _exactly(model: Model, read: HostRead, held: _Dict) -> str | None:
    """What is done to the tensor so that the device adds what Python would add; None if the code does not show it."""
    value, scale = model.value(read.tensor), scale_of(model, read)
    dtype, function = value.dtype or "", model.function_of(read.site)
    whole = dtype.startswith(("int", "uint", "bool"))
    if scale is None or not scale.exact or not value.scalar or value.mixed:
        return None
    mine, others = _beside(model, read, held)
    start = held.start_of(mine.key)
    if whole and read.reader != "float" and start is int:
        if scale.whole and all(model.value_in(function, each.number).dtype == "int" for each in others):
            # A sum of smaller integers would overflow where Python's does not.
            return "" if dtype in ("int64", "bool") else ".long()"
        return None
    floats = dtype.startswith(("float", "bfloat")) and read.reader != "int"
    if may_lack_float64(model, read.tensor) or not (floats or (whole and start is float)):
        return None
    return ".detach().double()"


def _beside(model: Model, read: HostRead, held: _Dict) -> tuple[_Entry, list[_Entry]]:
    """The read's own entry, and the others that may have the same key: a whole number may not become a float there."""
    function, statement = model.function_of(read.site), model.statement_of(read.site.node)
    mine = next(each for each in held.entries if function.parents[each.number] is statement)
    return mine, [each for each in held.entries if each is not mine and not _are_apart(each.key, mine.key)]


def _managers_around(model: Model, read: HostRead, entry: _Entry) -> tuple[int, ...]:
    """The rows of the `with` statements of the loop around the statement of an entry."""
    statement = model.function_of(read.site).parents[entry.number]
    places = model.place_of(statement).outwards() if isinstance(statement, ast.stmt) else ()
    loop, found = read.hot_path.loop, list[int]()
    for place in places:
        if place.parent is loop:
            break
        if isinstance(place.parent, (ast.With, ast.AsyncWith)):
            found.append(place.parent.lineno)
    return tuple(found)


def _are_apart(one: ast.expr, other: ast.expr) -> bool:
    """Whether two keys are literals that differ."""
    return isinstance(one, ast.Constant) and isinstance(other, ast.Constant) and one.value != other.value


# -- lists ----------------------------------------------------------------------------------------------------------


def _listed(model: Model, read: HostRead, held: _Dict) -> Fix | NoFix:
    """`log[k].append(x.detach())`, and `log.update(...)` behind the loop."""
    torch, dtype = model.name_of("torch", read.site), model.value(read.tensor).dtype or ""
    kinds = {"item": ("",), "float": ("float", "bfloat"), "int": ("int", "uint")}[read.reader]
    if not any(model.ast_of(read.site.node) is each.number for each in held.entries):
        return NoFix.COMPUTED_WITH
    if not dtype.startswith(kinds) or model.value(read.tensor).mixed:
        return NoFix.DTYPE_UNKNOWN
    if torch is None:
        return NoFix.NO_ROOM
    kept = ".detach()" if is_fresh(model, read) else ".detach().clone()"
    line = f"{held.name}.update({{key: {ALL_SETTLED.name}(kept) for key, kept in {held.name}.items()}})"
    changed = edits.together(
        defined(model, ALL_SETTLED, torch, model.statement_of(read.site.node)),
        edits.replace(read.site.tree, read.site.node, edits.postfix(read.site.tree, read.tensor) + kept),
        placing.after(model, read.hot_path, line),
    )
    grade = Safety.SAFE if held.numbers else Safety.UNSAFE
    return NoFix.NO_ROOM if changed is None else Fix(LIST_TITLE, grade, changed, _ASSUMES)
