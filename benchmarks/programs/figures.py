"""The figures of the programs: the committed tables, what is printed of them, and where a figure got worse.

`first_runs.tsv` holds what the first run of each program gave and is never edited: code that the linter had not seen.
`figures.tsv` and `lines.tsv` hold what the last `make programs` gave, program by program and line by line.
`inherent.tsv` names the waiting lines that no change of the code can spare, each with the reason, as somebody read it.
`seconds.tsv` holds how long each program took on the simulated device, as it stands, beside others.
`gpu.tsv`, where there is one, holds the waits that a real GPU counted.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple, get_type_hints

from catalogue import FOLDER
from copies import SAFE, UNFIXED, UNSAFE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from catalogue import Program
    from measure import Measured

FIRST_RUNS, FIGURES, LINES, INHERENT, SECONDS, GPU = (
    FOLDER / f"{name}.tsv" for name in ("first_runs", "figures", "lines", "inherent", "seconds", "gpu")
)

FEWEST_STEPS, MOST_STEPS = 10, 30
MOST_SECONDS = 60.0

EQUAL, STATED = "equal", "differ as stated"


class Figures(NamedTuple):
    """A program's figures.

    Waits are per step, over the packages' lines as they stand, after `--fix`, and after `--fix --unsafe-fixes`. `lines`
    wait in steady steps, `found_lines` of these hold a finding, and the found lines wait `found_waits` times per step.
    Of the findings of synchronising rules on lines that ran, `confirmed` were seen to wait, and `refuted` never.
    """

    program: str
    steps: int
    waits: float
    safe: float
    unsafe: float
    lines: int
    found_lines: int
    found_waits: float
    confirmed: int
    refuted: int
    safe_results: str
    unsafe_results: str


class Line(NamedTuple):
    """A waiting line, or (`waits` 0) a finding that was never seen to wait: the codes found there, or `missed`."""

    program: str
    path: str
    row: int
    waits: float
    operators: str
    codes: str


class Inherent(NamedTuple):
    """Why a line of an environment's package has to wait."""

    environment: str
    path: str
    row: int
    reason: str


class Seconds(NamedTuple):
    """How long a program took on the simulated device, as it stands; other programs may have run beside it."""

    program: str
    seconds: float


class OnGpu(NamedTuple):
    """A program's waits per step on a real GPU, as it stands and after our fixes, and whether results are equal."""

    program: str
    gpu: str
    torch: str
    waits: float
    safe: float
    unsafe: float
    safe_results: str
    unsafe_results: str


def on_gpu(measured: Measured, figures: Figures) -> OnGpu:
    """What is kept of a measurement on a GPU."""
    facts = measured.device["name"], measured.device["torch"]
    return OnGpu(figures.program, *facts, *figures[2:5], figures.safe_results, figures.unsafe_results)


def disagreements(simulated: Mapping[str, Figures], counted: Iterable[OnGpu]) -> list[str]:
    """Where a GPU waits more or less often than the simulated device, one line each."""
    return [
        f"{each.program}: {what} {getattr(simulated[each.program], what):g} on the simulated device, "
        f"{getattr(each, what):g} on the GPU"
        for each in counted
        if each.program in simulated
        for what in ("waits", "safe", "unsafe")
        if getattr(each, what) != getattr(simulated[each.program], what)
    ]


def figures_of(measured: Measured, program: Program) -> Figures:
    """What is kept of a measurement."""
    found = [line for line in measured.lines if line.codes != "missed"]
    return Figures(
        measured.program,
        measured.steps,
        *(measured.waits[variant] for variant in (UNFIXED, SAFE, UNSAFE)),
        len(measured.lines),
        len(found),
        round(sum(line.waits for line in found), 3),
        measured.confirmed,
        len(measured.refuted),
        measured.differs[SAFE] or EQUAL,
        STATED if measured.differs[UNSAFE] and program.unsafe_differs else measured.differs[UNSAFE] or EQUAL,
    )


