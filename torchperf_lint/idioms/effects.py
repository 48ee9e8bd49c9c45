"""What code changes: tensors, lists, dicts and sets, attributes. What is not shown to leave them alone may do all."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Safety
from torchperf_lint.idioms import evaluating, layout, walked_twice, writes
from torchperf_lint.idioms.written_helpers import ITEMS
from torchperf_lint.knowledge.containers import CHANGE, CHANGE_ARGUMENTS, CHANGE_DICTS_AND_SETS, CHANGE_LISTS
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import ClassInfo, dotted, last_name
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from torchperf_lint.model import Model, Value
    from torchperf_lint.model.handles import FunctionInfo

_DEPTH = 3
"""How many calls deep functions of the project are looked into; what they call below may change anything."""
_BUILTINS = frozenset(
    "abs all any bool dict divmod enumerate float int isinstance len list max min next pow print range repr reversed "
    "round set sorted str sum tuple type zip".split()
)
"""Builtins that run no code of the project but what their arguments define."""
_WALKERS = frozenset("all any dict enumerate list max min reversed set sorted sum tuple zip".split())
"""Builtins that walk what they are given, which runs the code of a generator."""
_LIBRARIES = ("math.", "logging.", "collections.", "time.", "random.", "numpy.")
_DRAW_OR_TELL = ("random.", "numpy.random.", "logging.", "time.", "builtins.print", "builtins.next")
_FILL_AT_RANDOM = frozenset("cauchy_ exponential_ geometric_ log_normal_ random_ uniform_".split())
_GET = frozenset(
    "copy count endswith format get index items join keys lower rsplit split startswith strip title upper values "
    "write".split()
)
_FRESH = frozenset(
    {*(f"builtins.{name}" for name in ("dict", "list", "set")), "collections.defaultdict", "collections.OrderedDict"}
    | {"collections.Counter", "collections.deque"}
)
_GRAD_MODES = frozenset({"torch.no_grad", "torch.inference_mode", "torch.enable_grad"})
_PLAIN_DECORATORS = frozenset({"staticmethod", "classmethod", "no_grad", "inference_mode"})
_CODE = (Kind.FUNCTION, Kind.METHOD, Kind.CLASS)
_OPERATIONS = (ast.BinOp, ast.Compare, ast.UnaryOp, ast.FormattedValue)
_STOPS = (ast.Await, ast.Yield, ast.YieldFrom, ast.Global, ast.Nonlocal, ast.Import, ast.ImportFrom)


class Effects(NamedTuple):
    """What code may change; `attributes` are the names of those that it sets, of whatever object.

    `parts` says that one of them may be given a tensor or a module, which makes it a part of a module.
    """

    tensors: bool = False
    lists: bool = False
    dicts: bool = False
    parts: bool = False
    attributes: frozenset[str] | None = frozenset()  # None: any

    def joined(self, other: Effects) -> Effects:
        """The effects of both."""
        known = None
        if self.attributes is not None and other.attributes is not None:
            known = self.attributes | other.attributes
        return Effects(
            self.tensors or other.tensors,
            self.lists or other.lists,
            self.dicts or other.dicts,
            self.parts or other.parts,
            known,
        )


NOTHING = Effects()
ANYTHING = Effects(tensors=True, lists=True, dicts=True, parts=True, attributes=None)
_TENSORS, _ENTRIES = Effects(tensors=True), Effects(lists=True, dicts=True)


def of_code(model: Model, function: FunctionInfo, code: Iterable[ast.AST], depth: int = _DEPTH) -> Effects:
    """The effects of nodes of a function, each by itself."""
    found = NOTHING
    for node in code:
        found = found.joined(_of_node(model, function, node, depth))
        if found == ANYTHING:
            break
    return found


def computes_alone(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """Whether an expression, with the functions of the project that it calls, changes, prints and draws nothing."""
    parts = list(subtree(node))
    return of_code(model, function, parts) == NOTHING and not _has_an_order(model, function, parts, _DEPTH)


def harmless_calls(
    model: Model, function: FunctionInfo, code: Iterable[ast.AST], *, contents: bool = False
) -> list[ast.Call]:
    """The calls within the code of functions of the project that write to no tensor, and bind no attribute.

    With `contents`, neither do they change a list, dict or set.
    """
    calls = (each for part in code for each in subtree(part) if isinstance(each, ast.Call))
    own = (each for each in calls if model.value_in(function, each.func).function is not None)
    return [each for each in own if leaves_tensors(of_call(model, function, each), contents=contents)]


def leaves_tensors(effects: Effects, *, contents: bool = False) -> bool:
    """Whether no tensor is written to and no attribute bound; with `contents`, nor a list, dict or set changed."""
    if contents and (effects.lists or effects.dicts):
        return False
    return not (effects.tensors or effects.parts or effects.attributes is None or effects.attributes)


def writes_unseen(model: Model, function: FunctionInfo, code: Iterable[ast.AST]) -> bool:
    """Whether code without calls may write to tensors: by `x.data = y`, or by a property or an operator of its own."""
    for node in code:
        if isinstance(node, ast.Subscript):
            held = model.value_in(function, node.value)
            if held.cls is not None or held.among:
                return True
        elif isinstance(node, (ast.Attribute, *_OPERATIONS)) and _of_node(model, function, node, _DEPTH).tensors:
            return True
    return False


def _has_an_order(model: Model, function: FunctionInfo, code: Iterable[ast.AST], depth: int) -> bool:
    """Whether the code draws numbers or tells something, which others draw or tell after it."""
    for each in code:
        if not isinstance(each, ast.Call):
            continue
        called = model.value_in(function, each.func)
        name, ref = last_name(each.func) or "", called.ref or ""
        if name.removesuffix("_") in walked_twice.DRAWS or ref.startswith(_DRAW_OR_TELL) or name in _FILL_AT_RANDOM:
            return True
        below = called.function
        if below is not None and (depth == 0 or _has_an_order(model.home(below), below, below.nodes, depth - 1)):
            return True
    return False


def of_loop(model: Model, function: FunctionInfo, loop: ast.stmt, but: Collection[ast.AST] = ()) -> Effects:
    """The effects of the passes of a loop, without those of the nodes in `but`."""
    return _joined(each for node, each in _by_node(model, function, loop) if node not in but)


def of_loop_itself(model: Model, function: FunctionInfo, loop: ast.stmt, but: Collection[ast.AST] = ()) -> Effects:
    """The effects of what the loop does without the code that it runs elsewhere: what is seen to change."""
    elsewhere = (ast.Call, ast.For, ast.comprehension, ast.withitem)
    return _joined(
        each
        for node, each in _by_node(model, function, loop)
        if node not in but and (not isinstance(node, elsewhere) or _is_of_container(model, function, node))
    )


def _by_node(model: Model, function: FunctionInfo, loop: ast.stmt) -> list[tuple[ast.AST, Effects]]:
    """The parts of a loop that have effects."""

    def found() -> list[tuple[ast.AST, Effects]]:
        each_one = ((node, _of_node(model, function, node, _DEPTH)) for node in subtree(loop))
        return [(node, effects) for node, effects in each_one if effects != NOTHING]

    return model.remember(("effects", loop), found)


def _joined(several: Iterable[Effects]) -> Effects:
    found = NOTHING
    for each in several:
        found = found.joined(each)
    return found


def _is_of_container(model: Model, function: FunctionInfo, node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return model.value_in(function, node.func.value).kind is Kind.CONTAINER


def of_call(model: Model, function: FunctionInfo, call: ast.Call, depth: int = _DEPTH) -> Effects:
    """The effects of a call, apart from those of its arguments."""
    called = model.value_in(function, call.func)
    if called.kind is Kind.CLASS and isinstance(called.cls, ClassInfo):
        return _of_making(model, called.cls, depth)
    if called.function is not None:
        return _of_function(model, called.function, depth)
    if called.cls is None and called.kind is Kind.LIBRARY:
        given = [model.value_in(function, each) for each in (*call.args, *(each.value for each in call.keywords))]
        if any(_is_own(each) or each.kind in _CODE for each in given) or _takes_a_step(model, function, call):
            return ANYTHING
        walks = last_name(call.func) in _WALKERS and not all(_is_there(model, function, each) for each in call.args)
        return ANYTHING if walks else _of_library(called.ref or "", call)
    return _of_method(model, function, call) if isinstance(call.func, ast.Attribute) else ANYTHING


def _takes_a_step(model: Model, function: FunctionInfo, call: ast.Call) -> bool:
    """Whether a call is `next(x)` of what may run code for it: of all but the numbers that a fix has read before."""
    if last_name(call.func) != "next":
        return False
    taken = call.args[0] if call.args else None
    made = model.only_binding(function, taken.id) if isinstance(taken, ast.Name) else None
    numbers = made.args[0] if isinstance(made, ast.Call) and last_name(made.func) == "iter" and made.args else None
    return not (isinstance(numbers, ast.Call) and last_name(numbers.func) == ITEMS.name)


def _is_there(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """Whether walking the value runs no code but that of its own expression: it is no generator made elsewhere."""
    if isinstance(node, (ast.GeneratorExp, ast.SetComp, ast.DictComp, ast.ListComp)):
        return True  # its clauses and its element are asked one by one
    value = model.value_in(function, node)
    known = value.is_tensor or value.kind in (Kind.NUMBER, Kind.STRING, Kind.NUMPY)
    return known or walked_twice.there(model, function, node) is Safety.SAFE


def _of_library(ref: str, call: ast.Call) -> Effects:
    if ref.startswith("builtins."):
        plain = ref.removeprefix("builtins.") in _BUILTINS and not any(each.arg == "key" for each in call.keywords)
        return NOTHING if plain else ANYTHING
    if ref.startswith(_LIBRARIES):
        return _ENTRIES if ref.rpartition(".")[2] in CHANGE_ARGUMENTS else NOTHING
    return NOTHING if ref in _GRAD_MODES or writes.only_computes(ref, call) else ANYTHING


def _of_method(model: Model, function: FunctionInfo, call: ast.Call) -> Effects:
    assert isinstance(call.func, ast.Attribute)
    owner, name = model.value_in(function, call.func.value), call.func.attr
    if owner.holds_tensors:
        return NOTHING if evaluating.is_plain_method(call) else ANYTHING
    if owner.cls is not None or owner.kind not in (Kind.CONTAINER, Kind.STRING):
        return ANYTHING
    if name in _GET or is_fresh(model, function, call.func.value):
        return NOTHING if name in _GET | CHANGE else ANYTHING
    if name not in CHANGE:
        return ANYTHING
    return Effects(lists=name in CHANGE_LISTS, dicts=name in CHANGE_DICTS_AND_SETS)


def _of_making(model: Model, cls: ClassInfo, depth: int) -> Effects:
    """The effects of making an object; what its `__init__` sets are attributes of the new one."""
    made = model.method(cls, "__init__")
    lineage = model.lineage(cls)
    if any(each.decorators or each.head.keywords or "__new__" in each.methods for each in lineage):
        return ANYTHING
    if made is None:
        return NOTHING if not cls.head.bases else ANYTHING
    own = made.self_name
    home, depth = model.home(made), depth - 1
    if depth < 0 or made.decorators or not isinstance(made.node, ast.FunctionDef):
        return ANYTHING
    code = (each for each in made.nodes if not (_is_stored(each) and dotted(each.value) == own))  # type: ignore[attr-defined]
    return of_code(home, made, code, depth)


def _is_stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)


def _of_function(model: Model, function: FunctionInfo, depth: int) -> Effects:
    if depth == 0 or not isinstance(function.node, ast.FunctionDef):
        return ANYTHING
    if any(last_name(_called(each)) not in _PLAIN_DECORATORS for each in function.decorators):
        return ANYTHING
    home = model.home(function)
    if home.is_overridden(function):
        return ANYTHING
    key = ("effects", function, depth)
    return home.remember(key, lambda: of_code(home, function, function.nodes, depth - 1))


def _called(decorator: ast.expr) -> ast.expr:
    return decorator.func if isinstance(decorator, ast.Call) else decorator


def _of_node(model: Model, function: FunctionInfo, node: ast.AST, depth: int) -> Effects:
    if isinstance(node, ast.Call):
        return of_call(model, function, node, depth)
    if isinstance(node, ast.AugAssign):
        return _of_update(model, function, node.target)
    if isinstance(node, ast.Attribute):
        return _of_attribute(model, function, node)
    if isinstance(node, ast.Subscript):
        return _of_subscript(model, function, node)
    if isinstance(node, ast.Starred) and isinstance(node.ctx, ast.Load):
        return NOTHING if _is_there(model, function, node.value) else ANYTHING
    if isinstance(node, ast.Dict) and None in node.keys:
        merged = [value for key, value in zip(node.keys, node.values, strict=True) if key is None]
        return NOTHING if all(_is_there(model, function, each) for each in merged) else ANYTHING
    if isinstance(node, (ast.For, ast.comprehension)):
        return NOTHING if walked_twice.there(model, function, node.iter) is Safety.SAFE else ANYTHING
    if isinstance(node, ast.withitem):
        context = node.context_expr
        called = model.value_in(function, context.func).ref if isinstance(context, ast.Call) else None
        return NOTHING if called in _GRAD_MODES else ANYTHING
    if isinstance(node, _OPERATIONS):
        parts = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
        return ANYTHING if any(_is_own(model.value_in(function, each)) for each in parts) else NOTHING
    return ANYTHING if isinstance(node, _STOPS) else NOTHING


def _is_own(value: Value) -> bool:
    """Whether a value is an object of a class of the project, whose operators and texts may be code of the project."""
    return value.kind is Kind.INSTANCE and (value.cls is not None or bool(value.among))


def _of_update(model: Model, function: FunctionInfo, target: ast.expr) -> Effects:
    """The effects of `x += y` itself; those of setting an attribute or an entry are those of its target."""
    kind = model.value_in(function, target).kind
    if kind in (Kind.NUMBER, Kind.STRING):
        # A sum that other code may give a tensor is one: `+=` writes to it.
        return (
            NOTHING if not isinstance(target, ast.Attribute) or _is_set_at_home(model, function, target) else ANYTHING
        )
    if kind is Kind.CONTAINER:
        return NOTHING if is_fresh(model, function, target) else _ENTRIES
    holder = target.value if isinstance(target, ast.Subscript) else target
    return NOTHING if _is_new_tensor(model, function, holder) else ANYTHING


def _of_attribute(model: Model, function: FunctionInfo, node: ast.Attribute) -> Effects:
    if evaluating.runs_a_property(model, function, node):
        return ANYTHING
    if _has_own_access(model, function, node):
        return ANYTHING
    if isinstance(node.ctx, ast.Load):
        return NOTHING
    given = function.parents.get(node)
    value = given.value if isinstance(given, ast.Assign) else node if isinstance(given, ast.AugAssign) else None
    kind = Kind.UNKNOWN if value is None else model.value_in(function, value).kind
    is_part = kind not in (Kind.NUMBER, Kind.STRING, Kind.NONE, Kind.CONTAINER)
    return Effects(tensors=node.attr in ("data", "grad"), parts=is_part, attributes=frozenset({node.attr}))


_ACCESS = ("__getattr__", "__getattribute__", "__setattr__", "__delattr__")


def _has_own_access(model: Model, function: FunctionInfo, node: ast.Attribute) -> bool:
    """Whether code of the project runs where an attribute of the object is taken or set."""
    cls = model.value_in(function, node.value).cls
    return isinstance(cls, ClassInfo) and any(model.method(cls, name) is not None for name in _ACCESS)


def _is_set_at_home(model: Model, function: FunctionInfo, node: ast.Attribute) -> bool:
    """Whether nothing but methods of the object's own class, here and in the files around, sets the attribute."""
    if function.cls is None or dotted(node.value) != function.self_name:
        return False
    return all(
        owner is not None and (owner is function.cls or owner in model.lineage(function.cls))
        for each in model.with_neighbours
        for owner in each.remember("setters", lambda each=each: _setters(each)).get(node.attr, ())  # type: ignore[misc]
    )


