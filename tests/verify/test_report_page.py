"""The report page: what it shows is what was counted, whatever the programs hold, and it needs nothing but itself."""

from __future__ import annotations

import datetime
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from torchperf_lint.engine import registry
from torchperf_lint.engine.declare import Rule
from torchperf_lint.measurements import SAFE, UNFIXED, UNSAFE
from torchperf_lint.verify import report
from torchperf_lint.verify.child import FAILED, NOT_SIMULATED, OK
from torchperf_lint.verify.events import Event, Kind, Place
from torchperf_lint.verify.page import markup, plots, timelines
from torchperf_lint.verify.page.entries import Entry, entries_of
from torchperf_lint.verify.pairs import Case, Proof
from torchperf_lint.verify.runs import Run
from torchperf_lint.verify.step_times import StepTimes
from torchperf_lint.verify.workloads import Agreement, Workload

DATE = datetime.date(2031, 2, 3)
SIMULATED = {"kind": "sim", "name": "simulated", "torch": "2.13.0+cpu", "python": "3.11.2", "torchmetrics": "1.9.0"}
GPU = {"kind": "cuda", "name": "Some GPU", "torch": "2.11.0", "python": "3.12.1"}
RULE, OTHER_RULE = registry.all_rules()[:2]
BEFORE = b"for batch in loader:\n    loss = step(batch)\n    total += loss.item()\n"
AFTER = b"for batch in loader:\n    loss = step(batch)\n    total += loss.detach()\n"
EXACTLY = Agreement()
LOOP = ["run_it.py", 1]
ONE = {"type": "float", "value": (1.0).hex()}
TWO = {"type": "float", "value": (2.0).hex()}
VOID = {"meta", "br"}


# ---- proofs made by hand


def event(step: int | None = 2, *, waits: bool = True, file: str = "/tmp/x/run_it.py", **fields: Any) -> Event:
    via = Place("/lib/site-packages/torchmetrics/aggregation.py", 93)
    made = {"kind": Kind.READ, "operator": "aten::item", "where": Place(file, 3), "via": via, **fields}
    return Event(step=step, waits=waits, **made)


def run(*events: Event, status: str = OK, device: dict[str, str] = SIMULATED, **fields: Any) -> Run:
    made = {
        "status": status,
        "error": "",
        "device": device,
        "steps": 8,
        "steady": [[step, *LOOP] for step in (2, 3, 4, 5)],
        "events": [each.as_json() for each in events],
        "operators": [],
        "operators_in": [],
        "counters": {},
        "results": ONE,
        **fields,
    }
    return Run(made, "done\n", "")


def every_step(*events: Event) -> list[Event]:
    return [each._replace(step=step) for step in range(8) for each in events]


def case(name: str = "it", rule: Rule = RULE, agreement: Agreement = EXACTLY, version: str | None = None) -> Case:
    return Case(Workload(Path(f"/fixtures/run_{name}.py"), rule, (), agreement), version)


def proof(**changes: Any) -> Proof:
    """Two waits per step and a copy unfixed, one wait less after each grade of fixes."""
    copy = event(kind=Kind.TO_DEVICE, operator="aten::copy_", waits=False, asynchronous=True, pinned=True)
    made = {
        "case": case(),
        "programs": {UNFIXED: BEFORE, SAFE: AFTER, UNSAFE: AFTER + b"done = True\n"},
        "runs": {
            UNFIXED: run(*every_step(event(), event(), copy)),
            SAFE: run(*every_step(event(), copy)),
            UNSAFE: run(*every_step(copy)),
        },
        "objections": {SAFE: [], UNSAFE: []},
        **changes,
    }
    return Proof(**made)


def gpu_proof(**counters: Any) -> Proof:
    made = proof()
    return made._replace(
        runs={
            variant: Run({**each.report, "device": GPU, "counters": counters}, each.stdout, each.stderr)
            for variant, each in made.runs.items()
        }
    )


def page(*proofs: Proof, times: list[StepTimes | None] | None = None) -> str:
    return report.page(proofs, times or [], DATE)


def only_entry(made: Proof) -> Entry:
    return entries_of([made], [])[0]


# ---- reading the page


