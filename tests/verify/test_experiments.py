"""The articles' experiments: what the programs count on the simulated device, and how claims are judged."""

from __future__ import annotations

import ast
import contextlib
import os

import pytest
from synthetic import event
from synthetic import run as made_up_run

from torchperf_lint.engine import registry
from torchperf_lint.engine.runner import check_source
from torchperf_lint.knowledge.hints import Hints
from torchperf_lint.knowledge.versions import Target
from torchperf_lint.verify import article_claims, environments, experiments
from torchperf_lint.verify.experiments import FAILS, HOLDS, NOT_COUNTABLE, NOT_VERIFIABLE, Row
from torchperf_lint.verify.workloads import fixtures_root

SCRIPTS = sorted((fixtures_root() / "experiments").glob("*.py"))
PROGRAMS = {program.script for claim in article_claims.CLAIMS for program in claim.programs.values()}
GOAL = next(claim for claim in article_claims.METRIC_COLLECTION if claim.ours)


def _rows(asked, folder, *, device="sim"):
    """The claims on this machine, with the torchmetrics that is installed."""
    asked = [claim._replace(releases=(None,)) for claim in asked]
    return experiments.run_claims(asked, device, folder, os.cpu_count() or 1)


# ---- on the simulated device


@pytest.fixture(scope="module")
def row(tmp_path_factory, launch):
    """A claim's row with the torchmetrics that is installed; every program is run once."""
    folder = tmp_path_factory.mktemp("experiments")
    laboratory = experiments._Laboratory("sim", folder / "releases", folder, lambda: launch)
    return lambda claim: laboratory.row(claim, None)


@pytest.mark.slow
def test_one_command_takes_the_naive_metric_loop_to_the_baseline(row):
    goal = row(GOAL)
    assert goal.counts == {"naive": 2, "fixed": 0, "no metrics": 0}
    assert goal.verdict == HOLDS, goal.remark
    assert (goal.device, goal.step_times) == ("sim", {})


@pytest.mark.slow
def test_metrics_by_hand_and_timers(row):
    asked = (row(claim) for claim in article_claims.METRIC_COLLECTION if claim is not GOAL)
    eight, weight, unchecked, on_host, on_device, nccl = asked
    assert (eight.verdict, eight.counts["naive"]) == (FAILS, 2)
    assert (weight.verdict, weight.counts["weight given"]) == (FAILS, 2), "the default weight costs nothing since 1.6.2"
    assert (unchecked.verdict, unchecked.counts["weight given, no NaN test"]) == (HOLDS, 0)
    assert (on_host.verdict, on_host.counts) == (HOLDS, {"mean on the host": 0})
    assert (on_device.verdict, on_device.counts) == (HOLDS, {"numbers": 3, "tensors": 0, "mean on the host": 0})
    assert (nccl.verdict, nccl.counts) == (HOLDS, {"does not ask": 0})


@pytest.mark.slow
def test_digits(row):
    rows = [row(claim) for claim in article_claims.DIGITS]
    assert [row.verdict for row in rows] == [HOLDS, FAILS, HOLDS, HOLDS]
    assert rows[1].counts == {"naive": 5, "advised": 7}
    assert rows[2].counts == {"naive": 5, "fixed": 0, "baseline": 0}
    assert rows[3].counts == {"advised": 7, "fixed": 0}


@pytest.mark.slow
def test_tips(row):
    rows = [row(claim) for claim in article_claims.TIPS]
    together, pinned, reads, built, gradients = rows[:5]
    assert together.counts == {"ignored": 6, "fixed": 1, "followed": 0}
    assert pinned.counts == {"ignored": 2, "fixed": 0, "followed": 0}
    assert reads.counts == {"ignored": 3, "fixed": 1, "followed": 0}
    assert built.counts == {"ignored": 1, "fixed": 0, "followed": 0}
    assert gradients.counts == {"ignored": 10, "fixed": 0, "followed": 0}
    assert {row.verdict for row in rows[:5]} == {HOLDS}
    assert {row.verdict for row in rows[5:]} == {NOT_COUNTABLE}


