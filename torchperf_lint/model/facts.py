"""What other files may learn of a file without reading its statements: texts that follow from its text alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.model.frequency.entry_points import OwnEntries, own_entries
from torchperf_lint.model.project.parts import Parts
from torchperf_lint.model.syntax.backward import (
    entries_sent_backward,
    names_sent_backward,
    tensors_sent_backward,
    terms_sent_backward,
)
from torchperf_lint.model.values.host_uses import may_have_other_arrays, shown_on_host

if TYPE_CHECKING:
    from torchperf_lint.knowledge.hints import Hints
    from torchperf_lint.model.syntax.index import Index
    from torchperf_lint.syntax.source import Source


def parts_of(source: Source, hints: Hints, index: Index | None = None, before: Parts | None = None) -> Parts:
    """The parts of a file, which know all its facts, as for `Parts`; raises Unreadable where it cannot be parsed."""
    return Parts(source, _Facts(hints), index, before)


class _Facts:
    """The facts of one file."""

    def __init__(self, hints: Hints) -> None:
        self._hints = hints

    def answer(self, index: Index, fact: str, texts: tuple[str, ...]) -> str:
        """The fact as text; empty where there is no such fact."""
        if fact == "on host":
            return repr(sorted((name, kind.name) for name, kind in shown_on_host(index.module).items()))
        if fact == "other arrays":
            return str(may_have_other_arrays(index))
        if fact == "backward":
            asked = (names_sent_backward, terms_sent_backward, tensors_sent_backward)
            known = [sorted(each(index.module)) for each in asked]
            return repr([*known, sorted(entries_sent_backward(index.module))])
        if fact == "loops":
            return self._entries_of(index, texts).loops_by
        if fact == "entry" and texts:
            entries = self._entries_of(index, texts[1:])
            meant = [function for function, name in entries.name_of.items() if name == texts[0]]
            return entries.entry(meant[0]) if meant else ""
        return ""

    def _entries_of(self, index: Index, steps: tuple[str, ...]) -> OwnEntries:
        return own_entries(index, self._hints.hot_functions, self._hints.loader_names, steps)
