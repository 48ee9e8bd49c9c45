"""The bytes of a file without its prose, for what is known of files without their trees."""

from __future__ import annotations

import re

_TEXTS = re.compile(
    rb"#[^\n]*|'{3}.*?(?:'{3}|\Z)|\"{3}.*?(?:\"{3}|\Z)|'(?:[^'\\\n]|\\.)*'?|\"(?:[^\"\\\n]|\\.)*\"?", re.DOTALL
)
_BLANK = re.compile(rb"\s")


def without_prose(data: bytes) -> bytes:
    """The bytes without comments and without strings that hold a blank; a string that holds none may be an option."""
    return _TEXTS.sub(_kept, data)


def _kept(text: re.Match[bytes]) -> bytes:
    found = text.group()
    return b" " if found.startswith(b"#") or _BLANK.search(found) else found
