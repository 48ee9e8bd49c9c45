"""The action for GitHub workflows and the job for GitLab: their schemas, their inputs, the script as it runs."""

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


SCRIPTS = [step for step in STEPS if "run" in step]
DOCS = ROOT / "docs"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ("vendor.github-actions", ROOT / "action.yml"),
        ("vendor.github-workflows", DOCS / "github-workflow.yml"),
        ("vendor.gitlab-ci", DOCS / "gitlab-ci.yml"),
    ],
    ids=["action", "workflow", "job"],
)
def test_the_schemas_of_github_and_gitlab_hold(schema: str, path: Path, tmp_path: Path) -> None:
    checked = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema]
    done = subprocess.run([*checked, str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "ok -- validation done\n"), done.stdout + done.stderr
    spoilt = tmp_path / "spoilt.yml"
    spoilt.write_text(re.sub(r"(?m)^( *)(using|runs-on|when):.*$", r"\1\2: 1", path.read_text()), encoding="utf-8")
    assert subprocess.run([*checked, str(spoilt)], capture_output=True, check=False).returncode == 1


def test_scripts_get_their_inputs_as_variables() -> None:
    assert ACTION["runs"]["using"] == "composite"
    assert all(step["shell"] == "bash" and "${{" not in step["run"] for step in SCRIPTS)
    used = re.findall(
        r"\$\{\{ inputs\.([\w-]+)\b.*? \}\}", " ".join(value for step in SCRIPTS for value in step["env"].values())
    )
    assert sorted(used) == sorted(ACTION["inputs"])
    for step in SCRIPTS:
        assert {*re.findall(r"\$([A-Z_]{2,})", step["run"])} - {"GITHUB_OUTPUT"} == {*step["env"]} - {
            "REVIEWDOG_GITHUB_API_TOKEN"
        }


def test_the_report_that_is_uploaded_is_the_one_that_is_written() -> None:
    (upload,) = (step for step in STEPS if "upload-sarif" in step.get("uses", ""))
    assert upload["with"]["sarif_file"] == SCRIPTS[1]["env"]["REPORT"]
    wanted = "inputs.upload-sarif == 'true' && steps.run.outputs.sarif == 'true'"
    assert upload["if"] == f"${{{{ !cancelled() && {wanted} }}}}", "findings fail the step before it"


def test_the_programs_of_the_environment_are_found_on_windows_too() -> None:
    install, run = SCRIPTS[:2]
    folder = "${{ runner.temp }}/torchperf-lint/${{ runner.os == 'Windows' && 'Scripts' || 'bin' }}"
    assert install["env"]["PROGRAMS"] == folder
    assert install["run"].endswith('echo "programs=$PROGRAMS" >> "$GITHUB_OUTPUT"\n')
    assert run["env"]["LINTER"] == f"${{{{ steps.{install['id']}.outputs.programs }}}}/torchperf-lint"


def test_suggestions_are_posted_from_the_report_that_is_written(tmp_path: Path) -> None:
    install, post = STEPS[-2:]
    assert install["uses"] == "reviewdog/action-setup@v1"
    assert post["env"]["SUGGESTED"] == SCRIPTS[1]["env"]["SUGGESTED"]
    assert install["if"] == post["if"]
    assert SCRIPTS[1]["env"]["SUGGEST"] == post["if"].replace("!cancelled() && ", ""), "of a push, no report is written"
    assert post["if"].startswith("${{ !cancelled() && inputs.suggestions == 'true' && "), (
        "findings fail the step before"
    )
    (tmp_path / "a report").write_text("{}", encoding="utf-8")
    (tmp_path / "reviewdog").write_text('#!/bin/sh\necho "$@"; cat\n', encoding="utf-8")
    (tmp_path / "reviewdog").chmod(0o755)
    given = {"SUGGESTED": "a report", "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}

    def posted() -> tuple[str, str]:
        ran = subprocess.run(
            ["bash", "-e", "-c", post["run"]],
            cwd=tmp_path,
            env={**os.environ, **given},
            capture_output=True,
            text=True,
            check=True,
        )
        return ran.stdout, ran.stderr

    assert posted() == ("-f=rdjson -name=torchperf-lint -reporter=github-pr-review\n{}", "")
    (tmp_path / "a report").unlink()
    assert posted() == ("", "")


def test_the_example_gives_inputs_that_there_are() -> None:
    example = yaml.safe_load((DOCS / "github-workflow.yml").read_text(encoding="utf-8"))
    (ours,) = (step for step in example["jobs"]["lint"]["steps"] if "/torchperf-lint@" in step["uses"])
    assert {*ours["with"]} <= {*ACTION["inputs"]}
    assert example["permissions"]["security-events"] == example["permissions"]["pull-requests"] == "write"
    assert ours["with"]["suggestions"] == "true"


def test_the_job_for_gitlab_hands_over_what_it_writes() -> None:
    job = yaml.safe_load((DOCS / "gitlab-ci.yml").read_text(encoding="utf-8"))["torchperf-lint"]
    report = job["artifacts"]["reports"]["codequality"]
    assert f"--output-format gitlab --output-file {report} " in job["script"][1]
    assert job["artifacts"]["when"] == "always"


GIVEN = {"ANNOTATIONS": "true", "FAIL": "true", "SARIF_FILE": "a report.sarif", "UPLOAD": "false", "REPORT": "up"}
GIVEN |= {"SUGGEST": "false", "SUGGESTED": "a report.rdjson", "TOLD": "told", "GITHUB_OUTPUT": "outputs"}


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="the script is one of bash")
@pytest.mark.parametrize(("code", "status"), [(LOOP, 1), ("x = 1\n", 0), ("def f(:\n", 2)])
def test_the_script_prints_commands_and_writes_sarif(tmp_path: Path, code: str, status: int) -> None:
    (tmp_path / "train.py").write_text(code, encoding="utf-8")
    linter = tmp_path / "linter"
    linter.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m torchperf_lint "$@"\n', encoding="utf-8")
    linter.chmod(0o755)
    given = {**GIVEN, "ARGUMENTS": "train.py --isolated $(touch evil) *", "LINTER": str(linter)}
    script = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", SCRIPTS[1]["run"]]
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


@pytest.mark.skipif(os.name == "nt", reason="the script is one of bash")
@pytest.mark.parametrize(
    "mistake", ["--no-such-option", "--select=TPL999", "--baseline=absent.json", "--changed-since=absent", "absent.py"]
)
def test_the_script_tells_a_mistake_once(tmp_path: Path, mistake: str) -> None:
    linter = tmp_path / "linter"
    linter.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m torchperf_lint "$@"\n', encoding="utf-8")
    linter.chmod(0o755)
    given = {**GIVEN, "LINTER": str(linter), "ARGUMENTS": f"empty {mistake}", "SUGGEST": "true", "UPLOAD": "true"}
    given["SARIF_FILE"] = "reports/a report.sarif"
    (tmp_path / "empty").mkdir()
    for older in ("up", "a report.rdjson"):
        (tmp_path / older).write_text("of a step before", encoding="utf-8")
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", SCRIPTS[1]["run"]],
        cwd=tmp_path,
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        check=False,
    )
    begins = mistake == "absent.py"
    told = [line for line in done.stdout.splitlines() if not line.startswith("::error")]
    assert (done.returncode, told, len(done.stderr.splitlines())) == (2, [], 1)
    assert (tmp_path / "reports" / "a report.sarif").exists() is begins
    assert (tmp_path / "up").exists() is (tmp_path / "a report.rdjson").exists() is begins
    assert (tmp_path / "outputs").exists() is begins


