"""TPL501's rewritten script really runs as two processes, and follows the single process on the same batches."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPTS = Path(__file__).resolve().parents[2] / "fixtures" / "rules" / "distributed" / "data_parallel"
FIXED = SCRIPTS / "script.unsafe.py"
TOLERANCE = 1e-5
"""Relative; the page of the rule names it."""
EVERYTHING = ["--batch-size", "256"]
"""One batch per epoch that holds every sample: no order can tell the single process from the two."""

ABORTED = "terminate called without an active exception"
"""What gloo's threads say when they abort a process that ends, once in many runs on a busy machine."""
TRIES = 6
"""Two are too few: both aborted once in continuous integration."""


def trained(
    folder: Path, processes: int | None, *options: str, fixed: Path = FIXED
) -> tuple[str, dict[str, torch.Tensor]]:
    """What the script prints, and its parameters: as it stands, or rewritten and started as so many processes."""
    saved = folder / f"{processes}.pt"
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    script = [str(SCRIPTS / "script.py")] if processes is None else [*torchrun, str(fixed)]
    command = [sys.executable, *script, *options, "--save", str(saved)]
    for _ in range(TRIES):
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if ABORTED not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    parameters = torch.load(saved)
    return done.stdout, {name.removeprefix("module."): parameter for name, parameter in parameters.items()}


@pytest.mark.parametrize(
    ("alone", "options"),
    [pytest.param(None, EVERYTHING, id="whole set"), pytest.param(1, [], id="batches", marks=pytest.mark.slow)],
)
def test_two_processes_follow_the_single_one(tmp_path, alone, options):
    right = trained(tmp_path, alone, *options)
    assert objections(right, trained(tmp_path, 2, *options)) == []
    said, _ = right
    losses = [float(loss) for loss in LOSSES.findall(said)]
    assert len(losses) == 3
    assert losses[0] > losses[-1]
    assert STEPS.findall(said) == [f"{1 if options else 4} steps per epoch"]


LOSSES, STEPS = re.compile(r"test loss ([0-9.]+)"), re.compile(r"\d+ steps per epoch")


def objections(alone: tuple[str, dict[str, torch.Tensor]], two: tuple[str, dict[str, torch.Tensor]]) -> list[str]:
    """What speaks against two processes, beside the single one: the first alone speaks, once, and of as many steps."""
    (said, parameters), (said_by_two, parameters_of_two) = alone, two
    found = []
    if STEPS.findall(said) != STEPS.findall(said_by_two):
        found.append("steps")
    losses, losses_of_two = ([float(loss) for loss in LOSSES.findall(each)] for each in (said, said_by_two))
    if losses_of_two != pytest.approx(losses, rel=TOLERANCE):
        found.append("losses")
    assert parameters.keys() == parameters_of_two.keys()
    if not all(
        torch.allclose(parameters_of_two[name], each, rtol=TOLERANCE, atol=TOLERANCE)
        for name, each in parameters.items()
    ):
        found.append("parameters")
    return found


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    """What the rewritten script gives as one process, run once for each set of options."""
    given = {}

    def run(options):
        if tuple(options) not in given:
            given[tuple(options)] = trained(tmp_path_factory.mktemp("alone"), 1, *options)
        return given[tuple(options)]

    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong", "options", "said"),
    [
        pytest.param(
            "nn.parallel.DistributedDataParallel(\n            model.to(device), device_ids=device_ids\n        )",
            "model",
            EVERYTHING,
            "parameters",
            id="gradients of each process alone",
        ),
        pytest.param("sampler=sampler", "shuffle=True", EVERYTHING, "steps", id="all samples in each process"),
        pytest.param("// torch.distributed.get_world_size()", "// 1", [], "steps", id="batches twice as large"),
        pytest.param("Sampler(train_set)", "Sampler(train_set, shuffle=False)", [], "parameters", id="no shuffling"),
        pytest.param("        sampler.set_epoch(epoch)\n", "", [], "parameters", id="one order for all epochs"),
        pytest.param(
            'if os.environ["RANK"] == "0":\n        print(\n            "test',
            'if os.environ["RANK"] >= "0":\n        print(\n            "test',
            EVERYTHING,
            "losses",
            id="each process speaks",
        ),
    ],
)
def test_a_broken_rewrite_is_told_apart(tmp_path, one_process, right, wrong, options, said):
    text = FIXED.read_text("utf-8")
    assert text.count(right) == 1
    broken = tmp_path / "broken.py"
    broken.write_text(text.replace(right, wrong), encoding="utf-8")
    assert said in objections(one_process(options), trained(tmp_path, 2, *options, fixed=broken))
