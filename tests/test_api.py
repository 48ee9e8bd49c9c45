"""The library: `lint` and `fix` for files and strings, and what importing the package costs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import torchperf_lint
from linting import ROOT
from torchperf_lint import fix, lint
from torchperf_lint.cli import main
from training_loop import LOOP

HELPER = "def on_gpu(data):\n    return data.cuda()\n"
TRAIN = """\
import torch.nn.functional as F
from transfer import on_gpu


def train(model, loader, optimizer):
    model.cuda()
    for pixels in loader:
        images = on_gpu(pixels)
        loss = F.mse_loss(model(images), images)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'p'\n", encoding="utf-8")
    (tmp_path / "transfer.py").write_text(HELPER, encoding="utf-8")
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_finding_has_all_that_the_output_has(project):
    (found,) = lint(project, cache=False, isolated=True)
    assert found.path == str(project / "transfer.py")
    assert (found.code, found.name) == ("TPL203", "blocking-h2d-copy")
    assert (tuple(found.start), tuple(found.end)) == ((2, 12), (2, 23))
    assert (found.severity, found.cost, found.confidence) == ("error", "wait per step", "proven")
    assert {Path(step.path).name for step in found.evidence} == {"train.py"}
    assert found.fix is not None
    assert found.fix.safety == "safe"
    (edit,) = found.fix.edits
    assert (tuple(edit.start), edit.content) == ((2, 22), "non_blocking=True")


def test_a_string_is_judged_alone():
    assert lint(sources=HELPER, isolated=True) == ()
    found = lint(sources=LOOP, isolated=True)
    assert found
    assert {each.path for each in found} == {"-"}


def test_a_source_stands_in_its_project_in_the_place_of_its_file(project):
    assert not lint(sources={"transfer.py": "def on_gpu(data):\n    return data\n"}, isolated=True, cache=False)
    found = lint(sources={"other.py": HELPER, "train.py": TRAIN.replace("transfer", "other")}, isolated=True)
    assert [(each.path, each.start.row) for each in found] == [("other.py", 2)]
    assert lint(["transfer.py"], sources={"train.py": ""}, isolated=True, cache=False) == ()
    assert not (project / "other.py").exists()


def test_fix_returns_the_changed_source_and_writes_only_when_asked(project):
    (fixed,) = fix([project], isolated=True, cache=False)
    assert fixed.before == HELPER
    assert fixed.after == HELPER.replace("cuda()", "cuda(non_blocking=True)")
    assert [code for code, _ in fixed.applied] == ["TPL203"]
    assert (fixed.remaining, fixed.problem) == ((), None)
    assert (project / "transfer.py").read_text(encoding="utf-8") == HELPER
    fix([project], isolated=True, cache=False, write=True)
    assert (project / "transfer.py").read_text(encoding="utf-8") == fixed.after
    assert fix([project], isolated=True, cache=False) == ()


def test_fix_of_a_source_keeps_its_line_ends(project):
    text = HELPER.replace("\n", "\r\n")
    (fixed,) = fix(sources={"transfer.py": text}, isolated=True, cache=False)
    assert fixed.after == text.replace("cuda()", "cuda(non_blocking=True)")


def test_options_are_those_of_the_command_line(project):
    assert lint(".", ignore=["TPL2"], isolated=True) == ()
    assert lint(".", exclude=["transfer.py"], isolated=True) == ()
    (project / "pyproject.toml").write_text("[tool.torchperf-lint]\nignore = ['TPL203']\n", encoding="utf-8")
    assert lint(".") == ()
    assert len(lint(".", select=["TPL203"])) == 1
    assert len(lint(".", isolated=True)) == 1


def test_globs_replace_and_add_as_on_the_command_line(project):
    (project / "pyproject.toml").write_text("[tool.torchperf-lint]\nexclude = ['transfer.py']\n", encoding="utf-8")
    assert lint(".") == ()
    assert len(lint(".", exclude=["none.py"])) == 1
    assert lint(".", exclude=["none.py"], extend_exclude=["transfer.py"]) == ()


def baseline_of(project: Path) -> None:
    """Know all findings of the project, and name the baseline in its configuration."""
    (project / "torchperf-lint.toml").write_text("baseline = 'known.json'\n", encoding="utf-8")
    assert main(["--write-baseline", "-q", "--no-cache"]) == 0


def test_the_baseline_of_the_configuration_holds(project):
    baseline_of(project)
    assert lint(".", cache=False) == ()
    assert fix(".", cache=False, write=True) == ()
    assert (project / "transfer.py").read_text(encoding="utf-8") == HELPER
    assert len(lint(".", cache=False, no_baseline=True)) == 1
    assert len(lint(".", cache=False, isolated=True)) == 1
    assert lint(".", cache=False, isolated=True, baseline="known.json") == ()
    both = f"{HELPER}    # again\n"  # a comment of its own
    assert lint(sources={"transfer.py": both}, cache=False) == ()


