"""The trigger scan: which rules can fire in a file at all, told from its bytes before anything is parsed."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import ACCELERATOR_TRIGGERS, FEEDS_METRICS, METRIC_TRIGGERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_lint.engine.declare import Rule


def rules_worth_running(
    data: bytes, rules: Sequence[Rule], *, accelerated: bool = False, metrics: bool = False
) -> list[Rule]:
    """The rules whose trigger tokens all occur in the file's bytes.

    With `accelerated` the file need not speak of an accelerator: another file that does uses it. With `metrics` it
    need not name torchmetrics or an aggregator, if it may feed one: it has them from another file that does.
    """
    occurs = _text(data).holds
    metrics = metrics and any(map(occurs, FEEDS_METRICS))

    def is_told_elsewhere(alternatives: tuple[bytes, ...]) -> bool:
        return (accelerated and alternatives == ACCELERATOR_TRIGGERS) or (
            metrics and METRIC_TRIGGERS.issuperset(alternatives)
        )

    return [
        declared
        for declared in rules
        if all(
            is_told_elsewhere(alternatives) or any(occurs(token) for token in alternatives)
            for alternatives in declared.triggers
        )
    ]


class _Text:
    """A file's bytes, and each word of them once: many tokens are sought, and most files repeat their words."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._words = b"\n".join(set(_WORD.findall(data)))
        self._known: dict[bytes, bool] = {}

    def holds(self, token: bytes) -> bool:
        """Whether the token occurs, as a part of a word as well."""
        answer = self._known.get(token)
        if answer is None:
            answer = self._known[token] = self._find(token)
        return answer

    def _find(self, token: bytes) -> bool:
        words = _WORD.findall(token)
        if words == [token]:
            return token in self._words
        return all(word in self._words for word in words) and token in self._data


_WORD = re.compile(rb"[A-Za-z0-9_\x80-\xff]+")
_text = functools.lru_cache(maxsize=1)(_Text)
