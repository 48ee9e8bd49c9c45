"""Fixes that are broken on purpose: how they are made, what counts as their rejection, and some that really run."""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch", "2.13", reason="the device is simulated for torch 2.13")

from synthetic import event, run

from linting import ROOT, few
from torchperf_lint import pages
from torchperf_lint.engine import registry
from torchperf_lint.verify import pairs
from torchperf_lint.verify.runs import run_program
from torchperf_lint.verify.warm import IMPORTED_BY_MANY, warm_launch
from torchperf_lint.verify.workloads import workloads_of

if TYPE_CHECKING:
    from types import ModuleType

UNFIXED = "total = 0.0\nfor x in xs:\n    total += f(x).item()\nreturn g(total).double()\n"
FIXED = UNFIXED.replace("f(x).item()", "f(x).detach().double()").replace("return", "total = float(total)\nreturn")
PROGRAMS = {"unfixed": UNFIXED, "safe": FIXED}
RULE = registry.find_rule("TPL102")
ENTRY = {"program": "TPL102/p", "kind": "dtype", "right": "total = float(total)\n", "wrong": "", "said": "became"}

QUICK = "TPL106/bounds TPL201/attention_mask TPL203/written_batches TPL207/host_types".split()
"""Programs whose written mutants are run here; `make mutants` runs them all."""


@pytest.fixture(scope="module")
def mutants() -> ModuleType:
    """The script, which is no module of a package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
        return importlib.import_module("mutants")


def test_operators_change_what_a_fix_inserts_and_nothing_else(mutants):
    narrower = mutants.Operator("dtype", r"\.double\(\)", ".float()")
    (mutant,) = mutants.made_by([narrower], PROGRAMS)
    assert (mutant.variant, mutant.row, mutant.line) == ("safe", 3, "total += f(x).detach().float()")
    assert mutant.text == FIXED.replace("detach().double()", "detach().float()")
    assert [*mutants.made_by([narrower], {"unfixed": FIXED, "safe": FIXED})] == []


def test_an_operator_makes_one_mutant_of_a_line(mutants):
    texts = {"unfixed": "a = 1\n", "safe": "a = [x.d(), y.d()]\nb = z.d()\n"}
    found = mutants.made_by([mutants.Operator("k", r"\.d\(\)", "")], texts)
    assert [mutant.line for mutant in found] == ["a = [x, y.d()]", "b = z"]


def test_a_grade_is_broken_where_it_goes_beyond_the_one_before(mutants):
    texts = {**PROGRAMS, "unsafe": FIXED.replace("return g", "return h.detach().g")}
    found = [*mutants.made_by([mutants.Operator("aliasing", r"\.detach\(\)", "")], texts)]
    assert [(mutant.variant, mutant.row) for mutant in found] == [("safe", 3), ("unsafe", 5)]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        pytest.param({"right": "total"}, "occurs 5 times in the safe text", id="several times"),
        pytest.param({"right": "float(sum)"}, "occurs 0 times in the safe text", id="not at all"),
        pytest.param({"grade": "unsafe"}, "occurs 0 times in the unsafe text", id="a grade that there is not"),
    ],
)
def test_a_written_mutant_applies_in_one_place_or_is_an_error(mutants, changed, said):
    assert mutants.written(ENTRY, PROGRAMS).text == FIXED.replace("total = float(total)\n", "")
    with pytest.raises(mutants.BadTable, match=said):
        mutants.written({**ENTRY, **changed}, PROGRAMS)


@pytest.mark.parametrize(
    "entry",
    [
        '[[mutant]]\nprogram = "a"\nkind = "b"\nright = "c"\nwrong = "d"\n',
        '[[equivalent]]\nrule = "a"\nright = "c"\nwrong = "d"\nlines = [""]\n',
        '[[exempt]]\nrule = "TPL501"\n',
    ],
    ids=["a mutant without a reason", "an equivalent one without one", "an exempt rule without one"],
)
def test_an_entry_of_the_table_says_why(mutants, tmp_path, entry):
    path = tmp_path / "mutants.toml"
    path.write_text(entry)
    with pytest.raises(mutants.BadTable, match="this is no"):
        mutants.read_table(path)


def judged(mutants, monkeypatch, after, *, said="", raises="", kind="dtype"):
    """The verdict on a mutant of one program, given its run and those of the unfixed program and of the right fix."""
    before, right = run([event(step=step) for step in range(4)]), run()
    monkeypatch.setattr(mutants, "broken_claims", lambda *_: [])
    monkeypatch.setattr(mutants.pairs, "variants", lambda _: {name: text.encode() for name, text in PROGRAMS.items()})
    runs = {UNFIXED.encode(): before, FIXED.encode(): right}
    monkeypatch.setattr(mutants.pairs, "run_variant", lambda *given, **_: runs.get(given[2], after))
    workload = next(each for each in workloads_of([RULE]) if each.name == "counts")
    trial = mutants.Trial(pairs.Case(workload, None), ROOT, None)
    return trial.judge(mutants.Mutant("safe", kind, 1, "a", "b", "text", said, raises), {})


FAILED = {"status": "failed"}


@pytest.mark.parametrize(
    ("after", "more", "verdict"),
    [
        pytest.param(run(results=2), {}, "rejected", id="other results"),
        pytest.param(run(results=2), {"said": "1 became 2"}, "rejected", id="the reason that is written"),
        pytest.param(run(results=2), {"said": "dtype"}, "does not count", id="another reason"),
        pytest.param(run([event(step=step) for step in range(4)]), {}, "rejected", id="as many waits"),
        pytest.param(run(), {}, "survives", id="no difference"),
        pytest.param(run(error="NameError: name 'x'", **FAILED), {}, "does not count", id="no program"),
        pytest.param(run(error="RuntimeError: empty", **FAILED), {"raises": "empty"}, "rejected", id="a named error"),
        pytest.param(
            run(error="ValueError: full", **FAILED), {"raises": "empty"}, "does not count", id="another error"
        ),
        pytest.param(
            run(error="RuntimeError: Expected all tensors to be on the same device", **FAILED),
            {"kind": "device"},
            "rejected",
            id="mixed devices",
        ),
        pytest.param(run(status="not simulated", error="streams"), {}, "does not count", id="not simulated"),
    ],
)
def test_what_counts_as_a_rejection(mutants, monkeypatch, after, more, verdict):
    assert judged(mutants, monkeypatch, after, **more)[0] == verdict


class FakeTrial:
    """A program of which it is known which texts it rejects."""

    def __init__(self, case, *, sharp):
        self.name = f"{case.workload.rule.code}/{case.workload.name}"
        self.programs, self.sharp = PROGRAMS, sharp

    def judge(self, mutant, claimed):
        return ("rejected", "x became y") if self.sharp else ("survives", "nothing")


def told(mutants, *, sharp=(), **table):
    """The verdicts on TPL102's mutants, whose programs are all the same; those in `sharp` reject them."""
    found = mutants.outcomes(
        RULE,
        workloads_of([RULE]),
        mutants.Table(**{**dict.fromkeys(mutants.Table._fields, ()), **table}),
        lambda case: FakeTrial(case, sharp=case.workload.name in sharp),
    )
    return {(outcome.mutant.line, outcome.verdict) for outcome in found}