def lines_of(measured: Measured) -> list[Line]:
    """The lines that are kept of a measurement."""
    waiting = [Line(measured.program, *each) for each in measured.lines]
    return waiting + [Line(measured.program, each.path, each.row, 0.0, "", each.code) for each in measured.refuted]


# ---- the tables


def read_figures(table: Path | None = None) -> dict[str, Figures]:
    """A table of figures by program; empty where there is none yet."""
    return {row[0]: _typed(Figures, row) for row in _rows(table or FIGURES, Figures)}


def read_lines(table: Path | None = None) -> list[Line]:
    """The kept lines of all programs."""
    return [_typed(Line, row) for row in _rows(table or LINES, Line)]


def read_inherent(table: Path | None = None) -> list[Inherent]:
    """The lines that have to wait."""
    return [_typed(Inherent, row) for row in _rows(table or INHERENT, Inherent)]


def read_seconds(table: Path | None = None) -> dict[str, Seconds]:
    """How long the programs took, by program."""
    return {row[0]: _typed(Seconds, row) for row in _rows(table or SECONDS, Seconds)}


def read_gpu(table: Path | None = None) -> dict[str, OnGpu]:
    """What a GPU has counted, by program."""
    return {row[0]: _typed(OnGpu, row) for row in _rows(table or GPU, OnGpu)}


def write(table: Path, rows: Sequence[Figures | Line | Seconds | OnGpu]) -> None:
    """Replace a table."""
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_NONE, quotechar=None)
        writer.writerow(rows[0]._fields)
        writer.writerows(sorted(rows))


def _rows(table: Path, kind: type[Figures | Line | Inherent | Seconds | OnGpu]) -> list[list[str]]:
    if not table.is_file():
        return []
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    if not rows or tuple(rows[0]) != kind._fields:
        raise SystemExit(f"{table}:1: the columns must be {', '.join(kind._fields)}")
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(kind._fields):
            raise SystemExit(f"{table}:{number}: wanted {len(kind._fields)} columns")
    return rows[1:]


def _typed(kind: type, row: list[str]) -> Any:
    return kind(*(make(text) for make, text in zip(get_type_hints(kind).values(), row, strict=True)))


# ---- better and worse


ONE_WAIT = 1.5
"""Waits of a whole run: a difference of no more counts for none. Some programs wait once more in some runs."""

_MORE, _LESS = 1, -1
_WORSE_WHERE_IT_IS = {
    "safe": _MORE,
    "unsafe": _MORE,
    "refuted": _MORE,
    "found_lines": _LESS,
    "found_waits": _LESS,
    "confirmed": _LESS,
}

_PER_STEP = ("safe", "unsafe", "found_waits")


def worse(before: Mapping[str, Figures], now: Mapping[str, Figures]) -> list[str]:
    """Where a figure got worse, or a fix changes results other than its page says; one line each."""
    found = []
    for name, new in now.items():
        for grade in ("safe", "unsafe"):
            told = getattr(new, f"{grade}_results")
            if told not in (EQUAL, STATED):
                found.append(f"{name}: {grade} fixes change the results: {told}")
        old = before.get(name)
        if old is None:
            continue
        noise = ONE_WAIT / max(1, old.steps)
        found += [
            f"{name}: {what} {getattr(new, what):g}, {getattr(old, what):g} before"
            for what, sign in _WORSE_WHERE_IT_IS.items()
            if sign * (getattr(new, what) - getattr(old, what)) > (noise if what in _PER_STEP else 0)
        ]
        if abs(new.waits - old.waits) > noise or new.lines != old.lines:
            found.append(
                f"{name}: {new.lines} lines wait {new.waits:g} times per step as the program stands, "
                f"{old.lines} and {old.waits:g} before"
            )
    return found


def out_of_bounds(now: Iterable[Figures]) -> list[str]:
    """The programs that take too few or too many steps, one line each."""
    return [
        f"{each.program}: {each.steps} steps, of {FEWEST_STEPS} to {MOST_STEPS}"
        for each in now
        if not FEWEST_STEPS <= each.steps <= MOST_STEPS
    ]


