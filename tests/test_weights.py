"""What findings weigh: cost classes, confidence and lowered severities in the cases of fixtures/weights/.

A case is a folder that is linted as a project under the default rules. `# weighs: TPL101 error, wait per step` behind a
row names each of its findings, with `likely` where it is, and nothing else is found.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from linting import ROOT
from test_cli import Faced
from torchperf_lint.config import Settings
from torchperf_lint.engine import registry
from torchperf_lint.engine.findings import Because, Confidence, Cost, Diagnostic, Loss, Rate, Severity, Unproven
from torchperf_lint.engine.json_codec import plain_report, report_of
from torchperf_lint.engine.project import check_paths
from torchperf_lint.engine.runner import FileReport
from torchperf_lint.knowledge.versions import Target
from torchperf_lint.report import worth

WEIGHTS = ROOT / "fixtures" / "weights"
CASES = sorted(each.name for each in WEIGHTS.iterdir() if each.is_dir())
_WEIGHS = re.compile(r"# weighs: (.+)")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def lint(capfd: pytest.CaptureFixture[str]) -> Faced:
    """The command line beside a copy of the case that has likely findings."""
    shutil.copytree(WEIGHTS / "likely", "likely")
    return Faced(capfd)


def reports(case: str, target: Target | None = None, **options) -> list[FileReport]:
    """The reports of a case's files, as those of one project."""
    rules, folder = Settings().rules, Path(shutil.copytree(WEIGHTS / case, case, dirs_exist_ok=True))
    found = check_paths([str(folder)], lambda path: rules, target or Target(), Settings().hints, **options)
    return [result.report for result in found]


def found_by(case: str, code: str) -> list[FileReport]:
    """The reports of one rule alone."""
    folder = Path(shutil.copytree(WEIGHTS / case, case, dirs_exist_ok=True))
    rules = (registry.find_rule(code),)
    return [each.report for each in check_paths([str(folder)], lambda path: rules, Target(), Settings().hints)]


def weights(case: str, **options) -> dict[str, list[str]]:
    """What the findings of a case weigh, by file and row."""
    found: dict[str, list[str]] = {}
    for report in reports(case, **options):
        assert report.failure is None, str(report.failure)
        for each in report.diagnostics:
            place = f"{Path(each.path).name}:{each.row}"
            found.setdefault(place, []).append(f"{each.code} {each.severity}, {worth(each)}")
    return found


def named(case: str) -> dict[str, list[str]]:
    """What the comments of a case's files name."""
    return {
        f"{path.name}:{row}": match[1].split("; ")
        for path in sorted((WEIGHTS / case).glob("*.py"))
        for row, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (match := _WEIGHS.search(line))
    }


@pytest.mark.parametrize("case", CASES)
def test_findings_weigh_what_the_fixtures_say(case: str) -> None:
    assert named(case)
    assert weights(case) == named(case)


def test_what_a_distribution_computes_has_not_waited_where_torch_checks_nothing() -> None:
    (row,) = (row for row, text in enumerate(_rows("draws.py"), 1) if "print(score" in text)
    assert weights("drained_queue")[f"draws.py:{row}"] == ["TPL105 note, wait per step"]
    assert weights("drained_queue", target=Target((1, 7)))[f"draws.py:{row}"] == ["TPL105 error, wait per step"]


def _rows(name: str) -> list[str]:
    return (WEIGHTS / "drained_queue" / name).read_text(encoding="utf-8").splitlines()


def test_a_lowered_severity_has_its_reason_in_the_evidence() -> None:
    lowered = [
        each for report in reports("beside_slow_calls") for each in report.diagnostics if each.severity == "note"
    ]
    assert {each.because[-1].text for each in lowered} == {
        f"`{called}(...)` runs in the same pass and takes far longer"
        for called in ("model.generate", "self.model.generate", "writer", "save", "evaluate_all")
    }
    (report,) = reports("rates")
    ends = [each.because[-1].text for each in report.diagnostics if each.severity != "error"]
    assert ends == [
        "nothing shows that every step runs this",
        "this runs once: where a script starts, or an object is made",
    ]
    (report,) = reports("toy_data")
    ends = [each.because[-1].text for each in report.diagnostics if each.code == "TPL402" and each.severity == "note"]
    assert ends == [
        "the samples are made up here",
        "the samples lie in memory, so that a batch is made at once",
        "the samples are made up",
    ]


def test_an_option_that_is_off_is_named_where_its_default_stands() -> None:
    reasons = [each.because[-1] for each in lowered_in("off_by_default")]
    assert [(each.row, each.text.partition("`")[2].partition("`")[0]) for each in reasons] == [
        (24, "k"),
        (71, "k"),
        (10, "weight"),
        (10, "mode"),
        (10, "chosen"),
        (10, "weight"),
        (10, "weight"),
    ]
    assert {each.text.replace(each.text.partition("`")[2].partition("`")[0], "x") for each in reasons} == {
        "this does not run with the default of `x`, and no call that was found sets another"
    }


def test_what_an_option_keeps_from_running_says_so() -> None:
    found = [each for each in lowered_in("off_in_settings") if each.path.endswith("loops.py")]
    assert [each.message.rpartition(", ")[2] for each in found] == ["but only if `full` is set"]


