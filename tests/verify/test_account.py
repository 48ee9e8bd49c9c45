"""What is told of a user's program: loops apart, each line with its share and findings, in any format."""

from __future__ import annotations

import datetime
import json
import os
from fractions import Fraction
from xml.etree import ElementTree

import pytest
from synthetic import event, run

from torchperf_lint.engine.findings import Because, Diagnostic, Edit, Fix, Safety
from torchperf_lint.verify import account_json, account_text
from torchperf_lint.verify.account import account_of, percent
from torchperf_lint.verify.events import Kind, Place
from torchperf_lint.verify.page.account import page
from torchperf_lint.verify.script import join
from torchperf_lint.verify.sources import Sources

PROGRAM = "for x in batches:\n    a = x.item()\n    print(x < 3)\nfor x in others:\n    y = x.cpu()\n"


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    return str(path)


def finding(path, row, *, safety=None, code="TPL101", because=()):
    fix = safety and Fix("do it", safety, (Edit(0, 3, b"for"),))
    return Diagnostic(path, row, 1, row, 9, code, "x", "error", f"says <{row}>", because, fix, 0, 1, (row, row))


def two_loops(script):
    """Six steps of one loop that wait once, and once more in two of them; two steps of another that wait twice."""
    first = [event(step=step, row=2, file=script) for step in range(6)]
    first += [event(step=step, row=3, file=script, operator="nonzero") for step in (1, 2)]
    second = [
        event(Kind.TO_HOST, step=step, row=5, file=script, operator=name) for step in (6, 7) for name in ("to", "copy")
    ]
    steady = [[step, script, 1 if step < 6 else 4] for step in range(8)]
    outside = [event(step=None, row=5, file=script)] * 9
    counted = run([*first, *second, *outside], rows={script: [1, 2, 3, 4, 5]})
    return counted._replace(report={**counted.report, "steady": steady})


def account(counted, found=(), **included):
    (script,) = {each.where.file for each in counted.events if each.where.file.endswith("train.py")}
    sources = Sources(script, {script: ""}, included)
    joined = join(found, [line for loop in counted.loops() for line in loop.lines])
    return account_of(counted, joined, [], sources)


def test_loops_are_told_apart_and_their_averages_still_add_up(script):
    told = account(two_loops(script))
    assert [(loop.where, loop.steps, loop.waits) for loop in told.loops] == [
        (Place(script, 1), 6, Fraction(8, 6)),
        (Place(script, 4), 2, 2),
    ]
    assert told.counts.waits == Fraction(8, 6) + 2
    assert [line.where.row for line in told.loops[0].lines] == [2, 3]


def test_a_lines_share_is_that_of_the_waits_that_were_counted_in_all_loops(script):
    told = account(two_loops(script))
    assert [line.share for line in told.lines] == [Fraction(6, 12), Fraction(2, 12), Fraction(4, 12)]


def test_what_a_line_waits_for_is_told_once_for_each_way(script):
    (line,) = account(two_loops(script)).loops[1].lines
    assert (line.waits, [way.operator for way in line.ways]) == (2, ["to", "copy"])


def test_without_steps_all_that_happened_is_one_loop_without_a_place(script):
    (loop,) = account(run([event(step=None, row=2, file=script)] * 3, steady=())).loops
    assert (loop.where, loop.steps, loop.waits, loop.lines[0].share) == (None, 0, 3, 1)


@pytest.mark.parametrize(
    ("share", "shown"),
    [(Fraction(1, 3), "33 %"), (Fraction(1), "100 %"), (Fraction(1, 900), "< 1 %"), (Fraction(0), "0 %")],
)
def test_shares_are_whole_percentages(share, shown):
    assert percent(share) == shown


