"""Every small program costs on the simulated device what it declares, and what is not as declared is seen."""

from __future__ import annotations

import ast
import collections
import inspect
import subprocess
import sys

import pytest

from torchperf_lint.verify import programs
from torchperf_lint.verify.events import Event, Kind, Place
from torchperf_lint.verify.programs import Expected, Observed, at_least, mismatches, observe, program

DECLARED = {name: each for family in programs.families() for name, each in family.programs.items()}
RELEASES = {"torch": "2.13.0+cpu", "torchmetrics": "1.9.0"}
NOTHING = Observed(waits=0, synchronizations=0, staged=0, pins=0, copies={}, astray=0, errors=[])


@pytest.fixture(scope="module")
def outcomes():
    return programs.run_apart(programs.SIMULATED)


@pytest.mark.parametrize("name", DECLARED)
def test_costs_what_it_declares(name, outcomes):
    assert outcomes[name]["mismatches"] == []


def test_nothing_else_was_run(outcomes):
    assert list(outcomes) == list(DECLARED)


@pytest.mark.parametrize("path", sorted(programs.folder().glob("*.py")), ids=lambda path: path.stem)
def test_no_name_hides_another(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = collections.Counter(each.name for each in tree.body if isinstance(each, ast.FunctionDef))
    assert [name for name, count in names.items() if count > 1] == []


def test_every_input_is_asked_for():
    for family in programs.families():
        bodies = [each.body for each in family.programs.values()] + [each.make for each in family.inputs.values()]
        asked = {name for body in bodies for name in inspect.signature(body).parameters}
        own = {name for name, each in family.inputs.items() if each.make.__code__.co_filename == family.file}
        assert own <= asked, f"{family.file}: nothing asks for {own - asked}"


def test_most_declare_how_often_they_wait():
    releases = programs.versions()
    waits = [programs.resolve(each.expected.waits, releases) for each in DECLARED.values()]
    assert sum(count is not None for count in waits) >= 140
    assert sum(count == 0 for count in waits) >= 60, "too few that only look as if they waited"
    exact = [count for count in waits if isinstance(count, int)]
    assert len(exact) >= 0.8 * len(waits), "too many lower bounds"


def test_what_only_the_simulated_device_says_is_rare():
    circular = [name for name, each in DECLARED.items() if each.provenance]
    assert len(circular) <= 0.02 * len(DECLARED), circular


def test_fields_are_the_observed_ones():
    assert set(Expected._fields) - {"raises", "says"} == set(programs.COUNTS) <= set(dir(NOTHING))


# ---- each kind of mismatch is seen


@pytest.mark.parametrize(
    ("expected", "observed", "said"),
    [
        (Expected(), NOTHING, []),
        (Expected(waits=1), NOTHING, ["waits: 0, declared 1"]),
        (Expected(), NOTHING._replace(waits=1), ["waits: 1, declared 0"]),
        (Expected(waits=at_least(2)), NOTHING._replace(waits=3), []),
        (Expected(waits=at_least(2)), NOTHING._replace(waits=1), ["waits: 1, declared >= 2"]),
        (Expected(), NOTHING._replace(synchronizations=1), ["synchronizations: 1, declared 0"]),
        (Expected(synchronizations=None), NOTHING._replace(synchronizations=1), []),
        (Expected(), NOTHING._replace(staged=1), ["staged: 1, declared 0"]),
        (Expected(pins=1), NOTHING, ["pins: 0, declared 1"]),
        (Expected(to_device=1), NOTHING, ["to_device: 0, declared 1"]),
        (Expected(to_host=0), NOTHING._replace(copies={"to host, pinned, blocking": 2}), ["to_host: 2, declared 0"]),
        (Expected(), NOTHING._replace(copies={"to host, pinned, blocking": 2}), []),
        (Expected(), NOTHING._replace(astray=2), ["2 events are blamed on other files"]),
        (Expected(raises=TypeError), NOTHING, ["raises nothing: , declared TypeError"]),
        (
            Expected(),
            NOTHING._replace(errors=["KeyError", "LookupError"], message="'x'"),
            ["raises KeyError: 'x', declared nothing"],
        ),
        (Expected(raises=LookupError), NOTHING._replace(errors=["KeyError", "LookupError"]), []),
        (Expected(raises=KeyError, says="'x'"), NOTHING._replace(errors=["KeyError"], message="no 'x'"), []),
        (
            Expected(raises=KeyError, says="'y'"),
            NOTHING._replace(errors=["KeyError"], message="no 'x'"),
            ["raises KeyError: no 'x', declared KeyError: 'y'"],
        ),
        (
            Expected(raises=RuntimeError),
            NOTHING._replace(errors=["NotSimulated", "RuntimeError"], message="streams"),
            ["raises NotSimulated: streams, declared RuntimeError"],
        ),
        (
            Expected(raises=KeyError),
            NOTHING._replace(errors=["LookupError"]),
            ["raises LookupError: , declared KeyError"],
        ),
    ],
)
def test_mismatches(expected, observed, said):
    assert mismatches(expected, observed, RELEASES) == said


@pytest.mark.parametrize(
    ("torch", "count"), [("1.13.1", 2), ("2.6.0+cu124", 2), ("2.7", None), ("2.12.1", None), ("2.13.0", 0)]
)
def test_counts_by_release(torch, count):
    declared = {"torch<=2.6": 2, "torch>=2.13": 0}
    assert programs.resolve(declared, {"torch": torch}) == count


def test_a_count_of_no_release_is_not_held_against_anything():
    assert mismatches(Expected(waits={"torchmetrics<1": 1}), NOTHING._replace(waits=5), RELEASES) == []


def test_events_are_counted_by_what_they_are():
    here, elsewhere = Place("here.py", 1), Place("elsewhere.py", 1)

    def event(kind, where=here, **more):
        return Event(kind, "operator", None, where, None, **{"waits": False, **more})

    observed = observe(
        [
            event(Kind.READ, waits=True),
            event(Kind.TO_DEVICE, waits=True),
            event(Kind.TO_DEVICE, asynchronous=True),
            event(Kind.TO_HOST, asynchronous=True, pinned=True),
            event(Kind.SYNCHRONIZE, waits=True),
            event(Kind.PIN, elsewhere),
        ],
        "here.py",
        UnicodeError("first line\nsecond line"),
    )
    assert observed == Observed(
        waits=2,
        synchronizations=1,
        staged=1,
        pins=1,
        copies={
            "to device, pageable, asynchronous": 1,
            "to device, pageable, blocking": 1,
            "to host, pinned, asynchronous": 1,
        },
        astray=1,
        errors=["UnicodeError", "ValueError", "Exception"],
        message="first line",
    )
    assert (observed.to_device, observed.to_host, observed.error) == (2, 1, "UnicodeError")


def test_a_field_that_does_not_exist_cannot_be_declared():
    with pytest.raises(TypeError):
        program(wait=1)(lambda: None)
    with pytest.raises(ValueError, match="provenance"):
        program(provenance="measured")


# ---- the command


@pytest.mark.slow
def test_names_choose_programs_and_a_wrong_one_is_an_error():
    done = _run("scalars.item", "copies.cpu")
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["program", "copies.cpu", "scalars.item", "2"]
    done = _run("scalars.item", "no.such")
    assert done.returncode == 2
    assert done.stderr.endswith("there is no program called no.such\n")


def test_a_program_that_is_not_as_declared_is_a_failure(tmp_path):
    (tmp_path / "inputs.py").write_text(_INPUTS, encoding="utf-8")
    (tmp_path / "wrong.py").write_text(_WRONG, encoding="utf-8")
    done = _run(folder=tmp_path)
    assert done.returncode == 1
    assert [line.strip() for line in done.stdout.splitlines() if "NOT AS DECLARED" in line] == [
        "NOT AS DECLARED: waits: 1, declared 0",
        "NOT AS DECLARED: raises NoInputs: ZeroDivisionError: division by zero, declared nothing",
        "NOT AS DECLARED: the simulated device does not refuse it, as is declared",
    ]
    assert done.stdout.splitlines()[-1] == "5 programs, 3 not as declared"


_INPUTS = """\
import torch
from torchperf_lint.verify.programs import given

@given
def scalar():
    return torch.tensor(1.0, device="cuda")
"""
_WRONG = """\
from torchperf_lint.verify.programs import given, program

@given
def impossible():
    return 1 / 0

@given
def kept(scalar):
    yield scalar * 2
    scalar.item()

@program(waits=0)
def reads(scalar):
    scalar.item()

@program()
def has_no_inputs(impossible):
    pass

@program(simulated=False)
def is_not_refused(scalar):
    scalar + 1

@program(waits=1)
def reads_as_declared(kept, scalar):
    assert kept.item() == 2 * 1

@program(waits=0)
def what_the_inputs_cost_is_not_counted(kept):
    kept + 1
"""


def _run(*names, folder=None):
    code = "import pathlib, sys; from torchperf_lint.verify import programs;"
    if folder is not None:
        code += f"programs.folder = lambda: pathlib.Path({str(folder)!r});"
    code += "sys.exit(programs.main(sys.argv[1:]))"
    return subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True, check=False)
