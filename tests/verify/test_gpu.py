"""`make gpu`, rehearsed on the simulated device: what it keeps, in which order, and what it leaves for want of time."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from synthetic import EVALUATION

from linting import ROOT
from torchperf_lint import pages
from torchperf_lint.engine import registry
from torchperf_lint.measurements import SIMULATED
from torchperf_lint.verify import device_comparison, gpu, pairs, runs, step_times, workloads
from torchperf_lint.verify.environments import Release
from torchperf_lint.verify.step_times import StepTimes

CALL = gpu._call


def cases() -> list[pairs.Case]:
    return pairs.cases_of(gpu.workloads_of([]))


pytestmark = pytest.mark.usefixtures("warm_runs")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of rules/ to write to, two workloads of TPL102 and no other, and processes that only say their names."""
    shutil.copytree(ROOT / "rules", tmp_path / "rules")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "rules" / "measurements.json").unlink()
    monkeypatch.setattr(pages, "pages_root", lambda: tmp_path / "rules")
    rule = registry.find_rule("TPL102")
    assert rule is not None
    known = []
    for name in ("run_first.py", "run_second.py"):
        (tmp_path / name).write_text(EVALUATION)
        known.append(workloads.read_workload(tmp_path / name, rule))
    monkeypatch.setattr(gpu, "workloads_of", lambda rules: known)
    monkeypatch.setattr(gpu, "_call", lambda command, clock: [f"called {Path(command[-1]).name}"])
    return tmp_path


