"""The built distributions: the wheel comes out of the sdist and works in an environment that holds nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from linting import ROOT
from torchperf_lint import __version__
from torchperf_lint.engine.registry import all_rules

TRAINING_LOOP = """\
import torch

device = torch.device("cuda")
model = torch.nn.Linear(2, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(loader):
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)
"""


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    _run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def empty_environment(distributions: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the commands of an environment that holds the wheel and what it asks for."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=True)
    commands = folder / ("Scripts" if os.name == "nt" else "bin")
    _run(commands / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", distributions[1])
    return commands


def test_pages_are_in_both(distributions: tuple[Path, Path]) -> None:
    sdist, wheel = distributions
    pages = {f"{rule.category.name.lower()}/{rule.stem}.md" for rule in all_rules()}
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"rules/{page}" for page in pages} <= names
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {f"torchperf_lint/_pages/{page}" for page in pages} <= names
    assert "torchperf_lint/py.typed" in names
    assert "torchperf_lint/_declarations.json" in names
    assert "torchperf_lint/_pages/measurements.json" in names
    assert "torchperf_lint/verify/page/page.css" in names
    for fixture in (
        "rules/sync/item_accumulation/run_histories.py",
        "programs/scalars.py",
        "experiments/tips_ignored.py",
    ):
        assert f"torchperf_lint/_fixtures/{fixture}" in names
    strangers = {name.split("/")[0] for name in names} - {"torchperf_lint", f"torchperf_lint-{__version__}.dist-info"}
    assert not strangers


def test_lints_a_file(empty_environment: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING_LOOP, encoding="utf-8")
    done = _run(empty_environment / "torchperf-lint", "--output-format", "json", "train.py", cwd=tmp_path, status=1)
    found = [(each["code"], each["location"]["row"]) for each in json.loads(done) if each["code"] == "TPL102"]
    assert found == [("TPL102", TRAINING_LOOP[: TRAINING_LOOP.index("total +=")].count("\n") + 1)]


def test_loads_no_rule_to_know_the_rules(empty_environment: Path, tmp_path: Path) -> None:
    program = (
        "import sys; from torchperf_lint.engine import registry\n"
        "print(len(registry.all_rules()), *(each for each in sys.modules if '.rules.' in each))"
    )
    printed = _run(empty_environment / "python", "-B", "-c", program, cwd=tmp_path)
    assert printed.split() == [str(len(all_rules()))]


def test_says_what_the_verification_needs(empty_environment: Path, tmp_path: Path) -> None:
    command = [empty_environment / "torchperf-lint", "verify", "TPL102"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "torchperf-lint verify: error: torch is not installed: pip install 'torchperf-lint[verify]'\n"
    )


def test_proves_a_fix_from_the_wheel(distributions: tuple[Path, Path], tmp_path: Path) -> None:
    with zipfile.ZipFile(distributions[1]) as archive:
        archive.extractall(tmp_path)
    program = (
        "import torchperf_lint, sys; from torchperf_lint.cli import main; print(torchperf_lint.__file__)\n"
        "sys.exit(main(['verify', 'TPL204', '--device', 'sim']))"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert str(tmp_path) in done.stdout.splitlines()[0]
    assert "2 accepted" in done.stdout
    assert not list((tmp_path / "torchperf_lint").rglob("*.report.json"))


def test_runs_as_a_module(empty_environment: Path, tmp_path: Path) -> None:
    printed = _run(empty_environment / "python", "-m", "torchperf_lint", "--version", cwd=tmp_path)
    assert printed.split() == ["torchperf-lint", __version__]


def test_explains_from_the_wheel(empty_environment: Path, tmp_path: Path) -> None:
    printed = _run(empty_environment / "torchperf-lint", "explain", "TPL102", cwd=tmp_path)
    page = next((ROOT / "rules" / "sync").glob(f"{_stem('TPL102')}.md"))
    assert printed.strip() == page.read_text(encoding="utf-8").strip()


def _stem(code: str) -> str:
    return next(rule.stem for rule in all_rules() if rule.code == code)


def _run(*command: object, cwd: Path | None = None, status: int = 0) -> str:
    # The checkout must not be importable by accident.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, f"{command[0]} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout
