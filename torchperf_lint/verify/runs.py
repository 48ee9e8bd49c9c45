"""Runs a program in a process of its own, and derives counts from its report."""

from __future__ import annotations

import functools
import json
import os
import re
import signal
import subprocess
import tempfile
from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from torchperf_lint.verify import apart
from torchperf_lint.verify.child import FAILED, OK, nothing_ran
from torchperf_lint.verify.events import COPIES, KERNELS, Event, Kind, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import IO

TIME_LIMIT = 300.0
"""Seconds after which a run counts as failed."""

PROGRAMS_ALIKE = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
"""The environment of compared programs. On shared cores, the threads of small operators slow each other down."""

_WARNING = re.compile(r"^(?:.*:\d+: )?(\w*Warning: .*)$", re.MULTILINE)
_WHOLE_WARNING = re.compile(r"^.*:\d+: \w*Warning: (?:.*\n(?:(?!  ).*\n)*?(?:  .*\n)+|.*\n?)", re.MULTILINE)


class Counts(NamedTuple):
    """Counts per step: the averages over the steady steps of each loop, summed over the loops.

    For a run without steady steps these are totals.
    """

    waits: Fraction
    staged: Fraction
    to_device: Fraction
    to_host: Fraction
    operators: Fraction

    @property
    def of_transfers(self) -> tuple[Fraction, ...]:
        """The counts that a fix can reduce."""
        return self.waits, self.staged, self.to_device, self.to_host


class Line(NamedTuple):
    """A line of the program that makes the host wait, or may: how often per step of its loop, and its event."""

    where: Place
    via: Place | None
    operator: str
    waits: Fraction
    staged: Fraction


class Loop(NamedTuple):
    """A loop of the program, by the line that fetches its batches; None where there are no steady steps.

    `steps` is the number of counted steps. The lines' counts are averages over them, or totals where there are none.
    """

    where: Place | None
    steps: int
    lines: list[Line]

    @property
    def waits(self) -> Fraction:
        """How often the host waits per step."""
        return sum((line.waits for line in self.lines), Fraction(0))

    @property
    def staged(self) -> Fraction:
        """How many copies per step may wait."""
        return sum((line.staged for line in self.lines), Fraction(0))


