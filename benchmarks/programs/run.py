"""Runs real training programs on the simulated device: as they stand, after `--fix`, and after `--unsafe-fixes`.

`python benchmarks/programs/run.py [PROGRAM ...]` prints, program by program and in all, how often the packages' lines
wait per step before and after, which waiting lines the linter had found without running anything, which findings never
waited, and whether results are equal. The exit status is 1 where a figure is worse than the committed one, or a fix
changes results other than its page says. `--update` writes the tables, `--unlinted` only runs the programs, twice, and
shows whether they do the same both times.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import figures
from catalogue import programs
from copies import LintFailed, lay_out
from environments import DEFAULT_FOLDER, NotMade, make
from measure import OFFLINE, NotMeasured, differences, measure, run_apart, what_happened

from torchperf_lint.verify.child import OK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalogue import Program
    from measure import Measured


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="which (default: all)")
    parser.add_argument("--environments", type=Path, default=DEFAULT_FOLDER, metavar="DIR", help="where these lie")
    parser.add_argument("--update", action="store_true", help="write what was measured into the tables")
    parser.add_argument("--fresh", action="store_true", help="run all again, whatever is kept of earlier runs")
    parser.add_argument("--committed", action="store_true", help="run nothing, and print what the tables hold")
    parser.add_argument("--brief", action="store_true", help="with --committed: only what matters most, as a table")
    parser.add_argument("--unlinted", action="store_true", help="only run them, twice, and lint nothing")
    parser.add_argument("--device", choices=("sim", "cuda"), default="sim", help="cuda keeps its counts in gpu.tsv")
    parser.add_argument("--here", action="store_true", help="run what this Python has the packages of, with it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="programs at a time")
    parser.add_argument("--verbose", action="store_true", help="print the waiting lines, too")
    options = parser.parse_args()
    chosen = programs(tuple(options.programs))
    if options.committed:
        if options.brief:
            _tell_briefly(chosen)
        else:
            _tell_committed(chosen, verbose=options.verbose)
        return 0
    if options.here:
        chosen = [each for each in chosen if all(importlib.util.find_spec(name) for name in each.packages)]
    os.environ.update(OFFLINE)
    if options.device == "cuda":
        return _count_on_gpu(chosen, options)
    if options.unlinted:
        return 1 if sum([_run_twice(each, options) for each in chosen]) else 0
    return _measure(chosen, options)


def _tell_committed(chosen: list[Program], *, verbose: bool) -> None:
    """Print what the tables hold of these programs: all in all, or one by one and by what waits, too."""
    names = {each.name for each in chosen}
    kept = [each for each in figures.read_figures().values() if each.program in names]
    lines = [each for each in figures.read_lines() if each.program in names]
    spared = figures.has_to_wait(lines, figures.read_inherent(), chosen)
    if verbose:
        print(figures.HEADING)
        for each in kept:
            print(figures.row(each, spared[each.program]))
        print()
    print(figures.summary(kept, spared))
    _tell_first_runs(chosen, figures.read_figures(figures.FIRST_RUNS), spared)
    if verbose:
        print(f"\n{figures.reasons(lines, figures.read_inherent(), chosen)}\n")
        print(figures.by_operator(lines))


def _tell_briefly(chosen: list[Program]) -> None:
    """Print a table of the last runs of all, and of the first runs of packages that nobody had linted before."""
    kept, first = figures.read_figures(), figures.read_figures(figures.FIRST_RUNS)
    groups = {
        "all, last run": [kept[each.name] for each in chosen if each.name in kept],
        "unseen, first run": [first[each.name] for each in chosen if each.name in first and not each.environment.known],
    }
    print(figures.brief(groups))


def _measure(chosen: list[Program], options: argparse.Namespace) -> int:
    inherent = figures.read_inherent()
    kept, kept_lines, first = figures.read_figures(), figures.read_lines(), figures.read_figures(figures.FIRST_RUNS)
    kept_seconds = figures.read_seconds()
    seconds: dict[str, figures.Seconds] = {}
    now: dict[str, figures.Figures] = {}
    lines: list[figures.Line] = []
    failed = 0
    print(figures.HEADING)
    for program, measured in _measured(chosen, options):
        if isinstance(measured, str):
            failed += 1
            print(f"{program.name}: error: {measured}", file=sys.stderr, flush=True)
            continue
        now[program.name] = figures.figures_of(measured, program)
        lines += figures.lines_of(measured)
        seconds[program.name] = figures.Seconds(program.name, measured.seconds)
        spared = figures.has_to_wait(figures.lines_of(measured), inherent, [program])
        print(figures.row(now[program.name], spared[program.name]), flush=True)
        if options.verbose:
            for line in figures.lines_of(measured):
                print(f"    {line.path}:{line.row}  {line.waits:g} {line.operators}  {line.codes}")
        if options.update:
            others = [line for line in kept_lines if line.program not in now]
            figures.write(figures.LINES, others + lines)
            figures.write(figures.FIGURES, list((kept | now).values()))
            figures.write(figures.FIRST_RUNS, list((now | first).values()))
            figures.write(figures.SECONDS, list((kept_seconds | seconds).values()))
    print()
    spared = figures.has_to_wait(lines, inherent, chosen)
    print(figures.summary(list(now.values()), spared))
    _tell_first_runs(chosen, figures.read_figures(figures.FIRST_RUNS) if options.update else first, spared)
    print(f"\n{figures.reasons(lines, inherent, chosen)}\n")
    print(figures.by_operator(lines))
    complaints = figures.worse(kept, now) + figures.out_of_bounds(now.values())
    for each in figures.too_slow(seconds.values()):
        print(f"slow: {each}", file=sys.stderr)
    if not options.programs and not options.here:
        complaints += figures.stale(lines, inherent, {each.name: each.environment.name for each in chosen})
    for each in complaints:
        print(f"worse, or out of bounds: {each}", file=sys.stderr)
    return 1 if failed or (complaints and not options.update) else 0


def _count_on_gpu(chosen: list[Program], options: argparse.Namespace) -> int:
    """Run the programs on a GPU, keep what each one waits as it comes, and say where the simulated device differs."""
    counted = figures.read_gpu()
    now: dict[str, figures.OnGpu] = {}
    failed = 0
    for program, measured in _measured(chosen, options):
        if isinstance(measured, str):
            failed += 1
            print(f"{program.name}: error: {measured}", file=sys.stderr, flush=True)
            continue
        now[program.name] = figures.on_gpu(measured, figures.figures_of(measured, program))
        print("  ".join(map(str, now[program.name])), flush=True)
        figures.write(figures.GPU, list((counted | now).values()))
    complaints = figures.disagreements(figures.read_figures(), now.values())
    for each in complaints:
        print(f"not the same: {each}", file=sys.stderr)
    return 1 if failed or complaints else 0


def _tell_first_runs(chosen: list[Program], first: dict[str, figures.Figures], inherent: dict[str, float]) -> None:
    """Print what the programs' first runs gave, those of packages that nobody had linted before by themselves."""
    for what, known in (("packages linted for the first time", False), ("packages that had been linted before", True)):
        kept = [first[each.name] for each in chosen if each.name in first and each.environment.known is known]
        if kept:
            print(f"\nfirst runs, {what}:\n{figures.summary(kept, inherent)}")


