"""What pages and tables say of measured effects is what `rules/measurements.json` holds, and nothing else."""

from __future__ import annotations

import re

import pytest

from linting import ROOT
from torchperf_lint import measurements, pages
from torchperf_lint.engine import registry
from torchperf_lint.engine.findings import Safety
from torchperf_lint.measurements import SIMULATED, Device, Measurement

PATH = ROOT / "rules" / measurements.NAME
RULES = registry.all_rules()
EVERY_RULE = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
A_TIME = re.compile(r"\d\s*(?:ms|µs|us|seconds?|milliseconds?|microseconds?|times? (?:faster|slower))\b")

CASE = Measurement("plain", None, {"unfixed": 2.0, "safe": 0.5}, {"unfixed": 0.0, "safe": 0.0}, "equal")
STAGED = Measurement("loader", "1.9.0", {"unfixed": 0.0, "unsafe": 0.0}, {"unfixed": 2.0, "unsafe": 0.0}, "equal")


@EVERY_RULE
def test_a_page_says_what_was_measured_and_nothing_else(rule):
    section = pages.load_page(rule).sections.get(pages.MEASURED, "")
    assert section == measurements.section(rule, pages.measured())


@EVERY_RULE
def test_a_page_gives_no_time_that_no_gpu_has_measured(rule):
    if not any(device.rules.get(rule.code) for device in measurements.real(pages.measured())):
        text = pages.page_text(rule)
        assert not A_TIME.search(text), A_TIME.search(text)


def test_every_rule_that_fixes_has_been_measured():
    measured = pages.measured()[SIMULATED].rules
    # TPL501's fix is for trainers of frameworks that the suite does not install.
    without = {rule.code for rule in RULES if rule.fix in (Safety.SAFE, Safety.UNSAFE)} - set(measured)
    assert without == {"TPL501"}


def test_every_measured_fix_lessens_something():
    for code, rows in pages.measured()[SIMULATED].rules.items():
        assert (
            any(
                row.others or row.waits[variant] < row.waits["unfixed"] or row.staged[variant] < row.staged["unfixed"]
                for row in rows
                for variant in row.waits
                if variant != "unfixed"
            )
            or registry.find_rule(code).fix is Safety.SHOWN
        ), code


def test_the_file_is_written_in_one_way():
    assert measurements.text_of(pages.measured()) == PATH.read_text(encoding="utf-8")


def test_a_simulated_device_has_no_times():
    assert not any(row.step_ms for rows in pages.measured()[SIMULATED].rules.values() for row in rows)


def test_a_section_shows_each_device():
    rule = registry.find_rule("TPL102")
    simulated = Device(SIMULATED, "2.13.0", "2026-01-02", {"TPL102": (CASE, STAGED)})
    text = measurements.section(rule, {SIMULATED: simulated})
    assert "| `run_plain.py` | 2 | 0.5 | – | equal |" in text
    assert "| `run_loader.py`, torchmetrics 1.9.0 | 0, 2 staged | – | 0 | equal |" in text
    assert "Simulated only" in text
    timed = CASE._replace(step_ms={"unfixed": 3.0, "safe": 2.0})
    gpu = Device("Some GPU", "2.11.0", "2026-01-03", {"TPL102": (timed,)})
    text = measurements.section(rule, {SIMULATED: simulated, "Some GPU": gpu})
    assert "| `run_plain.py` | 2 | 0.5 | – | equal | 3.00 → 2.00 |" in text
    assert "Simulated only" not in text


def test_what_else_becomes_less_is_shown_where_the_waits_do_not():
    rule = registry.find_rule("TPL102")
    fewer = CASE._replace(waits={"unfixed": 0.0, "safe": 0.0}, others={"operators": {"unfixed": 12.0, "safe": 8.0}})
    devices = {SIMULATED: Device(SIMULATED, "2.13.0", "2026-01-02", {"TPL102": (CASE, fewer)})}
    text = measurements.section(rule, devices)
    assert "| `run_plain.py` | 2 | 0.5 | – | equal |  |" in text
    assert "| `run_plain.py` | 0 | 0 | – | equal | operators 12 → 8 |" in text
    assert measurements.summary(rule, devices) == "2 → 0.5"
    devices[SIMULATED].rules["TPL102"] = (fewer,)
    assert measurements.summary(rule, devices) == "operators 12 → 8"
    assert measurements.parse(measurements.text_of(devices)) == devices


def test_a_section_is_empty_where_nothing_is_measured():
    assert measurements.section(registry.find_rule("TPL102"), {}) == ""


def test_the_index_shows_the_workload_that_loses_the_largest_share():
    rule = registry.find_rule("TPL102")
    device = Device(SIMULATED, "2.13.0", "2026-01-02", {"TPL102": (CASE, STAGED)})
    assert measurements.summary(rule, {SIMULATED: device}) == "2 → 0"
    assert measurements.summary(rule, {}) == "–"


def test_the_file_survives_a_round_trip():
    devices = {SIMULATED: Device(SIMULATED, "2.13.0", "2026-01-02", {"TPL102": (CASE, STAGED)})}
    assert measurements.parse(measurements.text_of(devices)) == devices


def test_a_section_is_put_in_replaced_and_taken_out():
    page = "# T\n\ntext\n"
    once = pages.with_measured_effect(page, "a table")
    assert once == "# T\n\ntext\n\n## Measured effect\n\na table\n"
    assert pages.with_measured_effect(once, "another") == once.replace("a table", "another")
    assert pages.with_measured_effect(once, "") == page
