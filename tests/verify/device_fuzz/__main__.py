"""Run programs on both sides, step by step, and print those that come to different ends."""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter

import torch

from device_fuzz.programs import Run, Step, draw
from torchperf_lint.verify.events import Recorder
from torchperf_lint.verify.simulated import install

MIXTURES = (
    "Expected all tensors to be on the same device",
    "indices should be either on cpu or on the same device",
    "expected device",
)


def compare(seed: int, counts: Counter[str]) -> str | None:
    """Where the two runs of a program part, if they do."""
    host, device = Run(seed, "cpu"), Run(seed, "cuda")
    for step in draw(seed):
        on_host, on_device = _attempt(step, host), _attempt(step, device)
        counts["steps"] += 1
        if on_device is not None and _is_mixture(on_device):
            counts["refused"] += 1
            return None if step.mixes else f"{step.text}: {on_device!r}, though no operand lies on the host"
        if step.refused and on_device is None:
            return f"{step.text}: taken, though CUDA refuses it"
        if type(on_host) is not type(on_device):
            return f"{step.text}: {on_device!r}, on the host {on_host!r}"
        counts["raised on both"] += on_host is not None
        difference = _difference(device, host)
        if difference is not None:
            return f"{step.text}: {difference}"
    counts["ran to the end"] += 1
    return None


def _attempt(step: Step, run: Run) -> Exception | None:
    try:
        step.run(run)
    except Exception as error:
        return error
    return None


def _is_mixture(error: Exception) -> bool:
    return any(text in str(error) for text in MIXTURES)


def _difference(device: Run, host: Run) -> str | None:
    if len(device.tensors) != len(host.tensors):
        return f"{len(device.tensors)} tensors, on the host {len(host.tensors)}"
    for index, (found, expected) in enumerate(zip(device.tensors, host.tensors, strict=True)):
        if not found.is_cuda:
            return f"tensor {index} is on the host"
        for name in ("shape", "dtype"):
            if getattr(found, name) != getattr(expected, name):
                return f"{name} of tensor {index} is {getattr(found, name)}, on the host {getattr(expected, name)}"
        if found.stride() != expected.stride():
            return f"strides of tensor {index} are {found.stride()}, on the host {expected.stride()}"
        if not torch.equal(found.cpu(), expected):
            return f"tensor {index} is {found.tolist()}, on the host {expected.tolist()}"
    return None


def main(first: int, programs: int) -> None:
    """Run programs of consecutive seeds."""
    warnings.simplefilter("ignore")
    install(Recorder())
    counts: Counter[str] = Counter()
    parted = {seed: where for seed in range(first, first + programs) if (where := compare(seed, counts))}
    print(json.dumps({"parted": parted, "counts": counts}))


main(int(sys.argv[1]), int(sys.argv[2]))
