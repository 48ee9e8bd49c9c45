"""Small projects of several files, linted as a run of the whole project sees them, and what holds of every project.

A case is a folder of fixtures/projects/ with the comments of every other fixture, under the rules that are on by
default. `# options:` in the first lines of any file holds for the whole case. `# because: train.py "called here"`
behind a finding says that its evidence leads to that file, with that text. `x.fixed.py` and `x.unsafe.py` are no
files of the project: they are what `--fix` and `--fix --unsafe-fixes` make of `x.py`.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import random
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from expectations import Commented, comments_of, disagreements, read_comments, unaccounted
from linting import RESULTS, ROOT, assert_pair, bless_pair, few
from torchperf_lint.config import Settings
from torchperf_lint.engine import executors, project_snapshot, registry
from torchperf_lint.engine.files import CACHE_FOLDER
from torchperf_lint.engine.findings import Diagnostic, Safety
from torchperf_lint.engine.jobs import Action
from torchperf_lint.engine.layout import STANDARD_LENGTH, laid_out
from torchperf_lint.engine.project import check_paths
from torchperf_lint.engine.runner import FileReport, check_source
from torchperf_lint.engine.trial import has_lessened, written
from torchperf_lint.knowledge.hints import Hints
from torchperf_lint.knowledge.versions import Target
from torchperf_lint.model import bounds, loaded_files
from torchperf_lint.syntax.identity import key_of
from torchperf_lint.syntax.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import NoReturn

    from torchperf_lint.engine.declare import Rule
    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.engine.project import Result
    from torchperf_lint.model.program import Program

PROJECTS = ROOT / "fixtures" / "projects"
CASES = sorted(each.name for each in PROJECTS.iterdir() if each.is_dir())
MOST_FILES = 6
SILENT = ("distributions_unchecked",)
"""Cases about what must not be found."""

UNTOLD = {
    ("host_values", "train.py", "TPL101"): "the tensor comes back from another file as it was handed over",
    ("lightning_base", "regressor.py", "TPL103"): "the base class that Lightning knows is in another file",
    ("loader_class", "train.py", "TPL402"): "the class of the loader is in another file",
    ("looked_up_by_name", "trainer.py", "TPL101"): "another file gives the name that is looked up",
    ("project_attribute", "net.py", "TPL101"): "another file brings the module to the accelerator",
    ("records", "train.py", "TPL105"): "the tensor comes back from another file as it was handed over",
    ("registry", "losses.py", "TPL101"): "another file brings the module to the accelerator",
    ("registry", "models.py", "TPL101"): "another file brings the module to the accelerator",
    ("rl_loop", "train.py", "TPL202"): "the loop trains by a call whose function is in another file",
}
"""Findings that name no other file yet, and what they should say."""

_CAUSE = re.compile(r'#\s*because:\s*(?P<path>\S+\.py)(?:\s+"(?P<text>[^"]*)")?')

every_case = pytest.mark.parametrize("name", CASES)
a_law_of_cases = pytest.mark.parametrize("name", few(CASES, 8))

if TYPE_CHECKING:
    Findings = dict[str, tuple[Diagnostic, ...]]


class Case(NamedTuple):
    """A project: its files without the results of fixes, by their paths in it, and the options of its run."""

    files: dict[str, bytes]
    comments: dict[str, Commented]  # of the Python files
    rules: tuple[Rule, ...]
    hints: Hints

    def lay_out(self, folder: Path) -> None:
        """Write the project into a folder, and mark the folder as its root."""
        (folder / ".git").mkdir(parents=True)
        for path, data in self.files.items():
            write(folder / path, data)

    def run(
        self,
        *paths: str,
        action: Action = Action.CHECK,
        unsafe: bool = False,
        jobs: int = 1,
        cache: str | None = None,
    ) -> dict[str, Result]:
        """The results of a run in the current folder, over all of it if no paths are named."""
        options = {"action": action, "unsafe": unsafe, "jobs": jobs, "cache": cache}
        results = check_paths(paths or ["."], lambda path: self.rules, Target(), self.hints, **options)
        return {result.path: result for result in results}

    def findings(self, *paths: str, jobs: int = 1, cache: str | None = None) -> dict[str, tuple[Diagnostic, ...]]:
        """What such a run finds in each file."""
        results = self.run(*paths, jobs=jobs, cache=cache)
        assert not [str(each.report.failure) for each in results.values() if each.report.failure is not None]
        return {path: result.report.diagnostics for path, result in results.items()}


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@functools.cache
def load_case(name: str) -> Case:
    folder = PROJECTS / name
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in (".py", ".toml") and not path.name.endswith(RESULTS)
    }
    comments = {path: read_comments(data.decode()) for path, data in files.items() if path.endswith(".py")}
    options: dict[str, tuple[str, ...]] = {}
    for each in comments.values():
        assert each.directives.target == Target(), "a case has no target of its own"
        options.update(each.directives.options)
    rules = registry.select(options["select"]) if "select" in options else Settings().rules
    return Case(files, comments, rules, Hints(options.get("hot-functions", ()), options.get("loader-names", ())))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for a project, in which the run is made."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Findings]:
    """What a run over the whole of a case finds."""

    @functools.cache
    def findings(name: str) -> Findings:
        with _laid_out(load_case(name), tmp_path_factory.mktemp(name)) as case:
            return case.findings()

    return findings


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, bool], dict[str, bytes]]:
    """The files of a case after the fixes, or after the unsafe ones, too."""

    @functools.cache
    def fixed(name: str, unsafe: bool) -> dict[str, bytes]:
        with _laid_out(load_case(name), tmp_path_factory.mktemp(name)) as case:
            return _fixed(case, unsafe=unsafe)

    return fixed


@contextlib.contextmanager
def _laid_out(case: Case, folder: Path) -> Iterator[Case]:
    """The case in the current folder, for as long as this lasts."""
    case.lay_out(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield case


# -- each case -----------------------------------------------------------------------------------------------------


@every_case
def test_findings(name: str, whole: Callable[[str], Findings]) -> None:
    case = load_case(name)
    wrong = [
        f"{path}: {complaint}"
        for path, found in whole(name).items()
        for complaint in disagreements(case.comments[path].expectations, found, Target())
    ]
    assert not wrong, f"{name}:\n" + "\n".join(wrong)


@every_case
def test_causes_in_other_files_are_named(name: str, whole: Callable[[str], Findings]) -> None:
    case = load_case(name)
    found = whole(name)
    for path, row, wanted, text in _causes(case):
        about = [each for each in found[path] if each.noqa_rows[0] <= row <= each.noqa_rows[1]]
        assert about, f"{path}:{row}: the comment tells the cause of nothing"
        for each in about:
            named = [(step.path or path, step.text) for step in each.because]
            assert any(at == wanted and text in said for at, said in named), f"{path}:{row}: {wanted} is not in {named}"


@every_case
def test_every_step_of_evidence_is_a_place_in_the_project(name: str, whole: Callable[[str], Findings]) -> None:
    case = load_case(name)
    for path, found in whole(name).items():
        for each in found:
            for step in each.because:
                assert step.path != path, f"{path}:{each.row}: a place in the same file is told as another file's"
                rows = case.files[step.path or path].decode().splitlines()
                assert 1 <= step.row <= len(rows), f"{path}:{each.row}: {step} is past the end of the file"


@every_case
def test_what_one_file_does_not_show_is_shown_by_another(name: str, whole: Callable[[str], Findings]) -> None:
    case = load_case(name)
    untold = set()
    for path, found in whole(name).items():
        alone = check_source(path, case.files[path], case.rules, Target(), case.hints).diagnostics
        known = {(each.code, each.start) for each in alone}
        for each in found:
            if (each.code, each.start) not in known and all(step.path is None for step in each.because):
                untold.add((name, path, each.code))
    assert untold == {each for each in UNTOLD if each[0] == name}, "found only in the project, and names no other file"


@every_case
def test_fixes(name: str, tried: Callable[[str, bool], dict[str, bytes]], bless: bool) -> None:
    case = load_case(name)
    safe, unsafe = tried(name, False), tried(name, True)
    hold = bless_pair if bless else assert_pair
    for path, before in case.files.items():
        if path.endswith(".py"):
            place = PROJECTS / name / path
            hold(place.with_name(place.stem + ".fixed.py"), before, safe[path])
            hold(place.with_name(place.stem + ".unsafe.py"), safe[path], unsafe[path])


@a_law_of_cases
@pytest.mark.parametrize("unsafe", [False, True], ids=["safe", "unsafe"])
def test_fixes_are_sound(name: str, unsafe: bool, here: Path, tried: Callable[[str, bool], dict[str, bytes]]) -> None:
    case = load_case(name)
    case.lay_out(here)
    for path, data in tried(name, unsafe).items():
        compile(data, path, "exec", dont_inherit=True)
        lost = collections.Counter(comments_of(case.files[path].decode()))
        lost.subtract(comments_of(data.decode()))
        assert not +lost, f"{path}: the fix loses comments: {sorted(+lost)}"
        write(here / path, data)
    assert _fixed(case, unsafe=unsafe) == {path: (here / path).read_bytes() for path in case.comments}, "a second run"
    grades = (Safety.SAFE, Safety.UNSAFE) if unsafe else (Safety.SAFE,)
    left = [each for found in case.findings().values() for each in found if each.fix and each.fix.safety in grades]
    assert not left, f"still to be fixed after the fixes: {left}"


@a_law_of_cases
def test_every_fix_can_be_made_alone(name: str, here: Path) -> None:
    case = load_case(name)
    case.lay_out(here)
    program = functools.cache(project_snapshot.gather(sorted(case.comments), case.hints).program)

    def check(path: str, data: bytes, around: Callable[[], Program]) -> FileReport:
        return check_source(path, data, case.rules, Target(), case.hints, program=around)

    for path in case.comments:
        before = check(path, case.files[path], program)
        for each in before.diagnostics:
            if each.fix is None or each.fix.safety is Safety.SHOWN:
                continue
            data = written(Source(path, case.files[path]), each.fix.edits)
            after = check(path, data, program)
            program().close(path)
            has_lessened(before, after, [each])
            assert check(path, case.files[path], program) == before, "what is tried changes nothing"


def test_no_result_without_its_file() -> None:
    for path in PROJECTS.rglob("*.py"):
        for suffix in RESULTS:
            if path.name.endswith(suffix):
                assert path.with_name(path.name.removesuffix(suffix) + ".py").exists(), f"{path} is a result of nothing"


def test_cases_are_small_and_each_says_something() -> None:
    assert CASES, "no case was found, so nothing was tested"
    for name in CASES:
        case = load_case(name)
        told = [each for comments in case.comments.values() for each in comments.expectations]
        stated = [each for each in told if each.kind != "refuted"]
        assert 2 <= len([path for path in case.comments if case.files[path]]) <= MOST_FILES, name
        assert bool(stated) != (name in SILENT), f"{name} states {len(stated)} findings"
    assert sum(1 for name in CASES for _ in _causes(load_case(name))) >= len(CASES)


def _causes(case: Case) -> Iterator[tuple[str, int, str, str]]:
    """File and row of every comment that tells a cause, with the file and the text that it names."""
    for path in case.comments:
        for row, line in enumerate(case.files[path].decode().splitlines(), start=1):
            for match in _CAUSE.finditer(line):
                yield path, row, match["path"], match["text"] or ""


def _fixed(case: Case, *, unsafe: bool) -> dict[str, bytes]:
    """The files of the current folder after the fixes, which are not written."""
    results = case.run(action=Action.TRY, unsafe=unsafe)
    assert not [each.report.failure for each in results.values() if each.report.failure is not None]
    assert not [each.withdrawn for each in results.values() if each.withdrawn]
    return {path: result.data or Path(path).read_bytes() for path, result in results.items()}


# -- laws ----------------------------------------------------------------------------------------------------------


@a_law_of_cases
def test_the_order_of_files_changes_nothing(name: str, here: Path, whole: Callable[[str], Findings]) -> None:
    case = load_case(name)
    case.lay_out(here)
    paths = sorted(case.comments)
    for seed in range(2):
        program = functools.cache(project_snapshot.gather(paths, case.hints).program)
        for path in random.Random(seed).sample(paths, len(paths)):
            report = check_source(path, case.files[path], case.rules, Target(), case.hints, program=program)
            found = tuple(_with_broken_lines(each, case.files[path]) for each in report.diagnostics)
            assert found == whole(name)[path], f"{path} is judged otherwise in another order"


def _with_broken_lines(found: Diagnostic, data: bytes) -> Diagnostic:
    """The finding as a run offers its fix."""
    if found.fix is None:
        return found
    edits = laid_out(Source(found.path, data), found.fix.edits, STANDARD_LENGTH)
    return found._replace(fix=found.fix._replace(edits=edits))


def test_a_file_that_is_too_large_to_be_asked_is_so_in_any_order(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = _plain_case()
    write(here / "helper.py", HELPER)
    write(here / "train.py", IN_EVERY_STEP)

    def codes(*paths: str) -> set[str]:
        program = functools.cache(project_snapshot.gather(paths, case.hints).program)
        reports = [
            check_source(path, (here / path).read_bytes(), case.rules, Target(), case.hints, program=program)
            for path in paths
        ]
        return {each.code for report in reports for each in report.diagnostics}

    assert codes("helper.py", "train.py") == codes("train.py", "helper.py") == {"TPL101"}
    monkeypatch.setattr(bounds, "MOST_BYTES", len(IN_EVERY_STEP) - 1)
    assert codes("helper.py", "train.py") == codes("train.py", "helper.py") == set()


def test_a_file_that_nests_too_deeply_is_left_out_and_no_result_is_stored(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In any thread: where there is none with room, another run may find more."""
    write(here / "helper.py", HELPER)
    program = project_snapshot.gather(["helper.py"], _plain_case().hints).program()

    def fails(tree: object, path: str) -> NoReturn:
        raise RecursionError

    monkeypatch.setattr(loaded_files, "index_of", fails)
    assert program.analyzed(key_of("helper.py")) is None
    assert program.recorder.dependencies() is None


