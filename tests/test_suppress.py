"""`# noqa` comments, files that are left out, and the report of suppressions that silence nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_rules import HINTS, TARGET, finds, raises
from torchperf_lint.engine import registry
from torchperf_lint.engine.fixer import fix_source
from torchperf_lint.engine.runner import check_source
from torchperf_lint.engine.suppress import Comments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_lint.engine.declare import Rule

ITEM = finds("item", "TPL190")
CPU = finds("cpu", "TPL290")
RULES = (ITEM, CPU)


@pytest.fixture(autouse=True)
def _two_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry knows the two rules and one that the tests do not run."""
    monkeypatch.setattr(registry, "all_rules", lambda: (ITEM, CPU, finds("numpy", "TPL390")))


def codes(text: str, rules: Sequence[Rule] = RULES, *, noqa: bool = True, report_unused: bool = True) -> list[str]:
    comments = Comments.ALL if noqa else Comments.OURS
    report = check_source("f.py", text.encode(), rules, TARGET, HINTS, comments=comments, report_unused=report_unused)
    assert report.failure is None
    return [each.code for each in report.diagnostics]


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa",
        "#noqa",
        "# NOQA",
        "# NoQA : tpl190",
        "# noqa: TPL190",
        "# noqa:TPL190,E501",
        "# noqa: E501, TPL190",
        "# noqa: E501 TPL190",
        "# noqa: TPL1",
        "# noqa: TPL190 because it is read once",
        "# torchperf-lint: ignore[TPL190]: it is read once",
        "# torchperf-lint: ignore: it is read once",
        "# noqa: because flake8 reads this as everything",
        "# type: ignore # noqa: TPL190",
        "# torchperf-lint: ignore",
        "#torchperf-lint:ignore",
        "# Torchperf-Lint: Ignore it is read once",
        "# torchperf-lint: ignore[TPL190]",
        "# torchperf-lint: ignore [tpl1, call-of-cpu] it is read once",
        "# torchperf-lint: ignore[call-of-item]",
        "# type: ignore # torchperf-lint: ignore[TPL190]",
    ],
)
def test_a_comment_on_the_line_silences(comment: str) -> None:
    assert codes(f"y = x.item()  {comment}\n", [ITEM]) == []


@pytest.mark.parametrize(
    "comment",
    [
        "# noqa: E501",
        "# noqa: TPL2",
        "# noqable",
        "# noqa: TPL1901",
        "# no qa",
        "# torchperf-lint: ignore[TPL2]",
        "# torchperf-lint: ignore[TPL190",
        "# torchperf-lint: ignore[]",
        "# torchperf-lint: ignored",
        "# torchperf-lint: ignore TPL290",
        "# torchperf-lint: ignore: TPL290",
        "# torchperf-lint ignore",
        "# write `# torchperf-lint: ignore`",
    ],
)
def test_a_comment_that_names_something_else_does_not_silence(comment: str) -> None:
    assert codes(f"y = x.item()  {comment}\n", [ITEM], report_unused=False) == ["TPL190"]


def test_only_the_named_code_is_silenced() -> None:
    assert codes("y = x.item(), x.cpu()  # noqa: TPL290\n") == ["TPL190"]


@pytest.mark.parametrize("row", [0, 1, 2])
def test_any_row_of_the_statement_will_do(row: int) -> None:
    lines = ["y = f(", "    x.item(),", ")", "z = 1"]
    for comment in ("# noqa: TPL190", "# torchperf-lint: ignore[TPL190]", "# torchperf-lint: ignore"):
        with_comment = [*lines[:row], f"{lines[row]}  {comment}", *lines[row + 1 :]]
        assert codes("\n".join(with_comment), [ITEM]) == []


def test_a_comment_on_the_next_statement_does_not_silence() -> None:
    assert codes("y = x.item()\nz = 1  # noqa\n") == ["TPL190"]


