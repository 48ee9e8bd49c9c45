"""Objects that are called like their class: `self.replay_buffer` may be a `RolloutBuffer`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from torchperf_lint.model.syntax.names import last_name

if TYPE_CHECKING:
    import ast

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_FEWEST_LETTERS = 4
_OF_MANY_KINDS = frozenset(
    "args batch block blocks callback callbacks config criterion data dataset decoder encoder engine func function "
    "handler item layer loader logger loss losses manager metric metrics model models module modules network node "
    "object optim optimizer output param params processor profiler queue sampler scaler scheduler self state task "
    "tensor timer tokenizer wrapper writer".split()
)
"""Last words of names that objects of libraries or of unrelated classes have as well."""
_STORES = frozenset({"buffer", "memory", "pool", "queue", "storage"})
"""Last words of classes that a name may leave out."""


def is_named_like(receiver: ast.expr, cls: str) -> bool:
    """Whether the last word of an expression's name is that of the class, perhaps as a plural.

    `self.replay` is called like a `ReplayBuffer` as well.
    """
    word = (last_name(receiver) or "").lower().strip("_").split("_")[-1]
    if len(word) < _FEWEST_LETTERS or not _OF_MANY_KINDS.isdisjoint((word, word.removesuffix("s"))):
        return False
    named = [each.lower() for each in _WORDS.findall(cls)]
    if len(named) > 1 and named[-1] in _STORES and word == named[-2]:
        return True
    return bool(named) and named[-1] in (word, word.removesuffix("s"))