@pytest.mark.slow
def test_the_input_pipelines_variants_agree_and_are_judged():
    rows = experiments.run_input_pipeline(["--samples", "32", "--rounds", "3"])
    assert [row.unit for row in rows] == [experiments.CPU_TIME] * 4
    assert all(row.counts["slow"] == 1 and row.device == "cpu" for row in rows), rows
    # Whether a claim holds is a matter of times, which a busy machine changes.
    assert {row.verdict for row in rows} <= {HOLDS, FAILS}, rows


# ---- how claims are judged


@pytest.fixture
def laboratory(monkeypatch):
    """What programs are said to do, by script; nothing is run."""
    runs = {}
    monkeypatch.setattr(experiments, "run_program", lambda script, *_, **__: runs[script.name](script))
    monkeypatch.setattr(experiments, "warm_launches", lambda device: contextlib.nullcontext(lambda: None))
    return runs


def _waits(number, **more):
    return lambda script: made_up_run([event(step=step) for step in range(4) for _ in range(number)], **more)


def _claim(*scripts, **more):
    programs = {name: article_claims.Program(f"{name}.py") for name in scripts}
    return article_claims.Claim("000", "claimed", programs, lambda waits: waits[scripts[0]] == 2, **more)


@pytest.fixture
def scripts(tmp_path, monkeypatch):
    """A folder of the scripts `one.py` and `other.py`."""
    folder = tmp_path / "experiments"
    folder.mkdir()
    for name in ("one", "other"):
        (folder / f"{name}.py").write_text("")
    monkeypatch.setattr(experiments, "fixtures_root", lambda: tmp_path)


def _judged(claim, folder, **more):
    (row,) = _rows([claim], folder, **more)
    return row.verdict, row.remark


@pytest.mark.usefixtures("scripts")
def test_a_claim_holds_only_with_its_counts_and_equal_results(laboratory, tmp_path):
    laboratory.update({"one.py": _waits(2), "other.py": _waits(0)})
    claim = _claim("one", "other", alike=("one", "other"), remark="remarked")
    assert _judged(claim, tmp_path) == (HOLDS, "remarked")
    laboratory["one.py"] = _waits(3)
    assert _judged(claim, tmp_path) == (FAILS, "remarked")
    laboratory["one.py"] = _waits(2, results=5)
    assert _judged(claim, tmp_path) == (FAILS, "results: 5 became 1; remarked")
    laboratory["one.py"] = _waits(2, stdout="2\n")
    assert _judged(claim, tmp_path) == (FAILS, "the outputs differ; remarked")
    laboratory["one.py"] = _waits(2, results=None)
    assert _judged(claim, tmp_path) == (FAILS, "there are no results to compare; remarked")


@pytest.mark.usefixtures("scripts")
def test_what_cannot_be_run_is_not_verified(laboratory, tmp_path):
    claim = _claim("one")
    laboratory["one.py"] = _waits(2, status="failed", error="boom")
    assert _judged(claim, tmp_path) == (NOT_VERIFIABLE, "one.py: failed: boom")
    laboratory["one.py"] = _waits(0, steady=())
    assert _judged(claim, tmp_path) == (NOT_VERIFIABLE, "one.py has no steps to count over")


@pytest.mark.usefixtures("scripts")
def test_a_program_that_is_to_fail_must_fail_as_claimed(laboratory, tmp_path):
    programs = {"asks": article_claims.Program("one.py", fails="No backend")}
    claim = article_claims.Claim("000", "claimed", programs, lambda waits: not waits)
    laboratory["one.py"] = _waits(0, status="failed", error="RuntimeError: No backend here")
    assert _judged(claim, tmp_path) == (HOLDS, "")
    laboratory["one.py"] = _waits(0)
    assert _judged(claim, tmp_path) == (NOT_VERIFIABLE, "one.py should fail with `No backend`: it did not")
    laboratory["one.py"] = _waits(0, status="failed", error="boom")
    assert _judged(claim, tmp_path) == (NOT_VERIFIABLE, "one.py should fail with `No backend`: boom")


