"""What programs see of the simulated device: the parts of torch that are replaced, in order."""

from __future__ import annotations

from torchperf_lint.verify.simulated.torch_shims import (
    accelerator,
    compiling,
    cuda,
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
    """Replace them all."""
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
    )
    for room in rooms:
        room.faces.put_on()