def test_only_what_counts_is_fixed(project):
    baseline_of(project)
    known, new = HELPER, HELPER.replace("on_gpu", "target").replace("cuda()", "cuda(0)")
    train = TRAIN.replace("import on_gpu", "import on_gpu, target").replace("images)\n", "target(pixels))\n", 1)
    texts = {"transfer.py": f"{known}\n\n{new}", "train.py": train}
    (found,) = lint(sources=texts, cache=False, select=["TPL203"])
    assert (found.path, found.start.row) == ("transfer.py", 6)
    (fixed,) = fix(sources=texts, cache=False, select=["TPL203"])
    assert fixed.after == texts["transfer.py"].replace("cuda(0)", "cuda(0, non_blocking=True)")
    assert fixed.remaining == ()


def test_severities_of_the_configuration_hold(project):
    text = f"{LOOP}x = 1  # noqa: TPL101\n"
    assert [each.severity for each in lint(sources=text, isolated=True)] == ["error", "warning"]
    assert [each.code for each in lint(sources=text, isolated=True, min_severity="error")] == ["TPL102"]
    (project / "torchperf-lint.toml").write_text("min-severity = 'error'\n", encoding="utf-8")
    assert [each.code for each in lint(sources=text)] == ["TPL102"]
    (fixed,) = fix(sources=text)
    assert [code for code, _ in fixed.applied] == ["TPL102"]
    assert fixed.after.endswith("x = 1  # noqa: TPL101\n")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"select": ["TPL999"]}, "`select`: no rule matches the selector `TPL999`"),
        ({"ignore": ["TPL999"]}, "`ignore`: no rule matches"),
        ({"min_confidence": "x"}, "`min_confidence`: `x` is not `proven` or `likely`"),
        ({"target_torch": "x"}, "`target_torch`: `x` is not a version"),
        ({"exclude": ["!"]}, "`exclude`: `!` is not a glob"),
        ({"config": "none.toml"}, "none.toml: error: cannot be read"),
        ({"min_severity": "x"}, "`min_severity`: `x` is not `error`"),
        ({"baseline": "none.json"}, "none.json: error: there is no such baseline"),
        ({"baseline": "none.json", "no_baseline": True}, "`no_baseline` cannot stand beside `baseline`"),
        ({"jobs": 0}, "`jobs`: 0 is not a number of processes"),
        ({"jobs": -3}, "`jobs`: -3 is not a number of processes"),
    ],
    ids=str,
)
def test_a_mistaken_option_is_a_value_error(wrong, told):
    for call in (lint, fix):
        with pytest.raises(ValueError, match=f"^{re.escape(told)}"):
            call(sources=LOOP, **wrong)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"select": "TPL101"}, "`select` is a list of strings, not one string"),
        ({"ignore": ["TPL1", 3]}, "`ignore` is a list of strings, and 3 is none"),
        ({"extend_exclude": 3}, "`extend_exclude` is a list of strings, not 3"),
        ({"target_torch": 2.6}, "`target_torch` is a string, not 2.6"),
        ({"min_severity": ["error"]}, "`min_severity` is a string, not ['error']"),
        ({"baseline": 3}, "`baseline` is a path, not 3"),
        ({"config": b"a.toml"}, "`config` is a path, not b'a.toml'"),
        ({"paths": [3]}, "`paths` is a path, not 3"),
        ({"paths": 3}, "`paths` is a path or a list of paths, not 3"),
        ({"extend_select": b"x"}, "`extend_select` is a list of strings, not b'x'"),
        ({"paths": b"x"}, "`paths` is a path or a list of paths, not b'x'"),
        ({"sources": 3}, "`sources` is a text or maps paths to texts, not 3"),
        ({"sources": ["x"]}, "`sources` is a text or maps paths to texts, not ['x']"),
        ({"sources": {"a.py": 3}}, "`sources` is a text or maps paths to texts, and 3 of 'a.py' is none"),
        ({"sources": {3: "x"}}, "`sources` maps paths to texts, and 3 is no path"),
        ({"jobs": "2"}, "`jobs` is a number of processes, not '2'"),
        ({"jobs": True}, "`jobs` is a number of processes, not True"),
    ],
    ids=str,
)
def test_an_option_of_a_wrong_type_is_a_type_error(wrong, told):
    for call in (lint, fix):
        with pytest.raises(TypeError, match=f"^{re.escape(told)}$"):
            call(**{"paths": ["none"], **wrong})


def test_sources_cannot_be_written():
    with pytest.raises(ValueError, match="cannot be written"):
        fix(sources=LOOP, write=True)


