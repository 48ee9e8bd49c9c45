"""The fixes of a run by file and rule, each unsafe one beside what it takes for granted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import file_of
from torchperf_lint.report import opening, paint, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torchperf_lint.engine.findings import Applied
    from torchperf_lint.report import Context


class Proof(NamedTuple):
    """What the user's command said of the fixes: those that were taken back because of it, or before it was asked."""

    command: str
    runs: int
    broken: Sequence[Applied] = ()
    untested: Sequence[Applied] = ()


def render(applied: Sequence[Applied], title: str, context: Context) -> Iterator[str]:
    """Yield the number of fixes, and for each file the rules with their numbers; nothing where there are none."""
    if not applied:
        return
    by_file: dict[str, list[Applied]] = {}
    for each in applied:
        by_file.setdefault(file_of(each.path), []).append(each)
    yield f"{title} {_counted(len(applied), 'finding')} in {_counted(len(by_file), 'file')}:"
    for path, fixes in by_file.items():
        yield f"  {paint(opening(path), 'bold', context)}"
        counts = Counter((each.code, each.name, each.assumes) for each in fixes)
        for (code, name, assumes), count in sorted(counts.items()):
            condition = f", assuming that {printable(assumes)}" if assumes else ""
            yield f"    {count} {paint(code, 'red', context)} {name}{condition}"


def judged(proof: Proof, context: Context) -> Iterator[str]:
    """Yield what the user's command said, and the place of each fix that was taken back."""
    command = f"`{printable(proof.command)}`"
    ran = f"it ran {_counted(proof.runs, 'time')}"
    if not proof.broken and not proof.untested:
        yield f"{command} passes with them ({ran})."
    if proof.broken:
        yield f"Took back {_counted(len(proof.broken), 'fix')}, with which {command} fails ({ran}):"
        yield from _places(proof.broken, context)
    if proof.untested:
        why = f"{command} ran {_counted(proof.runs, 'time')}, which is the most"
        yield f"Took back {_counted(len(proof.untested), 'fix')} untested ({why}):"
        yield from _places(proof.untested, context)


def _places(fixes: Iterable[Applied], context: Context) -> Iterator[str]:
    for each in fixes:
        place = f"{paint(opening(each.path), 'bold', context)}:{each.row}:"
        yield f"  {place} {paint(each.code, 'red', context)} {each.name}: {printable(each.message)}"


def _counted(count: int, what: str) -> str:
    plural = f"{what}es" if what.endswith("x") else f"{what}s"
    return f"{count} {what if count == 1 else plural}"
