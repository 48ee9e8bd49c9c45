"""The action for GitHub workflows: its inputs, its script as it runs, and the example that uses it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from linting import ROOT
from training_loop import LOOP

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]


def test_scripts_get_their_inputs_as_variables() -> None:
    assert ACTION["runs"]["using"] == "composite"
    assert all(step["shell"] == "bash" and "${{" not in step["run"] for step in STEPS)
    used = re.findall(
        r"\$\{\{ inputs\.([\w-]+) \}\}", " ".join(value for step in STEPS for value in step["env"].values())
    )
    assert sorted(used) == sorted(ACTION["inputs"])
    for step in STEPS:
        assert {*re.findall(r"\$(\w{2,})", step["run"])} - {"status"} == {*step["env"]}


def test_the_example_gives_inputs_that_there_are() -> None:
    example = yaml.safe_load((ROOT / "docs" / "github-workflow.yml").read_text(encoding="utf-8"))
    steps = example["jobs"]["lint"]["steps"]
    (ours,) = (step for step in steps if "/torchperf-lint@" in step["uses"])
    assert {*ours["with"]} <= {*ACTION["inputs"]}
    assert steps[-1]["with"]["sarif_file"] == ours["with"]["sarif-file"]


@pytest.mark.skipif(os.name == "nt", reason="the script is one of bash")
@pytest.mark.parametrize(("code", "status"), [(LOOP, 1), ("x = 1\n", 0), ("def f(:\n", 2)])
def test_the_script_prints_commands_and_writes_sarif(tmp_path: Path, code: str, status: int) -> None:
    (tmp_path / "train.py").write_text(code, encoding="utf-8")
    linter = tmp_path / "linter"
    linter.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m torchperf_lint "$@"\n', encoding="utf-8")
    linter.chmod(0o755)
    given = {"ARGUMENTS": "train.py --isolated $(touch evil) *", "SARIF_FILE": "a report.sarif", "LINTER": str(linter)}
    script = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", STEPS[1]["run"]]
    unsafe = subprocess.run(script, cwd=tmp_path, env={**os.environ, **given}, capture_output=True, check=False)
    assert unsafe.returncode == 2  # these are paths that are not there
    assert not (tmp_path / "evil").exists()
    given["ARGUMENTS"] = "train.py --isolated"
    done = subprocess.run(
        script, cwd=tmp_path, env={**os.environ, **given}, capture_output=True, text=True, check=False
    )
    assert done.returncode == status
    assert done.stdout.count("::error title=torchperf-lint") == (status > 0)
    (run,) = json.loads((tmp_path / "a report.sarif").read_text(encoding="utf-8"))["runs"]
    assert len(run["results"]) == (status == 1)
