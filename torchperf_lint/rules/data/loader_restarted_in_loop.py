"""`next(iter(loader))` in every step: a whole pass is set up, and only one batch of it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Finding, Fix, Safety, Severity
from torchperf_lint.idioms import placing, surroundings
from torchperf_lint.idioms.caches import filled_once
from torchperf_lint.idioms.data import epochs
from torchperf_lint.idioms.data.workers import workers_of
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.syntax import cst, edits, shape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model import HotPath, Model, Site


@rule(
    code="TPL405",
    name="loader-restarted-in-loop",
    category=Category.DATA,
    summary="a loader is set up again for single batches, or in every epoch",
    message="`{call}` {does}",
    severity=Severity.WARNING,
    fix=Safety.SHOWN,
    triggers=(("iter(", "DataLoader"),),
    cpu_only_too=True,  # the start costs the same whatever the model runs on
)
def loader_restarted_in_loop(model: Model) -> Iterator[Finding]:
    """`iter(loader)` in a batch loop or its callees, and loaders with workers that a loop over epochs creates."""
    yield from _restarted(model)
    for site in model.loaders():
        workers = workers_of(model, site)
        rebuilt = None if workers is None or model.in_test(site) else epochs.rebuilding_loop(model, site)
        if rebuilt is not None:
            does = "is built in every epoch: its workers are started anew each time, and cannot be kept"
            yield Finding(site, (rebuilt,), None, {"call": f"{model.text(site.node.func)}(...)", "does": does})


def _restarted(model: Model) -> Iterator[Finding]:
    for site in model.builtin_calls("iter", given=Kind.LOADER):
        call = site.node
        if len(call.args) != 1 or call.args[0].star:
            continue
        loader = call.args[0].value
        taken = _taken_at_once(model, site)
        hot_path = model.hot_path(site)
        if hot_path is None or model.in_test(site) or filled_once(model, site):
            continue
        if taken is None and not (
            isinstance(model.parent(call), cst.Assign) and surroundings.always_in_loop(model, site, hot_path)
        ):
            continue
        if any(_changes(model, path, site, hot_path) for path in _rests_on(loader)):
            continue
        fix = None if taken is None else _go_on(model, taken, loader, hot_path)
        fields = {
            "call": model.text(taken.node if taken else call),
            "does": f"{_costs(model, loader)} {hot_path.where}",
        }
        yield Finding(taken or site, hot_path.because, fix, fields)


def _taken_at_once(model: Model, site: Site) -> Site | None:
    """`next(iter(loader))` around `iter(loader)`."""
    argument = model.parent(site.node)
    around = None if argument is None else model.parent(argument)
    if isinstance(argument, cst.Arg) and isinstance(around, cst.Call) and shape.dotted(around.func) == "next":
        return model.site(around)
    return None


def _rests_on(loader: cst.BaseExpression) -> list[str]:
    """The names and attributes that the loader depends on: its own, or those of the call that creates it in place."""
    parts = [item.value for item in loader.args] if isinstance(loader, cst.Call) else [loader]
    paths = [shape.dotted(part) for part in parts]
    return [path or name.value for path, part in zip(paths, parts, strict=True) for name in shape.names_in(part)]


def _changes(model: Model, path: str, site: Site, hot_path: HotPath) -> bool:
    """Whether each pass or call rebinds the name, or a prefix of the dotted path."""
    if surroundings.binds_on_way(model, hot_path, path):
        return True
    return hot_path.loop is None and model.binds(path.partition(".")[0], site)


def _costs(model: Model, loader: cst.BaseExpression) -> str:
    made = model.creation(model.value(loader))
    workers = None if made is None else workers_of(model, made)
    if workers is None:
        return "sets up a whole new pass over the loader, and drops it again,"
    started = "its workers" if workers.text is not None or workers.number == 1 else f"its {workers.number} workers"
    return f"starts {started} and ends them again"


def _go_on(model: Model, taken: Site, loader: cst.BaseExpression, hot_path: HotPath) -> Fix | None:
    """One iterator before the loop, which restarts when it is exhausted."""
    itertools = model.name_of("itertools", taken) or "itertools"
    name = "endless_batches" if model.binds("batches", taken) else "batches"
    line = f"{name} = {itertools}.chain.from_iterable({itertools}.repeat({model.text(loader)}))"
    before = placing.before(model, hot_path, line)
    after = edits.replace(taken.tree, taken.node, f"next({name})")
    changed = edits.together(before, after)
    title = "take all batches of one pass, then begin the next (needs `import itertools`)"
    return None if changed is None else Fix(title, Safety.SHOWN, changed)
