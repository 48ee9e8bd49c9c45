"""What the reporters print for given diagnostics, without any rule having run."""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest

from torchperf_lint.engine.findings import Because, Confidence, Cost, Diagnostic, Edit, Fix, Loss, Rate, Safety
from torchperf_lint.report import Context, concise, statistics, text
from torchperf_lint.report import json as json_report
from torchperf_lint.report.sources import unified_diff
from torchperf_lint.syntax.source import Source

LOOP = b"for batch in loader:\n    total += loss.item()\nprint(total)\n"


def diagnostic(data: bytes, marked: bytes, **changes) -> Diagnostic:
    """A diagnostic of train.py about the first occurrence of `marked`."""
    source = Source("train.py", data)
    start = source.utf8.index(marked)
    end = start + len(marked)
    (row, column), (end_row, end_column) = source.position(start), source.position(end)
    plain = Diagnostic(
        path="train.py",
        row=row,
        column=column,
        end_row=end_row,
        end_column=end_column,
        code="TPL102",
        name="item-accumulated",
        severity="error",
        message="`loss.item()` waits for the device",
        because=(),
        fix=None,
        start=start,
        end=end,
        noqa_rows=(row, end_row),
    )
    return plain._replace(**changes)


def context(data: bytes, **options) -> Context:
    return Context(read=lambda path: data, **options)


def fix(data: bytes, old: bytes, new: bytes, safety: Safety = Safety.SAFE) -> Fix:
    start = data.index(old)
    return Fix("add on the device", safety, (Edit(start, start + len(old), new),))


def test_text_shows_line_caret_evidence_and_fix():
    found = diagnostic(
        LOOP,
        b"loss.item()",
        because=(Because(1, "the loop runs per batch"), Because(7, "called here", "main.py")),
        fix=fix(LOOP, b"loss.item()", b"loss.detach()"),
    )
    assert list(text.render([found], context(LOOP))) == [
        "train.py:2:14: TPL102 [*] `loss.item()` waits for the device",
        "  |",
        "2 |     total += loss.item()",
        "  |              ^^^^^^^^^^^",
        "  = severity: error",
        "  = because: train.py:1: the loop runs per batch",
        "  = because: main.py:7: called here",
        "  = fix: add on the device (safe, --fix applies it)",
        "  | -     total += loss.item()",
        "  | +     total += loss.detach()",
        "",
    ]


def test_text_says_in_short_what_it_costs_and_how_sure_it_is():
    for cost, confidence, line in (
        (Cost(Rate.ELEMENT, Loss.WAIT), Confidence.PROVEN, ["  = cost: error, wait per element"]),
        (Cost(Rate.STEP, Loss.BYTES), Confidence.LIKELY, ["  = cost: error, bytes per step, likely"]),
        (None, Confidence.LIKELY, ["  = cost: error, likely"]),
        (None, Confidence.PROVEN, ["  = severity: error"]),
    ):
        found = diagnostic(LOOP, b"loss.item()", cost=cost, confidence=confidence)
        assert [each for each in text.render([found], context(LOOP)) if "error" in each] == line


def test_statistics_begin_with_the_weightiest_rule():
    wait = diagnostic(LOOP, b"loss.item()", code="TPL108", name="per-element", cost=Cost(Rate.ELEMENT, Loss.WAIT))
    step = diagnostic(LOOP, b"loss.item()", cost=Cost(Rate.STEP, Loss.WAIT))
    minor = diagnostic(LOOP, b"loss.item()", code="TPL107", name="copy", severity="note", cost=step.cost)
    assert list(statistics.render([minor, minor, minor, step, step, wait], context(LOOP))) == [
        "1  TPL108  [ ]  per-element (wait per element)",
        "2  TPL102  [ ]  item-accumulated (wait per step)",
        "3  TPL107  [ ]  copy (wait per step)",
    ]


