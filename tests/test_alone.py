"""What a file has alone it has in its project, unless that refutes it: classes that predict, and who calls them.

Each project is made of classes that predict and of a caller that gives them something: arrays, tensors, lists, loaders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from torchperf_lint.engine import project_snapshot, registry
from torchperf_lint.engine.runner import check_source
from torchperf_lint.knowledge.hints import Hints
from torchperf_lint.knowledge.versions import Target

if TYPE_CHECKING:
    from pathlib import Path

NET = """\
from torch import nn


class Net(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.layer = nn.Linear(width, 2)

    def forward(self, x):
        return self.layer(x)
"""
BASE = """\
import torch
from torch.utils.data import DataLoader


class Estimator:
    def __init__(self, device={default}):
        self.device = device or torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def fit(self, X):
        self.net_ = self.build(X.shape[1]).to(self.device)
        optimizer = torch.optim.SGD(self.net_.parameters(), lr=0.1)
        for x in DataLoader(X, batch_size=32):
            optimizer.zero_grad()
            self.net_(x.to(self.device)).sum().backward()
            optimizer.step()
        return self
"""
ESTIMATOR = """\
import torch
from torch.utils.data import DataLoader
from {package}base import Estimator
from {package}net import Net


class Classifier(Estimator):
    def build(self, width):
        return Net(width)

    @torch.no_grad()
    def predict_proba(self, X):
        rows = []
        for x in DataLoader(X, batch_size=64):
            rows.append(self.net_(x.to(self.device)).cpu())
        return torch.cat(rows).numpy()

    @torch.no_grad()
    def predict(self, X):
        labels = []
        for x in DataLoader(X, batch_size=64):
            labels.append(self._predict_batch(x).argmax(-1).cpu().numpy())
        return labels

    def _predict_batch(self, x):
        return self.net_(x.to(self.device))

    def inference(self, loader):
        return [row for batch in loader for row in self.predict_step(batch)]

    def predict_step(self, batch):
        return self.net_(batch["x"].to(self.device)).cpu().tolist()

    @torch.no_grad()
    def decision_function(self, X):
        scores = []
        for x in DataLoader(X, batch_size=64):
            score = self.net_(x.cuda())
            scores.append(score.cpu().numpy())
        return scores
"""
PREDICTOR = """\
import torch


class Predictor:
    def __init__(self, model, device={default}):
        self.model = model
        self.device = device

    @torch.no_grad()
    def predict(self, loader):
        preds = []
        for x in loader:
            pred = self.model(x.to(self.device))
            preds.append(pred.cpu())
        return torch.cat(preds)

    @torch.no_grad()
    def embed(self, loader):
        rows = []
        for batch in loader:
            out = self._forward(batch)
            rows.append(out.cpu())
        return rows

    def _forward(self, batch):
        return self.model(batch.to(self.device))

    def predict_one(self, x):
        return self._forward(x).cpu()


@torch.no_grad()
def predict(model, loader, keep):
    model.cuda()
    for x in loader:
        out = model(x.cuda())
        keep(out.cpu())
"""
DATA = {
    "array": "np.zeros((10, 3))",
    "tensor": "torch.zeros(10, 3)",
    "list": "[torch.zeros(3), torch.ones(3)]",
    "dicts": '[{"x": torch.zeros(3)}]',
    "loader": "DataLoader(rows)",
    "unknown": "rows",
}
CALLER = """\
import numpy as np
import torch
from torch.utils.data import DataLoader
from {module} import *


def main(rows):
    data = {data}
    model = Net()
    {calls}
"""
OF_ESTIMATOR = "; ".join(
    [
        "found = Classifier({device}).fit(data)",
        "found.predict(data)",
        "found.predict_proba(data)",
        "found.decision_function(data)",
        "found.inference(data)",
        'found.predict_step({{"x": torch.zeros(3)}})',
    ]
)
OF_PREDICTOR = "; ".join(
    [
        "found = Predictor(model, {device})",
        "found.predict(data)",
        "found.embed(data)",
        "found.predict_one(torch.zeros(3))",
        "predict(model, data, print)",
    ]
)
SUBCLASS = """\
import torch
from .classifier import Classifier


class Other(Classifier):
    def _predict_batch(self, x):
        {body}
"""
SUBCLASSES = {
    "of the device": "return self.net_(x.to(self.device)).softmax(-1)",
    "of the host": "return torch.zeros(3)",
}


def lost(here: Path, files: dict[str, str]) -> tuple[set[tuple[str, str]], int]:
    """The findings, by code and row's text, that files have alone only, and how many they have alone."""
    rules, hints, target = registry.all_rules(), Hints(), Target()
    for path, text in files.items():
        (here / path).parent.mkdir(exist_ok=True)
        (here / path).write_text(text, encoding="utf-8")
    program = project_snapshot.gather(sorted(files), hints).program()
    gone, all_alone = set(), 0
    for path, text in files.items():
        alone = check_source(path, text.encode(), rules, target, hints).diagnostics
        known = check_source(path, text.encode(), rules, target, hints, program=lambda: program).diagnostics
        kept = {(each.code, each.row) for each in known}
        rows = text.splitlines()
        gone |= {(each.code, rows[each.row - 1].strip()) for each in alone if (each.code, each.row) not in kept}
        all_alone += len(alone)
    return gone, all_alone


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("given", DATA)
@pytest.mark.parametrize("device", ["", 'device="cuda"'])
def test_an_estimator_that_picks_its_device_loses_nothing_by_its_callers(here: Path, given: str, device: str) -> None:
    files = {
        "net.py": NET,
        "base.py": BASE.format(default="None"),
        "classifier.py": ESTIMATOR.format(package=""),
        "example.py": CALLER.format(module="classifier", data=DATA[given], calls=OF_ESTIMATOR.format(device=device)),
    }
    gone, all_alone = lost(here, files)
    assert gone == set()
    assert all_alone >= 6


@pytest.mark.slow
@pytest.mark.parametrize("given", DATA)
@pytest.mark.parametrize("default", ["None", '"cpu"', '"cuda"'])
def test_a_predictor_that_is_given_the_accelerator_loses_nothing(here: Path, given: str, default: str) -> None:
    calls = OF_PREDICTOR.format(device='"cuda"')
    files = {
        "net.py": NET,
        "predictor.py": f"from net import Net\n{PREDICTOR.format(default=default)}",
        "example.py": CALLER.format(module="predictor", data=DATA[given], calls=calls),
    }
    gone, all_alone = lost(here, files)
    assert gone == set()
    assert all_alone >= 5


@pytest.mark.parametrize("device", ['"cpu"', 'torch.device("cpu")', "None", "**{}", "**vars(data)"])
def test_a_predictor_that_all_leave_on_the_host_is_refuted(here: Path, device: str) -> None:
    """The look-alike: what does not rest on the device that is handed over stays."""
    files = {
        "net.py": NET,
        "predictor.py": f"from net import Net\n{PREDICTOR.format(default='None')}",
        "example.py": CALLER.format(module="predictor", data=DATA["loader"], calls=OF_PREDICTOR.format(device=device)),
    }
    gone, all_alone = lost(here, files)
    assert {text for _, text in gone} == (
        set()
        if device == "**vars(data)"
        else {
            "pred = self.model(x.to(self.device))",
            "preds.append(pred.cpu())",
            "rows.append(out.cpu())",
            "return self.model(batch.to(self.device))",
        }
    )
    assert all_alone > len(gone)


def test_batches_that_a_list_has_on_the_device_are_not_moved_there(here: Path) -> None:
    calls = OF_PREDICTOR.format(device='"cuda"')
    files = {
        "net.py": NET,
        "predictor.py": f"from net import Net\n{PREDICTOR.format(default='None')}",
        "example.py": CALLER.format(module="predictor", data="[torch.zeros(3).cuda()]", calls=calls),
    }
    gone, _ = lost(here, files)
    assert {code for code, _ in gone} == {"TPL203"}
    assert ("TPL203", "out = model(x.cuda())") in gone


@pytest.mark.parametrize("body", SUBCLASSES.values(), ids=SUBCLASSES)
def test_a_package_loses_nothing_by_a_subclass_and_an_example_on_the_host(here: Path, body: str) -> None:
    (here / "package").mkdir()
    subclass = SUBCLASS.format(body=body)
    files = {
        "package/__init__.py": "from .classifier import Classifier, Net\nfrom .other import Other\n",
        "package/net.py": NET,
        "package/base.py": BASE.format(default="None"),
        "package/classifier.py": ESTIMATOR.format(package="."),
        "package/other.py": subclass,
        "examples/run.py": CALLER.format(
            module="package", data=DATA["tensor"], calls=OF_ESTIMATOR.format(device='"cpu"')
        ),
    }
    gone, all_alone = lost(here, files)
    assert gone == set()
    assert all_alone >= 6
