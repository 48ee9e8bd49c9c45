"""What torch itself exports, with stacks, is told by its rows."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from torchperf_lint.cli import main

PROGRAM = """\
import torch
from torch.profiler import ProfilerActivity, profile, schedule

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def shown(value):
    return value.item()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    @torch.no_grad()
    def check(self, x):
        if x.sum() > 1e9:
            raise ValueError

    def forward(self, x):
        self.check(x)
        return self.layer(x)


def train(profiler, model, optimizer):
    for _ in range(6):
        x = torch.rand(8, 4).to(device)
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        shown(loss)
        positive = x[x > 0.5]
        rows = [part.tolist() for part in positive.nonzero()]
        text = f"{loss:.2f} {len(rows)}"
        profiler.step()


model = Net().to(device)
kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])]
with profile(activities=kinds, with_stack=True, schedule=schedule(wait=1, warmup=1, active=3, repeat=1)) as profiler:
    train(profiler, model, torch.optim.SGD(model.parameters(), lr=0.1))
profiler.export_chrome_trace("trace.json.gz")
"""


@pytest.mark.slow
def test_rows_of_what_torch_exports(tmp_path, monkeypatch, capsys):
    (tmp_path / "train.py").write_text(PROGRAM)
    subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, check=True)
    monkeypatch.chdir(tmp_path)
    assert main(["profile", "trace.json.gz", "--output-format", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["steps"] == 3
    assert report["has_stacks"]
    lines = {(line["row"], line["function"], line["operator"]): line for line in report["lines"]}
    expected = {
        (8, "shown", "aten::item"),
        (18, "check", "aten::is_nonzero"),
        (34, "train", "aten::index"),
        (35, "train", "aten::nonzero"),
        (36, "train", "aten::item"),
    }
    assert expected <= lines.keys(), lines.keys()
    for place in expected:
        assert (lines[place]["waits"], lines[place]["rows"]) == (1.0, [place[0]])
    assert lines[36, "train", "aten::item"]["via"]["filename"].endswith("torch/_tensor.py")
