"""The command line: `torchperf-lint [check] [PATHS]`, `torchperf-lint explain`, and the other commands."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from typing import TYPE_CHECKING

from torchperf_lint.check import CLEAN, FAILED, complain, described, run
from torchperf_lint.engine import registry
from torchperf_lint.engine.findings import Safety
from torchperf_lint.engine.mishaps import told
from torchperf_lint.engine.plugins import BadPlugin
from torchperf_lint.options import Parser, parsed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TextIO

    from torchperf_lint.engine.declare import Rule

INTERRUPTED, PIPE_CLOSED = 130, 141

_OF_STREAMS = (errno.EBADF, errno.EFBIG, errno.EINVAL, errno.EIO, errno.ENOSPC, errno.ENXIO)
"""Error numbers of streams that cannot be written."""


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
        "server": _server,
        "clean": _clean,
        "check": _check,
        "generate-shell-completion": _completion,
    }
    try:
        try:
            if arguments and arguments[0] in commands:
                return commands[arguments[0]](arguments[1:])
            return _check(arguments, _meant(arguments[0], commands) if arguments else None)
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
    if isinstance(error, BadPlugin):
        return str(error)
    return told({"": error})


def _send_nowhere(stream: TextIO) -> None:
    """Redirect an unwritable stream to the null device: Python flushes it again at exit, and would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _replace_closed_streams() -> None:
    """Replace a closed stdout or stderr, which Python sets to None, by the null device."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for the whole run


def _meant(word: str, commands: Iterable[str]) -> str | None:
    """The command that a word is like which is no file; None where it is a file, or like none."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z-]*", word) or os.path.lexists(word):
        return None
    from difflib import get_close_matches

    near = get_close_matches(word, ("help", "version", *commands), n=1, cutoff=0.7)
    return (f"--{near[0]}" if near[0] in ("help", "version") else near[0]) if near else None


def _check(arguments: Sequence[str], meant: str | None = None) -> int:
    options = parsed(arguments)
    options.meant = meant
    if options.watch:
        from torchperf_lint.watching import watch

        return watch(options)
    return run(options)


def _explain(arguments: Sequence[str]) -> int:
    parser = Parser(prog="torchperf-lint explain", description="Print the page of a rule.")
    parser.add_argument("rule", help="code or name, such as TPL101 or item-in-hot-loop")
    parser.add_argument("--output-format", choices=("text", "json"), default="text")
    options = parser.parse_args(arguments)
    wanted: str = options.rule
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
    if options.output_format == "json":
        import json

        print(
            json.dumps({**(_described_own() if rule is None else _described(rule)), **pages.as_plain(text)}, indent=2)
        )
    elif sys.stdout.isatty():
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
    parser = Parser(
        prog="torchperf-lint rules",
        description="List all rules.",
        epilog="To check a folder with the name rules, write ./rules.",
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


def _server(arguments: Sequence[str]) -> int:
    from torchperf_lint.server import command

    return command.main(arguments)


def _clean(arguments: Sequence[str]) -> int:
    from torchperf_lint import cleaning

    return cleaning.main(arguments)


def _completion(arguments: Sequence[str]) -> int:
    from torchperf_lint.completion import main as generate

    return generate(arguments)


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


def _described_own() -> dict[str, str | bool | None]:
    """What `_described` tells, for the engine's own code."""
    about = described(registry.UNUSED_SUPPRESSION)
    assert about is not None
    return {
        "code": registry.UNUSED_SUPPRESSION,
        "name": registry.UNUSED_SUPPRESSION_NAME,
        "category": about.category,
        "severity": about.severity,
        "loses": None,
        "default": about.default,
        "fix": Safety.SAFE.value,
        "summary": about.summary[:1].lower() + about.summary[1:],
        "torch": None,
        "torchmetrics": None,
    }
