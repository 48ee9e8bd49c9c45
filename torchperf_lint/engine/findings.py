"""What a rule reports and what a reporter prints: frozen data without reference to files or terminals."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import ast
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

    @property
    def rank(self) -> int:
        """0 for ERROR, 1 for WARNING, 2 for NOTE: a larger rank matters less."""
        return list(Severity).index(self)

    def at_most(self, other: Severity) -> Severity:
        """The milder of the two."""
        return self if self.rank >= other.rank else other

    def satisfies(self, least: Severity) -> bool:
        """Whether it is at least as severe as `least`."""
        return self.rank <= least.rank


class BadSeverity(ValueError):
    """What a user gives is no severity."""


def checked_severity(level: object) -> Severity:
    """The severity of that name; raise BadSeverity for anything else."""
    names = [each.value for each in Severity]
    if level not in names:
        *first, last = (f"`{name}`" for name in names)
        raise BadSeverity(f"`{level}` is not {', '.join(first)} or {last}")
    return Severity(level)


class Rate(enum.Enum):
    """How often a cost is paid, the costliest first."""

    ELEMENT = "per element"
    """For each token, row, sample or element of a batch."""

    SEVERAL = "several times per step"
    """For each parameter, layer or loss: in a loop inside the step that does not grow with the batch."""

    STEP = "per step"
    SELDOM = "seldom"
    """In every epoch, or in some steps."""

    ONCE = "once"
    """Once per run, or per file that the program reads."""


class Loss(enum.Enum):
    """What a cost consists of, the costliest first."""

    WAIT = "wait"
    """The host waits for the device, and launches nothing meanwhile."""

    HOST = "host work"
    BYTES = "bytes"
    """Memory that is copied, or kept."""

    KERNELS = "kernels"
    """Work of the device that is not needed, or is cut into too many pieces."""


class Cost(NamedTuple):
    """The cost class of a finding."""

    rate: Rate
    loss: Loss

    @property
    def rank(self) -> tuple[int, int]:
        """Ascending from the costliest class."""
        return list(Rate).index(self.rate), list(Loss).index(self.loss)

    def __str__(self) -> str:
        return f"{self.loss.value} {self.rate.value}"


class Confidence(enum.Enum):
    """How well a finding is shown.

    PROVEN: by imports, definitions, values and contracts of frameworks. LIKELY: a step of its evidence is `Unproven`.
    """

    PROVEN = "proven"
    LIKELY = "likely"

    def satisfies(self, least: Confidence) -> bool:
        """Whether a finding of this confidence is wanted where `least` is the least that is."""
        return self is Confidence.PROVEN or least is Confidence.LIKELY


class BadConfidence(ValueError):
    """What a user gives is no level of confidence."""


def checked_confidence(level: object) -> Confidence:
    """The level of that name; raise BadConfidence for anything else."""
    names = [each.value for each in Confidence]
    if level not in names:
        raise BadConfidence(f"`{level}` is not {' or '.join(f'`{name}`' for name in names)}")
    return Confidence(level)


class CellPath(str):
    """A cell of a notebook in the place of a path: `train.ipynb:cell 3`. Cells count from 1, those of text too."""

    __slots__ = ("cell", "file")

    def __new__(cls, file: str, cell: int) -> CellPath:  # noqa: PYI034 - `Self` is in `typing` from Python 3.11 on
        """`file` is the notebook's path."""
        made = super().__new__(cls, f"{file}:cell {cell}")
        made.file = file
        made.cell = cell
        return made

    def __reduce__(self) -> tuple[type[CellPath], tuple[str, int]]:
        return CellPath, (self.file, self.cell)

    file: str
    cell: int


def file_of(path: str) -> str:
    """The file of a path, or of a cell."""
    return path.file if isinstance(path, CellPath) else path


class Because(NamedTuple):
    """One step of the evidence for a finding: a place (1-based row) and what it shows."""

    row: int
    text: str
    path: str | None = None  # None: the file of the finding itself


class Unproven(Because):
    """A step that the code makes likely and does not prove; its text says what speaks for it."""

    __slots__ = ()


class OfSomeObjects(Unproven):
    """A step that holds for objects made in one way, where others may be made otherwise: no safe fix rests on it."""

    __slots__ = ()


class Moved(Because):
    """A step by which code of the project brings a value to the device."""

    __slots__ = ()


class Edit(NamedTuple):
    """Replace the bytes [start, end) of the file's UTF-8 text by `content`."""

    start: int
    end: int
    content: bytes


class Fix(NamedTuple):
    """Edits that belong together: all are applied or none.

    `assumes` says what an unsafe fix takes for granted; left out, it is what the rule's declaration says. `besides` is
    what it takes for granted in addition.
    """

    message: str
    safety: Safety
    edits: tuple[Edit, ...]
    assumes: str = ""
    besides: str = ""


