"""No operator reads a scalar inside its kernel without someone having said whether it waits on CUDA."""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys

import pytest
import torch
from scalar_audit_verdicts import JUDGEMENTS, Verdict

from linting import ROOT
from torchperf_lint.verify.simulated.waits import waits_of

pytestmark = pytest.mark.skipif(
    not torch.__version__.startswith("2.13."), reason="the device is simulated for torch 2.13"
)

VERDICTS = {name: each.verdict for each in JUDGEMENTS for name in each.operators.split()}


@pytest.fixture(scope="module")
def candidates() -> dict[str, list[str]]:
    """The operators that were seen reading a scalar, each with the entries of torch's database that showed it."""
    folders = (ROOT, ROOT / "tests" / "verify")
    run = subprocess.run(
        [sys.executable, "-m", "scalar_audit"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.slow
def test_every_candidate_is_judged(candidates):
    assert {name: programs for name, programs in candidates.items() if name not in VERDICTS} == {}


@pytest.mark.slow
@pytest.mark.parametrize("operator", VERDICTS)
def test_every_judged_operator_is_still_a_candidate(operator, candidates):
    assert operator in candidates


@pytest.mark.parametrize("operator", [name for name, verdict in VERDICTS.items() if verdict is Verdict.WAITS])
def test_an_operator_that_waits_has_a_rule(operator):
    assert waits_of(operator)


@pytest.mark.parametrize("operator", [name for name, verdict in VERDICTS.items() if verdict is Verdict.HOST_ONLY])
def test_an_operator_that_does_not_wait_has_no_rule(operator):
    assert not waits_of(operator)


def test_an_operator_is_judged_once():
    names = collections.Counter(name for each in JUDGEMENTS for name in each.operators.split())
    assert [name for name, times in names.items() if times > 1] == []
