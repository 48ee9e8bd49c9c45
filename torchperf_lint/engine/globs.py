"""Matching of `.gitignore` lines by pathspec, with corrections where pathspec differs from git.

pathspec passes a set such as `[a-z]` to `re` unchanged, and `re` reads many sets differently from git, or with a
warning, or rejects them. So every set is rewritten in the one form that all three read alike.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_Ranges = list[tuple[int, int]]
"""The characters of a set, as code points: first and last of each range."""

_DIGIT, _LOWER, _UPPER = (0x30, 0x39), (0x61, 0x7A), (0x41, 0x5A)
_PUNCTUATION = [(0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)]
_CLASSES: dict[str, _Ranges] = {
    "alnum": [_DIGIT, _UPPER, _LOWER],
    "alpha": [_UPPER, _LOWER],
    "blank": [(0x09, 0x09), (0x20, 0x20)],
    "cntrl": [(0x01, 0x1F), (0x7F, 0x7F)],
    "digit": [_DIGIT],
    "graph": [(0x21, 0x7E)],
    "lower": [_LOWER],
    "print": [(0x20, 0x7E)],
    "punct": _PUNCTUATION,
    "space": [(0x09, 0x0A), (0x0D, 0x0D), (0x20, 0x20)],
    "upper": [_UPPER],
    "xdigit": [_DIGIT, (0x41, 0x46), (0x61, 0x66)],
}
"""The character classes of git, such as `[:alpha:]`; ASCII only."""

_PIECE = re.compile(r"\\.|\[|[^\\\[]+", re.DOTALL)
_MEMBER = re.compile(r"\[:(?P<name>[^]]*):\]|\\?(?P<first>.)(?:-(?!\])\\?(?P<last>.))?", re.DOTALL)
_AWKWARD = "/!&-[\\]^|~"  # never the end of a range, where `re` or pathspec may misread it
_NO_PATH_HAS = "\0"


class BadGlob(ValueError):
    """A glob that can match nothing; the message names it."""


def matcher(lines: Iterable[str]) -> Any:
    """The lines as a pathspec; like git, it ignores those that mean nothing."""
    from pathspec import GitIgnoreSpec

    spelled = [line for line in map(_spelled, lines) if line is not None]
    try:
        return GitIgnoreSpec.from_lines(spelled)
    except ValueError:
        return GitIgnoreSpec([pattern for line in spelled for pattern in _lone_pattern(line)])


def can_match(glob: str) -> bool:
    """Whether a line is well-formed, without reversed ranges such as `z-a`, and can match a path."""
    spelled = _spelled(glob, strict=True)
    if spelled is None or f"[{_NO_PATH_HAS}]" in spelled:
        return False
    return any(pattern.include is not None for pattern in _lone_pattern(spelled))


def _lone_pattern(line: str) -> Sequence[Any]:
    from pathspec import GitIgnoreSpec

    try:
        return list(GitIgnoreSpec.from_lines([line]).patterns)
    except ValueError:
        return ()


def _spelled(line: str, *, strict: bool = False) -> str | None:
    """The line with its sets rewritten; None if it is malformed; `strict` rejects ranges such as `z-a`."""
    if line.startswith("#"):
        return line
    line = _with_its_end(line)
    if "[" not in line:
        return line
    pieces: list[str] = []
    at = 0
    while at < len(line):
        piece = _PIECE.match(line, at)
        if piece is None:  # a backslash at the end
            return None
        at = piece.end()
        if piece.group() != "[":
            pieces.append(piece.group())
            continue
        negated = line[at : at + 1] in ("!", "^")
        ranges: _Ranges = []
        at = _read_set(line, at + negated, ranges)
        if at < 0 or (strict and any(first > last for first, last in ranges)):
            return None
        pieces.append(_set(_others(ranges) if negated else _sorted(ranges)))
    spelled = "".join(pieces)
    # A slash anchors a line to its folder, even a slash in a set.
    return re.sub("^(!?)/?", r"\1/", spelled) if "/" in line.rstrip("/") else spelled


def _with_its_end(line: str) -> str:
    """The line with trailing white space other than blanks written as a set, because pathspec would strip it."""
    kept = line.rstrip(" ")
    if not kept.strip() or not kept[-1].isspace():
        return line
    before = kept[:-1]
    is_escaped = (len(before) - len(before.rstrip("\\"))) % 2
    return f"{before[: len(before) - is_escaped]}[{kept[-1]}]"


def _read_set(line: str, at: int, ranges: _Ranges) -> int:
    """Read a set from its first member on, as git does; returns the offset of its end, or -1 if it is not closed."""
    start = at
    while line[at : at + 1] != "]" or at == start:
        member = _MEMBER.match(line, at)
        if member is None:
            return -1
        at = member.end()
        if member["name"] is not None:
            if member["name"] not in _CLASSES:
                return -1
            ranges += _CLASSES[member["name"]]
        else:
            first, last = ord(member["first"]), ord(member["last"] or member["first"])
            ranges += [(first, first), (first, last)]  # to git, `z-a` is `z`
    return at + 1


def _sorted(ranges: _Ranges) -> _Ranges:
    """The same characters as sorted ranges that do not overlap."""
    found: _Ranges = []
    for first, last in sorted(each for each in ranges if each[0] <= each[1]):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def _others(ranges: _Ranges) -> _Ranges:
    """The complement of the ranges."""
    found = []
    at = 1
    for first, last in _sorted(ranges):
        found.append((at, first - 1))
        at = last + 1
    return [(first, last) for first, last in [*found, (at, 0x10FFFF)] if first <= last]


def _set(ranges: _Ranges) -> str:
    """A set of these characters except the slash, which no set matches."""
    awkward = [each for each in _AWKWARD if any(first <= ord(each) <= last for first, last in ranges)]
    plain = "".join(_range(*each) for each in _without(ranges, sorted(map(ord, awkward))))
    head = "]" if "]" in awkward else _NO_PATH_HAS
    rest = [each for each in awkward if each not in "/]-"]
    return f"[{head}{plain}{''.join(rest)}{'-' if '-' in awkward else ''}]"


def _without(ranges: _Ranges, points: Sequence[int]) -> Iterator[tuple[int, int]]:
    for first, last in ranges:
        at = first
        for point in points:
            if at <= point <= last:
                if at < point:
                    yield at, point - 1
                at = point + 1
        if at <= last:
            yield at, last


def _range(first: int, last: int) -> str:
    return chr(first) if first == last else f"{chr(first)}-{chr(last)}"
