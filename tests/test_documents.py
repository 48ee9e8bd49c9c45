"""What CONTRIBUTING and the architecture page name is there: packages, modules, questions, tests, a rule's template."""

from __future__ import annotations

import re

import pytest

from linting import ROOT
from test_architecture import FOR_IDIOMS, MAY_IMPORT, ORDER_IN_MODEL
from torchperf_lint import pages
from torchperf_lint.engine import declare
from torchperf_lint.engine.registry import all_rules
from torchperf_lint.engine.runner import check_source
from torchperf_lint.knowledge.hints import Hints
from torchperf_lint.knowledge.versions import Target
from torchperf_lint.model import Model
from torchperf_lint.model.analyzed_file import AnalyzedFile
from torchperf_lint.model.syntax.indexing import index_of
from torchperf_lint.syntax.source import Source

PACKAGE = ROOT / "torchperf_lint"
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
MODEL_TABLE = "| package of `torchperf_lint/model/` | module | does |"


def rows(document: str, header: str) -> list[list[str]]:
    """The cells of the table below this header."""
    assert document.count(header) == 1, header
    table = []
    for line in document.partition(header + "\n")[2].splitlines()[1:]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split(" | ")])
    assert table
    return table


def quoted(cell: str) -> list[str]:
    """What stands between backticks in the cell."""
    return re.findall(r"`([^`]+)`", cell)


def test_packages_of_the_model_stand_in_their_order() -> None:
    named = [package for row in rows(ARCHITECTURE, MODEL_TABLE) for package in quoted(row[0])]
    assert named == list(ORDER_IN_MODEL)


def test_modules_of_the_model_are_there() -> None:
    package = ""
    for first, modules, _ in rows(ARCHITECTURE, MODEL_TABLE):
        package = next(iter(quoted(first)), package)
        for module in quoted(modules):
            assert (PACKAGE / "model" / package / f"{module}.py").is_file(), f"{package}/{module}"


def test_packages_of_the_linter_import_those_above_them() -> None:
    table = [quoted(row[0]) for row in rows(ARCHITECTURE, "| package of `torchperf_lint/` | is for |")]
    packages = {package for row in table for package in row}
    above = {"engine.findings", "engine.declare"}
    for row in table:
        above |= set(row)
        for package in row:
            assert (PACKAGE / package).is_dir(), package
            needed = {each if each in above else each.partition(".")[0] for each in MAY_IMPORT[package]}
            assert needed & packages <= above, package


@pytest.mark.parametrize(
    ("document", "folder"), [(ARCHITECTURE, "engine"), (CONTRIBUTING, "verify"), (CONTRIBUTING, "profile")]
)
def test_modules_of_other_packages_are_there(document: str, folder: str) -> None:
    for row in rows(document, f"| module of `torchperf_lint/{folder}/` | does |"):
        for module in quoted(row[0]):
            place = PACKAGE / folder / module
            assert place.is_dir() or place.with_suffix(".py").is_file(), f"{folder}/{module}"


def test_places_that_the_text_names_are_there() -> None:
    paths = re.findall(r"`((?:engine|model|syntax|idioms|project|callgraph|values|frequency)/\w+)", ARCHITECTURE)
    assert paths
    for path in paths:
        places = [root / f"{path}{suffix}" for root in (PACKAGE, PACKAGE / "model") for suffix in ("", ".py")]
        assert any(place.exists() for place in places), path


@pytest.mark.parametrize(
    ("document", "header", "column"),
    [(ARCHITECTURE, "| group | questions |", 1), (CONTRIBUTING, "| question | answer |", 0)],
)
def test_questions_are_those_of_the_model(document: str, header: str, column: int) -> None:
    source = Source("example.py", b"")
    model = Model(AnalyzedFile(source, index_of(source.parse(), source.path), Hints()), Target())
    for row in rows(document, header):
        name = quoted(row[column])
        assert name
        for question in name if column else name[:1]:
            asked = question.partition("(")[0]
            assert hasattr(model, asked), asked
            assert asked not in FOR_IDIOMS, f"{asked} is not for rules"


def test_questions_for_idioms_are_all_named() -> None:
    named = [name for row in rows(ARCHITECTURE, "| group, for idioms | questions |") for name in quoted(row[1])]
    assert sorted(named) == sorted(FOR_IDIOMS)
    assert all(hasattr(Model, name) for name in named if name != "source")


def test_a_model_has_nothing_but_questions() -> None:
    """What its answers are made of is private: idioms and rules cannot come to read it."""
    source = Source("example.py", b"")
    model = Model(AnalyzedFile(source, index_of(source.parse(), source.path), Hints()), Target())
    assert {name for name in vars(model) if not name.startswith("_")} == {"source", "target"}


def test_tests_are_there() -> None:
    for row in rows(CONTRIBUTING, "| file | holds |"):
        for name in quoted(row[0]):
            assert (ROOT / "tests" / name).exists(), name


def test_the_example_needs_both_files() -> None:
    path = ROOT / "fixtures" / "architecture" / "transfer.py"
    report = check_source("transfer.py", path.read_bytes(), all_rules(), Target(), Hints())
    assert report.diagnostics == ()
    assert report.failure is None


def test_a_rule_from_the_template_does_what_its_page_says() -> None:
    names: dict[str, object] = {"__name__": "template"}
    exec(compile(template("module"), "template.py", "exec", dont_inherit=True), names)
    (rule,) = (each for each in names.values() if isinstance(each, declare.Rule))
    assert rule.name not in {each.name for each in all_rules()}
    text = template("page")
    fences = dict(re.findall(r"```python (bad|good)\n(.*?)```\n", text, re.DOTALL))
    found = {role: check_source("a.py", code.encode(), (rule,), Target(), Hints()) for role, code in fences.items()}
    assert [each.code for each in found["bad"].diagnostics] == [rule.code]
    assert not found["good"].diagnostics
    assert text.startswith(f"# {rule.code} {rule.name}\n\n{rule.summary.capitalize()}.\n")
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings == [section for section in pages.SECTIONS if section != "Fix safety"]


def template(name: str) -> str:
    """One of the templates for a new rule, with a code that no rule has."""
    (found,) = re.findall(rf"<!-- template: {name} -->\n(`{{3,}})\w+\n(.*?)\1\n", CONTRIBUTING, re.DOTALL)
    return found[1].replace("TPL6xx", "TPL699")