@a_law_of_cases
def test_a_file_alone_has_its_findings_of_the_whole_run(
    name: str, here: Path, whole: Callable[[str], Findings]
) -> None:
    case = load_case(name)
    case.lay_out(here)
    for path in case.comments:
        assert case.findings(path) == {path: whole(name)[path]}


@a_law_of_cases
def test_what_a_file_has_alone_it_has_in_its_project_but_for_what_that_refutes(
    name: str, whole: Callable[[str], Findings]
) -> None:
    case = load_case(name)
    wrong = [
        f"{path}: {complaint}"
        for path, comments in case.comments.items()
        for alone in [check_source(path, case.files[path], case.rules, Target(), case.hints).diagnostics]
        for complaint in unaccounted(comments.expectations, alone, whole(name)[path])
    ]
    assert not wrong, f"{name}:\n" + "\n".join(wrong)


@a_law_of_cases
def test_from_another_folder_the_findings_are_the_same(
    name: str, here: Path, monkeypatch: pytest.MonkeyPatch, whole: Callable[[str], Findings]
) -> None:
    case = load_case(name)
    case.lay_out(here)
    monkeypatch.chdir(here.parent)
    assert _bare(case.findings("project")) == {f"project/{path}": found for path, found in _bare(whole(name)).items()}


