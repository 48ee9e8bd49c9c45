"""Measures how long a user waits: whole processes against Python's start, and an editor's check against `ast.parse`.

A process is measured by its user and system time, `--runs` times, in turns with its yardstick: medians, and
their ratio. The command is the one that pip installs, and modules are byte-compiled, as they are from the second run
on. Files are checked anew (`--no-cache`), except the last one, whose report an earlier run stored. The editor is
this process: it knows the project, and each check gets a file of 1,000 lines of which one has just changed.
Then the collector: the same checks with Python's own thresholds, which collect garbage after every 700 objects.
"""

from __future__ import annotations

import argparse
import ast
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from linter import CHECKOUT
from processes import cost_of, medians

if TYPE_CHECKING:
    from collections.abc import Callable

SCRIPT = """\
import sys
from torchperf_lint.__main__ import run
if __name__ == "__main__":
    sys.exit(run())
"""

PLAIN = '''\
"""Adds."""


def add(a: int, b: int) -> int:
    """The sum."""
    return a + b
'''

CLEAN = """\
import torch


def train(model, loader, optimizer):
    for images, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""

AWAKE = """\
import torch

device = torch.device("cuda")


def mean_loss(model, loader):
    model.eval()
    total = torch.zeros((), device=device)
    with torch.no_grad():
        for images, labels in loader:
            images = images.to(device, non_blocking=True)
            labels = labels.to(device, non_blocking=True)
            total += torch.nn.functional.cross_entropy(model(images), labels)
    return total.item() / len(loader)
"""

SLOW = """\
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
    return total
