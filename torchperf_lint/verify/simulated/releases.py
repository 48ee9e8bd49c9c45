"""The simulated releases of torch, and their differences in waits and copies."""

from __future__ import annotations

import torch

from torchperf_lint.verify.simulated.refusals import refuse

OLDEST, NEWEST = (2, 11), (2, 15)
"""The releases that the simulated device was compared with, by `benchmarks/releases.py`."""


def installed() -> tuple[int, int]:
    """The release of torch, without its patch."""
    major, minor = torch.__version__.split(".")[:2]
    return int(major), int(minor)


def check() -> None:
    """Refuse a release, or a build, that is not simulated."""
    if not OLDEST <= installed() <= NEWEST:
        refuse(
            f"a device for torch {torch.__version__}; install torch {_text(OLDEST)} to {_text(NEWEST)} beside the "
            "program, or run it with --device cuda"
        )
    if torch.version.cuda is not None and torch._C._cuda_getDeviceCount() > 0:
        refuse("a device beside real ones; hide these with CUDA_VISIBLE_DEVICES=-1, or use them with --device cuda")


def _text(release: tuple[int, int]) -> str:
    return ".".join(map(str, release))


NUMBERS_ARE_FILLED_IN = installed() >= (2, 15)
"""Whether `x[i] = 1.0` fills the number in; earlier releases made a host tensor of it and copied that.

In these releases a single device-side integer index also stays on the device where a number or one value is assigned.
"""
