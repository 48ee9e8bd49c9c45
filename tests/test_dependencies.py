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
from torchperf_lint.model.project.dependencies import DependencyRecorder
from torchperf_lint.model.project.file_symbols import symbols_of
from torchperf_lint.model.project.symbol_index import QUESTIONS, SymbolIndex

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from torchperf_lint.engine.findings import FileReport
    from torchperf_lint.engine.project_snapshot import Snapshot
    from torchperf_lint.model.program import Program
    from torchperf_lint.model.project.dependencies import Dependencies, Question


def judge(path: str, project: Program) -> tuple[Dependencies | None, FileReport]:
    """The dependencies of a report, None if it does not query the project, and the report."""
    asked = []

    def noted() -> Program:
        asked.append(project)
        project.recorder.begin()
        return project

    with open(path, "rb") as file:
        report = check_source(path, file.read(), Settings().rules, Target(), Settings().hints, program=noted)
    if not asked:
        return None, report
    dependencies = project.recorder.dependencies()
    assert dependencies is not None
    return dependencies, report


@pytest.mark.parametrize("share", few([0.5, 0, 1], 2))
@pytest.mark.parametrize("seed", few(range(3)))
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
    told: set[tuple[str, Question]] = set()
    for path in order:
        (alone, by_itself), (after_others, report) = judge(path, snapshot.program()), judge(path, shared)
        assert by_itself == report, path
        assert (alone is None) == (after_others is None)
        if alone is None or after_others is None:
            continue
        told.update(after_others.questions)
        assert {*alone.opened} <= {*after_others.opened}, path
        named = {*after_others.opened, *after_others.asked}
        assert {*alone.asked} <= named, path
        assert {*alone.questions} <= {each for each in told if each[0] in named}, path


def test_all_queries_are_known_and_can_be_repeated(tmp_path: Path) -> None:
    asked: set[Question] = set()
    for name in PROJECTS:
        snapshot = laid_out(tmp_path / name, name)
        program = snapshot.program()
        bases = [judge(path, program) for path in snapshot.layout.shown.values()]
        questions = {
            question for dependencies, _ in bases if dependencies is not None for _, question in dependencies.questions
        }
        links = SymbolIndex(snapshot.facts, snapshot.layout.root)
        for kind, *texts in questions:
            assert QUESTIONS[kind] == len(texts)
            assert links.answer((kind, *texts)) == getattr(links, kind)(*texts)
        asked |= questions
    assert {question[0] for question in asked} | {"absolute", "importers", "imports"} >= QUESTIONS.keys()


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


def test_a_cache_hit_adds_its_dependencies() -> None:
    recorder = DependencyRecorder()
    known: dict[str, tuple[int, int]] = {}

    def opens(*keys: str) -> int:
        for key in keys:
            recorder.opened(key)
        return len(keys)

    def dependencies() -> tuple[Iterable[str], Iterable[str]]:
        found = recorder.dependencies()
        assert found is not None
        return found.opened, found.asked

    recorder.begin()
    recorder.opened("a")
    assert recorder.kept(known, "b and c", lambda: opens("b", "c")) == 2
    assert dependencies() == (("a", "b", "c"), ())
    recorder.begin()
    recorder.asked("d", ("files_calling", "x"))
    assert recorder.kept(known, "b and c", lambda: opens("z")) == 2
    assert dependencies() == (("b", "c"), ("d",))
    recorder.begin()
    assert dependencies() == ((), ())
    recorder.certain = False
    assert recorder.dependencies() is None


def test_a_failed_query_leaves_its_dependencies() -> None:
    recorder = DependencyRecorder()
    recorder.opened("a")

    def fails() -> int:
        recorder.opened("b")
        raise RecursionError

    with pytest.raises(RecursionError):
        recorder.followed(fails)
    dependencies = recorder.dependencies()
    assert dependencies is not None
    assert dependencies.opened == ("a", "b")
