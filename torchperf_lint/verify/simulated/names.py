"""The two names of the device: the "cuda" that programs see, and the backend that torch knows it by."""

from __future__ import annotations

from typing import Any

import torch

from torchperf_lint.verify.simulated.internals import core
from torchperf_lint.verify.simulated.refusals import refuse

BACKEND = "simulated_cuda"
HOST = torch.device("cpu")
FACE = torch.device("cuda", 0)
BACKEND_DEVICE = torch.device("privateuseone", 0)

device_inside = core.TensorBase.device.__get__
"""A tensor's device as torch knows it; inside of a mode for torch functions, as `Tensor.device` gives it."""

_NAMES = (BACKEND, "cuda")


def on_device(tensor: torch.Tensor) -> bool:
    """Whether the tensor is the simulated device's."""
    return device_inside(tensor).type in _NAMES


def is_device(device: torch.device) -> bool:
    """Whether a device, under either name, is the simulated one."""
    return device.type in _NAMES


def check_index(index: int | None) -> int:
    """The index of the only device; None stands for the current one."""
    if index:
        refuse(f"a second device (cuda:{index}): the simulated machine has one")
    return 0


def to_backend(device: Any) -> Any:
    """The same device under the name that torch knows; whatever is no CUDA device comes back unchanged."""
    if isinstance(device, bool):
        return device
    if isinstance(device, str) and device.startswith("cuda"):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != "cuda":
            return device
        check_index(device.index)
        return BACKEND_DEVICE
    if isinstance(device, int):
        check_index(device)
        return BACKEND_DEVICE
    return device


def to_face(device: Any) -> Any:
    """The same device under the name that programs see."""
    return FACE if isinstance(device, torch.device) and device.type == BACKEND else device


def index_of(device: Any) -> int:
    """The index that a program means by a device, an index, a name or nothing, as `torch.cuda` functions take them."""
    if device is None or isinstance(device, int):
        return check_index(None if device is None or device < 0 else device)
    device = torch.device(device) if isinstance(device, str) else device
    if not is_device(device):
        raise ValueError(f"Expected a cuda device, but got: {device}")
    return check_index(device.index)
