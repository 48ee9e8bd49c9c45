"""Several reads of one block as one: `a, b = torch.stack([x, y]).tolist()` in place of the last of them."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Edit, Fix, Safety
from torchperf_lint.idioms import effects, evaluating, placing, surroundings, writes
from torchperf_lint.idioms.scripting import judged_at
from torchperf_lint.idioms.sync import scalars
from torchperf_lint.idioms.sync.bound import read_where_needed
from torchperf_lint.idioms.sync.delays import Delayed, delayed, relies_on_waits
from torchperf_lint.idioms.sync.reads import Sink, hot_reads
from torchperf_lint.idioms.sync.waiting import care_of, statements_around
from torchperf_lint.idioms.walked_twice import DRAWS
from torchperf_lint.idioms.written_helpers import ITEMS, defined
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import dotted, last_name
from torchperf_lint.syntax import cst, edits, shape
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.idioms.sync.reads import HostRead
    from torchperf_lint.idioms.sync.scalars import Scalar
    from torchperf_lint.idioms.sync.waiting import Care, Statements
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import FunctionInfo

TITLE = "read the numbers of the step at once"
ASSUMES = "each has one element and no dimension, and all lie on one device"
_BOUNDS = frozenset("min max amin amax".split())
_BOUNDS_OF_TORCH = frozenset(f"torch.{name}" for name in _BOUNDS)
_SPREAD = ("DTensor", "loss_parallel", "parallelize_module", "fully_shard", "distribute_tensor")
"""Names in files where a loss may not be a plain tensor."""
_OF_HELPER = ("all", "any", "dict", "len", "list", "type", "zip")
"""Builtins that the helper uses."""
_NOT_FLOATS = frozenset("all any argmax argmin count_nonzero numel int long bool".split())
_NOT_ALIKE = (*_SPREAD, "complex", "fft")
"""The same, or where it may be complex."""
_OPERATORS = (ast.Subscript, ast.BinOp, ast.UnaryOp, ast.Compare)
"""What an object of the project may have code of its own for."""


def may_differ(model: Model) -> bool:
    """Whether a loss of the file may not be a plain tensor, or not the one that its function returns by default."""
    return model.code.speaks_of(*_NOT_ALIKE) or model.code.assigns("reduction") or model.code.calls_plainly("setattr")


def is_one_read(model: Model, site: Site) -> bool:
    """Whether `a, b = torch.stack([x, y]).tolist()` reads as many numbers as it binds, or a tuple."""
    stacked, given = shape.receiver(site.node), model.parent(site.node)
    if shape.method_name(site.node) != "tolist" or not isinstance(stacked, cst.Call) or len(stacked.args) != 1:
        return False
    tensors = stacked.args[0].value
    if not isinstance(tensors, (cst.List, cst.Tuple)) or model.value(stacked.func).ref != "torch.stack":
        return False
    if not all(isinstance(each, cst.Element) for each in tensors.elements):
        return False
    if isinstance(given, cst.Arg):
        return model.value(cst.ensure_type(model.parent(given), cst.Call).func).ref == "builtins.tuple"
    names = given.targets[0].target if isinstance(given, cst.Assign) and len(given.targets) == 1 else None
    return isinstance(names, cst.Tuple) and len(tensors.elements) == len(names.elements)


class _Member(NamedTuple):
    """A read, and its tensor; `scalar` is None if the tensor only seems to be a zero-dimensional float."""

    later: Delayed
    kind: str
    scalar: Scalar | None


def coalesced_fixes(model: Model) -> dict[int, Fix]:
    """By the start of each read that can be combined with others of its block: the fix for all of them."""
    return model.remember("coalesced_fixes", lambda: dict(_fixes(model)))


def _fixes(model: Model) -> Iterator[tuple[int, Fix]]:
    blocks: dict[int, list[HostRead]] = {}
    tuples: dict[int, tuple[cst.Tuple, list[HostRead]]] = {}
    dicts: dict[int, tuple[cst.Dict, list[HostRead]]] = {}
    for read in hot_reads(model):
        around = _around(model, read)
        around = around if read.role is Sink.OTHER or isinstance(around, cst.DictElement) else None
        if read.is_mixed or (read.by_helper and not isinstance(around, cst.DictElement)):
            continue
        if isinstance(around, cst.Assign):
            block = model.place(read.site.node).block
            blocks.setdefault(id(block), []).append(read)
        elif isinstance(around, cst.Element) and isinstance(several := model.parent(around), cst.Tuple):
            tuples.setdefault(id(several), (several, []))[1].append(read)
        elif isinstance(around, cst.DictElement) and isinstance(entries := model.parent(around), cst.Dict):
            dicts.setdefault(id(entries), (entries, []))[1].append(read)
    apart = [reads for reads in blocks.values() if len(reads) > 1]
    beside = [pair for pair in tuples.values() if len(pair[1]) == len(pair[0].elements) > 1]
    in_dict = [pair for pair in dicts.values() if len(pair[1]) > 1]
    if not (apart or beside or in_dict) or relies_on_waits(model):
        return
    if may_differ(model):  # the least and the largest element of one tensor are alike, whatever it is
        plain = not model.code.speaks_of(*_SPREAD)
        apart, in_dict, beside = [], [], [each for each in beside if plain and _are_bounds_of_one(model, each[1])]
    for reads in apart:
        members = [_Member(each, *known) for each in _delayed(model, reads) if (known := kind_of(model, each.read))]
        for group in _groups(model, members) if len(members) > 1 else ():
            fix = _one_read(model, group)
            judged = None if fix is None else judged_at(model, group[0].later.read.site, fix)
            if isinstance(judged, Fix):
                yield from ((member.later.read.site.start, judged) for member in group)
    for several, reads in beside:
        fix = _one_tuple(model, several, reads)
        judged = None if fix is None else judged_at(model, reads[0].site, fix)
        if isinstance(judged, Fix):
            yield from ((read.site.start, judged) for read in reads)
    for entries, reads in in_dict:
        yield from _one_dict(model, entries, reads)


def _around(model: Model, read: HostRead) -> cst.CSTNode | None:
    """What takes the number: the assignment, tuple, or entry of a dict, which may reckon with it: `1 - x.item()`."""
    parent = model.parent(read.site.node)
    entry = parent
    while isinstance(entry, (cst.BinaryOperation, cst.UnaryOperation)):
        entry = model.parent(entry)
    return entry if isinstance(entry, cst.DictElement) else parent


def _delayed(model: Model, reads: list[HostRead]) -> Iterator[Delayed]:
    for read in reads:
        later = delayed(model, read)
        if later is not None and not isinstance(read_where_needed(model, read), Fix):
            yield later


def kind_of(model: Model, read: HostRead, *, alike: bool = True) -> tuple[str, Scalar | None] | None:
    """Whether the tensor is one of floats or integers, and the proof, if there is one.

    `alike` leaves out reads that convert: `int(loss)` of a float.
    """
    node, function = model.ast_of(read.tensor), model.function_of(read.site)
    if node is None:
        return None
    scalar = None if model.value(read.tensor).mixed else scalars.shown(model, function, node)
    if scalar is not None:
        plain = ("item", "float" if scalar.kind == scalars.FLOAT else "int")
        return (scalar.kind, scalar) if read.reader in plain or not alike else None
    is_likely = model.sent_backward(read.tensor) or scalars.likely(model, function, node)
    return (scalars.FLOAT, None) if read.reader != "int" and is_likely else None


class _Group:
    """Reads of one kind that can all wait for the last of them."""

    def __init__(self) -> None:
        self.members: list[_Member] = []
        self._names: set[str] = set()
        self._tensors: set[str] = set()
        self._care: set[Care] = set()

    def add(self, model: Model, member: _Member) -> None:
        later = member.later
        self.members.append(member)
        self._names.add(later.name)
        self._tensors.update([later.tensor] if later.tensor is not None else [])
        self._care.add(care_of(model, later))

    def may_wait(self, statements: Statements, position: int) -> bool:
        return statements.may_run_first(position, self._names, self._tensors, self._care)


def _groups(model: Model, members: list[_Member]) -> Iterator[list[_Member]]:
    """The groups of several reads; at most bounds.MOST_READ_AT_ONCE are combined."""
    by_statement = {id(member.later.statement): member for member in members}
    statements = statements_around(model, members[0].later.statement)
    found: list[_Group] = []
    open_groups: dict[str, _Group] = {}
    for position, statement in enumerate(statements.block):
        for kind, group in list(open_groups.items()):
            if len(group.members) == bounds.MOST_READ_AT_ONCE or not group.may_wait(statements, position):
                found.append(open_groups.pop(kind))
        member = by_statement.get(id(statement))
        if member is not None:
            open_groups.setdefault(member.kind, _Group()).add(model, member)
    return (group.members for group in (*found, *open_groups.values()) if len(group.members) > 1)


def _one_read(model: Model, group: list[_Member]) -> Fix | None:
    last = group[-1].later
    assert isinstance(last.read.parent, cst.Assign)
    torch = model.name_of("torch", last.read.site)
    if torch is None or any(not each.later.read.site.tree.lossless for each in group):
        return None
    made: list[Edit | None] = []
    tensors = []
    for each in group[:-1]:
        read, gone = each.later.read, None
        if each.later.tensor is not None:
            gone = placing.deleted(model, read.site)
        tensors.append(each.later.name if gone is None else str(each.later.tensor))
        bound = edits.postfix(read.site.tree, read.tensor) + ".detach()"
        made.append(gone or edits.replace(read.site.tree, read.site.node, bound))
    tensors.append(edits.text_of(last.read.site.tree, last.read.tensor))
    names = ", ".join(each.later.name for each in group[:-1])
    start, _ = last.read.site.tree.span(last.read.parent.targets[0].target)
    made.append(Edit(start, start, f"{names}, ".encode()))
    one = f"{torch}.stack([{', '.join(tensors)}]).tolist()"
    changed = edits.together(*made, edits.replace(last.read.site.tree, last.read.site.node, one))
    if changed is None:
        return None
    return Fix(TITLE, safety(model, last.read, [each.scalar for each in group]), changed, ASSUMES)


def _one_tuple(model: Model, several: cst.Tuple, reads: list[HostRead]) -> Fix | None:
    """`a, b = x.item(), y.item()`, and `return x.item(), y.item()`."""
    given, last = model.parent(several), reads[-1]
    known = [each for read in reads if (each := kind_of(model, read)) is not None]
    torch, bounds_of_one = model.name_of("torch", last.site), _are_bounds_of_one(model, reads)
    is_known = len(known) == len(reads) and len({kind for kind, _ in known}) == 1
    if torch is None or not (is_known or bounds_of_one) or not all(reads_plainly(model, read) for read in reads):
        return None
    unpacked = isinstance(given, cst.Assign) and len(given.targets) == 1
    if unpacked and isinstance(given, cst.Assign):
        target = given.targets[0].target
        unpacked = isinstance(target, cst.Tuple) and len(target.elements) == len(reads)
    if not unpacked and not (isinstance(given, cst.Return) and model.keeps_builtin("tuple")):
        return None
    tensors = ", ".join(edits.text_of(read.site.tree, read.tensor) for read in reads)
    one = f"{torch}.stack([{tensors}]).tolist()"
    if not is_known and last.reader != "item":
        if not (model.keeps_builtin("map") and model.keeps_builtin(last.reader)):
            return None
        one = f"map({last.reader}, {one})"  # the dtype may be one of integers, of floats or bool
    edit = edits.replace(last.site.tree, several, one if unpacked else f"tuple({one})")
    grade = Safety.SAFE if not is_known else safety(model, last, [scalar for _, scalar in known])
    return None if edit is None else Fix(TITLE, grade, (edit,), ASSUMES)


def _are_bounds_of_one(model: Model, reads: list[HostRead]) -> bool:
    """Whether all are the least or the largest element of one tensor, and read alike: their dtype is the tensor's."""
    bounded = {_bounded(model, read.tensor) for read in reads}
    return None not in bounded and len(bounded) == 1 == len({read.reader for read in reads})


