"""The function `_sent` that fixes write into files: what goes to no GPU goes as it did before."""

from __future__ import annotations

from typing import Any

import torch

from torchperf_lint.idioms.written_helpers import SENT


class Batch:
    """An object of its own class, whose method takes the device alone."""

    def to(self, device: str) -> str:
        return f"moved to {device}"


class Named(torch.Tensor):
    """A tensor of another class, which its own `to` keeps."""

    def to(self, *args: Any, **kwargs: Any) -> Any:
        return "moved by its own method"


def _sent() -> Any:
    space: dict[str, Any] = {"torch": torch}
    exec("\n".join(line.format(torch="torch") for line in SENT.lines), space)
    return space[SENT.name]


def test_objects_are_moved_by_their_own_method() -> None:
    assert _sent()(Batch(), "cuda") == "moved to cuda"


def test_other_devices_get_what_they_got() -> None:
    tensor = torch.arange(6.0)
    assert _sent()(tensor, "meta").device.type == "meta"
    assert _sent()(tensor, torch.device("meta")).device.type == "meta"
    assert _sent()(tensor, "cpu") is tensor
    assert _sent()(tensor.to("meta"), "meta").device.type == "meta"


def test_sparse_tensors_are_moved_as_they_are() -> None:
    sparse = torch.eye(2).to_sparse()
    assert _sent()(sparse, "cpu") is sparse


def test_no_device_is_left_to_the_tensor() -> None:
    tensor = torch.arange(6.0)
    assert _sent()(tensor, None) is tensor


def test_tensors_of_other_classes_are_moved_by_their_own_method() -> None:
    assert _sent()(torch.arange(6.0).as_subclass(Named), "cuda") == "moved by its own method"