def test_the_text_gives_each_line_its_findings_and_each_finding_its_fix(script):
    found = [
        finding(script, 2, safety=Safety.SAFE),
        finding(script, 2, safety=Safety.UNSAFE, code="TPL102"),
        finding(script, 5, safety=Safety.SHOWN),
        finding(script, 1),
        finding(script, 9),
    ]
    rows = account_text.render(account(two_loops(script), found)).splitlines()
    assert rows[2:] == [
        "loop at train.py:1, 6 steps counted: the host waits 1.33 times per step",
        "  train.py:2  1 waits, 50 %: item",
        "      TPL101 says <2> (--fix mends it)",
        "      TPL102 says <2> (--fix --unsafe-fixes mends it)",
        "  train.py:3  0.333 waits, 17 %: nonzero",
        "      not found",
        "",
        "loop at train.py:4, 2 steps counted: the host waits 2 times per step",
        "  train.py:5  2 waits, 33 %: to; copy",
        "      TPL101 says <5> (a fix is shown, and not made)",
        "",
        "found, ran and did not wait",
        "  train.py:1  TPL101 says <1> (no fix)",
        "",
        "found, did not run",
        "  train.py:9  TPL101 says <9> (no fix)",
        "",
        "3 findings confirmed, 1 did not wait, 1 did not run; 3 waiting lines, 1 not found",
    ]


def test_a_finding_of_what_costs_elsewhere_has_its_place(script):
    made = finding(script, 1, code="TPL301", because=(Because(5, "updated here"),))
    assert "      train.py:1  TPL301 says <1> (no fix)" in account_text.render(account(two_loops(script), [made]))


def test_json_and_page_hold_what_the_text_does(script):
    found = [
        finding(script, 2, safety=Safety.SAFE, because=(Because(1, "loops"),)),
        *(finding(script, row) for row in (4, 8)),
    ]
    told = account(two_loops(script), found)
    data = json.loads(account_json.render(told))
    assert (data["script"], data["status"], data["counted"]) == ("train.py", "ok", 8)
    assert [(loop["location"]["row"], loop["steps"], loop["waits_per_step"]) for loop in data["loops"]] == [
        (1, 6, 1.333333),
        (4, 2, 2.0),
    ]
    line = data["loops"][0]["lines"][0]
    assert (line["location"], line["share"]) == ({"filename": "train.py", "row": 2}, 0.5)
    assert [(each["code"], each["fix"]["applicability"], each["path"]) for each in line["findings"]] == [
        ("TPL101", "safe", ["train.py:1", "train.py:2"])
    ]
    assert data["loops"][0]["lines"][1]["findings"] == []
    assert [(each["location"]["row"], each["ran"]) for each in data["not_seen"]] == [(4, True), (8, False)]

    text = page(told, datetime.date(2031, 2, 3))
    ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>"))
    for shown in (
        "Loop at train.py:1",
        "Loop at train.py:4",
        "a = x.item()",
        "print(x &lt; 3)",
        "50 %",
        "17 %",
        "33 %",
    ):
        assert shown in text
    assert "TPL101 says &lt;2&gt; (--fix mends it)" in text
    assert text.count("not found") == 2
    idle, not_run = text.partition("<h2>Found, ran and did not wait")[2].split("<h2>Found, did not run")
    assert "train.py:4  TPL101 says &lt;4&gt; (no fix)" in idle
    assert "train.py:8  TPL101 says &lt;8&gt; (no fix)" in not_run


def test_paths_are_relative_or_begin_with_the_package(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    package = str(tmp_path / "lib" / "site-packages" / "trainer")
    own = str(tmp_path / "here" / "own")
    sources = Sources(str(tmp_path / "here" / "train.py"), {}, {"trainer": [package], "own": [own]})
    assert sources.shown(os.path.join(package, "loop.py")) == os.path.join("trainer", "loop.py")
    assert sources.shown(os.path.join(own, "loop.py")) == os.path.join("own", "loop.py")
    assert sources.shown(f"{package}s/loop.py") == os.path.join("..", "lib", "site-packages", "trainers", "loop.py")
    assert sources.place(Place("<thread x>", 0)) == "<thread x>"


def test_of_many_findings_the_text_lists_some(script):
    found = [finding(script, row) for row in range(20, 35)]
    rows = account_text.render(account(two_loops(script), found)).splitlines()
    assert sum(row.startswith("  train.py:2") and "says" in row for row in rows) == 10
    assert "  and 5 more, which --report and --output-format json list" in rows


def test_what_a_failed_program_did_not_come_to_is_under_no_heading(script):
    counted = two_loops(script)
    failed = counted._replace(report={**counted.report, "status": "failed", "error": "ValueError: no"})
    text = account_text.render(account(failed, [finding(script, 9)]))
    assert "did not" not in text
    assert "0 findings confirmed, 1 neither confirmed nor refuted" in text
