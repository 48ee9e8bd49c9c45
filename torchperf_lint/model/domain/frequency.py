"""How often a statement runs: what repeats it in every step, and the words for that in messages."""

from __future__ import annotations

import ast
import enum
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torchperf_lint.engine.findings import Because

Loop = ast.For | ast.AsyncFor | ast.While
_EVALUATES = re.compile(
    r"(^|_)(eval|evaluate|evaluation|valid|validate|validation|val|test|infer|inference|predict|prediction)(_|$)"
)
_TRAINS = re.compile(r"(^|_)(pre|re)?train|Train")


class Frequency(enum.Enum):
    """What repeats a statement."""

    TRAINING_LOOP = enum.auto()
    """A loop with a training step in every pass."""

    EVALUATION_LOOP = enum.auto()
    """A loop over batches whose names indicate an evaluation."""

    ROLLOUT_LOOP = enum.auto()
    """A loop that steps an environment in every pass."""

    BATCH_LOOP = enum.auto()
    """Any other loop over batches."""

    INFERENCE_LOOP = enum.auto()
    """A loop that runs a model on what an earlier pass made, where nothing else is known to repeat the statement."""

    HOOK = enum.auto()
    """A framework calls the function in every step."""

    FUNCTION = enum.auto()
    """The function is called in every step, by configuration or by its callers."""

    SELDOM = enum.auto()
    """Nothing repeats it in every step."""


_LOOPS = {
    Frequency.TRAINING_LOOP: "training loop",
    Frequency.EVALUATION_LOOP: "evaluation loop",
    Frequency.ROLLOUT_LOOP: "rollout loop",
    Frequency.BATCH_LOOP: "batch loop",
    Frequency.INFERENCE_LOOP: "inference loop",
}


_EVALUATING = frozenset({Frequency.EVALUATION_LOOP, Frequency.INFERENCE_LOOP})


class HotPath(NamedTuple):
    """Why a statement runs in every step.

    `loop` is the enclosing batch loop of the same function (None: the function itself is called per step); `frequency`
    says what repeats it, and `because` is the evidence. `function` names the hook or function that is called in every
    step, where no loop in the same function repeats it. `each` names the targets of an inner loop around the statement,
    which then runs several times per step. `only_evaluates`: a framework calls the function in evaluations alone.
    """

    loop: ast.For | ast.AsyncFor | ast.While | None
    frequency: Frequency
    because: tuple[Because, ...]
    function: str = ""
    each: str = ""
    only_evaluates: bool = False

    @property
    def evaluates(self) -> bool:
        """Whether names, the loop, or the framework that calls it indicate that an evaluation repeats it."""
        return self.only_evaluates or self.frequency in _EVALUATING or names_evaluation(self.function)

    @property
    def trains(self) -> bool:
        """Whether names indicate that training repeats it."""
        return self.frequency is Frequency.TRAINING_LOOP or names_training(self.function)

    @property
    def where(self) -> str:
        """When the statement runs, for a message: `on every pass of the training loop`, `in every call of `forward``.

        In a loop over parameters: `for each `p` in every call of `step``.
        """
        return f"for each `{self.each}` {self.step}" if self.each else self.step

    @property
    def step(self) -> str:
        """The same without the inner loop, for a message that mentions that loop itself."""
        preposition = "on every pass of the" if self.frequency in _LOOPS else "in every call of"
        return f"{preposition} {self.repeated}"

    @property
    def repeated(self) -> str:
        """The loop or function that is repeated, for a message: `training loop`, `` `forward` ``."""
        return _LOOPS.get(self.frequency) or f"`{self.function}`"


def names_evaluation(name: str) -> bool:
    """Whether a function or loader of this name belongs to an evaluation."""
    return _EVALUATES.search(name.lower().replace(".", "_")) is not None


def names_training(name: str) -> bool:
    """Whether a function of this name belongs to training: `train_epoch`, `on_train_batch_end`, `pretrain`."""
    return _TRAINS.search(name) is not None


class LoopKind(enum.Enum):
    """BATCH runs once per batch, EPOCH contains batch loops, OTHER is neither."""

    BATCH = "batch"
    EPOCH = "epoch"
    OTHER = "other"


class LoopInfo(NamedTuple):
    """A classified loop, with the evidence for its kind: what the loop shows, and what other loops do.

    `infers` says that a loop of another kind than BATCH runs a model on what an earlier pass made.
    """

    kind: LoopKind
    says: str
    trains: bool
    is_rollout: bool = False
    infers: bool = False
    because: tuple[Because, ...] = ()
