"""The small programs: each declares its expected cost, and runs on either device are checked against it."""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import importlib.util
import inspect
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_lint.knowledge.versions import parse_version, satisfies
from torchperf_lint.verify import apart
from torchperf_lint.verify.events import COPIES, Kind, Recorder
from torchperf_lint.verify.workloads import fixtures_root

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from types import ModuleType

    from torchperf_lint.verify.events import Event

INPUTS = "inputs"
"""The module of the inputs that every family may use."""

SIMULATED, CUDA = DEVICES = ("sim", "cuda")
REFUSAL = "NotSimulated"
COUNTS = ("waits", "synchronizations", "staged", "pins", "to_device", "to_host")
COUNTED = (*COUNTS, "error")


class NoInputs(Exception):
    """The inputs of a program could not be made; the text says why."""


# ---- declarations in a family's file


class AtLeast(NamedTuple):
    """A count of which only the lower bound is known."""

    least: int

    def __str__(self) -> str:
        return f">= {self.least}"


Count = int | AtLeast
Declared = Count | dict[str, Count] | None
"""A count, counts by releases (`{"torch<2.7": 1, "torch>=2.13": 0}`; unknown between them), or None: any."""


class Expected(NamedTuple):
    """A program's expected cost, in the fields of `Observed`."""

    waits: Declared = 0
    synchronizations: Declared = 0
    staged: Declared = 0
    pins: Declared = 0
    to_device: Declared = None
    to_host: Declared = None
    raises: type[Exception] | None = None
    says: str = ""  # a part of the exception's message


class Program(NamedTuple):
    """A small program and the source of its expectation."""

    body: Callable[..., object]
    expected: Expected
    source: str
    simulated: bool
    provenance: str


class Given(NamedTuple):
    """The maker of an input that programs and other inputs request by parameter name."""

    make: Callable[..., object]


def at_least(count: int) -> AtLeast:
    """Declare a lower bound."""
    return AtLeast(count)


def program(
    *, source: str = "", simulated: bool = True, provenance: str = "", **expected: Any
) -> Callable[[Callable[..., object]], Program]:
    """Declare a function to be a program; its parameters are inputs, made before counting starts.

    `expected` holds fields of `Expected`. `simulated=False`: the simulated device refuses it. `provenance="simulated"`:
    the expectation was only observed on the simulated device, where it shows nothing but that nothing changed.
    """
    if provenance not in ("", "simulated"):
        raise ValueError(f"no provenance is called {provenance!r}")
    return lambda body: Program(body, Expected(**expected), source, simulated, provenance)


def given(make: Callable[..., object]) -> Given:
    """Declare a function to make an input of its name; a generator is resumed when the program is over."""
    return Given(make)


# ---- observations


class Observed(NamedTuple):
    """A program's cost, and how it ended."""

    waits: int
    synchronizations: int
    staged: int
    pins: int
    copies: dict[str, int]
    astray: int  # events not attributed to a line of the program's file
    errors: list[str]  # the class of the exception that it raised, and its bases; none of a program that ended well
    message: str = ""

    @property
    def to_device(self) -> int:
        """Copies to the device, of every kind."""
        return self._copies(Kind.TO_DEVICE)

    @property
    def to_host(self) -> int:
        """Copies to the host, of every kind."""
        return self._copies(Kind.TO_HOST)

    @property
    def error(self) -> str:
        """The class of the exception, or nothing."""
        return self.errors[0] if self.errors else ""

    def _copies(self, kind: Kind) -> int:
        return sum(count for name, count in self.copies.items() if name.startswith(kind.value))


def observe(events: Sequence[Event], file: str, error: Exception | None = None) -> Observed:
    """Count the events of a program in `file`."""
    copies = Counter(_kind_of_copy(each) for each in events if each.kind in COPIES)
    return Observed(
        waits=sum(each.in_debug_mode for each in events),
        synchronizations=sum(each.kind is Kind.SYNCHRONIZE for each in events),
        staged=sum(each.staged for each in events),
        pins=sum(each.kind is Kind.PIN for each in events),
        copies=dict(sorted(copies.items())),
        astray=sum(each.where.file != file for each in events),
        errors=[] if error is None else [kind.__name__ for kind in type(error).__mro__[:-2]],
        message=str(error or "").partition("\n")[0],
    )


def _kind_of_copy(event: Event) -> str:
    memory = "pinned" if event.pinned else "pageable"
    return f"{event.kind.value}, {memory}, {'asynchronous' if event.asynchronous else 'blocking'}"


