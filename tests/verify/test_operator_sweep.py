"""Every operator of torch's own database gives on the simulated device what it gives on the host, bit for bit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import torch
from operator_sweep.comparing import Difference
from operator_sweep.exceptions import EXEMPTIONS
from operator_sweep.sweep import PROCESSES, Outcome, Part

from linting import ROOT, few

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.skipif(
    not torch.__version__.startswith("2.13."), reason="the device is simulated for torch 2.13"
)

PARTS = [part for parts in PROCESSES.values() for part in parts]
EXPECTED = [
    pytest.param(name, part, exemption, id=f"{name}, {part}")
    for exemption in EXEMPTIONS
    if exemption.everywhere
    for name in exemption.operators.split()
    for part in exemption.parts
]

# Fewer would mean that the database is not read, or that its operators are not run: 2.13 has this many at least.
AT_LEAST = {"forward": 660, "in place": 150, "out=": 330, "backward": 530}


FEW = "add cat index_put linalg.inv matmul nn.functional.conv2d nn.functional.dropout sort sum where".split()
"""Operators that are quick to run, and of all kinds."""


@pytest.fixture(scope="module")
def outcomes() -> dict[str, list[Outcome]]:
    """Of each part the outcomes of all operators."""
    return run_parts(*PROCESSES)


def run_parts(*processes: str, operators: Sequence[str] = ()) -> dict[str, list[Outcome]]:
    """Of each part the outcomes, of all operators or these; the processes run at the same time."""
    folders = (ROOT, ROOT / "tests" / "verify")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), "OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "operator_sweep.sweep", process, *operators],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for process in processes
    ]
    found: dict[str, list[Outcome]] = {part.name: [] for part in PARTS}
    for process in running:
        printed, complaints = process.communicate(timeout=900)
        lines = [json.loads(line) for line in printed.splitlines()]
        assert process.returncode == 0, f"crashed at {lines[-1:]}: {complaints}"
        for part, operator, ran, differences in lines[1::2]:
            found[part].append(Outcome(part, operator, ran, [Difference(*each) for each in differences]))
    return found


def _is_exempt(part: str, operator: str, difference: Difference) -> bool:
    return any(
        operator in each.operators.split() and part in each.parts and _is_described(difference, each)
        for each in EXEMPTIONS
    )


def _is_described(difference: Difference, exemption) -> bool:
    return (
        difference.kind == exemption.kind and exemption.text in difference.text and difference.size <= exemption.within
    )


def _unexpected(part: str, outcomes: dict[str, list[Outcome]]) -> dict[str, list[Difference]]:
    return {
        outcome.operator: differences
        for outcome in outcomes[part]
        if (differences := [each for each in outcome.differences if not _is_exempt(part, outcome.operator, each)])
    }


@pytest.mark.parametrize("process", few(PROCESSES, 24))
def test_the_device_agrees_with_the_host_on_some_operators(process: str):
    found = run_parts(process, operators=FEW)
    for part in PROCESSES[process]:
        assert _unexpected(part.name, found) == {}
        assert any(outcome.ran for outcome in found[part.name])
    first = found[PROCESSES[process][0].name]
    assert {outcome.operator for outcome in first} == set(FEW)


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_the_device_agrees_with_the_host(part: Part, outcomes):
    assert _unexpected(part.name, outcomes) == {}


@pytest.mark.slow
@pytest.mark.parametrize(("operator", "part", "exemption"), EXPECTED)
def test_an_exception_is_still_needed(operator, part, exemption, outcomes):
    outcome = next(each for each in outcomes[part] if each.operator == operator)
    assert any(_is_described(each, exemption) for each in outcome.differences), outcome.differences


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_operators_are_run(part, outcomes, capsys):
    ran = sum(outcome.ran > 0 for outcome in outcomes[part.name])
    differing = sum(bool(outcome.differences) for outcome in outcomes[part.name])
    with capsys.disabled():
        print(f"\n{part.name}: {ran} operators, {differing} of them exceptions")
    assert ran >= AT_LEAST.get(part.name, 300)
