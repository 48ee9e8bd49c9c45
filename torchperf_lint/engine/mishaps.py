"""Internal errors: one line for the user, and the traceback on request."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # see __main__
if TYPE_CHECKING:
    from collections.abc import Mapping

TRACEBACK = "TORCHPERF_LINT_TRACEBACK"
"""The environment variable that enables tracebacks."""


def told(errors: Mapping[str, BaseException]) -> str:
    """One line for errors, which are keyed by where they happened; an empty key names no place."""
    for error in errors.values():
        _show(error)
    if all(isinstance(error, RecursionError) for error in errors.values()):
        return "too deeply nested to check"
    causes = ", ".join(
        f"internal error{f' in {where}' if where else ''}: {type(error).__name__}: {one_line(_text(error))}"
        for where, error in errors.items()
    )
    return f"{causes}; please report this"


def one_line(text: str) -> str:
    """The text without line ends, cut to a maximum length."""
    line = " ".join(text.split())
    return line if len(line) <= 200 else line[:197] + "..."


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "it cannot be printed"


def _show(error: BaseException) -> None:
    if os.environ.get(TRACEBACK):
        import traceback

        traceback.print_exception(type(error), error, error.__traceback__, file=sys.stderr)