class NoFix(enum.Enum):
    """Why a finding has no fix, as a sentence; `identifier` is its stable name.

    `docs/no-fix.md` lists all of them.
    """

    # Where the value goes.
    DECIDES_A_BRANCH = "the program goes on by this value, so the host has to have it in this step"
    ASSERTS = "an assertion stops the program where it is false; only a debug switch makes it cheap"
    NEEDED_IN_THE_STEP = "the same step uses the value on the host"
    COMPUTED_WITH = "the value is part of an expression that Python computes"
    RETURNED = "the function returns the value, and its callers are not rewritten"
    HANDED_ON = "a function takes the value, and what it does with it is not shown"
    PUT_IN_A_CONTAINER = "the value goes to an entry of a list or dict, whose readers are not shown"
    KEPT_IN_AN_OBJECT = "the value is kept in an attribute, which other functions may read"
    ITERATED = "the host goes over the values one by one"
    USED_OTHERWISE = "the name, or the memory behind it, has uses that the change might break"
    OPTION = "an option of the project decides it, and the program has to set that"
    # Where it runs.
    BY_HELPER = "a function of the project does it for all its callers, which may have host data"
    MAY_BE_A_NUMBER = "the value is a number already on other paths, or in other calls"
    LOOP_ELSEWHERE = "the loop that repeats it is in another function"
    MAY_BE_CAUGHT = "an exception that is caught would skip code that the fix puts elsewhere, or come later"
    SCRIPTED = "TorchScript compiles the function, and does not take what the fix would write"
    # What is known of the value.
    DTYPE_UNKNOWN = "the dtype is not shown, and the result would depend on it"
    SHAPE_UNKNOWN = "the shape is not shown, and the result would depend on it"
    NOT_A_NUMBER = "the packed value is not shown to be one Python number"
    VARIES = "the values may differ from step to step"
    MAY_BE_WRITTEN = "the tensor may be written to before the device has read it"
    NOT_PINNED = "the copied memory is not that of a loader's batch, so it is not pinned, or it cannot be"
    DEVICE_NOT_AT_HAND = "no plain expression names the device where the tensor is made"
    # What the operation is.
    SIZE_IN_THE_DATA = "the result's size is in the data, and the code uses a result of that size"
    INDEX_FROM_DEVICE = "the index or size is computed on the device"
    SEVERAL_MAKERS = "the tensor is put together of several tensors, each of which is read"
    # What keeps an edit out.
    FORM = "the statement is written in a form that the fix does not rewrite"
    NO_ROOM = "comments, other statements or a shadowed name leave no place for the edit"
    WITHDRAWN = "the change was tried, and leaves the finding or does not fit with another fix"

    @property
    def identifier(self) -> str:
        """The name in the output: `decides-a-branch`."""
        return self.name.lower().replace("_", "-")


class ByDefault(NamedTuple):
    """What makes a finding matter less if an expression of its statement has this value by default."""

    node: ast.expr
    value: object
    text: str


class Finding(NamedTuple):
    """A rule's report: its site (with the libcst node) and its evidence, and a fix or the reason for having none."""

    site: Site
    because: tuple[Because, ...] = ()
    fix: Fix | NoFix | None = None  # None: nobody has named the reason
    fields: Mapping[str, str] = {}  # values for the placeholders of the rule's message
    minor: Because | None = None  # what makes it matter less than the rule's severity says
    minor_if: ByDefault | None = None


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
    cost: Cost | None = None  # None: it costs no time or memory
    confidence: Confidence = Confidence.PROVEN
    about: str = ""  # the name or path that its expression begins with: `losses` of `losses["x"].item()`
    no_fix: str | None = None  # the identifier of a NoFix
    behind: int | None = None  # the start of the finding whose wait comes before it and drains the queue for it


LATER = -1
"""The start of a finding that only other fixes have brought about."""


class Applied(NamedTuple):
    """An applied fix, with the rule and the place of its finding in the text before any fix, or the start LATER.

    `row` is 1-based; of a finding with the start LATER it is that in the text where it was found. `path` is the file,
    or the cell of a notebook.
    """

    path: str
    row: int
    code: str
    name: str
    message: str
    safety: Safety
    assumes: str
    start: int

    @property
    def key(self) -> tuple[str, int]:
        """What `chosen` names it by."""
        return self.code, self.start


class Failure(NamedTuple):
    """A file or a piece of configuration that could not be processed: one line for the user, exit status 2."""

    path: str
    row: int | None
    column: int | None
    reason: str
    in_cell: tuple[int, int, int] | None = None  # the cell of a notebook, and row and column there; `reason` names them

    @property
    def place(self) -> str:
        """The path, with row and column where they are known."""
        if self.row is None:
            return self.path
        return f"{self.path}:{self.row}" if self.column is None else f"{self.path}:{self.row}:{self.column}"

    def __str__(self) -> str:
        return f"{self.place}: error: {self.reason}"
