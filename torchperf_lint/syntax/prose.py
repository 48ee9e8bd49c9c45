"""A file's bytes without its prose, for scans that have no tree."""

from __future__ import annotations

import re

_TEXTS = re.compile(
    rb"#[^\n]*|'{3}.*?(?:'{3}|\Z)|\"{3}.*?(?:\"{3}|\Z)|'(?:[^'\\\n]|\\.)*'?|\"(?:[^\"\\\n]|\\.)*\"?", re.DOTALL
)
_BLANK = re.compile(rb"\s")


def without_prose(data: bytes) -> bytes:
    """The bytes without comments and without strings that contain a blank; a string without blanks may be an option."""
    return _TEXTS.sub(_kept, data)


def _kept(text: re.Match[bytes]) -> bytes:
    found = text.group()
    return b" " if found.startswith(b"#") or _BLANK.search(found) else found
