"""Loops that iterate over a loader repeatedly, or rebuild it: each iteration starts its workers again."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Because
from torchperf_lint.idioms.writes import paths_bound_in
from torchperf_lint.knowledge import conventions, loading
from torchperf_lint.model import bounds
from torchperf_lint.model.domain.frequency import LoopKind
from torchperf_lint.model.handles import dotted, given_to, last_name, names_bound_in, names_in
from torchperf_lint.syntax.tree import children, subtree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.handles import CallRecord, FunctionInfo, Place

_ONE: tuple[object, ...] = (0, 1)
_Loop = ast.For | ast.AsyncFor | ast.While


class Rewalk(NamedTuple):
    """A loop over a loader, and the loop that repeats it."""

    because: tuple[Because, ...]
    changes_dataset: bool  # the repeating loop changes the loader's dataset, or other code the loader itself


def rewalks(model: Model, site: Site) -> Iterator[Rewalk]:
    """The loops over the loader built at the site that another loop, or Lightning, repeats with the same loader."""
    loader = model.ast_of(site.node)
    if not isinstance(loader, ast.Call):
        return
    yield from _by_lightning(model, loader)
    for there in model.models_of_loader(loader):
        for loop, function in there.all_loops:
            if isinstance(loop, ast.While) or isinstance(loop.body[-1], ast.Break):
                continue
            if loader in there.loaders_in(function, loop.iter):
                step = Because(loop.lineno, "this loop walks over the loader", there.path)
                found = _repeated(there, loader, loop.iter, there.place_of(loop), bounds.MOST_CALLS_TO_EPOCHS)
                if found is not None:
                    changes = found.changes_dataset or is_set_later(model, loader)
                    yield Rewalk((step, *found.because), changes)


def rebuilding_loop(model: Model, site: Site) -> Because | None:
    """The loop over epochs around the site, if the loader built there is the same in each pass."""
    loader, place = model.ast_of(site.node), model.place(site.node)
    loop = next(iter(place.loops()), None)
    if not isinstance(loader, ast.Call) or loop is None:
        return None
    if model.loop_info(loop).kind is not LoopKind.EPOCH or _ends_at_once(loop):
        return None
    given = [*loader.args, *(each.value for each in loader.keywords)]
    made = [*given[1:], *(each.value for each in loader.keywords if each.arg == "dataset")]
    kept = dotted(given[0]) is not None and not any(isinstance(n, ast.Call) for each in made for n in subtree(each))
    varies = any(_binds(loop, name) for each in given for name in _paths_in(each))
    walked = any(
        loader in model.loaders_in(owner, inner.iter)
        for inner, owner in model.all_loops
        if owner is place.function and not isinstance(inner, ast.While) and loop in model.place_of(inner).loops()
    )
    if not given or not kept or varies or not walked or _changes_dataset(loop, loader):
        return None
    return Because(loop.lineno, "this loop builds it in every pass, of things that it never changes", model.path)


def _paths_in(node: ast.expr) -> list[str]:
    return [path for each in subtree(node) if isinstance(each, (ast.Name, ast.Attribute)) and (path := dotted(each))]


def _repeated(there: Model, loader: ast.Call, given: ast.expr, place: Place, calls_up: int) -> Rewalk | None:
    """The loop that repeats the statement with the loader that `given` names: around it, or around a call."""
    function = place.function
    path = _kept_in(there, loader, given, function)
    if path is None:
        return None
    for loop in place.loops():
        if _walked_within_itself(loop, path):
            return None
        kind = there.loop_info(loop).kind
        if _binds(loop, path) or kind is LoopKind.BATCH:
            return None
        if _chooses(loop, given):
            continue
        if not _ends_at_once(loop):
            again = Because(loop.lineno, "and this one comes to it again and again", there.path)
            return Rewalk((again,), _changes_dataset(loop, loader))
    root = path.partition(".")[0]
    is_handed = root in function.parameter_names
    if calls_up == 0 or (not is_handed and root in function.bound_names):
        return None
    for record in there.callers(function):
        home = there.home(record.function)
        own = function.self_name is not None and root == function.self_name
        handed = _receiver(record) if own else _argument(home, record, loader) if is_handed else record.call.func
        if handed is not None:
            found = _repeated(home, loader, handed, record.place, calls_up - 1)
            if found is not None:
                step = Because(record.call.lineno, f"`{function.name}` is called here", home.path)
                return found._replace(because=(step, *found.because))
    return None


def _kept_in(model: Model, loader: ast.Call, node: ast.expr, function: FunctionInfo) -> str | None:
    """The name or attribute that stores the loader (or its owner) in an expression, wrapped or not.

    None if the expression itself makes the loader, or its iterator.
    """
    for _ in range(4):
        if isinstance(node, ast.Call):
            inner = [each for each in given_to(node) if loader in model.loaders_in(function, each)]
            node = inner[0] if inner else node
            if not inner:
                return None
            continue
        if isinstance(node, ast.Subscript):
            node = node.value
            continue
        path = dotted(node)
        if path is None:
            return None
        bound = [each for each in _bindings(function, path) if _wraps(each)] if path.isidentifier() else []
        if len(bound) != 1 or len(_bindings(function, path)) != 1:
            return path
        node = bound[0]
    return None


def _wraps(node: ast.expr) -> bool:
    """`tqdm(loader)`: a new object around the same loader."""
    return isinstance(node, ast.Call) and last_name(node.func) in conventions.LOADER_WRAPPERS


def _bindings(function: FunctionInfo, name: str) -> list[ast.expr]:
    return [
        node.value
        for node in function.nodes
        if isinstance(node, ast.Assign) and any(isinstance(each, ast.Name) and each.id == name for each in node.targets)
    ]


def _binds(loop: _Loop, path: str) -> bool:
    """Whether the loop binds the name or a prefix of the path: then each pass may have its own loader."""
    bound = names_bound_in(loop) | paths_bound_in(loop)
    parts = path.split(".")
    return any(".".join(parts[: end + 1]) in bound for end in range(len(parts)))


def _chooses(loop: _Loop, given: ast.expr) -> bool:
    """`for phase in ("train", "val"): for batch in loaders[phase]`: each pass selects another loader."""
    bound = set() if isinstance(loop, ast.While) else set(names_in(loop.target))
    return any(isinstance(each, ast.Subscript) and bound & set(names_in(each.slice)) for each in subtree(given))


def _ends_at_once(loop: _Loop) -> bool:
    """Whether the loop has one pass at most, judged by its syntax."""
    if isinstance(loop.body[-1], (ast.Break, ast.Return)):
        return True
    counts = loop.iter if isinstance(loop, (ast.For, ast.AsyncFor)) else None
    once = isinstance(counts, ast.Call) and last_name(counts.func) in ("range", "trange") and len(counts.args) == 1
    return once and isinstance(counts.args[0], ast.Constant) and counts.args[0].value in _ONE  # type: ignore[union-attr]


def _receiver(record: CallRecord) -> ast.expr | None:
    func = record.call.func
    return func.value if isinstance(func, ast.Attribute) else None


def _argument(model: Model, record: CallRecord, loader: ast.Call) -> ast.expr | None:
    """The argument that passes the loader."""
    given = [each for each in given_to(record.call) if loader in model.loaders_in(record.function, each)]
    return given[0] if len(given) == 1 else None


def _changes_dataset(loop: _Loop, loader: ast.Call) -> bool:
    """Whether a loop sets an attribute of the loader's dataset: persistent workers would not see it."""
    first = [*loader.args[:1], *(each.value for each in loader.keywords if each.arg == "dataset")]
    named = dotted(first[0]) if first else None
    for node in subtree(loop):
        if isinstance(node, ast.Attribute):
            owner = dotted(node.value) or ""
            is_dataset = owner == named or owner.rpartition(".")[2].endswith(("dataset", "data_set"))
            if is_dataset and (isinstance(node.ctx, ast.Store) or node.attr.startswith(_CHANGES)):
                return True
        elif _does_something_to(node, named):
            return True
    return False


