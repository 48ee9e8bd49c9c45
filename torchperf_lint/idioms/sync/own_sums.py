"""Sums and lists that an object keeps: `self.sum += loss.item()` in one method, `self.sum / self.count` in another."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Edit, Fix, NoFix, Safety
from torchperf_lint.idioms.scripting import outside_torchscript
from torchperf_lint.idioms.sync.factors import scale_of
from torchperf_lint.idioms.sync.fresh import is_fresh
from torchperf_lint.idioms.sync.put_off import put_off
from torchperf_lint.idioms.sync.reads import Sink, hot_reads
from torchperf_lint.idioms.transfer.pinned_copies import rests_on_waits
from torchperf_lint.idioms.written_helpers import ALL_SETTLED, defined
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import ClassInfo, assigned_to, dotted, last_name
from torchperf_lint.syntax import cst, edits
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from torchperf_lint.idioms.sync.reads import HostRead
    from torchperf_lint.model import Model
    from torchperf_lint.model.handles import FunctionInfo

_SUM_TITLE, _LIST_TITLE = (
    "sum on the device, read where the sum is used",
    "collect on the device, read where it is used",
)
_ASSUMES = "nothing else reads `{name}`, what it adds up are tensors of one device, and factors are Python numbers"
_PLAIN_BASES = frozenset({"object", "abc.ABC", "torch.nn.Module"})
_LOOKS_LIKE_NUMBERS = frozenset({"sum", "max", "min", "sorted", "list", "tuple", "mean", "median", "std", "array"})
"""What functions of numbers are called."""
_ACCESS = ("__getattr__", "__getattribute__", "__setattr__", "__delattr__")
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class _Attribute(NamedTuple):
    """What the project does with an attribute of a class: where it begins, is added to and is read."""

    starts: list[ast.expr]
    added: list[ast.expr]  # what `+=` adds, or `append` gets
    loads: list[tuple[FunctionInfo, ast.Attribute]]


@outside_torchscript
def kept_in_objects(model: Model, read: HostRead) -> Fix | NoFix:
    """Leave the number on the device until another method reads the sum or the list that it belongs to."""
    function, collected = model.function_of(read.site), read.role is Sink.COLLECTED
    owner, _, name = read.sink.removesuffix(".append").rpartition(".")
    if function.cls is None or owner != function.self_name or not name.isidentifier():
        return NoFix.KEPT_IN_AN_OBJECT
    if rests_on_waits(model):
        return NoFix.KEPT_IN_AN_OBJECT
    held = _attribute(model, function.cls, name)
    if held is None or not held.starts or not all(_begins(each, collected) for each in held.starts):
        return NoFix.KEPT_IN_AN_OBJECT
    own = [each for each in hot_reads(model) if each.role is read.role and each.sink == read.sink]
    reads = [each for each in own if model.function_of(each.site).cls is function.cls and each.unfixed is None]
    kept = {model.ast_of(each.site.node) for each in reads}
    # Another `+=` would write to the tensor that a copy of the object holds.
    if not all(kept & set(ast.walk(each)) or (collected and _is_number(model, function, each)) for each in held.added):
        return NoFix.USED_OTHERWISE
    loads = [(where, node) for where, node in held.loads if not _asks_length(where, node)]
    if any(_runs_in_a_step(model, where, node) for where, node in loads):
        return NoFix.NEEDED_IN_THE_STEP
    if not all(_can_be_wrapped(where, node, collected) for where, node in loads):
        return NoFix.USED_OTHERWISE
    written = _listed(model, reads) if collected else _summed(model, reads, held)
    if isinstance(written, NoFix):
        return written
    reader, made = written
    source = model.source
    for _, node in loads:
        start, end = (
            source.offset(node.lineno, node.col_offset),
            source.offset(node.end_lineno or 0, node.end_col_offset or 0),
        )
        made.append((Edit(start, end, f"{reader}({dotted(node)})".encode()),))
    changed = edits.together(*made)
    title = _LIST_TITLE if collected else _SUM_TITLE
    return NoFix.NO_ROOM if changed is None else Fix(title, Safety.UNSAFE, changed, _ASSUMES.format(name=name))


# -- the attribute --------------------------------------------------------------------------------------------------


def _attribute(model: Model, cls: ClassInfo, name: str) -> _Attribute | None:
    """The uses of the attribute; None where code that is not seen may use it, or another file does."""
    return model.remember(("own sum", cls, name), lambda: _uses(model, cls, name))


def _uses(model: Model, cls: ClassInfo, name: str) -> _Attribute | None:
    family = _family(model, cls)
    if not family <= {cls for each in model.with_neighbours for cls in each.classes}:
        return None
    if any(each.node.decorator_list or _has_own_access(each, name) for each in family):
        return None
    if any(_is_taken_by_text(node, name) for each in model.with_neighbours for node in each.top.nodes):
        return None
    if any(base not in _PLAIN_BASES for each in family for base in model.library_bases(each)):
        return None
    if not all(_has_known_bases(model, each) for each in family):
        return None
    found = _Attribute([], [], [])
    for each in model.with_neighbours:
        inner = {id(node) for function in each.functions if not function.is_module for node in function.nodes}
        for function in each.functions:
            for node in function.nodes:
                if not isinstance(node, ast.Attribute) or node.attr not in (name, "__dict__"):
                    continue
                if function.is_module and id(node) in inner:
                    continue
                if function.cls not in family or dotted(node.value) != function.self_name:
                    if _may_be_its(each, function, node, family):
                        return None
                elif node.attr != name or each is not model or not _is_known_use(function, node, found):
                    return None
    return found


def _family(model: Model, cls: ClassInfo) -> set[ClassInfo]:
    """The class, its bases, and the classes here and in files around that descend from it."""
    derived = (each.lineage(other) for each in model.with_neighbours for other in each.classes)
    return {*model.lineage(cls), *(each for lineage in derived if cls in lineage for each in lineage)}


def _has_own_access(cls: ClassInfo, name: str) -> bool:
    """Whether code of the class runs where its attributes are taken, or the class has such an attribute itself."""
    if any(each in cls.methods for each in (name, *_ACCESS)):
        return True
    bound = (each for each in cls.head.body if isinstance(each, (ast.Assign, ast.AnnAssign)) and each.value is not None)
    targets = (part for each in bound for part in (each.targets if isinstance(each, ast.Assign) else [each.target]))
    return any(isinstance(each, ast.Name) and each.id == name for each in targets)


def _is_taken_by_text(node: ast.AST, name: str) -> bool:
    """Whether attributes are taken by texts that are not seen, or are this one, or by a pattern."""
    if isinstance(node, ast.MatchClass):
        return name in node.kwd_attrs or bool(node.patterns)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and "{" in node.value and f".{name}" in node.value
    if not isinstance(node, ast.Call):
        return False
    called = last_name(node.func)
    if called == "getattr":
        text = node.args[1] if len(node.args) > 1 else None
        return not isinstance(text, ast.Constant) or text.value == name
    return called in ("vars", "attrgetter") or (called == "copy" and dotted(node.func) == "copy")


def _has_known_bases(model: Model, cls: ClassInfo) -> bool:
    """Whether each base is a class of the project, or a library's that is known by its name."""
    known = len(model.library_bases(cls)) + sum(other is not cls for other in model.lineage(cls))
    return len(cls.head.bases) <= known and not cls.head.keywords


