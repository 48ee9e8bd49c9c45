"""Contracts: what frameworks guarantee about functions that they call, and what a library's users may expect."""

from __future__ import annotations

from typing import NamedTuple

from torchperf_lint.model.domain.values import Device, Origin


class Contract(NamedTuple):
    """A framework's guarantee about a function: it is called for every batch, with these arguments on the device.

    Without `hot` no step calls it, whatever else does.
    """

    hot: bool
    says: str
    device: Device = Device.UNKNOWN
    all_tensors: bool = False
    tensors: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset(
        {"batch_idx", "dataloader_idx", "optimizer_idx", "batch_index", "batch_nb", "step", "epoch", "idx", "i"}
    )
    arrays: frozenset[str] = frozenset()  # parameters that get NumPy arrays
    origin: Origin | None = None
    row: int | None = None  # of the call that passes the function to the framework, and that call's file
    path: str | None = None
    holder: str | None = None  # a parameter whose attributes hold the loss, the batch and the outputs, on the device
    evaluates: bool = False  # only evaluations call it, whatever its name
    is_likely: bool = False  # by what the class looks like: no framework is known to call it

    def origin_of(self, name: str) -> Origin | None:
        """The origin of what this parameter gets: outputs and losses are no loader's batch."""
        return None if name.removesuffix("s").endswith(("output", "loss")) else self.origin

    def places(self, name: str) -> bool:
        """Whether the tensors of this parameter are on the device."""
        return self.device.on_accelerator and (self.all_tensors or name in self.tensors)

    def gives_batch(self, name: str) -> bool:
        """Whether the framework is known to give this parameter a batch as a loader made it."""
        return self.device is Device.UNKNOWN and name in self.tensors and not self.is_likely
