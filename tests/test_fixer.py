"""Fixes: how edits go together, what is withdrawn, and that no byte outside an edit ever changes."""

from __future__ import annotations

import ast
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_rules import HINTS, TARGET, finds, swaps, text_of, to
from torchperf_lint.engine import jobs, trial
from torchperf_lint.engine.declare import Rule
from torchperf_lint.engine.edit_merge import BadEdits, apply_edits, compatible, moved
from torchperf_lint.engine.findings import LATER, Diagnostic, Edit, Fix, NoFix, Safety
from torchperf_lint.engine.fixer import FixReport, fix_source
from torchperf_lint.engine.runner import FileReport, check_source
from torchperf_lint.engine.trial import offered
from torchperf_lint.model import Site

IMPORT = Edit(0, 0, b"import math\n")


def fix(data: bytes, *rules: Rule, unsafe: bool = False, chosen: frozenset[tuple[str, int]] | None = None) -> FixReport:
    return fix_source("f.py", data, rules, TARGET, HINTS, unsafe, chosen=chosen)


def nothing_left(site: Site) -> Fix:
    """Take the call out: of `x.item()` stays `x`."""
    return Fix("drop the call", Safety.SAFE, (Edit(site.start + text_of(site).index(b"."), site.end, b""),))


# -- edits ---------------------------------------------------------------------------------------------------------


@st.composite
def texts_and_edits(draw: st.DrawFn) -> tuple[bytes, list[Edit]]:
    text = draw(st.binary(max_size=40))
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=10)))
    pairs = zip(cuts[::2], cuts[1::2], strict=False)
    return text, [Edit(start, end, draw(st.binary(max_size=5))) for start, end in pairs]


@given(texts_and_edits(), st.randoms())
def test_bytes_outside_the_edits_stay_and_those_inside_are_replaced(case, random) -> None:
    text, edits = case
    edits = list({(edit.start, edit.end): edit for edit in edits}.values())
    shuffled = random.sample(edits, len(edits))
    result = apply_edits(text, shuffled)
    place = done = 0
    for edit in sorted(edits):
        kept = text[done : edit.start]
        assert result[place : place + len(kept)] == kept
        place += len(kept)
        assert result[place : place + len(edit.content)] == edit.content
        place += len(edit.content)
        done = edit.end
    assert result[place:] == text[done:]


@given(texts_and_edits())
def test_a_byte_outside_the_edits_is_found_again(case) -> None:
    text, edits = case
    result = apply_edits(text, edits)
    for offset in range(len(text)):
        if not any(edit.start <= offset < edit.end for edit in edits):
            assert result[moved(offset, edits)] == text[offset]


def test_insertions_at_one_place_keep_their_order_and_doubles_go_in_once() -> None:
    edits = [Edit(1, 1, b"2"), Edit(1, 1, b"1"), Edit(1, 2, b"x"), Edit(1, 1, b"2"), Edit(0, 1, b"y")]
    assert apply_edits(b"abc", edits) == b"y21xc"


@pytest.mark.parametrize("edits", [[Edit(0, 2, b""), Edit(1, 3, b"")], [Edit(2, 9, b"")], [Edit(2, 1, b"")]])
def test_edits_that_overlap_or_leave_the_text_are_refused(edits: list[Edit]) -> None:
    with pytest.raises(BadEdits):
        apply_edits(b"abcd", edits)


def test_fixes_go_together_unless_they_clash() -> None:
    fixes = [
        (Edit(0, 4, b""),),
        (Edit(2, 2, b"in what goes"),),
        (Edit(4, 6, b"next to it"), Edit(9, 9, b"shared")),
        (Edit(9, 9, b"shared"), Edit(7, 8, b"")),
        (Edit(9, 9, b"another at the same place"),),
        (Edit(20, 21, b"one of two"), Edit(3, 5, b"clashes")),
        (Edit(0, 4, b""), Edit(30, 31, b"")),
    ]
    assert compatible(Fix("", Safety.SAFE, edits) for edits in fixes) == [0, 2, 3, 4, 6]


# -- grades and passes ---------------------------------------------------------------------------------------------


def test_what_was_done_and_what_remains_is_reported() -> None:
    done = fix(b"x.item()\ny.cpu()\n", finds("item", fix=to("tolist()")), finds("cpu", "TPL290"))
    assert done.data == b"x.tolist()\ny.cpu()\n"
    assert [(each.row, each.code, each.message) for each in done.applied] == [(1, "TPL190", "use tolist()")]
    assert done.withdrawn == ()
    assert [(each.code, each.row, each.start) for each in done.report.diagnostics] == [("TPL290", 2, 11)]


