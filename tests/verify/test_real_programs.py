"""The benchmark of real programs with the Python at hand: as `make gpu` runs it, and what a GPU's counts come to."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

import pytest

from linting import ROOT

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

PACKAGE = """\
class Trainer:
    def __init__(self, model, optimizer):
        self.model = model
        self.optimizer = optimizer

    def fit(self, loader, device):
        total = 0.0
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            loss = (self.model(x) - y).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        return total
"""
SCRIPT = """\
import torch
from torch.utils.data import DataLoader, TensorDataset
from tiny_trainer import Trainer

torch.manual_seed(0)
model = torch.nn.Linear(4, 1).cuda()
loader = DataLoader(TensorDataset(torch.randn(40, 4), torch.randn(40, 1)), batch_size=4)
total = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1)).fit(loader, torch.device("cuda"))
results = {"total": total, "model": model.state_dict()}
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark with tables of its own, a program whose package this Python has, and one whose package it lacks."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks" / "programs"), *sys.path])
    run, catalogue = importlib.import_module("run"), importlib.import_module("catalogue")
    for folder in ("packages", "scripts"):
        (tmp_path / folder).mkdir()
    (tmp_path / "packages" / "tiny_trainer.py").write_text(PACKAGE)
    (tmp_path / "scripts" / "tiny.py").write_text(SCRIPT)
    monkeypatch.setattr(catalogue, "FOLDER", tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    nowhere = catalogue.Environment("none", (), known=False)
    tiny = catalogue.Program("tiny", nowhere, ("tiny_trainer",), "tests")
    absent = catalogue.Program("absent", nowhere, ("no_such_package",), "tests")
    monkeypatch.setattr(run, "programs", lambda names: [absent, tiny])
    for table in ("FIGURES", "LINES", "FIRST_RUNS", "INHERENT", "SECONDS", "GPU"):
        monkeypatch.setattr(run.figures, table, tmp_path / f"{table.lower()}.tsv")
    return run


def called(run: ModuleType, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit status of the command, for the programs whose packages are here."""
    monkeypatch.setattr(sys, "argv", ["run.py", "--here", "--jobs", "1", *arguments])
    return int(run.main())


@pytest.mark.slow
def test_the_programs_run_whose_packages_are_here(
    run: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(run, monkeypatch, "--update") == 0
    (tiny,) = run.figures.read_figures().values()
    assert (tiny.program, tiny.steps, tiny.lines, tiny.found_lines, tiny.confirmed, tiny.refuted) == (
        ("tiny", 10, 2, 2, 3, 0)
    )
    assert (tiny.waits, tiny.safe, tiny.unsafe) == (3.0, 0.0, 0.0)
    assert (tiny.safe_results, tiny.unsafe_results) == ("equal", "equal")
    assert 0 < run.figures.read_seconds()["tiny"].seconds < 60
    out, err = capsys.readouterr()
    assert err == ""
    assert "1 programs, 1 of them wait in packages' lines" in out


@pytest.mark.slow
def test_a_gpu_is_held_against_the_simulated_device(
    run: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the device is another one: the programs run in processes of their own, and what is kept is read again."""
    measure = run.measure

    def simulated(program: Any, python: Path, device: str, *, fresh: bool) -> Any:
        assert device == "cuda"
        measured = measure(program, python, "sim", fresh=True)
        return measured._replace(device={"name": "a GPU", "torch": "2.13.0"})

    monkeypatch.setattr(run, "measure", simulated)
    assert called(run, monkeypatch, "--device", "cuda") == 0
    (counted,) = run.figures.read_gpu().values()
    assert counted == run.figures.OnGpu("tiny", "a GPU", "2.13.0", 3.0, 0.0, 0.0, "equal", "equal")
    capsys.readouterr()
    lower = run.figures.Figures("tiny", 10, 2.0, 0.0, 0.0, 2, 2, 2.0, 3, 0, "equal", "equal")
    run.figures.write(run.figures.FIGURES, [lower])
    assert called(run, monkeypatch, "--device", "cuda") == 1
    assert capsys.readouterr().err == "not the same: tiny: waits 2 on the simulated device, 3 on the GPU\n"


@pytest.mark.slow
def test_a_program_that_fails_is_named(
    run: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "scripts" / "tiny.py").write_text("import tiny_trainer\ntiny_trainer.absent\n")
    assert called(run, monkeypatch) == 1
    assert capsys.readouterr().err.startswith("tiny: error: failed: AttributeError: module 'tiny_trainer' has no ")
