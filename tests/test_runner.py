"""One file through the engine: triggers, gates, order, and what happens when a rule breaks."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from fake_rules import HINTS, TARGET, finds, raises
from torchperf_lint.engine.runner import FileReport, check_source
from torchperf_lint.knowledge.versions import Target

if TYPE_CHECKING:
    from torchperf_lint.engine.declare import Rule

TWO_CALLS = b"def f(x):\n    y = x.cpu()\n    return [x.item(), y]\n"


def check(data: bytes, *rules: Rule, target: Target = TARGET) -> FileReport:
    return check_source("f.py", data, rules, target, HINTS)


def test_diagnostics_carry_place_message_and_noqa_rows() -> None:
    report = check("é = 1\nz = (é,\n  é.item())\n".encode(), finds("item"))
    assert report.failure is None
    (found,) = report.diagnostics
    assert (found.row, found.column, found.end_row, found.end_column) == (3, 3, 3, 11)
    assert (found.start, found.end, found.noqa_rows) == (18, 27, (2, 3))
    assert (found.code, found.name, found.severity) == ("TPL190", "call-of-item", "warning")
    assert found.message == "`é.item()` is called"


def test_diagnostics_are_sorted_by_place_whatever_the_order_of_rules() -> None:
    rules = [finds("item", "TPL190"), finds("cpu", "TPL290")]
    expected = ["TPL290", "TPL190"]
    assert [each.code for each in check(TWO_CALLS, *rules).diagnostics] == expected
    assert check(TWO_CALLS, *rules) == check(TWO_CALLS, *reversed(rules))


def test_a_file_without_triggers_gets_no_model_but_its_syntax_errors_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchperf_lint.model.Model", None)
    assert check(b"x = 1\n", finds("item")) == FileReport()
    assert check(b"def (:\n", finds("item")).failure is not None
    assert check(b"item = 1\n", finds("item")).failure is not None


@pytest.mark.parametrize(
    ("target", "speaks"),
    [(Target(), True), (Target(torch=(2, 1)), True), (Target(torch=(1, 7)), False), (Target((2, 1), (0, 9)), False)],
)
def test_a_rule_is_silent_where_its_gates_are_known_to_be_shut(target: Target, speaks: bool) -> None:
    gated = finds("item", torch=">=1.8", torchmetrics=">=1.0")
    assert bool(check(TWO_CALLS, gated, target=target).diagnostics) is speaks


def test_a_broken_rule_is_one_line_and_the_other_rules_go_on() -> None:
    report = check(TWO_CALLS, raises(ValueError("two\nlines")), finds("cpu", "TPL290"))
    assert [each.code for each in report.diagnostics] == ["TPL290"]
    line = "f.py: error: internal error in TPL191: ValueError: two lines; please report this"
    assert str(report.failure) == line


def test_a_file_that_recurses_too_deeply_is_one_line() -> None:
    report = check(TWO_CALLS, raises(RecursionError("maximum recursion depth exceeded")))
    assert str(report.failure) == "f.py: error: too deeply nested to check"


def test_a_broken_model_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr("torchperf_lint.model.Model", broken)
    report = check(TWO_CALLS, finds("item"))
    assert str(report.failure) == "f.py: error: internal error in the model: KeyError: 'x'; please report this"


def test_a_message_with_a_field_that_nobody_fills_is_an_internal_error() -> None:
    lacking = finds("item")._replace(message="{lacking}")
    assert "internal error in TPL190: KeyError" in str(check(TWO_CALLS, lacking).failure)


def test_keyboard_interrupts_are_not_swallowed() -> None:
    with pytest.raises(KeyboardInterrupt):
        check(TWO_CALLS, raises(KeyboardInterrupt()))  # type: ignore[arg-type]


def test_the_check_path_of_a_silent_file_imports_nothing_heavy() -> None:
    program = (
        "import sys; from torchperf_lint.engine import runner, fixer, project\n"
        "from torchperf_lint.knowledge.versions import Target\n"
        "runner.check_source('f.py', b'x = 1', (), Target(), ())\n"
        "heavy = {'libcst', 'torch', 'rich', 'dataclasses', 'inspect', 'multiprocessing', 'pathspec', 'tempfile',\n"
        "         'importlib.metadata', 'concurrent.futures', 'torchperf_lint.model'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
