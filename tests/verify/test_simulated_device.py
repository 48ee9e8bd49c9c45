"""The simulated device: its values, waits, refusals and faces. It changes torch for good, so it runs elsewhere."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CASES = HERE / "simulated_cases"
MODULES = sorted(path.stem for path in CASES.glob("*.py") if path.stem not in ("__init__", "__main__", "harness"))

pytest.importorskip("torch", "2.13", reason="the device is simulated for torch 2.13")
pytest.importorskip("torchmetrics")


def checks() -> list[tuple[str, str]]:
    return [
        (module, statement.name)
        for module in MODULES
        for statement in ast.parse((CASES / f"{module}.py").read_text(encoding="utf-8")).body
        if isinstance(statement, ast.FunctionDef) and statement.name.startswith("check_")
    ]


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> dict[str, dict[str, str]]:
    """What became of the checks of each module that a test is about."""
    here = (each for each in request.session.items if each.path == request.path)
    asked = sorted({each.callspec.params["module"] for each in here})  # type: ignore[attr-defined]
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "simulated_cases", *asked],
        env={**os.environ, "PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith('{"outcomes of ')]
    return {name.removeprefix("outcomes of "): found for line in lines for name, found in line.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("module", "check"), checks())
def test_simulated_device(module: str, check: str, outcomes: dict[str, dict[str, str]]) -> None:
    assert not outcomes[module][check], outcomes[module][check]