@pytest.mark.skipif(os.name == "nt", reason="the script is one of bash")
@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        ("--isolated --output-file mine.txt --output-format json train.py", 1, ""),
        ("--version", 2, "torchperf-lint: error: no sarif report was written\n"),
    ],
)
def test_no_option_of_the_caller_makes_a_job_pass(tmp_path: Path, arguments: str, status: int, told: str) -> None:
    (tmp_path / "train.py").write_text(LOOP, encoding="utf-8")
    linter = tmp_path / "linter"
    linter.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m torchperf_lint "$@"\n', encoding="utf-8")
    linter.chmod(0o755)
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", SCRIPTS[1]["run"]],
        cwd=tmp_path,
        env={**os.environ, **GIVEN, "LINTER": str(linter), "ARGUMENTS": arguments},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (status, told)
    for report in (tmp_path / "up", tmp_path / "a report.sarif"):
        assert report.exists() == (status == 1)
    if status == 1:
        assert json.loads((tmp_path / "up").read_text(encoding="utf-8"))["runs"][0]["results"]
        assert (tmp_path / "mine.txt").exists()


@pytest.mark.skipif(os.name == "nt", reason="the script is one of bash")
def test_a_report_that_cannot_be_copied_fails_the_job(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n", encoding="utf-8")
    linter = tmp_path / "linter"
    linter.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m torchperf_lint "$@"\n', encoding="utf-8")
    linter.chmod(0o755)
    given = {**GIVEN, "LINTER": str(linter), "ARGUMENTS": "a.py", "SARIF_FILE": "a.py/x.sarif"}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", SCRIPTS[1]["run"]],
        cwd=tmp_path,
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="the script is one of bash")
def test_the_inputs_change_what_is_printed_written_and_told(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LOOP, encoding="utf-8")
    linter = tmp_path / "linter"
    linter.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m torchperf_lint "$@"\n', encoding="utf-8")
    linter.chmod(0o755)
    script = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", SCRIPTS[1]["run"]]
    given = {**GIVEN, "LINTER": str(linter), "ARGUMENTS": "train.py --isolated"}
    given |= {"ANNOTATIONS": "false", "FAIL": "false", "UPLOAD": "true", "SARIF_FILE": "", "SUGGEST": "true"}
    for wanted in ("", "reports/kept.sarif"):
        given["SARIF_FILE"] = wanted
        done = subprocess.run(
            script, cwd=tmp_path, env={**os.environ, **given}, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("train.py:")
        assert json.loads((tmp_path / "up").read_text(encoding="utf-8"))["runs"][0]["results"]
        assert (tmp_path / "reports" / "kept.sarif").exists() == bool(wanted)
        (finding,) = json.loads((tmp_path / "a report.rdjson").read_text(encoding="utf-8"))["diagnostics"]
        assert finding["suggestions"]