@pytest.mark.usefixtures("scripts")
def test_a_missing_release_is_not_verified(monkeypatch, tmp_path):
    def unavailable(releases, folder):
        raise environments.Unavailable(f"no {', '.join(map(str, releases))}")

    monkeypatch.setattr(environments, "folders_of", unavailable)
    (row,) = experiments.run_claims([_claim("one", releases=("1.6.1",))], "sim", tmp_path, 1)
    assert (row.torchmetrics, row.verdict, row.remark) == ("1.6.1", NOT_VERIFIABLE, "no torchmetrics 1.6.1")


@pytest.mark.usefixtures("scripts")
def test_operators_are_counted_on_the_simulated_device_only(tmp_path):
    claim = _claim("one", unit=article_claims.OPERATORS)
    assert _judged(claim, tmp_path, device="cuda") == (
        NOT_COUNTABLE,
        "operators are counted on the simulated device only",
    )


def test_figures_of_the_input_pipeline_are_judged_by_the_median_of_the_rounds_ratios():
    slow, shifts = [2.0, 4.0, 6.0], [1.0, 2.0, 9.0]
    seconds = dict.fromkeys((saving.variant for saving in article_claims.SAVINGS), slow) | {"slow": slow}
    here = seconds | {"dilation by shifts": shifts}
    rows = experiments.judged_savings({"here": here, "in all processes": here | {"two workers": [4.0, 8.0, 12.0]}})
    assert rows[0].counts == {"slow": 1, "dilation by shifts": 0.5}
    assert rows[3].counts == {"slow": 1, "two workers": 1, "two workers, in all processes": 2}
    assert [row.verdict for row in rows] == [HOLDS, FAILS, HOLDS, FAILS]


# ---- the table


def test_what_was_not_measured_is_a_dash():
    simulated = Row("000", "claimed", True, "1.9.0", article_claims.WAITS, "sim", {"naive": 3}, {}, HOLDS, "so it is")
    heading, rule, *lines = [line for line in experiments.table([simulated]).splitlines() if line.strip()]
    assert heading.split("  ")[0].strip() == "article"
    assert set(rule.strip()) == {"─"}
    assert lines[0].split()[:6] == ["ours,", "000", "claimed", "(torchmetrics", "1.9.0)", "naive"]
    assert lines[0].count("- (not measured)") == 2
    assert "holds: so it is" in lines[0]
    measured = simulated._replace(device="cuda", step_times={"naive": 1.2, "baseline": 1})
    text = experiments.table([measured])
    assert text.count("- (not measured)") == 1
    assert "naive 1.2" in text


# ---- the programs


def test_every_script_belongs_to_a_claim():
    assert {path.name for path in SCRIPTS} == {*PROGRAMS, article_claims.PIPELINE}


def test_every_tip_is_marked_where_it_can_be_followed():
    texts = {path.name: path.read_text(encoding="utf-8") for path in SCRIPTS}
    for tip in filter(None, (claim.at_tip for claim in article_claims.TIPS)):
        assert experiments.marked_rows(texts["tips_ignored.py"], tip), tip
    assert experiments.marked_rows("a\nb  # tip: x\n# tip: x y\n", "x") == {2}


EXPECTED = {
    "digits_advised.py": "TPL102 TPL102 TPL203 TPL203 TPL203 TPL203 TPL401 TPL401 TPL402 TPL606",
    "digits_baseline.py": "TPL401 TPL401",
    "digits_naive.py": "TPL102 TPL203 TPL203 TPL203 TPL203 TPL401 TPL401 TPL402 TPL402",
    "input_pipeline.py": "",
    "metric_collection.py": "TPL108 TPL301 TPL305",
    "metric_collection_by_hand.py": "TPL301 TPL401",
    "step_timer_on_device.py": "TPL302 TPL401",
    "step_timer_on_host.py": "TPL401",
    "tips_followed.py": "",
    "tips_ignored.py": "TPL102 TPL107 TPL107 TPL201 TPL203 TPL203 TPL401 TPL402 TPL605 TPL703",
}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_what_the_linter_finds_in_the_programs(path):
    data = path.read_bytes()
    ast.parse(data)
    report = check_source(path.name, data, registry.select(), Target((2, 13), (1, 9, 0)), Hints(), report_unused=False)
    assert report.failure is None
    assert " ".join(sorted(found.code for found in report.diagnostics)) == EXPECTED[path.name]
