"""A fix is accepted only if nothing speaks against it; each objection is raised by what it is about."""

from __future__ import annotations

from pathlib import Path

import pytest
from synthetic import event, run

from linting import few_rows
from torchperf_lint.engine import registry
from torchperf_lint.engine.findings import Safety
from torchperf_lint.verify import pairs
from torchperf_lint.verify.environments import Release, folders_of
from torchperf_lint.verify.events import Kind, Place
from torchperf_lint.verify.pairs import ACCEPTED, NOT_VERIFIABLE, REJECTED, UNCHANGED, Case, Proof, objections
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
        (
            UNFIXED,
            "neither waits nor copies become fewer, nor bytes copied, operators, graph nodes kept, processes started, "
            "threads in workers, bytes made on the host, warnings",
        ),
        (run([*WAITS, event(step=0)]), "the host waits 1.25 times per step, 1 before"),
        (run(results=2), "results: 1 became 2"),
        (run(results=None), "the results are gone"),
        (run(stdout="1\n"), "the output differs"),
        (run(stderr="INFO loss 1\n"), "what goes to standard error differs"),
        (run()._replace(written={"log.txt": "0"}), "the file log.txt differs"),
        (run(loops=[6]), "loops of 7 steps became such of 6"),
        (run(loops=[7, 7]), "loops of 7 steps became such of 7, 7"),
        (run(nodes=[[2, 5], [4, 7]]), "autograd graphs are kept from step to step"),
        (
            run(settings={"the default dtype": "torch.float64"}),
            "the default dtype is left torch.float64, torch.float32 before",
        ),
        (run(handed={"print": [["str", "int"]]}), "print is called 1 times, 0 before"),
        (
            run(overwritten=[["/program.py", 9]] * 3),
            "the source of a copy is written to before the copy is done: 3 times, in line 9",
        ),
        (run(processes=3), "3 processes are started, 0 before"),
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


def test_fewer_threads_in_workers_are_a_gain():
    assert objections(run(worker_threads=6), run(worker_threads=0), EXACT, safe=False) == []


def test_fewer_processes_are_a_gain():
    assert objections(run(processes=6), run(processes=2), EXACT, safe=False) == []


def test_fewer_bytes_made_on_the_host_are_a_gain():
    assert objections(run(host_bytes=600), run(host_bytes=200), EXACT, safe=True) == []


def test_a_pinned_asynchronous_copy_is_a_gain():
    blocking = run([event(Kind.TO_DEVICE, step=step, pinned=True) for step in range(4)])
    fixed = run([event(Kind.TO_DEVICE, step=step, waits=False, pinned=True, asynchronous=True) for step in range(4)])
    assert objections(blocking, fixed, EXACT, safe=True) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (run(operators_in=[[step, 9] for step in range(4)]), run(operators_in=[[step, 8] for step in range(4)])),
        (run(nodes=[[2, 5], [3, 9]]), run(nodes=[[2, 5], [3, 5]])),
        (run(stderr="x.py:3: FutureWarning: old\n  x\n"), run()),
    ],
    ids=["operators", "graphs", "warnings"],
)
def test_what_is_no_wait_may_be_the_gain(before, after):
    assert objections(before, after, EXACT, safe=True) == []
    assert objections(after, before, EXACT, safe=True) != []


def test_waits_outside_the_steady_steps_count_for_nothing_unless_they_make_up_for_those_within():
    assert objections(UNFIXED, run([event(step=None)] * 3), EXACT, safe=True) == []
    for as_many in (4, 9):
        (said,) = objections(UNFIXED, run([event(step=None)] * as_many), EXACT, safe=True)
        assert said == f"waits are moved, not removed: the host waits {as_many} times in all, 4 before"


