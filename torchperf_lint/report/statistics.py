"""The number of findings per rule, instead of the findings themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.report import paint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.report import Context


class Tally(NamedTuple):
    """The findings of one rule, counted."""

    code: str
    name: str
    found: int
    fixable: int  # how many of them `--fix` would fix


def render(diagnostics: Iterable[Diagnostic], context: Context) -> Iterator[str]:
    """Yield `count code [*] name` for each rule; the star means that `--fix` would fix some."""
    tallies = _tallies(diagnostics, context)
    width = max((len(str(each.found)) for each in tallies), default=0)
    for each in tallies:
        star = paint("[*]", "cyan", context) if each.fixable else "[ ]"
        yield f"{each.found:>{width}}  {paint(each.code, 'red', context)}  {star}  {each.name}"


def render_json(diagnostics: Iterable[Diagnostic], context: Context) -> Iterator[str]:
    """Yield the same as one line of JSON."""
    import json

    tallies = _tallies(diagnostics, context)
    keys = ("code", "name", "count", "fixable")
    yield json.dumps([dict(zip(keys, each, strict=True)) for each in tallies])


def _tallies(diagnostics: Iterable[Diagnostic], context: Context) -> list[Tally]:
    """The rules' tallies, most frequent rule first."""
    tallies: dict[str, Tally] = {}
    for each in diagnostics:
        old = tallies.get(each.code, Tally(each.code, each.name, 0, 0))
        tallies[each.code] = old._replace(found=old.found + 1, fixable=old.fixable + context.fixable(each))
    return sorted(tallies.values(), key=lambda tally: (-tally.found, tally.code))
