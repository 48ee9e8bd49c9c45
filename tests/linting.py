"""The tests' way into the linter: a fixture with its options, its findings, and what its fixes make of it."""

from __future__ import annotations

import collections
import dataclasses
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from expectations import Commented, comments_of, read_comments
from torchperf_lint.config import Settings
from torchperf_lint.engine import registry
from torchperf_lint.engine.findings import Safety
from torchperf_lint.engine.fixer import fix_source
from torchperf_lint.engine.project_snapshot import gather
from torchperf_lint.engine.runner import check_source
from torchperf_lint.knowledge.hints import Hints

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchperf_lint.engine.declare import Rule
    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.engine.project_snapshot import Snapshot
    from torchperf_lint.knowledge.versions import Target

ROOT = Path(__file__).resolve().parent.parent
RULE_FIXTURES = ROOT / "fixtures" / "rules"
PROJECT_FIXTURES = ROOT / "fixtures" / "projects"
PROJECTS = sorted(each.name for each in PROJECT_FIXTURES.iterdir() if each.is_dir())
RESULTS = (".fixed.py", ".unsafe.py")


@dataclasses.dataclass(frozen=True, eq=False)
class Fixture:
    """A fixture file: what it says of itself and the rules that run on it."""

    path: Path
    data: bytes
    comments: Commented
    rules: tuple[Rule, ...]
    hints: Hints

    @property
    def target(self) -> Target:
        """The target that the fixed files are made for: the newest."""
        return self.comments.targets()[-1]

    def result(self, suffix: str) -> Path:
        """The file that holds the fixture's fixed text."""
        return self.path.with_name(self.path.stem + suffix)

    @property
    def reports_unused(self) -> bool:
        """Whether the fixture is about unused suppressions, too; it must select them by their code."""
        return registry.UNUSED_SUPPRESSION in self.comments.directives.options.get("select", ())

    def check(self, data: bytes | None = None, target: Target | None = None) -> tuple[Diagnostic, ...]:
        """The findings in the fixture, or in other text under its options."""
        return _checked(self, self.data if data is None else data, self.target if target is None else target)

    def check_anew(self) -> tuple[Diagnostic, ...]:
        """The findings as they are now, where a test has changed what the linter does."""
        return _checked.__wrapped__(self, self.data, self.target)

    def fix(self, *, unsafe: bool, data: bytes | None = None) -> bytes:
        """The fixture, or other text under its options, after `--fix`, or after `--fix --unsafe-fixes`."""
        return _fixed(self, self.data if data is None else data, unsafe)


# Many tests look at the same findings, and at what the same fixes make.


@functools.cache
def _checked(fixture: Fixture, data: bytes, target: Target) -> tuple[Diagnostic, ...]:
    name, rules, hints = fixture.path.name, fixture.rules, fixture.hints
    report = check_source(name, data, rules, target, hints, report_unused=fixture.reports_unused)
    assert report.failure is None, str(report.failure)
    return tuple(report.diagnostics)


@functools.cache
def _fixed(fixture: Fixture, data: bytes, unsafe: bool) -> bytes:
    name, rules, hints = fixture.path.name, fixture.rules, fixture.hints
    unused = fixture.reports_unused
    return fix_source(name, data, rules, fixture.target, hints, unsafe, report_unused=unused).data


def rule_of(path: Path) -> Rule | None:
    """The rule whose fixture folder holds the file."""
    return registry.find_rule(path.parent.name.replace("_", "-"))


def fixture_paths(folder: Path = RULE_FIXTURES) -> list[Path]:
    """The fixtures under a folder, without the results of fixes."""
    return sorted(path for path in folder.rglob("*.py") if not path.name.endswith(RESULTS))


@functools.cache
def load_fixture(path: Path) -> Fixture:
    """Read a fixture; without a `select` option only the rule of its folder runs on it."""
    data = path.read_bytes()
    comments = read_comments(data.decode())
    options = comments.directives.options
    own = rule_of(path)
    if "select" in options:
        rules = registry.select(options["select"])
    else:
        assert own is not None, f"{path.relative_to(ROOT)}: its folder is named after no rule, and it selects none"
        rules = (own,)
    hints = Hints(options.get("hot-functions", ()), options.get("loader-names", ()))
    return Fixture(path, data, comments, rules, hints)


def few(cases: Iterable[Any], every: int = 8) -> list[Any]:
    """Parameters of a law: one in so many cases is quick, the others are slow ones."""
    return [each if at % every == 0 else pytest.param(each, marks=pytest.mark.slow) for at, each in enumerate(cases)]


def few_rows(rows: Iterable[tuple[Any, ...]], every: int = 8) -> list[Any]:
    """The same where each case has several parameters."""
    return [row if at % every == 0 else pytest.param(*row, marks=pytest.mark.slow) for at, row in enumerate(rows)]


def label(path: Path) -> str:
    """How a fixture is called in the names of tests."""
    return path.relative_to(ROOT / "fixtures").as_posix()


def assert_sound(fixture: Fixture, result: bytes, *, unsafe: bool) -> None:
    """Distrust what `fixture.fix` made: it compiles, keeps the comments, is stable, and its findings are gone."""
    grades = (Safety.SAFE, Safety.UNSAFE) if unsafe else (Safety.SAFE,)
    compile(result, fixture.path.name, "exec", dont_inherit=True)
    lost = collections.Counter(comments_of(fixture.data.decode()))
    lost.subtract(comments_of(result.decode()))
    if fixture.reports_unused:
        lost = collections.Counter({text: count for text, count in lost.items() if "noqa" not in text})
    assert not +lost, f"the fix loses comments: {sorted(+lost)}"
    assert fixture.fix(unsafe=unsafe, data=result) == result, "a second run changes the file again"

    before, after = fixture.check(), fixture.check(result)
    fixed = [found for found in before if found.fix is not None and found.fix.safety in grades]
    for code in sorted({found.code for found in fixed}):
        left = _count(after, code)
        most = _count(before, code) - _count(fixed, code)
        assert left <= most, f"{code} is found {left} times after its fixes, not {most}"
    if fixed:
        assert result != fixture.data, "there is a fix to apply, and nothing changed"
    again = [f"{found.code} in row {found.row}" for found in after if found.fix and found.fix.safety in grades]
    assert not again, f"still to be fixed after the fixes: {again}"


def assert_pair(path: Path, before: bytes, after: bytes) -> None:
    """Hold the file of a pair against the result of the fixes; without a change there must be no such file."""
    if before == after:
        assert not path.exists(), f"{path.name} is a pair without a change"
    else:
        assert path.exists(), f"{path.name} is missing; `pytest --bless` writes it:\n{after.decode()}"
        assert path.read_text(encoding="utf-8") == after.decode()


def bless_pair(path: Path, before: bytes, after: bytes) -> None:
    """Write, or remove, the file of a pair as the result of the fixes demands."""
    if before == after:
        path.unlink(missing_ok=True)
    else:
        path.write_bytes(after)


def _count(found: Iterable[Diagnostic], code: str) -> int:
    return sum(each.code == code for each in found)


@functools.cache
def laid_out(folder: Path, name: str) -> Snapshot:
    """The project of fixtures/projects/ with that name, as it lies in a folder of its own."""
    paths = sorted(path for path in (PROJECT_FIXTURES / name).rglob("*.py") if not path.name.endswith(RESULTS))
    for path in paths:
        place = folder / path.relative_to(PROJECT_FIXTURES / name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(path.read_bytes())
    (folder / ".git").mkdir()
    return gather([str(folder / path.relative_to(PROJECT_FIXTURES / name)) for path in paths], Settings().hints)