def test_text_inside_a_string_is_no_comment() -> None:
    assert codes('y = x.item("# noqa")\n') == ["TPL190"]
    assert codes('"""\n# torchperf-lint: ignore-file\n"""\ny = x.item()\n') == ["TPL190"]
    assert codes('y = "# noqa: TPL190"\n') == []


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_comments_are_found_at_their_row_with_any_line_end(end: str) -> None:
    text = end.join(["a = x.item()", "\f", "b = x.item()  # noqa: TPL190", "c = x.item()  # é # noqa", ""])
    report = check_source("f.py", text.encode(), RULES, TARGET, HINTS)
    assert [each.row for each in report.diagnostics] == [1]


def test_flake8_can_keep_noqa_to_itself() -> None:
    text = "y = x.item()  # noqa: TPL190\n"
    assert codes(text, noqa=False) == ["TPL190"]
    assert codes("# torchperf-lint: ignore-file\n" + text, noqa=False) == []
    assert codes("y = x.item()  # torchperf-lint: ignore\n", noqa=False) == []
    assert codes("y = x.item()  # torchperf-lint: ignore[TPL190]\n", noqa=False) == []


@pytest.mark.parametrize(
    ("comment", "left"),
    [
        ("# torchperf-lint: ignore-file", []),
        ("#torchperf-lint:ignore-file", []),
        ("# torchperf-lint: ignore-file  generated", []),
        ("# torchperf-lint: ignore-file[TPL1]", ["TPL290"]),
        ("# torchperf-lint: ignore-file[call-of-cpu]", ["TPL190"]),
        ("# torchperf-lint: ignore-file [tpl1, call-of-cpu]", []),
        ("# torchperf-lint: ignore-file[ALL]", []),
        ("# torchperf-lint: ignore-file[TPL1", ["TPL190", "TPL290"]),
        ("# torchperf-lint: ignore-file [TPL1", ["TPL190", "TPL290"]),
        ("# torchperf-lint: ignore-files", ["TPL190", "TPL290"]),
        ("pass  # torchperf-lint: ignore-file", ["TPL190", "TPL290"]),
    ],
)
def test_a_comment_line_leaves_out_the_file(comment: str, left: list[str]) -> None:
    assert codes(f"if 1:\n    {comment}\n    y = x.item(), x.cpu()\n", report_unused=False) == left


def test_a_file_that_is_left_out_need_not_parse() -> None:
    assert codes("# torchperf-lint: ignore-file\nprint x.item()\n\x07 $ ?\n") == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("y = 1  # noqa: TPL190\n", "y = 1\n"),
        ("y = 1  # noqa: TPL190", "y = 1"),
        ("y = 1\t# noqa:tpl190  \r\n", "y = 1\r\n"),
        ("y = 1  # noqa: TPL190,E501\n", "y = 1  # noqa: E501\n"),
        ("y = 1  # noqa: E501, TPL190, W291\n", "y = 1  # noqa: E501, W291\n"),
        ("y = x.cpu()  # noqa: TPL190, TPL290\n", "y = x.cpu()  # noqa: TPL290\n"),
        ("y = 1  # noqa: TPL190 # type: ignore\n", "y = 1  # type: ignore\n"),
        ("y = 1  # type: ignore # noqa: TPL190\n", "y = 1  # type: ignore\n"),
        ("y = 1  # noqa: TPL190 read once, é\n", "y = 1  # read once, é\n"),
        ("y = 1\n    # noqa: TPL190\nz = 1\n", "y = 1\nz = 1\n"),
        ("y = 1\n# torchperf-lint: ignore-file[TPL190]\n", "y = 1\n"),
        ("y = 1  # noqa: TPL999,E501 no rule has this code\n", "y = 1  # noqa: E501 no rule has this code\n"),
        ("y = 1\n# torchperf-lint: ignore-file[call-of-cqu]\n", "y = 1\n"),
        ("y = 1  # torchperf-lint: ignore[TPL190]\r\n", "y = 1\r\n"),
        ("y = 1  # torchperf-lint: ignore[E501]\n", "y = 1\n"),
        (
            "y = x.cpu()  # torchperf-lint: ignore[TPL190, call-of-cpu] é\n",
            "y = x.cpu()  # torchperf-lint: ignore[call-of-cpu] é\n",
        ),
        ("y = 1  # torchperf-lint: ignore[TPL190] read once, é\n", "y = 1  # read once, é\n"),
        ("y = 1  # type: ignore # torchperf-lint: ignore[TPL190]\n", "y = 1  # type: ignore\n"),
        (
            "# torchperf-lint: ignore-file[TPL190, call-of-cpu]\nx.cpu()\n",
            "# torchperf-lint: ignore-file[call-of-cpu]\nx.cpu()\n",
        ),
    ],
)
def test_an_unused_suppression_is_reported_and_its_fix_takes_just_that_out(before: str, after: str) -> None:
    assert codes(before) == ["TPL001"]
    fixed = fix_source("f.py", before.encode(), RULES, TARGET, HINTS, False)
    assert fixed.data.decode() == after
    assert fixed.withdrawn == ()
    assert codes(after) == []