_SETTINGS = frozenset(
    "collate_fn worker_init_fn generator timeout prefetch_factor num_workers multiprocessing_context pin_memory "
    "pin_memory_device".split()
)
"""Loader attributes that may be set after construction, and are read when its workers start."""
_ONLY_OF_LOADERS = ("collate_fn", "worker_init_fn")


def is_set_later(model: Model, loader: ast.Call) -> bool:
    """Whether a file that has the loader sets what its workers read only when they start."""
    for there in model.models_of_loader(loader):
        for function in there.functions:
            for node in _own_nodes(function):
                owner = _set_on(node)
                if owner is None or (isinstance(owner, ast.Name) and owner.id == function.self_name):
                    continue
                sources = there.loaders_in(function, owner)
                unknown = not sources and isinstance(node, ast.Attribute) and node.attr in _ONLY_OF_LOADERS
                if loader in sources or unknown:
                    return True
    return False


def _own_nodes(function: FunctionInfo) -> Iterator[ast.AST]:
    """The nodes of the function itself, without nested functions and classes."""
    pending: list[ast.AST] = list(function.body)
    for node in pending:
        yield node
        inner = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        pending += [] if inner else children(node)


def _set_on(node: ast.AST) -> ast.expr | None:
    """The object in `loader.collate_fn = f` and in `setattr(loader, name, value)`."""
    if isinstance(node, ast.Attribute):
        return node.value if isinstance(node.ctx, ast.Store) and node.attr in _SETTINGS else None
    is_setter = isinstance(node, ast.Call) and last_name(node.func) == "setattr" and node.args
    return node.args[0] if is_setter and isinstance(node, ast.Call) else None


