"""Copies of a program and its packages, laid side by side as one project, and linted or mended there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from catalogue import FOLDER

if TYPE_CHECKING:
    from collections.abc import Sequence

UNFIXED, SAFE, UNSAFE = "unfixed", "safe", "unsafe"
VARIANTS = {SAFE: ("--fix",), UNSAFE: ("--fix", "--unsafe-fixes")}
"""The variants of a program beside the unfixed one, each with the options that make it."""

WRITTEN = {SAFE: ("safe",), UNSAFE: ("safe", "unsafe")}
"""The grades of the fixes that are written into a variant."""

CHECKOUT = FOLDER.parents[1]

_FIND = "import importlib.util, sys\nfor name in sys.argv[1:]: print(importlib.util.find_spec(name).origin)"


class Finding(NamedTuple):
    """A finding: its file below the copy, the first and last row that it is about, its code, its fix's grade or `none`.

    `uses` are the places where what is reported costs, for rules that report where it is made.
    """

    path: str
    row: int
    end_row: int
    code: str
    grade: str
    uses: tuple[tuple[str, int], ...]


class LintFailed(Exception):
    """The linter said nothing, or something went wrong; the message says what."""


def lay_out(script: Path, packages: Sequence[str], python: Path, into: Path) -> Path:
    """Copy a script, and the packages as this Python finds them, into one folder; return the script's copy.

    The folder is the script's own, so Python looks for modules there first.
    """
    copy_packages(packages, python, into)
    return Path(shutil.copy(script, into))


def copy_packages(packages: Sequence[str], python: Path, into: Path) -> None:
    """Copy packages as this Python finds them into a folder; what is no Python source is only linked."""
    found = subprocess.run([str(python), "-c", _FIND, *packages], capture_output=True, text=True, check=True, cwd=into)
    for origin in map(Path, found.stdout.split()):
        if origin.name == "__init__.py":
            shutil.copytree(origin.parent, into / origin.parent.name, copy_function=_copy, ignore=_not_wanted)
        else:
            _copy(str(origin), str(into / origin.name))


_not_wanted = shutil.ignore_patterns("__pycache__")


def _copy(source: str, target: str) -> str:
    if source.endswith(".py"):
        shutil.copyfile(source, target)
    else:
        os.link(os.path.realpath(source), target)
    return target


def lint(folder: Path, files: Sequence[str]) -> list[Finding]:
    """What the linter finds in files of a folder, as one project, with its default rules; raises LintFailed."""
    text = _linter(folder, "--output-format=json", *files)
    return [_finding(each) for each in json.loads(text)]


def mend(folder: Path, files: Sequence[str], options: Sequence[str]) -> None:
    """Let the linter write its fixes into files of a folder; raises LintFailed."""
    _linter(folder, *options, *files)


def _linter(folder: Path, *arguments: str) -> str:
    command = sys.executable, "-P", "-m", "torchperf_lint", "--isolated", "--no-cache", "--exit-zero", *arguments
    path = [str(CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LintFailed(f"the linter ended with status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def _finding(data: dict[str, object]) -> Finding:
    from torchperf_lint.engine import registry

    code = str(data["code"])
    rule = registry.find_rule(code)
    return Finding(
        os.path.normpath(str(data["filename"])),
        data["location"]["row"],  # type: ignore[index]
        max(data["end_location"]["row"], data["noqa_row"]),  # type: ignore[index, call-overload]
        code,
        data["fix"]["applicability"] if data["fix"] else "none",  # type: ignore[index]
        tuple((os.path.normpath(each["filename"]), each["row"]) for each in data["because"])  # type: ignore[attr-defined]
        if rule is not None and rule.costs_at_use
        else (),
    )
