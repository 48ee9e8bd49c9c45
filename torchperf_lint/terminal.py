"""What a stream can show: colours, and lines of which width."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from typing import TextIO


def colours_on(stream: TextIO, options: argparse.Namespace) -> bool:
    """Whether to print colours: decided by the options, then NO_COLOR and FORCE_COLOR, then the stream."""
    if options.color != "auto":
        always: bool = options.color == "always"
        return always
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def width_of(stream: TextIO) -> int | None:
    """The columns of a terminal; None where the stream is none."""
    if not stream.isatty():
        return None
    from shutil import get_terminal_size

    return get_terminal_size().columns
