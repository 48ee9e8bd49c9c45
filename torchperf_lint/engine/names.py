"""Which files are Python: told by their names, and where these do not tell, by their first lines."""

from __future__ import annotations

import os
import re

SUFFIXES = (".gyp", ".gypi", ".py", ".py3", ".pyi", ".pyt", ".pyw", ".tac", ".wsgi")
"""Suffixes of Python files."""

NO_NOTEBOOKS = "not checked: notebooks are not supported"

_SUFFIX = re.compile(r"\.[^\W\d]\w*")  # `train-1.2` has none


def why_no_python(path: str) -> str | None:
    """Why a file that is named itself cannot be linted; None for Python and for what may be Python.

    Raise OSError where the file has to be looked into and cannot be read.
    """
    suffix = os.path.splitext(path)[1].lower()
    if suffix in SUFFIXES:
        return None
    if is_notebook(path):
        return NO_NOTEBOOKS
    with open(path, "rb") as file:
        first_line = file.readline(200)
    if first_line.startswith(b"#!"):
        return None if b"python" in first_line else "not checked: its first line names another program than Python"
    if not _SUFFIX.fullmatch(suffix):
        return None  # the parser has to tell
    return f"not checked: `{suffix}` is no suffix of Python; on standard input anything is linted"


def is_notebook(path: str) -> bool:
    """Whether a file is a notebook: its text is JSON, which may be Python by its form."""
    return path.lower().endswith(".ipynb")
