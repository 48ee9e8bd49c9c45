"""Measures other linters on one tree, beside a bare `libcst.parse_module` of its files and this linter.

The tree is made of corpus projects and of a fixed random sample of torch's files, and is linted as one project.
Each figure is the user plus system time of whole processes on one core, without a cache. The parse, this linter and
runs of less than 10 seconds are run three times, in turns: medians. Every linter of `peers.toml` has an environment
of its own below `build/peers`, which is made when it is first needed. One that cannot be installed is named with the
reason.

A linter counts only if it did its work: its exit status says so, and it finds the planted code in the tree's first and
last file. `files` is the number of files that it reports to have checked, if it does: TorchFix checks only
files that contain the word torch.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from corpus import DEFAULT_CORPUS, python_files
from linter import CHECKOUT, COMMAND
from processes import cost_of, installed_environment
from speed import BARE_PARSE, TARGET

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ENVIRONMENTS = CHECKOUT / "build" / "peers"
PROJECTS = ("sentence-transformers",)
SAMPLE, SEED = 50, 0
CHEAP, RUNS = 10.0, 3
PLANTED = ("aaa_planted.py", "zzz_planted.py")
PLANT = """\
import os

import torch


def train(model, loader, optimizer):
    model.load_state_dict(torch.load("weights.pt"))
    model.cuda()
    losses = []
    for epoch in list([0, 1, 2]):
        for images, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss)
            print(epoch, loss.item())
    return losses
"""


class Peer(NamedTuple):
    """One linter; the fields are those of `peers.toml`."""

    name: str
    version: str
    packages: list[str]
    command: list[str]
    statuses: list[int]
    planted: str
    target: float | None = None
    told: str | None = None


class Left(Exception):
    """A linter has no figure; the message says why."""


class Contender:
    """A measured command, the test that it worked, and the costs of its runs."""

    def __init__(self, peer: Peer, command: Sequence[str]) -> None:
        self.peer = peer
        self.files: int | None = None
        self._command = command
        self._times: list[float] = []

    def run(self, folder: Path) -> None:
        """Run once in the folder; raise Left where it did not do its work."""
        env = {name: value for name, value in installed_environment().items() if name != "PYTHONPATH"}
        ours = self._command[0] == sys.executable
        with tempfile.TemporaryFile() as output:
            cost = cost_of(self._command, folder, None if ours else env, output)
            output.seek(0)
            text = output.read().decode("utf-8", "replace")
        if cost.status not in self.peer.statuses:
            raise Left(f"exit status {cost.status}: {(text.strip().splitlines() or ['it says nothing'])[-1]}")
        for name in PLANTED:
            if self.peer.planted and not finds(self.peer.planted, name, text):
                raise Left(f"it does not find {self.peer.planted} in {name}")
        told = None if self.peer.told is None else re.search(self.peer.told, text)
        self.files = None if told is None else int(told[1])
        self._times.append(cost.cpu)

    @property
    def runs(self) -> int:
        """How often it was run."""
        return len(self._times)

    @property
    def cpu(self) -> float:
        """The median of the runs, in seconds."""
        return statistics.median(self._times)


def finds(planted: str, name: str, text: str) -> bool:
    """Whether the text reports the planted code of a file: soon after the file's name, on its line or below it."""
    stem = re.escape(name.removesuffix(".py"))
    return any(planted in text[match.end() : match.end() + 400] for match in re.finditer(rf"\b{stem}\b", text))


def peers() -> list[Peer]:
    """The linters of `peers.toml`, in their order."""
    listed = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))["peer"]
    return [Peer(**entry) for entry in listed]


def installed(peer: Peer, below: Path) -> Path:
    """The folder of programs in the linter's environment, rebuilt if its packages changed; may raise Left."""
    place = below / re.sub(r"\W+", "-", peer.name.lower())
    made_of = "\n".join([sys.version, *peer.packages])
    stamp = place / "made-of"
    if not stamp.is_file() or stamp.read_text("utf-8") != made_of:
        pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        for command in ([sys.executable, "-m", "venv", "--clear", str(place)], [*pip, *peer.packages]):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [done.stderr.strip()]
                raise Left(f"not installed: {said[-1]}")
        stamp.write_text(made_of, encoding="utf-8")
    return place / "bin"


