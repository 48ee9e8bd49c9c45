"""The stations of a search for what repeats a statement: outwards in its function, then upwards over the calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Unproven
from torchperf_lint.model import bounds

if TYPE_CHECKING:
    import ast

    from torchperf_lint.engine.findings import Because
    from torchperf_lint.model.domain.flows import Handing
    from torchperf_lint.model.frequency import receivers, settings
    from torchperf_lint.model.frequency.branches import Step
    from torchperf_lint.model.syntax.index import FunctionInfo


class Where(NamedTuple):
    """A statement on the way outwards; `leaves` is how the program leaves the surroundings once it gets here."""

    statement: ast.stmt
    leaves: type | None
    ignores_sampling: bool
    infers: bool  # an inference loop repeats what is in it


class Way(NamedTuple):
    """A function on the way from a statement up to what repeats it: the calls so far, the last one first to last.

    `handed` are the calls that must lead to the function, because one of its arguments is what the way has called;
    `asked` are the path conditions on the methods of one object that the way has come through last, and `needed` the
    methods that this object must have.
    """

    function: FunctionInfo
    steps: tuple[Step, ...] = ()
    because: tuple[Because, ...] = ()
    handed: tuple[Handing, ...] = ()
    asked: frozenset[settings.Asked] = frozenset()
    needed: receivers.Needed = frozenset()


def shortened(path: tuple[Because, ...]) -> tuple[Because, ...]:
    """The evidence without the middle of a long path; what is not proven stays."""
    if len(path) <= bounds.MOST_STEPS_SHOWN:
        return path
    middle = (step for step in path[bounds.MOST_STEPS_SHOWN - 2 : -2] if isinstance(step, Unproven))
    return (*path[: bounds.MOST_STEPS_SHOWN - 2], *middle, *path[-2:])