def _bounded(model: Model, node: cst.BaseExpression) -> str | None:
    """`x` of `x.min()`, `x.amax()`, `torch.max(x)`."""
    if not isinstance(node, cst.Call):
        return None
    owner, given = shape.receiver(node), [each.value for each in node.args if not (each.star or each.keyword)]
    if (model.value(node.func).ref or "") in _BOUNDS_OF_TORCH and len(given) == len(node.args) == 1:
        owner = given[0]
    elif node.args or shape.method_name(node) not in _BOUNDS:
        return None
    return shape.dotted(owner) if owner is not None and model.value(owner).is_tensor else None


def _one_dict(model: Model, entries: cst.Dict, reads: list[HostRead]) -> Iterator[tuple[int, Fix]]:
    """`{"a": x.item(), "b": y.item()}`: the reads of one kind in a line before the statement."""
    torch, function = model.name_of("torch", reads[0].site), model.function_of(reads[0].site)
    # What is done to one tensor may change another, and a read moves in front of it.
    if torch is None or not _always_runs(model, entries) or not all(reads_plainly(model, read) for read in reads):
        return
    if _writes(model, entries, reads):
        return
    known = [(read, kind_of(model, read)) for read in reads]
    plain = _is_the_statement(model, entries, reads)
    for kind in dict.fromkeys(found[0] if found is not None else scalars.FLOAT for _, found in known):
        members = [read for read, found in known if found is not None and found[0] == kind]
        proofs = [found[1] for _, found in known if found is not None and found[0] == kind]
        grade = safety(model, members[0], proofs) if members else Safety.UNSAFE
        # Where nothing shows that the tensors are alike, the program sees for itself: also for those of any kind.
        of_any = [
            read for read, found in known if found is None and kind == scalars.FLOAT and may_be_float(model, read)
        ]
        asked = [read for read in reads if asks_itself(read) and (read in members or read in of_any)]
        asks = plain and all(read in asked for read in members) and (grade is not Safety.SAFE or asked != members)
        helper = items_helper(model, torch, model.statement_of(reads[0].site.node)) if asks else None
        members = members if helper is None else asked
        if not 1 < len(members) <= bounds.MOST_READ_AT_ONCE:
            continue
        names = [surroundings.new_name(model, function, hint(model, read)) for read in members]
        tree = members[0].site.tree
        tensors = ", ".join(edits.text_of(tree, read.tensor) for read in members)
        one = f"{torch}.stack([{tensors}]).tolist()" if helper is None else f"{ITEMS.name}([{tensors}])"
        changed = edits.together(
            *(helper or ()),
            edits.line_before(tree, f"{', '.join(names)} = {one}"),
            *(edits.replace(tree, read.site.node, name) for read, name in zip(members, names, strict=True)),
        )
        if changed is None:
            continue
        is_whole = plain and not any(read.by_helper for read in members)
        made = Fix(TITLE, grade if is_whole else Safety.UNSAFE, changed, ASSUMES)
        fix = judged_at(model, members[0].site, made if helper is None else Fix(TITLE, Safety.SAFE, changed))
        if isinstance(fix, Fix):
            yield from ((read.site.start, fix) for read in members)