def lay_out(corpus: Path, projects: Sequence[str], sample: int, folder: Path) -> None:
    """Copy the projects' Python files and the sample of torch's, and plant the files that every linter must report."""
    folder.mkdir()
    of_torch = python_files(corpus / "torch")
    chosen = [path for name in projects for path in python_files(corpus / name)]
    for path in chosen + random.Random(SEED).sample(of_torch, min(sample, len(of_torch))):
        target = folder / path.relative_to(corpus)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    for name in PLANTED:
        (folder / name).write_text(PLANT, encoding="utf-8")
    (folder / "pyproject.toml").touch()  # the project's root


def contenders(wanted: Sequence[Peer], scratch: Path, folder: Path) -> Iterator[Contender]:
    """The bare parse, this linter, and the peers that can be run; the others are named."""
    listed = scratch / "files.txt"
    listed.write_text("\n".join(map(str, python_files(folder))), encoding="utf-8")
    parse = Peer("bare libcst parse", metadata.version("libcst"), [], [], [0], "")
    yield Contender(parse, [sys.executable, "-c", BARE_PARSE, str(listed)])
    ours = Peer("torchperf-lint", "this checkout, all rules", [], [], [0, 2], "TPL702")
    options = ["--select=ALL", "--no-cache", "-j1", "--output-format=concise", "."]
    yield Contender(ours, [*COMMAND, *options])
    for peer in wanted:
        try:
            programs = installed(peer, ENVIRONMENTS)
        except Left as reason:
            print(f"{peer.name}: {reason}", flush=True)
            continue
        yield Contender(peer, [str(programs / peer.command[0]), *peer.command[1:]])


def measure(all_of_them: Sequence[Contender], folder: Path) -> list[Contender]:
    """Run each contender, cheap ones several times; returns those that did their work, and names the others."""
    working = []
    for each in all_of_them:
        try:
            each.run(folder)
            working.append(each)
        except Left as reason:
            print(f"{each.peer.name}: {reason}", flush=True)
    for _ in range(RUNS - 1):
        for place, each in enumerate(working):
            if place < 2 or each.cpu < CHEAP:
                each.run(folder)
    return working


def report(measured: Sequence[Contender]) -> None:
    """Print the table."""
    base, ours = measured[0].cpu, measured[1].cpu
    print(f"{'':<20}{'':<26}{'files':>6}{'CPU s':>9}{'runs':>6}{'/ parse':>9}{'/ linter':>10}{'target':>8}")
    for each in measured:
        peer, target = each.peer, ""
        if each is measured[1]:
            target = f"{'<= ' + str(TARGET):>8}  {'met' if ours / base <= TARGET else 'missed'}"
        elif peer.target is not None:
            target = f"{'>= ' + str(peer.target):>8}  {'met' if each.cpu / ours >= peer.target else 'missed'}"
        files = "" if each.files is None else each.files
        figures = f"{files:>6}{each.cpu:>9.2f}{each.runs:>6}{each.cpu / base:>9.2f}{each.cpu / ours:>10.2f}{target}"
        print(f"{peer.name:<20}{peer.version:<26}{figures}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, default=DEFAULT_CORPUS, metavar="DIR", help="where the projects lie")
    parser.add_argument("--projects", nargs="*", default=PROJECTS, metavar="NAME", help="those that the tree holds")
    parser.add_argument("--sample", type=int, default=SAMPLE, metavar="N", help=f"files of torch (default {SAMPLE})")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="these linters only; none: only this one")
    options = parser.parse_args()
    wanted = [peer for peer in peers() if options.only is None or peer.name in options.only]
    with tempfile.TemporaryDirectory() as place:
        scratch = Path(place).resolve()
        folder = scratch / "tree"
        lay_out(options.corpus, options.projects, options.sample, folder)
        files = python_files(folder)
        size = sum(path.stat().st_size for path in files) / 1e6
        names = " and ".join([*options.projects, f"{options.sample} files of torch"])
        print(f"{len(files)} files, {size:.1f} MB: {names}", flush=True)
        report(measure(list(contenders(wanted, scratch, folder)), folder))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
