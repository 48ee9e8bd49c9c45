"""Rules of other packages: the worked example, installed in both ways, and plugins that are broken."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from linting import ROOT

EXAMPLE = ROOT / "fixtures" / "plugin"
ENTRY = "[torchperf_lint.rules]\nacme = acme_rules\n"
RULE = """\
from torchperf_lint.plugin import Category, Finding, Severity, rule

@rule(code={code!r}, name={name!r}, category=Category.SYNC, summary="a rule", message="it is one",
      severity=Severity.NOTE, triggers=("torch",), cpu_only_too=True)
def check(model):
    {body}
"""


def run(*arguments: object, path: Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command line, with a folder of installed packages."""
    paths = os.pathsep.join(map(str, (path, ROOT)))
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "torchperf_lint", *map(str, arguments)]
    return subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, check=False)


def installed(folder: Path, text: str = ENTRY) -> Path:
    """The example, as an installer would leave it."""
    shutil.copytree(EXAMPLE / "acme_rules", folder / "acme_rules")
    metadata = folder / "acme_torchperf_rules-1.0.dist-info"
    metadata.mkdir()
    (metadata / "entry_points.txt").write_text(text, encoding="utf-8")
    return folder


def broken(folder: Path, code: str, text: str = ENTRY) -> Path:
    """The same with another module of that name."""
    installed(folder, text)
    (folder / "acme_rules" / "__init__.py").write_text(code, encoding="utf-8")
    return folder


@pytest.fixture
def linted(tmp_path: Path) -> Path:
    folder = tmp_path / "linted"
    folder.mkdir()
    shutil.copy(EXAMPLE / "train.py", folder)
    return folder


def test_the_example_finds_explains_and_fixes(tmp_path, linted):
    path = installed(tmp_path / "site")
    done = run("--isolated", "--no-cache", "--output-format", "json", "train.py", path=path, cwd=linted)
    assert done.returncode == 1, done.stderr
    (found,) = json.loads(done.stdout)
    assert (found["code"], found["location"]["row"]) == ("ACM101", 11)
    assert found["cost"] == {"loses": "host work", "rate": "per step"}
    page = json.loads(run("explain", "blocking-upload", "--output-format", "json", path=path).stdout)
    assert page["sections"]["Why it is slow"] == "The call returns when the storage has the whole file."
    assert "ACM101" in run("rules", path=path).stdout
    assert not run("--isolated", "--no-cache", "--ignore", "ACM", "train.py", path=path, cwd=linted).returncode
    fixed = run("--isolated", "--no-cache", "--fix", "--unsafe-fixes", "train.py", path=path, cwd=linted)
    assert fixed.returncode == 0, fixed.stdout
    assert 'upload(f"step-{step}.pt", wait=False)' in (linted / "train.py").read_text(encoding="utf-8")


def test_without_the_package_there_is_no_such_rule(tmp_path, linted):
    (tmp_path / "site").mkdir()
    done = run("--isolated", "--no-cache", "train.py", path=tmp_path / "site", cwd=linted)
    assert (done.returncode, done.stdout) == (0, "No findings.\n")


@pytest.mark.slow
def test_the_example_is_built_and_installed_by_pip(tmp_path, linted):
    source, site = tmp_path / "source", tmp_path / "site"
    shutil.copytree(EXAMPLE, source)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", site, source], check=True)
    done = run("--isolated", "--no-cache", "--output-format", "concise", "train.py", path=site, cwd=linted)
    assert done.returncode == 1
    assert "train.py:11:9: ACM101" in done.stdout
    assert "what it does" in run("explain", "ACM101", path=site).stdout.lower(), "the page lies in the wheel"


def test_stored_reports_are_those_of_the_installed_rules(tmp_path, linted):
    path = installed(tmp_path / "site")
    assert "ACM101" in run("--isolated", "train.py", path=path, cwd=linted).stdout
    module = path / "acme_rules" / "blocking_upload.py"
    module.write_text(module.read_text(encoding="utf-8").replace("uploads a", "sends a"), encoding="utf-8")
    assert "sends a checkpoint" in run("--isolated", "train.py", path=path, cwd=linted).stdout


@pytest.mark.parametrize(
    ("code", "entry", "told"),
    [
        ("raise RuntimeError('one\\ntwo')", ENTRY, "RuntimeError: one two"),
        ("def (", ENTRY, "SyntaxError: invalid syntax"),
        ("import sys; sys.exit()", ENTRY, "SystemExit:"),
        ("", ENTRY, "`acme_rules` declares no rule"),
        ("", ENTRY.replace("acme_rules", "acme_rules:rules"), "`acme_rules:rules` is no name of a module"),
        ("", ENTRY.replace("acme_rules", "gone"), "No module named 'gone'"),
        (RULE.format(code="TPL199", name="of-ours", body="return iter(())"), ENTRY, "the code TPL199 begins with TPL"),
        (RULE.format(code="acm1", name="of-ours", body="return iter(())"), ENTRY, "BadDeclaration: acm1 of-ours: the"),
        (RULE.format(code="ACM1", name="a-b", body="return iter(())"), ENTRY, "three digits"),
        (
            RULE.format(code="ACM101", name="item-in-hot-loop", body="return iter(())"),
            ENTRY,
            "item-in-hot-loop is taken",
        ),
    ],
    ids=range(10),
)
def test_a_broken_plugin_is_one_line(tmp_path, linted, code, entry, told):
    done = run("--isolated", "train.py", path=broken(tmp_path / "site", code, entry), cwd=linted)
    assert done.returncode == 2
    assert not done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("torchperf-lint: error: the rules of acme_torchperf_rules 1.0 (`acme`) cannot be used: ")
    assert told in line


def test_a_rule_that_fails_is_one_line_and_the_other_rules_go_on(tmp_path, linted):
    code = RULE.format(code="ACM102", name="that-fails", body="raise KeyError('gone')")
    path = broken(tmp_path / "site", f"from acme_rules.blocking_upload import blocking_upload\n{code}")
    done = run("--isolated", "--no-cache", "--output-format", "concise", "train.py", path=path, cwd=linted)
    assert done.returncode == 2
    assert "ACM101" in done.stdout
    (line,) = [line for line in done.stderr.splitlines() if "ACM102" in line]
    told = "error in ACM102 of acme_torchperf_rules 1.0: KeyError: 'gone'; please report this to its authors"
    assert line == f"train.py: error: {told}"


def test_a_rule_without_a_page_is_explained_by_its_declaration(tmp_path):
    path = installed(tmp_path / "site")
    (path / "acme_rules" / "blocking_upload.md").unlink()
    text = run("explain", "ACM101", path=path).stdout
    assert text.startswith("# ACM101 blocking-upload\n\nA checkpoint is uploaded while the training waits.\n")
    assert "Calls of `acme_storage.upload`" in text
