"""What pins a loader's batches: the argument, and whether the samples are known to bear it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchperf_lint.engine.findings import Fix, NoFix, Safety
from torchperf_lint.idioms import habits
from torchperf_lint.idioms.arguments import given
from torchperf_lint.idioms.data.copied import written_while_copied
from torchperf_lint.model.domain.values import Kind
from torchperf_lint.syntax import edits

if TYPE_CHECKING:
    from torchperf_lint.engine.findings import Edit
    from torchperf_lint.idioms.arguments import Given
    from torchperf_lint.model import Model, Site
    from torchperf_lint.model.domain.values import Value
    from torchperf_lint.model.handles import Route, Samples


def pinned_too(model: Model, batch: Value) -> tuple[Edit, ...] | None:
    """The edits that pin the batches of the loaders that a batch comes from; none where nothing shows them unpinned.

    None where a loader of another file does not pin, or where pinning is not shown to be safe.
    """
    changed: list[Edit] = []
    sites = {model.ast_of(site.node): site for site in model.loaders()}
    for loader in batch.sources:
        site = sites.get(loader)
        if site is None:
            if _is_plainly_unpinned(loader):
                return None
            continue
        pinned = argument(model, site)
        if pinned is None or not (pinned.absent or pinned.is_constant(False)):
            continue
        route = model.loader_route(site)
        fix = NoFix.FORM if route is None else pin(model, site, pinned, route, model.loader_samples(site))
        if isinstance(fix, NoFix) or fix.safety is not Safety.SAFE:
            return None
        changed += fix.edits
    return tuple(changed)


def _is_plainly_unpinned(loader: ast.Call) -> bool:
    """Whether a call names its options, and none of them pins."""
    names = [each.arg for each in loader.keywords]
    if None in names:
        return False
    off = [each.value for each in loader.keywords if each.arg == "pin_memory"]
    return all(isinstance(each, ast.Constant) and each.value is False for each in off)


def argument(model: Model, site: Site) -> Given | None:
    """What the call that builds a loader says of `pin_memory`; None if that cannot be told."""
    return given(model, site.node, "pin_memory", model.loader_position(site, "pin_memory"))


def pin(model: Model, site: Site, pinned: Given, route: Route, samples: Samples) -> Fix | NoFix:
    """SAFE only where the dataset is shown to hold no device tensors, because pinning them raises."""
    torch = model.name_of("torch", site)
    asks = torch is not None
    value = f"{torch}.cuda.is_available()" if asks and not route.certain else "True"
    batch_size = given(model, site.node, "batch_size", model.loader_position(site, "batch_size"))
    # Without batching the loader yields the dataset's own tensors, and pinning replaces them by copies.
    batched = batch_size is not None and (batch_size.absent or not _is_none(batch_size))
    files = (route.file, *samples.files)
    # Not every release can pin a sparse tensor.
    dense = not habits.names_sparse(files)
    # Older releases of torch yield a list where the collate function returned a tuple.
    collate = given(model, site.node, "collate_fn", model.loader_position(site, "collate_fn"))
    same_type = (collate is not None and collate.absent) or not habits.tells_tuples(files)
    safe = pinned.absent and samples.on_host is True and batched and dense and same_type and (asks or route.certain)
    safe = safe and not model.is_of_own_class(site) and not written_while_copied(model, site)
    title = "pin the batches, so that they are copied straight from where they lie"
    if pinned.node is not None:
        edit = edits.replace(site.tree, pinned.node, value)
        return NoFix.NO_ROOM if edit is None else Fix(title, Safety.UNSAFE, (edit,))
    if not pinned.absent:
        return NoFix.FORM
    added = edits.add_argument(site.tree, site.node, f"pin_memory={value}")
    return NoFix.NO_ROOM if added is None else Fix(title, Safety.SAFE if safe else Safety.UNSAFE, added)


def _is_none(argument: Given) -> bool:
    return argument.value is not None and argument.value.kind is Kind.NONE
