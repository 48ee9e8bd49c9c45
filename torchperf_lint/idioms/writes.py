"""What a function does to its data: writes in place, moves back to the host, stores, or uses as a tensor."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.idioms.aliases import memory_of
from torchperf_lint.knowledge import pure_functions
from torchperf_lint.knowledge.torch_api import FULL_REDUCTIONS
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.model.handles import dotted, given_to, last_name, names_bound_in
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.handles import FunctionInfo
    from torchperf_lint.syntax import cst

_MOVERS = ("to", "cuda", "type_as")
_TENSOR_ONLY = frozenset(
    "size shape dim view view_as reshape float long half permute unsqueeze squeeze cuda flatten ndim dtype numel "
    "repeat expand new_zeros transpose sum mean pin_memory is_cuda nelement contiguous".split()
)
"""Attributes that only tensors have."""
_TAKE_ANYTHING = frozenset({"torch.is_tensor", "torch.save", "torch.typename", "torch.is_storage"})
_ONLY_KEEP = frozenset({"torch.autograd.Variable", "torch.utils.data.TensorDataset"})

_WHOLE_VIEWS = frozenset("transpose permute t view reshape flatten squeeze unsqueeze".split())
"""Methods that give all elements in another shape, so that a view does not keep more memory than it shows."""


def written_in(function: FunctionInfo) -> tuple[tuple[ast.expr, int], ...]:
    """What a function writes in place (`x[i] = v`, `x += v`, `x.mul_(v)`, `out=x`), with the line.

    Putting a moved tensor back under its key (`batch["x"] = batch["x"].to(device)`) writes a container, not a
    tensor, and is not included.
    """
    return function.note(("written in", function), lambda: tuple(_writes_within(function.node)))


def writes_of(statement: ast.AST) -> Iterator[ast.expr]:
    """What a statement or a function, with all nested statements, writes in place."""
    return (written for written, _ in _writes_within(statement))


def _writes_within(around: ast.AST) -> Iterator[tuple[ast.expr, int]]:
    for node in subtree(around):
        if isinstance(node, ast.Assign):
            for target in _parts(node.targets):
                if isinstance(target, ast.Subscript) and not _stores_entry(target, node.value):
                    yield target.value, node.lineno
        elif isinstance(node, ast.AugAssign):
            yield (node.target.value if isinstance(node.target, ast.Subscript) else node.target), node.lineno
        elif isinstance(node, ast.Call):
            func = node.func
            if isinstance(func, ast.Attribute) and func.attr.endswith("_") and not func.attr.endswith("__"):
                base = func.value
                yield (base.value if isinstance(base, ast.Attribute) and base.attr == "data" else base), node.lineno
            for keyword in node.keywords:
                if keyword.arg == "out":
                    yield keyword.value, node.lineno


def _parts(targets: list[ast.expr]) -> Iterator[ast.expr]:
    """The parts of assignment targets, those in tuples and lists included."""
    for target in targets:
        yield from _parts(target.elts) if isinstance(target, (ast.Tuple, ast.List)) else (target,)


def _stores_entry(target: ast.Subscript, value: ast.expr) -> bool:
    moved = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _MOVERS
    return moved or (isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str))


def writes_in_place(model: Model, path: str, site: Site) -> bool:
    """Whether the function around the site writes in place to the value of `path` (`x`, `self.weights`)."""
    for written, _ in written_in(model.function_of(site)):
        base = written
        while isinstance(base, (ast.Subscript, ast.Call)):
            base = base.value if isinstance(base, ast.Subscript) else base.func
            base = base.value if isinstance(base, ast.Attribute) and isinstance(written, ast.Call) else base
        name = dotted(base)
        if name is not None and (name + ".").startswith(path + "."):
            return True
    return False


def paths_bound_in(loop: ast.stmt) -> set[str]:
    """The attributes (`self.weights`) that the loop assigns."""
    stores = [node for node in subtree(loop) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]
    return {path for path in map(dotted, stores) if path is not None}


def makes_afresh(model: Model, name: str, site: Site) -> bool:
    """Whether the function binds `name` to results of arithmetic, losses and reductions only, never to a view."""
    function = model.function_of(site)
    made = [value for value in model.bindings(function, name) if is_made(model, function, value)]
    stores = [
        node
        for node in function.nodes
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
    ]
    return 0 < len(made) == len(stores)


def is_made(model: Model, function: FunctionInfo, value: ast.expr) -> bool:
    """Whether the expression is arithmetic, a loss or a reduction, which returns a new tensor."""
    if isinstance(value, ast.BinOp):
        return True
    if not isinstance(value, ast.Call) or any(keyword.arg in ("out", None) for keyword in value.keywords):
        return False
    called = model.value_in(function, value.func)
    ref = called.ref or ""
    if called.kind is Kind.MODULE:
        return ref == "criterion" or (ref.startswith("torch.nn.") and ref.endswith("Loss"))
    name = last_name(value.func) or ""
    if called.kind is Kind.LIBRARY:
        made = name in FULL_REDUCTIONS or name.endswith(("loss", "cross_entropy", "clip_grad_norm_"))
        return made and ref.startswith("torch.")
    if isinstance(value.func, ast.Attribute) and name in _WHOLE_VIEWS and called.function is None:
        return is_made(model, function, value.func.value)
    if not isinstance(value.func, ast.Attribute) or name not in FULL_REDUCTIONS or called.function is not None:
        return False
    return model.value_in(function, value.func.value).holds_tensors


def only_computes(ref: str, call: ast.Call) -> bool:
    """Whether a call of a torch or NumPy function, by its full name, writes to nothing and runs no other code."""
    if any(keyword.arg in (None, "out", "inplace") for keyword in call.keywords):
        return False
    if ref in pure_functions.PURE_UNLESS_IN_PLACE:
        return len(call.args) < 2  # `F.relu(x, True)` writes to `x`, by position
    return ref in pure_functions.PURE or len(call.args) <= pure_functions.PURE_NUMPY.get(ref, -1)


def handed_to_writers(model: Model, function: FunctionInfo) -> tuple[tuple[ast.expr, int], ...]:
    """What a function passes to torch or NumPy functions that may write to it (`all_reduce(x)`), with the line."""
    return model.remember(("handed to writers", function), lambda: tuple(_handed_to_writers(model, function)))


def _handed_to_writers(model: Model, function: FunctionInfo) -> Iterator[tuple[ast.expr, int]]:
    for record in function.calls_made:
        called = model.callee(record)
        ref = called.ref or ""
        if called.kind is not Kind.LIBRARY or not ref.startswith(("torch.", "numpy.")):
            continue
        leaves = ref in _TAKE_ANYTHING | _ONLY_KEEP or (ref.startswith("torch.nn.") and ref.endswith("Loss"))
        if not leaves and not only_computes(ref, record.call):
            for given in (*record.call.args, *(keyword.value for keyword in record.call.keywords)):
                yield from ((part, record.call.lineno) for part in _parts([given]))


def may_write(
    model: Model,
    function: FunctionInfo,
    tensors: Iterable[ast.expr],
    code: Sequence[ast.AST],
    but: Sequence[ast.AST] = (),
) -> bool:
    """Whether code of the function may write to one of the tensors: in place, or in a function that is not known.

    The calls in `but` are known to leave their arguments alone.
    """
    own = set[str]().union(*(_names_for(model, function, each) for each in tensors))
    inside = [node for each in code for node in subtree(each)]
    nodes = set(inside)
    written = [each for part in code for each in writes_of(part)]
    written += [each for each, _ in handed_to_writers(model, function) if each in nodes]
    for call in inside:
        if isinstance(call, ast.Call) and call not in but and _is_unknown(model.value_in(function, call.func)):
            given = [*call.args, *(keyword.value for keyword in call.keywords)]
            written += [each for each in given if model.value_in(function, each).kind is not Kind.NUMBER]
    return any(not own.isdisjoint(_names_for(model, function, each)) for each in written)


def _is_unknown(called: Value) -> bool:
    """Whether a function may write to its arguments; `handed_to_writers` has the library's own."""
    is_of_tensor = called.kind is Kind.METHOD and called.function is None and called.element is not None
    return not (called.kind in (Kind.LIBRARY, Kind.CLASS) or called.is_layer or is_of_tensor)


