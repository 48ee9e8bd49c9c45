"""`torchperf-lint profile`: a trace from the user's own GPU, its waits compared with the findings in its files."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_lint.config import BadConfig
from torchperf_lint.profile import text
from torchperf_lint.profile.checkout import Checkout
from torchperf_lint.profile.frames import is_of_tracer, parse, parse_stack
from torchperf_lint.profile.places import Places
from torchperf_lint.profile.reading import BadTrace, events
from torchperf_lint.profile.recording import record
from torchperf_lint.profile.summary import Summary, join_with, measure
from torchperf_lint.profile.waits import waits
from torchperf_lint.report import Context, opening
from torchperf_lint.verify.report import prepare
from torchperf_lint.verify.sources import Linter, Sources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torchperf_lint.profile.frames import Frame
    from torchperf_lint.profile.recording import Recording

STANDARD_INPUT = "-"

CLEAN, FOUND, FAILED = 0, 1, 2

_DESCRIPTION = """\
Read a trace that torch.profiler has exported, and print how long each line makes the host wait per step, the longest
first, with what the linter finds there. Needs no torch."""

_EPILOG = """\
To record one:
  with torch.profiler.profile(with_stack=True) as profiler:
      for batch in loader:
          ...
          profiler.step()
  profiler.export_chrome_trace("trace.json.gz")
A trace names functions and not lines. The line is printed where only one line of the function makes the waiting call.

Exit status: 0 no waits and no findings, 1 there are some, 2 the trace, or a file that it ran, cannot be read."""


def main(arguments: Sequence[str]) -> int:
    """Run the command; return the exit status."""
    options = command_parser().parse_args(arguments)
    name = "standard input" if options.trace == STANDARD_INPUT else options.trace
    if not os.path.isdir(options.root):
        return _complain(f"{options.root}: there is no such folder")
    try:
        recording = _recording(options.trace)
    except BadTrace as error:
        return _complain(f"{name}: {error}")
    except OSError as error:
        return _complain(f"{name}: it cannot be read: {error.strerror or error}")
    if options.report is not None:
        try:
            prepare(options.report)
        except OSError as error:
            return _complain(f"{options.report}: the report cannot be written: {error.strerror}")
    try:
        summary, failures = _summary(recording, options.root)
    except BadConfig as error:
        return _complain(str(error.failure))
    for failure in failures:
        print(opening(failure), file=sys.stderr)
    context = Context(_read)
    _print(name, summary, context, options.output_format)
    if options.report is not None:
        from torchperf_lint.profile import page

        print(f"wrote {page.write(name, summary, context, options.report)}", file=sys.stderr)
    if failures:
        return FAILED
    return FOUND if summary.found or summary.not_seen else CLEAN


def command_parser() -> argparse.ArgumentParser:
    """The parser of the command's arguments."""
    parser = argparse.ArgumentParser(
        prog="torchperf-lint profile",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("trace", metavar="TRACE", help="a Chrome trace, .json or .json.gz, or - for standard input")
    add(
        "--root",
        default=".",
        metavar="DIR",
        help="the folder of the files that the trace names (default: the current one)",
    )
    add("--output-format", choices=("text", "json"), default="text", help="the output's format (default text)")
    add("--report", type=Path, metavar="DIR", help="also write report.html into this folder")
    return parser


def _recording(trace: str) -> Recording:
    if trace != STANDARD_INPUT:
        with open(trace, "rb") as file:
            return record(events(file))
    if sys.stdin is None:  # closed by the parent process
        raise BadTrace("it is closed")
    return record(events(sys.stdin.buffer))  # type: ignore[arg-type] # it is buffered unless it is replaced


def _summary(recording: Recording, root: str) -> tuple[Summary, list[str]]:
    """The summary of the trace, and the files that cannot be linted."""
    frames = set(_frames(recording))
    checkout = Checkout(root, frames)
    found = waits(recording)
    exact = not recording.frames and not any(map(is_of_tracer, recording.texts))
    places = Places(checkout, recording.threads, exact)
    measured, outside = measure(recording, found, places)
    ran = {files[0] for frame in frames if len(files := checkout.files(frame)) == 1}
    findings, failures = Linter(_sources(ran, root)).findings() if ran else ([], [])
    lines, not_seen = join_with(measured, findings)
    steps = recording.steps
    mean = sum(step.end - step.start for step in steps) / len(steps) / 1000 if steps else 0.0
    return Summary(len(steps), mean, outside, recording.has_runtime, bool(frames), lines, not_seen), failures


def _sources(files: Iterable[str], root: str) -> Sources:
    """The files as parts of the project at a folder, without a script."""
    return Sources(os.path.join(root, "__main__.py"), dict.fromkeys(files, ""), {})


def _frames(recording: Recording) -> Iterator[Frame]:
    """All frames in a trace, waiting or not."""
    for each in recording.texts:
        for name in (each, *parse_stack(each)) if ";" in each else (each,):
            frame = parse(name)
            if frame is not None:
                yield frame


def _print(name: str, summary: Summary, context: Context, output_format: str) -> None:
    if output_format == "json":
        from torchperf_lint.profile import json

        print(json.render(name, summary, context))
        return
    for line in text.render(name, summary, context):
        print(line)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _complain(line: str) -> int:
    print(f"torchperf-lint profile: error: {opening(line)}", file=sys.stderr)
    return FAILED
