"""What IPython strips from the heads of a cell's rows, an indentation and prompts, and rows that get it back."""

from __future__ import annotations

import operator
import re
from typing import NamedTuple

_ROW = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_INDENT = re.compile(r"[ \t]*")
_END = r"(?: |(?=[\r\n])|\Z)"
_PROMPTS = (
    (re.compile(rf">>>{_END}"), re.compile(rf"(?:>>>|\.\.\.){_END}")),
    (re.compile(r"In \[\d+\]: "), re.compile(r"In \[\d+\]: |\s*\.{3,}: ?")),
)
"""The prompt that the first row has to begin with, and those that any row may begin with."""


class Stripped(NamedTuple):
    """A cell's text as Python reads it, and the heads that its rows have in the cell."""

    text: str
    heads: tuple[str, ...]

    def below(self, row: int) -> Stripped:
        """The text whose rows from this one on, counted from 0, are stripped as a cell of their own."""
        rows = rows_of(self.text)
        rest = stripped("".join(rows[row:]))
        heads = (*self.heads[:row], *map(operator.add, self.heads[row:], rest.heads))
        return Stripped("".join(rows[:row]) + rest.text, heads)

    def head(self, row: int) -> str:
        """The head of a row, counted from 1; beyond the last one, that of most new rows."""
        return self.heads[row - 1] if row <= len(self.heads) else self._usual

    def put_back(self, text: str) -> str:
        """An edited text with heads: rows that stay keep theirs, new rows have those of their neighbours."""
        if not self._usual:
            return text
        from difflib import SequenceMatcher

        old, new = rows_of(self.text), rows_of(text)
        whole: list[str] = []
        for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            for place in range(c, d):
                at = min(a + place - c, b - 1)
                head = self._usual if tag == "insert" else self.heads[at]
                whole.append(head + new[place])
        return "".join(whole)

    @property
    def _usual(self) -> str:
        return next(filter(None, reversed(self.heads)), "")


def rows_of(text: str) -> list[str]:
    """The rows, with their ends."""
    return _ROW.findall(text)


def stripped(source: str) -> Stripped:
    """The source of a cell without the indentation and then the prompt of its first row, where a row has them."""
    rows = rows_of(source)
    heads = [""] * len(rows)
    first = next((place for place, row in enumerate(rows) if row.strip()), None)
    if first is None:
        return Stripped(source, tuple(heads))

    def strip(head: re.Pattern[str]) -> None:
        for place in range(first, len(rows)):
            found = head.match(rows[place])
            if found is not None:
                heads[place] += found.group()
                rows[place] = rows[place][found.end() :]

    indent = _INDENT.match(rows[first])
    if indent is not None and indent.group():
        strip(re.compile(re.escape(indent.group())))
    for opens, prompt in _PROMPTS:
        if opens.match(rows[first]):
            strip(prompt)
    return Stripped("".join(rows), tuple(heads))
