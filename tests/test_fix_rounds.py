"""Files that are fixed together: what is refused in one, or cannot be written, is nothing that another rests on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from fake_rules import HINTS, TARGET, finds, swaps, text_of
from torchperf_lint.engine import fix_rounds, jobs, registry
from torchperf_lint.engine.declare import Category, rule
from torchperf_lint.engine.findings import Edit, Finding, Fix, Safety, Severity
from torchperf_lint.engine.jobs import Action
from torchperf_lint.engine.project import check_paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from torchperf_lint.engine.declare import Rule
    from torchperf_lint.engine.jobs import Result
    from torchperf_lint.model import Model, Site


def _wrapped(site: Site) -> Fix:
    """A fix after which the call is found as before: it is always refused."""
    return Fix("wrap", Safety.SAFE, (Edit(site.start, site.start, b"bar("), Edit(site.end, site.end, b")")))


NEVER = finds("item", "TPL190", fix=_wrapped)
NAMES_BAR = finds("gone", "TPL192", fix=swaps("bar(1)"))


@rule(
    code="TPL191",
    name="beside-bar",
    category=Category(1),
    summary="a call of foo, and one of quux where some file calls bar",
    message="`{text}` is called",
    severity=Severity.WARNING,
    triggers=("foo", "quux"),
    cpu_only_too=True,
    fix=Safety.SAFE,
)
def beside_bar(model: Model) -> Iterator[Finding]:
    analyzed = model._analyzed
    names = ["foo"]
    if analyzed.program is not None and analyzed.program.calls_name("bar", analyzed.index):
        names.append("quux")
    for name in names:
        for site in model.method_calls(name):
            yield Finding(site, fix=swaps("0")(site), fields={"text": text_of(site).decode()})


RULES = [NEVER, beside_bar, NAMES_BAR]


@pytest.fixture
def fixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., dict[str, Result]]]:
    """Fixes files of these contents, by name, in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "all_rules", lambda: tuple(RULES))
    jobs._rules.cache_clear()

    def fix(action: Action = Action.FIX, **texts: str) -> dict[str, Result]:
        for name, text in texts.items():
            (tmp_path / f"{name}.py").write_text(text)
        found = check_paths(["."], lambda path: RULES, TARGET, HINTS, action=action, jobs=1)
        return {os.path.basename(each.path).removesuffix(".py"): each for each in found}

    yield fix
    jobs._rules.cache_clear()


REFUSED = "y = x.item()\n"
FOO = "y = x.foo()  # no quux\n"
OTHER = "y = x.foo()\nz = x.quux()  # foo\n"


@pytest.mark.parametrize("action", [Action.FIX, Action.TRY])
@pytest.mark.parametrize("refused", [REFUSED, REFUSED * 3], ids=["one", "several"])
def test_what_is_refused_in_one_file_is_nothing_to_another(fixed, action, refused):
    results = fixed(action, a=refused, b=OTHER)
    assert results["a"].data == results["a"].before
    assert {each.code for each in results["a"].withdrawn} == {"TPL190"}
    assert results["b"].data == b"y = 0\nz = x.quux()  # foo\n"
    assert results["b"].report.diagnostics == ()


def _needing(number: int) -> Rule:
    """A rule whose fix is accepted only where that of the rule before it has been made in another file."""
    found, made, needed = f"k{number}", f"n{number}", f"n{number - 1}"

    @rule(
        code=f"TPL10{number}",
        name=f"needs-{needed}",
        category=Category(1),
        summary=f"a call of {found}, and one of {made} where no file calls {needed}",
        message="`{text}` is called",
        severity=Severity.WARNING,
        triggers=(found,),
        cpu_only_too=True,
        fix=Safety.SAFE,
    )
    def check(model: Model) -> Iterator[Finding]:
        analyzed = model._analyzed
        for site in model.method_calls(found):
            yield Finding(site, fix=swaps(f"x.{made}()")(site), fields={"text": text_of(site).decode()})
        if analyzed.program is None or not analyzed.program.calls_name(needed, analyzed.index):
            for site in model.method_calls(made):
                yield Finding(site, fields={"text": text_of(site).decode()})

    return check