class Run(NamedTuple):
    """A program's run: the child's report, what it printed, and digests of the files that it left."""

    report: dict[str, Any]
    stdout: str
    stderr: str
    written: dict[str, str] = {}  # noqa: RUF012 - never written to

    @property
    def status(self) -> str:
        """`ok`, `failed` or `not simulated`."""
        return str(self.report["status"])

    @property
    def steady(self) -> dict[int, Place]:
        """The counted steps, each with its loop's line."""
        return {step: Place(*place) for step, *place in self.report["steady"]}

    @property
    def events(self) -> list[Event]:
        """All waits and copies, in order."""
        return [Event.from_json(each) for each in self.report["events"]]

    @property
    def processes(self) -> int:
        """The number of processes that it started."""
        return int(self.report["processes"])

    @property
    def worker_threads(self) -> int:
        """The number of threads that libraries started in these processes."""
        return int(self.report["worker_threads"])

    @property
    def host_bytes(self) -> int:
        """The bytes of all tensors that host operators created; 0 if not counted."""
        return int(self.report["host_bytes"])

    @property
    def overwritten(self) -> list[Place]:
        """The lines of asynchronous copies whose source is overwritten too early, one entry per copy."""
        return [Place(*place) for place in self.report["overwritten"]]

    @property
    def handed(self) -> dict[str, list[list[str]]]:
        """By sink, the kinds of the arguments of each call of `print` or of a logger."""
        return dict(self.report["handed"])

    @property
    def warnings(self) -> Counter[str]:
        """The warnings on standard error, without their places."""
        return Counter(_WARNING.findall(self.stderr))

    @property
    def remarks(self) -> str:
        """The rest of standard error: warnings name rows, which a fix may shift."""
        return _WHOLE_WARNING.sub("", self.stderr)

    def counts(self) -> Counts:
        """The averages over the steady steps."""
        sums = dict.fromkeys(Counts._fields, Fraction(0))
        for each, share in self._shares(self.events):
            sums["waits"] += share * each.waits
            sums["staged"] += share * each.staged
            sums["to_device"] += share * (each.kind is Kind.TO_DEVICE)
            sums["to_host"] += share * (each.kind in (Kind.TO_HOST, Kind.READ))
        calls = [_Calls(step, count) for step, *_, count in self.report["operators"]]
        sums["operators"] = sum((share * each.times for each, share in self._shares(calls)), Fraction(0))
        return Counts(**sums)

    def other_counts(self) -> dict[str, Fraction]:
        """Other costs than waits and copies.

        Per step: bytes copied between host and device, and device operators. Between steps: nodes of live graphs. In
        total: started processes, threads that libraries start in them, bytes that host operators allocate, and
        warnings. A real device's operators are the kernels of the profiled steps.
        """
        nodes = [alive for step, alive in self.report["nodes"] if step in self.steady]
        copied = [(each.nbytes, share) for each, share in self._shares(self.events) if each.kind in COPIES]
        return {
            "bytes copied": sum((share * nbytes for nbytes, share in copied), Fraction(0)),
            "operators": self._operators(),
            "graph nodes kept": Fraction(sum(nodes), len(nodes) or 1),
            "processes started": Fraction(self.processes),
            "threads in workers": Fraction(self.worker_threads),
            "bytes made on the host": Fraction(self.host_bytes),
            "warnings": Fraction(self.warnings.total()),
        }

    def _operators(self) -> Fraction:
        profiled = [each["runtime"] for each in self.report["counters"].get("steps", ()) if each.get("runtime")]
        if profiled:
            return Fraction(sum(each.get(KERNELS, 0) for each in profiled), len(profiled))
        calls = [_Calls(step, count) for step, count in self.report["operators_in"]]
        return sum((share * each.times for each, share in self._shares(calls)), Fraction(0))

    def lines(self) -> list[Line]:
        """The lines that wait or may wait in the steady steps of any loop, worst first."""
        return _lines(self._shares(self.events))

    def loops(self) -> list[Loop]:
        """The loops with steady steps, in step order, each with its lines, worst first."""
        steady = self.steady
        if not steady:
            return [Loop(None, 0, self.lines())]
        happened: dict[Place, list[tuple[Event, Fraction]]] = {place: [] for place in steady.values()}
        for each, share in self._shares(self.events):
            if each.step is not None:
                happened[steady[each.step]].append((each, share))
        lengths = Counter(steady.values())
        return [Loop(place, lengths[place], _lines(events)) for place, events in happened.items()]

    def _shares(self, happened: Iterable[_Timed]) -> Iterator[tuple[_Timed, Fraction]]:
        """The events in steady steps, each weighted by one over its loop's steps."""
        steady = self.steady
        lengths = Counter(steady.values())
        for each in happened:
            if each.step in steady:
                yield each, Fraction(1, lengths[steady[each.step]])
            elif not steady:
                yield each, Fraction(1)


def _lines(happened: Iterable[tuple[Event, Fraction]]) -> list[Line]:
    """The lines that wait or may wait, from weighted events, worst first."""
    waits: dict[tuple[Place, Place | None, str], Fraction] = defaultdict(Fraction)
    staged: dict[tuple[Place, Place | None, str], Fraction] = defaultdict(Fraction)
    for each, share in happened:
        key = each.where, each.via, each.operator
        waits[key] += share * each.waits
        staged[key] += share * each.staged
    found = [Line(*key, waits[key], staged[key]) for key in waits if waits[key] or staged[key]]
    return sorted(found, key=lambda line: (-line.waits, -line.staged, line.where))


class _Calls(NamedTuple):
    """How often an operator was called in a step."""

    step: int | None
    times: int


_Timed = TypeVar("_Timed", Event, _Calls)