def test_what_cannot_be_checked_is_a_problem_and_no_error(project):
    (project / "broken.py").write_text("def (\n", encoding="utf-8")
    found = lint([".", "gone"], isolated=True, cache=False)
    assert len(found) == 1
    assert [(each.path, each.row) for each in found.problems] == [("broken.py", 1), ("gone", None)]
    assert lint(sources="def (", isolated=True).problems[0].path == "-"
    (half,) = lint(sources="x = '\ud800'", isolated=True).problems
    assert "cannot be decoded" in half.reason
    with pytest.raises(ValueError, match="null character"):
        lint(sources={"a\0.py": "x = 1"}, isolated=True)
    assert [each.problem.path for each in fix(sources={"b.py": "def (", "c.py": ""}) if each.problem] == ["b.py"]


@pytest.mark.parametrize(
    "text", ["def (\n", "x = '\ud800'", "\r\ndef (\r\n", b"x = '\xff'", "# coding: no\n"], ids=repr
)
def test_fix_gives_back_the_text_that_cannot_be_checked(project, text):
    wanted = text if isinstance(text, str) else "x = '\udcff'"
    for sources in (text, {"broken.py": text}, {"broken.py": text, "transfer.py": HELPER}):
        (fixed,) = (each for each in fix(sources=sources, isolated=True, cache=False) if each.problem)
        assert fixed.before == fixed.after == wanted
        assert fixed.applied == fixed.remaining == ()
    data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    (project / "broken.py").write_bytes(data)
    for options in ({}, {"write": True}, {"min_severity": "error"}):
        (fixed,) = fix(["broken.py"], isolated=True, cache=False, **options)
        assert fixed.before == fixed.after
        assert fixed.after.encode(errors="surrogateescape") == data
        assert (project / "broken.py").read_bytes() == data


def test_fix_has_no_text_of_what_cannot_be_read(project):
    os.mkfifo(project / "pipe.py")
    for fixed in fix(["gone.py", "pipe.py"], isolated=True, cache=False):
        assert fixed.problem is not None
        assert (fixed.before, fixed.after) == (None, None)


def test_a_problem_of_a_notebook_has_its_cell(project):
    cells = [{"cell_type": "code", "source": each} for each in ("x = 1", "y = 2\nz = (\n")]
    text = json.dumps({"cells": cells})
    (problem,) = lint(sources={"n.ipynb": text}, isolated=True, cache=False).problems
    assert (problem.path, problem.cell, problem.row, problem.column) == ("n.ipynb", 2, 2, 5)
    (fixed,) = fix(sources={"n.ipynb": text}, isolated=True, cache=False)
    assert fixed.problem == problem
    assert fixed.before == fixed.after == text
    (whole,) = lint(sources={"n.ipynb": "{"}, isolated=True, cache=False).problems
    assert (whole.cell, whole.row) == (None, None)


TYPED = """\
from torchperf_lint import Edit, Evidence, Finding, Findings, Fix, Fixed, Position, Problem, fix, lint

found: Findings = lint(["src"])
first: Finding = found[0]
start: Position = first.start
steps: tuple[Evidence, ...] = first.evidence
repair: Fix | None = first.fix
edits: tuple[Edit, ...] = () if repair is None else repair.edits
problem: Problem = found.problems[0]
changed: tuple[Fixed, ...] = fix(["src"])
"""


@pytest.mark.slow
def test_type_checkers_know_the_names_and_no_others(tmp_path, monkeypatch):
    api = pytest.importorskip("mypy.api")
    monkeypatch.setenv("MYPYPATH", str(ROOT))
    code = tmp_path / "uses.py"
    code.write_text(TYPED, encoding="utf-8")
    (tmp_path / "mypy.ini").write_text("[mypy]\nfollow_imports = silent\n", encoding="utf-8")
    asked = ["--strict", f"--config-file={tmp_path / 'mypy.ini'}", f"--cache-dir={tmp_path / 'cache'}", str(code)]
    told, failed, status = api.run(asked)
    assert (status, failed) == (0, ""), told
    code.write_text("from torchperf_lint import Bogus\n", encoding="utf-8")
    told, _, status = api.run(asked)
    assert status == 1
    assert 'has no attribute "Bogus"' in told


def test_all_names_are_listed():
    assert {*dir(torchperf_lint)} >= {*torchperf_lint.__all__, "__doc__", "__name__"}
    assert all(f"`{name}" in (ROOT / "docs" / "library.md").read_text() for name in torchperf_lint.__all__[:8])


def test_importing_the_package_loads_nothing():
    program = "import sys; before = set(sys.modules); import torchperf_lint; print(len(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = torchperf_lint.nothing
    assert all(hasattr(torchperf_lint, name) for name in torchperf_lint.__all__)
