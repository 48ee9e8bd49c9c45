"""How much memory this machine has, and how much source may stay parsed in it."""

from __future__ import annotations

import contextlib
import os

SHARE = 0.5
"""Of the machine's memory, for the trees and results of all processes of a run."""

BYTES_PER_BYTE = 80
"""Memory that a byte of source takes with its tree, its tables and its results; measured on diffusers."""

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Files with the limit of a container: of control groups in their second version, and in their first."""


def memory() -> int:
    """Bytes of memory that this process may have: the machine's, or its container's; 0 if the system does not tell."""
    found: list[int] = []
    with contextlib.suppress(AttributeError, ValueError, OSError):  # not on Windows
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for name in _LIMITS:
        with contextlib.suppress(ValueError, OSError), open(name, encoding="ascii") as file:
            found.append(int(file.read()))
    return max(0, min(found, default=0))


def room_for_trees(processes: int) -> int:
    """Bytes of source that each of so many processes may keep parsed."""
    return int(memory() * SHARE / processes / BYTES_PER_BYTE)
