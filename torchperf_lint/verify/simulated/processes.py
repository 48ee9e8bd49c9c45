"""Tracks which processes may use the device: as with CUDA, a fork of a process that used it may not."""

from __future__ import annotations

import os

import torch

_FORKED = (
    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' "
    "start method"
)

_used = False
_lost = False


def use() -> None:
    """Mark the device as used; raise CUDA's error if this process was forked from one that used it."""
    if not _used or _lost:
        _begin()


def _begin() -> None:
    global _used
    if _lost:
        raise RuntimeError(_FORKED)
    _used = True
    torch.cuda._initialized = True


def used() -> bool:
    """Whether this process has used the device."""
    return _used and not _lost


def lost() -> bool:
    """Whether this process was forked from one that had used the device."""
    return _lost


def watch_forks() -> None:
    """Make forked processes inherit whether the device was used."""
    os.register_at_fork(after_in_child=_forked)


def _forked() -> None:
    global _lost
    _lost = _used
