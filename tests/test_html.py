"""The page of findings: that it is complete, loads nothing, holds any text, and can be read by light and dark."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from test_cli import Faced, lint, write  # noqa: F401
from test_formats import BROKEN, NASTY, PATHS, UNREADABLE
from test_overview import WAIT, found, many
from test_report import LOOP, context, diagnostic, fix
from torchperf_lint import check
from torchperf_lint.engine.findings import Because, Confidence, Cost, Diagnostic, Edit, Fix, Loss, Rate, Safety
from torchperf_lint.report import Context, bars, elements, html, snippets
from word_rules import word_rules  # noqa: F401

STYLE = Path(html.__file__).with_name("page.css").read_text(encoding="utf-8")
Element = ElementTree.Element


def page(*findings: Diagnostic, data: bytes = LOOP, **options) -> Element:
    """The page's tree; what is no XML is no page of ours."""
    (text,) = html.render(findings, context(data, **options))
    assert text.isascii()
    assert text.startswith("<!DOCTYPE html>\n<html")
    return ElementTree.fromstring(text)


def with_class(tree: Element, name: str) -> list[Element]:
    return [each for each in tree.iter() if name in each.get("class", "").split()]


def text_of(element: Element) -> str:
    return "".join(element.itertext())


def test_a_finding_has_its_place_code_evidence_and_fix() -> None:
    made = diagnostic(
        LOOP,
        b"loss.item()",
        cost=WAIT,
        confidence=Confidence.LIKELY,
        because=(Because(1, "the loop runs per `batch`"), Because(7, "called here", "deep/er/main.py")),
        fix=fix(LOOP, b"loss.item()", b"loss.detach()"),
    )
    (article,) = page(made).iter("article")
    assert text_of(article.find("header/h4")) == "TPL102 item-accumulated"
    facts = [text_of(each) for each in article.find("header/p")]
    assert facts == ["error", "wait per step", "likely", "row 2, column 14"]
    (said, *steps) = with_class(article, "said")
    assert text_of(said) == "loss.item() waits for the device"
    assert text_of(said.find("code")) == "loss.item()"
    assert [text_of(each) for each in steps] == ["the loop runs per batch", "called here"]
    assert [text_of(each) for each in with_class(article, "place")] == ["train.py:1", "deep/er/main.py:7"]
    rows = [(text_of(row.find("i")), text_of(row.find("code"))) for row in with_class(article, "code")[0]]
    assert rows == [("1", "for batch in loader:"), ("2", "    total += loss.item()"), ("3", "print(total)")]
    assert [text_of(each) for each in article.iter("mark")] == ["loss.item()"]
    assert "safe: --fix applies it" in text_of(with_class(article, "fix")[0])
    assert [text_of(each) for each in article.iter("del")] == ["-total += loss.item()"]
    assert [text_of(each) for each in article.iter("ins")] == ["+total += loss.detach()"]


def test_findings_of_one_cause_are_one_article_with_parts() -> None:
    shared = Because(1, "the loop")
    same = fix(LOOP, b"loss.item()", b"loss")
    head = diagnostic(LOOP, b"loss.item()", cost=WAIT, because=(shared,), fix=same)
    part = head._replace(code="TPL101", name="other", severity="note", because=(shared, Because(3, "more")))
    (article,) = page(head, part).iter("article")
    (told,) = with_class(article, "part")
    assert "row 2, TPL101 other (note, wait per step, proven)" in text_of(told)
    assert len(with_class(article, "code")) == 2, "a row is shown once, beside the fix"
    assert "more" in text_of(told)
    assert "the loop" not in text_of(told), "the evidence of the head is not repeated"
    assert [text_of(each) for each in article.iter("ins")] == ["+total += loss"], "nor is its fix"
    other = part._replace(fix=fix(LOOP, b"loss.item()", b"other"))
    assert [text_of(each) for each in page(head, other).iter("ins")] == ["+total += loss", "+total += other"]


