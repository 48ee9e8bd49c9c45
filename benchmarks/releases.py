"""Compares the simulated device on several releases and builds of torch with the one that it is tested with.

Each release has an environment of its own below `--environments`, made when it is first needed: with `uv` where that is
installed, else with pip. Each run has the checks of the device (`tests/verify/simulated_cases`), the small programs
(`fixtures/programs`) and some of the rules' programs. One is *equal* if its check passes, or it costs as much as with
`BASE` in this environment, *refused* if the device says that it does not simulate it, else *different*, with details.

The result is written to `releases.tsv`. A build for CUDA takes 5 GB of disk; no GPU is needed, and none may be visible.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linter import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

RELEASES = ("2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0")
BASE = "2.13.0+cpu"
TABLE = CHECKOUT / "benchmarks" / "releases.tsv"
HEADING = ("build", "python", "equal", "different", "refused", "how")
BESIDE = ("torchmetrics", "libcst", "pathspec", "rich")
RULES_PROGRAMS = (
    "compute/legacy_amp/run_mixed_precision.py",
    "ops/tensor_from_python_data/run_collate.py",
    "sync/dynamic_shape_op/run_sizes.py",
    "sync/index_sync/run_writes.py",
    "sync/item_accumulation/run_train_and_validate.py",
    "transfer/blocking_h2d_copy/run_written_batches.py",
)
EQUAL, REFUSED = "as declared", "not simulated"


def main() -> None:
    """Run the named releases, or all, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("releases", nargs="*", metavar="RELEASE", help=f"default: {' '.join(RELEASES)}")
    parser.add_argument("--environments", type=Path, default=CHECKOUT / "build" / "releases", metavar="DIR")
    parser.add_argument("--table", type=Path, default=TABLE, metavar="FILE")
    parser.add_argument("--observe", type=Path, metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.observe:
        options.observe.write_text(json.dumps(observed()), encoding="utf-8")
        return
    base = observed_by(Path(sys.executable))
    if base["build"] != BASE:
        raise SystemExit(f"the environment of this command has torch {base['build']}, not {BASE}")
    rows = read(options.table)
    others = (observed_by(_python_of(each, options.environments)) for each in options.releases or RELEASES)
    for found in itertools.chain([base], others):
        rows[found["build"]] = row = compare(found, base)
        print("\t".join(row), flush=True)
        write(options.table, rows)  # at once: the next release may take long


def compare(found: Mapping[str, Any], base: Mapping[str, Any]) -> tuple[str, ...]:
    """A build's row: how many programs equal the base, and which differ."""
    kinds = Counter[str]()
    how = []
    for name, counted in base["programs"].items():
        expected = counted if name in RULES_PROGRAMS else EQUAL
        outcome = found["programs"].get(name, "it did not run")
        kind = "equal" if outcome == expected else "refused" if str(outcome).startswith(REFUSED) else "different"
        kinds[kind] += 1
        if kind != "equal":
            how.append(f"{name}: {outcome}, not {expected}" if kind == "different" else f"{name}: {outcome}")
    counts = (str(kinds[kind]) for kind in ("equal", "different", "refused"))
    return found["build"], found["python"], *counts, "; ".join(how)


def read(table: Path) -> dict[str, tuple[str, ...]]:
    """The rows of an earlier run, by build."""
    if not table.is_file():
        return {}
    rows = [tuple(line.split("\t")) for line in table.read_text(encoding="utf-8").splitlines()[1:]]
    return {row[0]: row for row in rows}


def write(table: Path, rows: Mapping[str, tuple[str, ...]]) -> None:
    """Write the table, sorted."""
    lines = ["\t".join(row) for row in (HEADING, *(rows[build] for build in sorted(rows)))]
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")


# ---- in the environment of a release


def observed() -> dict[str, Any]:
    """Each program's cost with the torch of this process's environment."""
    import torch

    programs = {**dict(_checks()), **dict(_small_programs()), **dict(_rules_programs())}
    return {"build": torch.__version__, "python": platform.python_version(), "programs": programs}


def _checks() -> Iterator[tuple[str, str]]:
    folder = CHECKOUT / "tests" / "verify" / "simulated_cases"
    modules = sorted(path.stem for path in folder.glob("*.py") if path.stem not in ("__init__", "__main__", "harness"))
    command = [sys.executable, "-W", "ignore", "-m", "simulated_cases", *modules]
    done = subprocess.run(command, capture_output=True, text=True, env=_environment(folder.parent), check=False)
    if done.returncode:
        yield "simulated_cases", done.stderr.strip().splitlines()[-1]
        return
    for module, outcomes in json.loads(done.stdout.splitlines()[-1]).items():
        for check, error in outcomes.items():
            yield f"{module}.{check}", error.strip().splitlines()[-1] if error else EQUAL


def _small_programs() -> Iterator[tuple[str, str]]:
    from torchperf_lint.verify import programs

    for name, outcome in programs.run_apart(programs.SIMULATED).items():
        counted = {field: outcome[field] for field in programs.COUNTED if outcome[field]}
        yield name, EQUAL if not outcome["mismatches"] else f"{outcome['mismatches']} {counted}"


def _rules_programs() -> Iterator[tuple[str, str]]:
    from torchperf_lint.verify.runs import run_program

    for name in RULES_PROGRAMS:
        with tempfile.TemporaryDirectory() as folder:
            script = Path(shutil.copy(CHECKOUT / "fixtures" / "rules" / name, folder))
            run = run_program(script, "sim")
        counts = run.counts()
        waits = f"{float(counts.waits):g} waits, {float(counts.staged):g} staged per step"
        yield name, waits if run.status == "ok" else f"{run.status}: {run.report['error'].splitlines()[0]}"


# ---- environments


def observed_by(python: Path) -> dict[str, Any]:
    """The observations of this script under that interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "observed.json"
        command = [str(python), __file__, "--observe", str(report)]
        subprocess.run(command, env=_environment(CHECKOUT), check=True)
        found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
        return found


def _environment(first: Path) -> dict[str, str]:
    path = os.pathsep.join([str(first), str(CHECKOUT)])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "-1"}


def _python_of(release: str, environments: Path) -> Path:
    folder = environments.resolve() / release
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not (folder / "made").is_file():
        packages = [f"torch=={release}", *BESIDE, "--constraint", str(_constraints(environments))]
        uv = shutil.which("uv")
        make = [uv, "venv", "--clear", "--python", sys.executable] if uv else [sys.executable, "-m", "venv", "--clear"]
        subprocess.run([*make, str(folder)], check=True)
        install = [uv, "pip", "install", "--python", str(python)] if uv else [str(python), "-m", "pip", "install"]
        subprocess.run([*install, "--quiet", *packages], check=True)
        (folder / "made").touch()
    return python


def _constraints(environments: Path) -> Path:
    """The project's constraints without the one on torch."""
    environments.mkdir(parents=True, exist_ok=True)
    lines = (CHECKOUT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    path = environments / "constraints.txt"
    path.write_text("\n".join(line for line in lines if not line.startswith("torch==")) + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    main()