@pytest.mark.parametrize(
    ("safety", "unsafe", "made"),
    [
        (Safety.SAFE, False, True),
        (Safety.SAFE, True, True),
        (Safety.UNSAFE, False, False),
        (Safety.UNSAFE, True, True),
        (Safety.SHOWN, False, False),
        (Safety.SHOWN, True, False),
    ],
)
def test_the_grade_decides(safety: Safety, unsafe: bool, made: bool) -> None:
    done = fix(b"x.item()\n", finds("item", fix=to("y()", safety)), unsafe=unsafe)
    assert (done.data == b"x.y()\n") is made
    assert len(done.report.diagnostics) == (0 if made else 1)
    assert done.withdrawn == ()


def test_several_fixes_on_one_line() -> None:
    rules = finds("item", fix=to("tolist()")), finds("cpu", "TPL290", fix=to("cuda()"))
    assert fix(b"f(a.item(), b.cpu(), c.item())\n", *rules).data == b"f(a.tolist(), b.cuda(), c.tolist())\n"


def test_nested_fixes_are_made_in_turn() -> None:
    done = fix(b"f(x.item(y.item(z.item())))\n", finds("item", fix=nothing_left))
    assert done.data == b"f(x)\n"
    wrapped = finds("g", "TPL290", fix=lambda site: Fix("unwrap", Safety.SAFE, _inside(site)))
    assert fix(b"m.g(m.g(m.g(1)))\n", wrapped).data == b"(((1)))\n"


def _inside(site: Site) -> tuple[Edit, ...]:
    return (Edit(site.start, site.start + 3, b""),)


def test_an_inner_fix_that_clashes_waits_for_the_next_pass() -> None:
    outer = finds("item", fix=lambda site: swaps(f"f({text_of(site).decode()[7:-1]})")(site))
    inner = finds("cpu", "TPL290", fix=to("cuda()"))
    assert fix(b"x.item(y.cpu())\n", outer, inner).data == b"f(y.cuda())\n"


def test_an_edit_that_two_fixes_share_is_made_once() -> None:
    def with_import(site: Site) -> Fix:
        return Fix("use math", Safety.SAFE, (IMPORT, Edit(site.start, site.end, b"math.pi")))

    assert fix(b"x.item()\ny.item()\n", finds("item", fix=with_import)).data == b"import math\nmath.pi\nmath.pi\n"


def test_a_fix_is_all_or_nothing() -> None:
    def two_edits(site: Site) -> Fix:
        return Fix("", Safety.SAFE, (Edit(0, 1, b"z"), Edit(site.end - 6, site.end, b"f()")))

    done = fix(b"x.cpu(y.item())\n", finds("cpu", "TPL190", fix=swaps("0")), finds("item", "TPL290", fix=two_edits))
    assert done.data == b"0\n"


# -- a choice of fixes ---------------------------------------------------------------------------------------------


def test_only_chosen_fixes_are_made_and_the_others_are_still_found() -> None:
    rules = finds("item", fix=to("longer_than_before()")), finds("cpu", "TPL290", fix=to("host()"))
    text = b"x.item()\ny.cpu()\nz.item()\n"
    keys = [each.key for each in fix(text, *rules).applied]
    assert keys == [("TPL190", 0), ("TPL290", 9), ("TPL190", 17)]
    done = fix(text, *rules, chosen=frozenset(keys[1:]))
    assert done.data == b"x.item()\ny.host()\nz.longer_than_before()\n"
    assert [each.key for each in done.applied] == keys[1:]
    assert [each.row for each in done.report.diagnostics if each.fix] == [1]
    assert fix(text, *rules, chosen=frozenset()).data == text


def test_a_fix_keeps_its_key_in_later_passes_and_one_of_a_new_finding_has_none() -> None:
    clash = finds("cpu", "TPL290", fix=lambda site: Fix("", Safety.SAFE, (Edit(0, site.end, b"a.numpy()"),)))
    rules = finds("item", fix=to("n()")), clash, finds("numpy", "TPL390", fix=to("m()"))
    text = b"x = 1\n\nx.item(), y.cpu()\n"
    done = fix(text, *rules)
    assert done.data == b"a.m()\n"
    assert [(each.key, each.row) for each in done.applied] == [
        (("TPL190", 7), 3),
        (("TPL290", 17), 3),
        (("TPL390", LATER), 1),
    ]
    without = fix(text, *rules, chosen=frozenset({("TPL290", 17)}))
    assert without.data == b"a.numpy()\n"
    assert [each.key for each in without.applied] == [("TPL290", 17)]


