"""Dependencies of reports: a file has the same ones, whatever the program was queried for before."""

from __future__ import annotations

import itertools
import os
import random
from typing import TYPE_CHECKING

import pytest

from linting import PROJECTS, few, laid_out
from torchperf_lint.config import Settings
from torchperf_lint.engine.project_snapshot import gather
from torchperf_lint.engine.runner import check_source
from torchperf_lint.knowledge.versions import Target
from torchperf_lint.model import bounds
from torchperf_lint.model.facts import parts_of
from torchperf_lint.model.project.dependencies import OF_FILE, DependencyRecorder
from torchperf_lint.model.project.file_symbols import symbols_of
from torchperf_lint.model.project.parts import QUESTIONS as OF_FILES
from torchperf_lint.model.project.symbol_index import QUESTIONS, SymbolIndex
from torchperf_lint.model.syntax.slices import Slices
from torchperf_lint.syntax.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from torchperf_lint.engine.findings import FileReport
    from torchperf_lint.engine.project_snapshot import Snapshot
    from torchperf_lint.model.program import Program
    from torchperf_lint.model.project.dependencies import Question


def judge(path: str, project: Program) -> tuple[set[Question] | None, FileReport]:
    """The queries that a report depends on, None if it does not query the project, and the report."""
    asked = []

    def noted() -> Program:
        asked.append(project)
        project.recorder.begin()
        return project

    with open(path, "rb") as file:
        report = check_source(path, file.read(), Settings().rules, Target(), Settings().hints, program=noted)
    if not asked:
        return None, report
    return questions_of(project, path, report), report


def questions_of(project: Program, path: str, report: FileReport) -> set[Question]:
    """The queries that the report depends on; those that were told before are found by their numbers."""
    dependencies = project.dependencies_of(path, [step for found in report.diagnostics for step in found.because])
    assert dependencies is not None
    told = TOLD.setdefault(dependencies.mark, {})
    told.update((number, question) for number, question, _ in dependencies.new)
    return {told[number] for number in dependencies.asked}


TOLD: dict[str, dict[int, Question]] = {}


@pytest.fixture
def by_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no function run whole because earlier questions were about half of it: its values are those of its slices."""
    monkeypatch.setattr(Slices, "size", 10**9)


@pytest.mark.usefixtures("by_slices")
@pytest.mark.parametrize("share", few([0.5, 0, 1], 24))
@pytest.mark.parametrize("seed", few(range(3), 24))
@pytest.mark.parametrize("name", PROJECTS)
def test_cached_results_hide_no_dependency(
    name: str, seed: int, share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither results cached from file to file, nor those that outlive trees, where a share of them may stay."""
    snapshot = laid_out(tmp_path, name)
    order = sorted(snapshot.layout.shown.values())
    monkeypatch.setattr(bounds, "MOST_BYTES_LOADED", share * sum(map(os.path.getsize, order)))
    random.Random(seed).shuffle(order)
    assert_nothing_is_hidden(snapshot, order)


CHAIN = {
    "leaf.py": "import torch\n\ndef leaf(x):\n    return x.cuda().item()\n",
    "mid.py": "import torch\nfrom leaf import leaf\n\ndef mid(x):\n    return leaf(x.cuda().item())\n",
    "top.py": "import torch\nfrom mid import mid\n\ndef top(x):\n    return mid(x.cuda().item())\n",
    "hands.py": "import torch, takes, top\n\ndef hands(x):\n    return takes.run(top.top, x.cuda().item())\n",
    "takes.py": "import torch\n\ndef run(function, x):\n    return function(x.cuda().item())\n",
}


