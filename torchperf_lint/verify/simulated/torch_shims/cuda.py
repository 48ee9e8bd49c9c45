"""The shim of `torch.cuda`: one device that is never busy; functions that are not modelled refuse to be called."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import torch
from torch import cuda

from torchperf_lint.verify.events import DEVICE_WAIT, Kind
from torchperf_lint.verify.simulated import journal, memory, processes, randomness
from torchperf_lint.verify.simulated.names import FACE, index_of, on_device
from torchperf_lint.verify.simulated.torch_shims.patching import Faces

if TYPE_CHECKING:
    from collections.abc import Callable

faces = Faces()

NAME = "simulated CUDA device"
CAPABILITY = (9, 0)
TOTAL_MEMORY = 80 << 30

PROPERTIES = types.SimpleNamespace(
    name=NAME,
    major=CAPABILITY[0],
    minor=CAPABILITY[1],
    total_memory=TOTAL_MEMORY,
    multi_processor_count=132,
    warp_size=32,
    is_integrated=0,
    is_multi_gpu_board=0,
)

# Unchanged functions: they use shims, or need no device.
_AS_THEY_ARE = """
    CudaError DeferredCudaCallError cudaStatus check_error device device_of has_half has_magma get_device_name
    get_arch_list get_gencode_flags
    """.split()

# Replaced in the module `streams`.
_STREAMS = "Event Stream ExternalStream StreamContext current_stream default_stream set_stream stream".split()

_TENSOR_TYPES = {
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "LongTensor": torch.int64,
    "IntTensor": torch.int32,
    "ShortTensor": torch.int16,
    "CharTensor": torch.int8,
    "ByteTensor": torch.uint8,
    "BoolTensor": torch.bool,
}


def _answer(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The decorated function replaces these functions of `torch.cuda`."""
    _answered.update(names)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for owner in (cuda, cuda.memory, cuda.random):
            faces.replace(owner, *(name for name in names if owner is cuda or hasattr(owner, name)))(function)
        return function

    return decorate


_answered: set[str] = {"default_generators"}


# ---- the device itself


@_answer("init", "_lazy_init")
def _init() -> None:
    processes.use()


@_answer("is_available")
def _is_available() -> bool:
    return True


@_answer("is_initialized")
def _is_initialized() -> bool:
    return processes.used()


@_answer("_is_in_bad_fork")
def _is_in_bad_fork() -> bool:
    return processes.lost()


@_answer("device_count")
def _device_count() -> int:
    return 1


@_answer("current_device")
def _current_device() -> int:
    processes.use()
    return 0


@_answer("set_device", "_exchange_device", "_maybe_exchange_device")
def _set_device(device: Any) -> int:
    return index_of(device)


@_answer("get_device_properties")
def _get_device_properties(device: Any = None) -> types.SimpleNamespace:
    index_of(device)
    return PROPERTIES


@_answer("get_device_capability")
def _get_device_capability(device: Any = None) -> tuple[int, int]:
    index_of(device)
    return CAPABILITY


@_answer("is_bf16_supported")
def _is_bf16_supported(including_emulation: bool = True) -> bool:
    return True


@_answer("is_tf32_supported")
def _is_tf32_supported() -> bool:
    return True


@faces.replace(torch, "_use_cudnn_rnn_flatten_weight")
def _use_cudnn_rnn_flatten_weight() -> bool:
    """Recurrent layers do not flatten their weights, even in a build with cuDNN."""
    return False


@_answer("is_current_stream_capturing")
def _is_current_stream_capturing() -> bool:
    return False


# ---- waiting


@_answer("synchronize")
def _synchronize(device: Any = None) -> None:
    index_of(device)
    processes.use()
    journal.note(Kind.SYNCHRONIZE, DEVICE_WAIT, waits=True)


@_answer("set_sync_debug_mode")
def _set_sync_debug_mode(debug_mode: int | str) -> None:
    processes.use()
    journal.set_debug_mode(debug_mode)


@_answer("get_sync_debug_mode")
def _get_sync_debug_mode() -> int:
    return journal.debug_mode()


