"""Counts the work of a cold run on a fixed set of files, and compares it with the counts in `work.tsv`.

Counted are the calls of the linter's own functions, by package, and the parsed bytes. No clock is read: the
counts are the same in every run, on any machine, and under Python 3.10 to 3.12; under 3.13 they differ by a
thousandth. So they distinguish a change that makes the linter do more from a busy machine. They do not show how long
a call takes; `speed.py` does.

More than 1.05 times the stored total is too much; so is 1.25 times in one package, which another package's gain must
not hide. Less than 0.85 times must be stored with `--bless`, or it could be lost again unseen.
"""

from __future__ import annotations

import argparse
import ast
import cProfile
import importlib
import os
import pkgutil
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linter import CHECKOUT
from where import IMPORTS, PARSE, package_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import CodeType

KEPT = Path(__file__).with_suffix(".tsv")
FIXTURES = CHECKOUT / "fixtures"
CASES = """
base_trainer containers gan ignite_engine images_in_workers loaders look_alikes metric_update metrics_from_elsewhere
micro_batches package_helper registries
"""
MOST, MOST_OF_ROOM, LEAST = 1.05, 1.25, 0.85
ALL, PARSED, PARSED_BY_LIBCST = "all calls", "bytes parsed by ast", "bytes parsed by libcst"


def lay_out(folder: Path) -> None:
    """Copy the set of files: the workloads and some projects of the fixtures, without fixed texts."""
    places = [FIXTURES / "workloads", *(FIXTURES / "projects" / case for case in CASES.split())]
    for path in (path for place in places for path in sorted(place.rglob("*.py"))):
        if not path.stem.endswith((".fixed", ".unsafe")):
            target = folder / path.relative_to(FIXTURES)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    (folder / "pyproject.toml").touch()  # the project's root


def counted(folder: Path) -> dict[str, int]:
    """Lint the folder as one project, with all rules, and count."""
    sys.path.insert(0, str(CHECKOUT))
    import libcst

    from torchperf_lint.engine import registry
    from torchperf_lint.engine.project import check_paths
    from torchperf_lint.knowledge.hints import Hints
    from torchperf_lint.knowledge.versions import Target
    from torchperf_lint.syntax.recursion import with_room

    # Imports and cached declarations are not work of this run.
    for found in pkgutil.walk_packages([str(CHECKOUT / "torchperf_lint")], "torchperf_lint."):
        if not found.name.startswith(("torchperf_lint.verify", "torchperf_lint.__main__")):
            importlib.import_module(found.name)
    os.chdir(folder)
    rules = registry.select(["ALL"])
    parsed: Counter[str] = Counter()
    for module, name, row in ((ast, "parse", PARSED), (libcst, "parse_module", PARSED_BY_LIBCST)):
        setattr(module, name, _measuring(getattr(module, name), parsed, row))
    profile = cProfile.Profile()

    def run() -> None:
        profile.enable()
        for result in check_paths(["."], lambda _: rules, Target(), Hints(), jobs=1, own_versions=False):
            if result.report.failure is not None:
                raise SystemExit(str(result.report.failure))
        profile.disable()

    with_room(run)  # a profile sees one thread only, and this is the one that files are judged in
    calls: Counter[str] = Counter()
    for entry in profile.getstats():
        package = None if isinstance(entry.code, str) else _own_package(entry.code)
        if package is not None:
            calls[package] += entry.callcount
    return {**dict(sorted(calls.items())), ALL: sum(calls.values()), **parsed}


def _own_package(code: CodeType) -> str | None:
    """The package of a function of ours; None for everything that differs between versions of Python and libcst."""
    file = code.co_filename.replace(os.sep, "/")
    if code.co_name.startswith("<") or "/libcst/" in file or file.endswith("/engine/declarations.py"):
        return None
    package = package_of(code)
    return None if package in (IMPORTS, PARSE) else package


def _measuring(parse: Any, parsed: Counter[str], row: str) -> Any:
    def measured(source: str | bytes, *arguments: Any, **options: Any) -> Any:
        parsed[row] += len(source)
        return parse(source, *arguments, **options)

    return measured


def kept() -> dict[str, int]:
    """The stored counts."""
    rows = (line.split("\t") for line in KEPT.read_text("utf-8").splitlines())
    return {name: int(count) for name, count in rows}


def complaints(before: Mapping[str, int], now: Mapping[str, int]) -> list[str]:
    """The complaints about counts, compared with the stored ones."""
    said = []
    for row in sorted({*before, *now}):
        old, new = before.get(row, 0), now.get(row, 0)
        whole = row in (ALL, PARSED, PARSED_BY_LIBCST)
        # A package that does little in all may double its work.
        slack = 0 if whole else 0.01 * before.get(ALL, 0)
        if new > old * (MOST if whole else MOST_OF_ROOM) + slack:
            said.append(f"{row}: {new:,} instead of {old:,}, that is too much")
        elif whole and new < old * LEAST:
            said.append(f"{row}: {new:,} instead of {old:,}, keep that with: python benchmarks/work.py --bless")
    return said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bless", action="store_true", help="keep what is counted")
    parser.add_argument("--counts", action="store_true", help="print the counts and nothing else")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve() / "set"
        lay_out(folder)
        now = counted(folder)
        os.chdir(CHECKOUT)
    if options.counts or options.bless:
        text = "".join(f"{row}\t{count}\n" for row, count in now.items())
        print(text, end="")
        if options.bless:
            KEPT.write_text(text, encoding="utf-8")
        return 0
    before = kept()
    print(f"{'':<36}{'kept':>12}{'now':>12}{'ratio':>8}")
    for row in now:
        ratio = now[row] / before[row] if before.get(row) else float("inf")
        print(f"{row:<36}{before.get(row, 0):>12,}{now[row]:>12,}{ratio:>8.3f}")
    said = complaints(before, now)
    for line in said:
        print(line, file=sys.stderr)
    return 1 if said else 0


if __name__ == "__main__":
    raise SystemExit(main())
