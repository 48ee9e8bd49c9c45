"""A fix is accepted only if nothing speaks against it; each objection is raised by what it is about."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic import event, run

from torchperf_lint.engine import registry
from torchperf_lint.engine.findings import Safety
from torchperf_lint.verify import pairs
from torchperf_lint.verify.events import Kind
from torchperf_lint.verify.pairs import ACCEPTED, NOT_VERIFIABLE, REJECTED, Case, Proof, objections
from torchperf_lint.verify.workloads import Agreement, BadWorkload, Workload, read_workload

EXACT = Agreement()
WAITS = [event(step=step) for step in range(4)]
UNFIXED = run(WAITS)
FIXED = run()


def test_fewer_waits_and_equal_results_are_accepted():
    assert objections(UNFIXED, FIXED, EXACT, safe=True) == []


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (UNFIXED, "neither waits nor copies become fewer"),
        (run([*WAITS, event(step=0)]), "the host waits 1.25 times per step, 1 before"),
        (run(results=2), "results: 1 became 2"),
        (run(results=None), "the results are gone"),
        (run(stdout="1\n"), "the output differs"),
        (run(random=1), "the random numbers of torch are drawn differently"),
        (run(stderr="x.py:3: UserWarning: watch out\n  x\n"), "a warning is new: UserWarning: watch out"),
        (run(status="failed", error="ValueError: no"), "the fixed program fails: ValueError: no"),
        (
            run([event(Kind.TO_DEVICE, step=step, waits=False, asynchronous=True) for step in range(4)]),
            "1 copies per step became asynchronous ones of pageable memory",
        ),
    ],
)
def test_each_objection_is_raised(after, said):
    assert said in objections(UNFIXED, after, EXACT, safe=True)


def test_a_pinned_asynchronous_copy_is_a_gain():
    blocking = run([event(Kind.TO_DEVICE, step=step, pinned=True) for step in range(4)])
    fixed = run([event(Kind.TO_DEVICE, step=step, waits=False, pinned=True, asynchronous=True) for step in range(4)])
    assert objections(blocking, fixed, EXACT, safe=True) == []


def test_waits_outside_the_steady_steps_count_for_nothing():
    assert objections(UNFIXED, run([event(step=None)] * 9), EXACT, safe=True) == []


def test_a_program_without_steps_or_results_proves_nothing():
    assert "the program has no steps to count over" in objections(run(WAITS, steady=()), FIXED, EXACT, safe=True)
    silent = run(WAITS, results=None), run(results=None)
    assert objections(*silent, EXACT, safe=True) == ["the program gives no results to compare"]
    spoken = run(WAITS, results=None, stdout="{}"), run(results=None, stdout="{}")
    assert objections(*spoken, EXACT, safe=True) == []


def test_a_tolerance_or_difference_is_for_unsafe_fixes():
    near = run(WAITS, results=1.0), run(results=1.0 + 1e-9)
    assert objections(*near, Agreement(1e-6), safe=False) == []
    assert objections(*near, EXACT, safe=False) != []
    assert "a safe fix has no tolerance" in objections(*near, Agreement(1e-6), safe=True)
    assert objections(UNFIXED, run(results=2), Agreement(differ=True), safe=False) == []


def _proof(**runs):
    rule = registry.find_rule("TPL101")
    case = Case(Workload(Path("run_x.py"), rule, (), EXACT), None)
    against = {name: objections(runs["unfixed"], each, EXACT, safe=True) for name, each in runs.items()}
    return Proof(case, {}, runs, {name: each for name, each in against.items() if name != "unfixed"})


def test_verdicts():
    assert _proof(unfixed=UNFIXED, safe=FIXED).verdict == ACCEPTED
    assert _proof(unfixed=UNFIXED, safe=UNFIXED).verdict == REJECTED
    assert _proof(unfixed=run(status="failed", error="boom")).verdict == REJECTED
    unknown = _proof(unfixed=UNFIXED, safe=run(status="not simulated", error="NotSimulated: streams"))
    assert unknown.verdict == NOT_VERIFIABLE
    assert unknown.reasons[0] == "safe: NotSimulated: streams"
    nothing = Proof(_proof(unfixed=UNFIXED).case, {}, {}, {}, "no such release")
    assert (nothing.verdict, nothing.reasons) == (NOT_VERIFIABLE, ["no such release"])


def test_directives_of_a_workload(tmp_path):
    rule = registry.find_rule("TPL102")
    path = tmp_path / "run_it.py"
    path.write_text("# verify: torchmetrics 1.6.1, 1.9.0\n# verify: results within 1e-6 (it rounds)\n")
    workload = read_workload(path, rule)
    assert workload.name == "it"
    assert workload.torchmetrics == ("1.6.1", "1.9.0")
    assert workload.agreement == Agreement(1e-6, False, "it rounds")
    assert [case.name for case in pairs.cases_of([workload])] == ["it (torchmetrics 1.6.1)", "it (torchmetrics 1.9.0)"]
    path.write_text("# verify: results differ (a NaN passes)\n")
    assert read_workload(path, rule).agreement == Agreement(0, True, "a NaN passes")
    path.write_text("# verify: with pytorch-lightning 2.6.6, tqdm 4.67.1\n")
    case = Case(read_workload(path, rule), "1.9.0")
    assert list(map(str, case.releases)) == ["torchmetrics 1.9.0", "pytorch-lightning 2.6.6", "tqdm 4.67.1"]
    path.write_text("# verify: results differ\n")
    with pytest.raises(BadWorkload, match="not understood"):
        read_workload(path, rule)


PROGRAM = """\
import torch
from torch.utils.data import DataLoader