@pytest.mark.usefixtures("by_slices")
@pytest.mark.parametrize("order", few(itertools.permutations(CHAIN), 7), ids=" ".join)
def test_results_that_outlive_the_trees_bring_their_dependencies(
    order: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MOST_BYTES_LOADED", 0)
    for name, text in CHAIN.items():
        (tmp_path / name).write_text(text)
    os.makedirs(tmp_path / ".git")
    paths = [str(tmp_path / name) for name in order]
    assert_nothing_is_hidden(gather(paths, Settings().hints), [*paths, *paths])


def assert_nothing_is_hidden(snapshot: Snapshot, order: Iterable[str]) -> None:
    """Each report has the same dependencies after others, or more, as where the file is the only one checked."""
    shared = snapshot.program()
    for path in order:
        (alone, by_itself), (after_others, report) = judge(path, snapshot.program()), judge(path, shared)
        assert by_itself == report, path
        assert (alone is None) == (after_others is None)
        if alone is None or after_others is None:
            continue
        read = {question[1] for question in after_others if question[0] == "file whole"}
        missing = {each for each in alone - after_others if not (each[0].startswith(OF_FILE) and each[1] in read)}
        assert not missing, path


@pytest.mark.slow
def test_all_queries_are_known_and_can_be_repeated(tmp_path: Path) -> None:
    asked: set[Question] = set()
    for name in PROJECTS:
        snapshot = laid_out(tmp_path / name, name)
        program = snapshot.program()
        reports = [judge(path, program) for path in snapshot.layout.shown.values()]
        questions = {question for found, _ in reports if found is not None for question in found}
        links = SymbolIndex(snapshot.facts, snapshot.layout.root)
        for kind, *texts in questions:
            if kind.startswith(OF_FILE):
                assert OF_FILES[kind.removeprefix(OF_FILE)] in (None, len(texts) - 1)
                continue
            assert QUESTIONS[kind] == len(texts)
            assert links.answer((kind, *texts)) == getattr(links, kind)(*texts)
        asked |= questions
    kinds = {question[0] for question in asked}
    assert kinds | {"absolute", "importers", "imports"} >= QUESTIONS.keys()
    assert kinds >= {OF_FILE + kind for kind in OF_FILES}


@pytest.mark.parametrize(
    "question",
    [
        ("hop",),
        ("hop", "a", "b", "c"),
        ("answer", "x"),
        ("__class__",),
        ("is_test", "a"),
        ("imports", "/gone.py"),
    ],
)
def test_an_unknown_query_has_no_answer(question: tuple[str, ...]) -> None:
    assert SymbolIndex({"/p/a.py": symbols_of(b"")}, "/p").answer(question) is None


BEFORE = """\
from torch import nn


class Block(nn.Module):
    size: int = 3

    def forward(self, x, factor=1.5):
        return self.scaled(x) * factor


registered = [Block]


def use(make=Block, **options):
    global last
    last = make()
    return last.forward(**options)
"""


OF_METHOD = {("enters", "calls", "scaled"), ("enters", "methods", "Block.forward"), ("enters", "members", "Block")}
OF_CLASS = {*OF_METHOD, *((question, "Block") for question in ("binds", "runs", "mentions")), ("runs", "nn")}
OF_FUNCTION = {("enters", "calls", "forward"), ("enters", "rebound_elsewhere", "last"), ("enters", "defaults", "Block")}
OF_FUNCTION |= {("mentions", "Block")}


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("self.scaled(x)", "self.scaled(-x)", OF_METHOD),
        ("self.scaled(x)", "x", OF_METHOD),
        ("factor=1.5", "factor=2.5", OF_METHOD),
        ("factor=1.5", "factor=Block.size", {*OF_METHOD, ("runs", "Block"), ("mentions", "Block")}),
        ("def forward", "def backward", {*OF_METHOD, ("enters", "methods", "Block.backward")}),
        ("size: int = 3", "size: int = 4", {*OF_CLASS, ("enters", "attributes", "Block.size")}),
        ("last = make()", "last = make(1)", OF_FUNCTION),
        ("global last", "global lost", OF_FUNCTION),
        ("[Block]", "[Block, use]", {("enters", "held", "Block"), ("runs", "Block"), ("mentions", "Block")}),
    ],
)
def test_an_edit_changes_the_answers_about_what_it_touches(old: str, new: str, changed: set[tuple[str, ...]]) -> None:
    asked = {
        *(("enters", "calls", name) for name in ("scaled", "forward", "missing")),
        *(("enters", "rebound_elsewhere", name) for name in ("last", "use")),
        *(("enters", "defaults", name) for name in ("Block", "nn")),
        *(("enters", "held", name) for name in ("Block", "nn")),
        *(("enters", "methods", f"Block.{name}") for name in ("forward", "backward")),
        *(("enters", *each) for each in (("members", "Block"), ("attributes", "Block.size"))),
        ("mentions", "Block"),
        *((question, name) for question in ("binds", "runs") for name in ("Block", "nn")),
    }
    assert changed <= asked
    text = BEFORE.replace(old, new)
    assert text != BEFORE
    before, after = (parts_of(Source("a.py", each.encode()), Settings().hints) for each in (BEFORE, text))
    assert {each for each in asked if before.answer(*each) != after.answer(*each)} == changed


def answered(recorder: DependencyRecorder) -> set[Question]:
    found = recorder.dependencies()
    assert found is not None
    told = TOLD.setdefault(found.mark, {})
    told.update((number, question) for number, question, _ in found.new)
    return {told[number] for number in found.asked}


def test_a_cache_hit_adds_its_dependencies() -> None:
    recorder = DependencyRecorder()
    known = recorder.memo()

    def asks(*names: str) -> int:
        for name in names:
            recorder.asked((name,))
        return len(names)

    recorder.begin()
    recorder.asked(("a",))
    assert recorder.kept(known, "b and c", lambda: asks("b", "c")) == 2
    assert answered(recorder) == {("a",), ("b",), ("c",)}
    recorder.begin()
    recorder.asked(("d",))
    assert recorder.kept(known, "b and c", lambda: asks("z")) == 2
    assert answered(recorder) == {("b",), ("c",), ("d",)}
    recorder.begin()
    assert answered(recorder) == set()
    recorder.certain = False
    assert recorder.dependencies() is None


def test_a_failed_query_leaves_its_dependencies() -> None:
    recorder = DependencyRecorder()
    recorder.asked(("a",))

    def fails() -> int:
        recorder.asked(("b",))
        raise RecursionError

    with pytest.raises(RecursionError):
        recorder.followed(fails)
    assert answered(recorder) == {("a",), ("b",)}


def test_results_that_depend_on_a_file_are_dropped_with_it() -> None:
    recorder = DependencyRecorder()
    known = recorder.memo()
    one, other = recorder.reads("one.py"), recorder.reads("other.py")
    recorder.kept(known, "reads one", lambda: one.mentions("x"))
    recorder.kept(known, "reads other", other.whole)
    recorder.kept(known, "uses the first", lambda: recorder.kept(known, "reads one", lambda: None))
    recorder.forget(["one.py"])
    assert set(known) == {"reads other"}