class Reader(HTMLParser):
    """Demands that every element is closed where it should be, and keeps the text of elements and their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.rows: list[list[str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, key, value) for key, value in attrs]
        if tag in VOID:
            return
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, key, value) for key, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data

    def row(self, head: str) -> list[str]:
        """The first row of a table that begins with this text."""
        return next(row for row in self.rows if row[0] == head)[1:]


def drawings(text: str) -> list[ET.Element]:
    return [ET.fromstring(each) for each in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]


def shapes(text: str, kind: str) -> list[ET.Element]:
    """The shapes of a class, legends aside."""
    return [shape for drawing in drawings(text) for shape in drawing.iter() if shape.get("class") == kind]


def share(text: str | None) -> float:
    assert text is not None
    return float(text.removesuffix("%")) / 100


# ---- the whole


def everything() -> list[Proof]:
    """Proofs of every outcome that there is."""
    failed = run(status=FAILED, error="RuntimeError: no", steady=[], device={})
    return [
        proof(),
        proof(case=case("versions", version="1.6.1"), runs={UNFIXED: run()}, programs={UNFIXED: BEFORE}, objections={}),
        proof(case=case("refused", OTHER_RULE), objections={SAFE: ["the output differs"], UNSAFE: []}),
        proof(case=case("dead", OTHER_RULE), runs={UNFIXED: failed}, programs={UNFIXED: BEFORE}, objections={}),
        Proof(case("unobtainable", OTHER_RULE, version="1.6.1"), {}, {}, {}, "no such release"),
    ]


def test_page_is_well_formed_and_needs_nothing_else() -> None:
    text = page(*everything())
    reader = Reader(text)
    assert drawings(text)
    assert "://" not in text
    assert not {tag for tag, _, _ in reader.attributes} & {"script", "link", "img", "iframe", "object", "base"}
    assert not re.search(r"@import|url\(", text)
    assert all(value and value.startswith("#") for _, key, value in reader.attributes if key in ("href", "src"))


def test_links_lead_somewhere_and_names_are_given_once() -> None:
    reader = Reader(page(*everything()))
    names = [value for _, key, value in reader.attributes if key == "id"]
    assert len(names) == len(set(names))
    assert {f"#{name}" for name in names} >= {value for _, key, value in reader.attributes if key == "href"}


def test_drawings_are_named_or_hidden() -> None:
    text = page(*everything())
    for drawing in drawings(text):
        assert drawing.get("role") != "img" or drawing[0].tag == "title"
        assert drawing.get("role") == "img" or all(shape.tag == "text" for shape in drawing)


def test_page_is_the_same_but_for_the_date() -> None:
    text = page(*everything())
    assert text == page(*everything())
    later = report.page(everything(), [], datetime.date(2032, 1, 1))
    assert later == text.replace("2031-02-03", "2032-01-01")
    assert later != text


def test_passing_folders_are_not_shown() -> None:
    assert "/tmp/x" not in page(proof())


def test_write_makes_the_folder_and_replaces_the_page(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "down"
    path = report.write([], folder)
    assert path == folder / "report.html"
    report.write([proof()], folder)
    assert "Nothing was run" not in path.read_text(encoding="utf-8")
    assert RULE.code in path.read_text(encoding="utf-8")


def test_nothing_was_run() -> None:
    text = page()
    Reader(text)
    assert "Nothing was run." in text
    assert "<svg" not in text


# ---- numbers


def test_numbers_of_the_table_are_the_counts() -> None:
    staged = event(kind=Kind.TO_HOST, operator="aten::copy_", waits=False, asynchronous=True)
    third = [event(step=2), event(step=3), event(step=3), event(step=0)]
    made = proof(runs={UNFIXED: run(*third, *every_step(staged)), SAFE: run()}, programs={UNFIXED: BEFORE, SAFE: AFTER})
    reader = Reader(page(made))
    assert made.runs[UNFIXED].counts().waits == Fraction(3, 4)
    assert reader.row("unfixed") == ["0.75", "1", "0", "1.75", ""]
    assert reader.row("--fix") == ["0", "0", "0", "0", "equal"]


def test_head_adds_up_what_is_accepted_and_fixed() -> None:
    refused = proof(objections={SAFE: ["no"], UNSAFE: []})
    text = page(proof(), proof(), refused)
    heading = re.search("<h1>(.*?)</h1>", text)
    assert heading is not None
    assert re.sub("<.*?>", "", heading[1]) == "4 → 0waits per step"
    assert "each of the 2 programs" in text
    assert "<dt>Accepted</dt><dd>2</dd>" in text
    assert "<dt>Rejected</dt><dd>1</dd>" in text


def test_plot_of_waits_is_to_scale() -> None:
    text = page(proof(), proof(case=case("more"), runs={UNFIXED: run(*every_step(*[event()] * 3)), SAFE: run()}))
    before = [share(each.get("cx")) ** 2 for each in shapes(text, "before")]
    assert before[1] / before[0] == pytest.approx(3 / 2, abs=1e-4)
    assert share(shapes(text, "between")[0].get("cx")) ** 2 == pytest.approx(before[0] / 2, abs=1e-4)
    assert [share(each.get("cx")) for each in shapes(text, "after")] == [0, 0]


@pytest.mark.parametrize("highest", [0, 0.3, 1, 3, 7, 12.5, 55, 999, 100_000])
@pytest.mark.parametrize("ticks", [plots.even_ticks, plots.root_ticks])
def test_axis_reaches_the_highest_in_few_round_steps(ticks: Callable[[float], list[float]], highest: float) -> None:
    found = ticks(highest)
    assert found == sorted(set(found))
    assert found[0] == 0
    assert found[-1] >= highest > (found[-2] if highest > 1 else -1)
    assert len(found) <= 10


def test_plot_says_what_was_not_accepted_not_fixed_or_only_staged() -> None:
    staged = event(kind=Kind.TO_DEVICE, waits=False, asynchronous=True)
    text = plots.waits(
        entries_of(
            [
                proof(objections={SAFE: ["no"]}),
                proof(runs={UNFIXED: run()}, objections={}),
                proof(runs={UNFIXED: run(*every_step(staged)), SAFE: run()}),
                proof(),
            ],
            [],
        )
    )
    remarks = ["rejected", "no fix here", "staged copies 1 → 0"]
    assert re.findall("<small>(.*?)</small>", text) == remarks
    assert text.count('class="refused"') == 1


def test_lines_and_their_source() -> None:
    text = page(proof())
    row = next(row for row in Reader(text).rows if "run_it.py:3" in row[-1])
    assert row[:2] == ["2", "0"]
    assert row[2] == "total += loss.item()run_it.py:3, aten::item through torchmetrics/aggregation.py:93"
    assert "No line makes the host wait." in text


def test_source_of_another_file_is_not_taken_from_the_program() -> None:
    made = proof(runs={UNFIXED: run(*every_step(event(file="/home/me/helper.py")))})
    row = next(row for row in Reader(page(made)).rows if "me/helper.py:3" in row[-1])
    assert row[2].startswith("–me/helper.py:3,")


def test_rows_are_counted_as_python_counts_them() -> None:
    made = proof(programs={UNFIXED: b"a\x0cb\r\nc\rtotal += d.item()\n"}, runs={UNFIXED: run(*every_step(event()))})
    assert only_entry(made).source_line(UNFIXED, Place("/tmp/x/run_it.py", 3)) == "total += d.item()"


def test_diff_goes_from_grade_to_grade() -> None:
    text = page(proof())
    assert "<h4>unfixed → --fix</h4>" in text
    assert "<del>-    total += loss.item()\n</del><ins>+    total += loss.detach()\n</ins>" in text
    second = text.partition("<h4>--fix → --unsafe-fixes</h4>")[2].partition("</pre>")[0]
    assert "<ins>+done = True\n</ins>" in second
    assert "<del>" not in second


# ---- results


def compared(after: Run, agreement: Agreement = EXACTLY, before: Run | None = None) -> str:
    made = proof(case=case(agreement=agreement), runs={UNFIXED: before or run(), SAFE: after})
    return Reader(page(made)).row("--fix")[-1]


def test_results_are_compared() -> None:
    nearly = {"type": "float", "value": (1.0 + 1e-9).hex()}
    assert compared(run()) == "equal"
    assert compared(run(results=TWO)) == "differ"
    assert compared(run(results=nearly)) == "differ"
    assert compared(run(results=nearly), Agreement(1e-6)) == "within 1e-06"
    assert compared(run(results=TWO), Agreement(1e-6)) == "differ"
    assert compared(run(), Agreement(1e-6)) == "equal"
    assert compared(run(results=TWO), Agreement(differ=True)) == "differ, as stated"
    assert compared(run(results={"type": "int", "value": 1}), Agreement(other_types=True)) == "equal but for types"
    assert compared(run(results=TWO), Agreement(other_types=True)) == "differ"
    assert compared(run(results=None)) == "differ"
    assert compared(run()._replace(stdout="other\n")) == "equal, printed ones differ"


def test_results_that_are_only_printed() -> None:
    printed = run(results=None)
    assert compared(printed, before=printed) == "equal"
    assert compared(printed._replace(stdout="other\n"), before=printed) == "differ"
    silent = printed._replace(stdout="")
    assert compared(silent, before=silent) == "none to compare"


def test_nan_equals_nan() -> None:
    nan = run(results={"type": "float", "value": math.nan.hex()})
    assert compared(nan, before=nan) == "equal"


# ---- what did not go well


def test_not_verifiable_here_is_said() -> None:
    made = proof(runs={UNFIXED: run(status=NOT_SIMULATED, error="NotSimulated: aten::nested", steady=[], events=[])})
    text = page(made)
    assert '<span class="verdict not">not verifiable here</span>' in text
    assert "aten::nested" in text
    assert Reader(text).row("unfixed") == ["–", "–", "–", "–", ""]
    assert "No fix was accepted." in text
    assert "<dt>Not verifiable here</dt><dd>1</dd>" in text


def test_obstacle_is_said() -> None:
    text = page(Proof(case(), {}, {}, {}, "the release cannot be fetched"))
    assert "not verifiable here" in text
    assert text.count("the release cannot be fetched") >= 2


def test_failed_program_has_no_counts() -> None:
    made = proof(runs={UNFIXED: run(), SAFE: run(event(), status=FAILED, error="RuntimeError: mixed devices")})
    text = page(made._replace(objections={SAFE: ["the fixed program fails: RuntimeError: mixed devices"]}))
    assert Reader(text).row("--fix") == ["–", "–", "–", "–", "–"]
    assert "mixed devices" in text
    assert '<span class="verdict rejected">' in text


def test_totals_of_a_program_without_steps_are_not_shown_as_counts_per_step() -> None:
    made = proof(runs={UNFIXED: run(event(None), steady=[]), SAFE: run(steady=[])}, objections={SAFE: ["no steps"]})
    text = page(made)
    assert Reader(text).row("unfixed") == ["–", "–", "–", "–", ""]
    assert "There are no steady steps to draw." in text


# ---- hostile programs

HOSTILE = "</pre></style><script>alert('1')</script>&\" \x00\x1b\ud800 ]]>"


def test_everything_is_escaped() -> None:
    waiting = event(file=f"/tmp/x/{HOSTILE}", operator=HOSTILE, via=Place(HOSTILE, 1))
    own = event(file=f"/tmp/x/run_{HOSTILE}.py")
    device = {**SIMULATED, "name": HOSTILE, "torch": HOSTILE}
    source = (f"a = 1\nb = 2\n{HOSTILE}\n" * 2).encode(errors="replace") + b"\xff\xfe\n"
    made = proof(
        case=case(HOSTILE, version=HOSTILE),
        programs={UNFIXED: source, SAFE: source + HOSTILE.encode(errors="replace")},
        runs={UNFIXED: run(*every_step(waiting, own), device=device), SAFE: run(status=FAILED, error=HOSTILE)},
        objections={SAFE: [HOSTILE]},
    )
    text = page(made, Proof(case(), {}, {}, {}, HOSTILE))
    Reader(text)
    assert drawings(text)
    assert "<script" not in text
    assert "alert(&#x27;1&#x27;)" in text
    assert not re.search("[\x00\x1b\ud800]", text)
    text.encode()


def test_markup_escapes_all_but_markup() -> None:
    assert markup.tag("p", "<b>", markup.tag("b", "&")) == "<p>&lt;b&gt;<b>&amp;</b></p>"
    assert markup.tag("a", title='"<', hidden=True, href=None, open=False) == '<a title="&quot;&lt;" hidden=""></a>'
    assert markup.tag("line", x1=0, class_="grid") == '<line x1="0" class="grid"/>'
    assert markup.join(["<", markup.Markup("<")], "&") == "&lt;&amp;<"


@pytest.mark.parametrize(("number", "shown"), [(Fraction(7, 3), "2.333"), (2.0, "2"), (math.nan, "–"), (math.inf, "–")])
def test_numbers_are_plain(number: float, shown: str) -> None:
    assert markup.plain(number) == shown


@pytest.mark.parametrize(
    ("number", "shown"), [(Fraction(7, 3), "2.33"), (25.44, "25.4"), (198.8, "199"), (1234, "1234"), (math.nan, "–")]
)
def test_numbers_for_a_glance(number: float, shown: str) -> None:
    assert markup.short(number) == shown


# ---- the order of events


def strips(text: str) -> list[ET.Element]:
    return [drawing for drawing in drawings(text) if drawing[0].text and drawing[0].text.startswith("Host and device")]


def rects(strip: ET.Element, kind: str) -> list[tuple[float, float]]:
    found = [each for each in strip.iter("rect") if each.get("class") == kind]
    return [(share(each.get("x")), share(each.get("x")) + share(each.get("width"))) for each in found]


def test_timeline_holds_every_wait_in_order() -> None:
    before, after, last = strips(timelines.timelines(only_entry(proof())))
    assert len(rects(before, "waits")) == 6
    assert rects(before, "waits") == sorted(rects(before, "waits"))
    assert len(rects(after, "waits")) == 3
    assert rects(last, "waits") == []
    assert rects(last, "works") == rects(last, "queues") == [(0, 1)]
    assert before[1].text == "step 2: 2 waits; step 3: 2 waits; step 4: 2 waits"


def test_host_never_runs_while_it_waits_and_the_device_runs_dry_after_it() -> None:
    strip = strips(timelines.timelines(only_entry(proof())))[0]
    waits, host, device = (rects(strip, kind) for kind in ("waits", "queues", "works"))
    for (start, end), before, after in zip(waits, host[:-1], host[1:], strict=True):
        assert before[1] == pytest.approx(start, abs=1e-4)
        assert after[0] == pytest.approx(end, abs=1e-4)
    for (_, end), before, after in zip(waits, device[:-1], device[1:], strict=True):
        assert before[1] == pytest.approx(end, abs=1e-4)
        assert after[0] > end


def test_timeline_shows_copies_and_which_of_them_are_staged() -> None:
    pinned = event(kind=Kind.TO_DEVICE, waits=False, asynchronous=True, pinned=True)
    pageable = pinned._replace(pinned=False)
    text = timelines.timelines(only_entry(proof(runs={UNFIXED: run(*every_step(pinned, pageable))})))
    assert len(shapes(text, "copy")) == len(shapes(text, "staged")) == 3


def test_steps_shown_are_those_that_wait_most_within_one_loop() -> None:
    steady = [[step, "run_it.py", 1 if step < 6 else 9] for step in range(2, 12)]
    events = [event(5), event(6), event(10), event(11)]
    text = timelines.timelines(only_entry(proof(runs={UNFIXED: run(*events, steady=steady)})))
    assert [each.text for each in shapes(text, "step")] == ["step 9", "step 10", "step 11"]


def test_one_step_is_enough_where_there_are_many_events() -> None:
    made = proof(runs={UNFIXED: run(*every_step(*[event()] * 31)), SAFE: run()})
    before, after = strips(timelines.timelines(only_entry(made)))
    assert before[1].text == "step 2: 31 waits"
    assert after[1].text == "step 2: 0 waits"
    assert len(rects(before, "waits")) == 31


def test_operators_are_told_where_they_were_counted() -> None:
    operators = [[2, "run_it.py", 2, "aten::mul", 4], [2, "run_it.py", 3, "aten::add", 3], [None, "x", 1, "aten::t", 1]]
    text = timelines.timelines(only_entry(proof(runs={UNFIXED: run(operators=operators)})))
    assert [each.text for each in shapes(text, "step")] == ["step 2 · 7 operators", "step 3", "step 4"]


def test_simulated_device_tells_no_time() -> None:
    text = page(*everything(), times=[times(UNFIXED, SAFE)])
    assert "Order of events, not time:" in text
    assert "No GPU has measured this." in text
    assert not re.search(r"\d ?(ms|µs|us|s)\b", re.sub("<style>.*?</style>", "", text, flags=re.DOTALL))
    assert "Ratio" not in text


# ---- a real GPU


def times(*variants: str, ratio: float = 1.25) -> StepTimes:
    from torchperf_lint.verify.counters.timing import Comparison, Spread

    spread = Spread(2.0, 1.9, 2.1)
    compared = {each: Comparison(ratio, 1.1, 1.4, spread, spread, 3) for each in variants if each != UNFIXED}
    return StepTimes({each: 4.0 - place for place, each in enumerate(variants)}, compared, dict.fromkeys(variants, 0))


RECORDED = {
    "steps": [[3, 0.0, 400.0], [4, 400.0, 600.0]],
    "host": [
        ["cudaLaunchKernel", 10.0, 5.0, 1],
        ["cudaMemcpyAsync", 100.0, 100.0, 1],
        ["cudaStreamSynchronize", 300.0, 50.0, 1],
        ["cudaMemcpyAsync", 500.0, 10.0, 1],
    ],
    "device": [
        ["some_kernel", 20.0, 60.0, 7],
        ["other_kernel", 80.1, 20.0, 13],
        ["Memcpy DtoH (Device -> Pageable)", 150.0, 10.0, 7],
        ["Memcpy HtoD (Pinned -> Device)", 505.0, 2.0, 7],
    ],
    "left_out": 5,
}


def test_times_of_a_gpu() -> None:
    pytest.importorskip("torch")
    text = page(gpu_proof(), gpu_proof(), times=[times(UNFIXED, SAFE, UNSAFE), None])
    reader = Reader(text)
    assert reader.row("unfixed")[-2:] == ["4 ms", ""]
    assert reader.row("--unsafe-fixes")[-2:] == ["2 ms", "1.25"]
    assert [row[-2:] for row in reader.rows if row[0] == "--fix"][1] == ["–", "–"]
    assert "No GPU" not in text
    interval = shapes(text, "interval")[0]
    assert share(interval.get("x1")) / share(interval.get("x2")) == pytest.approx(1.1 / 1.4, abs=1e-4)


def test_ratio_that_is_no_number() -> None:
    pytest.importorskip("torch")
    text = page(gpu_proof(), times=[times(UNFIXED, SAFE, ratio=math.nan)])
    assert Reader(text).row("--fix")[-1] == "–"
    assert "nan" not in re.sub("<style>.*?</style>", "", text, flags=re.DOTALL)


def test_timeline_in_time() -> None:
    text = timelines.timelines(only_entry(gpu_proof(timeline=RECORDED)))
    strip = strips(text)[0]
    assert rects(strip, "waits") == [
        (pytest.approx(0.1), pytest.approx(0.2)),
        (pytest.approx(0.3), pytest.approx(0.35)),
    ]
    assert rects(strip, "works")[0] == (pytest.approx(0.02), pytest.approx(0.1001))
    assert len(rects(strip, "works")) == 3
    assert strip[1].text == "step 3: 0.4 ms; step 4: 0.6 ms"
    assert "5 entries are not shown" in text
    assert "not time" not in text


def test_variants_share_one_time_axis() -> None:
    made = gpu_proof(timeline=RECORDED)
    short = {**RECORDED, "steps": [[3, 0.0, 200.0], [4, 200.0, 300.0]]}
    fixed = Run({**made.runs[SAFE].report, "counters": {"timeline": short}}, "", "")
    text = timelines.timelines(only_entry(made._replace(runs={**made.runs, SAFE: fixed})))
    assert [rects(strip, "queues") for strip in strips(text)] == [[(0, 1)], [(0, 0.5)], [(0, 1)]]


def test_gpu_without_a_profile() -> None:
    empty = {"steps": [], "host": [], "device": [], "left_out": 0}
    for made in (gpu_proof(timeline=empty), gpu_proof()):
        assert "There are no steady steps to draw." in timelines.timelines(only_entry(made))
    assert "were not timed" in page(gpu_proof())
