"""What a rule reports and what a reporter prints: frozen data without reference to files or terminals."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torchperf_lint.syntax.site import Site


class Safety(enum.Enum):
    """How far a fix can be trusted.

    SAFE keeps values, dtypes, gradients, the random stream and the order of effects. UNSAFE depends on an
    assumption that the rule's page names. SHOWN is printed as a diff and never written.
    """

    SAFE = "safe"
    UNSAFE = "unsafe"
    SHOWN = "shown"

    @property
    def rank(self) -> int:
        """0 for SAFE, 1 for UNSAFE, 2 for SHOWN: a larger rank is trusted less."""
        return _RANKS[self]

    def at_worst(self, other: Safety) -> Safety:
        """The less trusted of the two grades."""
        return self if self.rank >= other.rank else other


_RANKS = {Safety.SAFE: 0, Safety.UNSAFE: 1, Safety.SHOWN: 2}


class Severity(enum.Enum):
    """ERROR: a wait in every step. WARNING: lost throughput or memory. NOTE: advice."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Because(NamedTuple):
    """One step of the evidence for a finding: a place (1-based row) and what it shows."""

    row: int
    text: str
    path: str | None = None  # None: the file of the finding itself


class Edit(NamedTuple):
    """Replace the bytes [start, end) of the file's UTF-8 text by `content`."""

    start: int
    end: int
    content: bytes


class Fix(NamedTuple):
    """Edits that belong together: all are applied or none."""

    message: str
    safety: Safety
    edits: tuple[Edit, ...]


class Finding(NamedTuple):
    """A rule's report: its site (with the libcst node) and its evidence."""

    site: Site
    because: tuple[Because, ...] = ()
    fix: Fix | None = None
    fields: Mapping[str, str] = {}  # values for the placeholders of the rule's message


class Diagnostic(NamedTuple):
    """A finding as plain data, without tree or source; it crosses processes and reporters print it.

    Rows are 1-based, columns 1-based characters (as ruff counts); `start` and `end` are byte offsets in the
    file's UTF-8 text without its byte-order mark. `noqa_rows` are the first and last row where a `# noqa`
    silences it.
    """

    path: str
    row: int
    column: int
    end_row: int
    end_column: int
    code: str
    name: str
    severity: str
    message: str
    because: tuple[Because, ...]
    fix: Fix | None
    start: int
    end: int
    noqa_rows: tuple[int, int]


class Failure(NamedTuple):
    """A file or a piece of configuration that could not be processed: one line for the user, exit status 2."""

    path: str
    row: int | None
    column: int | None
    reason: str

    def __str__(self) -> str:
        place = self.path
        if self.row is not None:
            place += f":{self.row}"
            if self.column is not None:
                place += f":{self.column}"
        return f"{place}: error: {self.reason}"
