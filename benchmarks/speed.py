"""Measures the linter's CPU time on torch's sources against a bare `libcst.parse_module` of the same files.

Both are whole processes from start to end, the linter with all rules. Each figure is the median of user plus system
time over some runs. By default a fixed random sample of the sources is used; `--full` uses all of them, which takes
minutes. `latency.py` measures one small file.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from corpus import DEFAULT_CORPUS, python_files
from linter import COMMAND
from processes import median_cpu

SAMPLE, SEED = 300, 0
TARGET = 0.3
FINE = (0, 2)  # 2: files of a newer grammar than the running Python's are complained about

BARE_PARSE = """\
import sys, libcst
for path in open(sys.argv[1], encoding="utf-8").read().splitlines():
    with open(path, "rb") as file:
        code = file.read()
    try:
        libcst.parse_module(code)
    except Exception as error:
        print(path, type(error).__name__, file=sys.stderr)
"""


def report(name: str, base: float, measured: float, target: float) -> None:
    """Print one line: the yardstick, the linter, their ratio and the target."""
    ratio = measured / base
    verdict = "met" if ratio <= target else "missed"
    print(f"{name:<24}{base:>12.3f}{measured:>12.3f}{ratio:>10.2f}{target:>9.1f}  {verdict}")


def sampled(sources: Path, size: int | None, scratch: Path) -> Path:
    """A copy of the sources, or of `size` of them drawn at random, the same each time."""
    files = python_files(sources)
    if not files:
        raise SystemExit(f"there is no Python file below {sources}")
    if size is not None and size < len(files):
        files = sorted(random.Random(SEED).sample(files, size))
    copy = scratch / "sources"
    for path in files:
        target = copy / path.relative_to(sources)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    return copy


def bare_parse(folder: Path, runs: int, scratch: Path) -> float:
    """CPU seconds of a process that only parses the files of a folder with libcst."""
    listed = scratch / "files.txt"
    listed.write_text("\n".join(map(str, python_files(folder))), encoding="utf-8")
    return median_cpu([sys.executable, "-c", BARE_PARSE, str(listed)], runs)


def measure_many(sources: Path, size: int | None, runs: int, scratch: Path) -> None:
    """Lint the sources, or `size` of them, and parse them."""
    copy = sampled(sources, size, scratch)
    base = bare_parse(copy, runs, scratch)
    lint = [*COMMAND, "--select=ALL", "--no-cache", "-j1", str(copy)]
    report(f"{len(python_files(copy))} files of torch", base, median_cpu(lint, runs, fine=FINE), TARGET)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help=f"{SAMPLE} files of torch's sources (the default)")
    size.add_argument("--full", action="store_true", help="all of torch's sources")
    parser.add_argument("--torch", type=Path, metavar="DIR", help="torch's sources (default: those of the corpus)")
    parser.add_argument("--corpus", type=Path, default=DEFAULT_CORPUS, metavar="DIR", help="where the projects lie")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="runs (default 3)")
    options = parser.parse_args()
    print(f"{'CPU seconds':<24}{'yardstick':>12}{'linter':>12}{'ratio':>10}{'target':>9}")
    with tempfile.TemporaryDirectory() as scratch:
        sources = options.torch or options.corpus / "torch"
        measure_many(sources, None if options.full else SAMPLE, options.runs, Path(scratch))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
