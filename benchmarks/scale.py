"""Measures how the whole-program analysis grows with the code, on parts of transformers' whole source.

The parts are nested: everything outside `models`, with a growing share of the model folders. Each figure is
taken in a process of its own: CPU seconds and peak memory, for

- facts: every file's symbols, and the index over all of them;
- alone: a sample of the part's files, each checked as if there were no other file;
- project: the same files, each checked as a part of the whole project, serially;
- shared: a fixed sample of files that all parts contain: only the code around them changes their cost.

The exponents are the slopes of the logarithms: cost = code ** exponent, where 1 is proportional to the code. For
`project` the figures of the sample are extrapolated to the whole part; `--full` checks every file instead.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import random
import resource
import shutil
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from corpus import DEFAULT_CORPUS, NotFetched, Project, fetch, python_files

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torchperf_lint.model.program import Program

SOURCE = Project("transformers-5.23.0", "pypi", "transformers", "5.23.0")
SHARES = (0, 12, 25, 50, 100)
SAMPLE, SHARED, SEED = 150, 60, 0


class Cost(NamedTuple):
    """The cost of one process: CPU seconds, and peak megabytes."""

    cpu: float
    peak: float


class Part(NamedTuple):
    """The figures of one part of the source; `checked` is the sample's share of its bytes."""

    files: int
    megabytes: float
    checked: float
    facts: Cost
    alone: Cost
    project: Cost
    shared: Cost


def measured(work: Callable[..., None], *arguments: object) -> Cost:
    """Run the work in a new process and measure it."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_cost, work, *arguments).result()


def _cost(work: Callable[..., None], *arguments: object) -> Cost:
    before = time.process_time()
    work(*arguments)
    in_megabytes = 1e6 if sys.platform == "darwin" else 1e3
    return Cost(time.process_time() - before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / in_megabytes)


def learn(folder: Path) -> None:
    """Extract the symbols of all files, and index them."""
    _program(folder)


def check_alone(folder: Path, files: Sequence[Path]) -> None:
    """Check each file as if there were no other."""
    _check(folder, files, None)


def check_in_project(folder: Path, files: Sequence[Path]) -> None:
    """Check each file as a part of the folder's project."""
    _check(folder, files, _program(folder))


def _program(folder: Path) -> Program:
    from torchperf_lint.engine.project_snapshot import gather
    from torchperf_lint.knowledge.hints import Hints

    os.chdir(folder)
    files = [path.relative_to(folder).as_posix() for path in python_files(folder)]
    program = gather(files, Hints()).program()
    program.reached(files[0])
    return program


def _check(folder: Path, files: Sequence[Path], program: Program | None) -> None:
    from torchperf_lint.engine import registry
    from torchperf_lint.engine.project import calm_collector
    from torchperf_lint.engine.runner import check_source
    from torchperf_lint.knowledge.hints import Hints
    from torchperf_lint.knowledge.versions import Target

    os.chdir(folder)
    rules = [rule for rule in registry.all_rules() if rule.default]
    with calm_collector():
        for path in files:
            name = path.relative_to(folder).as_posix()
            around = None if program is None else lambda: program
            report = check_source(name, path.read_bytes(), rules, Target(), Hints(), program=around)
            if report.failure is not None:
                print(report.failure, file=sys.stderr)


def lay_out(source: Path, share: int, folder: Path) -> None:
    """Copy the part with this percentage of the model folders."""
    models = sorted(path.name for path in (source / "transformers" / "models").iterdir() if path.is_dir())
    random.Random(SEED).shuffle(models)
    wanted = {"auto", *models[: len(models) * share // 100]}
    for path in python_files(source):
        inner = path.relative_to(source / "transformers").parts
        if inner[0] != "models" or len(inner) == 2 or inner[1] in wanted:
            target = folder / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


def measure(source: Path, share: int, sample: int | None) -> Part:
    """The figures of the part with this share of the model folders."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch).resolve()
        lay_out(source, share, folder)
        (folder / "pyproject.toml").touch()  # the project's root
        files = python_files(folder)
        size = sum(path.stat().st_size for path in files)
        chosen = files if sample is None or sample >= len(files) else sorted(random.Random(SEED).sample(files, sample))
        checked = sum(path.stat().st_size for path in chosen) / size
        facts = measured(learn, folder)
        costs = [measured(work, folder, chosen) for work in (check_alone, check_in_project)]
        shared = measured(check_in_project, folder, in_all_parts(source, folder))
    return Part(len(files), size / 1e6, checked, facts, *costs, shared)


def in_all_parts(source: Path, folder: Path) -> list[Path]:
    """The sample of files that every part holds, in this part's folder."""
    with tempfile.TemporaryDirectory() as scratch:
        smallest = Path(scratch).resolve()
        lay_out(source, SHARES[0], smallest)
        files = [path.relative_to(smallest) for path in python_files(smallest)]
    return [folder / path for path in sorted(random.Random(SEED).sample(files, min(SHARED, len(files))))]


def exponent(parts: Sequence[Part], cost: Callable[[Part], float]) -> float:
    """The slope of log(cost) over log(code), by least squares."""
    sizes = [math.log(part.megabytes) for part in parts]
    return statistics.linear_regression(sizes, [math.log(cost(part)) for part in parts]).slope


def _whole_check(part: Part) -> float:
    return (part.project.cpu - part.facts.cpu) / part.checked + part.facts.cpu


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, default=DEFAULT_CORPUS, metavar="DIR", help="where the source lies")
    parser.add_argument("--full", action="store_true", help="check every file of each part: an hour or more")
    options = parser.parse_args()
    source = options.corpus / SOURCE.name
    try:
        if not source.is_dir():
            fetch(SOURCE, options.corpus)
    except NotFetched as error:
        raise SystemExit(f"{SOURCE.name}: {error}") from None
    print(f"{'':20}{'facts':>16}{'alone':>16}{'project':>16}{'shared':>16}{'whole check':>16}")
    print(f"{'files':>8}{'MB':>8}{'':4}" + f"{'CPU s':>9}{'MB':>7}" * 4 + f"{'CPU s':>9}{'s/MB':>7}", flush=True)
    parts = []
    for share in SHARES:
        part = measure(source, share, None if options.full else SAMPLE)
        parts.append(part)
        costs = "".join(f"{cost.cpu:>9.1f}{cost.peak:>7.0f}" for cost in part[3:])
        whole = _whole_check(part)
        print(
            f"{part.files:>8}{part.megabytes:>8.1f}{'':4}{costs}{whole:>9.0f}{whole / part.megabytes:>7.1f}", flush=True
        )
    print(
        "exponents: "
        f"facts, CPU {exponent(parts, lambda part: part.facts.cpu):.2f}, "
        f"memory {exponent(parts, lambda part: part.facts.peak):.2f}; "
        f"shared, CPU {exponent(parts, lambda part: part.shared.cpu - part.facts.cpu):.2f}; "
        f"whole check, CPU {exponent(parts, _whole_check):.2f}, "
        f"memory {exponent(parts, lambda part: part.project.peak):.2f}"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
