"""Lists the imports of a run and their times: `python -X importtime` of the command line on small files.

Each case is run several times, and the shortest time of each module counts: wall-clock milliseconds, without its own
imports. `heaviest` names the slowest modules from elsewhere.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from latency import AWAKE, CLEAN, PLAIN, SCRIPT, SLOW
from processes import installed_environment

LINE = re.compile(r"import time: +(?P<own>\d+) \| +\d+ \| +(?P<name>\S+)", re.MULTILINE)
OURS, LIBCST = "torchperf_lint", "libcst"
HEAVIEST = 4

# The case's name, the file in the folder, and the options; None: Python alone.
CASES: tuple[tuple[str, str, list[str] | None], ...] = (
    ("python -c pass", PLAIN, None),
    ("--version", PLAIN, ["--version"]),
    ("a clean file without torch", PLAIN, ["--no-cache", "."]),
    ("a clean file with torch", CLEAN, ["--no-cache", "."]),
    ("a clean file with candidates", AWAKE, ["--no-cache", "."]),
    ("a file with findings", SLOW, ["--no-cache", "."]),
    ("  the same, whose report is kept", SLOW, ["."]),
    ("--fix of a file with findings", SLOW, ["--no-cache", "--fix", "--unsafe-fixes", "."]),
)


def imported(command: list[str], folder: Path) -> dict[str, float]:
    """The modules that the command imports, with their own milliseconds."""
    env = installed_environment()
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"exit status {done.returncode}: {' '.join(command)}")
    return {match["name"]: int(match["own"]) / 1000 for match in LINE.finditer(done.stderr)}


def shortest(command: list[str], folder: Path, runs: int, code: str) -> dict[str, float]:
    """The minimum over some runs; each finds the file unchanged, and old enough for its report to be stored."""
    best: dict[str, float] = {}
    for turn in range(runs + 2):
        path = folder / "example.py"
        path.write_text(code, encoding="utf-8")
        os.utime(path, ns=(10**18, 10**18))
        found = imported(command, folder)
        if turn >= 2:  # byte code and reports are stored by then
            best = {name: min(own, best.get(name, own)) for name, own in found.items()}
    return best


def report(name: str, found: dict[str, float]) -> None:
    """Print a line of the table."""
    by_package: defaultdict[str, float] = defaultdict(float)
    for module, own in found.items():
        by_package[module.partition(".")[0]] += own
    ours, libcst = by_package.pop(OURS, 0.0), by_package.pop(LIBCST, 0.0)
    others = sorted(by_package.items(), key=lambda each: -each[1])
    heaviest = ", ".join(f"{module} {own:.1f}" for module, own in others[:HEAVIEST])
    figures = f"{sum(found.values()):>8.1f}{ours:>8.1f}{libcst:>8.1f}{sum(by_package.values()):>8.1f}"
    print(f"{name:<34}{len(found):>8}{figures}  {heaviest}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15, metavar="N", help="runs of each case (default 15)")
    options = parser.parse_args()
    print(f"{'milliseconds':<34}{'modules':>8}{'all':>8}{'ours':>8}{'libcst':>8}{'others':>8}  heaviest of these")
    python = [sys.executable, "-X", "importtime"]
    with tempfile.TemporaryDirectory() as scratch:
        script = Path(scratch) / "torchperf-lint"
        script.write_text(SCRIPT, encoding="utf-8")
        for place, (name, code, arguments) in enumerate(CASES):
            folder = Path(scratch) / str(place)
            folder.mkdir()
            (folder / "pyproject.toml").touch()
            program = ["-c", "pass"] if arguments is None else [str(script), *arguments]
            report(name, shortest([*python, *program], folder, options.runs, code))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
