"""The first screen: few findings in full and many in short, by file, and the overview with what to type next."""

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path

import pytest

from test_cli import Faced, feed, lint, write  # noqa: F401
from test_report import LOOP, context, diagnostic, fix
from torchperf_lint import cli
from torchperf_lint.engine.findings import Because, CellPath, Confidence, Cost, Diagnostic, Loss, Rate, Safety
from torchperf_lint.report import MOST_IN_FULL, Context, by_path, commands, overview, ranking, text
from word_rules import word_rules  # noqa: F401

WAIT = Cost(Rate.STEP, Loss.WAIT)


def found(path: str = "train.py", *, row: int = 2, **changes) -> Diagnostic:
    """A finding at a row of its own."""
    made = diagnostic(LOOP, b"loss.item()", path=path, cost=WAIT)
    return made._replace(row=row, end_row=row, start=row * 100, end=row * 100 + 5, noqa_rows=(row, row), **changes)


def many() -> list[Diagnostic]:
    """Findings of three rules in twelve files, with fixes of all grades."""
    grades = [*Safety, None, None]
    made = []
    for number in range(60):
        grade = grades[number % 5]
        made.append(
            found(
                f"part/{number % 12:02}.py",
                row=2 * number + 2,
                code=f"TPL10{number % 3}",
                name=f"rule-{number % 3}",
                severity=("error", "warning", "note")[number % 3],
                fix=None if grade is None else fix(LOOP, b"loss", b"x", grade),
            )
        )
    return sorted(made, key=lambda each: (each.path, each.row))


def lines(findings: list[Diagnostic], **options) -> list[str]:
    return list(overview.render(findings, Context(unread, **options)))


def unread(path: str) -> bytes:
    raise AssertionError("the overview reads no source")


def section(shown: list[str], name: str) -> list[str]:
    (start,) = (at for at, line in enumerate(shown, 1) if line == name or line.startswith(f"{name} ("))
    return shown[start : shown.index("", start) if "" in shown[start:] else len(shown)]


# Short and full text


def test_few_findings_are_shown_in_full_and_many_in_a_line_each() -> None:
    few = [found(row=2) for _ in range(MOST_IN_FULL)]
    assert any("= cost: error, wait per step" in line for line in text.render(few, context(LOOP)))
    because = (Because(1, "here"), Because(9, "there", "main.py"))
    shown = list(text.render([*few, found(row=30, severity="note", because=because)], context(LOOP)))
    assert shown[0] == "train.py:2:14: error TPL102 `loss.item()` waits for the device"
    assert shown[-2:] == ["train.py:30:14: note TPL102 `loss.item()` waits for the device (see main.py:9)", ""]
    assert len(shown) == MOST_IN_FULL + 2


def test_the_command_line_ends_with_an_overview_where_there_are_many(lint) -> None:  # noqa: F811
    write("a.py", "x = slow\n" * MOST_IN_FULL)
    assert "By rule" not in lint()[1]
    write("b.py", "x = slow\nrisky\n")
    out = lint()[1]
    assert f"\nFound {MOST_IN_FULL + 2} findings" in out
    assert "\nBy rule (" in out
    assert "= because" not in out
    assert "a.py:1:5: error TPL102 [*] `slow` is slow\n" in out
    assert "fixable with" not in out, "the overview says it"
    assert "By rule" not in lint("-q")[1]
    assert "By rule" not in lint("--output-format", "concise")[1]
    assert "By rule" not in lint("--statistics")[1]
    full = lint("--output-format", "full")[1]
    assert full.count("= because") > 0
    assert "By rule" in full
    grouped = lint("--output-format", "grouped")[1]
    assert f"a.py ({MOST_IN_FULL})\n  1:5   error  TPL102 [*] `slow` is slow\n" in grouped
    assert "By rule" in grouped


def test_summary_prints_the_overview_and_nothing_else(lint) -> None:  # noqa: F811
    write("a.py", "x = slow\n")
    out = lint("--output-format", "summary")[1]
    assert out.startswith("Found 1 finding.\n1 error; all proven.\n\nBy rule (")
    assert lint("--output-format", "summary", "-q")[1].startswith("1 error; all proven.\n")
    write("a.py", "x = 1\n")
    assert lint("--output-format", "summary") == (0, "No findings.\n", "")


