"""`torchperf-lint profile` on a trace of a real GPU, an H200 with torch 2.11, beside the program that it shows."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from linting import ROOT
from torchperf_lint.cli import main

if TYPE_CHECKING:
    from pathlib import Path

TRACE = ROOT / "tests" / "data" / "h200" / "trace.json.gz"
PROGRAM = """\
import torch
from torch import nn
from torch.profiler import profile, schedule
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda")


class Meter:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value, n):
        self.total += value.item() * n
        self.count += n


def accuracy(logits, target):
    return (logits.argmax(1) == target).float().mean()


def step(model, images, target, optimizer, scaler, meter):
    images, target = images.to(device), target.to(device, non_blocking=True)
    with torch.autocast("cuda", dtype=torch.float16):
        logits = model(images)
        loss = nn.functional.cross_entropy(logits, target)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if norm > 100:
        print("large")
    scaler.step(optimizer)
    scaler.update()
    meter.update(loss.detach(), len(images))
    return accuracy(logits, target).cpu().numpy()


def train(profiler):
    model = nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(8), nn.Flatten(), nn.Linear(128 * 64, 1000)
    ).to(device)
    data = TensorDataset(torch.randn(512, 3, 64, 64), torch.randint(0, 1000, (512,)))
    loader = DataLoader(data, batch_size=64, num_workers=2)
    optimizer, scaler, meter = torch.optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler("cuda"), Meter()
    weights = []
    for images, target in loader:
        weights.append(step(model, images, target, optimizer, scaler, meter))
        scale = torch.tensor(0.5, device=device)
        kept = images[images > scale.cpu()]
        torch.cuda.synchronize()
        profiler.step()
    return weights


with profile(with_stack=True, schedule=schedule(wait=1, warmup=1, active=4, repeat=1)) as profiler:
    train(profiler)
profiler.export_chrome_trace("trace.json.gz")
"""


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    """What the command says of the trace, beside the program."""
    (tmp_path / "train.py").write_text(PROGRAM)
    shutil.copy(TRACE, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["profile", "--output-format", "json", "trace.json.gz"]) == 1
    read: dict[str, object] = json.loads(capsys.readouterr().out)
    return read


def test_every_wait_has_its_row(report):
    assert (report["steps"], report["has_stacks"]) == (4, True)
    assert {(line["row"], line["operator"], line["waits"], line["certain"]) for line in report["lines"]} == {
        (14, "aten::item", 1.0, True),
        (23, "aten::to", 1.0, True),
        (23, "aten::to", 1.0, False),
        (31, "aten::is_nonzero", 1.0, True),
        (33, "aten::item", 1.0, True),
        (36, "aten::to", 1.0, True),
        (50, "aten::to", 1.0, True),
        (51, "aten::to", 1.0, True),
        (52, "cudaDeviceSynchronize", 1.0, True),
    }


def test_the_copy_of_the_images_costs_most(report):
    first, *others = report["lines"]
    assert first["row"] == 23
    assert first["wait_ms"] > 10 * others[0]["wait_ms"]


def test_what_waits_is_what_the_linter_finds(report):
    found = {line["row"]: {each["code"] for each in line["findings"]} for line in report["lines"]}
    assert found == {
        14: {"TPL102"},
        23: {"TPL203", "TPL402"},
        31: {"TPL106"},
        33: {"TPL606"},
        36: {"TPL107"},
        50: {"TPL202"},
        51: set(),  # the host waits for a number that it has just sent
        52: set(),  # the program asks for it by name
    }
