"""Runs the programs in the style of users on a GPU: what they wait there, beside the simulated device, and how long.

`python benchmarks/written_gpu.py` prints what written_gpu.tsv and written_gpu_times.tsv hold, and runs nothing.
`--lay-out DIR` writes the programs there, as they stand and after `--fix` and `--unsafe-fixes`. `--run DIR --out FILE`
runs them, as many as there is time for, and appends a line of JSON for each run; with `--mode time --jobs 1`, it times
their steps, as they are, with no other work on the GPU. `--record FILE...` makes the tables.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import sys
import tarfile
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import written
import written_fixes
from linter import lint

from torchperf_lint.verify.child import OK
from torchperf_lint.verify.runs import run_program
from torchperf_lint.verify.warm import warm_launches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_lint.verify.runs import Run

COUNTS = Path(__file__).with_suffix(".tsv")
TIMES = Path(__file__).with_name("written_gpu_times.tsv")
UNFIXED, SAFE, UNSAFE = VARIANTS = ("unfixed", "safe", "unsafe")
MOST_PRINTED = 6000
SCRIPT = "main.py"
LONGEST_RUN = 120.0
SAME_WITHIN = 0.01
"""By how much the waits per step may differ relatively where the devices agree: some depend on random numbers."""


def lay_out(folder: Path, rounds: Sequence[int], jobs: int) -> None:
    """Write the programs of these rounds, and their fixed copies where a fix changes them, into a folder."""
    places = []
    for number in rounds:
        with tarfile.open(written.programs(number)) as archive, tempfile.TemporaryDirectory() as scratch:
            archive.extractall(scratch, filter="data")
            for script in sorted(Path(scratch).glob(f"*/*/{SCRIPT}")):
                place = folder / str(number) / script.parent.relative_to(scratch)
                shutil.copytree(script.parent, place / UNFIXED)
                places.append(place)
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(_fix, places))


def _fix(place: Path) -> None:
    before = written_fixes.texts(place / UNFIXED)
    for variant, options in ((SAFE, ("--fix",)), (UNSAFE, ("--fix", "--unsafe-fixes"))):
        copy = place / variant
        shutil.copytree(place / UNFIXED, copy)
        if lint(copy, "--no-cache", *options).crashed:
            raise SystemExit(f"{copy}: the linter failed")
        after = written_fixes.texts(copy)
        if after == before:
            shutil.rmtree(copy)
        before = after


def variants_in(folder: Path) -> list[Path]:
    """The programs to run: all unfixed ones, the newest rounds first, then the fixed ones."""
    found = [script.parent for script in folder.glob(f"*/*/*/*/{SCRIPT}")]
    return sorted(found, key=lambda each: (VARIANTS.index(each.name), -int(each.parts[-4]), each))


def run_all(folder: Path, options: argparse.Namespace) -> None:
    """Run what lies in a folder until the time is up, and append a line of JSON for each run."""
    end = time.monotonic() + 60 * options.minutes
    lock = threading.Lock()

    def left() -> float:
        return max(0.0, min(LONGEST_RUN, end - time.monotonic()))

    def one(place: Path) -> None:
        if not left():
            return
        began = time.perf_counter()
        try:
            run = run_program(place / SCRIPT, options.device, mode=options.mode, time_limit=left(), launch=launch())
            row = _row(place, run, options.mode)
        except Exception as error:
            row = {"status": "lost", "error": repr(error)}
        number, group, program, variant = place.parts[-4:]
        row |= {"round": int(number), "program": f"{group}/{program}", "variant": variant}
        row["seconds"] = round(time.perf_counter() - began, 1)
        with lock, options.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{row['round']} {row['program']} {variant}: {row['status']} {row.get('error') or ''}", flush=True)

    chosen = variants_in(folder)
    if options.only:
        wanted = set(options.only.read_text(encoding="utf-8").split())
        chosen = [each for each in chosen if f"{each.parts[-4]}/{each.parts[-3]}/{each.parts[-2]}" in wanted]
    if options.mode != "count":
        chosen.sort(key=lambda each: (each.parent, VARIANTS.index(each.name)))
        chosen *= options.repeat
    with warm_launches(options.device, left) as launch, ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(one, chosen))


def _row(place: Path, run: Run, mode: str) -> dict[str, Any]:
    report = run.report
    row = {"status": run.status, "device": report.get("device"), "error": report.get("error"), "mode": mode}
    if run.status != OK:
        return {**row, "failed_at": report.get("failed_at"), "stderr": run.stderr[-800:]}
    counters = report.get("counters") or {}
    if mode != "count":
        times = [each["device_ms"] for each in counters.get("steps", ()) if each["step"] in run.steady]
        return {**row, "ms": [round(each, 4) for each in times], "printed": run.stdout[-MOST_PRINTED:]}

    def told(where: Any) -> str | None:
        return None if where is None else f"{_below(where.file, place)}:{where.row}"

    lines = [
        [told(line.where), told(line.via), line.operator, round(float(line.waits), 4), round(float(line.staged), 4)]
        for line in run.lines()
    ]
    counts = {name: round(float(each), 4) for name, each in run.counts()._asdict().items()}
    remarks = counters.get("disagreements", [])
    return {**row, "counts": counts, "lines": lines, "remarks": remarks, "printed": run.stdout[-MOST_PRINTED:]}


def _below(file: str, place: Path) -> str:
    """A file's name in the program, or in the library that it belongs to."""
    path = Path(file)
    if path.is_relative_to(place):
        return path.relative_to(place).as_posix()
    parts = path.parts
    return "/".join(parts[parts.index("site-packages") + 1 :]) if "site-packages" in parts else path.name


