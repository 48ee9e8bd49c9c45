"""The code cells of a notebook's JSON, where the source of each lies in the text, and new sources written there."""

from __future__ import annotations

import itertools
import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CHARACTER = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL
)
"""A character of a string as the JSON text spells it."""

OLDEST = 4
"""The first format of notebooks whose cells lie at the top."""

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


class BadNotebook(ValueError):
    """The text is no notebook that can be read, or none with Python; the message is one line."""


class OtherLanguage(BadNotebook):
    """A notebook whose cells are in another language."""


class Literal(NamedTuple):
    """A string of the JSON text: its span, quotes included, and its value."""

    start: int
    end: int
    value: str


class Cell(NamedTuple):
    """A code cell: its number among all cells, from 1, and its source as one text.

    `literals` are the strings that the source consists of, and `is_list` says whether they stand in a list.
    """

    number: int
    source: str
    literals: tuple[Literal, ...]
    is_list: bool


def decoded(data: bytes) -> str:
    """The text of a notebook; raise BadNotebook where it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadNotebook(f"it cannot be decoded as utf-8 in line {data.count(10, 0, error.start) + 1}") from None


def code_cells(text: str) -> list[Cell]:
    """The code cells in their order; raise BadNotebook."""
    try:
        document = json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        raise BadNotebook(f"its JSON is broken: {error.msg} in line {error.lineno}, column {error.colno}") from None
    except (RecursionError, ValueError):
        raise BadNotebook("its JSON cannot be read") from None
    if not isinstance(document, dict):
        raise BadNotebook("it is no notebook: its JSON is not an object")
    form = document.get("nbformat", OLDEST)
    if isinstance(form, int) and form < OLDEST:
        raise BadNotebook(f"a notebook of format {form}; formats from {OLDEST} on are read")
    if not isinstance(document.get("cells"), list):
        raise BadNotebook("it is no notebook: it has no list of cells")
    language = _language(document.get("metadata"))
    if language is not None and not re.match(r"(?i)i?python", language):
        raise OtherLanguage(f"a notebook for {language}, not for Python")
    return list(_cells(text))


def with_sources(text: str, cells: Sequence[Cell], sources: Sequence[str]) -> str:
    """The notebook's text with new sources of these cells; every other character stays as it is."""
    escapes = text.removeprefix("\ufeff").isascii() and re.search(r"\\u[0-9a-fA-F]{4}", text) is not None
    pieces, done = [], 0
    for cell, source in zip(cells, sources, strict=True):
        if source == cell.source:
            continue
        pieces += [text[done : cell.literals[0].start], _written(text, cell, source, escapes)]
        done = cell.literals[-1].end
    return "".join([*pieces, text[done:]])


def _written(text: str, cell: Cell, source: str, escapes: bool) -> str:
    """The new strings of a cell; characters that have not changed keep their spelling."""
    if not cell.is_list:
        return _respelt(text, cell.literals[0], source, escapes)
    from difflib import SequenceMatcher

    old = [each.value for each in cell.literals]
    new = _LINE.findall(source) or [""]
    gaps = [text[one.end : other.start] for one, other in zip(cell.literals, cell.literals[1:], strict=False)]
    before = re.search(r"\[([ \t\r\n]*)\Z", text[max(0, cell.literals[0].start - 200) : cell.literals[0].start])
    usual = gaps[0] if gaps else f",{before.group(1) if before else ''}"
    pieces: list[str] = []
    for _, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if b - a == d - c:
            for place, line in enumerate(new[c:d], a):
                gap = gaps[place - 1] if place else usual
                pieces += [gap if pieces else "", _respelt(text, cell.literals[place], line, escapes)]
        else:
            for line in new[c:d]:
                pieces += [usual if pieces else "", json.dumps(line, ensure_ascii=escapes)]
    return "".join(pieces)