def asks_itself(read: HostRead) -> bool:
    """Whether the helper may make the read: it asks each tensor itself, and reads what is not alike one by one."""
    return read.reader == "item" and not read.by_helper


def may_be_float(model: Model, read: HostRead) -> bool:
    """Whether nothing shows that the tensor is one of truth values or integers, which is read apart from floats."""
    call = shape.without_calls(read.tensor, frozenset({"detach"}))
    if isinstance(call, cst.Comparison) or (isinstance(call, cst.Call) and shape.method_name(call) in _NOT_FLOATS):
        return False
    dtype = model.value(read.tensor).dtype
    return dtype is None or dtype.startswith(("float", "bfloat"))


def items_helper(model: Model, torch: str, used: ast.stmt) -> tuple[Edit, ...] | None:
    """The edit that defines the helper `_items`, if there is one to make; None if it cannot be used there."""
    return defined(model, ITEMS, torch, used) if all(map(model.keeps_builtin, _OF_HELPER)) else None


def _writes(model: Model, entries: cst.Dict, reads: list[HostRead]) -> bool:
    """Whether the statement binds a name, or may write to a tensor that is read, before the dict is complete."""
    function = model.function_of(reads[0].site)
    node: ast.AST | None = model.ast_of(entries)
    code = [] if node is None else [node]
    while node is not None and not isinstance(node, ast.stmt):
        whole, node = node, function.parents[node]
        code += [each for each in ast.iter_child_nodes(node) if each is not whole]
    binds = any(isinstance(part, ast.NamedExpr) for each in code for part in subtree(each))
    nodes = [each for read in reads if (each := model.ast_of(read.tensor)) is not None]
    tensors = [each for node in nodes for each in tensors_in(node)]
    helpers = [each for read in reads if read.by_helper and (each := model.ast_of(read.site.node)) is not None]
    helpers += effects.harmless_calls(model, function, code, contents=True)
    return binds or writes.may_write(model, function, tensors, code, but=helpers)