def too_slow(seconds: Iterable[Seconds]) -> list[str]:
    """The programs that take too long, one line each; other work on the machine may be the reason."""
    return [f"{each.program}: {each.seconds:.0f} seconds" for each in seconds if each.seconds > MOST_SECONDS]


def has_to_wait(lines: Iterable[Line], inherent: Iterable[Inherent], programs: Iterable[Program]) -> dict[str, float]:
    """By program, how many of its waits per step no change of the code can spare."""
    environments = {each.name: each.environment.name for each in programs}
    spared = {each[:3] for each in inherent}
    waits = dict.fromkeys(environments, 0.0)
    for line in lines:
        if line.program in waits and (environments[line.program], line.path, line.row) in spared:
            waits[line.program] += line.waits
    return waits


def stale(lines: Iterable[Line], inherent: Iterable[Inherent], environments: Mapping[str, str]) -> list[str]:
    """The entries of `inherent.tsv` that belong to no waiting line; `environments` are by program."""
    waiting = {(environments[line.program], line.path, line.row) for line in lines if line.program in environments}
    return [
        f"{each.path}:{each.row} has a reason to wait, and does not" for each in inherent if each[:3] not in waiting
    ]


# ---- what is printed

HEADING = (
    f"{'program':<28}{'steps':>6}{'waits':>9}{'--fix':>9}{'unsafe':>9}{'inherent':>9}"
    f"{'lines':>7}{'found':>7}{'missed':>7}{'of lines':>9}{'of waits':>9}{'seen':>6}{'never':>6}  results"
)


def row(each: Figures, inherent: float) -> str:
    """A program's figures in one line; `inherent` of its waits per step have to be.

    After the lines that wait, found and missed, stands the share of them, and of the waits, that was found.
    """
    told = [f"{name}: {text}" for name, text in (("safe", each.safe_results), ("unsafe", each.unsafe_results))]
    results = EQUAL if (each.safe_results, each.unsafe_results) == (EQUAL, EQUAL) else "; ".join(told)
    return (
        f"{each.program:<28}{each.steps:>6}{each.waits:>9.4g}{each.safe:>9.4g}{each.unsafe:>9.4g}{inherent:>9.4g}"
        f"{each.lines:>7}{each.found_lines:>7}{each.lines - each.found_lines:>7}"
        f"{_share(each.found_lines, each.lines):>9}{_share(each.found_waits, each.waits):>9}"
        f"{each.confirmed:>6}{each.refuted:>6}  {results}"
    )


def summary(all_figures: Sequence[Figures], inherent: Mapping[str, float]) -> str:
    """The figures over all programs, some of whose waits are `inherent`: recall, findings never seen, waits removed."""
    lines, found_lines = sum(each.lines for each in all_figures), sum(each.found_lines for each in all_figures)
    waits, found_waits = sum(each.waits for each in all_figures), sum(each.found_waits for each in all_figures)
    confirmed, refuted = sum(each.confirmed for each in all_figures), sum(each.refuted for each in all_figures)
    waiting = [each for each in all_figures if each.waits]
    avoidable = [each for each in waiting if each.waits > inherent[each.program]]
    rows = [
        f"{len(all_figures)} programs, {len(waiting)} of them wait in packages' lines",
        f"waiting lines found: {found_lines} of {lines} ({_share(found_lines, lines)})",
        f"waits found: {found_waits:.5g} of {waits:.5g} per step ({_share(found_waits, waits)})",
        f"findings on lines that ran: {confirmed} seen to wait, {refuted} never "
        f"({_share(refuted, confirmed + refuted)})",
    ]
    for option, variant in (("--fix", "safe"), ("--fix --unsafe-fixes", "unsafe")):
        removed = [(each.waits - getattr(each, variant)) / each.waits for each in waiting]
        spared = [(each.waits - getattr(each, variant)) / (each.waits - inherent[each.program]) for each in avoidable]
        unchanged = sum(abs(each.waits - getattr(each, variant)) * each.steps <= ONE_WAIT for each in waiting)
        rows.append(
            f"{option} removes {_mean(removed)} of the waits (mean of {len(removed)}), {_mean(spared)} of the "
            f"avoidable ones (mean of {len(spared)}); {unchanged} are left as they were"
        )
    for grade in ("safe", "unsafe"):
        told = [getattr(each, f"{grade}_results") for each in all_figures]
        equal, stated = told.count(EQUAL), told.count(STATED)
        as_stated = f"differ as the rules' pages say for {stated}, otherwise for {len(told) - equal - stated}"
        rows.append(f"results after {grade} fixes: equal for {equal}, {as_stated}")
    return "\n".join(rows)