def test_grouped_has_a_part_for_each_file() -> None:
    other = found("b.py", severity="note")
    findings = [found("a.py", severity="note"), found("b.py", row=12, fix=fix(LOOP, b"loss", b"x")), other]
    assert list(by_path.render(findings, context(LOOP))) == [
        "a.py (1)",
        "  2:14  note  TPL102     `loss.item()` waits for the device",
        "",
        "b.py (2)",
        "  12:14  error  TPL102 [*] `loss.item()` waits for the device",
        "  2:14   note   TPL102     `loss.item()` waits for the device",
        "",
    ]


def test_what_is_piped_or_written_into_a_file_is_not_cut(lint, monkeypatch) -> None:  # noqa: F811
    path = f"{'a' * 70}/{'b' * 70}.py"
    monkeypatch.setenv("COLUMNS", "60")
    write(path, "x = slow\n")
    assert f"  1  {path} (1 error)\n" in lint("--output-format", "summary")[1]
    lint("--output-format", "summary", "-o", "report")
    assert f"  1  {path} (1 error)\n" in Path("report").read_text()


# The overview


def test_why_is_named_with_the_form_of_its_place() -> None:
    in_cell = found(CellPath("a.ipynb", 3))
    assert any("`torchperf-lint why 'FILE:cell 3:LINE'`" in line for line in lines([in_cell]))
    assert any("`torchperf-lint why FILE:LINE`" in line for line in lines([in_cell, found("a.py")]))


def test_the_overview_counts_by_rule_file_severity_and_fix() -> None:
    shown = lines(many(), again=["part"])
    assert shown[0] == "20 errors, 20 warnings, 20 notes; all proven."
    assert section(shown, "By rule")[0].split() == "20 TPL100 rule-0 error wait per step [*] 4".split()
    by_file = section(shown, "By file")
    assert len(by_file) == overview.MOST_LINES + 1
    assert by_file[0].split() == ["5", "part/00.py", "(5", "errors)"]
    assert by_file[-1] == "  ... and 2 more files (--output-format grouped)"
    assert [line.split()[:2] for line in section(shown, "Fixes")] == [
        ["12", "safe"],
        ["12", "unsafe"],
        ["12", "shown"],
        ["24", "none"],
    ]
    assert lines([]) == []


def test_the_places_to_begin_are_the_weightiest_and_best_shown() -> None:
    element = Cost(Rate.ELEMENT, Loss.WAIT)
    expected = [
        found("z.py", row=2, cost=element),
        found("z.py", row=4, cost=element, confidence=Confidence.LIKELY),
        found("y.py", row=6, fix=fix(LOOP, b"loss", b"x")),
        found("y.py", row=8, fix=fix(LOOP, b"loss", b"x", Safety.UNSAFE)),
        found("x.py", row=10),
        found("w.py", row=12, severity="warning", cost=element),
    ]
    begun = ranking.places_to_begin(list(reversed(expected)))
    assert [(each.head.path, each.head.row) for each in begun] == [(each.path, each.row) for each in expected[:5]]
    shown = section(lines(expected, again=[]), "Begin with")
    assert shown[:2] == ["  1. z.py:2:14 TPL102", "     error, wait per element, proven, no fix"]
    assert shown[4] == "     error, wait per element, likely, no fix"


def test_findings_of_one_cause_are_one_place_to_begin() -> None:
    same = [found(), found()]
    assert section(lines(same, again=[]), "Begin with")[0].endswith("TPL102 and 1 more of the same cause")


@pytest.mark.parametrize("width", [40, 60, 100])
def test_long_lines_fit_the_terminal(width: int) -> None:
    long = found("a/very/long/path/" * 12 + "train.py", message="a long message " * 30)
    cut = [line for line in lines([long], again=["."], width=width) if line.endswith("...") or "..." in line[:12]]
    assert len(cut) >= 2
    assert all(len(line) <= width for line in cut)
    assert any(line.endswith("path/train.py") for line in cut), "the end of a path says most"
    assert not any("..." in line for line in lines([long], again=["."]))


