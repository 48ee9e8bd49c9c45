"""Python frames as written in traces: `train.py(12): step`, `<built-in method item of Tensor object at 0x1>`."""

from __future__ import annotations

import sys
from typing import NamedTuple

BUILT_IN = "<built-in "
MODULE = "nn.Module: "
_LIBRARIES = ("/site-packages/", "/dist-packages/")
_TORCH = "torch/"
_NO_FILES = ("<stdin>", "<string>")


class Frame(NamedTuple):
    """A call of a Python function: its file as in the trace, with slashes, a 1-based row, and the function's name.

    In exports with a `Call stack` and without frames of their own, the row is the one that ran. Otherwise it is the
    function's first row or, for a function that was already running, its row when the profile began.
    """

    path: str
    row: int
    function: str

    @property
    def is_torch(self) -> bool:
        """Whether it is a frame of torch."""
        return self.path.startswith(_TORCH) or f"-packages/{_TORCH}" in self.path

    @property
    def is_installed(self) -> bool:
        """Whether the path is in a folder of installed libraries; traces often omit that part."""
        return self.is_torch or any(folder in self.path for folder in _LIBRARIES)

    @property
    def is_python(self) -> bool:
        """Whether it is a frame of the standard library, or has no file."""
        if self.path.startswith("<"):
            return self.path not in _NO_FILES
        first, _, rest = self.path.partition("/")
        if (first if rest else first.removesuffix(".py")) in sys.stdlib_module_names:
            return True
        return "/lib/python3" in self.path and not any(folder in self.path for folder in _LIBRARIES)


def plain_frame(name: str) -> str:
    """A frame's name without object-specific parts such as addresses."""
    return f"{BUILT_IN}{name.split(' ')[2].rstrip('>')}>" if _names_built_in(name) else name


def _names_built_in(name: str) -> bool:
    return name.startswith(BUILT_IN) and name.count(" ") >= 2


def built_in(name: str) -> str | None:
    """The built-in function of a plain frame; None for any other frame."""
    return name[len(BUILT_IN) : -1] if name.startswith(BUILT_IN) else None


def parse(name: str) -> Frame | None:
    """Parse a frame's name; None for a built-in function and for a call of a module."""
    place, _, function = name.rpartition("): ")
    path, _, row = place.rpartition("(")
    if not path or not (row.isascii() and row.isdecimal()) or len(row) > 9 or name.startswith((BUILT_IN, MODULE)):
        return None
    return Frame(path.replace("\\", "/"), int(row), function)


def is_of_tracer(stack: str) -> bool:
    """Whether a `Call stack` was made by the frame tracer: then its rows are first rows of functions."""
    return BUILT_IN in stack or MODULE in stack


def parse_stack(stack: str) -> list[str]:
    """The names of the frames of a `Call stack`, innermost first."""
    return [plain_frame(name) for name in stack.split(";") if name]
