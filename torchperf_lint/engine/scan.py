"""The prefilter: which rules can fire in a file, from its bytes before parsing."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import ACCELERATOR_TRIGGERS, FEEDS_METRICS, METRIC_TRIGGERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_lint.engine.declare import Rule

    Tokens = tuple[bytes, ...]


def rules_worth_running(
    data: bytes, rules: Sequence[Rule], *, accelerated: bool = False, metrics: bool = False
) -> list[Rule]:
    """The rules whose triggers all occur in the file's bytes.

    With `accelerated` the file needs no accelerator token, because it uses another file that has one. With `metrics` it
    needs no torchmetrics token if it may feed a metric, because the metric is from another file.
    """
    text = _text(data)
    metrics = metrics and text.holds_any(FEEDS_METRICS)
    elsewhere: set[Tokens] = {ACCELERATOR_TRIGGERS} if accelerated else set()
    if metrics:
        elsewhere.update(each for rule in rules for each in rule.triggers if METRIC_TRIGGERS.issuperset(each))
    triggered = []
    for rule in rules:
        for alternatives in rule.triggers:
            if alternatives not in elsewhere and not text.holds_any(alternatives):
                break
        else:
            triggered.append(rule)
    return triggered


class _Text:
    """A file's bytes and its distinct words: many tokens are searched for, and most files repeat their words."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._words = b"\n".join(set(_WORD.findall(data)))
        self._known: dict[Tokens, bool] = {}

    def holds_any(self, tokens: Tokens) -> bool:
        """Whether one of the tokens occurs, also as part of a word."""
        answer = self._known.get(tokens)
        if answer is None:
            answer = self._known[tokens] = any(map(self._holds, tokens))
        return answer

    def _holds(self, token: bytes) -> bool:
        for word in _words_of(token):
            if word not in self._words:
                return False
        return token in self._words or token in self._data


@functools.cache
def _words_of(token: bytes) -> list[bytes]:
    return _WORD.findall(token)


_WORD = re.compile(rb"[A-Za-z0-9_\x80-\xff]+")
_text = functools.lru_cache(maxsize=1)(_Text)
