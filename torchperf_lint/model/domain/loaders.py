"""What is known of a data loader."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torchperf_lint.engine.findings import Because
    from torchperf_lint.model.syntax.code import Code
    from torchperf_lint.model.syntax.index import ClassInfo


class Route(NamedTuple):
    """How the batches of a loader reach the accelerator."""

    because: tuple[Because, ...]
    explicit: bool  # the program moves them itself; otherwise a framework does
    certain: bool  # the program cannot run without CUDA
    file: Code  # the file that shows it
    owner: ClassInfo | None = None  # the class whose method moves them
    blocks: bool = False  # the host waits for each copy, whether the memory is pinned or not
    waits: bool = False  # the program's own moves wait for each copy: none has `non_blocking`


class Samples(NamedTuple):
    """What is known of the samples that a loader reads. Everything is False or None unless it is proven."""

    in_memory: bool  # reading a sample is an index into memory
    takes_work: bool  # reading or collating a sample runs code: of a library, of the project, or a `collate_fn`
    no_tensors: bool  # they contain nothing that could be copied to a device
    unsharded: bool  # an iterable dataset that every worker would read from the start
    on_host: bool | None  # True: provably made from host data; False: something may put them on the accelerator
    made_up: Because | None  # where random numbers, constants or a toy set of a library become samples
    files: tuple[Code, ...]  # the files of the loader, of the dataset's class and of `collate_fn`
