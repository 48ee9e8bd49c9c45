"""A plugin of pytest that notes which rows of some files run; it is loaded in the environment of the tests.

The files and the place of the answer are in the environment variable RAN_ROWS, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import threading

_ASKED = json.loads(os.environ["RAN_ROWS"])
_rows = {path: set() for path in _ASKED["files"]}


def _trace(frame, event, argument):
    rows = _rows.get(frame.f_code.co_filename)
    if rows is None:
        return None

    def note(frame, event, argument):
        rows.add(frame.f_lineno)
        return note

    return note


def pytest_load_initial_conftests():
    """Begin before the first module of the package is imported."""
    threading.settrace(_trace)
    sys.settrace(_trace)


def pytest_unconfigure():
    """Write the answer."""
    sys.settrace(None)
    with open(_ASKED["into"], "w", encoding="utf-8") as file:
        json.dump({path: sorted(rows) for path, rows in _rows.items()}, file)