def _may_be_its(model: Model, function: FunctionInfo, node: ast.Attribute, family: set[ClassInfo]) -> bool:
    """Whether an attribute of that name, of another object than `self`, may be that of the class."""
    parent = function.parents.get(node)
    if isinstance(parent, ast.Call) and parent.func is node:
        return False  # a number cannot be called
    value = model.value_in(function, node.value)
    if isinstance(value.cls, ClassInfo):
        stands_for_others = "Protocol" in map(last_name, value.cls.head.bases) or "__getattr__" in value.cls.methods
        return stands_for_others or value.cls in family or any(each in family for each in value.among)
    return value.kind in (Kind.UNKNOWN, Kind.INSTANCE)


def _is_known_use(function: FunctionInfo, node: ast.Attribute, found: _Attribute) -> bool:
    """Note what a method does with the attribute; False for what is neither a start, an addition nor a read."""
    parent = function.parents.get(node)
    if isinstance(parent, ast.AugAssign) and parent.target is node:
        found.added.append(parent.value)
        return isinstance(parent.op, ast.Add)
    if isinstance(parent, ast.Attribute):
        call = function.parents.get(parent)
        if not isinstance(call, ast.Call) or call.func is not parent or parent.attr not in ("append", "clear"):
            return False
        found.added.extend(call.args)
        return isinstance(function.parents.get(call), ast.Expr) and not call.keywords
    if isinstance(node.ctx, ast.Load):
        found.loads.append((function, node))
        return True
    given = assigned_to(function.parents, node) if _stands_alone(function, node) else None
    if given is not None:
        found.starts.append(given)
    return given is not None


def _stands_alone(function: FunctionInfo, node: ast.Attribute) -> bool:
    """Whether an assignment has no other target beside the attribute, or beside the tuple that it is part of."""
    parent = function.parents.get(node)
    statement = function.parents.get(parent) if isinstance(parent, ast.Tuple) else parent
    return not isinstance(statement, ast.Assign) or len(statement.targets) == 1


def _begins(start: ast.expr, collected: bool) -> bool:
    """Whether a value is a number, or for a list one that is new and empty."""
    if collected:
        return isinstance(start, ast.List) and not start.elts
    return isinstance(start, ast.Constant) and type(start.value) in (int, float)


