"""The versions of torch and torchmetrics that a project runs on, as far as they are known."""

from __future__ import annotations

import re
from typing import NamedTuple

Version = tuple[int, ...]


class BadVersion(ValueError):
    """The text is not a release version such as `2.13` or `1.6.2`."""


def parse_version(text: str) -> Version:
    """`"2.13.0"` as `(2, 13, 0)`; local and pre-release parts are dropped; raises BadVersion."""
    match = re.match(r"\s*v?(\d+(?:\.\d+)*)(?:[.\-_]?(?:a|b|rc|alpha|beta|dev|post)(?:\.?\d+)?)*(?:\+.*)?\s*$", text)
    if match is None:
        raise BadVersion(f"`{text}` is not a version such as 2.13 or 1.6.2")
    return tuple(int(part) for part in match.group(1).split("."))


def satisfies(version: Version, specifier: str) -> bool:
    """Whether a version meets a comma-separated specifier such as `>=1.6.2,<2` (only >=, >, <=, <, ==)."""
    for clause in specifier.split(","):
        match = re.fullmatch(r"\s*(>=|<=|==|>|<)\s*([\d.]+)\s*", clause)
        if match is None:
            raise BadVersion(f"`{specifier}` is not a version specifier")
        bound = parse_version(match.group(2))
        width = max(len(version), len(bound))
        left, right = (v + (0,) * (width - len(v)) for v in (version, bound))
        holds = {">=": left >= right, "<=": left <= right, "==": left == right, ">": left > right, "<": left < right}
        if not holds[match.group(1)]:
            return False
    return True


class Bounds(NamedTuple):
    """The versions that a requirement allows: from `lowest` up to `end`, exclusive.

    None: that side is unknown. If both are the same, the requirement is a pin to that version.
    """

    lowest: Version | None = None
    end: Version | None = None

    @property
    def pinned(self) -> bool:
        """Whether a single version is allowed."""
        return self.lowest is not None and self.lowest == self.end


_CLAUSE = re.compile(r"(===|==|~=|>=|<=|!=|>|<|\^|~|=|)\s*(v?\d[^\s,]*)")
_BEYOND_PYPA = ("^", "~", "=", "")


def bounds_of(specifier: str, *, wider: bool = False) -> Bounds:
    """The bounds of a specifier such as `>=1.4,<2`, `~=1.4` or `==1.4.*`; unknown if it is not understood.

    `wider` adds the syntax of poetry and conda: `^1.4`, `~1.4`, `=1.4`, `1.4` and `1.4.*`.
    """
    clauses = [clause.strip() for clause in specifier.split(",")]
    if clauses and not clauses[-1]:  # a comma at the end is allowed
        clauses.pop()
    found = []
    for clause in clauses:
        match = _CLAUSE.fullmatch(clause)
        if match is None or (match[1] in _BEYOND_PYPA and not wider):
            return Bounds()
        try:
            found.append(_clause_bounds(match[1], match[2]))
        except BadVersion:
            return Bounds()
    for each in found:
        if each.pinned:
            return each
    lowest = max((each.lowest for each in found if each.lowest is not None), default=None)
    end = min((each.end for each in found if each.end is not None), default=None)
    contradicts = lowest is not None and end is not None and end <= lowest
    return Bounds() if contradicts else Bounds(lowest, end)


def _clause_bounds(operator: str, text: str) -> Bounds:
    family = text.endswith(".*")
    version = parse_version(text.removesuffix(".*"))
    if family and operator not in ("==", "!=", "=", ""):
        raise BadVersion(f"`{operator}{text}` is not a version specifier")
    last = len(version) - 1
    if operator in ("!=", "<="):  # no first version above either can be named
        return Bounds()
    if operator == "<":
        return Bounds(None, version)
    if operator in (">=", ">"):
        return Bounds(version)
    if family or operator == "=":
        return Bounds(version, _next(version, last))
    if operator == "~=":
        if last == 0:
            raise BadVersion(f"`~={text}` needs a second number")
        return Bounds(version, _next(version, last - 1))
    if operator == "~":
        return Bounds(version, _next(version, min(1, last)))
    if operator == "^":
        return Bounds(version, _next(version, next((i for i, number in enumerate(version) if number), last)))
    return Bounds(version, version)


def _next(version: Version, place: int) -> Version:
    """The first version that differs from this one at the place or before it."""
    return (*version[:place], version[place] + 1)


class Stated(NamedTuple):
    """A package's versions by a file of the linted project: the versions that may run, and where that is written."""

    lowest: Version
    end: Version | None  # as in Bounds
    path: str  # as the user would write it
    row: int
    text: str

    def meets(self, specifier: str) -> bool:
        """Whether every version that may run satisfies the specifier."""
        if self.lowest == self.end:
            return satisfies(self.lowest, specifier)
        return all(self._all_meet(clause.strip()) for clause in specifier.split(","))

    def _all_meet(self, clause: str) -> bool:
        if clause.startswith("<"):
            return self.end is not None and satisfies(self.end, "<=" + clause.lstrip("<="))
        return clause.startswith(">") and satisfies(self.lowest, clause)


class Target(NamedTuple):
    """What the linted project runs on: as configured, as a file of the project states it, or None for unknown."""

    torch: Version | Stated | None = None
    torchmetrics: Version | Stated | None = None

    def torch_is(self, specifier: str) -> bool | None:
        """True if every version that may run satisfies the specifier, False if one does not; None if none is known."""
        return _meets(self.torch, specifier)

    def torchmetrics_is(self, specifier: str) -> bool | None:
        """The same for torchmetrics. False for `>=2` does not imply True for `<2`: under `>=1`, both are False."""
        return _meets(self.torchmetrics, specifier)


PACKAGES = Target._fields
"""The packages whose versions are of interest."""


def _meets(known: Version | Stated | None, specifier: str) -> bool | None:
    if known is None:
        return None
    return known.meets(specifier) if isinstance(known, Stated) else satisfies(known, specifier)