def _names_for(model: Model, function: FunctionInfo, node: ast.expr) -> set[str]:
    """The names and paths whose memory the expression may share."""
    shared = map(dotted, memory_of(model, function, node, on_device=True))
    return {path for path in shared if path is not None}


def handed_to_writer(model: Model, site: Site, path: str | None) -> bool:
    """Whether the function around the site passes its result, or `path`, to a function that may write to it."""
    made = model.ast_of(site.node)
    given = (each for each, _ in handed_to_writers(model, model.function_of(site)))
    return any(each is made or (path is not None and dotted(each) == path) for each in given)


def gives_new(ref: str, call: ast.Call) -> bool:
    """Whether the call only computes, and its result shares no memory with its arguments."""
    return only_computes(ref, call) and ref.rpartition(".")[2] not in pure_functions.MAY_GIVE_ITS_ARGUMENT


def taken_back(model: Model, path: str, site: Site) -> bool:
    """Whether the function around the site calls `path.cpu()` or `path.to("cpu")` (a deliberate swap)."""
    for record in model.function_of(site).calls_made:
        func = record.call.func
        if not isinstance(func, ast.Attribute) or dotted(func.value) != path:
            continue
        to_host = any("cpu" in ast.unparse(argument) for argument in given_to(record.call))
        if func.attr == "cpu" or (func.attr == "to" and to_host):
            return True
    return False


