"""TPL501's rewritten script really runs as two processes, and follows the single process on the same batches."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPTS = Path(__file__).resolve().parents[2] / "fixtures" / "rules" / "distributed" / "data_parallel"
TOLERANCE = 1e-5
"""Relative; the page of the rule names it."""
EVERYTHING = ["--batch-size", "256"]
"""One batch per epoch that holds every sample: no order can tell the single process from the two."""

ABORTED = "terminate called without an active exception"
"""What gloo's threads say when they abort a process that ends, once in many runs on a busy machine."""


def trained(folder: Path, processes: int | None, *options: str) -> tuple[str, dict[str, torch.Tensor]]:
    """What the script prints, and its parameters: as it stands, or rewritten and started as so many processes."""
    saved = folder / f"{processes}.pt"
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    script = [str(SCRIPTS / "script.py")] if processes is None else [*torchrun, str(SCRIPTS / "script.unsafe.py")]
    command = [sys.executable, *script, *options, "--save", str(saved)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode and ABORTED in done.stderr:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    parameters = torch.load(saved)
    return done.stdout, {name.removeprefix("module."): parameter for name, parameter in parameters.items()}


@pytest.mark.parametrize(
    ("alone", "options"),
    [pytest.param(None, EVERYTHING, id="whole set"), pytest.param(1, [], id="batches", marks=pytest.mark.slow)],
)
def test_two_processes_follow_the_single_one(tmp_path, alone, options):
    said, parameters = trained(tmp_path, alone, *options)
    said_by_two, parameters_of_two = trained(tmp_path, 2, *options)
    assert parameters.keys() == parameters_of_two.keys()
    for name, parameter in parameters.items():
        torch.testing.assert_close(parameters_of_two[name], parameter, rtol=TOLERANCE, atol=TOLERANCE)
    losses, losses_of_two = (
        [float(loss) for loss in re.findall("test loss ([0-9.]+)", s)] for s in (said, said_by_two)
    )
    assert len(losses) == 3
    assert losses_of_two == pytest.approx(losses, rel=TOLERANCE)
    assert losses[0] > losses[-1]
    # The first process alone speaks, once, and of as many steps.
    steps = re.compile(r"\d+ steps per epoch")
    assert steps.findall(said) == steps.findall(said_by_two) == [f"{1 if options else 4} steps per epoch"]
