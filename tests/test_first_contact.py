"""The sites and figures of first contact: enough sites of both kinds, figures that add up and stay as they are."""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from linting import ROOT
from torchperf_lint.engine.registry import find_rule

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

LEAST_SITES, PACKAGES, FINDINGS, DRAWN = 100, 5, 40, 48


@pytest.fixture(scope="module")
def contact() -> ModuleType:
    """The script, which lies beside the modules that it imports."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
        return importlib.import_module("first_contact")


def test_each_round_has_enough_sites_in_five_new_packages(contact: ModuleType) -> None:
    seen: set[str] = set()
    for number, sites in contact.rounds().items():
        packages = {site.project for site in sites}
        assert len(sites) >= LEAST_SITES, number
        assert len(packages) == PACKAGES, number
        assert not packages & seen, number
        assert {site.verdict for site in sites} == {"flag", "ok"}
        assert all(find_rule(site.code).code == site.code for site in sites)
        seen |= packages


@pytest.mark.parametrize("of_files", [False, True])
def test_recorded_figures_are_those_of_the_sites(contact: ModuleType, of_files: bool) -> None:
    table, kept = contact.FILES if of_files else (contact.SITES, contact.FIGURES)
    rounds, known = contact.rounds(table), contact.recorded(kept)
    assert {row.round for row in known} == set(rounds)
    assert all(site.version[0].isdigit() for sites in rounds.values() for site in sites)
    for number in rounds:
        rows = [row for row in known if row.round == number]
        whole = next(row for row in rows if row.name == "all")
        verdicts = Counter(site.verdict for site in rounds[number])
        assert (whole.flag, whole.ok) == (verdicts["flag"], verdicts["ok"])
        assert all(row.found <= row.flag and row.flagged <= row.ok for row in rows)
        for group in ("reach", "package", "rule"):
            parts = [row[4:] for row in rows if row.group == group]
            assert tuple(map(sum, zip(*parts, strict=True))) == whole[4:], group


def test_a_round_is_recorded_once(contact: ModuleType, tmp_path: Path) -> None:
    kept = tmp_path / "figures.tsv"
    site = contact.Site("some", "1", "a.py", 1, "TPL101", "flag", "project", "why")
    rows = list(contact.figures(1, [contact.Outcome(site, frozenset({"TPL102"}))]))
    assert {(row.group, row.name): row[4:] for row in rows}["all", "beyond one function"] == (1, 1, 0, 0)
    contact.record(rows, kept)
    assert contact.recorded(kept) == rows
    with pytest.raises(SystemExit, match="never edited"):
        contact.record(rows, kept)
    contact.record([row._replace(round=2) for row in rows], kept)
    assert len(contact.recorded(kept)) == 2 * len(rows)


@pytest.mark.parametrize("of_files", [False, True])
def test_the_page_has_the_recorded_figures(contact: ModuleType, of_files: bool) -> None:
    whole, _, of_unread = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8").partition("| round of files |")
    page = of_unread if of_files else whole
    known = contact.recorded(contact.FILES[1] if of_files else contact.FIGURES)
    for number in {row.round for row in known}:
        rows = {row.name: row for row in known if row.round == number and row.group == "all"}
        cells = [
            f"{part} of {whole} ({part / whole:.0%})".replace("%", " %")
            for part, whole in (
                (rows["all"].found, rows["all"].flag),
                (rows["beyond one function"].found, rows["beyond one function"].flag),
                (rows["all"].flagged, rows["all"].ok),
            )
        ]
        assert f"| {number} | {' | '.join(cells)} |" in page


def test_the_page_has_the_verdicts_of_maintainers(contact: ModuleType) -> None:
    page = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    lines = (ROOT / "benchmarks" / "first_contact_findings.tsv").read_text(encoding="utf-8").splitlines()
    rows = [dict(zip(lines[0].split("\t"), line.split("\t"), strict=True)) for line in lines[1:]]
    for number in {row["round"] for row in rows}:
        verdicts = Counter(row["verdict"] for row in rows if row["round"] == number)
        assert set(verdicts) <= {"right", "debatable", "wrong"}
        assert sum(verdicts.values()) == FINDINGS
        cells = (f"{verdicts[each]} of {FINDINGS}" for each in ("right", "debatable", "wrong"))
        assert f"| {number} | {' | '.join(cells)} |" in page
    packages = {(site.project, site.version) for sites in contact.rounds().values() for site in sites}
    assert {(row["project"], row["version"]) for row in rows} <= packages


def test_the_page_has_the_verdicts_on_drawn_findings() -> None:
    """One finding of each package in each draw, an error or a warning."""
    page = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    lines = (ROOT / "benchmarks" / "drawn_findings.tsv").read_text(encoding="utf-8").splitlines()
    rows = [dict(zip(lines[0].split("\t"), line.split("\t"), strict=True)) for line in lines[1:]]
    assert {row["severity"] for row in rows} == {"error", "warning"}
    assert len({(row["draw"], row["project"]) for row in rows}) == len(rows)
    for draw in {row["draw"] for row in rows}:
        verdicts = Counter(row["verdict"] for row in rows if row["draw"] == draw)
        assert verdicts.total() == DRAWN
        cells = (f"{verdicts.pop(each)} of {DRAWN}" for each in ("right", "debatable", "wrong"))
        assert f"| {draw} | {' | '.join(cells)} |" in page
        assert not verdicts


def test_severities_are_told_by_verdict(contact: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    severities = importlib.import_module("severities")
    found = severities.judged()
    assert len(found) == FINDINGS * len(contact.rounds())
    assert {each.verdict for each in found} == set(severities.VERDICTS)
    levels = {"right": "error", "debatable": "note", "wrong": severities.GONE}
    lines = severities.table([severities.Weighed(each, levels[each.verdict]) for each in found]).splitlines()
    counts = Counter(each.verdict for each in found)
    assert lines[1].split() == ["right", str(counts["right"]), "0", "0", "0"]
    assert lines[2].split() == ["debatable", "0", "0", str(counts["debatable"]), "0"]
    assert lines[4] == "debatable among error: 0 (0%)"
