"""Watched calls: every copy between host and device, every pinning and every explicit wait of the program.

The debug mode reports that a copy waits, but not its direction, and reports no asynchronous copy from
pageable memory, which the driver stages. So the Python functions that copy are wrapped, on the class, which holds for
every thread. A `TorchDispatchMode` would also see the copies that C++ makes, but belongs to one thread and changes what
is measured: under any such mode PyTorch takes other paths (the backward of `prod()` no longer reads its zeros, for
one). A `TorchFunctionMode` sees no more than a wrapper and disables fast paths of modules. Asynchronous copies inside
C++ stay unseen; the profiler counts them, and the report says so.

A copy that waits is one event: the call claims the debug mode's warning.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._device import _device_constructors

from torchperf_lint.verify.counters.patches import Patches
from torchperf_lint.verify.events import DEVICE_WAIT, EVENT_WAIT, STREAM_WAIT, Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_lint.verify.counters.debug_mode import DebugMode
    from torchperf_lint.verify.events import Recorder

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class Copy(NamedTuple):
    """The copy of a watched call; None stands for host memory that belongs to no tensor."""

    source: Tensor | None
    target: Tensor | None
    asynchronous: bool = False


class Calls:
    """Wraps the functions that copy, pin and wait, and records what they do."""

    def __init__(self, recorder: Recorder, debug_mode: DebugMode) -> None:
        self._recorder = recorder
        self._debug_mode = debug_mode
        self._patches = Patches()

    def start(self) -> None:
        """Start watching."""
        _device_constructors()  # this table of functions by identity must be built before they are wrapped
        for name in ("to", "cuda", "cpu", "type"):
            self._watch(Tensor, name, _of_self)
        for name in ("tolist", "numpy"):
            self._watch(Tensor, name, _out_of_self)
        self._watch(Tensor, "copy_", _into_self)
        self._watch(Tensor, "new_tensor", functools.partial(_of_data, place=1))
        for name in ("tensor", "as_tensor", "asarray"):
            self._watch(torch, name, functools.partial(_of_data, place=0))
        self._patches.replace(Tensor, "pin_memory", self._pinning)
        self._patches.replace(torch.cuda, "synchronize", functools.partial(self._waiting, DEVICE_WAIT))
        self._patches.replace(torch.cuda.Event, "synchronize", functools.partial(self._waiting, EVENT_WAIT))
        self._patches.replace(torch.cuda.Stream, "synchronize", functools.partial(self._waiting, STREAM_WAIT))
        accelerator = getattr(torch, "accelerator", None)
        for owner in (torch.cuda, torch.cuda.memory, accelerator, getattr(accelerator, "memory", None)):
            if hasattr(owner, "empty_cache"):
                self._patches.replace(owner, "empty_cache", self._flushing)
        if accelerator is not None:
            self._patches.replace(torch.accelerator, "synchronize", functools.partial(self._waiting, DEVICE_WAIT))

    def stop(self) -> None:
        """Put the functions back."""
        self._patches.undo()

    def _watch(self, owner: Any, name: str, copy_of: Callable[[Arguments, Any], Copy]) -> None:
        self._patches.replace(owner, name, functools.partial(self._copying, name, copy_of))

    def _copying(
        self, operator: str, copy_of: Callable[[Arguments, Any], Copy], original: Callable[..., Any]
    ) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._debug_mode.claimed:  # nested watched calls: the outer one is the copy
                return original(*args, **kwargs)
            with self._debug_mode.claim(operator) as claim:
                result = original(*args, **kwargs)
                copy = copy_of((args, kwargs), result)
                if crossing(copy) is not None:
                    self._record(operator, copy, waits=claim.waits > 0)
                    claim.waits = max(claim.waits - 1, 0)
                return result

        return call

    def _record(self, operator: str, copy: Copy, *, waits: bool) -> None:
        kind = crossing(copy)
        host, device = (copy.source, copy.target) if kind is Kind.TO_DEVICE else (copy.target, copy.source)
        if kind is None or device is None or not _length(device):
            return
        self._recorder.add(
            kind,
            operator,
            waits=waits,
            nbytes=transferred(host, device, copy.asynchronous),
            pinned=host is not None and used_in_place(host, device, copy.asynchronous) and host.is_pinned(),
            asynchronous=copy.asynchronous,
        )

    def _pinning(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
            if self._debug_mode.claimed:
                return original(tensor, *args, **kwargs)
            with self._debug_mode.claim("pin_memory"):
                result = original(tensor, *args, **kwargs)
                if result is not tensor:
                    nbytes = _length(result) * result.element_size()
                    self._recorder.add(Kind.PIN, "pin_memory", waits=False, nbytes=nbytes, pinned=True)
                return result

        return call

    def _waiting(self, operator: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._debug_mode.claimed:
                return original(*args, **kwargs)
            with self._debug_mode.claim(operator) as claim:
                result = original(*args, **kwargs)
                self._recorder.add(Kind.SYNCHRONIZE, operator, waits=True)
                claim.waits = 0  # of the explicit waits, the debug mode reports that for a stream
                return result

        return call

    def _flushing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Handing memory back waits for the whole device, which the debug mode does not report."""

        def call() -> None:
            before = torch.cuda.memory_reserved()
            original()
            if torch.cuda.memory_reserved() < before:
                self._recorder.add(Kind.SYNCHRONIZE, "torch.cuda.empty_cache", waits=True)

        return call