"""

NETWORK = '''

class Network{n}(nn.Module):
    """A residual block and a head."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, padding=1)
        self.head = nn.Linear(width, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = F.relu(self.norm(self.first(images)))
        hidden = hidden + F.relu(self.second(hidden))
        return self.head(hidden.mean((2, 3)))
'''

LOOP = '''

def train_{n}(loader: DataLoader, epochs: int) -> list[float]:
    """Train, and tell the mean loss of each epoch."""
    network = Network{n}(64, 10).to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-4)
    history = []
    for epoch in range(epochs):
        total = torch.zeros((), device=device)
        for images, labels in loader:
            images = images.to(device, non_blocking=True)
            labels = labels.to(device, non_blocking=True)
            loss = F.cross_entropy(network(images), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        history.append(total.item() / len(loader))
        print(f"epoch {{epoch}}: {{history[-1]:.4f}}")
    return history
'''

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

device = torch.device("cuda")
"""


class Case(NamedTuple):
    """A command, the yardstick that it is compared with, and the limit of the ratio."""

    name: str
    command: list[str]
    yardstick: list[str]
    target: float


def long_file(every: int) -> str:
    """A script of 1,000 lines: networks, and a training loop without a finding after every `every`-th of them."""
    parts = [HEAD]
    while sum(part.count("\n") for part in parts) < 1_000:
        n = len(parts)
        parts.append(NETWORK.format(n=n) + (LOOP.format(n=n) if n % every == 0 else ""))
    return "".join(parts)


def cpu_of_process(command: list[str], folder: Path) -> float:
    """CPU seconds of a run on a file, with findings or without."""
    cost = cost_of(command, folder)
    if cost.status not in (0, 1):
        raise SystemExit(f"exit status {cost.status}: {' '.join(command)}")
    return cost.cpu


def report(name: str, base: float, measured: float, target: float | None) -> None:
    ratio = measured / base
    verdict = "" if target is None else f"{target:>8.1f}  {'met' if ratio <= target else 'missed'}"
    print(f"{name:<46}{1000 * base:>11.1f}{1000 * measured:>9.1f}{ratio:>8.2f}{verdict}")


def measure_processes(runs: int, scratch: Path) -> None:
    """The command line, each time in a process of its own."""
    script = scratch / "torchperf-lint"
    script.write_text(SCRIPT, encoding="utf-8")
    command, bare = [sys.executable, str(script)], [sys.executable, "-c", "pass"]
    import_libcst = [sys.executable, "-c", "import libcst"]
    cases = [Case("--version", [*command, "--version"], bare, 2.5)]
    for name, code, yardstick, target, options in (
        ("a small clean file without torch", PLAIN, bare, 5.0, ["--no-cache"]),
        ("a small clean file with torch", CLEAN, bare, 5.0, ["--no-cache"]),
        ("a small clean file with candidates / libcst", AWAKE, import_libcst, 1.5, ["--no-cache"]),
        ("a small file with findings / libcst", SLOW, import_libcst, 1.5, ["--no-cache"]),
        ("  the same, whose report is kept", SLOW, bare, 5.0, []),
    ):
        folder = scratch / f"project{len(cases)}"
        folder.mkdir()
        path = folder / "example.py"
        path.write_text(code, encoding="utf-8")
        cases.append(Case(name, [*command, "--no-color", *options, str(path)], yardstick, target))
    yardsticks = [bare, import_libcst]
    commands = [*yardsticks, *(case.command for case in cases)]
    times = medians([lambda each=each: cpu_of_process(each, scratch) for each in commands], runs)  # type: ignore[misc]
    for case, measured in zip(cases, times[len(yardsticks) :], strict=True):
        report(case.name, times[yardsticks.index(case.yardstick)], measured, case.target)


def checks_of(path: Path) -> tuple[Callable[[], float], Callable[[], float]]:
    """Timed functions that parse the file and check it as an editor does, each with a text that was not seen before."""
    from torchperf_lint.engine import registry
    from torchperf_lint.engine.project_snapshot import Projects
    from torchperf_lint.engine.runner import check_source
    from torchperf_lint.knowledge.hints import Hints
    from torchperf_lint.knowledge.versions import Target

    lines = path.read_bytes().splitlines(keepends=True)
    rules, hints = registry.select(), Hints()
    projects = Projects(hints, None)
    edits = iter(range(10**9))

    def changed() -> bytes:
        return b"".join([*lines, b"changed = %d\n" % next(edits)])

    def parse() -> float:
        data = changed()
        start = time.process_time()
        ast.parse(data)
        return time.process_time() - start

    def check() -> float:
        data = changed()
        start = time.process_time()
        check_source(str(path), data, rules, Target(), hints, program=lambda: projects.around(str(path)))
        return time.process_time() - start

    return parse, check


def measure_editor(runs: int, files: list[tuple[str, Path]]) -> None:
    """A long-running process and a changing file, with the command line's collector settings and with Python's."""
    sys.path.insert(0, str(CHECKOUT))
    from torchperf_lint.engine.executors import calm_collector

    for name, path in files:
        parse, check = checks_of(path)
        with calm_collector():
            base, measured = medians([parse, check], runs)
        report(f"editor: {name}", base, measured, 8.0)
        report("  the collector as Python sets it", *medians([parse, check], runs), None)


def measure_collector(runs: int, scratch: Path) -> None:
    """The command line with the collector as it sets it, and without."""
    path = scratch / "long.py"
    path.write_text(long_file(1), encoding="utf-8")
    arguments = ["--no-color", str(path)]
    untuned = (
        "import contextlib, sys\n"
        "from torchperf_lint.engine import project\n"
        "project.calm_collector = contextlib.nullcontext\n"
        "from torchperf_lint.cli import main\n"
        "sys.exit(main())"
    )
    tuned = "from torchperf_lint.__main__ import run\nrun()"
    both = [[sys.executable, "-c", text, *arguments] for text in (untuned, tuned)]
    without, with_it = medians([lambda each=each: cpu_of_process(each, scratch) for each in both], runs)  # type: ignore[misc]
    report("the same file linted, the collector tuned / not", without, with_it, None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=21, metavar="N", help="runs of each measurement (default 21)")
    parser.add_argument("--file", type=Path, metavar="PATH", help="a file of yours for the editor's check, too")
    options = parser.parse_args()
    print(f"{'CPU milliseconds':<46}{'yardstick':>11}{'linter':>9}{'ratio':>8}{'target':>8}")
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        measure_processes(options.runs, root)
        files = []
        for name, every in (("networks", 1_000), ("networks and 3 loops", 15), ("a loop for each network", 1)):
            project = root / f"editor{every}"
            project.mkdir()
            path = project / "train.py"
            path.write_text(long_file(every), encoding="utf-8")
            files.append((name, path))
        if options.file is not None:
            files.append((options.file.name, options.file))
        measure_editor(options.runs, files)
        measure_collector(options.runs, root)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
