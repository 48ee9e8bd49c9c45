"""The declaration of rules: `@rule(...)` on a function from a Model to Findings."""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Loss, Safety
from torchperf_lint.knowledge.accelerators import ACCELERATOR_WORDS
from torchperf_lint.knowledge.torchmetrics_api import AGGREGATORS, PACKAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torchperf_lint.engine.findings import Finding, Rate, Severity
    from torchperf_lint.model import Model

    Check = Callable[[Model], Iterator[Finding]]


OWN_PREFIX = "TPL"
"""The first letters of the codes of our own rules; rules of other packages have others."""

ACCELERATOR_TRIGGERS = tuple(word.encode() for word in ACCELERATOR_WORDS)
"""Tokens of which a rule about accelerators needs one, unless the file uses another file's accelerator."""

METRIC_TRIGGERS = frozenset(word.encode() for word in (PACKAGE, *AGGREGATORS))
"""Tokens that name torchmetrics and its aggregators; a file that uses another file's metrics needs none of them."""

FEEDS_METRICS = (b"update", b"compute", b"etric")
"""A file that uses another file's metrics has at least one of these tokens."""


class Category(enum.Enum):
    """A rule's group; its digit is the first digit of the rule's code."""

    SYNC = 1
    TRANSFER = 2
    METRICS = 3
    DATA = 4
    DISTRIBUTED = 5
    COMPUTE = 6
    MEMORY = 7
    OPS = 8

    @property
    def about(self) -> str:
        """The group's subject, in words."""
        return _ABOUT[self]


_ABOUT = {
    Category.SYNC: "waits for the device",
    Category.TRANSFER: "transfers",
    Category.METRICS: "metrics",
    Category.DATA: "data loading",
    Category.DISTRIBUTED: "distributed training",
    Category.COMPUTE: "compute",
    Category.MEMORY: "memory",
    Category.OPS: "tensor operations",
}

_LOSES = {
    Category.SYNC: Loss.WAIT,
    Category.TRANSFER: Loss.WAIT,
    Category.METRICS: Loss.WAIT,
    Category.DATA: Loss.HOST,
    Category.DISTRIBUTED: Loss.WAIT,
    Category.COMPUTE: Loss.KERNELS,
    Category.MEMORY: Loss.BYTES,
    Category.OPS: Loss.KERNELS,
}


class Rule(NamedTuple):
    """A declared rule: code, name, message, triggers, version gates and check."""

    code: str
    name: str
    category: Category
    summary: str
    message: str
    severity: Severity
    default: bool
    fix: Safety | None  # the safest grade of the rule's fixes; None: it has no fix
    triggers: tuple[tuple[bytes, ...], ...]  # each group needs one of its tokens in the file
    torch: str | None  # version specifier, e.g. ">=1.8": the rule does not run when the target is known to be outside
    torchmetrics: str | None
    check: Check
    costs_at_use: bool = False  # the report is at a creation; the waits at its uses are in the evidence
    asks: tuple[str, ...] = ()  # packages whose version the check queries
    loses: Loss | None = None  # what a finding costs; None: nothing
    rate: Rate | None = None  # how often at least; None: in every step
    assumes: str = ""  # what an unsafe fix takes for granted, where the fix itself does not say so
    copies_batches: bool = False  # what it waits for is a copy of a batch, however little work the device has left

    @property
    def is_paid_here(self) -> bool:
        """Whether the reported place itself costs time or memory, as often as it runs."""
        return self.loses is not None and not self.costs_at_use

    @property
    def stem(self) -> str:
        """The stem shared by the rule's module, page and fixture folder."""
        return self.name.replace("-", "_")

    @property
    def versions(self) -> tuple[str, ...]:
        """The packages whose version affects the rule."""
        gated = (("torch", self.torch), ("torchmetrics", self.torchmetrics))
        return (*self.asks, *(package for package, gate in gated if gate is not None))


class BadDeclaration(TypeError):
    """A rule breaks the conventions of declarations; raised when its module is imported."""


def rule(
    *,
    code: str,
    name: str,
    category: Category,
    summary: str,
    message: str,
    severity: Severity,
    triggers: tuple[str | tuple[str, ...], ...],
    fix: Safety | None = None,
    assumes: str = "",
    default: bool = True,
    cpu_only_too: bool = False,
    torch: str | None = None,
    torchmetrics: str | None = None,
    costs_at_use: bool = False,
    costs: bool = True,
    loses: Loss | None = None,
    rate: Rate | None = None,
    asks: tuple[str, ...] = (),
    copies_batches: bool = False,
) -> Callable[[Check], Rule]:
    """Declare a rule.

    `triggers` is a conjunction: each item is a token, or a tuple of alternative tokens, that must occur in the
    file's bytes. Without them the rule is not run; a file without any rule to run is not parsed. Unless
    `cpu_only_too`, an accelerator token must occur as well.
    `costs_at_use`: the report is where an object is created, and its evidence names the uses that cost time.
    `loses` says what a finding costs, where that is not what most rules of the category cost. `rate` says how often,
    where that is more often than the reported place runs, or less. With `costs=False` it costs no time or memory.
    `copies_batches`: the reported place waits for the copy of a batch, however little work the device has left.
    `asks` names the packages (`torch`, `torchmetrics`) whose version the check queries with `model.target`.
    `message` may hold `{placeholders}` that each Finding's `fields` fill.
    `assumes` says what the user has to check where a fix is unsafe.
    """

    def declare(check: Check) -> Rule:
        groups = tuple(
            tuple(token.encode() for token in ((group,) if isinstance(group, str) else group)) for group in triggers
        )
        if groups and not cpu_only_too:
            groups = (*groups, ACCELERATOR_TRIGGERS)
        declared = Rule(
            code,
            name,
            category,
            summary,
            message,
            severity,
            default,
            fix,
            groups,
            torch,
            torchmetrics,
            check,
            costs_at_use,
            asks,
            (loses or _LOSES[category]) if costs else None,
            rate,
            assumes,
            copies_batches,
        )
        _refuse_bad(declared)
        return declared

    return declare


def _refuse_bad(declared: Rule) -> None:
    problem = None
    own = declared.code.startswith(OWN_PREFIX)
    if not re.fullmatch(r"TPL[1-8]\d\d" if own else r"[A-Z]{3,}\d{3}", declared.code):
        problem = "the code must be TPL, or other capital letters in another package, and three digits"
    elif own and int(declared.code[3]) != declared.category.value:
        problem = "the code's first digit must be the category's"
    elif not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)+", declared.name):
        problem = "the name must be kebab-case words"
    elif not declared.triggers or not all(group and all(group) for group in declared.triggers):
        problem = "there must be at least one trigger token, and none may be empty"
    elif own and declared.fix is Safety.UNSAFE and not declared.assumes:
        problem = "the assumption of an unsafe fix must be told"
    else:
        for text in (declared.summary, declared.message, declared.assumes or "nothing"):
            if not text or text.endswith(".") or text[0].isupper():
                problem = "summary, message and assumption start in lower case and have no final stop"
    if problem:
        raise BadDeclaration(f"{declared.code} {declared.name}: {problem}")