def test_one_of_the_programs_that_have_a_line_has_to_reject_it(mutants):
    operators = [mutants.Operator("dtype", r"\.double\(\)", ".float()")]
    line = "total += f(x).detach().float()"
    assert told(mutants, operators=operators) == {(line, "survives")}
    assert told(mutants, operators=operators, sharp=["histories"]) == {(line, "rejected")}


def test_what_is_listed_as_equivalent_survives_or_is_an_error(mutants):
    operators = [mutants.Operator("aliasing", r"\.detach\(\)", "")]
    entry = {"rule": "TPL102", "right": ".detach()", "wrong": "", "lines": ["f(x)"], "why": "there is no graph"}
    line = "total += f(x).double()"
    assert told(mutants, operators=operators, equivalent=[entry]) == {(line, "equivalent")}
    assert told(mutants, operators=operators, equivalent=[entry], sharp=["counts"]) == {(line, "does not count")}
    with pytest.raises(mutants.BadTable, match="no mutant makes `gone` any more"):
        told(mutants, operators=operators, equivalent=[{**entry, "lines": ["f(x)", "gone"]}])


def test_a_written_mutant_is_judged_by_its_own_program(mutants):
    entry = {**ENTRY, "program": "TPL102/counts"}
    assert told(mutants, written=[entry], sharp=["histories"]) == {("return g(total).double()", "survives")}
    assert told(mutants, written=[entry], sharp=["counts"]) == {("return g(total).double()", "rejected")}
    with pytest.raises(mutants.BadTable, match="no such program"):
        told(mutants, written=[ENTRY])


def test_every_rule_that_writes_a_fix_has_a_mutant_or_says_why_not(mutants):
    rules, table = registry.all_rules(), mutants.read_table()
    writing = {rule.code for rule in rules if rule.fix is not None and rule.fix.rank < 2}
    exempt = {entry["rule"] for entry in table.exempt}
    written = {entry["program"].partition("/")[0] for entry in table.written}
    assert writing == written | exempt
    assert mutants.unbroken(rules, writing - exempt, table) == []
    assert mutants.unbroken(rules, writing - exempt - {"TPL203"}, table) == ["TPL203 has a fix and no mutant"]
    assert mutants.unbroken(rules, writing, table) == [f"{code} is exempt and has mutants" for code in exempt]


