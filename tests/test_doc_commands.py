"""Commands in documents run: those without their output too, in a small project; and what they name is there."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from documents import ADOPTION, DOCUMENTS, README, commands
from git_project import WHO, begun, committed
from linting import ROOT
from made_up_trace import Trace
from torchperf_lint.report import FORMATS

IN_TEXT = re.findall(r"`((?:torchperf-lint|flake8) [^`]+|pip install [^`]+)`", README.read_text(encoding="utf-8"))
COMMANDS = sorted(
    {*IN_TEXT}
    | {
        command
        for document in DOCUMENTS
        if document != ADOPTION
        for command in commands(document.read_text(encoding="utf-8"))
    }
)
OURS = [
    each
    for each in COMMANDS
    if re.match(r"(torchperf-lint|flake8|eval) ?", each) and "HOST" not in each and each != "torchperf-lint verify"
]
NOT_RUN = re.compile(
    r"pip install (?:\.|'\.\[(?P<extra>\w+)\]')"  # takes minutes, and the network
    r"|make vscode|code --install-extension .*"  # need npm and VS Code
    r"|dask (?:scheduler|worker .*)|torchperf-lint --executor dask=tcp://HOST:8786 src/"  # test_cluster.py does
    r"|torchperf-lint verify"  # takes minutes; continuous integration does
)
SCRIPT = """\
import torch
from torch.utils.data import DataLoader

device = torch.device("cuda")
model = torch.nn.Linear(4, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in DataLoader(torch.ones(24, 4), batch_size=4):
    loss = model(x.to(device, non_blocking=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    print(loss.item())
    optimizer.step()
"""


def test_every_command_is_run_or_known() -> None:
    assert OURS
    for command in {*COMMANDS} - {*OURS}:
        assert NOT_RUN.fullmatch(command), command


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with all that the commands name."""
    folder = tmp_path_factory.mktemp("project")
    begun(folder)
    for place in ("train.py", "src/train.py"):
        (folder / place).parent.mkdir(exist_ok=True)
        (folder / place).write_text(SCRIPT, encoding="utf-8")
    for path in (ROOT / "fixtures" / "docs").iterdir():
        if path.suffix == ".ipynb":
            shutil.copy(path, folder)
    run("torchperf-lint --write-baseline --baseline known.json", folder)
    trace = Trace()
    trace.step(1, 0, 100)
    with gzip.open(folder / "trace.json.gz", "wt", encoding="utf-8") as file:
        json.dump({"traceEvents": trace.events}, file)
    committed(folder)
    return folder


def run(command: str, folder: Path) -> str:
    """What the command prints, whose programs are those of this Python."""
    programs = "".join(
        f'{name}() {{ "{sys.executable}" -m {module} "$@"; }}; '
        for name, module in (("torchperf-lint", "torchperf_lint"), ("flake8", "flake8"))
    )
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run(
        [bash, "-c", programs + command],
        cwd=folder,
        env=os.environ | WHO | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    assert "rror" not in done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "command",
    [pytest.param(each, marks=[pytest.mark.slow] if each.startswith("torchperf-lint verify") else []) for each in OURS],
)
def test_a_command_runs(command: str, project: Path, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    shutil.copytree(project, folder)
    run(command, folder)


# -- what documents name ----------------------------------------------------------------------------------------------


def spans() -> list[str]:
    """What the documents have between backticks, and their commands."""
    texts = [document.read_text(encoding="utf-8") for document in DOCUMENTS]
    return [span for text in texts for span in (*re.findall(r"`([^`\n]+)`", text), *commands(text))]


def test_extras_are_those_of_the_package() -> None:
    named = set(re.findall(r"\.\[(\w+)\]", "\n".join(spans())))
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = re.findall(r"(?m)^(\w+) = \[", project.partition("[project.optional-dependencies]")[2])
    assert named
    assert named <= set(extras)


def test_targets_of_make_are_there() -> None:
    targets = set(re.findall(r"(?m)^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8")))
    named = {match[1] for span in spans() if (match := re.match(r"make (?:\w+=\S* )*([\w-]+)$", span))}
    assert named
    assert named <= targets


def test_files_of_the_repository_are_there() -> None:
    named = {match[0] for span in spans() for match in re.finditer(r"\b(?:benchmarks|fixtures|rules)/[\w./-]*", span)}
    assert named
    for path in named:
        assert (ROOT / path).exists(), path


def test_options_of_scripts_are_theirs() -> None:
    for span in spans():
        if match := re.match(r"python (benchmarks/\S+\.py)", span):
            script = (ROOT / match[1]).read_text(encoding="utf-8")
            for option in re.findall(r"--[a-z-]+", span):
                assert option in script, span


def options_of(*arguments: str) -> set[str]:
    """The options that a program lists in its help."""
    command = [sys.executable, "-m", *arguments, "--help"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", printed))


def test_options_are_those_of_some_program() -> None:
    ours = [("torchperf_lint", each) for each in ("check", "why", "verify", "profile", "server", "explain")]
    known = {"--committed", "--errors"}  # of scripts that the sentence has named before
    known = known.union(*(options_of(*each) for each in (*ours, ("flake8",), ("ruff", "check"))))
    for span in spans():
        if not span.startswith(("python ", "dask ", "git ", "pip ", "code ")):
            for option in re.findall(r"(?<![\w-])--[a-z-]+", span.partition(" -- ")[0]):
                assert option in known, span


def test_the_table_for_users_of_ruff() -> None:
    """Each option of ruff has a row, which says rightly whether it is ours as well; and so have the formats."""
    ruff, ours = options_of("ruff", "check"), options_of("torchperf_lint", "check")
    text = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    rows = {
        option: here
        for theirs, here in re.findall(r"(?m)^\| (.*?) \| (.*) \|$", text)
        for option in re.findall(r"`(--[a-z-]+)`", theirs)
    }
    # ruff's help names the opposites of some options in passing.
    assert ruff - {each for each in ruff if each.startswith("--no-") and each != "--no-cache"} - {"--help"} == {*rows}
    for option, here in rows.items():
        assert here.startswith("the same") == (option in ours), option
    (besides,) = re.findall(r"all of ruff's formats, and besides (.*?) \|", text)
    more = set(re.findall(r"`([\w-]+)`", besides))
    helped = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--help"], capture_output=True, text=True, check=True
    )
    (listed,) = re.findall(r"\[possible values: (concise.*?)\]", helped.stdout, re.DOTALL)
    of_ruff = {each.strip() for each in listed.split(",")}
    assert of_ruff < {*FORMATS}
    assert more == {*FORMATS} - of_ruff - {"text"}
    only = re.findall(r"`(--[a-z-]+)`", text.partition("Not in ruff:")[2])
    assert {*only} <= ours - ruff