def test_what_a_fix_may_keep_on_the_device_is_a_value_for_each_wait():
    kept = [0, 0, 0, 8, 16, 24, 32]
    assert objections(UNFIXED, run(memory=kept), EXACT, safe=True) == []
    (said,) = objections(UNFIXED, run(memory=[*kept[:-1], 40]), EXACT, safe=True)
    assert said == "40 bytes more are held on the device, step upon step, for 4 waits less"
    assert objections(UNFIXED, run(memory=[99] * 7), EXACT, safe=True) == []
    stated = Agreement(kept=10)
    assert objections(UNFIXED, run(memory=[*kept[:-1], 40]), stated, safe=False) == []
    assert "a safe fix has no tolerance" in objections(UNFIXED, run(memory=kept), stated, safe=True)
    assert objections(UNFIXED, run(memory=[*kept[:-1], 80]), stated, safe=False) != []


LANDING = event(Kind.TO_HOST, step=None, waits=False, pinned=True, asynchronous=True)
JOINED = event(Kind.SYNCHRONIZE, step=None)


def test_asynchronous_copies_to_the_host_may_neither_become_more_nor_lose_the_wait_for_them():
    before = run([*WAITS, LANDING, JOINED])
    assert objections(before, run([LANDING, JOINED]), EXACT, safe=True) == []
    (said,) = objections(before, run([LANDING]), EXACT, safe=True)
    assert said.startswith("asynchronous copies to the host are no longer waited for")
    (said,) = objections(before, run([LANDING, LANDING, JOINED]), EXACT, safe=True)
    assert said.startswith("1 copies to the host became asynchronous")


def test_only_a_loader_may_pin_more():
    def pins(via):
        return run([event(Kind.PIN, waits=False, via=via)])

    batches = Place("/x/torch/utils/data/_utils/pin_memory.py", 60)
    assert objections(UNFIXED, pins(batches), EXACT, safe=True) == []
    assert objections(UNFIXED, pins(None), EXACT, safe=True) == ["the program itself pins 1 tensors, 0 before"]


def test_rows_in_warnings_and_progress_of_other_text():
    warning = "/x/run_a.py:{}: UserWarning: watch out\nand mind\n  total += loss.item()\n"
    before, after = (run(WAITS * again, stderr=f"begin\n{warning.format(row)}end\n") for again, row in ((1, 3), (0, 4)))
    assert objections(before, after, EXACT, safe=True) == []
    assert before.remarks == "begin\nend\n"
    assert objections(before, run(stderr="begin\n"), EXACT, safe=True) == ["what goes to standard error differs"]


def test_a_stated_difference_excuses_the_values_only():
    stated = Agreement(differ=True)
    assert objections(UNFIXED, run(results=None), stated, safe=False) == ["the results are gone"]
    assert "loops of 7 steps became such of 6" in objections(UNFIXED, run(results=2, loops=[6]), stated, safe=False)


def test_types_of_what_is_shown_may_differ_only_where_that_is_stated():
    before, after = (run(waits, handed={"print": [["str", kind]]}) for waits, kind in ((WAITS, "float"), ([], "int")))
    (said,) = objections(before, after, EXACT, safe=True)
    assert said == "call 1 of print is given str, int, str, float before"
    assert objections(before, after, Agreement(1e-6), safe=False) == [said]
    assert objections(before, after, Agreement(differ=True, same_types=True), safe=False) == [said]
    assert objections(before, after, Agreement(differ=True), safe=False) == []


def test_where_types_differ_as_stated_values_do_not():
    stated = Agreement(other_types=True)
    before, after = (run(waits, handed={"print": [[kind]]}) for waits, kind in ((WAITS, "float"), ([], "Tensor")))
    assert objections(before, after, stated, safe=False) == []
    assert objections(UNFIXED, run(results=1.0), stated, safe=False) == []
    assert objections(UNFIXED, run(results=2.0), stated, safe=False) == ["results: 1 became 2.0"]
    assert "a safe fix has no tolerance" in objections(UNFIXED, FIXED, stated, safe=True)


def test_where_values_differ_as_stated_types_do_not():
    stated = Agreement(differ=True, same_types=True)
    assert objections(UNFIXED, run(results=2), stated, safe=False) == []
    assert objections(UNFIXED, run(results=1.0), stated, safe=False) == ["results: type int became float"]