def _respelt(text: str, literal: Literal, value: str, escapes: bool) -> str:
    """A string of the text with a new value; characters that stay are spelt as they were."""
    if value == literal.value:
        return text[literal.start : literal.end]
    spelt = _CHARACTER.findall(text, literal.start + 1, literal.end - 1)
    pieces: list[str] = []
    place = 0
    for before, after in _parts(literal.value, value):
        end = place + len(before)
        pieces += spelt[place:end] if before == after else [json.dumps(after, ensure_ascii=escapes)[1:-1]]
        place = end
    return f'"{"".join(pieces)}"'


def _parts(before: str, after: str) -> Iterator[tuple[str, str]]:
    """Two texts in parts, in their order: what is equal in both, and what stands in its place in the other."""
    from difflib import SequenceMatcher

    old, new = _LINE.findall(before), _LINE.findall(after)
    for _, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        pairs = zip(old[a:b], new[c:d], strict=True) if b - a == d - c else [("".join(old[a:b]), "".join(new[c:d]))]
        for one, other in pairs:
            head = _common_head(one, other)
            one, other = one.removeprefix(head), other.removeprefix(head)
            tail = _common_head(one[::-1], other[::-1])[::-1]
            yield head, head
            yield one.removesuffix(tail), other.removesuffix(tail)
            yield tail, tail


def _common_head(one: str, other: str) -> str:
    pairs = zip(one, other, strict=False)
    return "".join(a for a, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _language(metadata: Any) -> str | None:
    """The language that a notebook names; None where it names none."""
    for holder, name in (("language_info", "name"), ("kernelspec", "language")):
        inside = metadata.get(holder) if isinstance(metadata, dict) else None
        if isinstance(inside, dict) and isinstance(inside.get(name), str) and inside[name]:
            return str(inside[name])
    return None


# -- places in the text, which is known to be JSON ---------------------------------------------------------------------


def _cells(text: str) -> Iterator[Cell]:
    start = _blank(text, 1 if text.startswith("\ufeff") else 0)
    # The last of equal keys counts, as for every reader of JSON.
    places = dict(_members(text, start))
    for number, place in enumerate(_items(text, places["cells"]), 1):
        if text[place] != "{":
            raise BadNotebook(f"it is no notebook: cell {number} is not an object")
        inside = dict(_members(text, place))
        kind = _DECODER.raw_decode(text, inside["cell_type"])[0] if "cell_type" in inside else None
        if kind != "code" or "source" not in inside:
            continue
        at = inside["source"]
        if text[at] == "[":
            found = [_literal(text, each, number) for each in _items(text, at)]
            if found:
                yield Cell(number, "".join(each.value for each in found), tuple(found), True)
        else:
            only = _literal(text, at, number)
            yield Cell(number, only.value, (only,), False)


def _literal(text: str, place: int, number: int) -> Literal:
    if text[place] != '"':
        raise BadNotebook(f"it is no notebook: the source of cell {number} is not text")
    value, end = scanstring(text, place + 1)
    return Literal(place, end, value)


def _members(text: str, place: int) -> Iterator[tuple[str, int]]:
    """The keys of the object that begins at a place, each with the place of its value."""
    place = _blank(text, place + 1)
    while text[place] != "}":
        name, place = scanstring(text, place + 1)
        place = _blank(text, _blank(text, place) + 1)  # a colon
        yield name, place
        place = _after(text, place)


def _items(text: str, place: int) -> Iterator[int]:
    """The places of the items of the list that begins at a place."""
    place = _blank(text, place + 1)
    while text[place] != "]":
        yield place
        place = _after(text, place)


def _after(text: str, place: int) -> int:
    """The place of what follows a value and its comma."""
    end = _blank(text, _DECODER.raw_decode(text, place)[1])
    return _blank(text, end + 1) if text[end] == "," else end


def _blank(text: str, place: int) -> int:
    found = _BLANK.match(text, place)
    assert found is not None
    return found.end()
