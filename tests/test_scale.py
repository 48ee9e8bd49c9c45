"""The script that measures growth: what its parts hold, what it measures of them, and the slope that it tells."""

from __future__ import annotations

import importlib
import itertools
import sys
from typing import TYPE_CHECKING

import pytest

from linting import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

HELPER = "def read(loss):\n    return loss.item()\n"
TRAINER = """\
import torch
from transformers.helper import read


def train(model, loader, optimizer):
    model.cuda()
    for batch in loader:
        loss = model(batch.cuda(non_blocking=True)).mean()
        loss.backward()
        optimizer.step()
        print(read(loss))
"""


@pytest.fixture(scope="module")
def scale() -> Iterator[ModuleType]:
    """The script, which lies beside the modules that it imports; processes that it starts find it there, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
        yield importlib.import_module("scale")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A small package of the same form."""
    files = {"helper.py": HELPER, "trainer.py": TRAINER, "models/__init__.py": ""}
    files |= {f"models/{name}/{name}.py": "x = 1\n" * 20 for name in ("auto", "bert", "gpt", "vit")}
    for name, text in files.items():
        path = tmp_path / "source" / "transformers" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "source"


def test_parts_hold_each_other_and_the_last_one_is_all(scale: ModuleType, source: Path, tmp_path: Path) -> None:
    held = []
    for share in scale.SHARES:
        folder = tmp_path / "parts" / str(share)
        scale.lay_out(source, share, folder)
        held.append({path.relative_to(folder) for path in folder.rglob("*.py")})
    assert all(smaller <= larger for smaller, larger in itertools.pairwise(held))
    assert len(held[0]) == 4  # with the models that names stand for, which the package cannot do without
    assert len(held[-1]) == 7


def test_a_part_is_measured_in_processes_of_their_own(
    scale: ModuleType, source: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    part = scale.measure(source, 100, None)
    assert (part.files, part.checked) == (7, 1.0)
    for cost in (part.facts, part.alone, part.project, part.shared):
        assert cost.cpu > 0
        assert cost.peak > 1
    assert capfd.readouterr().err == ""


def test_the_shared_files_are_the_same_in_every_part(scale: ModuleType, source: Path, tmp_path: Path) -> None:
    shared = []
    for share in scale.SHARES:
        folder = tmp_path / "parts" / str(share)
        scale.lay_out(source, share, folder)
        files = scale.in_all_parts(source, folder)
        assert all(path.is_file() for path in files)
        shared.append([path.relative_to(folder) for path in files])
    assert len(shared[0]) == 4
    assert all(each == shared[0] for each in shared)


def test_the_exponent_is_that_of_the_growth(scale: ModuleType) -> None:
    cost = scale.Cost(1.0, 1.0)
    parts = [scale.Part(1, size, 1.0, cost, cost, cost, cost) for size in (1.0, 3.0, 10.0)]
    assert scale.exponent(parts, lambda part: 5 * part.megabytes) == pytest.approx(1)
    assert scale.exponent(parts, lambda part: 5 * part.megabytes**2) == pytest.approx(2)
    assert scale.exponent(parts, lambda part: 7.0) == pytest.approx(0)
