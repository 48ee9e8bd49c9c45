"""The trigger scan: which rules can fire in a file at all, told from its bytes before anything is parsed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine.declare import ACCELERATOR_TRIGGERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchperf_lint.engine.declare import Rule


def rules_worth_running(data: bytes, rules: Sequence[Rule], *, accelerated: bool = False) -> list[Rule]:
    """The rules whose trigger tokens all occur in the file's bytes.

    With `accelerated` the file need not speak of an accelerator: another file that does uses it.
    """
    seen: dict[bytes, bool] = {}

    def occurs(token: bytes) -> bool:
        answer = seen.get(token)
        if answer is None:
            answer = seen[token] = token in data
        return answer

    return [
        declared
        for declared in rules
        if all(
            (accelerated and alternatives == ACCELERATOR_TRIGGERS) or any(occurs(token) for token in alternatives)
            for alternatives in declared.triggers
        )
    ]