def mismatches(expected: Expected, observed: Observed, versions: Mapping[str, str]) -> list[str]:
    """The deviations of a run on these releases from the declaration."""
    found = []
    for name in COUNTS:
        wanted, count = resolve(getattr(expected, name), versions), getattr(observed, name)
        if not (count >= wanted.least if isinstance(wanted, AtLeast) else wanted is None or count == wanted):
            found.append(f"{name}: {count}, declared {wanted}")
    raises = expected.raises.__name__ if expected.raises else ""
    refused = REFUSAL in observed.errors  # which is no mere RuntimeError, though of that class
    if refused or raises not in (observed.errors or [""]) or expected.says not in observed.message:
        declared = f"{raises}: {expected.says}" if expected.says else raises or "nothing"
        found.append(f"raises {observed.error or 'nothing'}: {observed.message}, declared {declared}")
    if observed.astray:
        found.append(f"{observed.astray} events are blamed on other files")
    return found


def resolve(declared: Declared, versions: Mapping[str, str]) -> Count | None:
    """The count that is declared for these releases; None where none is."""
    if not isinstance(declared, dict):
        return declared
    return next((count for releases, count in declared.items() if _fits(releases, versions)), None)


def _fits(releases: str, versions: Mapping[str, str]) -> bool:
    package, specifier = re.fullmatch(r"(\w+)(.+)", releases).groups()  # type: ignore[union-attr]
    return satisfies(parse_version(versions[package]), specifier)


# ---- all programs of the checkout


class Family(NamedTuple):
    """The programs of a file, by name, and the inputs that they may ask for."""

    file: str
    programs: dict[str, Program]
    inputs: dict[str, Given]


def folder() -> Path:
    """Where the small programs lie."""
    return fixtures_root() / "programs"


def families() -> list[Family]:
    """Read all files; makes no input and touches no device."""
    common = _declared(_load(folder() / f"{INPUTS}.py"), Given)
    found = []
    for path in sorted(folder().glob("*.py")):
        if path.stem != INPUTS:
            module = _load(path)
            programs = {f"{path.stem}.{name}": each for name, each in _declared(module, Program).items()}
            found.append(Family(str(path), programs, common | _declared(module, Given)))
    return found


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"small_programs_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _declared(module: ModuleType, kind: type[Any]) -> dict[str, Any]:
    return {name: each for name, each in vars(module).items() if isinstance(each, kind)}


# ---- running them


class Outcome(NamedTuple):
    """A program's run, its step in the recorder, and its deviations."""

    name: str
    program: Program
    step: int
    observed: Observed
    mismatches: list[str]

    def as_json(self) -> dict[str, Any]:
        """What was observed, as plain data."""
        observed = self.observed
        return {
            **{field: getattr(observed, field) for field in COUNTED},
            "copies": observed.copies,
            "message": observed.message,
            "mismatches": self.mismatches,
        }


def run_all(recorder: Recorder, device: str, names: Collection[str] = ()) -> Iterator[Outcome]:
    """Run all or some programs in this process, in order; the recorder already receives the device's events.

    Each program is a step of the recorder, and so is the code between two programs.
    """
    found = families()
    if unknown := sorted(set(names).difference(*(family.programs for family in found))):
        raise LookupError(f"there is no program called {', '.join(unknown)}")
    recorder.active = False
    recorder.begin_step(0)
    releases = versions()
    for family in found:
        for name, each in family.programs.items():
            if not names or name in names:
                _run_once(each, family, recorder)  # libraries load and caches fill
                step, observed = _run_once(each, family, recorder)
                yield Outcome(name, each, step, observed, _judge(each, observed, device, releases))


def _judge(each: Program, observed: Observed, device: str, releases: Mapping[str, str]) -> list[str]:
    if device == SIMULATED and not each.simulated:
        return [] if REFUSAL in observed.errors else ["the simulated device does not refuse it, as is declared"]
    expected = each.expected
    if device != SIMULATED:  # a copy that is made inside C++ shows in a GPU's events as no more than a wait
        expected = expected._replace(to_device=None, to_host=None)
    return mismatches(expected, observed, releases)


