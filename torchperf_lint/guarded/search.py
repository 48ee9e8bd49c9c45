"""The search for what breaks: by halves, first over groups, then within a group that does not pass as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Item = TypeVar("Item")


class Search(Generic[Item]):
    """What of some items passes together.

    `kept` has passed as it is, or is empty. Each of `broken` fails together with the items that were kept when it was
    found; `untested` is left where the test had been asked `most` times.
    """

    def __init__(self, passes: Callable[[Sequence[Item]], bool], most: int) -> None:
        self._passes = passes
        self._left = most
        self.kept: list[Item] = []
        self.broken: list[Item] = []
        self.untested: list[Item] = []

    def add(self, groups: Sequence[Sequence[Item]], *, fails: bool = False) -> bool:
        """Keep as many of the items as pass together with what is kept; return whether that is all of them.

        `fails`: all of them together are known to fail.
        """
        together = [item for group in groups for item in group]
        if not together:
            return True
        if not fails:
            if not self._left:
                self.untested += together
                return False
            self._left -= 1
            if self._passes([*self.kept, *together]):
                self.kept += together
                return True
        if len(together) == 1:
            self.broken += together
            return False
        parts = groups if len(groups) > 1 else [[item] for item in together]
        half = len(parts) // 2
        whole = self.add(parts[:half])
        self.add(parts[half:], fails=whole)
        return False