def _measured(chosen: list[Program], options: argparse.Namespace) -> Iterator[tuple[Program, Measured | str]]:
    """The programs in their order, several run at a time, each measured or with what went wrong."""
    pythons: dict[str, Path | str] = {}
    for environment in dict.fromkeys(program.environment for program in chosen):
        try:
            here = Path(sys.executable)
            pythons[environment.name] = here if options.here else make(environment, options.environments)
        except NotMade as error:
            pythons[environment.name] = str(error)

    def one(program: Program) -> Measured | str:
        python = pythons[program.environment.name]
        if isinstance(python, str):
            return python
        try:
            return measure(program, python, options.device, fresh=options.fresh or options.here)
        except (NotMeasured, LintFailed) as error:
            return str(error)

    with ThreadPoolExecutor(options.jobs) as pool:
        yield from zip(chosen, pool.map(one, chosen), strict=True)


def _run_twice(program: Program, options: argparse.Namespace) -> bool:
    """Run a program as it stands, twice, and print what it does; whether something is amiss."""
    try:
        python = make(program.environment, options.environments)
    except NotMade as error:
        print(f"{program.name}: error: {error}", file=sys.stderr)
        return True
    runs = []
    for _ in range(2):
        with tempfile.TemporaryDirectory(prefix="torchperf-lint-programs-") as scratch:
            script = lay_out(program.script, program.packages, python, Path(scratch))
            runs.append(run_apart(program, script, python, options.device, rows=False))
    steps, steady = runs[0].report["steps"], len(runs[0].steady)
    print(f"{program.name}: {what_happened(runs[0])}; {steps} steps, {steady} of them counted")
    if runs[0].status != OK:
        print(runs[0].stderr[-2000:])
    for line in runs[0].lines():
        place = "/".join(Path(line.where.file).parts[-3:])
        via = f", via {line.via.file}:{line.via.row}" if line.via else ""
        print(f"    {place}:{line.where.row}  {float(line.waits):g} {line.operator}{via}")
    amiss = list(differences(runs[0], runs[1]))
    for each in amiss:
        print(f"    not the same in a second run: {each}")
    return runs[0].status != OK or bool(amiss)


if __name__ == "__main__":
    raise SystemExit(main())
