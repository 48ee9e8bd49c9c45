"""Streams the events of a Chrome trace: only a window of the file is held, whatever its size."""

from __future__ import annotations

import codecs
import gzip
import json
import re
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader
    from typing import BinaryIO

WINDOW = 1 << 20
"""Bytes per read."""

LARGEST = 1 << 26
"""Characters of the largest accepted value beside or in the event list; a typical event has some hundred."""

_GZIP = b"\x1f\x8b"
_BLANKS = re.compile(r"[ \t\r\n]*")
_EVENTS = "traceEvents"
_OF_NUMBERS = frozenset({"", ".", "e", "E"})
"""What may follow the start of a number, apart from the window's end."""
_WORDS = ("true", "false", "null", "NaN", "-Infinity", "Infinity", ".0", "e-0", "e+0", "E-0", "E+0", "\\uffff")
"""Tokens that the window may cut in two; the decoder fails at their start."""


class BadTrace(Exception):
    """The input is not a complete trace; the text says why, in one line."""


def events(file: BufferedReader) -> Iterator[dict[str, Any]]:
    """The events of a trace, in file order; raise BadTrace where it cannot be read to its end.

    The file is JSON, optionally compressed by gzip: an object with the list `traceEvents`, or only that list.
    """
    plain: BinaryIO = file
    if file.peek(2)[:2] == _GZIP:
        plain = gzip.GzipFile(fileobj=file)  # type: ignore[assignment] # it reads like any binary file
    try:
        yield from _events(_Window(plain))
    except EOFError:
        raise BadTrace("it is cut off: the compressed data has no end") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise BadTrace(f"the compressed data is damaged: {error}") from None


def _events(window: _Window) -> Iterator[dict[str, Any]]:
    opening = window.character()
    if not opening:
        raise BadTrace("it is empty")
    if opening == "[":
        yield from _items(window)
    elif opening == "{":
        yield from _events_of_object(window)
    else:
        raise BadTrace("it is no JSON")


def _events_of_object(window: _Window) -> Iterator[dict[str, Any]]:
    found = False
    for first in window.members("}"):
        if first != '"':
            raise window.broken()
        key = window.value()
        if window.character() != ":":
            raise window.broken()
        window.skip()
        if key == _EVENTS and window.character() == "[":
            found = True
            yield from _items(window)
        else:
            window.value()
    if not found:
        raise BadTrace(f"it is no trace: there is no list `{_EVENTS}` in it")


def _begins(rest: str, whole: str) -> bool:
    if whole.startswith("\\u"):
        return rest.startswith(whole[: min(len(rest), 2)]) and len(rest) < len(whole)
    return whole.startswith(rest) and rest != whole


def _items(window: _Window) -> Iterator[dict[str, Any]]:
    for _ in window.members("]"):
        item = window.value()
        if not isinstance(item, dict):
            raise BadTrace("it is no trace: not all of its events are objects")
        yield item


class _Window:
    """The current window of the text."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self._decode = json.JSONDecoder(strict=False).raw_decode
        self._text = ""
        self._place = 0
        self._passed = 0
        self._at_end = False

    def character(self) -> str:
        """The next non-blank character; empty at the end."""
        while True:
            blanks = _BLANKS.match(self._text, self._place)
            self._place = blanks.end() if blanks else self._place
            if self._place < len(self._text) or not self._more(WINDOW):
                return self._text[self._place : self._place + 1]

    def skip(self) -> None:
        """Skip the next character."""
        self._place += 1

    def members(self, closing: str) -> Iterator[str]:
        """Stop before each member of a list or an object, whose opening comes next; yield its first character."""
        self.skip()
        while (first := self.character()) != closing:
            if not first:
                raise self.broken()
            yield first
            if self.character() == ",":
                self.skip()
            elif self.character() != closing:
                raise self.broken()
        self.skip()

    def broken(self) -> BadTrace:
        """The error for an unexpected character or an unexpected end."""
        if not self.character():
            return self._cut_off()
        return BadTrace(f"it is no valid JSON at character {self._passed + self._place}")

    def value(self) -> Any:
        """Parse the next value."""
        self.character()
        while True:
            try:
                value, end = self._decode(self._text, self._place)
            except RecursionError:
                raise BadTrace("it is too deeply nested") from None
            except json.JSONDecodeError as error:
                if self._at_end:
                    raise self._broken_at(error) from None
            except ValueError as error:  # a number with thousands of digits
                raise BadTrace(f"it is no trace: {error}") from None
            else:
                if self._at_end or self._text[end : end + 1] not in _OF_NUMBERS:
                    self._place = end
                    return value
            if len(self._text) - self._place > LARGEST:
                raise BadTrace(f"it is broken, or an event in it is longer than {LARGEST} characters")
            self._more(max(WINDOW, len(self._text) - self._place))

    def _broken_at(self, error: json.JSONDecodeError) -> BadTrace:
        rest = self._text[error.pos :].strip()
        begun = not rest or error.msg.startswith("Unterminated string") or any(_begins(rest, each) for each in _WORDS)
        if begun:
            return self._cut_off()
        return BadTrace(f"it is no valid JSON at character {self._passed + error.pos}: {error.msg}")

    def _cut_off(self) -> BadTrace:
        """The error for a truncated text."""
        return BadTrace(f"it is cut off after {self._passed + len(self._text)} characters")

    def _more(self, size: int) -> bool:
        """Read more text; returns whether there was any."""
        if self._at_end:
            return False
        data = self._file.read(size)
        self._at_end = not data
        self._passed += self._place
        self._text = self._text[self._place :] + self._decoder.decode(data, self._at_end)
        self._place = 0
        return not self._at_end