def test_another_wait_for_the_same_work_is_named() -> None:
    every = [each for report in reports("drained_queue") for each in report.diagnostics]
    found = [each for each in every if each.path.endswith("loops.py")]
    notes = [each for each in found if each.severity == "note"]
    assert {each.because[-1].text for each in notes} == {"this row has already waited for the same work"}
    starts = {each.start: each.row for each in found}
    pairs = [(each.row, starts[each.behind]) for each in notes if each.behind in starts]
    assert pairs == [(15, 13), (63, 61), (73, 70), (90, 86), (105, 104), (112, 111), (143, 142)]


def test_a_wait_weighs_the_same_whichever_rules_run() -> None:
    """What drains the queue is decided by values, not by what else is reported."""
    alone = {
        (each.path, each.row): each.severity
        for report in found_by("drained_queue", "TPL105")
        for each in report.diagnostics
    }
    among = {
        (each.path, each.row): each.severity
        for report in reports("drained_queue")
        for each in report.diagnostics
        if each.code == "TPL105"
    }
    assert alone == among
    assert "note" in alone.values()


def test_what_only_evaluates_or_checks_says_so() -> None:
    texts = {each.because[-1].text for case in ("checks", "evaluations") for each in lowered_in(case)}
    assert texts == {
        "what this check does is its meaning",
        "nothing but evaluations is seen to run this",
        "`scipy.ndimage.label(...)` works on the host in the same pass of the evaluation",
    }


def lowered_in(case: str) -> list[Diagnostic]:
    """The findings of a case whose severity is lower than their rule's."""
    found = [each for report in reports(case) for each in report.diagnostics]
    return [each for each in found if each.severity != registry.find_rule(each.code).severity.value]


def test_only_proven_findings_where_that_is_asked_for() -> None:
    proven = {place: found for place, found in named("likely").items() if "likely" not in found[0]}
    assert proven
    assert weights("likely", least=Confidence.PROVEN) == proven
    assert weights("likely", least=Confidence.LIKELY) == named("likely")


def test_the_level_is_an_option_and_a_setting(lint: Faced) -> None:
    def found(*options: str) -> list[str]:
        out = lint("likely", "--select", "TPL101", "--output-format", "json", *options)[1]
        return [each["confidence"] for each in json.loads(out)]

    assert found() == found("--min-confidence", "likely") == ["likely", "proven"]
    assert found("--min-confidence", "proven") == ["proven"]
    Path("pyproject.toml").write_text('[tool.torchperf-lint]\nmin-confidence = "proven"\n')
    assert found() == ["proven"]
    assert found("--min-confidence", "likely") == ["likely", "proven"]
    status, _, err = lint("likely", "--min-confidence", "certain")
    assert (status, err.count("\n")) == (2, 1)
    assert "`certain` is not `proven` or `likely`" in err


def test_a_suppression_of_what_is_only_likely_is_not_unused(lint: Faced) -> None:
    place = Path("likely/trainers.py")
    place.write_text(re.sub("  # weighs: .*", "  # noqa: TPL101", place.read_text()))
    for level in ("likely", "proven"):
        assert lint("likely", "--min-confidence", level, "-q") == (0, "", "")


def test_what_is_only_likely_is_not_fixed_where_proof_is_asked_for(lint: Faced) -> None:
    place = Path("likely/trainers.py")
    made = "        ones = torch.ones(3, dtype=torch.float64).cuda()\n        return (loss * ones.sum()).item()"
    place.write_text(re.sub("        return loss.item.*", made, place.read_text()))
    assert "TPL201 [*]" in lint("likely", "--output-format", "concise")[1]
    before = place.read_text()
    lint("likely", "--fix", "--min-confidence", "proven")
    assert place.read_text() == before
    lint("likely", "--fix")
    assert 'dtype=torch.float64, device="cuda")' in place.read_text()


def test_stored_reports_keep_the_weight() -> None:
    for report in reports("likely"):
        plain = json.loads(json.dumps(plain_report(report)))
        for each, back in zip(report.diagnostics, report_of(plain, "x.py").diagnostics, strict=True):
            assert back == each._replace(path="x.py")


def test_reports_in_the_cache_are_those_of_their_level(lint: Faced) -> None:
    first = [lint("likely", "--min-confidence", level)[1] for level in ("likely", "proven")]
    assert first[0] != first[1]
    assert [lint("likely", "--min-confidence", level)[1] for level in ("likely", "proven")] == first


def test_severities_and_costs_are_ordered() -> None:
    assert Severity.ERROR.at_most(Severity.NOTE) is Severity.NOTE.at_most(Severity.ERROR) is Severity.NOTE
    costs = [Cost(rate, loss) for rate in Rate for loss in Loss]
    assert costs == sorted(costs, key=lambda cost: cost.rank)
    assert str(Cost(Rate.ELEMENT, Loss.HOST)) == "host work per element"
    assert Confidence.PROVEN.satisfies(Confidence.PROVEN)
    assert not Confidence.LIKELY.satisfies(Confidence.PROVEN)


def test_an_unproven_step_stays_one_where_its_path_is_written() -> None:
    step = Unproven(3, "no proof")
    assert isinstance(step._replace(path="x.py"), Unproven)
    assert step == Because(3, "no proof")


def test_every_rule_says_what_it_costs() -> None:
    free = {rule.code for rule in registry.all_rules() if rule.loses is None}
    assert free == {"TPL311", "TPL604"}
