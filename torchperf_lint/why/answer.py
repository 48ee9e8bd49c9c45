"""The answer of `why` as plain data: what is known of a row, and what each rule made of it."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torchperf_lint.engine.findings import Because, Diagnostic


class State(enum.Enum):
    """What a rule made of a row."""

    REPORTED = "reported"
    SUPPRESSED = "suppressed"  # a comment silences the finding
    OFF = "off"  # the rule finds something, and is not selected
    SILENT = "silent"


class Cause(enum.Enum):
    """What keeps a rule silent."""

    FREQUENCY = "frequency"  # how often the row runs
    DEVICE = "device"  # where a value is
    MEANING = "meaning"  # what the code around it means
    USE = "use"  # what becomes of the value: another rule is about that
    FORM = "form"  # how the code is written


def silenced_by(row: int, comment: str) -> str:
    """What is said of a finding that a comment silences."""
    return f"`{comment}` in row {row} silences it"


class HowOften(NamedTuple):
    """How often a statement runs.

    `steps` is the evidence that it runs in every step, or, if it is not known to, the way up to the first link that is
    missing, which comes last; both name the file of each row.
    """

    hot: bool
    says: str
    steps: tuple[Because, ...]


class Known(NamedTuple):
    """An expression in the row: its value in words, its device, and the evidence, or where the device was lost."""

    text: str
    row: int
    column: int
    kind: str
    device: str | None  # None where it is not known
    matters: bool  # whether the expression may be a tensor, or may hold or move one
    because: tuple[Because, ...]
    lost: tuple[Because, ...]


class Verdict(NamedTuple):
    """What one rule made of one place in the row, and why.

    `section` is the section of the rule's page that states the condition, `asked` the questions that the rule asked
    about the place, with their answers, the last one last.
    """

    code: str
    name: str
    row: int
    column: int
    text: str  # of the place
    state: State
    says: str
    section: str
    asked: tuple[str, ...]
    cause: Cause | None = None
    even_then: str = ""  # where it is silent for the frequency: what else would keep it silent
    finding: Diagnostic | None = None
    comment: tuple[int, str] | None = None  # the row and the text of the comment that silences it


class StatementAnswer(NamedTuple):
    """What is known of one statement."""

    row: int
    how_often: HowOften
    values: tuple[Known, ...]


class Answer(NamedTuple):
    """All about one row of a file; `notes` say what holds for the whole file or row."""

    path: str
    row: int
    column: int | None
    text: str
    statements: tuple[StatementAnswer, ...]
    verdicts: tuple[Verdict, ...]
    if_hot: tuple[str, ...]  # the rules that would report something if the row ran in every step
    notes: tuple[str, ...]
