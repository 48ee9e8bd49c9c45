"""Validators of others, from npm: of SARIF logs and of the Reviewdog Diagnostic Format."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest

import other_programs
from linting import ROOT

pytestmark = pytest.mark.consumer

SARIF = ("@microsoft/sarif-multitool-linux@5.7.0", "sarif-multitool-linux", "validate")
RDJSON = ("@umbrelladocs/rdformat-validator@1.0.1", "rdformat-validator", "--strict", "--no-extra-fields")


@pytest.fixture(scope="module", params=["sarif", "rdjson"])
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of real code, with a notebook and a file that cannot be checked."""
    folder = tmp_path_factory.mktemp("reports")
    (folder / "broken.py").write_text("def f(:\n", encoding="utf-8")
    path = folder / f"report.{request.param}"
    paths = [str(ROOT / "fixtures" / "workloads"), str(ROOT / "fixtures" / "docs"), str(folder)]
    options = ["--isolated", "--no-cache", "--select", "ALL", "--unsafe-fixes", "--output-format", request.param]
    command = [sys.executable, "-m", "torchperf_lint", *paths, *options, "--output-file", str(path)]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 2
    return path


@functools.cache
def npm_exec(package: str) -> list[str]:
    """The beginning of a command with the package's programs, which is brought: one more try, as of other packages."""
    command = [other_programs.found("npm"), "exec", "--yes", f"--package={package}", "--"]
    for _ in range(2):
        if (
            subprocess.run([*command, "node", "--version"], capture_output=True, timeout=600, check=False).returncode
            == 0
        ):
            break
    return command


def problems(path: Path) -> str | None:
    """What the validator prints where it refuses a report; None where it accepts it."""
    package, program, *options = SARIF if path.suffix == ".sarif" else RDJSON
    command = [*npm_exec(package), program, *options, str(path)]
    done = subprocess.run(
        command, cwd=path.parent, capture_output=True, text=True, timeout=600, check=False, stdin=subprocess.DEVNULL
    )
    assert path.name in done.stdout or "1 files scanned" in done.stdout or "Files processed: 1" in done.stdout, done
    # The one for SARIF tells errors by its output alone.
    return done.stdout if done.returncode != 0 or ": error " in done.stdout else None


def test_validators_accept_our_reports_and_refuse_broken_ones(report: Path, tmp_path: Path) -> None:
    assert problems(report) is None
    value = json.loads(report.read_text(encoding="utf-8"))
    del (value["runs"][0]["results"] if report.suffix == ".sarif" else value["diagnostics"])[0]["message"]
    broken = tmp_path / f"broken{report.suffix}"
    broken.write_text(json.dumps(value), encoding="utf-8")
    assert problems(broken) is not None
