"""The documents for users, and the blocks of commands and outputs in them."""

from __future__ import annotations

import re
import textwrap

from linting import ROOT

README = ROOT / "README.md"
DOCUMENTS = (README, *sorted((ROOT / "docs").glob("*.md")))
ADOPTION = ROOT / "docs" / "adoption.md"

COLUMNS = 80
"""How wide a block of output may be."""


def folded(output: str) -> str:
    """The output with its long lines folded, as documents show it."""
    return "".join(
        textwrap.fill(line, COLUMNS, subsequent_indent=" " * 8, break_long_words=False, break_on_hyphens=False) + "\n"
        if len(line) > COLUMNS
        else f"{line}\n"
        for line in output.splitlines()
    )


BLOCK = re.compile(r"(?P<marker><!-- run.*? -->\n)?```console\n(?P<text>.*?)```\n", re.DOTALL)


def commands(text: str) -> list[str]:
    """What stands behind a prompt, without the comments; not where the output below it is compared."""
    blocks = "".join(block["text"] for block in BLOCK.finditer(text) if not block["marker"])
    return [re.split(r"\s+# ", line)[0].rstrip() for line in re.findall(r"(?m)^\$ (.*)$", blocks)]