@pytest.mark.parametrize(
    "text",
    [
        "y = 1  # noqa\n",
        "y = 1  # noqa: E501\n",
        "y = 1  # noqa: TPL390\n",  # that rule did not run
        "y = 1  # noqa: TPL000, TPLX9\n",
        "y = 1  # noqa: TPL190, TPL001\n",
        "# torchperf-lint: ignore-file[TPL001]\ny = 1  # noqa: TPL190\n",
        "# torchperf-lint: ignore-file[unused-suppression]\ny = 1  # noqa: TPL190\n",
        "# torchperf-lint: ignore-file\ny = 1  # noqa: TPL190\n",
        "# to silence it write: `# noqa-tpl190`\n",
        "# to silence it write: `# torchperf-lint: ingore`\n",
        "# torchperf-lint finds waits\n",
        "y = '# torchperf-lint: ingore'\n",
        "y = 1  # torchperf-lint: ignore\n",  # one of the rules that are meant did not run
        "y = 1  # torchperf-lint: ignore[TPL390]\n",
        "y = x.item(), x.cpu()  # torchperf-lint: ignore\n",
    ],
)
def test_these_are_not_called_unused(text: str) -> None:
    assert codes(text) == []


def test_a_comment_of_ours_that_names_no_rule_is_unused_where_all_usual_rules_ran() -> None:
    rules = registry.all_rules()
    text = "y = 1  # torchperf-lint: ignore\nx.item()  # torchperf-lint: ignore\n"
    assert codes(text, rules) == ["TPL001"]
    assert (
        fix_source("f.py", text.encode(), rules, TARGET, HINTS, False).data
        == text.replace("  # torchperf-lint: ignore", "", 1).encode()
    )


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        ("# torchperf-lint: disable=TPL190", "`disable=TPL190` suppresses nothing: did you mean `ignore`?"),
        ("# torchperf_lint: ignore", "`torchperf_lint` suppresses nothing: did you mean `torchperf-lint`?"),
        ("# torchperf-lint: ingore", "`ingore` suppresses nothing: did you mean `ignore`?"),
        ("# torchperf-lint: noqa", "`noqa` suppresses nothing: did you mean `ignore`?"),
        ("# torchperf-lint: ignore-fil", "`ignore-fil` suppresses nothing: did you mean `ignore-file`?"),
        ("# torchperf-lint: ignore-file", "`ignore-file` suppresses nothing: it needs a comment line of its own"),
        ("# torchperf-lint: ignore[]", "rules stand in brackets behind it, as in `ignore[TPL101]`"),
        ("# torchperf-lint: ignore[TPL190", "rules stand in brackets behind it, as in `ignore[TPL101]`"),
        ("# torchperf-lint: ignore=TPL190", "rules stand in brackets behind it, as in `ignore[TPL101]`"),
        ("# why # torchperf-lint:", "`` suppresses nothing: did you mean `ignore`?"),
    ],
)
def test_words_to_us_that_mean_nothing_are_reported(comment: str, message: str) -> None:
    data = f"y = x.item()  {comment}\n".encode()
    report = check_source("f.py", data, RULES, TARGET, HINTS)
    assert [each.code for each in report.diagnostics] == ["TPL190", "TPL001"]
    assert message in report.diagnostics[1].message
    assert report.diagnostics[1].fix is None
    assert codes(data.decode(), report_unused=False) == ["TPL190"]