def test_what_to_do_is_folded_and_not_cut() -> None:
    narrow, wide = (lines(many(), again=["."], width=width) for width in (40, None))
    for name in ("Fixes", "Next"):
        told = section(narrow, name)
        assert all(len(line) <= 40 for line in told if "torchperf-lint" not in line)
        assert " ".join(" ".join(told).split()) == " ".join(" ".join(section(wide, name)).split())
    assert section(narrow, "Fixes")[1:4] == [
        "  12  unsafe  --fix --unsafe-fixes",
        "              applies them; read them",
        "              first",
    ]


def test_colours_of_the_overview_change_nothing_but_colours() -> None:
    plain, coloured = lines(many(), again=["."]), lines(many(), again=["."], colour=True)
    assert coloured != plain
    assert [re.sub(r"\x1b\[\d+m", "", line) for line in coloured] == plain
    assert any("\x1b[33mwarning" in line for line in coloured)


def test_text_of_others_cannot_steer_the_terminal() -> None:
    nasty = found("a\x1b[2J\n.py", message="\x1b]0;owned\x07")
    shown = lines([nasty], again=["a\x1b[2J\n.py"])
    assert all(line.isprintable() for line in shown)


def test_the_overview_of_many_findings_is_quick() -> None:
    findings = many() * 500
    begun = time.process_time()
    lines(findings, again=["."])
    assert time.process_time() - begun < 5.0


# The next command


@pytest.mark.parametrize(
    ("grades", "unsafe", "first"),
    [
        ([Safety.SAFE, Safety.UNSAFE], False, "torchperf-lint --diff 'my src'"),
        ([Safety.SAFE, Safety.UNSAFE], True, "torchperf-lint --diff --unsafe-fixes 'my src'"),
        ([Safety.UNSAFE, Safety.SHOWN], False, "torchperf-lint --diff --unsafe-fixes 'my src'"),
        ([Safety.SHOWN], False, "torchperf-lint --output-format full 'my src'"),
    ],
)
def test_the_next_command_follows_from_the_fixes(grades: list[Safety], unsafe: bool, first: str) -> None:
    findings = [found(row=2 * n, fix=fix(LOOP, b"loss", b"x", grade)) for n, grade in enumerate(grades, 1)]
    told = commands.next_commands(findings, Context(unread, unsafe=unsafe, again=["my src"]))
    assert told[0].line == first
    if "unsafe" in first:
        assert told[0].does.endswith("would change; review that before you use --fix instead of --diff")
    assert told[-1].line == "torchperf-lint explain TPL102"


def test_what_came_from_standard_input_is_not_run_again() -> None:
    told = commands.next_commands([found()], Context(unread))
    assert [each.line for each in told] == ["torchperf-lint explain TPL102"]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("src --select TPL1 -j 4", "src --select TPL1 -j 4"),
        ("--output-format summary src -o out.txt --quiet --exit-zero", "src"),
        ("--output-format=text --output-file=x src --fix --unsafe-fixes --no-color --statistics", "src"),
        ("-q -ofile -qo file -qj4 -j4 src", "-j4 -j4 src"),
        ("src -- --fix -q", "src -- --fix -q"),
        ("--diff -", "-"),
        ("src --fail-on error --baseline k.json --exit-non-zero-on-fix", "src --baseline k.json"),
    ],
)
def test_options_about_output_and_fixes_are_not_repeated(given: str, kept: str) -> None:
    assert commands.what_is_checked(given.split()) == kept.split()


def test_the_next_command_can_be_typed(lint) -> None:  # noqa: F811
    write("rules/my part.py", "x = slow\n" * (MOST_IN_FULL + 1))
    out = lint("check", "rules", "--ignore", "TPL2")[1]
    (first,) = (line.strip() for line in out.splitlines() if line.startswith("  torchperf-lint --diff"))
    assert first == "torchperf-lint --diff rules --ignore TPL2"
    status = cli.main(shlex.split(first)[1:])
    assert status == 1


def test_standard_input_gets_no_command_that_reads_it_again(lint, monkeypatch) -> None:  # noqa: F811
    feed(monkeypatch, b"slow\n")
    out = lint("-", "--output-format", "summary")[1]
    assert "torchperf-lint explain TPL102" in out
    assert "--diff" not in out
