"""The declarations of rules: what the registry holds and what the conventions refuse."""

from __future__ import annotations

import string
from collections.abc import Iterator

import pytest

from linting import ROOT
from torchperf_lint.engine.declare import BadDeclaration, Category, Rule, rule
from torchperf_lint.engine.findings import Safety, Severity
from torchperf_lint.engine.registry import UnknownSelector, all_rules, check_selector, find_rule, nearest, select
from torchperf_lint.knowledge.versions import satisfies

LONGEST_SUMMARY = 90
GOOD = {
    "code": "TPL199",
    "name": "scalar-read-early",
    "category": Category.SYNC,
    "summary": "reading a scalar too early",
    "message": "`{call}` waits",
    "severity": Severity.ERROR,
    "triggers": ("item",),
}

every_rule = pytest.mark.parametrize("declared", all_rules(), ids=lambda declared: f"{declared.code}-{declared.stem}")


def _nothing(model: object) -> Iterator[object]:
    yield from ()


def test_there_are_rules() -> None:
    assert all_rules(), "no rule was found, so nothing was tested"


def test_codes_and_names_are_unique_and_ordered() -> None:
    codes = [declared.code for declared in all_rules()]
    names = [declared.name for declared in all_rules()]
    assert codes == sorted(set(codes))
    assert len(set(names)) == len(names)


@every_rule
def test_summary_and_message(declared: Rule) -> None:
    assert len(declared.summary) <= LONGEST_SUMMARY
    assert "\n" not in declared.summary + declared.message
    assert declared.message.count("`") % 2 == 0, "a backtick is not closed"
    fields = [field for _, field, _, _ in string.Formatter().parse(declared.message) if field is not None]
    assert all(field.isidentifier() for field in fields), "placeholders are plain names"


@every_rule
def test_specifiers(declared: Rule) -> None:
    for specifier in (declared.torch, declared.torchmetrics):
        if specifier is not None:
            satisfies((1, 0), specifier)


@every_rule
def test_module_lies_in_its_category(declared: Rule) -> None:
    assert (ROOT / "torchperf_lint" / "rules" / declared.category.name.lower() / f"{declared.stem}.py").is_file()


@every_rule
def test_selectors_find_it(declared: Rule) -> None:
    assert find_rule(declared.code) is find_rule(declared.name) is declared
    for selector in (declared.code, declared.name):
        check_selector(selector)
        assert select([selector]) == (declared,)
    assert declared in select([declared.code[:4]])
    assert declared in select(["ALL"])
    assert declared not in select(["ALL"], ignored=[declared.code])
    assert declared in select([], extended=[declared.name])
    assert (declared in select()) is declared.default


def test_unknown_selector_names_the_nearest() -> None:
    first = all_rules()[0]
    with pytest.raises(UnknownSelector, match=first.name):
        check_selector(first.name + "x")


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("tpl001", "TPL001"),
        ("Unused-Suppression", "unused-suppression"),
        ("unused", "unused-suppression"),
        ("suppression", "unused-suppression"),
        ("XYZ9", None),
        ("", None),
        ("?", None),
    ],
)
def test_nearest(text: str, near: str | None) -> None:
    assert nearest(text) == near


def test_good_declaration() -> None:
    declared = rule(**GOOD)(_nothing)
    assert declared.stem == "scalar_read_early"
    assert declared.triggers[0] == (b"item",)
    assert b"cuda" in declared.triggers[1]
    assert rule(**GOOD, cpu_only_too=True)(_nothing).triggers == ((b"item",),)
    assert declared.default


@pytest.mark.parametrize(
    "change",
    [
        {"code": "TPL1"},
        {"code": "TPL901"},
        {"code": "AB101"},
        {"code": "ABC1"},
        {"code": "abc101"},
        {"code": "TPL201"},
        {"name": "Scalar-read"},
        {"name": "scalar"},
        {"name": "scalar_read"},
        {"summary": "Reading a scalar"},
        {"summary": "reading a scalar."},
        {"summary": ""},
        {"message": "It waits"},
        {"message": "`{call}` waits."},
        {"triggers": ()},
        {"triggers": ("",)},
        {"triggers": ("item", ())},
        {"fix": Safety.UNSAFE},
        {"fix": Safety.UNSAFE, "assumes": "All is well"},
        {"fix": Safety.UNSAFE, "assumes": "all is well."},
    ],
    ids=str,
)
def test_bad_declaration(change: dict[str, object]) -> None:
    with pytest.raises(BadDeclaration):
        rule(**{**GOOD, **change})(_nothing)
