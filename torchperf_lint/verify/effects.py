"""Differences between two runs of a program in output, results and side effects."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.verify import outputs, results

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.verify.runs import Run
    from torchperf_lint.verify.workloads import Agreement

PRINTED, ERRORS, RESULTS, RANDOM, SETTINGS, FILES = ASPECTS = (
    "printed text",
    "standard error",
    "results",
    "random states",
    "settings",
    "files written",
)
"""The compared aspects of two runs."""

KINDS = "kinds"
"""The place of differences in the types of printed or logged values, which the text does not show."""


class Difference(NamedTuple):
    """A difference in one of the aspects.

    `place` locates it in the aspect, the same for any two runs that differ there; a place contains those that continue
    it with `[`.
    """

    aspect: str
    place: str
    text: str

    @property
    def is_of_printed_text(self) -> bool:
        """Whether it is visible in the printed text."""
        return self.aspect == PRINTED and self.place != KINDS

    def is_within(self, other: Difference) -> bool:
        """Whether it is within a difference of two other runs."""
        if self.aspect != other.aspect:
            return False
        return self.place == other.place or self.place.startswith(f"{other.place}[")


def differences(before: Run, after: Run, agreement: Agreement) -> Iterator[Difference]:
    """All differences that the agreement does not allow."""
    for warning in after.warnings - before.warnings:
        yield Difference(ERRORS, warning, f"a warning is new: {warning}")
    for name, value in before.report["settings"].items():
        if after.report["settings"][name] != value:
            text = f"{name} is left {after.report['settings'][name]}, {value} before"
            yield Difference(SETTINGS, name, text)
    old, new = before.report.get("results"), after.report.get("results")
    if (old is None) != (new is None):
        yield Difference(RESULTS, "results", "the results are gone" if new is None else "there are results only now")
    if not agreement.differ or agreement.same_types:
        if not agreement.other_types:
            for text in outputs.differences(before.handed, after.handed):
                yield Difference(PRINTED, KINDS, text)
        if old is not None and new is not None:
            values, types = not agreement.differ, not agreement.other_types
            for place, text in results.places_that_differ(old, new, agreement.tolerance, values=values, types=types):
                yield Difference(RESULTS, place, f"{place}: {text}")
    if agreement.differ:
        return
    if not agreement.tolerance:
        yield from _texts(before, after)
    for name, state in before.report["random_state"].items():
        if state != after.report["random_state"].get(name):
            yield Difference(RANDOM, name, f"the random numbers of {name} are drawn differently")


def _texts(before: Run, after: Run) -> Iterator[Difference]:
    """Differences in the texts of a run."""
    yield from _lines(before.stdout, after.stdout)
    if before.remarks != after.remarks:
        yield Difference(ERRORS, "text", "what goes to standard error differs")
    for name in sorted(before.written.keys() | after.written.keys()):
        if before.written.get(name) != after.written.get(name):
            yield Difference(FILES, name, f"the file {name} differs")


def _lines(before: str, after: str) -> Iterator[Difference]:
    """Differences by line if the line counts are equal, so that an always changing line hides no other."""
    old, new = before.split("\n"), after.split("\n")
    if len(old) != len(new):
        yield Difference(PRINTED, "", f"{len(new) - 1} lines are printed, {len(old) - 1} before")
        return
    for row, (was, now) in enumerate(zip(old, new, strict=True), 1):
        if was != now:
            yield Difference(PRINTED, f"[{row}]", f"line {row} is `{now}`, `{was}` before")


def is_there(aspect: str, run: Run) -> bool:
    """Whether a run has anything of an aspect to compare."""
    if aspect == RESULTS:
        return "results" in run.report
    kept = {PRINTED: run.stdout.strip(), ERRORS: run.stderr.strip(), FILES: run.written}
    return bool(kept.get(aspect, True))
