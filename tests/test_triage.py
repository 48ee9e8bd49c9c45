"""The verdicts on findings in real code: well formed, enough of them, and good enough for rules that are on."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from torchperf_lint.engine.declare import Rule
from torchperf_lint.engine.registry import all_rules, find_rule

TRIAGE = Path(__file__).parent.parent / "benchmarks" / "triage.tsv"
LEAST_PRECISION = 0.9
LEAST_VERDICTS = 200


def verdicts() -> list[dict[str, str]]:
    with TRIAGE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def test_there_are_enough_verdicts_and_each_place_has_one() -> None:
    rows = verdicts()
    assert len(rows) >= LEAST_VERDICTS
    places = Counter((row["project"], row["version"], row["path"], row["line"], row["code"]) for row in rows)
    assert [place for place, count in places.items() if count > 1] == []
    assert {row["verdict"] for row in rows} <= {"right", "wrong", "debatable"}
    assert all(row["why"] and find_rule(row["code"]) for row in rows)


@pytest.mark.parametrize("rule", [rule for rule in all_rules() if rule.default], ids=lambda rule: rule.code)
def test_a_rule_that_is_on_is_right_in_nine_of_ten_findings(rule: Rule) -> None:
    counts = Counter(row["verdict"] for row in verdicts() if row["code"] == rule.code)
    right, wrong = counts["right"], counts["wrong"]
    assert right >= LEAST_PRECISION * (right + wrong)
