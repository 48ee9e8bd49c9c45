"""A file's bytes as text: encoding, byte-order mark, line ends, and conversion between spans and positions.

All spans of the linter are byte offsets into `Source.utf8`, the decoded text in UTF-8 without its byte-order
mark; `Source.encode` converts edited text to the file's own encoding.
"""

from __future__ import annotations

import bisect
import codecs
import io
import itertools
import re
from typing import TYPE_CHECKING

from torchperf_lint.syntax.parsing import parse_module
from torchperf_lint.syntax.recursion import has_room, with_room

if TYPE_CHECKING:
    import ast

TOO_DEEP = "too deeply nested to parse"

_LINE_END = re.compile(rb"\r\n|\r|\n")
_TABBED = re.compile(rb"^\t+[^\s#]", re.MULTILINE)


class Unreadable(ValueError):
    """The bytes are not Python that this interpreter can parse. `row` and `column` are 1-based or None."""

    def __init__(self, reason: str, row: int | None = None, column: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.row = row
        self.column = column


class Source:
    """Decoded source of one file."""

    def __init__(self, path: str, data: bytes, encoding: str | None = None) -> None:
        """Decode `data` as Python would (byte-order mark, PEP 263 cookie); raise Unreadable on failure.

        `encoding` is known of a text for which no cookie counts.
        """
        self.path = path
        self.bom = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
        self.encoding = _encoding_of(data) if encoding is None else encoding
        body = data[len(self.bom) :]
        try:
            self.text = body.decode(self.encoding)
            self.utf8 = body if self.encoding == "utf-8" else self.text.encode()
        except UnicodeDecodeError as error:
            raise _undecodable(body, error, self.encoding) from None
        except Exception:  # codecs that are not meant for source raise errors of their own
            raise Unreadable(f"cannot be decoded as {self.encoding}") from None
        self.editable = self.encoding == "utf-8" or _encoded(self.text, self.encoding) == body
        self.line_starts = _line_starts(self.utf8)
        newline = _LINE_END.search(self.utf8)
        self.newline = newline.group().decode() if newline else "\n"

    @property
    def indent(self) -> str:
        """One step of indentation: a tab if rows of the file begin with tabs, else four blanks."""
        return "\t" if _TABBED.search(self.utf8) else "    "

    def parse(self) -> ast.Module:
        """Parse with the running interpreter's grammar; raise Unreadable with the position on failure."""
        try:
            return parse_module(self.text)
        except SyntaxError as error:
            # The parser's own file name and text would repeat what the caller prints.
            place = (error.lineno, error.offset) if error.lineno else self._first_null()
            raise Unreadable(self._newer(error.lineno) or f"syntax error: {error.msg}", *place) from None
        except ValueError as error:
            raise Unreadable(f"syntax error: {error}", *self._first_null()) from None
        except RecursionError:
            if has_room():
                raise Unreadable(TOO_DEEP) from None
            return with_room(self.parse)
        except MemoryError:
            raise Unreadable(TOO_DEEP) from None

    def _newer(self, row: int | None) -> str | None:
        """A remark for the error, if the logical line at fault is valid in a newer Python."""
        if not row or row > len(self.line_starts):
            return None
        from torchperf_lint.syntax.newer import MOST_CHARACTERS, MOST_LINES, newer_syntax

        starts = self.line_starts[max(0, row - MOST_LINES) : row]
        before = [self.utf8[start:end].decode(errors="replace") for start, end in itertools.pairwise(starts)]
        end = starts[-1] + 4 * MOST_CHARACTERS  # in bytes: a character has at most four in UTF-8
        return newer_syntax(before, self.utf8[starts[-1] : end].decode(errors="replace"))

    def _first_null(self) -> tuple[int | None, int | None]:
        """The position of the null byte that the parser rejects without a position."""
        null = self.utf8.find(b"\0")
        return (None, None) if null < 0 else self.position(null)

    def offset(self, lineno: int, col_offset: int) -> int:
        """Byte offset of an `ast` position (1-based line, UTF-8 column)."""
        return self.line_starts[lineno - 1] + col_offset

    def row(self, offset: int) -> int:
        """The 1-based row of a byte offset."""
        return bisect.bisect_right(self.line_starts, offset)

    def position(self, offset: int) -> tuple[int, int]:
        """The 1-based row and 1-based character column of a byte offset."""
        row = self.row(offset)
        start = self.line_starts[row - 1]
        return row, len(self.utf8[start:offset].decode(errors="replace")) + 1

    def line(self, row: int) -> str:
        """The text of a 1-based row without its line end."""
        end = self.line_starts[row] if row < len(self.line_starts) else len(self.utf8)
        return self.utf8[self.line_starts[row - 1] : end].decode(errors="replace").rstrip("\r\n")

    def encode(self, utf8: bytes) -> bytes:
        """Convert edited UTF-8 text to the file's own encoding; raise UnicodeEncodeError if that is impossible."""
        if self.encoding != "utf-8":
            return self.bom + utf8.decode().encode(self.encoding)
        return self.bom + utf8


def _line_starts(utf8: bytes) -> list[int]:
    lines = utf8.splitlines(keepends=True)  # of bytes: splits at Python's line ends only
    starts = [0, *itertools.accumulate(map(len, lines))]
    return starts if not lines or lines[-1].endswith((b"\n", b"\r")) else starts[:-1]


def _encoding_of(data: bytes) -> str:
    if not any(b"coding" in line for line in data.split(b"\n", 2)[:2]):
        return "utf-8"  # most files, and importing the tokenizer takes longer than linting some of them
    import tokenize

    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError as error:
        raise _undecodable_head(data) or Unreadable(str(error.msg)) from None
    return "utf-8" if encoding == "utf-8-sig" else encoding


def _encoded(text: str, encoding: str) -> bytes | None:
    try:
        return text.encode(encoding)
    except Exception:  # as above
        return None


def _undecodable(body: bytes, error: UnicodeDecodeError, encoding: str) -> Unreadable:
    return Unreadable(f"cannot be decoded as {encoding}", body.count(b"\n", 0, error.start) + 1)


def _undecodable_head(data: bytes) -> Unreadable | None:
    """The error of a file whose first lines already prevent the search for an encoding cookie."""
    if re.search(rb"^[ \t\f]*#.*?coding[:=]", data[:400], re.MULTILINE):
        return None  # the cookie names no encoding: Python's own message says so
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return _undecodable(data, error, "utf-8")
    return None
