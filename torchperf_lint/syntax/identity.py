"""Identities of files and of contents, independent of how the user names them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

try:  # `hashlib` has it as well, but loads OpenSSL: the slowest import of a clean run
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

if TYPE_CHECKING:
    from collections.abc import Iterable


def key_of(path: str) -> str:
    """The key of a file: its absolute path, links resolved, with slashes; the same for all names of the file."""
    return os.path.realpath(path).replace(os.sep, "/")


def keys_of(paths: Iterable[str]) -> dict[str, str]:
    """The keys of many files, by their paths; a folder that they share is resolved once."""
    folders: dict[str, str] = {}
    found = {}
    for path in paths:
        folder, name = os.path.split(path)
        if name in ("", os.curdir, os.pardir) or os.path.islink(path):
            found[path] = key_of(path)
            continue
        if folder not in folders:
            folders[folder] = key_of(folder or os.curdir).rstrip("/")
        found[path] = f"{folders[folder]}/{name}"
    return found


def digest_of(data: bytes) -> str:
    """The digest of a content: equal for equal bytes, and in practice for no others."""
    return blake2b(data, digest_size=16).hexdigest()
