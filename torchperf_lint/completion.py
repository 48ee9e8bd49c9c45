"""`torchperf-lint generate-shell-completion SHELL`: the script that lets a shell complete our options, by shtab."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any

from torchperf_lint.check import CLEAN, complain
from torchperf_lint.engine import registry
from torchperf_lint.options import Parser, check_parser

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = "generate-shell-completion"

_TAKE_FILES = ("--baseline", "--config", "--output-file", "paths", "place", "trace")
_TAKE_FOLDERS = ("--cache-dir", "--root")
_TAKE_RULES = (
    *("--select", "--ignore", "--extend-select", "--fixable", "--unfixable", "--extend-fixable"),
    *("rule", "rules"),
)
_OF_BASH = re.compile(r"(?m)^complete (?=.* -F |-F )")


def main(arguments: Sequence[str]) -> int:
    """Run the command; return the exit status."""
    shell: str = _own_parser().parse_args(arguments).shell
    try:
        import shtab
    except ImportError:
        return complain("torchperf-lint: error: this needs shtab: pip install 'torchperf-lint[completion]'")
    if shell not in shtab.SUPPORTED_SHELLS:
        known = ", ".join(shtab.SUPPORTED_SHELLS)
        return complain(f"torchperf-lint: error: shtab makes no completion for `{shell}`, but for {known}")
    script = shtab.complete(_whole(shtab.FILE, shtab.DIRECTORY), shell=shell)
    # Where no command fits, the word is a path.
    print(_OF_BASH.sub("complete -o default ", script) if shell == "bash" else script)
    return CLEAN


def _own_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog=f"torchperf-lint {NAME}",
        description="Print the script for completion of commands and options in a shell.",
        epilog=f'For bash: eval "$(torchperf-lint {NAME} bash)"',
    )
    parser.add_argument("shell", help="such as bash or zsh")
    return parser


def _whole(files: Any, folders: Any) -> argparse.ArgumentParser:
    """One parser of all commands; `files` and `folders` tell shtab to complete paths."""
    from torchperf_lint.cleaning import command_parser as clean
    from torchperf_lint.profile.command import command_parser as profile
    from torchperf_lint.server.command import command_parser as server
    from torchperf_lint.verify.command import command_parser as verify
    from torchperf_lint.why.command import command_parser as why

    explain = argparse.ArgumentParser(description="the page of a rule")
    explain.add_argument("rule")
    parsers = {
        "check": check_parser(),
        "explain": explain,
        "why": why(),
        "rules": argparse.ArgumentParser(description="the list of all rules"),
        "verify": verify(),
        "profile": profile(),
        "server": server(),
        "clean": clean(),
        NAME: _own_parser(),
    }
    for parser in parsers.values():
        for action in parser._actions:
            _complete(action, files, folders)
    options = check_parser(with_paths=False)
    for action in options._actions:
        _complete(action, files, folders)
    whole = argparse.ArgumentParser(prog="torchperf-lint", parents=[options], add_help=False)
    commands = whole.add_subparsers()
    for name, parser in parsers.items():
        summary = (parser.description or "").partition("\n")[0].rstrip(".")
        commands.add_parser(name, parents=[parser], add_help=False, help=summary)
    return whole


def _complete(action: argparse.Action, files: Any, folders: Any) -> None:
    """Tell shtab how to complete the argument of an option, or a positional argument."""
    names = {*action.option_strings, action.dest}
    if names & {*_TAKE_FILES}:
        action.complete = files  # type: ignore[attr-defined]
    elif names & {*_TAKE_FOLDERS}:
        action.complete = folders  # type: ignore[attr-defined]
    elif names & {*_TAKE_RULES} and action.choices is None:
        rules = registry.all_rules()
        action.choices = [*(rule.code for rule in rules), *(rule.name for rule in rules)]
    elif names & {"--min-severity", "--fail-on"}:
        action.choices = ["error", "warning", "note"]
    elif "--min-confidence" in names:
        action.choices = ["proven", "likely"]
    elif "shell" in names:
        action.choices = ["bash", "zsh", "tcsh", "fish", "powershell"]