# -- withdrawal ----------------------------------------------------------------------------------------------------


def test_a_fix_that_does_not_parse_is_withdrawn_and_the_others_are_made() -> None:
    def breaks_b(site: Site) -> Fix:
        return swaps("(" if text_of(site).startswith(b"b") else "0")(site)

    done = fix(b"a.item()\nb.item()\nc.item()\n", finds("item", fix=breaks_b))
    assert done.data == b"0\nb.item()\n0\n"
    ((code, reason, row),) = done.withdrawn
    assert (code, row) == ("TPL190", 2)
    assert reason.startswith("the result does not parse (syntax error: ")
    assert len(done.applied) == 2
    assert [each.row for each in done.report.diagnostics] == [2]


def test_a_fix_that_parses_and_does_not_compile_is_withdrawn() -> None:
    def breaks_b(site: Site) -> Fix:
        return swaps("f(x=1, x=2)" if text_of(site).startswith(b"b") else "0")(site)

    done = fix(b"a.item()\nb.item()\n", finds("item", fix=breaks_b))
    assert done.data == b"0\nb.item()\n"
    assert done.withdrawn == (("TPL190", "the result does not compile (keyword argument repeated: x)", 2),)


def test_fixes_are_made_in_a_file_that_never_compiled() -> None:
    done = fix(b"return\na.item()\n", finds("item", fix=swaps("0")))
    assert (done.data, done.withdrawn) == (b"return\n0\n", ())


def test_a_fix_that_leaves_its_finding_is_withdrawn_and_not_tried_again() -> None:
    tried: list[str] = []

    def same_again(site: Site) -> Fix:
        tried.append(text_of(site).decode())
        return to("item(1)")(site)

    done = fix(b"\n\nx.item()\ny.cpu()\n", finds("item", fix=same_again), finds("cpu", "TPL290", fix=swaps("0")))
    assert done.data == b"\n\nx.item()\n0\n"
    assert done.withdrawn == (("TPL190", "TPL190 would still be found afterwards", 3),)
    assert len(done.applied) == 1


def test_a_finding_in_the_place_of_another_rules_is_not_held_against_a_fix() -> None:
    done = fix(b"a.cpu()\nb.item()\n", finds("item", fix=swaps("0")), finds("cpu", "TPL290", fix=to("item()")))
    assert (done.data, done.withdrawn) == (b"0\n0\n", ())


def test_a_withdrawn_fix_is_known_again_after_the_text_has_moved() -> None:
    def grows(site: Site) -> Fix:
        return swaps("some_longer_name")(site)

    rules = finds("cpu", "TPL290", fix=grows), finds("item", fix=swaps("("))
    done = fix(b"a.cpu(); b.item(); c.cpu(d.cpu())\n", *rules)
    assert done.data == b"some_longer_name; b.item(); some_longer_name\n"
    assert [each.code for each in done.withdrawn] == ["TPL190"]


def test_fixes_that_undo_each_other_leave_the_text_as_it_was() -> None:
    there, back = finds("item", fix=to("cpu()")), finds("cpu", "TPL290", fix=to("item()"))
    done = fix(b"x.item()\n", there, back)
    assert done.data == b"x.item()\n"
    assert done.applied == ()
    assert done.withdrawn == (("TPL190", "the fixes of the file do not settle within 10 passes", 1),)


def test_good_fixes_stay_beside_fixes_that_do_not_settle() -> None:
    there, back = finds("item", fix=to("cpu()")), finds("cpu", "TPL290", fix=to("item()"))
    rules = there, back, finds("numpy", "TPL390", fix=to("n()"))
    once = fix(b"x.item()\ny.numpy()\n", *rules)
    assert b"y.n()" in once.data
    assert ("TPL390", "use n()") in [(each.code, each.message) for each in once.applied]
    assert fix(once.data, *rules).data == once.data


@pytest.mark.parametrize("edits", [(Edit(0, 2, b"a"), Edit(1, 3, b"b")), (Edit(0, 999, b"a"),)])
def test_a_fix_whose_own_edits_are_bad_is_withdrawn(edits: tuple[Edit, ...]) -> None:
    done = fix(b"x.item()\n", finds("item", fix=lambda site: Fix("", Safety.SAFE, edits)))
    assert done.data == b"x.item()\n"
    assert done.withdrawn == (("TPL190", "its edits overlap or reach outside the file", 1),)