def takes_models_away(model: Model, site: Site) -> bool:
    """Whether the function around the site moves a module or a pipeline to the host, or deletes one."""
    function = model.function_of(site)
    for node in function.nodes:
        taken: list[ast.expr] = []
        if isinstance(node, ast.Delete):
            taken = node.targets
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            to_host = any("cpu" in text or "meta" in text for text in map(ast.unparse, given_to(node)))
            taken = [node.func.value] if node.func.attr == "cpu" or (node.func.attr == "to" and to_host) else []
        for each in taken:
            is_module = model.value_in(function, each).kind is Kind.MODULE
            if is_module or (last_name(each) or "").lower().endswith(("pipeline", "pipe", "model", "encoder", "vae")):
                return True
    return False


def is_host_batch(value: Value) -> bool:
    """Whether the value is a loader's batch, or derived from one, without evidence that it is on the accelerator."""
    held = value.element if value.kind is Kind.METHOD and value.element is not None else value
    return held.holds_tensors and value.origin is not None and not value.device.on_accelerator


def host_batch_written_after(model: Model, site: Site) -> bool:
    """Whether the function around the site may write in place to a host batch, on a later line or pass."""
    function = model.function_of(site)
    return any(
        is_host_batch(model.value_in(function, written))
        for written in _behind(model, site, (*written_in(function), *handed_to_writers(model, function)))
    )


def host_batch_written_by_callers(model: Model, site: Site) -> bool:
    """Whether a function that calls the one around the site may write in place to a host batch."""
    for record in model.callers(model.function_of(site)):
        home, caller = model.home(record.function), record.function
        for written, _ in (*written_in(caller), *handed_to_writers(home, caller)):
            if any(is_host_batch(home.value_in(caller, each)) for each in memory_of(home, caller, written)):
                return True
    return False


def is_written_after(model: Model, site: Site, moved: cst.BaseExpression) -> bool:
    """Whether the function around the site writes by name to what is moved there, on a later line or pass."""
    node = model.ast_of(moved)
    name = ast.unparse(node) if node is not None else model.text(moved)
    behind = _behind(model, site, written_in(model.function_of(site)))
    written = (ast.unparse(each) for each in behind if _is_path(each))
    return any(_is_part(each, name) or _is_part(name, each) for each in written)


def _is_path(node: ast.expr) -> bool:
    """Whether the node is `x`, `batch.x`, `batch["x"][0]`: no call, which may return other memory."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return isinstance(node, ast.Name)


def _is_part(part: str, whole: str) -> bool:
    """Whether `part` is `whole` or a part of it: `batch.x[0]` of `batch`."""
    return part == whole or part.startswith((f"{whole}.", f"{whole}["))


def _behind(model: Model, site: Site, written: Iterable[tuple[ast.expr, int]]) -> Iterator[ast.expr]:
    """What is written after the site, in this pass or the next, and the expressions that share its memory."""
    function = model.function_of(site)
    loops = model.place(site.node).loops()
    for each, row in written:
        for shared in memory_of(model, function, each):
            if row > site.rows[1] or any(_comes_again(model, loop, shared, row) for loop in loops):
                yield shared


def _comes_again(model: Model, loop: ast.stmt, written: ast.expr, row: int) -> bool:
    """Whether the loop's next pass writes at `row` to an object of this pass, because it binds no other object."""
    names = {node.id for node in subtree(written) if isinstance(node, ast.Name)}
    if not loop.lineno <= row <= (loop.end_lineno or 0):
        return False
    return names.isdisjoint(model.remember(("bound in", loop), lambda: names_bound_in(loop)))