@a_law_of_cases
def test_facts_from_the_cache_give_the_same(
    name: str, here: Path, monkeypatch: pytest.MonkeyPatch, whole: Callable[[str], Findings]
) -> None:
    case = load_case(name)
    case.lay_out(here)
    without = whole(name)
    assert case.findings(cache=CACHE_FOLDER) == without

    def forbidden(data: bytes) -> None:
        raise AssertionError("the facts of an unchanged file are taken again")

    monkeypatch.setattr(project_snapshot, "symbols_of", forbidden)
    assert case.findings(cache=CACHE_FOLDER) == without


@a_law_of_cases
def test_a_broken_file_leaves_the_findings_of_the_others_alone(
    name: str, here: Path, whole: Callable[[str], Findings]
) -> None:
    case = load_case(name)
    case.lay_out(here)
    write(here / "broken.py", b"import torch\nfrom train import *\n\n\ndef broken(:\n    return 1\n")
    results = case.run()
    assert results.pop("broken.py").report.failure is not None
    assert {path: result.report.diagnostics for path, result in results.items()} == whole(name)


@a_law_of_cases
def test_a_file_that_breaks_is_the_only_one_to_fail(name: str, here: Path) -> None:
    case = load_case(name)
    case.lay_out(here)
    for path, data in case.files.items():
        if path.endswith(".py"):
            write(here / path, data + b"\n)\n")
            failed = [each for each, result in case.run().items() if result.report.failure is not None]
            assert failed == [path]
            write(here / path, data)