def test_concise_is_one_line_and_stars_what_fix_would_repair():
    unsafe = diagnostic(LOOP, b"loss.item()", fix=fix(LOOP, b"loss", b"x", Safety.UNSAFE))
    shown = diagnostic(LOOP, b"loss.item()", fix=fix(LOOP, b"loss", b"x", Safety.SHOWN))
    plain = "train.py:2:14: TPL102 `loss.item()` waits for the device"
    assert list(concise.render([unsafe, shown], context(LOOP))) == [plain, plain]
    starred = plain.replace("TPL102", "TPL102 [*]")
    assert list(concise.render([unsafe, shown], context(LOOP, unsafe=True))) == [starred, plain]


def test_what_an_unsafe_fix_assumes_stands_below_it():
    assumes = "nothing reads the sum in between"
    unsafe = fix(LOOP, b"loss", b"x", Safety.UNSAFE)._replace(assumes=assumes)
    found = diagnostic(LOOP, b"loss.item()", fix=unsafe)
    lines = list(text.render([found], context(LOOP)))
    assert lines[lines.index(f"  = assumes: {assumes}") - 1].endswith("(unsafe, --fix --unsafe-fixes applies it)")
    assert json.loads("\n".join(json_report.render([found], context(LOOP))))[0]["fix"]["assumes"] == assumes


@pytest.mark.parametrize(
    ("line", "marked", "shown", "caret"),
    [
        ("\tx = 変数.item()", "変数.item()", "    x = 変数.item()", " " * 8 + "^" * 11),
        ("x = '\u00e9' + y.item()", "y.item()", "x = '\u00e9' + y.item()", " " * 10 + "^" * 8),
        ("x = '\x1b[31m' + y.item()", "y.item()", "x = '\ufffd[31m' + y.item()", " " * 14 + "^" * 8),
    ],
)
def test_the_caret_stands_under_the_finding(line, marked, shown, caret):
    data = f"{line}\n".encode()
    lines = list(text.render([diagnostic(data, marked.encode())], context(data)))
    assert lines[2:4] == [f"1 | {shown}", f"  | {caret}"]


def test_a_long_statement_and_a_long_line_are_cut():
    data = b"f(\n" + b"    1,\n" * 10 + b")\n"
    lines = list(text.render([diagnostic(data, data.strip())], context(data)))
    assert [line for line in lines if line.lstrip()[:1].isdigit()] == [
        " 1 | f(",
        " 2 |     1,",
        " 3 |     1,",
        " 4 |     1,",
    ]
    assert lines[-3] == "   | ..."

    data = b"x = [" + b"1, " * 5000 + b"y.item(), " + b"2, " * 5000 + b"]\n"
    lines = list(text.render([diagnostic(data, b"y.item()")], context(data)))
    assert all(len(line) < 200 for line in lines)
    assert lines[2][lines[3].index("^") : lines[3].rindex("^") + 1] == "y.item()"


def test_a_file_that_has_gone_or_changed_still_gets_its_headline():
    found = diagnostic(LOOP, b"print(total)", fix=fix(LOOP, b"print", b"log"))

    def gone(path):
        raise FileNotFoundError(path)

    for read in (gone, lambda path: b"\n", lambda path: b"\xff\xfe"):
        lines = list(text.render([found], Context(read)))
        assert lines[0].startswith("train.py:3:1: TPL102")
        assert not any("|" in line for line in lines)
        assert json.loads("\n".join(json_report.render([found], Context(read))))[0]["code"] == "TPL102"


def test_colours_change_nothing_but_colours():
    found = diagnostic(LOOP, b"loss.item()", fix=fix(LOOP, b"loss", b"x"))
    plain = list(text.render([found], context(LOOP)))
    coloured = list(text.render([found], context(LOOP, colour=True)))
    assert coloured != plain
    assert [re.sub(r"\x1b\[\d+m", "", line) for line in coloured] == plain


