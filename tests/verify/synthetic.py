"""Runs that no process made: reports as the child writes them, with just the facts that a test is about."""

from __future__ import annotations

from torchperf_lint.verify.events import Event, Kind, Place
from torchperf_lint.verify.results import encode
from torchperf_lint.verify.runs import Run


def event(kind=Kind.READ, *, step=0, row=1, file="/program.py", operator="item", waits=True, via=None, **more):
    return Event(kind, operator, step, Place(file, row), via, waits, **more)


def run(events=(), *, results=1, status="ok", error="", steady=range(4), stdout="", stderr="", random=0, **more):
    report = {
        "status": status,
        "error": error,
        "device": {"kind": "sim", "name": "simulated", "torch": "2.13.0", "python": "3.11.0"},
        "steps": 7,
        "loops": [7],
        "memory": [0] * 7,
        "nodes": [[2, 5], [4, 5]],
        "processes": 0,
        "worker_threads": 0,
        "host_bytes": 0,
        "settings": {"the default dtype": "torch.float32"},
        "steady": [[step, "/program.py", 1] for step in steady],
        "events": [each.as_json() for each in events],
        "operators": [],
        "operators_in": [],
        "counters": {},
        "handed": {},
        "overwritten": [],
        "files": [],
        "modules": {},
        "rows": {},
        "included": {},
        "stopped": False,
        "random_state": {"torch": encode(random)},
        **more,
    }
    if results is not None:
        report["results"] = encode(results)
    return Run(report, stdout, stderr)


EVALUATION = """\
import torch
from torch.utils.data import DataLoader

device = torch.device("cuda")
model = torch.nn.Linear(4, 1).to(device)


def evaluate(loader):
    total = 0.0
    for x in loader:
        x = x.to(device, non_blocking=True)
        loss = torch.nn.functional.mse_loss(model(x), x[:, :1])
        total += loss.item()
    return total


results = float(evaluate(DataLoader(torch.ones(8, 4))))
"""
"""A program with one read per step, which TPL102 moves behind the loop."""
