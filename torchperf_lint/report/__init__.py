"""One module per output format, each with `render(diagnostics, context)`, a stream of lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Safety

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_lint.engine.findings import Diagnostic


class Context(NamedTuple):
    """What reporters may know beside the diagnostics."""

    read: Callable[[str], bytes]  # the bytes of a file that was linted; raises OSError where it has gone
    colour: bool = False
    unsafe: bool = False  # whether --unsafe-fixes is given

    def fixable(self, diagnostic: Diagnostic) -> bool:
        """Whether `--fix` would repair it under the present options."""
        if diagnostic.fix is None:
            return False
        return diagnostic.fix.safety is Safety.SAFE or (self.unsafe and diagnostic.fix.safety is Safety.UNSAFE)


_ANSI = {"bold": "1", "dim": "2", "red": "31", "green": "32", "cyan": "36", "blue": "34"}


def paint(text: str, style: str, context: Context) -> str:
    """`text` in a style of the small table above, or as it is where colours are off."""
    return f"\x1b[{_ANSI[style]}m{text}\x1b[0m" if context.colour and text else text


def printable(text: str) -> str:
    """`text` with tabs as four spaces and every control character replaced, so that it cannot steer a terminal.

    Nor can it steer Azure Pipelines, which looks for commands anywhere in a line.
    """
    if not text.isprintable():
        text = "".join(each if each.isprintable() else _REPLACED for each in text.replace("\t", "    "))
    return _AZURE.sub(rf"\1{_REPLACED}", text) if "##" in text else text


def opening(text: str) -> str:
    """`text`, a path or what begins with one, printable at the beginning of a line.

    There GitHub and Azure would take `::error` and `##[error]` for commands, also behind blanks.
    """
    text = printable(text)
    return f"./{text}" if text.lstrip().startswith(("::", "##")) else text


_REPLACED = "\N{REPLACEMENT CHARACTER}"
_AZURE = re.compile(r"(?i)(##vso)(?=\[)")


def headline(diagnostic: Diagnostic, context: Context) -> str:
    """`path:row:column: CODE [*] message`; the star says that `--fix` would repair it."""
    place = f"{paint(opening(diagnostic.path), 'bold', context)}:{diagnostic.row}:{diagnostic.column}:"
    star = f" {paint('[*]', 'cyan', context)}" if context.fixable(diagnostic) else ""
    return f"{place} {paint(diagnostic.code, 'red', context)}{star} {printable(diagnostic.message)}"