def brief(groups: Mapping[str, Sequence[Figures]]) -> str:
    """What matters most, a column for each group of programs."""
    columns = [_brief_cells(each) for each in groups.values()]
    rows = [f"{'':<36}{''.join(f'{name:>22}' for name in groups)}"]
    rows += [f"{label:<36}{''.join(f'{column[label]:>22}' for column in columns)}" for label in columns[0]]
    return "\n".join(rows)


def _brief_cells(all_figures: Sequence[Figures]) -> dict[str, str]:
    lines, found = sum(each.lines for each in all_figures), sum(each.found_lines for each in all_figures)
    confirmed, refuted = sum(each.confirmed for each in all_figures), sum(each.refuted for each in all_figures)
    waiting = [each for each in all_figures if each.waits]
    removed = {
        variant: _mean([(each.waits - getattr(each, variant)) / each.waits for each in waiting])
        for variant in ("safe", "unsafe")
    }
    return {
        "programs": f"{len(all_figures)}",
        "lines that make the CPU wait": f"{lines}",
        "  of these, found by the linter": f"{found} ({_share(found, lines)})",
        "findings on waits that were run": f"{confirmed + refuted}",
        "  of these, seen to wait": f"{confirmed} ({_share(confirmed, confirmed + refuted)})",
        "waits that --fix removes (mean)": removed["safe"],
        "  with --unsafe-fixes (mean)": removed["unsafe"],
        "programs with equal results": f"{sum(each.safe_results == EQUAL for each in all_figures)}",
        "  with --unsafe-fixes": f"{sum(each.unsafe_results == EQUAL for each in all_figures)}",
    }


def reasons(lines: Iterable[Line], inherent: Iterable[Inherent], programs: Iterable[Program]) -> str:
    """The waits per step that no change of the code can spare, a line each, with the reason."""
    environments = {each.name: each.environment.name for each in programs}
    known = {each[:3]: each.reason for each in inherent}
    rows = [f"{'waits':>9}  why they are inherent"]
    for line in lines:
        why = known.get((environments.get(line.program, ""), line.path, line.row))
        if why is not None:
            rows.append(f"{line.waits:>9.4g}  {line.program}, {line.path}:{line.row}: {why}")
    return "\n".join(rows)


def by_operator(lines: Iterable[Line]) -> str:
    """What waits on the lines that were missed, and on those that were found."""
    counts: defaultdict[str, list[float]] = defaultdict(lambda: [0, 0, 0.0])
    for line in lines:
        if line.waits:
            missed = line.codes == "missed"
            counts[line.operators][not missed] += 1
            counts[line.operators][2] += line.waits if missed else 0
    rows = [f"{'missed':>7}{'waits':>9}{'found':>7}  what waits"]
    ordered = sorted(counts.items(), key=lambda item: (-item[1][0], item[0]))
    rows += [f"{missed:>7g}{waits:>9.4g}{found:>7g}  {name}" for name, (missed, found, waits) in ordered]
    return "\n".join(rows)


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole else "none"


def _mean(shares: Sequence[float]) -> str:
    return f"{sum(shares) / len(shares):.0%}" if shares else "none"
