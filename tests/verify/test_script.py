"""A user's script runs as it is, and each wait is laid beside what the linter says of its line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from synthetic import event, run

from linting import ROOT, few
from torchperf_lint.engine.findings import Because, Diagnostic
from torchperf_lint.verify import events, runs
from torchperf_lint.verify.events import Kind
from torchperf_lint.verify.script import join

HELPERS = """\
def shown(t):
    return getattr(t, "it" + "em")()  # out of the linter's sight, but not of the device's
"""
SCRIPT = """\
import sys

import torch
from torch.utils.data import DataLoader

from helpers import shown

device = torch.device("cuda")
model = torch.nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
print("arguments:", sys.argv[1:])


def train(loader):
    total = 0.0
    for x in loader:
        loss = model(x.to(device, non_blocking=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        text = shown(loss)
    return total, text


print("done:", train(DataLoader(torch.ones(64, 4), batch_size=4)))
"""


def _verify(folder, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "torchperf_lint", "verify", *arguments],
        cwd=folder,
        env={"PATH": "", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def project(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "helpers.py").write_text(HELPERS)
    return tmp_path


@pytest.mark.slow
def test_a_script_is_counted_and_joined_with_the_findings(project):
    done = _verify(project, "--script", "train.py", "--device", "sim", "--", "--lr", "1")
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "arguments: ['--lr', '1']"
    assert lines[1].startswith("done: ")
    assert lines[2] == (
        "16 steps on the simulated device, 14 of them counted: the host waits 2 times per step, and 1 copies may wait."
    )
    assert lines[4] == "loop at train.py:16, 14 steps counted: the host waits 2 times per step, and 1 copies may wait"
    missed, found = (
        lines.index("  helpers.py:2  1 waits, 50 %: item"),
        lines.index("  train.py:21  1 waits, 50 %: item"),
    )
    assert lines[missed + 1] == "      not found"
    assert lines[found + 1].startswith("      TPL102 ")
    assert lines[found + 1].endswith(" (--fix mends it)")
    assert lines[-1] == "2 findings confirmed, 0 did not wait, 0 did not run; 3 waiting lines, 1 not found"


@pytest.mark.slow
def test_a_finding_in_a_helper_is_confirmed_by_the_script_that_calls_it(project):
    (project / "helpers.py").write_text("def shown(t):\n    return f'{t:.2f}'\n")
    lines = _verify(project, "--script", "train.py", "--device", "sim").stdout.splitlines()
    (found,) = (row for row, line in enumerate(lines) if line.startswith("  helpers.py:2  1 waits, 50 %: item"))
    assert lines[found + 1].startswith("      TPL105 ")


@pytest.mark.slow
def test_a_script_stops_after_the_steps_that_are_asked_for(project):
    done = _verify(project, "--script", "train.py", "--device", "sim", "--steps", "6")
    assert "done:" not in done.stdout
    assert "6 steps on the simulated device, 3 of them counted" in done.stdout


@pytest.mark.slow
def test_a_clean_script_has_status_0(project):
    (project / "train.py").write_text("import torch\nprint(torch.ones(2, device='cuda').shape)\n")
    done = _verify(project, "--script", "train.py", "--device", "sim")
    assert done.returncode == 0, done.stderr
    assert "No steps to count over were seen" in done.stdout


@pytest.mark.slow
def test_what_fails_is_said_and_has_status_2(project):
    missing = _verify(project, "--script", "gone.py")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "gone.py: there is no such file" in missing.stderr
    (project / "train.py").write_text(
        "import torch\ntorch.ones(1, device='cuda').item()\nraise ValueError('no data')\n"
    )
    broken = _verify(project, "--script", "train.py", "--device", "sim")
    assert broken.returncode == 2
    assert "train.py: failed: ValueError: no data, at train.py:3" in broken.stderr
    assert "child.py" not in broken.stderr
    lines = broken.stdout.splitlines()
    assert lines[0] == "The program ended early, before its first step, at train.py:3. Until then:"
    assert lines[lines.index("  train.py:2  1 waits, 100 %: item") + 1] == "      not found"


ENDS = {
    "torch.cuda.CUDAGraph()": "not simulated: torch.cuda.CUDAGraph, at train.py:3",
    "os._exit(0)": "failed: the process died: exit status 0 before its report was written",
    "os.kill(os.getpid(), 15)": "failed: the process died: SIGTERM",
    "f(:": "failed: SyntaxError: invalid syntax (train.py, line 3)",
    "raise KeyboardInterrupt": "failed: KeyboardInterrupt, at train.py:3",
    "raise type('Mute', (Exception,), {'__str__': None})": "failed: Mute, at train.py:3",
    "raise SystemExit(3)": "failed: exit status 3, at train.py:3",
}


@pytest.mark.parametrize("program", few(ENDS, 24))
def test_how_a_script_ended_is_said(project, program):
    (project / "train.py").write_text(f"import os\nimport torch\n{program}\n")
    done = _verify(project, "--script", "train.py", "--device", "sim")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"torchperf-lint verify: error: train.py: {ENDS[program]}"
    assert "torchperf_lint" not in done.stderr.replace(str(project), "")


@pytest.mark.slow
def test_other_folders_names_and_threads_are_seen(project):
    (project / "train").write_text(
        "import os, threading, time, torch\nos.chdir('/')\nx = torch.ones(1, device='cuda')\n"
        "threading.Thread(target=lambda: (time.sleep(0.2), print(x.item()))).start()\n"
    )
    done = _verify(project, "--script", "train", "--device", "sim")
    assert done.returncode == 1, done.stderr
    assert "  train:4  1 waits, 100 %: item" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2.9.1", "2.10.0+cpu", "2.16.0"])
def test_a_release_that_is_not_simulated_is_refused_with_what_to_do(tmp_path, version):
    (tmp_path / "train.py").write_text("import torch\nx = torch.ones(3, device='cuda')\n")
    (tmp_path / "sitecustomize.py").write_text(f"import torch\ntorch.__version__ = {version!r}\n")
    command = [sys.executable, "-m", "torchperf_lint", "verify", "--device", "sim", "--script", "train.py"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    said = f"a device for torch {version}; install torch 2.11 to 2.15 beside the program, or run it with --device cuda"
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"torchperf-lint verify: error: train.py: not simulated: {said}\n"


@pytest.mark.slow
def test_an_interrupted_script_may_tidy_up(project):
    (project / "train.py").write_text(
        "import time\ntry:\n    print('ready', flush=True)\n    time.sleep(60)\n"
        "except KeyboardInterrupt:\n    time.sleep(1)\n    print('tidied up', flush=True)\n    raise\n"
    )
    command = [sys.executable, "-m", "torchperf_lint", "verify", "--script", "train.py", "--device", "sim"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    was = signal.signal(signal.SIGINT, signal.SIG_DFL)  # shells start what runs in the background deaf to it
    try:
        process = subprocess.Popen(command, cwd=project, env=environment, start_new_session=True, **pipes)
    finally:
        signal.signal(signal.SIGINT, was)
    with process:
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "tidied up\n")
    assert "torchperf_lint" not in err.replace(str(project), "")


def _finding(row, end_row=None, because=(), code="TPL101"):
    where = ("/program.py", row, 1, end_row or row, 9)
    return Diagnostic(*where, code, "x", "error", "text", because, None, 0, 1, (row, end_row or row))


def test_a_finding_is_confirmed_on_its_statement_or_where_its_rule_costs():
    at = run([event(row=12), event(row=30), event(row=40, file="/other.py"), event(row=50)], steady=(0,)).lines()
    evidence = (Because(30, "updated here"), Because(40, "called here", "/other.py"))
    found = [_finding(10, 14), _finding(20, because=evidence, code="TPL301"), _finding(60, because=evidence)]
    joined = join(found, at)
    assert [(each.row, [line.where.row for line in lines]) for each, lines in joined.confirmed] == [
        (10, [12]),
        (20, [40, 30]),
    ]
    assert [each.row for each in joined.not_seen] == [60]
    assert [line.where.row for line in joined.not_found] == [50]


def test_a_pinned_copy_is_no_wait():
    pinned = event(Kind.TO_DEVICE, waits=False, pinned=True, asynchronous=True)
    assert run([pinned], steady=(0,)).lines() == []


@pytest.mark.slow
@pytest.mark.parametrize("safe_path", [False, True])
def test_modules_are_looked_for_where_they_are_without_us(project, safe_path):
    """Whatever of it holds this package, too: a checkout that is named, by several names, stays named."""
    (project / "queue.py").write_text("raise AssertionError('a script does not import from the current folder')\n")
    (project / "scripts").mkdir()
    (project / "scripts" / "train.py").write_text(
        "import os, sys\nprint([*sys.path, os.environ['PYTHONPATH'], os.environ.get('PYTHONSAFEPATH')])\n"
    )
    named = [f"{ROOT}{os.sep}", str(ROOT), "lib", str(ROOT.parent), "lib"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(named), **({"PYTHONSAFEPATH": "1"} if safe_path else {})}
    command = os.path.join(os.path.dirname(sys.executable), "torchperf-lint")

    def printed(*run):
        done = subprocess.run(run, cwd=project, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[0]

    script = os.path.join("scripts", "train.py")
    assert printed(command, "verify", "--device", "sim", "--script", script) == printed(sys.executable, script)


def test_what_is_run_elsewhere_finds_the_folders_that_are_named_from_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["lib", "", str(ROOT)]))
    path = runs._environment([tmp_path / "release"], live=False)["PYTHONPATH"].split(os.pathsep)
    assert path == [str(tmp_path / "release"), str(tmp_path / "lib"), str(tmp_path), str(ROOT)]
    assert runs._environment([], live=True) == dict(os.environ)


@pytest.mark.slow
def test_whatever_a_program_leaves_it_is_reported(project):
    (project / "train.py").write_text(
        "import sys, types\nimport torch\n"
        "class Lazy(types.ModuleType):\n"
        "    __file__ = property(lambda self: __import__('not_installed'))\n"
        "sys.modules |= {'lazy': Lazy('lazy'), 'torchmetrics': Lazy('torchmetrics'), 'missing': None}\n"
        "results = object()\n"
        "exec(compile(open('part.py').read(), sys.path[0] + '/part.py', 'exec'))\n"
    )
    (project / "part.py").write_text("for _ in range(3):\n    print(torch.ones(1, device='cuda').item())\n")
    done = _verify(project, "--script", "train.py", "--device", "sim")
    assert (done.returncode, done.stderr) == (1, "")
    assert "  part.py:2  3 waits, 100 %: item" in done.stdout


@pytest.mark.slow
def test_the_project_is_the_scripts_whatever_else_is_loaded(project, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("generated")
    (elsewhere / "generated").mkdir()
    (elsewhere / "generated" / "__init__.py").write_text("def shown(t):\n    return f'{t:.2f}'\n")
    (project / "train.py").write_text(
        SCRIPT.replace("from helpers", f"sys.path.append({str(elsewhere)!r})\nfrom generated")
    )
    (project / "pyproject.toml").write_text("[tool.torchperf-lint]\nignore = ['TPL102']\n")
    lines = _verify(project, "--script", "train.py", "--device", "sim", "--steps", "6").stdout.splitlines()
    (formatted,) = (row for row, line in enumerate(lines) if "__init__.py:2  1 waits, 50 %: item" in line)
    assert lines[formatted + 1].startswith("      TPL105 "), "it is judged as what the project calls"
    assert lines[lines.index("  train.py:22  1 waits, 50 %: item") + 1] == "      not found"
    assert "TPL102" not in "".join(lines)


EVALUATION = """

def evaluate(loader):
    total = 0.0
    for x in loader:
        total += model(x.to(device)).mean().item()
    return total


evaluate(DataLoader(torch.ones(64, 4), batch_size=4))
"""


@pytest.mark.slow
def test_what_a_failed_program_did_not_come_to_is_not_refuted(project):
    (project / "train.py").write_text(f"{SCRIPT}\nsys.exit(3)\n{EVALUATION}")
    done = _verify(project, "--script", "train.py", "--device", "sim")
    assert done.returncode == 2
    assert done.stderr.endswith(", at train.py:28\n")
    lines = done.stdout.splitlines()
    assert lines[2] == "The program ended early, after 16 steps, at train.py:28. Until then:"
    assert lines[3].startswith("16 steps on the simulated device, 14 of them counted")
    assert lines[lines.index("  train.py:21  1 waits, 50 %: item") + 1].startswith("      TPL102 ")
    assert "did not" not in done.stdout
    assert "train.py:34" not in done.stdout, "the loop that it did not come to"
    assert lines[-1] == "2 findings confirmed, 3 neither confirmed nor refuted; 3 waiting lines, 1 not found"


@pytest.mark.slow
def test_what_a_stopped_program_did_not_come_to_is_told_from_what_it_refutes(project):
    (project / "train.py").write_text(SCRIPT + EVALUATION)
    done = _verify(project, "--script", "train.py", "--device", "sim", "--steps", "6")
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    unseen = lines[lines.index("found, did not run, until it was stopped") :]
    assert unseen[1].startswith("  train.py:32  TPL102 ")


def test_packages_are_a_librarys_wherever_an_installer_puts_them(tmp_path, monkeypatch):
    monkeypatch.setattr(events, "_LIBRARIES", [])
    monkeypatch.setattr(events, "_classes", {})
    for folder in ("target/six-1.0.dist-info", "source/six.egg-info", "packed/six-1.0.dist-info"):
        (tmp_path / folder).mkdir(parents=True)
    folders = [str(tmp_path / name) for name in ("target", "source", "packed", "gone")]
    events.add_installed_folders(folders, str(tmp_path / "packed" / "train.py"))
    users = [folder for folder in folders if events.is_user_file(os.path.join(folder, "six.py"))]
    assert [os.path.basename(folder) for folder in users] == ["source", "packed", "gone"]