def _is_number(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    value = model.value_in(function, node)
    return value.kind is Kind.NUMBER and not value.mixed


# -- its reads ------------------------------------------------------------------------------------------------------


def _asks_length(function: FunctionInfo, node: ast.Attribute) -> bool:
    """`len(self.losses)`, which is the same whatever the list holds."""
    call = function.parents.get(node)
    return isinstance(call, ast.Call) and dotted(call.func) == "len" and node in call.args


def _runs_in_a_step(model: Model, function: FunctionInfo, node: ast.Attribute) -> bool:
    if function.name.startswith("__") and function.name not in ("__init__", "__getstate__", "__reduce__"):
        return True  # what shows or compares the object calls it without a name
    around = function.parents.get(node)
    while around is not None and not isinstance(around, ast.stmt):
        around = function.parents.get(around)
    return isinstance(around, ast.stmt) and model.hot_path_of(around) is not None


def _can_be_wrapped(function: FunctionInfo, node: ast.Attribute, collected: bool) -> bool:
    """Whether the number, or a new list of them, may stand in the place of the attribute."""
    around = parent = function.parents.get(node)
    if node.lineno != node.end_lineno:
        return False
    while around is not None and around is not function.node:
        if isinstance(around, (ast.JoinedStr, ast.MatchValue)):
            return False  # Python tells no place within a text, and a call is another pattern
        if collected and not _is_taken_once(around, node):
            return False  # each pass would read the whole list
        around = function.parents.get(around)
    if not collected:
        return True
    if isinstance(parent, ast.Subscript):
        return parent.value is node and isinstance(parent.ctx, ast.Load)
    if isinstance(parent, ast.Call):
        return node in parent.args and (dotted(parent.func) or "").rpartition(".")[2] in _LOOKS_LIKE_NUMBERS
    return isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is node


def _is_taken_once(around: ast.AST, node: ast.Attribute) -> bool:
    """Whether a loop, if it is one, walks over what is made of the list, and its passes do not name it."""
    if isinstance(around, (ast.For, ast.AsyncFor)):
        uses = [each for each in subtree(around) if isinstance(each, ast.Attribute) and each.attr == node.attr]
        return uses == [node] and node in subtree(around.iter)
    if isinstance(around, _COMPREHENSIONS):
        return node in subtree(around.generators[0].iter)
    return not isinstance(around, ast.While)


# -- what is written ------------------------------------------------------------------------------------------------


def _summed(
    model: Model, reads: list[HostRead], held: _Attribute
) -> tuple[str, list[tuple[Edit, ...] | Edit | None]] | NoFix:
    """The function that reads the sum, and the edits of the additions."""
    floats = all(isinstance(each, ast.Constant) and type(each.value) is float for each in held.starts)
    made: list[tuple[Edit, ...] | Edit | None] = []
    reader = ""
    for read in reads:
        scale = scale_of(model, read) if isinstance(read.parent, cst.AugAssign) else None
        statement = model.statement_of(read.site.node)
        if scale is None or not isinstance(statement, ast.AugAssign):
            return NoFix.COMPUTED_WITH
        divides = any(isinstance(each, ast.Div) for each in subtree(statement.value))
        if divides and not scale.exact:
            return NoFix.COMPUTED_WITH  # CUDA multiplies by the reciprocal
        if read.reader != "item":
            return NoFix.MAY_BE_A_NUMBER
        later = put_off(model, read, to_float=floats)
        if later is None:
            return NoFix.DTYPE_UNKNOWN
        made += [edits.replace(read.site.tree, read.site.node, later.kept), *(() if reader else (later.definitions,))]
        made.append(added_anew(model, statement))
        reader = later.convert
    return reader, made


def added_anew(model: Model, statement: ast.AugAssign) -> Edit | None:
    """`self.sum = self.sum + x` for `self.sum += x`, which would write to the tensor that a copy of the object has."""
    source, target = model.source, statement.target
    start = source.offset(target.end_lineno or target.lineno, target.end_col_offset or 0)
    end = source.offset(statement.value.lineno, statement.value.col_offset)
    between = source.utf8[start:end]
    if between.strip() != b"+=":
        return None
    return Edit(start, end, f" = {ast.unparse(target)} + ".encode())


def _listed(model: Model, reads: list[HostRead]) -> tuple[str, list[tuple[Edit, ...] | Edit | None]] | NoFix:
    """The function that reads the list, and the edits of what is appended."""
    made: list[tuple[Edit, ...] | Edit | None] = []
    for read in reads:
        torch = model.name_of("torch", read.site)
        if not isinstance(read.parent, cst.Call) or read.parent.args[0].value is not read.site.node:
            return NoFix.COMPUTED_WITH
        if read.reader != "item":
            return NoFix.MAY_BE_A_NUMBER
        if model.value(read.tensor).mixed:
            return NoFix.MAY_BE_A_NUMBER
        if torch is None:
            return NoFix.NO_ROOM
        if not made:
            made.append(defined(model, ALL_SETTLED, torch, model.statement_of(read.site.node)))
        kept = ".detach()" if is_fresh(model, read) else ".detach().clone()"
        made.append(edits.replace(read.site.tree, read.site.node, edits.postfix(read.site.tree, read.tensor) + kept))
    return ALL_SETTLED.name, made
