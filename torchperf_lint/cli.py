"""The command line: `torchperf-lint [check] [PATHS]`, `torchperf-lint explain|why|rules|verify|profile`."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import sys
from typing import TYPE_CHECKING

from torchperf_lint import __version__
from torchperf_lint.check import CLEAN, FAILED, STANDARD_INPUT, complain, run
from torchperf_lint.engine import registry
from torchperf_lint.engine.findings import BadConfidence, checked_confidence
from torchperf_lint.engine.mishaps import told
from torchperf_lint.knowledge.versions import BadVersion, Version, parse_version
from torchperf_lint.report import COUNTABLE, FORMATS, printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn, TextIO

    from torchperf_lint.engine.declare import Rule
    from torchperf_lint.engine.findings import Confidence

INTERRUPTED, PIPE_CLOSED = 130, 141

_OF_STREAMS = (errno.EBADF, errno.EFBIG, errno.EINVAL, errno.EIO, errno.ENOSPC, errno.ENXIO)
"""Error numbers of streams that cannot be written."""

_MORE = """\
other commands:
  torchperf-lint explain RULE   the page of a rule, by code or name
  torchperf-lint why FILE:LINE  why a row is reported, or is not
  torchperf-lint rules          the list of all rules
  torchperf-lint verify RULE    run the rule's programs unfixed and fixed, and compare (needs torch)
  torchperf-lint profile TRACE  the waits that torch.profiler has recorded, line by line, beside the findings
  torchperf-lint check PATHS    the same as without `check`

