"""Which rows of the user's files a program ran."""

from __future__ import annotations

import os
import sys
import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from torchperf_lint.verify.events import is_user_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

    Trace = Callable[[FrameType, str, Any], "Trace | None"]


class RowsThatRan:
    """Records the executed 1-based rows by file, also in threads that Python starts.

    A code object whose rows have all run is no longer traced.
    """

    def __init__(self) -> None:
        self._rows: defaultdict[str, set[int]] = defaultdict(set)
        self._left: dict[tuple[str, CodeType], set[int]] = {}

    def watch(self) -> None:
        """Start recording."""
        threading.settrace(self._entered)
        sys.settrace(self._entered)

    def end(self) -> None:
        """Stop recording."""
        sys.settrace(None)
        threading.settrace(None)

    def by_file(self) -> dict[str, list[int]]:
        """The rows that ran, sorted."""
        return {file: sorted(rows) for file, rows in self._rows.items()}

    def _entered(self, frame: FrameType, event: str, argument: Any) -> Trace | None:
        code = frame.f_code
        key = code.co_filename, code  # equal code may be in several files
        left = self._left.get(key)
        if left is None:
            rows = {row for *_, row in code.co_lines() if row} if _is_wanted(code.co_filename) else set()
            left = self._left[key] = rows
        return self._ran if left else None

    def _ran(self, frame: FrameType, event: str, argument: Any) -> Trace | None:
        left = self._left[frame.f_code.co_filename, frame.f_code]
        if event == "line" and frame.f_lineno in left:
            left.discard(frame.f_lineno)
            self._rows[frame.f_code.co_filename].add(frame.f_lineno)
        return self._ran if left else None


def _is_wanted(file: str) -> bool:
    return os.path.isabs(file) and is_user_file(file)
