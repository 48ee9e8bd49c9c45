"""The shim of `torch.device`: a device that is made of a bare index is CUDA's, as in a build with CUDA."""

from __future__ import annotations

from typing import Any

import torch

from torchperf_lint.verify.simulated.names import check_index, to_face
from torchperf_lint.verify.simulated.torch_shims.patching import Faces

faces = Faces()

_OWN = torch.device


class _Type(type):
    """The type of a class that stands for `torch.device`, which is final: its objects are those of torch."""

    def __call__(cls, *arguments: Any, **keywords: Any) -> Any:
        if arguments and isinstance(arguments[0], int):
            check_index(arguments[0])
        return to_face(_OWN(*arguments, **keywords))

    def __instancecheck__(cls, each: object) -> bool:
        return isinstance(each, _OWN)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is _OWN

    def __hash__(cls) -> int:
        return hash(_OWN)


class device(metaclass=_Type):  # noqa: N801 - it is called as torch calls it
    """`torch.device`."""


device.__module__, device.__qualname__ = "torch", "device"
faces.set(torch, "device", device)