def test_what_is_missing_for_the_unfixed_program_speaks_against_no_fix():
    missing = run(status="failed", error="ModuleNotFoundError: No module named 'torchmetrics'")
    assert _proof(unfixed=missing, safe=missing).verdict == NOT_VERIFIABLE
    assert _proof(unfixed=UNFIXED, safe=missing).verdict == REJECTED


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
    assert _proof(unfixed=UNFIXED).verdict == UNCHANGED
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
    path.write_text("# verify: values differ (a NaN passes)\n")
    assert read_workload(path, rule).agreement == Agreement(0, True, "a NaN passes", same_types=True)
    path.write_text("# verify: types differ (they become tensors)\n")
    assert read_workload(path, rule).agreement == Agreement(reason="they become tensors", other_types=True)
    path.write_text("# verify: with pytorch-lightning 2.6.6, tqdm 4.67.1\n")
    case = Case(read_workload(path, rule), "1.9.0")
    assert list(map(str, case.releases)) == ["torchmetrics 1.9.0", "pytorch-lightning 2.6.6", "tqdm 4.67.1"]
    path.write_text("# verify: keeps 96 bytes per wait (the scores)\n# verify: results within 1e-6 (it rounds)\n")
    assert read_workload(path, rule).agreement == Agreement(1e-6, False, "it rounds", 96)
    path.write_text("# verify: results differ\n")
    with pytest.raises(BadWorkload, match="not understood"):
        read_workload(path, rule)


PROGRAM = """\
import sys

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


@pytest.mark.slow
def test_our_fix_of_a_real_program_is_accepted(workload, tmp_path):
    proof = pairs.prove(Case(workload, None), "sim", tmp_path)
    assert proof.verdict == ACCEPTED, proof.reasons
    assert {variant: float(run.counts().waits) for variant, run in proof.runs.items()} == {"unfixed": 2, "safe": 1}
    assert [line.where.row for line in proof.runs["unfixed"].lines()] == [13, 14]
    assert [line.where.row for line in proof.runs["safe"].lines()] == [13]


@pytest.mark.parametrize(
    ("line", "said"),
    few_rows(
        [
            ("total += loss.detach().float() * 1.0000001", "became"),
            ("total += loss.double(); torch.rand(1)", "random numbers of torch"),
            ("total += loss.double(); torch.rand(1, device=device)", "random numbers of cuda"),
            ("total += float(loss.to('cpu', non_blocking=True))", "8 copies to the host became asynchronous"),
            ("total += loss.double(); torch.cuda.synchronize()", "waits are moved, not removed"),
            (
                "total += loss.double(); torch.set_float32_matmul_precision('high')",
                "precision of matrix products is left high",
            ),
            ("total += loss.double(); open('log.txt', 'a').write('x')", "the file log.txt differs"),
            ("total += loss.double(); print('x', file=sys.stderr)", "what goes to standard error differs"),
            ("total += loss.double(); torch.set_grad_enabled(False)", "the recording of gradients is left False"),
            ("total += loss.double()", "autograd graphs are kept from step to step"),
            ("total += loss.cpu()", "neither waits nor copies become fewer"),
            ("total += loss.numpy()", "the fixed program fails: TypeError"),
            ("total += loss.double() + torch.ones(2)", "the fixed program fails: RuntimeError: Expected all tensors"),
            ("total += loss.double(); torch.cuda.CUDAGraph()", "not simulated: torch.cuda.CUDAGraph"),
        ],
        4,
    ),
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


def test_a_kept_release_is_found_from_any_folder(tmp_path, monkeypatch):
    (tmp_path / "releases" / "torchmetrics-0.0.1").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    (folder,) = folders_of([Release("torchmetrics", "0.0.1")], Path("releases"))
    monkeypatch.chdir("/")
    assert folder.is_dir()


def test_a_grade_that_changes_nothing_is_left_out(workload):
    assert list(workload.fixed((2, 13), None)) == [Safety.SAFE]