def test_each_row_of_one_cause_is_shown_once() -> None:
    data = b"a = x[m]\nb, c = y[m], z[m]\n"
    made = [diagnostic(data, text, about="p") for text in (b"x[m]", b"y[m]", b"z[m]")]
    (article,) = page(*made, data=data).iter("article")
    assert [text_of(each) for each in article.iter("mark")] == ["x[m]", "y[m]"]
    also = [text_of(each) for each in with_class(article, "also")]
    assert also == ["Also row 2, TPL102 item-accumulated"] * 2


def test_totals_and_plots_count_the_findings() -> None:
    tree = page(*many(), describe=check.described, again=["."])
    assert text_of(tree.find("body/main/header/h1")).startswith("60 findings")
    facts = {text_of(each.find("dt")): text_of(each.find("dd")) for each in tree.find("body/main/header/dl")}
    assert facts == {
        "errors": "20",
        "warnings": "20",
        "notes": "20",
        "likely, not proven": "0",
        "safe fixes": "12",
        "unsafe fixes": "12",
        "shown fixes": "12",
        "without a fix": "24",
    }
    by_cost, by_rule, by_file = with_class(tree, "bars")
    assert [(text_of(each.find("div")), text_of(each.find("span"))) for each in by_cost] == [("wait per step", "60")]
    assert [text_of(each.find("svg/title")) for each in by_cost] == ["wait per step: 20 errors, 20 warnings, 20 notes"]
    assert [text_of(each.find("span")) for each in by_rule] == ["20", "20", "20"]
    assert "A device scalar is read on the host" in text_of(by_rule)
    assert len(by_file) == 12
    widths = [float(each.get("width").rstrip("%")) for each in by_cost.iter("rect")]
    assert len(widths) == 3
    assert max(widths) - min(widths) < 0.1
    assert 99 < sum(widths) < 100, "the longest bar takes the width that there is"
    starts = [float(each.get("x").rstrip("%")) for each in by_cost.iter("rect")]
    assert [round(each) for each in starts] == [0, 33, 67]


def test_cost_classes_stand_in_order_and_bars_are_as_long_as_their_counts() -> None:
    costs = [None, Cost(Rate.ONCE, Loss.WAIT), Cost(Rate.ELEMENT, Loss.BYTES), WAIT]
    findings = [
        found(row=10 * n + m)._replace(cost=cost) for n, cost in enumerate(costs) for m in range(0, 2 * n + 2, 2)
    ]
    by_cost = with_class(page(*findings), "bars")[0]
    assert [text_of(each.find("div")) for each in by_cost] == [
        "bytes per element",
        "wait per step",
        "wait once",
        "no cost in time or memory",
    ]
    assert [text_of(each.find("span")) for each in by_cost] == ["3", "4", "2", "1"]
    widths = [float(each.find("svg/rect").get("width").rstrip("%")) for each in by_cost]
    assert [round(each / widths[1], 1) for each in widths] == [0.7, 1.0, 0.5, 0.2]


def test_waits_and_other_costs_have_their_causes_and_files_stand_by_cost() -> None:
    copies = [found("copies.py", row=row)._replace(cost=Cost(Rate.STEP, Loss.BYTES)) for row in range(1, 9, 2)]
    waits = [found("waits.py")._replace(code="TPL101"), found("both.py"), found("both.py", row=5)]
    tree = page(*copies, *waits)
    titles = [text_of(each) for each in tree.iter("h2")][1:5]
    assert titles == ["By cost", "Waits by cause", "Other costs by cause", "Files by cost"]
    _, of_waits, of_others, by_file = with_class(tree, "bars")
    assert sorted(text_of(each.find("span")) for each in of_waits) == ["1", "2"]
    assert [text_of(each.find("span")) for each in of_others] == ["4"]
    assert [text_of(each.find("div")).strip() for each in by_file] == ["both.py", "waits.py", "copies.py"]


def test_a_cause_of_two_costs_leads_from_both_plots_to_its_one_article() -> None:
    wait = found()
    copy = wait._replace(code="TPL101", severity="note", cost=Cost(Rate.STEP, Loss.BYTES))
    tree = page(copy, wait)
    (article,) = tree.iter("article")
    _, of_waits, of_others, _ = with_class(tree, "bars")
    targets = [bars.find("li/div/a").get("href") for bars in (of_waits, of_others)]
    assert targets == [f"#{article.get('id')}"] * 2


