"""Every fixture of every rule: what is found, what the fixes make of it, and that no kind of case is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from expectations import disagreements
from linting import RULE_FIXTURES, assert_pair, assert_sound, bless_pair, few, fixture_paths, label, load_fixture
from torchperf_lint.engine.declare import Rule
from torchperf_lint.engine.findings import Safety
from torchperf_lint.engine.registry import all_rules
from torchperf_lint.engine.runner import FileReport
from torchperf_lint.engine.trial import has_lessened, written
from torchperf_lint.syntax.source import Source

FIXTURES = fixture_paths()
NEEDED = ("alias*.py", "shadowed*.py", "near_miss*.py")

every_fixture = pytest.mark.parametrize("path", FIXTURES, ids=label)
a_law_of_fixtures = pytest.mark.parametrize("path", few(FIXTURES, 24), ids=label)
every_rule = pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: f"{rule.code}-{rule.stem}")


@every_fixture
def test_findings(path: Path) -> None:
    fixture = load_fixture(path)
    for target in fixture.comments.targets():
        wrong = disagreements(fixture.comments.expectations, fixture.check(target=target), target)
        assert not wrong, f"{label(path)} for {_described(target)}:\n" + "\n".join(wrong)


@pytest.mark.parametrize("path", few(FIXTURES, 3), ids=label)
def test_fixes(path: Path, bless: bool) -> None:
    fixture = load_fixture(path)
    safe, unsafe = fixture.fix(unsafe=False), fixture.fix(unsafe=True)
    assert_sound(fixture, safe, unsafe=False)
    assert_sound(fixture, unsafe, unsafe=True)
    hold = bless_pair if bless else assert_pair
    hold(fixture.result(".fixed.py"), fixture.data, safe)
    hold(fixture.result(".unsafe.py"), safe, unsafe)


@a_law_of_fixtures
def test_every_fix_can_be_made_alone(path: Path) -> None:
    fixture = load_fixture(path)
    before = fixture.check()
    for each in before:
        if each.fix is not None and each.fix.safety is not Safety.SHOWN:
            result = written(Source(path.name, fixture.data), each.fix.edits)
            has_lessened(FileReport(before), FileReport(fixture.check(result)), [each])


@every_fixture
def test_grades(path: Path) -> None:
    for found in load_fixture(path).check():
        rule = next((rule for rule in all_rules() if rule.code == found.code), None)
        if rule is None or found.fix is None:
            continue
        assert rule.fix is not None, f"{found.code} is declared to have no fix, and row {found.row} has one"
        grade = found.fix.safety
        assert grade.rank >= rule.fix.rank, f"row {found.row}: the fix is {grade.value}, declared is {rule.fix.value}"
        told = f"row {found.row}: what {found.code} assumes is told where its fix is unsafe, and only there"
        assert bool(found.fix.assumes) == (grade is Safety.UNSAFE), told


@every_rule
def test_a_declared_assumption_is_that_of_a_fix(rule: Rule) -> None:
    told = {found.fix.assumes for path in _fixtures_of(rule) for found in load_fixture(path).check() if found.fix}
    assert not rule.assumes or rule.assumes in told


@every_rule
def test_declared_grade_is_reached(rule: Rule) -> None:
    seen = [
        found.fix.safety
        for path in _fixtures_of(rule)
        for found in load_fixture(path).check()
        if found.code == rule.code and found.fix is not None
    ]
    best = min(seen, key=lambda safety: safety.rank, default=None)
    assert best == rule.fix, f"the best fix seen in the fixtures is {best}, declared is {rule.fix}"


@every_rule
def test_kinds_of_cases(rule: Rule) -> None:
    gated = rule.torch is not None or rule.torchmetrics is not None
    names = [path.name for path in _fixtures_of(rule)]
    for pattern in (*NEEDED, *(["gate*.py"] if gated else [])):
        assert any(Path(name).match(pattern) for name in names), f"{_folder(rule)} has no {pattern}"


@every_rule
def test_near_misses_are_silent_and_aliases_are_not(rule: Rule) -> None:
    for path in _fixtures_of(rule):
        codes = {each.code for each in load_fixture(path).comments.expectations if each.kind == "expect"}
        if path.name.startswith("near_miss"):
            assert rule.code not in codes, f"{label(path)} is a near miss and must expect nothing"
        elif path.name.startswith("alias"):
            assert rule.code in codes, f"{label(path)} must expect {rule.code}"


@every_rule
def test_gate_is_seen_from_both_sides(rule: Rule) -> None:
    for library, specifier in (("torch", rule.torch), ("torchmetrics", rule.torchmetrics)):
        if specifier is None:
            continue
        inside = set()
        for path in _fixtures_of(rule):
            for target in load_fixture(path).comments.targets():
                inside.add(target.torch_is(specifier) if library == "torch" else target.torchmetrics_is(specifier))
        assert {True, False} <= inside, f"no fixture checks {rule.code} on both sides of {library}{specifier}"


def test_no_result_without_its_fixture() -> None:
    results = {path for path in RULE_FIXTURES.rglob("*.py") if path not in FIXTURES}
    owned = {load_fixture(path).result(suffix) for path in FIXTURES for suffix in (".fixed.py", ".unsafe.py")}
    assert results <= owned, f"without a fixture: {sorted(map(label, results - owned))}"


def test_there_are_fixtures() -> None:
    assert FIXTURES, "no fixture was found, so nothing was tested"


def _folder(rule: Rule) -> Path:
    return RULE_FIXTURES / rule.category.name.lower() / rule.stem


def _fixtures_of(rule: Rule) -> list[Path]:
    return fixture_paths(_folder(rule))


def _described(target: object) -> str:
    return str(target).removeprefix("Target")