def tensors_in(node: ast.AST) -> list[ast.expr]:
    """All names and paths in what is read: to write to any of them changes it."""
    return [each for each in subtree(node) if isinstance(each, (ast.Name, ast.Attribute)) and dotted(each)]


def _always_runs(model: Model, entries: cst.Dict) -> bool:
    """Whether the dict is made whenever its line is reached, and not in an inner scope."""
    if not placing.has_rows_to_itself(model.statement_of(entries), model.source):
        return False
    parent = model.parent(entries)
    while isinstance(parent, (cst.Arg, cst.Call, cst.Attribute, cst.Await)):
        parent = model.parent(parent)
    return isinstance(parent, (cst.Assign, cst.Return, cst.Expr))


def hint(model: Model, read: HostRead) -> str:
    """A name for the number: after the tensor, or after what it is told under.

    That is `kl_value` for `{"policy/kl": ...}`, and for `log("Policy / KL", ...)`.
    """
    tensor = shape.without_calls(read.tensor, frozenset({"detach"}))
    if isinstance(tensor, cst.Name):
        return f"{tensor.value}_value"
    entry = _around(model, read)
    call = model.parent(entry) if isinstance(entry, cst.Arg) else None
    key = (
        entry.key if isinstance(entry, cst.DictElement) else call.args[0].value if isinstance(call, cst.Call) else None
    )
    last = str(key.evaluated_value).rpartition("/")[2] if isinstance(key, cst.SimpleString) else ""
    name = "_".join(re.findall(r"[a-z0-9]+", last.lower()))
    return f"{name}_value" if name.isidentifier() else "value"