@pytest.mark.parametrize(("verdict", "status"), [("rejected", 0), ("equivalent", 0), ("survives", 1)])
def test_the_exit_status_tells_of_survivors(mutants, monkeypatch, capsys, verdict, status):
    mutant = mutants.Mutant("safe", "dtype", 1, "a", "b", "c = b", "", "")
    outcome = mutants.Outcome("TPL102/counts", mutant, verdict, "why")
    monkeypatch.setattr(mutants, "all_outcomes", lambda *_: [[outcome]])
    assert mutants.main(["TPL102"]) == status
    line, summary = capsys.readouterr().out.splitlines()
    assert line == f"TPL102/counts dtype, `a` -> `b` in `c = b`: {verdict}, why"
    assert summary.startswith("1 mutants of the fixes of 1 rules: ")
    assert f"1 {verdict}" in summary


def test_a_rule_that_has_lost_a_mutant_is_an_error(mutants):
    counts = mutants.read_counts()
    lost = {code: each.copy() for code, each in counts.items() if code != "TPL101"}
    lost["TPL102"]["rejected"] -= 1
    had, left = counts["TPL102"]["rejected"], lost["TPL102"]["rejected"]
    assert mutants.fewer(counts, counts) == []
    assert mutants.fewer(counts, lost) == [
        f"TPL101 has 0 rejected mutants, and had {counts['TPL101']['rejected']}",
        f"TPL102 has {left} rejected mutants, and had {had}",
    ]


def test_the_counts_are_of_all_rules_with_mutants_and_can_be_printed(mutants, capsys):
    counts, written = mutants.read_counts(), mutants.read_table().written
    assert counts.keys() == {entry["program"].partition("/")[0] for entry in written}
    assert all(each["survives"] == each["does not count"] == 0 for each in counts.values())
    assert mutants.main(["--committed"]) == 0
    rejected = sum(each["rejected"] for each in counts.values())
    assert rejected >= 60
    assert capsys.readouterr().out.endswith(f"of {len(counts)} rules: {mutants.told(counts).partition(': ')[2]}\n")


@pytest.mark.parametrize("name", few(QUICK, len(QUICK)))
def test_written_mutants_are_rejected_for_the_reason_that_is_written(name, mutants, launch):
    rule = registry.find_rule(name.partition("/")[0])
    (workload,) = (each for each in workloads_of([rule]) if f"{rule.code}/{each.name}" == name)
    trial = mutants.Trial(pairs.Case(workload, None), ROOT, launch)
    written = [
        mutants.written(entry, trial.programs) for entry in mutants.read_table().written if entry["program"] == name
    ]
    assert written
    assert {trial.judge(mutant, pages.measured())[0] for mutant in written} == {"rejected"}


@pytest.mark.slow
def test_a_fork_that_takes_too_long_is_ended(tmp_path):
    script = tmp_path / "program.py"
    script.write_text("import signal, time\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\ntime.sleep(60)\n")
    with warm_launch("sim", lambda: 1.0) as launch:
        ended = run_program(script, "sim", launch=launch)
        script.write_text("results = 1\n")
        assert ended.report["error"] == "it did not end within 1 seconds"
    with warm_launch("sim") as launch:
        assert run_program(script, "sim", launch=launch).status == "ok"


@pytest.mark.slow
@pytest.mark.parametrize("device", sorted(IMPORTED_BY_MANY))
def test_what_forks_have_imported_has_not_touched_a_device(device):
    code = (
        f"import importlib; [importlib.import_module(each) for each in {IMPORTED_BY_MANY[device]!r}]; import torch;"
        "assert not torch.cuda.is_initialized() and not torch.cuda._is_in_bad_fork()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_a_fork_runs_a_program_as_a_process_of_its_own_does(launch, tmp_path, monkeypatch):
    monkeypatch.setenv("PLACE", "there")
    library = tmp_path / "library"
    library.mkdir()
    (library / "helper.py").write_text("GIVEN = 3\n")
    script = tmp_path / "program.py"
    script.write_text(
        "import os, sys, warnings\nimport helper, torch\n"
        "warnings.warn('mind')\nprint(os.getcwd(), sys.argv, helper.GIVEN)\n"
        "results = [torch.rand(2, device='cuda').sum().item(), os.environ['PLACE'], sys.stdin.read(), __name__]\n"
    )
    forked, alone = (run_program(script, "sim", libraries=[library], launch=each) for each in (launch, None))
    assert forked == alone
    assert forked.status == "ok"
    script.write_text("import os; os._exit(3)\n")
    broken = run_program(script, "sim", launch=launch)
    assert broken.report["error"] == "the process died: exit status 3 before its report was written"
