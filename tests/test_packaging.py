"""The built distributions: the wheel comes out of the sdist and works in environments that hold no checkout."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from linting import ROOT
from torchperf_lint import __version__
from torchperf_lint.engine.registry import all_rules
from torchperf_lint.pages import page_text

_SPEC = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
assert _SPEC is not None
assert _SPEC.loader is not None
hatch_build = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(hatch_build)

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


THIRD_PARTY = """\
def read(tensor):
    from third_party import reading

    return reading.read(tensor)
"""
SCRIPT = """\
import third_party
import torch
from torch.utils.data import DataLoader

device = torch.device("cuda")
model = torch.nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(loader):
    total = 0.0
    for x in loader:
        loss = model(x.to(device, non_blocking=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        third_party.read(loss)
    return total


train(DataLoader(torch.ones(24, 4), batch_size=4))
"""


@pytest.fixture(scope="module")
def full_environment(distributions: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the commands of an environment that holds the wheel, torch, torchmetrics and a third package.

    What others have made is linked from the environment of this test: it lies where pip would put it.
    """
    folder = tmp_path_factory.mktemp("full")
    venv.create(folder)
    commands = folder / ("Scripts" if os.name == "nt" else "bin")
    pip = [sys.executable, "-m", "pip", "--python", commands / "python", "--disable-pip-version-check"]
    _run(*pip, "install", "--quiet", "--no-deps", distributions[1])
    printed = _run(commands / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    packages = Path(printed.strip())
    for place in _places_of("torchperf-lint", extra="verify"):
        link = packages / place.name
        if not link.exists():
            link.symlink_to(place)
    (packages / "third_party").mkdir()
    (packages / "third_party" / "__init__.py").write_text(THIRD_PARTY, encoding="utf-8")
    (packages / "third_party" / "reading.py").write_text(
        "def read(tensor):\n    return tensor.item()\n", encoding="utf-8"
    )
    return commands


def _places_of(wanted: str, extra: str = "") -> set[Path]:
    """The files and folders of a distribution's dependencies that lie at the top of this site-packages."""
    top = Path(sysconfig.get_path("purelib"))
    places: set[Path] = set()
    known, waiting = {wanted}, [(wanted, extra)]
    while waiting:
        name, extra = waiting.pop()
        for text in importlib.metadata.requires(name) or ():
            needed = Requirement(text)
            if needed.name not in known and (needed.marker is None or needed.marker.evaluate({"extra": extra})):
                known.add(needed.name)
                waiting.append((needed.name, ""))
                files = importlib.metadata.files(needed.name) or ()
                places |= {top / file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}
    return places


@pytest.mark.slow
def test_pages_are_in_both(distributions: tuple[Path, Path]) -> None:
    sdist, wheel = distributions
    pages = {f"{rule.category.name.lower()}/{rule.stem}.md" for rule in all_rules()}
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"rules/{page}" for page in pages} <= names
    assert not [name for name in names if name.startswith("editors")]  # what is not Python is built by itself
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {f"torchperf_lint/_pages/{page}" for page in pages} <= names
    assert "torchperf_lint/py.typed" in names
    assert "torchperf_lint/_declarations.json" in names
    assert "torchperf_lint/_pages/measurements.json" in names
    assert "torchperf_lint/verify/page/page.css" in names
    assert "torchperf_lint/report/page.css" in names
    for fixture in (
        "rules/sync/item_accumulation/run_histories.py",
        "programs/scalars.py",
        "experiments/tips_ignored.py",
    ):
        assert f"torchperf_lint/_fixtures/{fixture}" in names
    strangers = {name.split("/")[0] for name in names} - {"torchperf_lint", f"torchperf_lint-{__version__}.dist-info"}
    assert not strangers


def test_the_description_has_no_links_that_work_in_the_repository_only(distributions: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(distributions[1]) as archive:
        text = archive.read(f"torchperf_lint-{__version__}.dist-info/METADATA").decode()
    assert "Description-Content-Type: text/markdown" in text
    assert "User guide (`docs/guide.md`)" in text
    assert not re.search(r"\]\((?!\w+:)|<!--", text)
    assert text.rstrip().endswith(hatch_build.WHERE_FILES_ARE)
    with tarfile.open(distributions[0]) as archive:
        shipped = {name.partition("/")[2] for name in archive.getnames()}
    named = set(re.findall(r"\(`([^`]+)`\)", text))
    assert len(named) > 10
    assert named <= shipped


def test_extras_that_the_messages_name_exist() -> None:
    extras = set(importlib.metadata.metadata("torchperf-lint").get_all("Provides-Extra") or ())
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "torchperf_lint").rglob("*.py"))
    named = {name for text in sources for name in re.findall(r"'torchperf-lint\[(\w+)\]'", text)}
    assert named == {"completion", "dask", "server", "verify", "watch"}
    assert named <= extras


def test_links_of_the_description_lead_to_the_source_where_it_is_stated() -> None:
    text = "[a](docs/a.md#b), [c](https://example.org/c)"
    assert hatch_build.portable(text, None) == "a (`docs/a.md`), [c](https://example.org/c)"
    source = "https://example.org/source"
    assert hatch_build.portable(text, source) == f"[a]({source}/blob/HEAD/docs/a.md#b), [c](https://example.org/c)"


@pytest.mark.slow
def test_lints_a_file(empty_environment: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING_LOOP, encoding="utf-8")
    done = _run(empty_environment / "torchperf-lint", "--output-format", "json", "train.py", cwd=tmp_path, status=1)
    found = [(each["code"], each["location"]["row"]) for each in json.loads(done) if each["code"] == "TPL102"]
    assert found == [("TPL102", TRAINING_LOOP[: TRAINING_LOOP.index("total +=")].count("\n") + 1)]


@pytest.mark.slow
def test_writes_the_page_of_findings_with_its_style(empty_environment: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING_LOOP, encoding="utf-8")
    page = _run(empty_environment / "torchperf-lint", "--output-format", "html", "train.py", cwd=tmp_path, status=1)
    assert "prefers-color-scheme: dark" in page
    assert "<mark>loss.item()</mark>" in page


@pytest.mark.slow
def test_loads_no_rule_to_know_the_rules(empty_environment: Path, tmp_path: Path) -> None:
    program = (
        "import sys; from torchperf_lint.engine import registry\n"
        "print(len(registry.all_rules()), *(each for each in sys.modules if '.rules.' in each))"
    )
    printed = _run(empty_environment / "python", "-B", "-c", program, cwd=tmp_path)
    assert printed.split() == [str(len(all_rules()))]


@pytest.mark.slow
def test_says_what_the_verification_needs(empty_environment: Path, tmp_path: Path) -> None:
    command = [empty_environment / "torchperf-lint", "verify", "TPL102"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "torchperf-lint verify: error: torch is not installed: pip install 'torchperf-lint[verify]'\n"


@pytest.mark.slow
def test_proves_fixes_where_it_is_installed(full_environment: Path, tmp_path: Path) -> None:
    files = set(_installed(full_environment))
    printed = _run(full_environment / "torchperf-lint", "verify", "TPL102", "--report", "there", cwd=tmp_path)
    *proofs, summary, report = printed.splitlines()
    assert proofs
    assert all(line.endswith("waits per step; accepted") for line in proofs), printed
    assert summary == f"{len(proofs)} runs of 1 rule: {len(proofs)} accepted"
    assert report == f"wrote {Path('there') / 'report.html'}"
    assert "train_and_validate" in (tmp_path / "there" / "report.html").read_text(encoding="utf-8")
    assert set(_installed(full_environment)) == files, "an installation is not written into"


def _installed(commands: Path) -> Iterator[Path]:
    """The files of our package in an environment, but for what Python keeps there."""
    for package in commands.parent.rglob("torchperf_lint"):
        yield from (path for path in package.rglob("*") if "__pycache__" not in path.parts)


@pytest.mark.slow
def test_counts_a_script_where_it_is_installed(full_environment: Path, tmp_path: Path) -> None:
    """Not slow by its mark, for no other quick test runs programs from anything but a checkout."""
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    command = [full_environment / "python", "-m", "torchperf_lint", "verify", "--device", "sim"]
    lines = _run(*command, "--script", "train.py", cwd=tmp_path, status=1).splitlines()
    assert lines[0].startswith("6 steps on the simulated device, 4 of them counted: the host waits 2 times per step")
    assert lines[lines.index("  train.py:17  1 waits, 50 %: item") + 1].startswith("      TPL102 ")
    assert "  train.py:18  1 waits, 50 %: item, via third_party/reading.py:2" in lines


@pytest.mark.slow
def test_counts_a_script_by_another_python(empty_environment: Path, full_environment: Path, tmp_path: Path) -> None:
    """The linter's own environment has no torch."""
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    command = [empty_environment / "torchperf-lint", "verify", "--script", "train.py", "--device", "sim"]
    printed = _run(
        *command, "--python", full_environment / "python", "--include", "third_party", cwd=tmp_path, status=1
    )
    assert "  third_party/reading.py:2  1 waits, 50 %: item" in printed.splitlines()


@pytest.mark.slow
def test_runs_as_a_module(empty_environment: Path, tmp_path: Path) -> None:
    printed = _run(empty_environment / "python", "-m", "torchperf_lint", "--version", cwd=tmp_path)
    assert printed.split() == ["torchperf-lint", __version__]


@pytest.mark.slow
def test_explains_from_the_wheel(empty_environment: Path, tmp_path: Path) -> None:
    printed = _run(empty_environment / "torchperf-lint", "explain", "TPL102", cwd=tmp_path)
    rule = next(rule for rule in all_rules() if rule.code == "TPL102")
    assert printed.strip() == page_text(rule).strip()


def _run(*command: object, cwd: Path | None = None, status: int = 0) -> str:
    # The checkout must not be importable by accident.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == status, f"{command[0]} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout
