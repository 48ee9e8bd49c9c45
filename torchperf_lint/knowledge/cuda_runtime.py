"""How profiles name the calls into the CUDA runtime and driver, or into HIP, and which of them wait for the device."""

from __future__ import annotations

import re

STREAM_SYNCHRONIZE, EVENT_SYNCHRONIZE = "cudaStreamSynchronize", "cudaEventSynchronize"
DEVICE_SYNCHRONIZE = "cudaDeviceSynchronize"

CALL = re.compile(r"(?P<name>(cu(da)?|hip)[A-Z]\w*?)(_v\d+|_ptsz|_ptds)*")
"""A call; CUDA's own suffixes are ignored."""

MEMORY = re.compile(r"Mem(cpy|set) .*")
"""Work of the device without a kernel."""

COPY = re.compile(r"Memcpy (?P<way>\w+) \((?P<source>\w+) -> (?P<target>\w+)\)")
"""A copy on the device, with the kinds of memory on both sides."""

_SAME = {
    "cuStreamSynchronize": STREAM_SYNCHRONIZE,
    "cuEventSynchronize": EVENT_SYNCHRONIZE,
    "cuCtxSynchronize": DEVICE_SYNCHRONIZE,
}
"""The driver's names for the same waits, for code that bypasses the runtime."""

DEVICE_WIDE = frozenset({DEVICE_SYNCHRONIZE, "hipDeviceSynchronize"})

SYNCHRONOUS = DEVICE_WIDE | {
    *(STREAM_SYNCHRONIZE, EVENT_SYNCHRONIZE, "cudaMemcpy"),
    *("hipStreamSynchronize", "hipEventSynchronize", "hipMemcpy", "hipMemcpyWithStream"),
}
"""Calls that return when the device has completed the work."""

COPIES = frozenset({"cudaMemcpyAsync", "hipMemcpyAsync"})
"""Calls that may return earlier, depending on the kind of memory."""


def plain_name(name: str) -> str:
    """The canonical name of a call, without suffixes, for the runtime and the driver alike."""
    call = CALL.fullmatch(name)
    return _SAME.get(call["name"], call["name"]) if call else name
