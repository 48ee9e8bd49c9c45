"""The shim of `torch.distributed`: one process, whose host backend replaces NCCL."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch import distributed as dist

from torchperf_lint.verify.simulated.names import on_device
from torchperf_lint.verify.simulated.refusals import refuse
from torchperf_lint.verify.simulated.torch_shims.patching import Faces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

faces = Faces()

_TENSOR_COLLECTIVES = """
    all_reduce broadcast reduce all_gather all_gather_into_tensor gather scatter reduce_scatter
    reduce_scatter_tensor all_to_all all_to_all_single send recv isend irecv all_reduce_coalesced
    """.split()


class _Group:
    """The devices that the process group serves."""

    device = True
    host = True


def _serves(backend: str) -> None:
    """Record which devices the backend of a new process group serves."""
    parts = dict(part.split(":") for part in backend.split(",")) if ":" in backend else {}
    _Group.device = backend == "nccl" or parts.get("cuda") == "nccl"
    _Group.host = backend == "gloo" or "cpu" in parts
    if parts.get("cuda") == "gloo":
        refuse("collectives of tensors on the device by way of gloo")


def _init_process_group(
    original: Callable[..., None], backend: str | None = None, *arguments: Any, **keywords: Any
) -> None:
    size = keywords.get("world_size", -1)
    size = int(os.environ.get("WORLD_SIZE", "1")) if size is None or size < 0 else size
    if size > 1:
        refuse(f"a process group of {size} processes")
    _serves(backend or "cpu:gloo,cuda:nccl")
    keywords.pop("device_id", None)
    original("gloo", *arguments, **keywords)


def _check_tensors(original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    for tensor in _tensors((arguments, tuple(keywords.values()))):
        if on_device(tensor) and not _Group.device:
            refuse("collectives of tensors on the device by way of gloo")
        if not on_device(tensor) and not _Group.host:
            raise RuntimeError("No backend type associated with device type cpu")
    return original(*arguments, **keywords)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)


def _object_device(original: Callable[..., str], *arguments: Any, **keywords: Any) -> str:
    """The device of pickled objects: NCCL only transfers device tensors."""
    return original(*arguments, **keywords) if _Group.host else "cuda"


def _is_nccl_available() -> bool:
    return True


if dist.is_available():
    from torch.distributed import distributed_c10d

    for _owner in (dist, distributed_c10d):
        faces.wrap(_owner, "init_process_group")(_init_process_group)
        faces.wrap(_owner, *(name for name in _TENSOR_COLLECTIVES if hasattr(_owner, name)))(_check_tensors)
        faces.wrap(_owner, *(name for name in ("_get_object_coll_device",) if hasattr(_owner, name)))(_object_device)
        faces.replace(_owner, "is_nccl_available")(_is_nccl_available)
