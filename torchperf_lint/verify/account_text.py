"""The account of a user's program as text: what `verify --script` prints."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from torchperf_lint.verify.account import grade, percent
from torchperf_lint.verify.tables import per_step, short

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.verify.account import Account, CountedLoop, WaitingLine
    from torchperf_lint.verify.preview import Preview
    from torchperf_lint.verify.runs import Line, Run
    from torchperf_lint.verify.sources import Sources

FIXES = {
    "safe": "--fix mends it",
    "unsafe": "--fix --unsafe-fixes mends it",
    "shown": "a fix is shown, and not made",
    None: "no fix",
}


MOST_LISTED = 10
"""The number of findings listed under a heading: a library has many that one program never reaches."""


def render(account: Account) -> str:
    """The whole text, in lines."""
    rows = [] if account.ended_well else [_until_its_end(account)]
    rows += [headline(account), *account.run.report["counters"].get("disagreements", ())]
    for loop in account.loops:
        rows += ["", *_loop(loop, account.sources)]
    for title, found in unseen(account):
        rows += ["", title if found else f"{title}: nothing"]
        rows += [f"  {finding(each, account.sources)}" for each in found[:MOST_LISTED]]
        if len(found) > MOST_LISTED:
            rows.append(f"  and {len(found) - MOST_LISTED} more, which --report and --output-format json list")
    rows += ["", _summary(account)]
    if account.preview is not None:
        rows += ["", *_preview(account.preview, account.sources)]
    return "\n".join(rows) + "\n"


def unseen(account: Account) -> Iterator[tuple[str, list[Diagnostic]]]:
    """The findings that no wait confirms, under headings; none if the program may not have reached them."""
    if account.ended_well:
        until = ", until it was stopped" if account.run.report["stopped"] else ""
        yield f"found, ran and did not wait{until}", account.idle
        yield f"found, did not run{until}", account.not_run


def headline(account: Account) -> str:
    """The number of steps, and the totals of all loops."""
    run, counts = account.run, account.counts
    device = run.report["device"]["name"]
    place = "the simulated device" if device == "simulated" else device
    if not run.steady:
        return f"No steps to count over were seen on {place}; in all {waits(counts.waits, counts.staged, '')}."
    loops = len(account.loops)
    over = f" of each of {loops} loops, taken together" if loops > 1 else ""
    counted = f"{run.report['steps']} steps on {place}, {len(run.steady)} of them counted"
    return f"{counted}: {waits(counts.waits, counts.staged, f' per step{over}')}."


def waits(number: Fraction, staged: Fraction, over: str = " per step") -> str:
    """How often the host waits in some unit."""
    may = f", and {per_step(staged)} copies may wait" if staged else ""
    return f"the host waits {per_step(number)} times{over}{may}"


def ways(line: WaitingLine, sources: Sources) -> str:
    """The causes of a line's waits."""
    return "; ".join(dict.fromkeys(_way(way, sources) for way in line.ways))


def _way(way: Line, sources: Sources) -> str:
    if way.via is None:
        return way.operator
    return f"{way.operator}, via {min(sources.place(way.via), short(way.via), key=len)}"


def _until_its_end(account: Account) -> str:
    """A remark on the counts of a program that did not end normally."""
    steps = account.run.report["steps"]
    after = f"after {steps} step{'' if steps == 1 else 's'}" if steps else "before its first step"
    row = account.run.report.get("failed_at")
    at = f", at {account.sources.shown(row[0])}:{row[1]}" if row else ""
    return f"The program ended early, {after}{at}. Until then:"


def _loop(loop: CountedLoop, sources: Sources) -> Iterator[str]:
    if loop.where is None:
        yield "lines that wait" + ("" if loop.lines else ": none")
    else:
        yield f"loop at {sources.place(loop.where)}, {loop.steps} steps counted: {waits(loop.waits, loop.staged)}"
    for line in loop.lines:
        count = (
            f"{per_step(line.waits)} waits, {percent(line.share)}" if line.waits else f"{per_step(line.staged)} staged"
        )
        yield f"  {sources.place(line.where)}  {count}: {ways(line, sources)}"
        yield from (f"      {about(found, line, sources)}" for found in line.found)
        if not line.found:
            yield "      not found"


def about(found: Diagnostic, line: WaitingLine, sources: Sources) -> str:
    """A finding about a line, with its place if that is elsewhere, as in reports where an object is created."""
    if found.path == line.where.file and found.row <= line.where.row <= found.end_row:
        return _told(found)
    return finding(found, sources)


def finding(found: Diagnostic, sources: Sources) -> str:
    """A finding with its place."""
    return f"{sources.shown(found.path)}:{found.row}  {_told(found)}"


def _told(found: Diagnostic) -> str:
    return f"{found.code} {found.message} ({FIXES[grade(found)]})"


def _summary(account: Account) -> str:
    lines = account.lines
    missed = sum(not line.found for line in lines)
    others = f"{len(account.idle)} did not wait, {len(account.not_run)} did not run"
    if not account.ended_well:
        others = f"{len(account.not_seen)} neither confirmed nor refuted"
    return f"{len(account.confirmed)} findings confirmed, {others}; {len(lines)} waiting lines, {missed} not found"


def _preview(told: Preview, sources: Sources) -> Iterator[str]:
    if told.obstacle:
        yield f"with the fixes: {told.obstacle}"
        return
    yield f"with the fixes: {preview_headline(told)}"
    rows = preview_rows(told, sources)
    width = max(len(name) for name, *_ in rows)
    for name, before, after in rows:
        yield f"  {name:<{width}}{before:>10}{after:>10}"
    for compared in told.compared:
        yield f"  {compared.aspect}: {compared.verdict}"
        yield from (f"      {text}" for text in compared.texts)
    yield from (f"  {remark}" for remark in remarks(told, sources))


def preview_headline(told: Preview) -> str:
    """What was run."""
    files, fixes = len(told.fixes), sum(len(each.applied) for each in told.fixes.values())
    made = f"{fixes} fix{'' if fixes == 1 else 'es'} in {files} file{'' if files == 1 else 's'} of a copy"
    return f"{made}; two runs of the copy as it is, one with them, all from the same seed"


def remarks(told: Preview, sources: Sources) -> Iterator[str]:
    """Further remarks: the fixes by file, which of them did not run, and how a GPU may differ."""
    for path, fixed in told.fixes.items():
        yield f"{sources.shown(path)}: {', '.join(sorted({each.code for each in fixed.applied}))}"
    for path in told.stray:
        yield f"{sources.shown(path)}: not loaded from the copy, so that it ran without its fixes"
    yield from (f"on a GPU: {danger}" for danger in told.dangers)


def preview_rows(told: Preview, sources: Sources) -> list[tuple[str, str, str]]:
    """The table of counts without and with the fixes, with its head."""
    runs: list[Run] = [told.before, told.after]
    counts = [run.counts() for run in runs]
    rows = [("", "as it is", "fixed")]
    for name, field in (("waits per step", "waits"), ("copies that may wait, per step", "staged")):
        before, after = (per_step(getattr(each, field)) for each in counts)
        rows.append((name, before, after))
    before, after = (str(run.report["steps"]) for run in runs)
    if before != after:
        rows.append(("steps", before, after))
    loops = [run.loops() for run in runs]
    if max(map(len, loops)) > 1:
        for old, new in zip_longest(*loops):
            where = (old or new).where
            name = f"waits, loop at {sources.place(where)}" if where else "waits"
            rows.append((name, per_step(old.waits) if old else "–", per_step(new.waits) if new else "–"))
    return rows
