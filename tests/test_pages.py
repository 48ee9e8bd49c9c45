"""The pages of the rules: one per rule, true to the declaration, with examples that do what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from linting import ROOT, RULE_FIXTURES
from torchperf_lint import pages
from torchperf_lint.engine.declare import Rule
from torchperf_lint.engine.findings import Diagnostic, Safety
from torchperf_lint.engine.fixer import fix_source
from torchperf_lint.engine.registry import all_rules
from torchperf_lint.engine.runner import check_source
from torchperf_lint.knowledge.hints import Hints
from torchperf_lint.knowledge.versions import Target, parse_version

PAGES = ROOT / "rules"
MODULES = ROOT / "torchperf_lint" / "rules"
ATTRIBUTES = {"torch", "torchmetrics", "fix"}

every_rule = pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: f"{rule.code}-{rule.stem}")


def test_modules_pages_and_fixture_folders_match() -> None:
    declared = {f"{rule.category.name.lower()}/{rule.stem}" for rule in all_rules()}
    assert _stems(MODULES, ".py") == declared
    assert _stems(PAGES, ".md") == declared
    assert {folder.relative_to(RULE_FIXTURES).as_posix() for folder in RULE_FIXTURES.glob("*/*/")} == declared


@every_rule
def test_page_agrees_with_the_declaration(rule: Rule) -> None:
    pages.load_page(rule)


@every_rule
def test_a_page_shown_alone_leads_to_no_file_beside_it(rule: Rule) -> None:
    assert not re.search(r"\]\((?!\w+:|#)", pages.page_text(rule))


@every_rule
def test_bad_examples_report_exactly_this_rule(rule: Rule) -> None:
    page = pages.load_page(rule)
    for fence in page.codes("bad"):
        found = _check(rule, _with_setup(page, fence), fence)
        assert {each.code for each in found} == {rule.code}, f"row {fence.row}: {_listed(found)}"


@every_rule
def test_good_examples_are_silent(rule: Rule) -> None:
    page = pages.load_page(rule)
    for fence in page.codes("good"):
        found = _check(rule, _with_setup(page, fence), fence)
        assert not found, f"row {fence.row}: {_listed(found)}"


@every_rule
def test_fixed_bad_is_good(rule: Rule) -> None:
    page = pages.load_page(rule)
    if rule.fix not in (Safety.SAFE, Safety.UNSAFE):
        return
    pairs = [fence for fence in page.codes("bad") if fence.attributes.get("fix") != "none"]
    good = page.codes("good")
    assert pairs, "a rule with a fix shows it"
    assert len(good) >= len(pairs), "each bad example has its good one, or says fix=none"
    for bad, wanted in zip(pairs, good, strict=False):
        code = _with_setup(page, bad)
        fixed = fix_source("example.py", code, _judges(rule), _target(bad), Hints(), unsafe=True)
        assert fixed.data.decode() == _with_setup(page, wanted).decode(), f"row {bad.row}"


@every_rule
def test_attributes_of_fences_are_known(rule: Rule) -> None:
    for fence in pages.load_page(rule).fences:
        assert set(fence.attributes) <= ATTRIBUTES, f"row {fence.row}"


def test_index_of_the_pages(bless: bool) -> None:
    _compare(PAGES / "README.md", pages.index(), bless=bless)


def _compare(path: Path, wanted: str, *, bless: bool) -> None:
    if bless:
        path.write_text(wanted, encoding="utf-8")
    assert path.is_file(), f"{path.name} is missing; `pytest --bless` writes it"
    assert path.read_text(encoding="utf-8") == wanted, f"{path.name} is out of date; `pytest --bless` rewrites it"


def _with_setup(page: pages.Page, fence: pages.Fence) -> bytes:
    return "".join(each.code for each in (*page.codes("setup"), fence)).encode()


def _judges(rule: Rule) -> tuple[Rule, ...]:
    """The rules that an example is for: the page's, and all that are on by default."""
    return tuple(each for each in all_rules() if each.default or each is rule)


def _check(rule: Rule, code: bytes, fence: pages.Fence) -> list[Diagnostic]:
    report = check_source("example.py", code, _judges(rule), _target(fence), Hints())
    assert report.failure is None, f"row {fence.row}: {report.failure}"
    return list(report.diagnostics)


def _target(fence: pages.Fence) -> Target:
    known = {library: fence.attributes.get(library) for library in ("torch", "torchmetrics")}
    return Target(**{library: parse_version(text) for library, text in known.items() if text})


def _listed(found: list[Diagnostic]) -> str:
    return "; ".join(f"{each.code} in line {each.row} of the example: {each.message}" for each in found) or "nothing"


def _stems(folder: Path, suffix: str) -> set[str]:
    """`sync/item_in_hot_loop` for each file of a category's folder, helpers with a leading underscore left out."""
    return {
        path.relative_to(folder).with_suffix("").as_posix()
        for path in folder.glob(f"*/*{suffix}")
        if not path.name.startswith("_")
    }