def test_a_fix_that_makes_a_rule_fail_is_withdrawn() -> None:
    def chokes(site: Site) -> None:
        if b"gpu" in text_of(site):
            raise ValueError("gpu")

    rules = finds("item", fix=to("cpu(gpu)")), finds("cpu", "TPL290", fix=chokes)
    done = fix(b"x.item()\ny.cpu()\n", *rules)
    assert done.data == b"x.item()\ny.cpu()\n"
    assert "the result cannot be checked (internal error in TPL290" in done.withdrawn[0].reason


def test_a_file_that_cannot_be_parsed_is_left_alone() -> None:
    done = fix(b"x.item(\n", finds("item", fix=swaps("0")))
    assert (done.data, done.applied) == (b"x.item(\n", ())
    assert done.report.failure is not None


# -- bytes ---------------------------------------------------------------------------------------------------------


def test_text_that_the_encoding_does_not_have_is_not_written() -> None:
    done = fix(b"# coding: latin-1\nx.item()\n", finds("item", fix=swaps("'\N{GREEK SMALL LETTER PI}'")))
    assert done.data == b"# coding: latin-1\nx.item()\n"
    assert done.withdrawn == (("TPL190", "its text has no place in iso-8859-1", 2),)


def test_a_fix_must_not_change_how_the_file_is_read() -> None:
    text = b"x.item()\n# 1\n# coding: latin-1\n'\xc3\xa9'\n"
    done = fix(text, finds("item", fix=lambda site: Fix("", Safety.SAFE, (Edit(0, 9, b""),))))
    assert done.data == text
    assert done.withdrawn[0].reason == "the result would be read in another encoding"


def test_an_encoding_that_cannot_be_written_back_is_not_edited() -> None:
    text = b"# coding: utf-7\nx.item()  # +AGE-\n"  # utf-7 writes `a` as `a`: not these bytes again
    done = fix(text, finds("item", fix=swaps("0")))
    assert done.data == text
    assert done.withdrawn == (("TPL190", "utf-7 text cannot be written back unchanged", 2),)


_STATEMENTS = st.lists(
    st.sampled_from(
        [
            "y = x.item()",
            "print(x.item(), [z.cpu(), x.item()])",
            "if x.item():\n\ty = 'é'  ",
            "z = '''\n\t é \n'''\nx.cpu(); x.cpu()",
            "\f",
            "# é  \t",
            "w = (x.cpu(\n    ),  # kept\n  x.item( ) ) \\\n  + x.cpu()",
            "",
        ]
    ),
    min_size=1,
    max_size=6,
)


@given(
    _STATEMENTS,
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "\ufeff", "# -*- coding: latin-1 -*-\n", "# coding: cp1252\n"]),
    st.booleans(),
)
def test_no_byte_outside_a_fix_changes(statements: list[str], newline: str, head: str, final_newline: bool) -> None:
    text = head + "\n".join(statements) + ("\n" if final_newline else "")
    encoding = re.search("coding: (\\S+)", head)
    data = text.replace("\n", newline).encode(encoding[1] if encoding else "utf-8")
    try:
        ast.parse(data)
    except SyntaxError:
        return
    done = fix(data, finds("item", fix=to("m()")), finds("cpu", "TPL290", fix=to("n()")))
    expected = re.sub(rb"\bitem\([ ]?\)", b"m()", data)
    assert done.data == re.sub(rb"\bcpu\([\s]*\)", b"n()", expected)
    assert done.withdrawn == ()
    again = fix(done.data, finds("item", fix=to("m()")), finds("cpu", "TPL290", fix=to("n()")))
    assert (again.data, again.applied) == (done.data, ())


# -- what is shown -------------------------------------------------------------------------------------------------


def test_only_fixes_that_can_be_made_are_offered() -> None:
    """Alone or beside others, with clashes, of any grade: the findings stay. What is found again is no fix."""

    def of_name(site: Site) -> Fix:
        name = text_of(site)[:1].decode()
        grade = Safety.SHOWN if name in "ab" else Safety.UNSAFE
        return swaps({"a": "(", "c": "x = 1", "e": "f(\n,)", "h": "i.item(1)"}.get(name, f"f({name})"), grade)(site)

    data = b"a.item()\nb.item()\nc.item(d.item())\ne.item()\ng[c.item()]\nh.item()\nj.item()\n"
    rules = [finds("item", fix=of_name)]
    report = check_source("f.py", data, rules, TARGET, HINTS)
    shown = offered(report, "f.py", data, rules, TARGET, HINTS)
    assert [each._replace(fix=None, no_fix=None) for each in shown.diagnostics] == [
        each._replace(fix=None) for each in report.diagnostics
    ]
    assert all((each.fix is None) == (each.no_fix == NoFix.WITHDRAWN.identifier) for each in shown.diagnostics)
    made = [text_of_span(data, each) for each in shown.diagnostics if each.fix is not None]
    assert made == [b"b.item()", b"c.item(d.item())", b"d.item()", b"j.item()"]


