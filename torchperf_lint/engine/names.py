"""Which files are Python: by name or, where names do not tell, by the first lines."""

from __future__ import annotations

import os
import re

SUFFIXES = (".gyp", ".gypi", ".py", ".py3", ".pyi", ".pyt", ".pyw", ".tac", ".wsgi")
"""Suffixes of Python files."""

NO_NOTEBOOKS = "not checked: notebooks are not supported here; `torchperf-lint FILE` checks them"

_SUFFIX = re.compile(r"\.[^\W\d]\w*")  # `train-1.2` has none


def why_no_python(path: str) -> str | None:
    """Why an explicitly named file cannot be linted; None if it is or may be Python, or a notebook.

    Raise OSError where the file must be opened and cannot be read.
    """
    suffix = os.path.splitext(path)[1].lower()
    if suffix in SUFFIXES:
        return None
    if is_notebook(path):
        return _why_no_python_inside(path)
    with open(path, "rb") as file:
        first_line = file.readline(200)
    if first_line.startswith(b"#!"):
        return None if b"python" in first_line else "not checked: its first line names another program than Python"
    if not _SUFFIX.fullmatch(suffix):
        return None  # the parser decides
    return f"not checked: `{suffix}` is no suffix of Python; on standard input anything is linted"


def _why_no_python_inside(path: str) -> str | None:
    """Why a notebook has no Python; None if it has, or cannot be read: its check tells why."""
    from torchperf_lint.syntax.json_cells import BadNotebook, OtherLanguage, code_cells, decoded

    with open(path, "rb") as file:
        data = file.read()
    try:
        code_cells(decoded(data))
    except OtherLanguage as error:
        return f"not checked: {error}"
    except BadNotebook:
        return None
    return None


def is_notebook(path: str) -> bool:
    """Whether a file is a notebook: its JSON text may also be valid Python."""
    return path.lower().endswith(".ipynb")