# ---- memory, in bytes of host memory


@_answer("memory_allocated", "memory_reserved", "memory_cached")
def _memory_allocated(device: Any = None) -> int:
    index_of(device)
    return memory.allocated()


@_answer("max_memory_allocated", "max_memory_reserved", "max_memory_cached")
def _max_memory_allocated(device: Any = None) -> int:
    index_of(device)
    return memory.peak()


@_answer("reset_peak_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached")
def _reset_peak_memory_stats(device: Any = None) -> None:
    index_of(device)
    memory.reset_peak()


@_answer("memory_stats")
def _memory_stats(device: Any = None) -> dict[str, int]:
    index_of(device)
    current, peak = memory.allocated(), memory.peak()
    sizes = {
        f"{kind}_bytes.all.{which}": value
        for kind in ("allocated", "requested", "reserved", "active")
        for which, value in (("current", current), ("peak", peak))
    }
    return {**sizes, "num_alloc_retries": 0, "num_ooms": 0}  # memory never runs short


@_answer("memory_summary")
def _memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    return f"simulated device: {memory.allocated()} bytes of host memory in use, at most {memory.peak()} seen"


@_answer("mem_get_info")
def _mem_get_info(device: Any = None) -> tuple[int, int]:
    index_of(device)
    return TOTAL_MEMORY - memory.allocated(), TOTAL_MEMORY


@_answer("empty_cache")
def _empty_cache() -> None:
    """Freeing cached memory waits for the whole device; without free segments it does nothing."""
    if memory.give_back():
        journal.note(Kind.SYNCHRONIZE, "torch.cuda.empty_cache", waits=True)


@_answer("ipc_collect", "reset_accumulated_memory_stats", "set_per_process_memory_fraction")
def _no_account(*arguments: Any) -> None:
    """A no-op: no memory is shared between processes, and no statistics are recorded."""


# ---- random numbers


@_answer("manual_seed_all")
def _manual_seed_all(seed: int) -> None:
    randomness.default_generator.manual_seed(seed)


@_answer("initial_seed")
def _initial_seed() -> int:
    return randomness.default_generator.initial_seed()


@_answer("manual_seed")
def _manual_seed(seed: int) -> None:
    _manual_seed_all(seed)


@_answer("seed", "seed_all")
def _seed() -> None:
    randomness.default_generator.seed()


@_answer("get_rng_state")
def _get_rng_state(device: Any = "cuda") -> torch.Tensor:
    index_of(device)
    return randomness.default_generator.get_state()


@_answer("set_rng_state")
def _set_rng_state(new_state: torch.Tensor, device: Any = "cuda") -> None:
    index_of(device)
    randomness.default_generator.set_state(new_state.cpu())


@_answer("get_rng_state_all")
def _get_rng_state_all() -> list[torch.Tensor]:
    return [_get_rng_state()]


@_answer("set_rng_state_all")
def _set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    for index, state in enumerate(new_states):
        _set_rng_state(state, index)


faces.set(cuda, "default_generators", (randomness.default_generator,))


# ---- types such as torch.cuda.FloatTensor


class _TensorType(type):
    dtype: torch.dtype

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, torch.Tensor) and on_device(instance) and instance.dtype == cls.dtype

    def __call__(cls, *arguments: Any) -> torch.Tensor:
        if not arguments or all(isinstance(each, int) for each in arguments):
            return torch.empty(arguments, dtype=cls.dtype, device=FACE)
        return torch.tensor(arguments[0], dtype=cls.dtype, device=FACE)


for _name, _dtype in _TENSOR_TYPES.items():
    _answered.add(_name)
    faces.set(cuda, _name, _TensorType(_name, (), {"dtype": _dtype, "__module__": "torch.cuda"}))


# ---- the rest refuses

_FUNCTIONS = {name for name in cuda.__all__ if not isinstance(getattr(cuda, name, None), types.ModuleType)}

faces.refuse(cuda, sorted(_FUNCTIONS - _answered - set(_AS_THEY_ARE) - set(_STREAMS)), "torch.cuda.")
