"""Measures a run with the stored reports of an earlier run: with nothing changed, and with one file changed.

A copy of the folder is linted, each time by a process of its own, and each figure is the whole process's: CPU seconds
(user and system) and wall-clock seconds. `warm` is the median of several runs. For `changed`, files are drawn at
random and one at a time gets a line: in one round a statement at its end, in the other a loop that calls a function of
another file, which changes the call graph. With `--verify`, each such run is compared with one without a cache.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

WARM_RUNS, SEED = 7, 0
KEPT = re.compile(r".*\.(?:py|toml|cfg|txt|ya?ml|lock|gitignore)")


class Cost(NamedTuple):
    """A process's cost and output."""

    cpu: float
    wall: float
    printed: bytes


def main() -> None:
    """Measure the folder that the command line names, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what is copied and linted")
    parser.add_argument("--changes", type=int, default=6, help="how many files are changed in each round (default 6)")
    parser.add_argument("--jobs", default="1", help="worker processes (default 1)")
    parser.add_argument("--verify", action="store_true", help="hold what is printed against runs without a cache")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "project"
        files = copied(options.folder, folder)
        measure(folder, files, options)


def copied(source: Path, folder: Path) -> list[Path]:
    """Copy what a run reads; the copied Python files."""
    for path in sorted(source.rglob("*")):
        if path.is_file() and not path.is_symlink() and KEPT.fullmatch(path.name):
            place = folder / path.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
            old = time.time_ns() - 10**12
            os.utime(place, ns=(old, old))
    (folder / ".git").mkdir(exist_ok=True)
    return sorted(folder.rglob("*.py"))


def measure(folder: Path, files: Sequence[Path], options: argparse.Namespace) -> None:
    """Print the figures of a folder."""
    lint = [sys.executable, "-m", "torchperf_lint", "--isolated", "-q", "--output-format", "concise", "--exit-zero"]
    lint += ["-j", options.jobs, "."]
    nothing = median([cost_of([sys.executable, "-c", "pass"], folder) for _ in range(WARM_RUNS)])
    cold = cost_of(lint, folder)
    time.sleep(2.5)  # until the files' modification times are old enough to be trusted
    warm = [cost_of(lint, folder) for _ in range(WARM_RUNS)]
    assert {each.printed for each in warm} == {cold.printed}, "a warm run prints something else"
    megabytes = sum(path.stat().st_size for path in files) / 1e6
    cache = sum(path.stat().st_size for path in folder.glob(".torchperf_lint_cache/*")) / 1e6
    print(f"{len(files)} files, {megabytes:.1f} MB; cache of {cache:.1f} MB; {options.jobs} process(es)")
    print(f"{'':<42}{'CPU s':>8}{'wall s':>8}{'of cold CPU':>13}{'of wall':>9}")
    row("python -c pass", nothing, cold)
    row("cold", cold, cold)
    row("warm", median(warm), cold)
    drawn = random.Random(SEED).sample(files, min(options.changes, len(files)))
    for name, change in (("changed: a statement at its end", "\nx = 1\n"), ("changed: it calls another file", None)):
        costs = [changed(folder, path, change or called_elsewhere(path, files), lint, options) for path in drawn]
        row(f"{name}, median", median(costs), cold)
        row(f"{name}, most", max(costs), cold)


def called_elsewhere(path: Path, files: Sequence[Path]) -> str:
    """A loop that calls a function of another file by its name."""
    others = random.Random(str(path.name)).sample(files, len(files))
    found = (re.search(rb"^def (\w+)", other.read_bytes(), re.MULTILINE) for other in others if other != path)
    name = next((match[1].decode() for match in found if match is not None), "print")
    return f"\n\ndef called_from_here(loader):\n    for batch in loader:\n        {name}(batch)\n"


def changed(folder: Path, path: Path, text: str, lint: Sequence[str], options: argparse.Namespace) -> Cost:
    """The cost of a run after a change of one file, which is then undone."""
    before = path.read_bytes()
    path.write_bytes(before + text.encode())
    cost = cost_of(lint, folder)
    if options.verify:
        assert cost_of([*lint, "--no-cache"], folder).printed == cost.printed, f"{path}: something else is printed"
    path.write_bytes(before)
    cost_of(lint, folder)
    return cost


def cost_of(command: Sequence[str], folder: Path) -> Cost:
    """Run a command in the folder."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    printed = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=True).stdout
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall, printed)


def median(costs: Sequence[Cost]) -> Cost:
    """The medians of the figures."""
    return Cost(statistics.median(each.cpu for each in costs), statistics.median(each.wall for each in costs), b"")


def row(name: str, cost: Cost, cold: Cost) -> None:
    """Print a line of the table."""
    shares = f"{cost.cpu / cold.cpu:>12.2%} {cost.wall / cold.wall:>8.2%}"
    print(f"{name:<42}{cost.cpu:>8.2f}{cost.wall:>8.2f}{shares}")


if __name__ == "__main__":
    main()
