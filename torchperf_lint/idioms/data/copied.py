"""Writes to a loader's batches while they are copied to the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.idioms.transfer.transfers import hot_moves
from torchperf_lint.idioms.writes import host_batch_written_after

if TYPE_CHECKING:
    from torchperf_lint.model import Model, Site


def written_while_copied(model: Model, site: Site) -> bool:
    """Whether the file may write to a batch of the loader built here after a non-blocking copy.

    From pageable memory such a copy has been staged by then; from pinned memory it may still be in progress.
    """
    loader = model.ast_of(site.node)
    return any(
        move.non_blocking and loader in model.value(move.moved).sources and host_batch_written_after(model, move.site)
        for move in hot_moves(model)
    )
