"""Profiles a cold run on a folder: CPU seconds of each package of the linter.

The linter runs in this process, on one core, without a cache and with all rules. A timer interrupts it every few
milliseconds of CPU time; the time since the last interrupt counts for the innermost frame in one of our packages,
in libcst or in `ast.parse`, so that time in Python's own library is its caller's. The collector's time is
measured by its own callbacks. An interrupt costs some microseconds, which hardly changes the run.

Each package's time is also given relative to a bare `libcst.parse_module` of the same files.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import os
import signal
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from linter import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, FrameType

STARTED = time.process_time()
EVERY = 0.002

PACKAGES = {
    "engine.files": "finding and reading files",
    "engine.project_root": "finding and reading files",
    "engine.project_snapshot": "finding and reading files",
    "engine.scan": "words that wake rules",
    "model.project.file_symbols": "facts of each file",
    "model.project": "links between files",
    "model.program": "links between files",
    "model.loaded_files": "links between files",
    "model.syntax": "index and slices",
    "model.analyzed_file": "index and slices",
    "model.domain": "values",
    "model.callgraph": "call graph",
    "model.values": "values",
    "model.frequency": "frequency",
    "model.loaders": "loaders",
    "model": "the model's questions",
    "idioms": "idioms",
    "rules": "rules",
    "syntax.tree": "walks over trees",
    "syntax.site": "libcst",
    "syntax.edits": "libcst",
    "syntax.shape": "libcst",
    "report": "report",
    "": "the rest: engine, command line",
}
START, IMPORTS, PARSE, LIBCST, COLLECTOR = "Python's start", "imports", "ast.parse", "libcst", "garbage collector"
ORDER = list(dict.fromkeys([START, IMPORTS, COLLECTOR, PARSE, *PACKAGES.values()]))


class Clock:
    """Counts CPU seconds by package and by function while it runs."""

    def __init__(self) -> None:
        self.packages: defaultdict[str, float] = defaultdict(float, {START: STARTED})
        self.functions: defaultdict[str, float] = defaultdict(float)
        self.samples = 0
        self._last = time.process_time()
        self._collecting = self._collected = 0.0
        self._known: dict[CodeType, str | None] = {}

    def start(self) -> None:
        """Start counting."""
        signal.signal(signal.SIGPROF, self._interrupted)
        gc.callbacks.append(self._collector)
        signal.setitimer(signal.ITIMER_PROF, EVERY, EVERY)

    def stop(self) -> None:
        """Stop counting."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        gc.callbacks.remove(self._collector)

    def _collector(self, phase: str, _: object) -> None:
        if phase == "start":
            self._collecting = time.process_time()
        else:
            self._collected += time.process_time() - self._collecting

    def _interrupted(self, _: int, frame: FrameType | None) -> None:
        now = time.process_time()
        passed, collected = now - self._last, self._collected
        self._last, self._collected = now, 0.0
        self.samples += 1
        package, function = self._place(frame)
        self.packages[package] += passed - collected
        self.packages[COLLECTOR] += collected
        self.functions[f"{package}: {function}"] += passed - collected

    def _place(self, frame: FrameType | None) -> tuple[str, str]:
        """The package of the innermost frame that has one, and the name of its function; imports take precedence."""
        found = None
        while frame is not None:
            code = frame.f_code
            if code not in self._known:
                self._known[code] = package_of(code)
            package = self._known[code]
            if package == IMPORTS:
                return IMPORTS, "import"
            if found is None and package is not None:
                name = f"{Path(code.co_filename).stem}.{getattr(code, 'co_qualname', code.co_name)}"
                found = package, name
            frame = frame.f_back
        return found or (PACKAGES[""], "?")


def package_of(code: CodeType) -> str | None:
    """The package that a function's own time counts for; None: its caller's."""
    file = code.co_filename
    if file.startswith("<frozen importlib"):
        return IMPORTS
    if file == getattr(sys.modules.get("ast"), "__file__", None):
        return PARSE if code.co_name == "parse" else None
    place = file.replace(os.sep, "/")
    if "/libcst/" in place:
        return LIBCST
    ours = f"{CHECKOUT.as_posix()}/torchperf_lint/"
    if not place.startswith(ours):
        return None
    module = place.removeprefix(ours).removesuffix(".py").replace("/", ".")
    key = max((key for key in PACKAGES if key == "" or f"{module}.".startswith(f"{key}.")), key=len)
    return PACKAGES[key]


def lint(folder: Path) -> Clock:
    """Run the linter on the folder, as its command does."""
    sys.path.insert(0, str(CHECKOUT))
    os.chdir(folder)
    options = ["--isolated", "--select=ALL", "--no-cache", "-j1", "--quiet", "--output-format=concise", "."]
    sys.argv[:] = ["torchperf-lint", *options]
    clock = Clock()
    from torchperf_lint.syntax import recursion

    # Signals interrupt the main thread alone, so files are judged in it. Python 3.11 and newer keep its stack small.
    recursion.take_room()
    sys.setrecursionlimit(recursion.FRAMES)
    clock.start()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        from torchperf_lint.__main__ import run

        run()
    clock.stop()
    return clock


def report(clock: Clock, parse: float, functions: int) -> None:
    """Print the packages and the most expensive functions; `parse` is the time of a bare parse."""
    total = sum(clock.packages.values())
    print(f"{'room':<36}{'CPU s':>9}{'share':>8}{'/ parse':>9}")
    for package in ORDER:
        seconds = clock.packages[package]
        print(f"{package:<36}{seconds:>9.2f}{seconds / total:>8.1%}{seconds / parse:>9.3f}")
    print(f"{'all':<36}{total:>9.2f}{1:>8.1%}{total / parse:>9.3f}  {clock.samples:,} samples")
    for name, seconds in sorted(clock.functions.items(), key=lambda each: -each[1])[:functions]:
        print(f"{seconds:>9.2f}{seconds / total:>8.1%}  {name}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what is linted")
    parser.add_argument("--sample", type=int, metavar="N", help="N files of it, drawn as speed.py draws them")
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="the N functions that take most, too")
    options = parser.parse_args(arguments)
    from corpus import python_files  # imported late: not part of the linter's start
    from speed import bare_parse, sampled

    with tempfile.TemporaryDirectory() as scratch:
        folder: Path = options.folder.resolve()
        if options.sample is not None:
            folder = sampled(folder, options.sample, Path(scratch))
        files = python_files(folder)
        parse = bare_parse(folder, 3, Path(scratch))
        print(f"{len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.1f} MB; bare parse {parse:.2f}")
        report(lint(folder), parse, options.functions)
        os.chdir(CHECKOUT)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
