"""The data of each proved program on the page: names, numbers, lines, and the comparison of results."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.measurements import SAFE, UNFIXED, UNSAFE
from torchperf_lint.verify import results, tables
from torchperf_lint.verify.child import OK
from torchperf_lint.verify.pairs import ACCEPTED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from torchperf_lint.verify.events import Place
    from torchperf_lint.verify.pairs import Proof
    from torchperf_lint.verify.runs import Counts, Run
    from torchperf_lint.verify.step_times import StepTimes

LABELS = {UNFIXED: "unfixed", SAFE: "--fix", UNSAFE: "--unsafe-fixes"}


class Entry(NamedTuple):
    """A proof with its place on the page and, from a real GPU only, the times of its steps."""

    anchor: str
    proof: Proof
    times: StepTimes | None

    @property
    def name(self) -> str:
        """What the page calls the program."""
        return self.proof.case.name

    @property
    def accepted_fix(self) -> bool:
        """Whether our fixes change the program, and are accepted."""
        return self.proof.verdict == ACCEPTED

    def counts(self) -> dict[str, Counts]:
        """The counts of the variants that have any: those that ran to their end and have steps to count over."""
        return {variant: run.counts() for variant, run in self.proof.runs.items() if run.status == OK and run.steady}

    def removed(self) -> Fraction:
        """The waits per step that all fixes together remove."""
        waits = [each.waits for each in self.counts().values()]
        return waits[0] - waits[-1]

    def shown_place(self, place: Place) -> str:
        """A line of the program without its folder, which is temporary; any other line with its folder."""
        own = self.proof.case.workload.path.name
        return f"{own}:{place.row}" if Path(place.file).name == own else tables.short(place)

    def source_line(self, variant: str, place: Place) -> str:
        """The text of a line of the program; empty for a line of another file."""
        return tables.source_line(self.proof, variant, place)

    def compared(self, variant: str) -> str:
        """The comparison of a fixed program's results with the unfixed one's."""
        before, after = self.proof.runs[UNFIXED], self.proof.runs[variant]
        agreement = self.proof.case.workload.agreement
        if before.status != OK or after.status != OK:
            return "–"
        if agreement.differ:
            return "differ, as stated"
        old, new = before.report.get("results"), after.report.get("results")
        if old == new and before.stdout == after.stdout:
            return "equal" if old is not None or before.stdout.strip() else "none to compare"
        types = not agreement.other_types
        if old is None or new is None or results.differences(old, new, agreement.tolerance, types=types):
            return "differ"
        if agreement.other_types:
            return "equal but for types"
        return f"within {agreement.tolerance:g}" if agreement.tolerance else _equal_but_for(before, after)


def _equal_but_for(before: Run, after: Run) -> str:
    return "equal" if before.stdout == after.stdout else "equal, printed ones differ"


def entries_of(proofs: Sequence[Proof], times: Sequence[StepTimes | None]) -> list[Entry]:
    """The entries in the order of the proofs."""
    return [
        Entry(f"program-{number}", proof, measured if on_gpu(proof) else None)
        for number, (proof, measured) in enumerate(zip_longest(proofs, times[: len(proofs)]), 1)
    ]


def on_gpu(proof: Proof) -> bool:
    """Whether a real GPU ran the program."""
    return any(run.report["device"].get("kind") == "cuda" for run in proof.runs.values())
