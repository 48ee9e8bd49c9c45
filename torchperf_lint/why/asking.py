"""Puts the answer about a row together: its statements, their values, and the verdicts of the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchperf_lint.engine import registry
from torchperf_lint.engine.files import DEFAULT_EXCLUDE, left_out
from torchperf_lint.engine.runner import LARGEST
from torchperf_lint.engine.suppress import Suppressions
from torchperf_lint.syntax.source import Unreadable
from torchperf_lint.why.answer import Answer, StatementAnswer
from torchperf_lint.why.frequency import how_often
from torchperf_lint.why.inside import Inside
from torchperf_lint.why.opening import open_file
from torchperf_lint.why.values import known_values
from torchperf_lint.why.verdicts import Judge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.config import Settings
    from torchperf_lint.why.opening import Opened


def ask(
    path: str,
    data: bytes,
    row: int,
    column: int | None,
    settings: Settings,
    cache: str | None = None,
    own_versions: bool = True,
) -> Answer:
    """All that is known of a row of a file with these bytes; raise Unreadable where there is no such row or tree.

    With `column`, only what stands there; `cache` and `own_versions` are as for `open_file`.
    """
    if len(data) > LARGEST:
        raise Unreadable(f"larger than {LARGEST // 1_000_000} MB, not checked")
    opened = open_file(path, data, settings, cache, own_versions)
    _refuse_outside(opened, row, column)
    inside = Inside(opened.analyzed, opened.target)
    statements = inside.statements_at(row)
    answers = tuple(
        StatementAnswer(each.lineno, how_often(inside, each), tuple(known_values(inside, each, row, column)))
        for each in statements
    )
    judged = Judge(opened, inside, statements, row, column).judge()
    notes = (*_notes(path, settings, opened, inside), *judged.broken)
    if not statements:
        notes = (*notes, "no statement begins or goes on in this row")
    text = opened.source.line(row).strip()
    return Answer(path, row, column, text, answers, judged.verdicts, judged.if_hot, notes)


def _refuse_outside(opened: Opened, row: int, column: int | None) -> None:
    rows = len(opened.source.text.splitlines()) or 1
    if not 1 <= row <= rows:
        raise Unreadable(f"there is no row {row}: the file has {rows}")
    line = opened.source.line(row)
    if column is not None and not 1 <= column <= max(len(line), 1):
        raise Unreadable(f"there is no column {column} in row {row}: it has {len(line)}")


def _notes(path: str, settings: Settings, opened: Opened, inside: Inside) -> Iterator[str]:
    """What silences rules in the whole file."""
    exclude = DEFAULT_EXCLUDE if settings.exclude is None else settings.exclude
    outside = left_out(path, (*exclude, *settings.extend_exclude), settings.root)
    if outside is not None:
        yield f"a run on the whole project leaves `{outside}` out: only a run that names the file checks it"
    if Suppressions(opened.source).cover_the_file:
        yield "a comment `ignore-file` silences all rules in this file"
    ignored = settings.ignored_in(path)
    if ignored:
        yield f"`per-file-ignores` switches off {', '.join(ignored)} in this file"
    if settings.baseline is not None:
        yield f"a run leaves out what the baseline `{settings.baseline}` holds (`--no-baseline`)"
    if not opened.accelerated and not inside.accelerated_by_itself:
        yield (
            "nothing in this file, or in the files that use it, speaks of an accelerator: "
            f"only {len(opened.triggered)} of {len(registry.all_rules())} rules run"
        )
    elif inside.cpu_only:
        yield "the file trains on the CPU only, as far as is known: rules on hot rows do not run"