# ---- the copy of a call


def crossing(copy: Copy) -> Kind | None:
    """The direction of a copy between host and device, or None."""
    source, target = _on_device(copy.source), _on_device(copy.target)
    if source == target:
        return None
    return Kind.TO_DEVICE if target else Kind.TO_HOST


def used_in_place(host: Tensor, device: Tensor, asynchronous: bool) -> bool:
    """Whether a copy uses the host's memory itself, not a pageable temporary that PyTorch makes first.

    A blocking copy changes the dtype on the host, an asynchronous one on the device.
    """
    if host.layout is not torch.strided or host.shape != device.shape:
        return False
    if host.dtype != device.dtype and not asynchronous:
        return False
    same_layout = host.dtype == device.dtype and host.stride() == device.stride()
    return host.is_contiguous() or (same_layout and dense(host))


def dense(tensor: Tensor) -> bool:
    """Whether a tensor's elements fill their memory, in any order of the dimensions."""
    expected = 1
    for stride, size in sorted(
        (stride, size) for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size != 1
    ):
        if stride != expected:
            return False
        expected *= size
    return True


def transferred(host: Tensor | None, device: Tensor, asynchronous: bool) -> int:
    """The bytes transferred between host and device; the dtype changes before or after, see above."""
    typed = host if host is not None and asynchronous else device
    return _length(device) * typed.element_size()


def _length(tensor: Tensor) -> int:
    """The number of elements, also while `torch.jit` traces the program: there, `numel()` gives a traced tensor."""
    return tensor.nbytes // tensor.element_size() if tensor.layout is torch.strided else tensor.numel()


def _on_device(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.device.type == "cuda"


def _of_self(arguments: Arguments, result: Any) -> Copy:
    source = arguments[0][0] if isinstance(result, Tensor) else None  # `x.type()` is a text
    return Copy(source, _tensor(result), _asynchronous(arguments))


def _out_of_self(arguments: Arguments, result: Any) -> Copy:
    return Copy(arguments[0][0], None)


def _into_self(arguments: Arguments, result: Any) -> Copy:
    args, kwargs = arguments
    return Copy(
        _tensor(args[1] if len(args) > 1 else kwargs.get("src", kwargs.get("other"))), result, _asynchronous(arguments)
    )


def _of_data(arguments: Arguments, result: Any, place: int) -> Copy:
    args, kwargs = arguments
    return Copy(_tensor(args[place] if len(args) > place else kwargs.get("data", kwargs.get("obj"))), _tensor(result))


def _asynchronous(arguments: Arguments) -> bool:
    """Whether `non_blocking` was passed: by name, or as the first bool after the tensor in every signature."""
    args, kwargs = arguments
    positional = next((each for each in args[1:] if isinstance(each, bool)), False)
    return bool(kwargs.get("non_blocking", positional))


def _tensor(value: Any) -> Tensor | None:
    return value if isinstance(value, Tensor) else None
