"""Registers the device's kernels for operators."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from torchperf_lint.verify.simulated import autocast, copies, division, linear_algebra, rnn
from torchperf_lint.verify.simulated.internals import Library, core
from torchperf_lint.verify.simulated.kernels import run, run_on_metadata
from torchperf_lint.verify.simulated.native import operators_with_cuda_kernel, operators_without_cuda_kernel
from torchperf_lint.verify.simulated.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch._ops import OpOverload

_KEY = "PrivateUse1"
_HOST_KERNELS = ("CPU", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")

_OWN: dict[str, Callable[..., Any]] = {
    "copy_": copies.copy_,
    "_copy_from": copies.copy_from,
    "_to_copy": copies.to_copy,
    "_local_scalar_dense": copies.item,
    "resize_": copies.resize_,
    "set_": copies.forget_memory,
    "_efficientzerotensor": copies.zero_tensor,
    "is_pinned": copies.is_pinned_on_device,
    "linalg_lstsq": functools.partial(linear_algebra.lstsq, torch.ops.aten.linalg_lstsq.default),
    "linalg_lstsq.out": functools.partial(linear_algebra.lstsq, torch.ops.aten.linalg_lstsq.out),
    "div.Tensor": functools.partial(division.divide, torch.ops.aten.div.Tensor, torch.ops.aten.mul.Tensor),
    "div.Tensor_mode": functools.partial(division.divide, torch.ops.aten.div.Tensor_mode, torch.ops.aten.mul.Tensor),
    "div_.Tensor": functools.partial(division.divide, torch.ops.aten.div_.Tensor, torch.ops.aten.mul_.Tensor),
    "div_.Tensor_mode": functools.partial(division.divide, torch.ops.aten.div_.Tensor_mode, torch.ops.aten.mul_.Tensor),
    "div.out": functools.partial(division.divide, torch.ops.aten.div.out, torch.ops.aten.mul.out),
    "div.out_mode": functools.partial(division.divide, torch.ops.aten.div.out_mode, torch.ops.aten.mul.out),
    "_thnn_fused_lstm_cell": rnn.lstm_cell,
    "_thnn_fused_lstm_cell_backward_impl": rnn.lstm_cell_backward,
    "_thnn_fused_gru_cell": rnn.gru_cell,
    "_thnn_fused_gru_cell_backward": rnn.gru_cell_backward,
}

# Operators that only change shape, strides or offset: the host's kernels make true views of device tensors.
_METADATA = """
    as_strided view _reshape_alias unfold view_as_real view_as_complex set_.source_Storage_storage_offset
    set_.source_Tensor set_.source_Storage
    """.split()

# Composites that dispatch on the device run whole, as one kernel.
_WHOLE = "convolution convolution_backward mode.values".split()

# The operators that allocate in all factories.
_ALLOCATING = (torch.ops.aten.empty.memory_format, torch.ops.aten.empty_strided.default)

# The collectives of torch.distributed, whose host backend stands in for NCCL.
_COLLECTIVES = """
    allreduce_ allreduce_coalesced_ allgather_ _allgather_base_ allgather_coalesced_
    allgather_into_tensor_coalesced_ broadcast_ reduce_ reduce_scatter_ _reduce_scatter_base_ gather_ scatter_
    alltoall_ alltoall_base_ barrier send recv_
    """.split()

_UNSUPPORTED_LAYOUTS = ("Sparse", "SparseCsr", "Quantized", "NestedTensor")

_libraries: list[Any] = []  # kernels live as long as their library


def register() -> None:
    """Register a kernel for every operator."""
    everything, aten = Library("_", "IMPL"), Library("aten", "IMPL")
    _libraries.extend((everything, aten))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # replacing kernels is intended
        everything.fallback(run, _KEY)
        _refuse_layouts(everything, _KEY)
        everything.fallback(torch.library.fallthrough_kernel, autocast.KEY)
        _refuse_layouts(everything, "CUDA")
        everything.fallback(run, "CUDA")  # factories that are asked for "cuda", in any thread and from C++
        aten.impl("_to_copy", copies.to_copy, "CUDA")
        if torch.version.cuda is not None:  # there kernels of CUDA's stand before the fallback
            for allocating in _ALLOCATING:
                aten.impl(allocating, functools.partial(run, allocating), "CUDA")
        for name, kernel in _OWN.items():
            aten.impl(name, kernel, _KEY)
        for name in _METADATA:
            operator = _operator("aten", name)
            if operator is not None and _runs_on_host(name):
                aten.impl(name, functools.partial(run_on_metadata, operator), _KEY)
        for name in sorted(operators_with_cuda_kernel().union(_WHOLE).difference(_OWN, _METADATA)):
            operator = _operator("aten", name)
            if operator is not None and _runs_on_host(name):
                aten.impl(name, functools.partial(run, operator), _KEY)
        for name in sorted(operators_without_cuda_kernel()):
            if _operator("aten", name) is not None:
                aten.impl(name, functools.partial(_refuse_as_cuda_does, name), _KEY)
        autocast.register(aten)
        if torch.distributed.is_available():
            _register_collectives()


def _refuse_layouts(everything: Any, backend: str) -> None:
    for layout in _UNSUPPORTED_LAYOUTS:
        everything.fallback(functools.partial(_refuse_layout, layout), layout + backend)


def _refuse_layout(layout: str, operator: OpOverload[..., Any], /, *arguments: Any, **keywords: Any) -> NoReturn:
    refuse(f"{layout} tensors on the device ({operator})")


def _refuse_as_cuda_does(name: str, /, *arguments: Any, **keywords: Any) -> NoReturn:
    raise NotImplementedError(f"Could not run 'aten::{name}' with arguments from the 'CUDA' backend.")


def _register_collectives() -> None:
    c10d = Library("c10d", "IMPL")
    _libraries.append(c10d)
    for name in _COLLECTIVES:
        operator = _operator("c10d", name)
        if operator is not None:
            c10d.impl(name, functools.partial(run, operator), _KEY)
            c10d.impl(name, torch.library.fallthrough_kernel, "Autograd" + _KEY)


def _operator(namespace: str, name: str) -> OpOverload[..., Any] | None:
    packet, _, overload = name.partition(".")
    found: OpOverload[..., Any] | None = getattr(
        getattr(getattr(torch.ops, namespace), packet, None), overload or "default", None
    )
    return found


def _runs_on_host(name: str) -> bool:
    has_kernel: Callable[[str, str], bool] = core._dispatch_has_kernel_for_dispatch_key
    return any(has_kernel(f"aten::{name}", key) for key in _HOST_KERNELS)