@pytest.mark.slow
def test_the_number_of_processes_changes_nothing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "WORTH_A_POOL", 0)
    monkeypatch.setattr(executors, "FILES_PER_CALL", 1)
    for name in CASES:
        load_case(name).lay_out(here / name)
    one, two = (_plain_case().run(action=Action.TRY, unsafe=True, jobs=jobs) for jobs in (1, 2))
    assert sum(len(result.report.diagnostics) for result in one.values()) > len(CASES)
    assert any(result.applied for result in one.values())
    assert one == two


def test_a_file_is_judged_beside_the_others_as_the_run_found_them(here: Path) -> None:
    """The unsafe fix of `a_step.py` makes a tensor of what `train.py` makes a number of."""
    write(here / "a_step.py", STEP)
    write(here / "train.py", CALLS_STEP)
    case = _plain_case()
    for action in (Action.TRY, Action.FIX):
        results = case.run(action=action, unsafe=True)
        assert [each.code for each in results["a_step.py"].applied] == ["TPL103"]
        assert results["train.py"].report.diagnostics == ()
    assert [each.code for each in case.findings()["train.py"]] == ["TPL101"], "the next run finds what is new"


def _plain_case() -> Case:
    """No files, and the options of most cases."""
    return Case({}, {}, Settings().rules, Hints())


