"""The text output of `torchperf-lint profile`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.report import headline, opening, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from torchperf_lint.profile.summary import Found, Measured, Summary
    from torchperf_lint.report import Context
    from torchperf_lint.verify.events import Place


def render(name: str, summary: Summary, context: Context) -> Iterator[str]:
    """The lines of the report on the trace of this name."""
    yield f"{opening(name)}: {sentence(summary)}"
    yield from remarks(summary)
    for title, lines in sections(summary):
        yield ""
        yield title if lines else f"{title}: nothing"
        for each in lines:
            yield from _line(each, summary, context)
    title = "found, not seen"
    yield ""
    yield title if summary.not_seen else f"{title}: nothing"
    for finding in summary.not_seen:
        yield f"  {headline(finding, context)}"


def sections(summary: Summary) -> list[tuple[str, list[Found]]]:
    """The lines grouped by how certain their findings are."""
    return [
        ("found and measured", summary.confirmed),
        ("measured, perhaps found: the trace tells the function, and not the row", summary.possible),
        ("measured, not found", summary.not_found),
    ]


def sentence(summary: Summary) -> str:
    """The number and the length of the host's waits."""
    uncertain = summary.waits - summary.certain_waits
    waits = f"the host waits {_number(summary.certain_waits)}"
    if not summary.has_runtime:
        waits = f"the host reads {_number(uncertain)}, and may wait for the device"
    elif uncertain:
        waits += f", and perhaps {_number(uncertain)} more"
    if not summary.steps:
        return f"no steps are marked; in the whole trace {waits}, {milliseconds(summary.milliseconds)} in all."
    share = f" ({summary.milliseconds / summary.step:.0%})" if summary.step else ""
    steps = f"{summary.steps} step{'' if summary.steps == 1 else 's'} of {milliseconds(summary.step)}"
    return f"{steps}; per step {waits}, {milliseconds(summary.milliseconds)} in all{share}."


def remarks(summary: Summary) -> Iterator[str]:
    """Further remarks on the trace."""
    if not summary.has_runtime:
        yield (
            "No call of the CUDA runtime was recorded (ProfilerActivity.CUDA does so): what is read may lie on the "
            "host, and times are those of operators."
        )
    if not summary.has_stacks:
        yield "No Python stacks were recorded (with_stack=True does so): the lines of waits are not known."
    number, time = summary.outside
    if number:
        yield f"Outside of the steps: {number} wait{'' if number == 1 else 's'}, {milliseconds(time)}."
    spots = (each.measured.spot for each in summary.found)
    for path, files in sorted({(spot.where.file, spot.file_may_be) for spot in spots if len(spot.file_may_be) > 1}):
        yield f"{opening(path)} may be any of {', '.join(map(opening, files))}: --root names the folder."


def _line(found: Found, summary: Summary, context: Context) -> Iterator[str]:
    measured = found.measured
    yield f"  {place(measured)}  {amount(measured, summary)}: {printable(cause(measured))}"
    for finding in found.findings:
        yield f"      {headline(finding, context)}"


def place(measured: Measured) -> str:
    """The place of the wait, and what is unknown about it."""
    spot = measured.spot
    path = opening(spot.where.file)
    shown = f"{path}:{spot.where.row}" if spot.where.row else path
    if len(spot.rows) > 1:
        return f"{shown} in {printable(spot.function)}, row {_either(spot.rows)}"
    if spot.changed:
        return f"{shown} in {printable(spot.function)}, which is not there on disk"
    known = spot.rows or not spot.function
    return shown if known else f"{shown} in {printable(spot.function)}"


def _either(rows: Sequence[int]) -> str:
    *others, last = map(str, rows)
    return f"{', '.join(others)} or {last}"


def amount(measured: Measured, summary: Summary) -> str:
    """The length and the number of waits."""
    share = f" ({measured.milliseconds / summary.milliseconds:.0%})" if summary.milliseconds else ""
    kind = "wait" if measured.certain else "staged" if summary.has_runtime else "read"
    plural = "" if measured.waits == 1 or kind == "staged" else "s"
    return f"{milliseconds(measured.milliseconds)}{share}, {float(measured.waits):.3g} {kind}{plural}"


def cause(measured: Measured) -> str:
    """The call that waits."""
    calls = " and ".join(each for each in measured.calls if each != measured.operator)
    via = f", via {_short(measured.spot.via)}" if measured.spot.via else ""
    within = f", within {measured.within}" if measured.within else ""
    return f"{measured.operator}{f' ({calls})' if calls else ''}{via}{within}"


def _short(where: Place) -> str:
    return f"{'/'.join(where.file.split('/')[-3:])}:{where.row}"


def _number(count: Fraction) -> str:
    return "once" if count == 1 else f"{float(count):.3g} times"


def milliseconds(time: float) -> str:
    """A time with three digits, or with all digits before the point."""
    return f"{time:.0f} ms" if time >= 100 else f"{time:.3g} ms"