A folder called like a command is linted as ./rules, ./verify and so on.
Exit status: 0 nothing found, 1 findings, 2 the run itself failed.
Where it says "internal error", TORCHPERF_LINT_TRACEBACK=1 in the environment shows where that came from."""


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help of a fixed width: for the terminal's width, argparse loads shutil at every start."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=110)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, whatever the arguments contain."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {printable(message)}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # file names and source lines need not fit the terminal's encoding
            stream.reconfigure(errors="backslashreplace")
    _replace_closed_streams()
    commands = {
        "explain": _explain,
        "why": _why,
        "rules": _rules,
        "verify": _verify,
        "profile": _profile,
        "check": _check,
    }
    try:
        try:
            if arguments and arguments[0] in commands:
                return commands[arguments[0]](arguments[1:])
            return _check(arguments)
        finally:
            sys.stdout.flush()  # not at exit, where a closed pipe could not be handled
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if isinstance(error, OSError):
            _send_nowhere(sys.stdout)
        if isinstance(error, BrokenPipeError):
            return PIPE_CLOSED
        with contextlib.suppress(OSError):  # stderr itself may be unwritable
            complain(f"torchperf-lint: error: {_reason(error)}")
        return FAILED
    finally:
        try:
            sys.stderr.flush()
        except OSError:
            _send_nowhere(sys.stderr)


def _reason(error: Exception) -> str:
    """The message of a run that an error ended; errors of linted files are handled where they are read and written."""
    if isinstance(error, OSError) and error.filename is None:
        if error.errno in _OF_STREAMS:
            return f"the output cannot be written: {error.strerror}"
        if error.errno == errno.ENOENT:  # only the lookup of the current folder has no file name
            return "the current folder is gone"
    return told({"": error})


def _send_nowhere(stream: TextIO) -> None:
    """Redirect an unwritable stream to the null device: Python flushes it again at exit, and would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _replace_closed_streams() -> None:
    """Replace a closed stdout or stderr, which Python sets to None, by the null device."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for the whole run


def _check(arguments: Sequence[str]) -> int:
    parser = _check_parser()
    options = parser.parse_args(arguments)
    options.given = arguments
    if options.stdin_filename is not None and options.paths != [STANDARD_INPUT]:
        parser.error("--stdin-filename names what is read from standard input: it needs the path `-`")
    if options.isolated and options.config is not None:
        parser.error("--isolated reads no configuration file: it cannot stand beside --config")
    if options.jobs is not None and options.executor not in (None, "processes"):
        parser.error("--jobs counts processes of this machine: it cannot stand beside --executor dask=...")
    if options.statistics and options.output_format not in COUNTABLE:
        parser.error(
            f"--statistics is printed as {', '.join(COUNTABLE)}: it cannot stand beside {options.output_format}"
        )
    return run(options)


def _check_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="torchperf-lint",
        description="Find PyTorch performance anti-patterns, and fix them.",
        epilog=_MORE,
        formatter_class=_Help,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "paths", nargs="*", default=["."], metavar="PATH", help="files and folders, or - for standard input (default .)"
    )
    add("--version", action="version", version=f"torchperf-lint {__version__}")

    add = parser.add_argument_group("fixes").add_argument
    add("--fix", action="store_true", help="apply the safe fixes")
    add("--unsafe-fixes", action="store_true", help="count the unsafe fixes in, for --fix and --diff")
    add("--diff", action="store_true", help="show what --fix would change instead of the findings; write nothing")

    add = parser.add_argument_group("rules").add_argument
    selectors = "comma-separated codes, prefixes of codes, names, or ALL"
    add("--select", action="extend", type=_selected, metavar="RULES", help=f"run only these: {selectors}")
    add("--ignore", action="extend", type=_listed, metavar="RULES", default=[], help="leave these out")
    add("--extend-select", action="extend", type=_listed, metavar="RULES", default=[], help="run these as well")
    add(
        "--min-confidence",
        type=_confidence,
        metavar="LEVEL",
        help="report proven findings only, or likely ones as well (default likely)",
    )
    add("--target-torch", type=_version, metavar="VERSION", help="the torch version that the code runs on")
    add("--target-torchmetrics", type=_version, metavar="VERSION", help="the same for torchmetrics")

    add = parser.add_argument_group("files").add_argument
    add("--exclude", action="extend", type=_globs, metavar="GLOBS", default=[], help="leave these files out, too")
    add("--stdin-filename", metavar="PATH", help="what standard input is called in the report")
    add("-j", "--jobs", type=_jobs, metavar="N", help="worker processes (default: as many as are worth it)")
    add(
        "--executor",
        type=_executor,
        metavar="NAME",
        help="who judges them: processes (default), or dask=tcp://HOST:PORT",
    )
    add("--no-cache", action="store_true", help="keep nothing of what was learnt of the project for the next run")
    add("--cache-dir", metavar="DIR", help="where it is kept (default: .torchperf_lint_cache in the project's root)")
    add("--config", metavar="FILE", help="read [tool.torchperf-lint] from this file")
    add("--isolated", action="store_true", help="read no configuration and no requirement files")

    add = parser.add_argument_group("output").add_argument
    add(
        "--output-format",
        choices=tuple(FORMATS),
        default="text",
        metavar="FORMAT",
        help=f"how findings are printed: {', '.join(FORMATS)} (default text)",
    )
    add("-o", "--output-file", type=_file, metavar="FILE", help="write the report into this file, not to stdout")
    add("--statistics", action="store_true", help="print the number of findings per rule instead")
    add("--exit-zero", action="store_true", help="exit with 0 even if there are findings")
    add("-q", "--quiet", action="store_true", help="print the findings and nothing else")
    add("--no-color", action="store_true", help="no colours, as with the environment variable NO_COLOR")
    return parser


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _selected(text: str) -> list[str]:
    # An empty variable in a script must not look like success.
    selectors = _listed(text)
    if not selectors:
        raise argparse.ArgumentTypeError("no rule is named")
    return selectors


def _file(text: str) -> str:
    # As above.
    if not text:
        raise argparse.ArgumentTypeError("no file is named")
    return text


def _globs(text: str) -> list[str]:
    from torchperf_lint.config import checked_globs
    from torchperf_lint.engine.globs import BadGlob

    try:
        return list(checked_globs(_listed(text)))
    except BadGlob as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _confidence(text: str) -> Confidence:
    try:
        return checked_confidence(text)
    except BadConfidence as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _version(text: str) -> Version:
    try:
        return parse_version(text)
    except BadVersion as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _jobs(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"`{text}` is not a number of processes")
    return int(text)


def _executor(text: str) -> str:
    from torchperf_lint.engine.executors import BadExecutor, checked_executor

    try:
        return checked_executor(text)
    except BadExecutor as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _explain(arguments: Sequence[str]) -> int:
    parser = _Parser(prog="torchperf-lint explain", description="Print the page of a rule.")
    parser.add_argument("rule", help="code or name, such as TPL101 or item-in-hot-loop")
    wanted: str = parser.parse_args(arguments).rule
    from torchperf_lint import pages

    rule = registry.find_rule(wanted) or registry.find_rule(wanted.upper()) or registry.find_rule(wanted.lower())
    if wanted.upper() == registry.UNUSED_SUPPRESSION or wanted.lower() == registry.UNUSED_SUPPRESSION_NAME:
        text = pages.UNUSED_SUPPRESSION_PAGE
    elif rule is None:
        return complain(f"torchperf-lint: error: {_no_rule(wanted)}")
    else:
        try:
            text = pages.page_text(rule)
        except (pages.BadPage, OSError) as error:
            return complain(f"torchperf-lint: error: {error}")
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(text))
    else:
        print(text, end="" if text.endswith("\n") else "\n")
    return CLEAN


def _no_rule(wanted: str) -> str:
    near = registry.nearest(wanted)
    hint = f"did you mean `{near}`?" if near else "`torchperf-lint rules` lists them"
    return f"there is no rule `{wanted}`; {hint}"


def _rules(arguments: Sequence[str]) -> int:
    parser = _Parser(
        prog="torchperf-lint rules", description="List all rules.", epilog="A folder called rules is linted as ./rules."
    )
    parser.add_argument("--output-format", choices=("text", "json"), default="text")
    rules = registry.all_rules()
    if parser.parse_args(arguments).output_format == "json":
        import json

        print(json.dumps([_described(rule) for rule in rules], indent=2))
        return CLEAN
    width = max((len(rule.name) for rule in rules), default=0)
    for rule in rules:
        fix = f"fix: {rule.fix.value}" if rule.fix else ""
        print(f"{rule.code}  {rule.name:<{width}}  {'on ' if rule.default else 'off'}  {fix:<11}  {rule.summary}")
    return CLEAN


def _why(arguments: Sequence[str]) -> int:
    from torchperf_lint.why import command

    return command.main(arguments)


def _verify(arguments: Sequence[str]) -> int:
    from torchperf_lint.verify import command

    return command.main(arguments)


def _profile(arguments: Sequence[str]) -> int:
    from torchperf_lint.profile import command

    return command.main(arguments)


def _described(rule: Rule) -> dict[str, str | bool | None]:
    return {
        "code": rule.code,
        "name": rule.name,
        "category": rule.category.name.lower(),
        "severity": rule.severity.value,
        "loses": rule.loses.value if rule.loses else None,
        "default": rule.default,
        "fix": rule.fix.value if rule.fix else None,
        "summary": rule.summary,
        "torch": rule.torch,
        "torchmetrics": rule.torchmetrics,
    }