def test_a_fix_with_edits_far_apart_is_shown_hunk_by_hunk():
    data = b"import torch\n\na = 1\nb = 2\nc = 3\n"
    edits = (Edit(0, 0, b"import math\n"), Edit(data.index(b"3"), data.index(b"3") + 1, b"math.pi"))
    found = diagnostic(data, b"c = 3", fix=Fix("use math", Safety.SHOWN, edits))
    lines = list(text.render([found], context(data)))
    assert lines[-5:] == ["  = fix: use math (shown only)", "  | + import math", "  | - c = 3", "  | + c = math.pi", ""]


def test_json_has_the_fields_of_the_contract():
    data = "é = 1\nx = 'é'; total += loss.item()\n".encode()
    found = diagnostic(
        data,
        b"loss.item()",
        because=(Because(1, "here"), Because(9, "there", "main.py")),
        fix=fix(data, b"total += loss.item()", b"total += loss", Safety.SHOWN),
        cost=Cost(Rate.STEP, Loss.WAIT),
        confidence=Confidence.LIKELY,
    )
    (value,) = json.loads("\n".join(json_report.render([found], context(data))))
    assert value == {
        "code": "TPL102",
        "name": "item-accumulated",
        "severity": "error",
        "cost": {"rate": "per step", "loses": "wait"},
        "confidence": "likely",
        "group": None,
        "message": "`loss.item()` waits for the device",
        "filename": "train.py",
        "location": {"row": 2, "column": 19},
        "end_location": {"row": 2, "column": 30},
        "fix": {
            "applicability": "display",
            "message": "add on the device",
            "assumes": None,
            "edits": [
                {
                    "content": "total += loss",
                    "location": {"row": 2, "column": 10},
                    "end_location": {"row": 2, "column": 30},
                }
            ],
        },
        "no_fix": None,
        "noqa_row": 2,
        "url": None,
        "because": [
            {"filename": "train.py", "row": 1, "message": "here"},
            {"filename": "main.py", "row": 9, "message": "there"},
        ],
        "path": ["train.py:1", "main.py:9", "train.py:2"],
    }


def test_json_is_a_list_for_any_number_of_findings():
    found = diagnostic(LOOP, b"loss.item()")
    for count in range(4):
        assert len(json.loads("\n".join(json_report.render([found] * count, context(LOOP))))) == count


def test_statistics_count_per_rule_the_commonest_first():
    other = diagnostic(LOOP, b"print(total)", code="TPL101", name="item-in-loop")
    repaired = diagnostic(LOOP, b"loss.item()", fix=fix(LOOP, b"loss", b"x"))
    many = [repaired] * 11 + [other]
    assert list(statistics.render(many, context(LOOP))) == [
        "11  TPL102  [*]  item-accumulated",
        " 1  TPL101  [ ]  item-in-loop",
    ]
    assert json.loads("\n".join(statistics.render_json(many, context(LOOP)))) == [
        {"code": "TPL102", "name": "item-accumulated", "count": 11, "fixable": 11, "severity": "error", "cost": None},
        {"code": "TPL101", "name": "item-in-loop", "count": 1, "fixable": 0, "severity": "error", "cost": None},
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\r\nb\r\nc\r\n", "a\r\nB\r\nc\r\n"),
        ("a\n\fb\nc", "a\n\fB\nc"),
        ("-- a\nb\n", "b\n"),
        ("a\nb", "a\nb\n"),
    ],
)
def test_patch_can_apply_the_diff(tmp_path, before, after):
    (tmp_path / "x.py").write_bytes(before.encode())
    patch = "".join(f"{line}\n" for line in unified_diff(before, after, "x.py"))
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, env=clean, check=True)
    subprocess.run(["git", "apply", "-p0", "-"], cwd=tmp_path, env=clean, input=patch.encode(), check=True)
    assert (tmp_path / "x.py").read_bytes() == after.encode()