def _does_something_to(node: ast.AST, named: str | None) -> bool:
    """`data.append(x)`, `refill(data)`, `data[0] = x`: statements that are useless unless they change the data."""
    if isinstance(node, ast.Subscript):
        return not isinstance(node.ctx, ast.Load) and dotted(node.value) == named
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or last_name(call.func) in _ONLY_LOOK:
        return False
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    paths = [dotted(each) or "" for each in (owner, *call.args) if each is not None]
    return named in paths or any(path.endswith(".dataset") for path in paths)


def _walked_within_itself(loop: _Loop, path: str) -> bool:
    """Whether two iterations over the loader run at once: persistent workers serve only one."""
    for walk in subtree(loop):
        if not isinstance(walk, (ast.For, ast.AsyncFor)) or path not in _paths_in(walk.iter):
            continue
        within = [node for statement in walk.body for node in subtree(statement)]
        again = [node.iter for node in within if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension))]
        calls = [node for node in within if isinstance(node, ast.Call) and last_name(node.func) not in _ONLY_LOOK]
        handed = [dotted(each) for call in calls for each in (*call.args, *(word.value for word in call.keywords))]
        if _paths_in(walk.iter).count(path) > 1 or path in handed or any(path in _paths_in(each) for each in again):
            return True
    return False


_ONLY_LOOK = frozenset("len print enumerate isinstance id str repr type info debug".split())


_CHANGES = ("set", "update", "resample", "shuffle", "reset", "next_", "step", "add", "remove", "refresh")
"""Prefixes of methods that change what a dataset returns."""


def _by_lightning(model: Model, loader: ast.Call) -> Iterator[Rewalk]:
    """Lightning iterates over the loaders of its training hooks, and over those passed to `fit`, in every epoch."""
    trainers = [record for record in model.calls_named("Trainer") if _is_trainer(model, record, record.call.func)]
    if any(keyword.arg in _FEW_EPOCHS and _is_few(keyword) for each in trainers for keyword in each.call.keywords):
        return
    for function in model.functions:
        cls = function.cls if function.name in ("train_dataloader", "val_dataloader") else None
        if cls is not None and loader in model.loaders_returned(function):
            bases = model.library_bases(cls)
            ending = loading.DATALOADER_HOOKS[function.name][1]
            if any(each.endswith(ending) for each in bases) or model.is_lightning_module(cls):
                says = f"Lightning walks over what `{function.name}` gives in every epoch"
                yield Rewalk((Because(function.body[0].lineno, says, model.path),), False)
    for record in model.calls_named("fit"):
        receiver = _receiver(record)
        if (
            receiver is not None
            and _is_trainer(model, record, receiver)
            and _argument(model, record, loader) is not None
        ):
            says = "Lightning walks over the loader in every epoch"
            yield Rewalk((Because(record.call.lineno, says, model.path),), False)


_FEW_EPOCHS = ("max_epochs", "max_steps", "fast_dev_run", "reload_dataloaders_every_n_epochs")


def _is_few(keyword: ast.keyword) -> bool:
    """Whether a Trainer's argument limits it to one epoch, or makes new loaders for each."""
    return keyword.arg != "max_epochs" or (isinstance(keyword.value, ast.Constant) and keyword.value.value in _ONE)


def _is_trainer(model: Model, record: CallRecord, node: ast.expr) -> bool:
    ref = model.value_in(record.function, node).ref or ""
    return ref.startswith("lightning.") and ref.endswith(".Trainer")