def test_files_beyond_the_plot_are_counted() -> None:
    tree = page(*(found(f"{n:02}.py") for n in range(bars.MOST_FILES + 3)))
    assert len(with_class(tree, "bars")[2]) == bars.MOST_FILES
    assert "3 more files have fewer." in text_of(tree)


def test_every_link_leads_to_one_place_of_the_page() -> None:
    tree = page(*many(), again=["."])
    ids = [each.get("id") for each in tree.iter() if each.get("id")]
    assert len(ids) == len(set(ids))
    targets = [each.get("href") for each in tree.iter("a")]
    assert len(targets) > 15
    assert {each.removeprefix("#") for each in targets} <= set(ids)
    places = {article.get("id"): article for article in tree.iter("article")}
    for each in with_class(tree, "begin")[0].iter("a"):
        row = text_of(each).rpartition(":")[2]
        assert f"row {row}, " in text_of(places[each.get("href").removeprefix("#")])


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    (text,) = html.render([diagnostic(LOOP, b"loss.item()")], context(LOOP))
    tree = ElementTree.fromstring(text)
    assert not {"script", "link", "img", "iframe", "object", "base"} & {each.tag for each in tree.iter()}
    assert not {"src", "srcset", "xlink:href", "onclick", "onload"} & {
        name for each in tree.iter() for name in each.attrib
    }
    assert all(each.get("href").startswith("#") for each in tree.iter("a"))
    assert "//" not in text
    assert not re.search(r"url\(|@import|@font-face|expression\(", STYLE)


@pytest.mark.parametrize("path", PATHS)
def test_any_text_is_held(path: str) -> None:
    data = f"for batch in loader:\n    total += loss.item()  # </code><script>{NASTY[:20]}\n".encode()
    nasty = diagnostic(
        data,
        b"loss.item()",
        path=path,
        message=f"`<script>alert(1)</script>` {NASTY}",
        because=(Because(1, NASTY), Because(9, f"<b>{NASTY}", path)),
        fix=fix(data, b"loss.item()", b"'<img src=x>' & 1"),
    )
    tree = page(nasty, data=data, failures=[BROKEN._replace(path=path), UNREADABLE], again=[path])
    assert not list(tree.iter("script"))
    assert not list(tree.iter("img"))
    (ins,) = tree.iter("ins")
    assert "'<img src=x>' & 1" in text_of(ins)
    assert "<script>alert(1)</script>" in text_of(tree)


def test_a_file_that_has_gone_still_has_its_finding() -> None:
    def gone(path: str) -> bytes:
        raise FileNotFoundError(path)

    (text,) = html.render([diagnostic(LOOP, b"loss.item()", fix=fix(LOOP, b"loss", b"x"))], Context(gone))
    (article,) = ElementTree.fromstring(text).iter("article")
    assert not with_class(article, "code")
    assert "loss.item()" in text_of(article)
    assert "add on the device" in text_of(article)


def test_what_could_not_be_checked_is_told() -> None:
    tree = page(failures=[BROKEN, UNREADABLE])
    assert text_of(tree.find("body/main/header/h1")) == "No findings"
    (section,) = with_class(tree, "failures")
    assert "gone.py" in text_of(section)
    assert f"{BROKEN.path}:{BROKEN.row}:{BROKEN.column}" in text_of(section)
    row_only = page(failures=[BROKEN._replace(column=None)])
    assert f"{BROKEN.path}:{BROKEN.row}" in text_of(with_class(row_only, "failures")[0])
    assert "2 files could not be checked." in text_of(tree)
    assert not with_class(page(), "failures")
    beside = page(*many(), failures=[BROKEN])
    assert text_of(with_class(beside, "lead")[0]).endswith("1 file could not be checked.")
    assert "could not be checked" not in text_of(page(*many()))


def test_the_page_does_not_call_every_note_advice() -> None:
    """Notes may stand under "wait per step": they are waits that matter less."""
    lead = text_of(with_class(page(diagnostic(LOOP, b"loss.item()", severity="note", cost=WAIT)), "lead")[0])
    assert "A finding that matters less, such as a wait behind another one, is milder than its rule." in lead