device = torch.device("cuda")
model = torch.nn.Linear(4, 1).to(device)


def evaluate(loader):
    total = 0.0
    for x in loader:
        loss = torch.nn.functional.mse_loss(model(x.to(device, non_blocking=True)), x[:, :1].to(device))
        total += loss.item()
    return total


results = float(evaluate(DataLoader(torch.ones(8, 4))))
"""


@pytest.fixture
def workload(tmp_path):
    path = tmp_path / "run_sum.py"
    path.write_text(PROGRAM)
    return read_workload(path, registry.find_rule("TPL102"))


def test_our_fix_of_a_real_program_is_accepted(workload, tmp_path):
    proof = pairs.prove(Case(workload, None), "sim", tmp_path)
    assert proof.verdict == ACCEPTED, proof.reasons
    assert {variant: float(run.counts().waits) for variant, run in proof.runs.items()} == {"unfixed": 2, "safe": 1}
    assert [line.where.row for line in proof.runs["unfixed"].lines()] == [11, 12]
    assert [line.where.row for line in proof.runs["safe"].lines()] == [11]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("total += loss.detach().float() * 1.0000001", "became"),
        ("total += loss.double(); torch.rand(1)", "random numbers of torch"),
        ("total += loss.double(); torch.rand(1, device=device)", "random numbers of cuda"),
        ("total += loss.cpu()", "neither waits nor copies become fewer"),
        ("total += loss.numpy()", "the fixed program fails: TypeError"),
        ("total += loss.double() + torch.ones(2)", "the fixed program fails: RuntimeError: Expected all tensors"),
        ("total += loss.double(); torch.cuda.CUDAGraph()", "NotSimulated"),
    ],
)
def test_a_wrong_fix_is_not_accepted(workload, tmp_path, monkeypatch, line, said):
    wrong = PROGRAM.replace("total += loss.item()", line).encode()
    monkeypatch.setattr(pairs, "variants", lambda case: {"unfixed": case.workload.data, "safe": wrong})
    proof = pairs.prove(Case(workload, None), "sim", tmp_path)
    assert proof.verdict != ACCEPTED
    assert any(said in reason for reason in proof.reasons), proof.reasons


def test_a_release_that_is_not_to_be_had_is_no_pass(workload, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    proof = pairs.prove(Case(workload, "0.0.1"), "sim", tmp_path / "releases")
    assert proof.verdict == NOT_VERIFIABLE
    assert "torchmetrics 0.0.1 cannot be installed" in proof.reasons[0]


def test_a_grade_that_changes_nothing_is_left_out(workload):
    assert list(workload.fixed((2, 13), None)) == [Safety.SAFE]