# ---- the tables


class Counted(NamedTuple):
    """A program as it stands, and its waits per step on the GPU."""

    round: int
    program: str
    waits: float


class Timed(NamedTuple):
    """A program, as it stands or after fixes: the median step on the GPU in milliseconds, and the number of steps."""

    round: int
    program: str
    variant: str
    steps: int
    ms: float


def record(files: Sequence[Path]) -> None:
    """Write the tables from files that `--run` has written."""
    rows = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    ran = sorted((row for row in rows if row["status"] == OK), key=lambda row: (row["round"], row["program"]))
    counted = [
        Counted(row["round"], row["program"], row["counts"]["waits"])
        for row in ran
        if row["mode"] == "count" and row["variant"] == UNFIXED
    ]
    times: dict[tuple[int, str, str], list[float]] = {}
    for row in ran:
        if row["mode"] == "time":
            times.setdefault((row["round"], row["program"], row["variant"]), []).extend(row["ms"])
    timed = [Timed(*key, len(ms), round(median(ms), 3)) for key, ms in times.items() if ms]
    _write(COUNTS, Counted, counted)
    _write(TIMES, Timed, timed)


def _write(table: Path, kind: type[Counted | Timed], rows: Sequence[Counted | Timed]) -> None:
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerows([kind._fields, *rows])


def _read(table: Path) -> list[list[str]]:
    with table.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter="\t"))[1:]


def counted() -> list[Counted]:
    """What was counted on the GPU."""
    return [Counted(int(number), program, float(waits)) for number, program, waits in _read(COUNTS)]


def timed() -> list[Timed]:
    """What was timed on the GPU."""
    return [Timed(int(row[0]), row[1], row[2], int(row[3]), float(row[4])) for row in _read(TIMES)]


def tell() -> None:
    """Print where the simulated device's first counts of these programs differ, and the step times."""
    simulated = {(number, row.program): row.waits for number in written.ROUNDS for row in written.recorded(number)}
    rows = [(row, simulated[row.round, row.program]) for row in counted()]
    differing = [(row, waits) for row, waits in rows if abs(row.waits - waits) > SAME_WITHIN * max(1.0, waits)]
    total, simulated_total = sum(row.waits for row, _ in rows), sum(waits for _, waits in rows)
    print(f"{len(rows)} programs: {total:.0f} waits per step on the GPU, {simulated_total:.0f} on the simulated device")
    print(f"the same within {SAME_WITHIN:.0%}: {len(rows) - len(differing)}")
    for row, waits in differing:
        print(f"  {row.round} {row.program:<32} {row.waits:>9.5g} {waits:>9.5g}")
    by_program: dict[tuple[int, str], dict[str, float]] = {}
    for each in timed():
        by_program.setdefault((each.round, each.program), {})[each.variant] = each.ms
    print("\nmilliseconds per step, as they stand, after --fix, after --unsafe-fixes")
    for (number, program), ms in by_program.items():
        print(
            f"  {number} {program:<32}"
            + "".join(f"{ms[variant]:>9.4g}" if variant in ms else f"{'-':>9}" for variant in VARIANTS)
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lay-out", type=Path, metavar="DIR", help="write the programs and their fixed copies there")
    parser.add_argument("--rounds", type=int, nargs="+", default=list(written.ROUNDS), metavar="N", help="which")
    parser.add_argument("--run", type=Path, metavar="DIR", help="run what was laid out there")
    parser.add_argument("--device", choices=("sim", "cuda"), default="cuda", help="sim rehearses")
    parser.add_argument("--mode", choices=("count", "time"), default="count")
    parser.add_argument("--minutes", type=float, default=600.0, metavar="N", help="no run begins after")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="programs at a time")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="how often each is timed")
    parser.add_argument("--only", type=Path, metavar="FILE", help="the programs to run: ROUND/GROUP/NAME, one per line")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the runs are appended")
    parser.add_argument("--record", type=Path, nargs="+", metavar="FILE", help="write the tables from such files")
    options = parser.parse_args()
    if options.lay_out:
        lay_out(options.lay_out, options.rounds, options.jobs)
    if options.run:
        run_all(options.run, options)
    if options.record:
        record(options.record)
    if not (options.lay_out or options.run or options.record):
        tell()
    return 0


if __name__ == "__main__":
    sys.exit(main())
