"""How well an edge of the call graph is shown."""

from __future__ import annotations

import enum


class Grade(enum.IntEnum):
    """What shows that a call reaches a function; a higher grade shows more."""

    BY_NAME = 1
    """Only the name fits."""

    BY_HIERARCHY = 2
    """The receiver's class is unknown, and all methods of that name in the project belong to one class hierarchy.

    Or the method overrides the one that the receiver's class is shown to have.
    """

    PROVEN = 3
    """Imports, definitions or values show it."""