def test_a_rule_is_kept_when_all_its_programs_are_done(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.main(["--device", "sim", "--minutes", "5", "--jobs", "2"]) == gpu.NOT_ALL_WELL
    rows = pages.measured()[SIMULATED].rules["TPL102"]
    assert [(row.workload, row.waits) for row in rows] == [
        ("first", {"unfixed": 1.0, "safe": 0.0}),
        ("second", {"unfixed": 1.0, "safe": 0.0}),
    ]
    out = capsys.readouterr().out
    assert "TPL102  first: 1 (+1 staged) -> safe 0 (+1 staged) waits per step; accepted" in out
    assert "not as it should be: called releases" in out
    assert "not as it should be: no GPU's counts are there to hold the simulated device against" in out


def test_a_rule_that_is_not_done_in_time_is_not_kept(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = gpu.Clock(5)
    prove = pairs.prove

    def prove_and_run_out_of_time(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(clock, "_end", 0.0)
        return prove(*arguments, **options)

    monkeypatch.setattr(pairs, "prove", prove_and_run_out_of_time)
    assert list(gpu._count(cases(), "sim", checkout / "releases", 1, clock)) == []
    assert not (checkout / "rules" / "measurements.json").exists()
    assert gpu._left_out([]) == ["not run for want of time: TPL102"]


def test_packages_that_are_installed_can_be_taken_as_they_are() -> None:
    installed, missing = Release("pytest", "0.1"), Release("there-is-no-such-package", "0.1")
    case = cases_of_one(installed, missing)
    assert gpu._with_what_is_installed(case).releases == [Release("torchmetrics", "1.6.1"), missing]


def cases_of_one(*needs: Release) -> pairs.Case:
    rule = registry.find_rule("TPL102")
    assert rule is not None
    return pairs.Case(workloads.Workload(Path("run_x.py"), rule, (), workloads.Agreement(), needs), "1.6.1")


@pytest.mark.slow
def test_times_are_kept_one_by_one_until_the_time_is_up(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = gpu.Clock(5)
    (shown,) = gpu._count(cases(), "sim", checkout / "releases", 2, clock)

    def made_up(proof: pairs.Proof, releases: Path, time_limit: Any, launch: Any) -> StepTimes:
        assert time_limit() == gpu.LONGEST_RUN
        monkeypatch.setattr(clock, "_end", 0.0)
        return StepTimes({"unfixed": 2.0, "safe": 1.5}, {}, {"unfixed": 1, "safe": 1})

    monkeypatch.setattr(step_times, "time_steps", made_up)
    monkeypatch.setattr(gpu.tables, "row", lambda proof, times: "")
    gpu._time([shown], checkout / "releases", clock)
    first, second = pages.measured()[SIMULATED].rules["TPL102"]
    assert (first.step_ms, second.step_ms) == ({"unfixed": 2.0, "safe": 1.5}, {})


@pytest.mark.slow
def test_what_has_no_times_is_timed_first_and_times_stay_with_their_counts(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shown,) = gpu._count(cases(), "sim", checkout / "releases", 2, gpu.Clock(5))
    earlier = [row.workload for row in pages.measured()[SIMULATED].rules["TPL102"]]
    order = []

    def made_up(proof: pairs.Proof, releases: Path, time_limit: Any, launch: Any) -> StepTimes:
        order.append(proof.case.workload.name)
        return StepTimes({"unfixed": 2.0, "safe": 1.5}, {}, {"unfixed": 1, "safe": 1})

    monkeypatch.setattr(step_times, "time_steps", made_up)
    monkeypatch.setattr(gpu.tables, "row", lambda proof, times: "")
    first = shown.proofs[0]
    shown.times[0] = made_up(first, checkout, None, None)
    shown.keep()
    again = gpu.Shown(shown.proofs, {})
    again.keep()
    assert [bool(row.step_ms) for row in pages.measured()[SIMULATED].rules["TPL102"]] == [True, False]
    order.clear()
    gpu._time([again], checkout / "releases", gpu.Clock(5))
    assert order == earlier[::-1]
    counted_otherwise = first.runs["safe"]._replace(report={**first.runs["safe"].report, "events": []})
    other = first._replace(runs={"unfixed": counted_otherwise, "safe": first.runs["safe"]})
    gpu.Shown([other, shown.proofs[1]], {}).keep()
    assert [bool(row.step_ms) for row in pages.measured()[SIMULATED].rules["TPL102"]] == [False, True]


def test_a_proof_that_the_end_of_the_time_cuts_off_is_not_kept(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_the_first = gpu.workloads_of([])[:1]
    monkeypatch.setattr(gpu, "workloads_of", lambda rules: only_the_first)
    clock = gpu.Clock(5)
    limits = []

    def cut_off(command: Any, folder: Path, environment: Any, time_limit: float) -> Any:
        limits.append(time_limit)
        monkeypatch.setattr(clock, "_end", 0.0)
        raise subprocess.TimeoutExpired(command, time_limit)

    monkeypatch.setattr(runs, "_launch", cut_off)
    monkeypatch.setattr(gpu, "warm_launches", lambda *given: contextlib.nullcontext(lambda: None))
    assert list(gpu._count(cases(), "sim", checkout / "releases", 1, clock)) == []
    assert limits == [gpu.LONGEST_RUN, 0.0]
    assert not (checkout / "rules" / "measurements.json").exists()


@pytest.mark.slow
def test_all_stages_in_processes_of_their_own(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu, "_call", CALL)
    monkeypatch.setattr(gpu, "REAL_PROGRAMS", ROOT / gpu.REAL_PROGRAMS)
    status = gpu.main(["--device", "sim", "--minutes", "15", "--jobs", "2"])
    out, err = capfd.readouterr()
    assert (status, err) == (gpu.ALL_WELL, "")
    for part in ("programs", "experiments"):
        assert f"wrote the {part} into " in out
    assert "TPL102  second: 1 (+1 staged) -> safe 0 (+1 staged) waits per step; accepted" in out
    assert "0 programs, 0 of them wait in packages' lines" in out
    assert "0 remarks, " in out
    assert not device_comparison.stored().exists() or "simulated" not in device_comparison.stored().read_text()


@pytest.mark.parametrize(
    ("code", "minutes", "remarks"),
    [
        ("", 5, []),
        ("raise SystemExit(3)", 5, ["exit status 3: -c raise SystemExit(3)"]),
        ("import time; time.sleep(60)", 0.01, ["cut off for want of time: -c import time; time.sleep(60)"]),
        ("", 0, ["not run for want of time: -c "]),
    ],
)
def test_what_a_process_comes_to_is_told(code: str, minutes: float, remarks: list[str]) -> None:
    assert gpu._call([sys.executable, "-c", code], gpu.Clock(minutes)) == remarks


def test_without_a_gpu_nothing_is_run(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if gpu.device_comparison.gpu_name() is None:
        assert gpu.main([]) == gpu.NOT_RUN
        assert capsys.readouterr().err == "make gpu: error: there is no CUDA GPU here\n"