def _setters(model: Model) -> dict[str, list[ClassInfo | None]]:
    """By attribute, the classes whose methods set it on `self`; None for each place that sets it on another object."""
    found: dict[str, list[ClassInfo | None]] = {}
    for function in model.functions:
        for node in function.nodes:
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                is_own = function.cls is not None and dotted(node.value) == function.self_name
                found.setdefault(node.attr, []).append(function.cls if is_own else None)
    return found


def _of_subscript(model: Model, function: FunctionInfo, node: ast.Subscript) -> Effects:
    held = model.value_in(function, node.value)
    if held.cls is not None or held.among:
        return ANYTHING
    if isinstance(node.ctx, ast.Load) or is_fresh(model, function, node.value):
        return NOTHING
    if held.kind in (Kind.CONTAINER, Kind.NUMPY):
        return _ENTRIES
    if not held.holds_tensors:
        return ANYTHING
    return NOTHING if _is_new_tensor(model, function, node.value) else _TENSORS


def _is_new_tensor(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """Whether a name holds a tensor that the function makes, and of which nothing else has a part."""
    if not isinstance(node, ast.Name) or not model.value_in(function, node).is_tensor:
        return False
    return model.remember(("new tensor", function, node.id), lambda: _has_no_views(model, function, node.id))


def _has_no_views(model: Model, function: FunctionInfo, name: str) -> bool:
    made = model.all_bindings(function, name)
    new = bool(made) and all(_fills_memory(model, function, each) for each in made)
    uses = [each for each in function.parents if isinstance(each, ast.Name) and each.id == name]
    alone = new and not _is_used_inside(model, function, name)
    return alone and all(_gives_no_view(function, each) for each in uses)


def _is_used_inside(model: Model, function: FunctionInfo, name: str) -> bool:
    """Whether a function within this one uses the name; for a name of the module, any function of the file."""
    inner: frozenset[str] = model.remember(("used inside", function), lambda: frozenset(_names_inside(model, function)))
    return name in inner


def _names_inside(model: Model, function: FunctionInfo) -> Iterator[str]:
    for each in model.functions:
        outer = each.outer
        while outer is not None and outer is not function:
            outer = outer.outer
        if outer is function and each is not function:
            yield from (node.id for node in each.nodes if isinstance(node, ast.Name))


def _fills_memory(model: Model, function: FunctionInfo, made: ast.expr) -> bool:
    ref = model.value_in(function, made.func).ref if isinstance(made, ast.Call) else None
    return ref in layout.NEW


def _gives_no_view(function: FunctionInfo, use: ast.Name) -> bool:
    parent = function.parents[use]
    if not isinstance(use.ctx, ast.Load):
        return isinstance(parent, ast.AugAssign) or (isinstance(parent, ast.Assign) and len(parent.targets) == 1)
    if isinstance(parent, ast.Subscript):
        return not isinstance(parent.ctx, ast.Load)
    return isinstance(parent, (ast.Return, ast.BinOp, ast.Compare))


def is_fresh(model: Model, function: FunctionInfo, node: ast.expr) -> bool:
    """Whether a name holds a list or dict that the function makes, and that no other name or object holds, too."""
    if not isinstance(node, ast.Name):
        return False
    return model.remember(("fresh", function, node.id), lambda: _is_only_one(model, function, node.id))


def _is_only_one(model: Model, function: FunctionInfo, name: str) -> bool:
    made = model.all_bindings(function, name)
    fresh = bool(made) and all(_makes_container(model, function, each) for each in made)
    uses = [each for each in function.parents if isinstance(each, ast.Name) and each.id == name]
    alone = fresh and not _is_used_inside(model, function, name)
    return alone and all(_leaves_alone(model, function, each) for each in uses)


def _makes_container(model: Model, function: FunctionInfo, made: ast.expr) -> bool:
    if isinstance(made, (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)):
        return True
    return isinstance(made, ast.Call) and model.value_in(function, made.func).ref in _FRESH


def _leaves_alone(model: Model, function: FunctionInfo, use: ast.Name) -> bool:
    """Whether a use of the name gives what it holds to no other name, object or function."""
    parent = function.parents[use]
    if isinstance(parent, ast.Tuple):  # `rows, sums = [], {}`, and `return loss, sums`
        parent = function.parents[parent]
        if isinstance(use.ctx, ast.Load):
            return isinstance(parent, ast.Return)
        return isinstance(parent, ast.Assign) and isinstance(parent.value, ast.Tuple) and len(parent.targets) == 1
    if not isinstance(use.ctx, ast.Load):
        return isinstance(parent, ast.Assign) and len(parent.targets) == 1
    if isinstance(parent, (ast.Attribute, ast.Compare, ast.Return, ast.FormattedValue)):
        return True
    if isinstance(parent, (ast.Subscript, ast.For, ast.comprehension)):
        return use is not (parent.slice if isinstance(parent, ast.Subscript) else parent.target)
    if isinstance(parent, ast.Call):
        ref = model.value_in(function, parent.func).ref or ""
        return parent.func is not use and ref.removeprefix("builtins.") in _BUILTINS - {"next"}
    return False
