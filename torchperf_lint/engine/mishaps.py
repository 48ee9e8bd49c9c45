"""Internal errors: one line for the user, and the traceback on request."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # see __main__
if TYPE_CHECKING:
    from collections.abc import Mapping

TRACEBACK = "TORCHPERF_LINT_TRACEBACK"
"""The environment variable that enables tracebacks."""


def told(errors: Mapping[str, BaseException], others: Mapping[str, str] | None = None) -> str:
    """One line for errors, which are keyed by where they happened; an empty key names no place.

    `others` has the distributions that places belong to which are not ours.
    """
    others = others or {}
    for error in errors.values():
        _show(error)
    if all(isinstance(error, RecursionError) for error in errors.values()):
        return "too deeply nested to check"
    ours = ", ".join(
        f"internal error{f' in {where}' if where else ''}: {_caused(error)}"
        for where, error in errors.items()
        if where not in others
    )
    parts = [f"{ours}; please report this"] if ours else []
    parts += [
        f"error in {where} of {others[where]}: {_caused(error)}; please report this to its authors"
        for where, error in errors.items()
        if where in others
    ]
    return "; ".join(parts)


def one_line(text: str) -> str:
    """The text without line ends, cut to a maximum length."""
    line = " ".join(text.split())
    return line if len(line) <= 200 else line[:197] + "..."


def _caused(error: BaseException) -> str:
    return f"{type(error).__name__}: {one_line(_text(error))}"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "it cannot be printed"


def _show(error: BaseException) -> None:
    if os.environ.get(TRACEBACK):
        import traceback

        traceback.print_exception(type(error), error, error.__traceback__, file=sys.stderr)