def _is_the_statement(model: Model, entries: cst.Dict, reads: list[HostRead]) -> bool:
    """Whether what the statement evaluates before the dict is complete only computes.

    That is `name = {...}`, `return {...}` or `log.update({...})`.
    """
    meaning, function = model.ast_of(entries), model.function_of(reads[0].site)
    around = None if meaning is None else function.parents[meaning]
    if isinstance(around, ast.Call):
        if around.args[:1] != [meaning] or dotted(around.func) is None:
            return False
        if not evaluating.only_computes(model, function, around.func):
            return False
        around = function.parents[around]
    if not isinstance(meaning, ast.Dict) or not isinstance(around, (ast.Assign, ast.Return, ast.Expr)):
        return False
    read_here = {model.ast_of(read.site.node) for read in reads}
    parts = [*meaning.keys, *(each for each in meaning.values if each not in read_here)]
    if any(last_name(each.func) in DRAWS for each in subtree(meaning) if isinstance(each, ast.Call)):
        return False  # what is drawn depends on the order
    if isinstance(model.place_of(model.statement_of(entries)).parent, ast.ClassDef):
        return False  # its names become attributes of the class
    return all(each is not None and _is_plain_part(model, function, each) for each in parts)


def _is_plain_part(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """Whether an expression only computes; a text may show what is no object of the project: `f"loss/{rank}"`."""
    if isinstance(node, ast.JoinedStr):
        fields = [each for each in node.values if isinstance(each, ast.FormattedValue)]
        shown = [each.value for each in fields]
        kinds = {model.value_in(function, each).kind for each in shown}
        specs = [each.format_spec for each in fields if each.format_spec is not None]
        plain = Kind.INSTANCE not in kinds and all(_is_plain_part(model, function, each) for each in specs)
        return plain and all(evaluating.only_computes(model, function, each) for each in shown)
    taken = [each for part in subtree(node) if isinstance(part, _OPERATORS) for each in ast.iter_child_nodes(part)]
    if any(isinstance(each, ast.expr) and model.value_in(function, each).cls is not None for each in taken):
        return False  # an object's own `__getitem__` or `__add__`
    return evaluating.only_computes(model, function, node) or effects.computes_alone(model, function, node)


def reads_plainly(model: Model, read: HostRead) -> bool:
    """Whether making the tensor changes nothing and draws nothing, also in the functions of the project on the way."""
    node, function = model.ast_of(read.tensor), model.function_of(read.site)
    if node is None:
        return False
    return evaluating.only_computes(model, function, node) or effects.computes_alone(model, function, node)


def safety(model: Model, read: HostRead, proofs: list[Scalar | None]) -> Safety:
    """The grade of one read of all: safe where each tensor is shown to be a number of the one device."""
    known = [each for each in proofs if each is not None]
    shown = len(known) == len(proofs) and scalars.on_one_device(model.function_of(read.site), known)
    return Safety.SAFE if shown else Safety.UNSAFE
