"""One module per output format, each with `render(diagnostics, context)`, a stream of lines."""

from __future__ import annotations

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
    """`text` with tabs as four spaces and every control character replaced, so that it cannot steer a terminal."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text.replace("\t", "    "))


def headline(diagnostic: Diagnostic, context: Context) -> str:
    """`path:row:column: CODE [*] message`; the star says that `--fix` would repair it."""
    place = f"{paint(printable(diagnostic.path), 'bold', context)}:{diagnostic.row}:{diagnostic.column}:"
    star = f" {paint('[*]', 'cyan', context)}" if context.fixable(diagnostic) else ""
    return f"{place} {paint(diagnostic.code, 'red', context)}{star} {printable(diagnostic.message)}"
