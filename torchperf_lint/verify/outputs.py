"""Records the kinds of values passed to `print` and to loggers, which the text does not show."""

from __future__ import annotations

import builtins
import functools
import logging
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_ITEMS = 16
"""Items of a container that are recorded."""


class Outputs:
    """Records what arrives at `print` and at handlers of `logging`, by sink, in order.

    A value that a library converts first is recorded as converted, which is the kind that a reader gets.
    """

    def __init__(self) -> None:
        self.handed: dict[str, list[list[str]]] = {}

    def watch(self) -> None:
        """Start recording."""
        show, handle, note = builtins.print, logging.Logger.handle, self._note

        @functools.wraps(show)
        def printing(*values: Any, **options: Any) -> None:
            note("print", values)
            show(*values, **options)

        @functools.wraps(handle)
        def handling(logger: logging.Logger, record: logging.LogRecord) -> None:
            arguments = record.args.items() if isinstance(record.args, dict) else record.args or ()
            note(f"the logger {logger.name}", (record.msg, *arguments))
            handle(logger, record)

        builtins.print = printing
        logging.Logger.handle = handling  # type: ignore[method-assign, assignment]

    def _note(self, sink: str, values: tuple[Any, ...]) -> None:
        self.handed.setdefault(sink, []).append([kind_of(value) for value in values])


def kind_of(value: Any) -> str:
    """The type of a value; for arrays and tensors also dtype, shape and device, for containers their items."""
    torch, kind = sys.modules.get("torch"), type(value).__name__
    if torch is not None and isinstance(value, torch.Tensor):
        graph = " with a gradient" if value.requires_grad else ""
        return f"{kind} of {value.dtype} {list(value.shape)} on {value.device.type}{graph}"
    if type(value).__module__ == "numpy" and hasattr(value, "dtype"):
        return f"numpy {kind} of {value.dtype} {list(value.shape)}"
    if isinstance(value, dict):
        held = [f"{kind_of(key)}: {kind_of(each)}" for key, each in list(value.items())[:_MOST_ITEMS]]
    elif isinstance(value, (list, tuple)):
        held = [kind_of(each) for each in value[:_MOST_ITEMS]]
    else:
        return kind
    return f"{kind} of {len(value)} ({', '.join(held)})"


def differences(before: dict[str, list[list[str]]], after: dict[str, list[list[str]]]) -> Iterator[str]:
    """Where the records of two runs differ, one line for each sink."""
    for sink in sorted(before.keys() | after.keys()):
        old, new = before.get(sink, []), after.get(sink, [])
        for place, (was, now) in enumerate(zip(old, new, strict=False), 1):
            if was != now:
                yield f"call {place} of {sink} is given {', '.join(now)}, {', '.join(was)} before"
                break
        else:
            if len(old) != len(new):
                yield f"{sink} is called {len(new)} times, {len(old)} before"
