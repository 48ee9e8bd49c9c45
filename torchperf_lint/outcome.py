"""What a run prints of its findings and fixes: the report in its format, and for people the sums below it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Rate, Safety
from torchperf_lint.report import FOR_PEOPLE, FORMATS, MOST_IN_FULL, WITH_OVERVIEW
from torchperf_lint.report.groups import grouped

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TextIO

    from torchperf_lint.engine.findings import Applied, Diagnostic
    from torchperf_lint.report import Context
    from torchperf_lint.report.fixes import Proof


class Outcome(NamedTuple):
    """The remaining findings, sorted by path, the applied fixes, and the numbers of unchecked files and known findings.

    `proof` is what the user's command said of the fixes.
    """

    diagnostics: list[Diagnostic]
    applied: Sequence[Applied] = ()
    unchecked: int = 0
    known: int = 0
    proof: Proof | None = None

    @property
    def fixed(self) -> int:
        """The number of findings that were fixed."""
        return len(self.applied)


def report(outcome: Outcome, options: argparse.Namespace, context: Context, out: TextIO) -> None:
    """Print the findings, or their statistics, and a summary."""
    for line in _lines(outcome, options, context):
        print(line, file=out)


def _lines(outcome: Outcome, options: argparse.Namespace, context: Context) -> Iterator[str]:
    found, name = outcome.diagnostics, options.output_format
    render = _renderer(options)
    if name == "summary" and not options.statistics:
        if options.show_fixes or not options.quiet:
            yield from of_fixes(outcome, "Fixed", context)
        if not options.quiet:
            yield from totals(outcome)
        yield from render(found, context)
        return
    yield from render(found, context)
    if name in FOR_PEOPLE and (options.show_fixes or not options.quiet):
        yield from of_fixes(outcome, "Fixed", context)
    if options.quiet or name not in FOR_PEOPLE:
        return
    yield from totals(outcome)
    if name in WITH_OVERVIEW and not options.statistics and len(found) > MOST_IN_FULL:
        from torchperf_lint.report import overview

        yield from overview.render(found, context)
    else:
        yield from fixable(outcome, context)


def _renderer(options: argparse.Namespace) -> Callable[[Iterable[Diagnostic], Context], Iterator[str]]:
    if options.statistics:
        from torchperf_lint.report import statistics

        return statistics.render_json if options.output_format == "json" else statistics.render
    import importlib

    module = importlib.import_module(f"torchperf_lint.report.{FORMATS[options.output_format]}")
    render: Callable[[Iterable[Diagnostic], Context], Iterator[str]] = module.render
    return render


def of_fixes(outcome: Outcome, title: str, context: Context) -> Iterator[str]:
    """What was fixed in which file, and what the user's command said of it."""
    if not outcome.applied and outcome.proof is None:
        return
    from torchperf_lint.report import fixes

    yield from fixes.render(outcome.applied, title, context)
    if outcome.proof is not None:
        yield from fixes.judged(outcome.proof, context)


def totals(outcome: Outcome) -> Iterator[str]:
    """The number of findings, that of the files without an answer, and how often the findings' costs are paid."""
    remaining = len(outcome.diagnostics)
    total = remaining + outcome.fixed
    beside = f" besides {outcome.known} of the baseline" if outcome.known else ""
    files = f"{outcome.unchecked} file{'' if outcome.unchecked == 1 else 's'}"
    unchecked = f"; {files} could not be checked" if outcome.unchecked else ""
    if not total:
        yield f"No findings{beside}{unchecked}."
        return
    split = f" ({outcome.fixed} fixed, {remaining} remaining)" if outcome.fixed else ""
    places = len(grouped(outcome.diagnostics))
    where = f" at {places} place{'' if places == 1 else 's'}" if places < remaining else ""
    yield f"Found {counted(total)}{split}{where}{beside}{unchecked}."
    rates = Counter(each.cost.rate for each in outcome.diagnostics if each.cost is not None)
    if len(rates) > 1:
        yield f"{', '.join(f'{rates[rate]} {rate.value}' for rate in Rate if rate in rates)}."


def fixable(outcome: Outcome, context: Context) -> Iterator[str]:
    """How many of the remaining findings a fix would repair."""
    count = sum(map(context.fixable, outcome.diagnostics))
    unsafe = sum(1 for each in outcome.diagnostics if each.fix and each.fix.safety is Safety.UNSAFE)
    hidden = 0 if context.unsafe else unsafe
    if count:
        more = f" ({hidden} more with `--unsafe-fixes`)" if hidden else ""
        yield f"[*] {count} fixable with `--fix`{more}."
    elif hidden:
        yield f"{hidden} fixable with `--fix --unsafe-fixes`."


def counted(findings: int) -> str:
    """So many findings, in words."""
    return f"{findings} finding{'' if findings == 1 else 's'}"