def _bare(findings: dict[str, tuple[Diagnostic, ...]]) -> dict[str, list[tuple[str, int, str]]]:
    return {path: [(each.code, each.start, each.message) for each in found] for path, found in findings.items()}


STEP = b"""\
from ignite.engine import Engine


def step(engine, batch):
    return batch.cuda(non_blocking=True).mean().item()


evaluator = Engine(step)
"""
CALLS_STEP = b"""\
import torch
from a_step import step


def train(model, loader, optimizer, numbers):
    model.cuda()
    for x in loader:
        loss = model(x.cuda(non_blocking=True)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        numbers["step"] = float(step(None, x))
"""


# -- changes -------------------------------------------------------------------------------------------------------

HELPER = b"def read(loss):\n    return loss.mean().item()\n"
TRAIN = b"""\
import torch
from helper import read


def train(model, loader, optimizer, numbers):
    model.cuda()
    for step, x in enumerate(loader):
        loss = model(x.cuda(non_blocking=True)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            numbers["loss"] = read(loss)
"""
IN_EVERY_STEP = TRAIN.replace(b"step % 100 == 0", b"step is not None")
AFTER_ALL_STEPS = TRAIN.replace(b"        if step % 100 == 0:\n            numbers", b"    numbers")


@pytest.mark.parametrize("cache", [None, CACHE_FOLDER], ids=["cold", "cached"])
def test_an_edit_changes_what_is_said_of_other_files(cache: str | None, here: Path) -> None:
    case = _plain_case()
    write(here / "helper.py", HELPER)
    for train, codes in ((TRAIN, []), (IN_EVERY_STEP, ["TPL101"]), (b"", []), (IN_EVERY_STEP, ["TPL101"]), (TRAIN, [])):
        write(here / "train.py", train)
        assert [each.code for each in case.findings(cache=cache)["helper.py"]] == codes
        assert [each.code for each in case.findings("helper.py", cache=cache)["helper.py"]] == codes


@pytest.mark.parametrize("train", [TRAIN, AFTER_ALL_STEPS], ids=["now and then", "after"])
def test_an_edit_that_is_not_saved_counts_for_files_that_are_asked_after_it(train: bytes, here: Path) -> None:
    case = _plain_case()
    write(here / "helper.py", HELPER)
    write(here / "train.py", train)
    program = functools.cache(project_snapshot.gather(["helper.py", "train.py"], case.hints).program)

    def codes(path: str, data: bytes) -> list[str]:
        report = check_source(path, data, case.rules, Target(), case.hints, program=program)
        return [each.code for each in report.diagnostics]

    assert codes("helper.py", HELPER) == []
    assert codes("train.py", IN_EVERY_STEP) == []
    assert codes("helper.py", HELPER) == ["TPL101"]
    assert codes("helper.py", HELPER.replace(b".item()", b"")) == []
    assert codes("train.py", train) == []
    assert codes("helper.py", HELPER) == []


def test_a_file_that_comes_or_goes_changes_what_is_said_of_others(here: Path) -> None:
    case = _plain_case()
    write(here / "helper.py", HELPER)
    assert case.findings(cache=CACHE_FOLDER)["helper.py"] == ()
    write(here / "train.py", IN_EVERY_STEP)
    assert [each.code for each in case.findings(cache=CACHE_FOLDER)["helper.py"]] == ["TPL101"]
    (here / "train.py").unlink()
    assert case.findings(cache=CACHE_FOLDER)["helper.py"] == ()
