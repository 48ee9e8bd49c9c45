"""The benchmark of real training programs: its tables hold together, and the check says where a figure got worse."""

from __future__ import annotations

import hashlib
import importlib
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest

from linting import ROOT
from torchperf_lint import pages
from torchperf_lint.engine import registry

if TYPE_CHECKING:
    from types import ModuleType

FOLDER = ROOT / "benchmarks" / "programs"


def _module(name: str) -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(FOLDER), *sys.path])
        return importlib.import_module(name)


catalogue, figures = _module("catalogue"), _module("figures")
PROGRAMS = catalogue.programs()


def _figures(**changed: Any) -> Any:
    kept = figures.Figures("a", 20, 4.0, 2.0, 1.0, 3, 2, 3.0, 5, 1, "equal", "equal")
    return kept._replace(**changed)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_program_is_pinned_and_leaves_results(program: Any) -> None:
    text = program.script.read_text("utf-8")
    assert re.search(r"^results = ", text, re.MULTILINE)
    pins = {line.split("==")[0].lower() for line in program.environment.lock.read_text("utf-8").split()}
    for requirement in program.environment.requires:
        name, _, version = requirement.partition("==")
        assert version
        assert re.split(r"[\[;]", name)[0].replace("_", "-").lower() in pins
    assert not pins & {"torch", "triton"}


@pytest.mark.parametrize(
    "program", [each for each in PROGRAMS if each.unsafe_differs], ids=lambda program: program.name
)
def test_results_differ_as_the_rules_page_says(program: Any) -> None:
    for code, words in program.unsafe_differs:
        page = pages.page_path(registry.find_rule(code)).read_text("utf-8")
        assert words in " ".join(page.partition("## Fix safety")[2].split()), code


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_program_is_short(program: Any) -> None:
    assert 20 <= len(program.script.read_text("utf-8").splitlines()) <= 60


def test_a_program_takes_few_steps_and_less_than_a_minute() -> None:
    kept, seconds = figures.read_figures(), figures.read_seconds()
    assert seconds.keys() == kept.keys()
    assert figures.out_of_bounds(kept.values()) == []
    assert figures.too_slow(seconds.values()) == []
    short, long = _figures(steps=9), _figures(steps=31)
    said = ["a: 9 steps, of 10 to 30", "a: 31 steps, of 10 to 30"]
    assert figures.out_of_bounds([short, long, _figures()]) == said
    assert figures.too_slow([figures.Seconds("a", 61.0), figures.Seconds("b", 59.0)]) == ["a: 61 seconds"]


def test_first_runs_are_never_edited() -> None:
    """A program that comes to these gives this digest anew; what stands in the other rows stays."""
    rows = figures.FIRST_RUNS.read_bytes()
    assert hashlib.sha256(rows).hexdigest() == "77a22bcdfa49b9df34513ef1ca7920eff6feafc6ba148720c13ae18e6edd278f"


def test_each_program_and_each_lock_is_listed() -> None:
    assert {each.script for each in PROGRAMS} == set((FOLDER / "scripts").glob("*.py"))
    assert {each.environment.lock for each in PROGRAMS} == set((FOLDER / "locks").glob("*.txt"))


@pytest.mark.parametrize("table", ["FIRST_RUNS", "FIGURES"])
def test_each_program_has_its_figures(table: str) -> None:
    assert set(figures.read_figures(getattr(figures, table))) == {each.name for each in PROGRAMS}


def test_the_lines_are_those_of_the_figures() -> None:
    lines = figures.read_lines()
    for name, kept in figures.read_figures().items():
        waiting = [line for line in lines if line.program == name and line.waits]
        found = [line for line in waiting if line.codes != "missed"]
        assert (len(waiting), len(found)) == (kept.lines, kept.found_lines), name
        assert sum(line.waits for line in waiting) == pytest.approx(kept.waits, abs=0.01), name
        assert sum(line.waits for line in found) == pytest.approx(kept.found_waits, abs=0.01), name
        assert sum(line.program == name and not line.waits for line in lines) == kept.refuted, name


