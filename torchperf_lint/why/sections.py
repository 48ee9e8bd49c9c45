"""Which section of a rule's page states a condition: the one with the sentence that shares most words with it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from torchperf_lint import pages

if TYPE_CHECKING:
    from torchperf_lint.engine.declare import Rule

_WORD = re.compile(r"[a-z]{3,}")
_COMMON = frozenset(
    "that this the and not are for its with which from where when then there such than them they would could may must "
    "one some any all other shown known whether nothing it's has have been code place rule".split()
)
_LIKELY = ("What it does", "When to leave it")
_FEWEST = 2
"""Words that a sentence must share with a condition to be taken for its statement."""


def section_for(rule: Rule, says: str) -> str:
    """The title of the section; `What it does` where no sentence is like the condition."""
    try:
        sections = pages.parse_page(pages.page_text(rule)).sections
    except (pages.BadPage, OSError):
        return ""
    wanted = _words(says)
    best, score = _LIKELY[0], _FEWEST - 0.5
    for title in _LIKELY:
        for sentence in re.split(r"(?<=\.)\s+|\n- |\n\n", sections.get(title, "")):
            shared = len(wanted & _words(sentence))
            weight = shared + 0.25 * (title == _LIKELY[0])
            if shared >= _FEWEST and weight > score:
                best, score = title, weight
    return best


def _words(text: str) -> set[str]:
    """The words of a text without their endings."""
    return {re.sub(r"(ies|ing|ed|es|s|e)$", "", word) for word in _WORD.findall(text.lower()) if word not in _COMMON}