@pytest.mark.slow
def test_long_statements_and_long_lines_are_cut() -> None:
    data = b"f(\n" + b"    1,\n" * 30 + b")\ng()\n"
    (article,) = page(diagnostic(data, data[:-5].strip()), data=data).iter("article")
    rows = [text_of(row.find("i")) for row in with_class(article, "code")[0]]
    assert rows == [*map(str, range(1, snippets.MOST_ROWS + 1)), "", "13", "14"]
    data = b"x = [" + b"1, " * 5000 + b"y.item(), " + b"2, " * 5000 + b"]\n"
    made = diagnostic(data, b"y.item()", fix=fix(data, b"y.item()", b"y"))
    (article,) = page(made, data=data).iter("article")
    assert [text_of(each) for each in article.iter("mark")] == ["y.item()"]
    assert all(len(text_of(row)) < snippets.MOST_COLUMNS + 20 for block in with_class(article, "code") for row in block)


@pytest.mark.parametrize(
    ("lines", "common"),
    [(["    a", "      b", ""], 4), (["\ta", "    b"], 0), (["a", "  b"], 0), ([], 0), (["\t\ta", "\tb"], 1)],
)
def test_indentation_that_all_rows_share_is_left_out(lines: list[str], common: int) -> None:
    assert snippets._common_indentation(lines) == common


def test_a_fix_with_unsafe_and_shown_grade_says_so() -> None:
    for grade, words in ((Safety.UNSAFE, "--unsafe-fixes applies it"), (Safety.SHOWN, "never written")):
        edits = (Edit(0, 0, b"import math\n"),)
        tree = page(diagnostic(LOOP, b"loss.item()", fix=Fix("use math", grade, edits)))
        assert words in text_of(with_class(tree, "fix")[0])


def test_paths_may_be_broken_behind_their_slashes_only() -> None:
    assert elements.broken("a/<b>/c.py") == "a/<wbr/>&lt;b&gt;/<wbr/>c.py"


def test_the_command_line_writes_the_page(lint) -> None:  # noqa: F811
    write("a.py", "x = slow\n")
    assert lint("--output-format", "html", "-o", "report.html") == (1, "", "")
    tree = ElementTree.parse("report.html").getroot()
    assert [text_of(each) for each in tree.iter("mark")] == ["slow"]
    assert "torchperf-lint --diff" in text_of(with_class(tree, "next")[0])


# The style sheet


def palettes() -> dict[str, dict[str, str]]:
    """The colours by light, by dark and on paper."""
    blocks = re.findall(r"^ *:root \{(.*?)\}", STYLE, re.DOTALL | re.MULTILINE)
    colours = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6})", block)) for block in blocks]
    return dict(zip(("light", "dark", "print"), colours, strict=True))


def luminance(colour: str) -> float:
    """The relative luminance of WCAG 2."""
    digits = colour[1:] if len(colour) == 7 else "".join(each * 2 for each in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("mode", ["light", "dark", "print"])
def test_text_stands_out_from_what_lies_behind_it(mode: str) -> None:
    colours = palettes()[mode]
    pairs = [(text, paper) for text in ("ink", "muted") for paper in ("paper", "raised")]
    pairs += [("ink", "mark"), ("del-ink", "del"), ("ins-ink", "ins")]
    pairs += [(level, "paper") for level in ("error", "warning", "note")]
    weak = {pair: contrast(*(colours[name] for name in pair)) for pair in pairs}
    assert {pair: round(ratio, 2) for pair, ratio in weak.items() if ratio < 4.5} == {}
    assert "@media (prefers-color-scheme: dark)" in STYLE
    assert "@media print" in STYLE


def test_the_style_sheet_has_the_classes_of_the_page() -> None:
    tree = page(*many(), failures=[BROKEN], again=["."])
    used = {name for each in tree.iter() for name in each.get("class", "").split()}
    styled = set(re.findall(r"\.([a-z][a-z-]*)", STYLE))
    assert used - styled == set()
    assert STYLE.isascii()