def test_a_chain_of_refusals_is_followed_to_its_end(fixed, monkeypatch):
    rules = [finds("k0", "TPL100", fix=_wrapped), *map(_needing, range(1, 6))]
    monkeypatch.setattr("test_fix_rounds.RULES", rules)
    results = fixed(**{f"f{number}": f"y = x.k{number}()  # k{number}\n" for number in range(6)})
    assert {name: each.data == each.before for name, each in results.items()} == dict.fromkeys(results, True)
    assert len(results) == 6


def test_findings_that_are_spared_stay_so_in_a_file_that_cannot_be_written(fixed, tmp_path):
    (tmp_path / "a.py").write_text("y = x.gone()\nz = x.gone()\n")
    (tmp_path / "a.py").chmod(0o444)
    found = check_paths(
        ["."],
        lambda path: RULES,
        TARGET,
        HINTS,
        action=Action.FIX,
        jobs=1,
        spared={"a.py": frozenset({("TPL192", 4)})},
    )
    (result,) = found
    assert [each.row for each in result.report.diagnostics] == [2]
    assert result.report.failure is not None


def test_what_is_accepted_in_one_file_is_seen_by_another(fixed):
    results = fixed(a="y = x.gone()\n", b=OTHER)
    assert results["a"].data == b"y = bar(1)\n"
    again = fixed()
    assert again["a"].data == again["a"].before
    assert again["b"].data == b"y = 0\nz = 0  # foo\n"
    assert again["b"].report.diagnostics == ()


def test_a_file_that_cannot_be_written_is_judged_as_it_is(fixed, tmp_path):
    (tmp_path / "a.py").write_text("y = x.gone()\n")
    (tmp_path / "a.py").chmod(0o444)
    results = fixed(b=OTHER)
    assert "read-only" in str(results["a"].report.failure) or "Permission denied" in str(results["a"].report.failure)
    assert [each.code for each in results["a"].report.diagnostics] == ["TPL192"]
    assert results["b"].data == b"y = 0\nz = x.quux()  # foo\n"


def test_what_somebody_else_writes_during_the_run_stays(fixed, tmp_path, monkeypatch):
    passes = fix_rounds.fixing

    def fixing_while_somebody_writes(path, *given, **named):
        if os.path.basename(path) == "b.py":
            (tmp_path / "b.py").write_text("mine = 1\n")
        return passes(path, *given, **named)

    monkeypatch.setattr(fix_rounds, "fixing", fixing_while_somebody_writes)
    results = fixed(a="y = x.gone()\n", b=FOO)
    assert (tmp_path / "a.py").read_text() == "y = bar(1)\n"
    assert (tmp_path / "b.py").read_text() == "mine = 1\n"
    assert "it has changed meanwhile" in str(results["b"].report.failure)


def test_a_file_whose_report_fails_is_not_written(fixed, tmp_path, monkeypatch):
    def broken(*given, **named):
        raise KeyError("injected")

    monkeypatch.setattr(jobs, "offered", broken)
    text = FOO + "z = x.gone(x.item())\n"
    results = fixed(a=text)
    assert (tmp_path / "a.py").read_text() == text
    assert "internal error: KeyError" in str(results["a"].report.failure)


def test_deeply_nested_files_are_fixed_and_cost_no_other(fixed):
    deep = "def pick(k):\n    if k == 0:\n        return 0\n"
    deep += "".join(f"    elif k == {number}:\n        return {number}\n" for number in range(1, 400))
    results = fixed(a=FOO + deep, b=FOO)
    assert [results[name].data.startswith(b"y = 0 ") for name in "ab"] == [True, True]
