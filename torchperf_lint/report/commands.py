"""The commands to type next: this run again with other options, as a shell reads it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.report import printable
from torchperf_lint.report.ranking import grades, places_to_begin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.report import Context

_FLAGS = frozenset(
    "--statistics --exit-zero --exit-non-zero-on-fix --quiet --no-color --fix --fix-only --show-fixes --diff --watch"
    " --unsafe-fixes".split()
)
_WITH_VALUE = ("--output-format", "--output-file", "--fail-on", "--color")
_SHORT_FLAGS = str.maketrans("", "", "qew")
"""The letters of such flags, which are left out."""


class Command(NamedTuple):
    """A line for the shell, and what it does."""

    line: str
    does: str


def what_is_checked(arguments: Sequence[str]) -> list[str]:
    """The arguments of a run that say what is checked and how, without those about output and fixes."""
    kept: list[str] = []
    left = list(reversed(arguments))
    while left:
        each = left.pop()
        if each == "--":
            return [*kept, each, *reversed(left)]
        if each in _FLAGS or each.startswith(tuple(f"{name}=" for name in _WITH_VALUE)):
            continue
        if each in _WITH_VALUE:
            del left[-1:]
        elif each.startswith("-") and not each.startswith("--") and each != "-":
            _keep_short(each, left, kept)
        else:
            kept.append(each)
    return kept


def _keep_short(argument: str, left: list[str], kept: list[str]) -> None:
    """What is kept of one-letter options in one argument, such as `-qj4`; `j` and `o` take what follows."""
    flags, option, value = re.fullmatch(r"-([^jo]*)([jo]?)(.*)", argument, re.DOTALL).groups()  # type: ignore[union-attr]
    letters = flags.translate(_SHORT_FLAGS) + (option + value if option == "j" else "")
    kept.extend([f"-{letters}"] if letters else [])
    if option == "o" and not value:
        del left[-1:]


def next_commands(found: Sequence[Diagnostic], context: Context) -> list[Command]:
    """What to type next, the most useful command first; none where nothing is found."""
    if not found:
        return []
    head = places_to_begin(found, 1)[0].head
    explain = Command(f"torchperf-lint explain {head.code}", f"says what {head.name} is about")
    if context.again is None:
        return [explain]
    full = _again(["--output-format", "full"], "shows each finding with its evidence and its fix", context)
    counted = grades(found)
    if not context.unsafe and counted["safe"]:
        said = f"shows what {_fixes(counted['safe'], 'safe')} would change; --fix instead of --diff applies them"
        return [_again(["--diff"], said, context), full, explain]
    count = counted["unsafe"] + counted["safe"] * context.unsafe
    if count:
        kind = "safe or unsafe" if counted["safe"] else "unsafe"
        said = f"shows what {_fixes(count, kind)} would change; review that before you use --fix instead of --diff"
        return [_again(["--diff", "--unsafe-fixes"], said, context), full, explain]
    return [full, explain]


def _again(options: Sequence[str], does: str, context: Context) -> Command:
    from shlex import quote

    # The options stand first: a folder called like a command is not taken for it.
    line = " ".join(["torchperf-lint", *map(quote, (*options, *(context.again or ())))])
    return Command(printable(line), does)


def _fixes(count: int, kind: str) -> str:
    return f"{count} {kind} fix{'' if count == 1 else 'es'}"
