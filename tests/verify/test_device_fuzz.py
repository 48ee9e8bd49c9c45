"""Random programs come to the same end on the simulated device as on the host, or are refused as CUDA refuses them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch

from linting import ROOT

pytestmark = pytest.mark.skipif(
    not torch.__version__.startswith("2.13."), reason="the device is simulated for torch 2.13"
)

PROGRAMS = 600


@pytest.mark.slow
def test_random_programs(capsys):
    folders = (ROOT, ROOT / "tests" / "verify")
    run = subprocess.run(
        [sys.executable, "-m", "device_fuzz", "0", str(PROGRAMS)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    assert report["parted"] == {}
    counts = report["counts"]
    with capsys.disabled():
        print(f"\nrandom programs: {counts}")
    assert counts["ran to the end"] > PROGRAMS / 3
    assert counts["refused"] > PROGRAMS / 10
