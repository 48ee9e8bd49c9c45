"""Holds `torchperf-lint profile` against traces that others have published.

`python benchmarks/traces.py [--folder DIR]` brings the traces which `traces.tsv` lists, each by its digest, and prints
what the command says of each. The exit status is 1 where that is other than the table holds, or a trace is not there.
`--update` writes the table. A trace that lies in the folder already is used as it is.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import http.client
import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).with_suffix(".tsv")
DEFAULT_FOLDER = Path("~/.cache/torchperf-lint-traces").expanduser()
CHECKOUT = Path(__file__).resolve().parents[1]

REPOSITORY = "facebookresearch/HolisticTraceAnalysis"
COMMIT = "f4d0062c382f42bd8a74838bcdad1916c7d5d2da"
"""Where the traces are published, under the MIT licence."""


class Trace(NamedTuple):
    """A published trace, by its path below the repository's `tests/data`, and what the command says of it.

    `waits` and `wait_ms` are those of `steps` steps on average, or of the whole trace where it marks no step. `runtime`
    says whether calls of the CUDA runtime were recorded: without them, `waits` counts reads, which may wait. `said` is
    the error instead, for a file that is no trace.
    """

    path: str
    sha256: str
    steps: int = 0
    waits: float = 0.0
    wait_ms: float = 0.0
    runtime: bool = False
    said: str = ""


class NotBrought(Exception):
    """A trace could not be brought, or is another one; the message says why."""


def traces() -> list[Trace]:
    """The table."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return [
        Trace(
            row["path"],
            row["sha256"],
            int(row["steps"]),
            float(row["waits"]),
            float(row["wait_ms"]),
            row["runtime"] == "True",
            row["said"],
        )
        for row in rows
    ]


def brought(trace: Trace, folder: Path) -> Path:
    """The trace's file below a folder, downloaded if it is missing there; raises NotBrought."""
    file = folder / trace.path
    if not file.is_file():
        url = f"https://raw.githubusercontent.com/{REPOSITORY}/{COMMIT}/tests/data/{trace.path}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise NotBrought(f"{url}: {error}") from None
        if hashlib.sha256(content).hexdigest() != trace.sha256:
            raise NotBrought(f"{url} is not the listed file: its digest is another")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    if hashlib.sha256(file.read_bytes()).hexdigest() != trace.sha256:
        raise NotBrought(f"{file} is not the published file: its digest is another")
    return file


def profiled(trace: Trace, file: Path) -> Trace:
    """The trace with what the command says of it now."""
    command = sys.executable, "-m", "torchperf_lint", "profile", "--output-format=json", str(file)
    done = subprocess.run(
        command,
        cwd=file.parent,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in {0, 1}:
        return Trace(trace.path, trace.sha256, said=done.stderr.strip().removeprefix(f"{_SAYS}{file}: "))
    report = json.loads(done.stdout)
    return Trace(
        trace.path,
        trace.sha256,
        report["steps"],
        round(report["waits"], 3),
        round(report["wait_ms"], 3),
        report["has_runtime_calls"],
    )


_SAYS = "torchperf-lint profile: error: "


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER, metavar="DIR", help="where the traces lie")
    parser.add_argument("--update", action="store_true", help="write what the command says into the table")
    options = parser.parse_args()
    now = []
    amiss = 0
    for trace in traces():
        try:
            said = profiled(trace, brought(trace, options.folder))
        except NotBrought as error:
            amiss += 1
            now.append(trace)
            print(f"error: {error}", file=sys.stderr)
            continue
        now.append(said)
        what = "waits" if said.runtime else "reads"
        print(said.said or f"{said.steps} steps, {said.waits:g} {what}, {said.wait_ms:g} ms", said.path, sep="  ")
        if said != trace:
            amiss += not options.update
            print(f"not the same: {said.path}: {trace[2:]} before", file=sys.stderr)
    if options.update:
        with TABLE.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter="\t", lineterminator="\n")
            writer.writerow(Trace._fields)
            writer.writerows(now)
    return 1 if amiss else 0


if __name__ == "__main__":
    raise SystemExit(main())
