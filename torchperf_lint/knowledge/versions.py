"""The versions of torch and torchmetrics that a project runs on, as far as they are known."""

from __future__ import annotations

import re
from typing import NamedTuple

Version = tuple[int, ...]


class BadVersion(ValueError):
    """The text is not a release version such as `2.13` or `1.6.2`."""


def parse_version(text: str) -> Version:
    """`"2.13.0"` as `(2, 13, 0)`; local and pre-release parts are dropped; raises BadVersion."""
    match = re.match(r"\s*v?(\d+(?:\.\d+)*)(?:[.\-_]?(?:a|b|rc|alpha|beta|dev|post)\.?\d*|\+.*)*\s*$", text)
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


class Target(NamedTuple):
    """What the linted project runs on; None is unknown."""

    torch: Version | None = None
    torchmetrics: Version | None = None

    def torch_is(self, specifier: str) -> bool | None:
        """Yes, no, or None when the version is unknown."""
        return None if self.torch is None else satisfies(self.torch, specifier)

    def torchmetrics_is(self, specifier: str) -> bool | None:
        """Yes, no, or None when the version is unknown."""
        return None if self.torchmetrics is None else satisfies(self.torchmetrics, specifier)