def test_a_sketch_may_leave_its_finding() -> None:
    rules = [finds("item", fix=to("item(1)", Safety.SHOWN))]
    report = check_source("f.py", b"x.item()\n", rules, TARGET, HINTS)
    assert offered(report, "f.py", b"x.item()\n", rules, TARGET, HINTS) == report


def test_a_fix_that_breaks_its_rule_is_not_offered() -> None:
    def chokes(site: Site) -> Fix:
        if b"gpu" in text_of(site):
            raise ValueError("gpu")
        return to("item(gpu)")(site)

    rules = [finds("item", fix=chokes)]
    report = check_source("f.py", b"x.item()\n", rules, TARGET, HINTS)
    (left,) = offered(report, "f.py", b"x.item()\n", rules, TARGET, HINTS).diagnostics
    assert left.fix is None


@pytest.mark.slow
def test_fixes_are_not_told_apart_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = []

    def counted(*arguments: Any, **options: Any) -> FileReport:
        checks.append(1)
        return check_source(*arguments, **options)

    monkeypatch.setattr(trial, "check_source", counted)
    data = b"x.item()\n" * 200
    rules = [finds("item", fix=to("item(1)"))]
    report = check_source("f.py", data, rules, TARGET, HINTS)
    assert not any(each.fix for each in offered(report, "f.py", data, rules, TARGET, HINTS).diagnostics)
    assert len(checks) == trial.MOST_CHECKS


def test_a_suppression_that_is_removed_is_one_that_is_idle() -> None:
    data = b"x = 1  # noqa: TPL190\ny.item()\n"
    rules = [finds("item", fix=to("m()"))]
    report = check_source("f.py", data, rules, TARGET, HINTS)
    assert [each.code for each in report.diagnostics if each.fix] == ["TPL001", "TPL190"]
    assert offered(report, "f.py", data, rules, TARGET, HINTS) == report


def test_a_report_after_fixes_offers_none_that_was_withdrawn() -> None:
    done = fix(
        b"x.item()\ny.cpu()\n", finds("item", fix=to("item(1)")), finds("cpu", "TPL290", fix=swaps("(", Safety.UNSAFE))
    )
    assert [(each.code, each.fix) for each in done.report.diagnostics] == [("TPL190", None), ("TPL290", None)]


def test_no_fix_is_offered_where_the_encoding_cannot_be_written_back() -> None:
    data = b"# coding: utf-7\nx.item()  # +AGE-\n"
    rules = [finds("item", fix=swaps("0"))]
    report = check_source("f.py", data, rules, TARGET, HINTS)
    assert [each.fix for each in offered(report, "f.py", data, rules, TARGET, HINTS).diagnostics] == [None]


@pytest.mark.parametrize("made", ["(", "x.item(1)"], ids=["no Python", "found again"])
def test_what_a_run_says_and_keeps_has_been_tried(made: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job's result is what every output shows and what is kept for later runs; JUDGE's is what a later job gets."""
    rule = finds("item", fix=swaps(made))
    monkeypatch.setattr(jobs, "_rules", lambda codes: (rule,))
    job = jobs.Job("f.py", ("TPL190",), TARGET, HINTS, own_versions=False)
    for action in (jobs.Action.CHECK, jobs.Action.FIX, jobs.Action.TRY):
        result = jobs.run_on(job._replace(action=action), b"x.item()\n")
        assert [each.fix for each in result.report.diagnostics] == [None], action


def test_many_fixes_are_tried_in_time() -> None:
    text = b"x.item(y.cpu());" * 20_000
    edits = [Edit(start, start + 8, b"y") for start in range(7, len(text), 16)]
    assert len(compatible(Fix("", Safety.SAFE, (edit,)) for edit in edits)) == 20_000


def text_of_span(data: bytes, found: Diagnostic) -> bytes:
    return data[found.start : found.end]