def run_program(
    script: Path,
    device: str,
    arguments: Sequence[str] = (),
    *,
    libraries: Sequence[Path] = (),
    include: Sequence[str] = (),
    instead: Iterable[tuple[str, str]] = (),
    python: str | None = None,
    mode: str = "count",
    steps: int | None = None,
    operators: bool = False,
    host_bytes: bool = False,
    rows: bool = False,
    live: bool = False,
    output: IO[Any] | None = None,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    time_limit: float | None = TIME_LIMIT,
    launch: Launch | None = None,
) -> Run:
    """Run a script on `sim` or `cuda` in a process of its own, with these library folders first on its module path.

    The packages, files and folders to `include` count as the user's own code. `instead` are pairs of folders: where the
    module path has the first, the second is put before it. `python` is the interpreter, ours by default: its
    environment needs torch, but not this package.
    A `live` run is the user's own: it prints to `output` or directly, has no time limit, and keeps its normal folder
    and threads. Other runs use `folder` (default: the script's) and these additions to the `environment`; `launch`
    starts them, in its own way and with its own time limit.
    """
    with tempfile.TemporaryDirectory(prefix="torchperf-lint-") as place:
        report = Path(place) / "report.json"
        command = apart.command("torchperf_lint.verify.child", "--device", device, "--mode", mode, python=python)
        command += ["--report", str(report)]
        command += ["--operators"] if operators else []
        command += ["--host-bytes"] if host_bytes else []
        command += ["--rows"] if rows else []
        command += [f"--library={each}" for each in libraries]
        command += [f"--include={each}" for each in include]
        command += [part for pair in instead for part in ("--instead", *pair)]
        command += [f"--steps={steps}"] if steps is not None else []
        command += [] if live else ["--seed=0", "--outcome"]
        command += ["--upkeep", "--outputs"] if mode == "count" and not live else []
        command += [str(script), *arguments]
        variables = _environment(libraries, live=live) | dict(environment or {})
        if live:
            status, stdout, stderr = _wait_for(command, variables, output), "", ""
        else:
            try:
                launch = launch or functools.partial(_launch, time_limit=time_limit)
                status, stdout, stderr = launch(command, folder or script.parent, variables)
            except subprocess.TimeoutExpired as late:
                return _broken(f"it did not end within {late.timeout:.0f} seconds")
        if not report.is_file():
            end = (stderr.strip().splitlines() or [_ended_by(status)])[-1]
            return _broken(f"the process died: {end}", stdout, stderr)
        return Run(json.loads(report.read_text(encoding="utf-8")), stdout, stderr)


class Finished(NamedTuple):
    """A process's exit status and output."""

    status: int
    stdout: str
    stderr: str


if TYPE_CHECKING:
    Launch = Callable[[Sequence[str], Path, Mapping[str, str]], Finished]
    """Runs a command in a folder with an environment, to its end; may raise TimeoutExpired of `subprocess`."""


def _launch(command: Sequence[str], folder: Path, environment: Mapping[str, str], time_limit: float | None) -> Finished:
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=time_limit,
        check=False,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def _wait_for(command: Sequence[str], environment: dict[str, str], output: IO[Any] | None) -> int:
    """Run a command to its end, also after an interrupt, which the command receives itself and may need to clean up."""
    process = subprocess.Popen(command, env=environment, stdout=output)
    interrupted = False
    while process.returncode is None:
        try:
            process.wait()
        except KeyboardInterrupt:
            interrupted = True
    if interrupted:
        raise KeyboardInterrupt
    return process.returncode


def _ended_by(status: int) -> str:
    if status >= 0:
        return f"exit status {status} before its report was written"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def _environment(libraries: Sequence[Path], *, live: bool) -> dict[str, str]:
    environment = dict(os.environ)
    if live:
        return environment
    # Relative entries refer to this process's folder, and the program runs in another one.
    inherited = environment.get("PYTHONPATH")
    path = [*map(str, libraries), *(map(os.path.abspath, inherited.split(os.pathsep)) if inherited else ())]
    return environment | {"PYTHONPATH": os.pathsep.join(path), **PROGRAMS_ALIKE}


def _broken(error: str, stdout: str = "", stderr: str = "") -> Run:
    return Run(nothing_ran(FAILED, error), stdout, stderr)


__all__ = ["OK", "PROGRAMS_ALIKE", "TIME_LIMIT", "Counts", "Finished", "Launch", "Line", "Loop", "Run", "run_program"]
