"""Runs this checkout's linter as a user would, in a process of its own, and reads what it prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

CHECKOUT = Path(__file__).resolve().parents[1]

COMMAND = (sys.executable, "-m", "torchperf_lint", "--isolated", "--exit-zero")


class Found(NamedTuple):
    """One finding: the file's path below the linted folder, the 1-based line, and the rule's code."""

    path: str
    line: int
    code: str


class Report(NamedTuple):
    """A run's output: its findings, sorted, as they were printed too, and its lines on stderr."""

    findings: list[Found]
    complaints: list[str]
    crashed: bool
    printed: tuple[dict[str, Any], ...] = ()

    @property
    def places(self) -> list[Found]:
        """The findings, and each further place that one of them tells beside its own."""
        told = [(one, place) for one in self.printed for place in (one, *one.get("also", ()))]
        return [
            Found(Path(one["filename"]).as_posix(), place["location"]["row"], one["code"])
            for one, place in told
            if one["code"] != "TPL000"
        ]


def environment() -> dict[str, str]:
    """An environment in which `python -m torchperf_lint` is this checkout's, in any folder."""
    inherited = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(CHECKOUT), inherited]))}


def lint(folder: Path, *options: str, paths: tuple[str, ...] = (".",)) -> Report:
    """Lint all of `folder`, or some `paths` in it.

    `crashed`: there is no report, a traceback, or a failure without an explanation.
    """
    command = [*COMMAND, "--output-format=json", *options, *paths]
    run = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, encoding="utf-8", check=False)
    complaints = run.stderr.strip().splitlines()
    try:
        listed = json.loads(run.stdout)
    except json.JSONDecodeError:
        return Report([], complaints, crashed=True)
    found = [one for one in listed if one["code"] != "TPL000"]  # a complaint tells why
    findings = [Found(Path(one["filename"]).as_posix(), one["location"]["row"], one["code"]) for one in found]
    silent_failure = run.returncode != 0 and not complaints
    return Report(sorted(findings), complaints, silent_failure or "Traceback" in run.stderr, tuple(listed))
