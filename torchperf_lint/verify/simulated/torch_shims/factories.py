"""The shims of tensor factories: device names, pinned memory, and the random stream that they use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils import _device as default_devices

from torchperf_lint.verify.simulated import randomness
from torchperf_lint.verify.simulated.memory import mark_pinned
from torchperf_lint.verify.simulated.names import is_device, on_device, to_backend, to_face
from torchperf_lint.verify.simulated.refusals import refuse
from torchperf_lint.verify.simulated.torch_shims.patching import Faces

if TYPE_CHECKING:
    from collections.abc import Callable

faces = Faces()

_FACTORIES = """
    empty empty_like empty_permuted empty_strided zeros zeros_like ones ones_like full full_like arange range linspace
    logspace eye tensor as_tensor asarray scalar_tensor rand rand_like randn randn_like randint randint_like randperm
    tril_indices triu_indices bartlett_window blackman_window hamming_window hann_window kaiser_window
    """.split()
_METHODS = "new_empty new_zeros new_ones new_full new_tensor new_empty_strided".split()
_UNSUPPORTED = """
    sparse_coo_tensor sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor sparse_compressed_tensor
    empty_quantized
    """.split()
_DRAWING = "normal bernoulli multinomial poisson".split()
_DRAWING_IN_PLACE = "normal_ uniform_ random_ bernoulli_ exponential_ cauchy_ log_normal_ geometric_".split()


@faces.wrap(torch, *_FACTORIES)
@faces.wrap(torch.utils.data.dataset, "randperm")
@faces.wrap(Tensor, *_METHODS)
def _make(
    original: Callable[..., Tensor], *arguments: Any, device: Any = None, pin_memory: bool = False, **keywords: Any
) -> Tensor:
    if device is not None:
        keywords["device"] = to_backend(device)
    if "generator" in keywords and isinstance(keywords["generator"], randomness.DeviceGenerator):
        _check_generator(keywords)
    made = original(*arguments, **keywords)
    if not pin_memory:
        return made
    if on_device(made):
        raise RuntimeError("Only dense CPU tensors can be pinned")
    return mark_pinned(made)


def _check_generator(keywords: dict[str, Any]) -> None:
    device = keywords.get("device") or torch.get_default_device()
    if not is_device(torch.device(device)):
        randomness.check_host_generator(keywords["generator"])


@faces.wrap(torch, *_DRAWING)
@faces.wrap(Tensor, *_DRAWING_IN_PLACE, "bernoulli", "multinomial")
def _draw(original: Callable[..., Tensor], *arguments: Any, generator: Any = None, **keywords: Any) -> Tensor:
    if "device" in keywords:
        keywords["device"] = to_backend(keywords["device"])
    if generator is not None:
        keywords["generator"] = generator
        if not any(isinstance(each, Tensor) and on_device(each) for each in arguments):
            randomness.check_host_generator(generator)
    return original(*arguments, **keywords)


@faces.wrap(torch, *_UNSUPPORTED)
def _make_unsupported(original: Callable[..., Tensor], *arguments: Any, **keywords: Any) -> Tensor:
    operands = [each for each in arguments if isinstance(each, Tensor)]
    device = keywords.get("device")
    if (device is not None and is_device(torch.device(device))) or any(map(on_device, operands)):
        refuse("sparse and quantized tensors on the device")
    return original(*arguments, **keywords)


# ---- default devices


@faces.wrap(default_devices.DeviceContext, "__init__")
def _init_context(original: Callable[..., None], context: Any, device: Any) -> None:
    original(context, to_backend(device))


@faces.wrap(torch, "get_default_device")
def _get_default_device(original: Callable[[], torch.device]) -> torch.device:
    device: torch.device = to_face(original())
    return device


@faces.wrap(torch, "set_default_tensor_type")
def _set_default_tensor_type(original: Callable[..., None], kind: Any) -> None:
    if "cuda" in str(kind):
        refuse("torch.set_default_tensor_type with a CUDA type")
    original(kind)


# ---- generators

faces.set(torch, "Generator", randomness.Generator)
