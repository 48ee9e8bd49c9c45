"""The length of lines that the linted project's own files state, in columns: fixes are laid out by it.

The nearest folder above a file that states one decides, up to the project's root, and in it the smallest of those that
`pyproject.toml` (black, ruff, flake8, pycodestyle), `ruff.toml`, `.ruff.toml`, `setup.cfg`, `tox.ini` and `.flake8`
state. A table of black without a length states black's own.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from torchperf_lint.engine.layout import STANDARD_LENGTH
from torchperf_lint.syntax.identity import key_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_LARGEST = 1_000_000
_INI_SECTIONS = ("flake8", "pycodestyle", "pep8")
_KEYS = ("max-line-length", "max_line_length")


class LineLengths:
    """The lengths of lines that projects state; each folder is read once, on demand."""

    def __init__(self) -> None:
        self._known: dict[str, int | None] = {}

    def of(self, path: str) -> int:
        """The length that the project around a file states, or STANDARD_LENGTH."""
        key = key_of(path)
        folder = os.path.dirname(key)
        if folder not in self._known:
            from torchperf_lint.engine.project_root import root_of

            self._look_up(folder, root_of([key]).rstrip("/") + "/")
        return self._known[folder] or STANDARD_LENGTH

    def _look_up(self, folder: str, root: str) -> int | None:
        if folder not in self._known:
            here = min(_stated_in(folder), default=None)
            if here is None and folder.startswith(root):
                here = self._look_up(os.path.dirname(folder), root)
            self._known[folder] = here
        return self._known[folder]


def _stated_in(folder: str) -> Iterator[int]:
    """The lengths that the files of a folder state; an unreadable or malformed file states none."""
    for name, reader in _READERS.items():
        try:
            with open(os.path.join(folder, name), "rb") as file:
                text = file.read(_LARGEST).decode("utf-8-sig", errors="replace")
            if "line" in text or "black" in text:
                yield from (each for each in map(_number, reader(text)) if each > 0)
        except (OSError, ValueError, RecursionError):
            continue


def _number(stated: Any) -> int:
    """The number of columns; 0 for what is none."""
    if isinstance(stated, str):
        words = stated.split()
        stated = int(words[0]) if words and words[0].isdecimal() else 0
    return stated if type(stated) is int else 0


def _pyproject(text: str) -> Iterator[Any]:
    tools = _table(_toml(text), "tool")
    if "black" in tools:
        yield _table(tools, "black").get("line-length", STANDARD_LENGTH)
    yield _table(tools, "ruff").get("line-length")
    for section in _INI_SECTIONS:
        yield from (_table(tools, section).get(key) for key in _KEYS)


def _ruff(text: str) -> Iterator[Any]:
    yield _toml(text).get("line-length")


def _ini(text: str) -> Iterator[Any]:
    import configparser

    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return
    for section in _INI_SECTIONS:
        yield from (parser.get(section, key, fallback=None) for key in _KEYS)


def _toml(text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    document: dict[str, Any] = tomllib.loads(text)
    return document


def _table(table: dict[str, Any], key: str) -> dict[str, Any]:
    inner = table.get(key)
    return inner if isinstance(inner, dict) else {}


_READERS = {
    "pyproject.toml": _pyproject,
    "ruff.toml": _ruff,
    ".ruff.toml": _ruff,
    "setup.cfg": _ini,
    "tox.ini": _ini,
    ".flake8": _ini,
}