def test_what_has_to_wait_has_a_reason_and_waits() -> None:
    inherent = figures.read_inherent()
    environments = {each.name: each.environment.name for each in PROGRAMS}
    assert figures.stale(figures.read_lines(), inherent, environments) == []
    assert all(len(each.reason.split()) > 3 for each in inherent)
    there_is_none = figures.Inherent("no environment", "a.py", 1, "an environment on the host needs its actions")
    assert figures.stale(figures.read_lines(), [there_is_none], environments) == [
        "a.py:1 has a reason to wait, and does not"
    ]


def test_the_reason_stands_beside_what_has_to_wait() -> None:
    (program, *_) = PROGRAMS
    lines = [figures.Line(program.name, "a.py", row, 2.0, "read", "missed") for row in (1, 2)]
    inherent = [figures.Inherent(program.environment.name, "a.py", 2, "the environment on the host needs each action")]
    heading, row = figures.reasons(lines, inherent, PROGRAMS).splitlines()
    assert heading == "    waits  why they are inherent"
    assert row == f"        2  {program.name}, a.py:2: the environment on the host needs each action"


def test_the_committed_reasons_are_printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    run = _module("run")
    monkeypatch.setattr(sys, "argv", ["run.py", "--committed", "--verbose"])
    assert run.main() == 0
    out = capsys.readouterr().out
    for each in figures.read_inherent():
        assert f"{each.path}:{each.row}: {each.reason}\n" in out


def test_no_fix_changes_results_other_than_its_page_says() -> None:
    kept = figures.read_figures()
    assert figures.worse(kept, kept) == []


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"safe": 3.0}, "a: safe 3, 2 before"),
        ({"unsafe": 2.0}, "a: unsafe 2, 1 before"),
        ({"refuted": 2}, "a: refuted 2, 1 before"),
        ({"found_lines": 1}, "a: found_lines 1, 2 before"),
        ({"found_waits": 2.5}, "a: found_waits 2.5, 3 before"),
        ({"confirmed": 4}, "a: confirmed 4, 5 before"),
        ({"lines": 4}, "a: 4 lines wait 4 times per step as the program stands, 3 and 4 before"),
        ({"safe_results": "a dtype differs"}, "a: safe fixes change the results: a dtype differs"),
        ({"unsafe_results": "a dtype differs"}, "a: unsafe fixes change the results: a dtype differs"),
    ],
)
def test_what_got_worse_is_told(changed: dict[str, Any], told: str) -> None:
    assert figures.worse({"a": _figures()}, {"a": _figures(**changed)}) == [told]


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"safe": 0.0},
        {"refuted": 0},
        {"found_lines": 3, "found_waits": 4.0},
        {"unsafe_results": "differ as stated"},
        {"waits": 4.0 + 1 / 20, "safe": 2.0 + 1 / 20},  # one wait more in the whole run
    ],
)
def test_what_is_as_good_or_better_is_not(changed: dict[str, Any]) -> None:
    assert figures.worse({"a": _figures()}, {"a": _figures(**changed)}) == []


def test_the_summary_adds_up() -> None:
    first = _figures(safe_results="a dtype differs", unsafe_results="differ as stated")
    second = _figures(program="b", waits=1.0, safe=1.0, unsafe=0.0, lines=1, found_lines=0, found_waits=0.0)
    silent = _figures(program="c", waits=0.0, safe=0.0, unsafe=0.0, lines=0, found_lines=0, found_waits=0.0, refuted=0)
    assert figures.summary([first, second, silent], {"a": 1.0, "b": 1.0, "c": 0.0}).splitlines() == [
        "3 programs, 2 of them wait in packages' lines",
        "waiting lines found: 2 of 4 (50%)",
        "waits found: 3 of 5 per step (60%)",
        "findings on lines that ran: 15 seen to wait, 2 never (12%)",
        "--fix removes 25% of the waits (mean of 2), 67% of the avoidable ones (mean of 1); 1 are left as they were",
        "--fix --unsafe-fixes removes 88% of the waits (mean of 2), 100% of the avoidable ones (mean of 1); "
        "0 are left as they were",
        "results after safe fixes: equal for 2, differ as the rules' pages say for 0, otherwise for 1",
        "results after unsafe fixes: equal for 2, differ as the rules' pages say for 1, otherwise for 0",
    ]
