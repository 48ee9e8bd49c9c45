"""Entry points by name: hot code is never excluded, and loops over epochs are not loops over steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from linting import PROJECTS, ROOT, few, label, laid_out
from torchperf_lint.knowledge.hints import Hints
from torchperf_lint.model.analyzed_file import AnalyzedFile
from torchperf_lint.model.syntax.indexing import index_of
from torchperf_lint.syntax.source import Source

PROGRAMS = sorted([*(ROOT / "fixtures").glob("model/*.py"), *(ROOT / "fixtures").glob("rules/*/*/*.py")])
TRAINING = """\
import torch
from torch.utils.data import DataLoader

def train(network, optimizers, data, epochs, steps):
    loader = DataLoader(data)
    for epoch in range(epochs):
        epoch_only(epoch)
        for x in loader:
            each_step(x)
            loss = network(x)
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
                each_step(optimizer)
        else:
            epoch_only(epoch)
        for number in range(len(loader)):
            each_step(number)
        for number in range(steps):
            epoch_only(number)
        while epochs:
            epoch_only(number)
    while steps:
        each_step(steps)
        network(steps).backward()
"""


def file_of(source: Source) -> AnalyzedFile:
    return AnalyzedFile(source, index_of(source.parse(), source.path), Hints())


@pytest.mark.parametrize("path", few(PROGRAMS), ids=label)
def test_hot_code_may_be_hot(path: Path) -> None:
    assert_hot_code_may_be_hot(file_of(Source(path.name, path.read_bytes())))


@pytest.mark.parametrize("name", PROJECTS)
def test_code_that_other_files_make_hot_may_be_hot(name: str, tmp_path: Path) -> None:
    snapshot = laid_out(tmp_path, name)
    program = snapshot.program()
    analyzed_files = [analyzed for analyzed in map(program.analyzed, snapshot.layout.shown) if analyzed is not None]
    assert analyzed_files
    for analyzed in analyzed_files:
        assert_hot_code_may_be_hot(analyzed)


def assert_hot_code_may_be_hot(analyzed: AnalyzedFile) -> None:
    for statement in analyzed.index.places:
        if analyzed.frequency.of(statement) is not None:
            assert analyzed.frequency.may_be_hot(statement), f"{analyzed.index.path}:{statement.lineno}"


def test_loops_of_steps_are_told_from_loops_of_epochs() -> None:
    analyzed = file_of(Source("train.py", TRAINING.encode()))
    asked = {name: analyzed.index.calls[name] for name in ("each_step", "epoch_only")}
    may_be_hot = {
        name: [analyzed.entry_points.in_loop(record.statement) for record in records] for name, records in asked.items()
    }
    assert may_be_hot == {"each_step": [True] * 4, "epoch_only": [False] * 4}