def collates_tensors(value: Value) -> bool:
    """Whether a batch comes from a loader built in this file that makes tensors of its items by default."""
    return bool(value.sources) and all(
        len(call.args) < 7 and not any(keyword.arg in ("collate_fn", None) for keyword in call.keywords)
        for call in value.sources
    )


def has_own_mover(model: Model, name: str) -> bool:
    """Whether a class of this file, or of a neighbour, that makes no modules has a method of that name."""
    return any(
        name in cls.methods and not each.makes_modules(cls)
        for each in model.with_neighbours
        for cls in each.classes_with(name)
    )


def has_blocking_mover(model: Model, name: str, site: Site) -> bool:
    """Whether a class of this file, or of a neighbour, has a method of that name without `non_blocking`.

    A model is no batch: that is a module, or the class whose own method, not its mover, walks the loader.
    """
    function = model.function_of(site)
    methods = [
        cls.methods[name]
        for each in model.with_neighbours
        for cls in each.classes_with(name)
        if name in cls.methods and (cls is not function.cls or function.name == name) and not each.makes_modules(cls)
    ]
    return any(
        "non_blocking" not in method.parameter_names
        and (method.arguments is None or (method.arguments.kwarg is None and method.arguments.vararg is None))
        for method in methods
    )


def acts_as_tensor(model: Model, name: str, site: Site) -> bool:
    """Whether the function around the site uses the value of `name` as only a tensor can be used."""
    function = model.function_of(site)
    for node in function.nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name:
            if node.attr in _TENSOR_ONLY:
                return True
        elif isinstance(node, (ast.Compare, ast.BinOp)):
            sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else [node.left, node.right]
            if any(isinstance(side, ast.Name) and side.id == name for side in sides) and _computes(node):
                return True
        elif isinstance(node, ast.Call) and any(_is_or_moves(argument, name) for argument in node.args):
            callee = model.value_in(function, node.func)
            ref = callee.ref or ""
            takes_tensors = ref.startswith("torch.") and ref not in _TAKE_ANYTHING
            if ref == "criterion" or (takes_tensors and callee.kind in (Kind.LIBRARY, Kind.MODULE)):
                return True
    return False


def comes_from_dict(model: Model, path: str, site: Site) -> bool:
    """Whether the function around the site binds an attribute to an entry of a dict above, and to its copies alone."""
    function = model.function_of(site)
    given = [
        (node.lineno, node.value)
        for node in function.nodes
        if isinstance(node, ast.Assign) and any(dotted(target) == path for target in node.targets)
    ]
    entries = [(row, value) for row, value in given if _is_entry(value)]
    others = [value for _, value in given if not _is_entry(value)]
    return (
        len(entries) == 1
        and entries[0][0] < site.rows[0]
        and all(isinstance(each, ast.Call) and _moves_path(each, path) for each in others)
    )


def _is_entry(node: ast.expr) -> bool:
    """`batch["images"]`."""
    is_key = isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)
    return is_key and isinstance(node.slice.value, str)  # type: ignore[attr-defined]


def _moves_path(call: ast.Call, path: str) -> bool:
    """`x.to(...)` of the path itself."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in _MOVERS and dotted(call.func.value) == path


def _is_or_moves(argument: ast.expr, name: str) -> bool:
    """Whether the argument is `x`, or `x.to(...)`."""
    if isinstance(argument, ast.Call) and isinstance(argument.func, ast.Attribute) and argument.func.attr in _MOVERS:
        argument = argument.func.value
    return isinstance(argument, ast.Name) and argument.id == name


def _computes(node: ast.Compare | ast.BinOp) -> bool:
    return isinstance(node, ast.BinOp) or isinstance(node.ops[0], (ast.Eq, ast.NotEq, ast.Lt, ast.Gt, ast.LtE, ast.GtE))