def test_unused_is_reported_with_its_place_and_in_order() -> None:
    report = check_source("f.py", b"x.cpu()\ny = 1  # noqa: TPL190\nx.cpu()\n", RULES, TARGET, HINTS)
    assert [each.code for each in report.diagnostics] == ["TPL290", "TPL001", "TPL290"]
    found = report.diagnostics[1]
    assert (found.row, found.column, found.end_column, found.name) == (2, 8, 22, "unused-suppression")
    assert found.message == "nothing is left to suppress for `TPL190`"


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        ("# noqa: TPL999", "there is no rule `TPL999`"),
        ("# noqa: E501, tpl999", "there is no rule `tpl999`"),
        ("# torchperf-lint: ignore[TPL10x]", "there is no rule `TPL10x`"),
        ("# torchperf-lint: ignore[Reads-Item]", "there is no rule `Reads-Item`"),
        (
            "# torchperf-lint: ignore[TPL190, TPL10x, TPL9, Call-Of-Item]",
            "nothing is left to suppress for `TPL190`, `Call-Of-Item`; there is no rule `TPL10x`, `TPL9`",
        ),
    ],
)
def test_a_code_that_no_rule_has_is_named_as_written(comment: str, message: str) -> None:
    report = check_source("f.py", f"y = 1  {comment}\n".encode(), RULES, TARGET, HINTS)
    assert [each.message for each in report.diagnostics] == [message]


def test_a_rule_that_did_not_run_makes_nothing_unused() -> None:
    text = "y = item  # noqa: TPL390\n"
    report = check_source("f.py", text.encode(), [raises(ValueError("x"), "TPL390")], TARGET, HINTS)
    assert report.diagnostics == ()
    gated = finds("item", "TPL190", torch=">=9")
    report = check_source("f.py", b"y = x.item()  # noqa: TPL190\n", [gated], TARGET._replace(torch=(2, 1)), HINTS)
    assert report.diagnostics == ()


def test_a_prefix_is_unused_only_where_all_its_rules_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "all_rules", lambda: (ITEM, finds("numpy", "TPL191"), CPU))
    assert codes("y = 1  # noqa: TPL19\n") == []
    assert codes("y = 1  # noqa: TPL29\n") == ["TPL001"]


def test_the_report_can_be_switched_off() -> None:
    assert codes("y = 1  # noqa: TPL190\n", report_unused=False) == []
    assert registry.reports_unused()
    assert registry.reports_unused(extended=["TPL1"])
    assert not registry.reports_unused(ignored=["TPL001"])
    assert not registry.reports_unused(ignored=["unused-suppression"])
    assert not registry.reports_unused(selected=["TPL1"])
    assert registry.reports_unused(selected=["ALL"])
    assert not registry.reports_unused(selected=["ALL"], ignored=["TPL0"])
    registry.check_selector("unused-suppression")
    with pytest.raises(registry.UnknownSelector, match="did you mean `unused-suppression`"):
        registry.check_selector("unused-supression")


@given(st.text(alphabet="# \ntorchperf-lint:ignore-file[]TPL190,=é", max_size=60))
def test_no_words_to_us_make_the_engine_fail(tail: str) -> None:
    report = check_source("f.py", f"x.item()  # torchperf-lint: i{tail}".encode(), RULES, TARGET, HINTS)
    assert report.failure is None or "internal" not in report.failure.reason


@given(st.text(alphabet="#noqa:TPL190,[] \t\r\n\f'\"\\()é=x.item", max_size=60))
def test_no_comment_makes_the_engine_fail(tail: str) -> None:
    report = check_source("f.py", f"x.item()  # noqa: TPL190 {tail}".encode(), RULES, TARGET, HINTS)
    assert report.failure is None or "internal" not in report.failure.reason
