"""One module per output format, each with `render(diagnostics, context)`, a stream of lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import CellPath, Confidence, Safety

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torchperf_lint.engine.findings import Diagnostic, Failure

FORMATS = {
    "text": "text",
    "full": "full",
    "grouped": "by_path",
    "concise": "concise",
    "summary": "overview",
    "json": "json",
    "json-lines": "json_lines",
    "github": "github",
    "gitlab": "gitlab",
    "junit": "junit",
    "checkstyle": "checkstyle",
    "pylint": "pylint",
    "azure": "azure",
    "rdjson": "rdjson",
    "sarif": "sarif",
    "html": "html",
}
"""The modules of the output formats, by the names that users give."""

FOR_PEOPLE = ("text", "full", "grouped", "concise", "summary")
"""Formats with the number of findings below them."""

WITH_OVERVIEW = ("text", "full", "grouped")
"""Formats with an overview below that, where there are more than MOST_IN_FULL findings."""

MOST_IN_FULL = 20
"""So many findings are a few screens of text; with more, `text` has one line for each."""

COUNTABLE = (*FOR_PEOPLE, "json")
"""Formats that can also hold the number of findings per rule."""

NOT_CHECKED, NOT_CHECKED_NAME = "TPL000", "not-checked"
"""What a file that could not be checked is reported as, in formats that hold such files."""


class Described(NamedTuple):
    """What is said of a rule beside its findings."""

    summary: str
    about: str  # what it does, in some sentences
    page: str  # all of it, as Markdown
    category: str
    severity: str
    default: bool


class Context(NamedTuple):
    """What reporters need beside the diagnostics."""

    read: Callable[[str], bytes]  # the bytes of a linted file; raises OSError where it is gone
    colour: bool = False
    unsafe: bool = False  # whether --unsafe-fixes is given
    failures: Sequence[Failure] = ()  # the files that could not be checked
    describe: Callable[[str], Described | None] = lambda code: None  # a rule by its code
    width: int | None = None  # the columns of the terminal; None where the output is none
    again: Sequence[str] | None = None  # arguments that would check the same files; None: standard input was checked

    def fixable(self, diagnostic: Diagnostic) -> bool:
        """Whether `--fix` with the current options would fix it."""
        if diagnostic.fix is None:
            return False
        return diagnostic.fix.safety is Safety.SAFE or (self.unsafe and diagnostic.fix.safety is Safety.UNSAFE)


_ANSI = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36", "blue": "34"}

_STYLES = {"error": "red", "warning": "yellow", "note": "blue"}


def paint(text: str, style: str, context: Context) -> str:
    """`text` in a style of the table above, unchanged where colours are off."""
    return f"\x1b[{_ANSI[style]}m{text}\x1b[0m" if context.colour and text else text


def printable(text: str) -> str:
    """`text` with tabs as four spaces and every control character replaced, so that it cannot control a terminal.

    It cannot control Azure Pipelines either, which looks for commands anywhere in a line.
    """
    if not text.isprintable():
        text = "".join(each if each.isprintable() else _REPLACED for each in text.replace("\t", "    "))
    return _AZURE.sub(rf"\1{_REPLACED}", text) if "##" in text else text


def opening(text: str) -> str:
    """`text` (a path, or text that begins with one), made printable for the start of a line.

    At the start of a line, GitHub and Azure would take `::error` and `##[error]` for commands, even after blanks.
    """
    text = printable(text)
    return f"./{text}" if text.lstrip().startswith(("::", "##")) else text


_REPLACED = "\N{REPLACEMENT CHARACTER}"
_AZURE = re.compile(r"(?i)(##vso)(?=\[)")


def of_severity(text: str, severity: str, context: Context) -> str:
    """`text` in the colour of a severity."""
    return paint(text, _STYLES[severity], context)


def headline(diagnostic: Diagnostic, context: Context, *, short: bool = False, severity: bool = False) -> str:
    """`path:row:column: CODE [*] message`; the star means that `--fix` would fix it.

    `short` leaves out the path; `severity` puts the finding's severity before the code.
    """
    path = "" if short else f"{paint(opening(diagnostic.path), 'bold', context)}:"
    place = f"{path}{diagnostic.row}:{diagnostic.column}:"
    if severity:
        place += f" {of_severity(diagnostic.severity, diagnostic.severity, context)}"
    star = f" {paint('[*]', 'cyan', context)}" if context.fixable(diagnostic) else ""
    return f"{place} {paint(diagnostic.code, 'red', context)}{star} {printable(diagnostic.message)}"


def worth(diagnostic: Diagnostic) -> str:
    """What a finding costs, and whether it is only likely: `wait per step, likely`; empty where nothing is to say."""
    cost = "" if diagnostic.cost is None else str(diagnostic.cost)
    likely = Confidence.LIKELY.value if diagnostic.confidence is Confidence.LIKELY else ""
    return ", ".join(filter(None, (cost, likely)))


def weighed_message(diagnostic: Diagnostic) -> str:
    """The message with its worth, for formats that have no field of their own for that."""
    said, message = worth(diagnostic), placed_message(diagnostic)
    return f"{message} ({said})" if said else message


def placed_message(diagnostic: Diagnostic) -> str:
    """The message with the cell and its line in front, for formats whose places are those of files."""
    return placed(diagnostic.path, diagnostic.row, diagnostic.message)


def placed(path: str, row: int, text: str) -> str:
    """A text about a row, with the cell and the row in front where the row is that of a cell."""
    return f"cell {path.cell}, line {row}: {text}" if isinstance(path, CellPath) else text
