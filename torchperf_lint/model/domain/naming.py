"""Interfaces of what knows the names that a file gets from outside of a function, or from other files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.model.domain.frames import Frame
    from torchperf_lint.model.domain.values import Value


class LateImports(Protocol):
    """Imports of one file that lead into other files (`analyzed_file.py`)."""

    def get(self, name: str) -> str | None:
        """The dotted name that a top-level name imports, if a single import binds it."""

    def __contains__(self, name: str) -> bool:
        """Whether the name is such an import."""

    def __iter__(self) -> Iterator[str]:
        """All such names."""


class NameQuestions(Protocol):
    """The meanings of names that a function does not bind itself (`values/names.py`)."""

    @property
    def late_imports(self) -> LateImports:
        """The module's imports from the project that are resolved when their name is read."""

    def imported(self, ref: str) -> Value:
        """The value of a dotted name that the file imports."""

    def free(self, frame: Frame, name: str) -> Value | None:
        """The value of a name that the frame's function does not bind."""

    def late(self, name: str) -> Value | None:
        """The value of a name that a late import binds; None if none does."""

    def at_top(self, name: str) -> Value:
        """The value of the name at the end of the module."""

    def all_at_top(self) -> list[Value]:
        """The values of all names at the end of the module."""
