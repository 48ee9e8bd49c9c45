"""What can be told of a data loader."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torchperf_lint.engine.findings import Because
    from torchperf_lint.model.syntax.code import Code


class Route(NamedTuple):
    """How the batches of a loader come to the accelerator."""

    because: tuple[Because, ...]
    explicit: bool  # the program moves them itself; otherwise a framework does
    certain: bool  # the program cannot run without CUDA
    file: Code  # where that is seen
    blocks: bool = False  # the host waits for each copy, from whatever memory it is made


class Samples(NamedTuple):
    """What can be told of the samples that a loader reads. Everything is False or None unless it is shown."""

    in_memory: bool  # reading one is an index into memory
    takes_work: bool  # reading or collating one runs code: of a library, of the project, or a `collate_fn`
    no_tensors: bool  # there is nothing in them that could be copied to a device
    unsharded: bool  # an iterable that every worker would read from its start
    on_host: bool | None  # True: made in sight of host data; False: something may put them on the accelerator
    files: tuple[Code, ...]  # the loader's, and those that the dataset's class and `collate_fn` stand in