def _run_once(each: Program, family: Family, recorder: Recorder) -> tuple[int, Observed]:
    """Run a program on new inputs, with the random generators in a fixed state."""
    import torch

    torch.manual_seed(0)
    with contextlib.ExitStack() as stack:
        error: Exception | None = None
        first = len(recorder.events)
        try:
            inputs = _make_inputs(each.body, family.inputs, {}, stack)
            torch.cuda.synchronize()
        except Exception as raised:
            error = NoInputs(f"{type(raised).__name__}: {raised}")
        step = recorder.begin_step(0)
        if error is None:
            error = _call(each.body, inputs, recorder)
        recorder.begin_step(0)
        return step, observe(recorder.events[first:], family.file, error)


def _call(body: Callable[..., object], inputs: Mapping[str, object], recorder: Recorder) -> Exception | None:
    recorder.active = True
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            body(**inputs)
    except Exception as raised:
        return raised
    finally:
        recorder.active = False
    return None


def _make_inputs(
    asking: Callable[..., object], known: Mapping[str, Given], made: dict[str, object], stack: contextlib.ExitStack
) -> dict[str, object]:
    """The arguments for a function; what several functions ask for is made once."""
    names = list(inspect.signature(asking).parameters)
    for name in names:
        if name not in made:
            make = known[name].make
            needs = _make_inputs(make, known, made, stack)
            if inspect.isgeneratorfunction(make):
                made[name] = stack.enter_context(contextlib.contextmanager(make)(**needs))
            else:
                made[name] = make(**needs)
    return {name: made[name] for name in names}


def _install(device: str, recorder: Recorder) -> None:
    if device == SIMULATED:
        from torchperf_lint.verify import simulated

        simulated.install(recorder)
    else:
        from torchperf_lint.verify import counters

        counters.install(recorder)


def versions() -> dict[str, str]:
    """The releases that an expectation may depend on."""
    return {package: importlib.metadata.version(package) for package in ("torch", "torchmetrics")}


def run_apart(device: str) -> dict[str, dict[str, Any]]:
    """Run all programs in a process of their own; what each `Outcome.as_json` gives, by name."""
    with tempfile.TemporaryDirectory(prefix="torchperf-lint-") as folder:
        report = Path(folder) / "programs.json"
        command = apart.command("torchperf_lint.verify.programs", "--device", device, "--json", str(report))
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment, check=False)
        if not report.is_file():
            raise RuntimeError(f"the small programs did not run to their end:\n{done.stderr}")
        outcomes: dict[str, dict[str, Any]] = json.loads(report.read_text(encoding="utf-8"))
        return outcomes


# ---- python -m torchperf_lint.verify.programs


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the programs and print the table; 1 if one is not as declared."""
    parser = argparse.ArgumentParser(description="Run the small programs and hold each against what it declares.")
    parser.add_argument("--device", choices=DEVICES, default="sim")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write what was observed, too")
    parser.add_argument("programs", nargs="*", metavar="FAMILY.PROGRAM", help="default: all")
    options = parser.parse_args(arguments)
    recorder = Recorder()
    _install(options.device, recorder)
    print(HEADING)
    outcomes = []
    try:
        for each in run_all(recorder, options.device, options.programs):
            outcomes.append(each)
            print(described(each), flush=True)
    except LookupError as error:
        parser.error(str(error))
    wrong = sum(bool(each.mismatches) for each in outcomes)
    print(f"{len(outcomes)} programs, {wrong} not as declared")
    if options.json:
        options.json.write_text(json.dumps({each.name: each.as_json() for each in outcomes}), encoding="utf-8")
    return int(wrong > 0)


def described(outcome: Outcome) -> str:
    """A row of the table, and one for each mismatch."""
    observed = outcome.observed
    wanted = resolve(outcome.program.expected.waits, versions())
    copies = "; ".join(f"{count} {kind}" for kind, count in observed.copies.items())
    line = _row(
        outcome.name,
        "unknown" if wanted is None else wanted,
        observed.waits,
        observed.synchronizations,
        observed.staged,
        observed.pins,
        observed.error,
        copies,
    )
    return "\n".join([line, *(f"    NOT AS DECLARED: {each}" for each in outcome.mismatches)])


def _row(name: object, *columns: object) -> str:
    numbers = "".join(f"{column!s:>9}" for column in columns[:5])
    return f"{name:<52}{numbers}  {columns[5]!s:<14}{columns[6]}".rstrip()


HEADING = _row("program", "declared", "waits", "asked", "staged", "pins", "error", "copies")

if __name__ == "__main__":
    # The families declare their programs with this module, not with __main__.
    from torchperf_lint.verify import programs  # noqa: PLW0406

    sys.exit(programs.main())
