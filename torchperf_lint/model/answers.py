"""Answers that are worked out once, also where questions ask each other in circles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_R = TypeVar("_R")

MOST_WAITING = 30
"""How many questions may wait for one another; the next one gets no answer."""

_NEVER = 1 << 30


class _Circle(BaseException):  # it unwinds through evaluation, which must not take it for an error
    """A question has been asked while it was being answered."""


class Answers:
    """The answers of one world. None depends on which question came first.

    Most questions ask in no circle. Once a circle is met, what was begun is given up, and `everything` is asked in
    an order that is always the same, twice over: in the first round a question that waits for itself gets its
    default, in the second one its answer of the first. What the second round says stands.
    """

    def __init__(self, everything: Callable[[], None]) -> None:
        self._everything = everything
        self._numbers: dict[object, int] = {}
        self._memo: dict[int, tuple[Any, frozenset[int]]] = {}
        self._local: dict[int, tuple[Any, int]] = {}  # answers that hold only until a waiting question is answered
        self._waiting: dict[int, int] = {}
        self._lowest = _NEVER
        self._round: dict[int, Any] | None = None  # while everything is asked: the answers that rest on a guess
        self._guesses: dict[int, Any] = {}
        self._guessed = False
        self._settled = False

    @property
    def depth(self) -> int:
        """How many questions are being answered."""
        return len(self._waiting)

    def rest_on(self, depth: int) -> None:
        """Say that the answers now being worked out hold only until the question at that depth is answered."""
        self._lowest = min(self._lowest, depth)

    def ask(
        self, question: object, compute: Callable[[], _R], default: Callable[[], _R], *, unfinished: bool = False
    ) -> _R:
        """The answer, worked out by `compute` if it is not known.

        A question that waits for itself gets `default()`. If that is what it truly is so far (`unfinished`: a
        module's names, while the module runs), the answers that rest on it hold only as long as it is.
        """
        # Questions hold whole Values: numbers stand for them, for hashing those again and again would cost.
        key = self._numbers.setdefault(question, len(self._numbers))
        known = self._memo.get(key)
        if known is not None and (not known[1] or known[1].isdisjoint(self._waiting)):
            return known[0]  # type: ignore[no-any-return]
        local = self._local.get(key)
        if local is not None:
            self._lowest = min(self._lowest, local[1])
            return local[0]  # type: ignore[no-any-return]
        if self._round is not None and key in self._round:
            self._guessed = True
            return self._round[key]  # type: ignore[no-any-return]
        if key in self._waiting or len(self._waiting) >= MOST_WAITING:
            return self._guess(key, default, unfinished=unfinished)
        if self._waiting or self._round is not None or self._settled:
            return self._work_out(key, compute)
        try:
            return self._work_out(key, compute)
        except _Circle:
            self._settle()
            return self.ask(question, compute, default, unfinished=unfinished)

    def _guess(self, key: int, default: Callable[[], _R], *, unfinished: bool) -> _R:
        """What to go on with for a question that cannot be answered now."""
        if unfinished or self._settled:
            self._lowest = min(self._lowest, self._waiting.get(key, 0))
            return default()
        if self._round is None:
            raise _Circle
        self._guessed = True
        return self._guesses[key] if key in self._guesses else default()

    def _work_out(self, key: int, compute: Callable[[], _R]) -> _R:
        position = len(self._waiting)
        self._waiting[key] = position
        before = self._lowest, self._guessed
        self._lowest, self._guessed = _NEVER, False
        earlier = len(self._local)
        try:
            answer = compute()
            lowest, guessed = self._lowest, self._guessed
        finally:
            del self._waiting[key]
            self._lowest, self._guessed = before
        self._guessed = self._guessed or guessed
        if lowest < position:
            self._local[key] = (answer, lowest)
            self._lowest = min(self._lowest, lowest)
            return answer
        inner = frozenset(self._local.popitem()[0] for _ in range(len(self._local) - earlier))
        if guessed and self._round is not None:
            self._round[key] = answer
        else:
            self._memo[key] = (answer, inner)
        return answer

    def _settle(self) -> None:
        self._local.clear()
        for _ in range(2):
            self._round = {}
            self._everything()
            self._guesses = self._round
        answers = {**{key: answer for key, (answer, _) in self._memo.items()}, **self._guesses}
        self._memo = {key: (answer, frozenset()) for key, answer in answers.items()}
        self._round = None
        self._guesses = {}
        self._settled = True
