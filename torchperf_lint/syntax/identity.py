"""What files and contents go by, whatever they are called by the user."""

from __future__ import annotations

import hashlib
import os


def key_of(path: str) -> str:
    """The absolute path of a file, without links and with slashes: the same for all names of the file."""
    return os.path.realpath(path).replace(os.sep, "/")


def digest_of(data: bytes) -> str:
    """The name of a content: equal for equal bytes, and for no others in practice."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()
