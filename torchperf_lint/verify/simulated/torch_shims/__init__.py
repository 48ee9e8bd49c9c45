"""The shims: the parts of torch that are replaced for the simulated device, in order."""

from __future__ import annotations

from torchperf_lint.verify.simulated.torch_shims import (
    accelerator,
    compiling,
    cuda,
    devices,
    distributed,
    factories,
    mixed_precision,
    parallel,
    profiling,
    refused,
    storages,
    streams,
    tensors,
)


def put_on() -> None:
    """Install all shims."""
    rooms = (
        refused,
        cuda,
        streams,
        accelerator,
        tensors,
        storages,
        factories,
        mixed_precision,
        distributed,
        parallel,
        profiling,
        compiling,
        devices,
    )
    for room in rooms:
        room.faces.put_on()
