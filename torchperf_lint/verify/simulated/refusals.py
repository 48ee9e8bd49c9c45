"""Explicit errors for everything that the simulated device does not model."""

from __future__ import annotations

from typing import NoReturn


class NotSimulated(RuntimeError):
    """The program needs something that the simulated device does not model; the text says what."""


def refuse(what: str) -> NoReturn:
    """Stop the program, because the simulated device does not model this."""
    raise NotSimulated(f"not simulated: {what}")
