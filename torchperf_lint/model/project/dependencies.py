"""What of the project an answer rests on: files that were opened for it, and questions about all files' facts.

An answer that is kept is kept with its trail, so that whoever is given it later rests on the same as who asked first.
Trails are noted by file: with a file go all questions that were ever asked in its name. That is more than an answer
needs, and never less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Q = TypeVar("_Q")
_R = TypeVar("_R")

Question = tuple[str, ...]
"""A method of Links by name, and what it is asked for."""

_ASKED, _OPENED = 1, 3  # what was asked in its name; that, and its content


class Dependencies(NamedTuple):
    """What the report of one file rests on, besides the file: plain data that crosses processes.

    `opened` are files whose content counts, `asked` those of which only the questions count that were asked in their
    names; `questions` are those that had not been told before, each with the file that it was asked for.
    """

    opened: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    questions: tuple[tuple[str, Question], ...] = ()


class DependencyRecorder:
    """The trail of the answer that is being worked out."""

    def __init__(self) -> None:
        self.here = 0  # two bits for each file
        self.certain = True  # False once something was seen that cannot be told of later: a file that has changed
        self._numbers: dict[str, int] = {}
        self._questions: set[tuple[str, Question]] = set()
        self._untold: list[tuple[str, Question]] = []

    def opened(self, key: str) -> None:
        """Say that the content of a file counts."""
        number = self._numbers.setdefault(key, len(self._numbers))
        self.here |= _OPENED << 2 * number

    def asked(self, key: str, question: Question) -> None:
        """Say that a question was asked in the name of a file."""
        number = self._numbers.setdefault(key, len(self._numbers))
        self.here |= _ASKED << 2 * number
        if (key, question) not in self._questions:
            self._questions.add((key, question))
            self._untold.append((key, question))

    def kept(self, known: dict[_Q, tuple[_R, int]], question: _Q, answer: Callable[[], _R]) -> _R:
        """The answer to a question, worked out once; its trail is kept beside it."""
        found = known.get(question)
        if found is None:
            value, recorder = self.followed(answer)
            known[question] = value, recorder
            return value
        self.here |= found[1]
        return found[0]

    def followed(self, answer: Callable[[], _R]) -> tuple[_R, int]:
        """An answer with its own trail, which is a part of what is being worked out around it."""
        before, self.here = self.here, 0
        try:
            value = answer()
            return value, self.here
        finally:
            self.here |= before

    def begin(self) -> None:
        """Begin with the report of a file."""
        self.here = 0

    def dependencies(self) -> Dependencies | None:
        """What has been rested on since the beginning; None where that cannot be told."""
        if not self.certain:
            return None
        keys = list(self._numbers)
        opened: list[str] = []
        asked: list[str] = []
        bits, number = self.here, 0
        while bits:
            if bits & 3:
                (opened if bits & 3 == _OPENED else asked).append(keys[number])
            bits >>= 2
            number += 1
        questions, self._untold = tuple(self._untold), []
        return Dependencies(tuple(opened), tuple(asked), questions)
