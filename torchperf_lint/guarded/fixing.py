"""Fixes under guard: the command has to pass before any is written, and what it fails with is taken back."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Failure
from torchperf_lint.engine.replacing import writable
from torchperf_lint.engine.runner import FileReport
from torchperf_lint.guarded import command, journals, states
from torchperf_lint.guarded.search import Search
from torchperf_lint.report import opening, printable
from torchperf_lint.report.fixes import Proof

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from torchperf_lint.engine.findings import Applied
    from torchperf_lint.engine.jobs import Result
    from torchperf_lint.guarded.states import States

    Keys = frozenset[tuple[str, int]]

MOST_RUNS = 64
"""How often the command runs with fixes.

One that breaks it is found among 256 in 16 runs at most, so four of them are. With tests of a minute that is an hour;
who has more failures than that is helped by reading them.
"""


class Refused(Exception):
    """Nothing is fixed; the text says why, in one line."""


class Guarded(NamedTuple):
    """The results with the fixes that stay, and what the command said; None where there was nothing to fix."""

    results: list[Result]
    proof: Proof | None


class _Item(NamedTuple):
    """A fix, or several that cannot be told apart, of one file."""

    path: str
    key: tuple[str, int]
    fixes: tuple[Applied, ...]


def fixed(
    results: Sequence[Result],
    again: Callable[[str, Keys], Result],
    line: str,
    root: str,
    *,
    quiet: bool = False,
) -> Guarded:
    """Write what fixes have made of files, as far as the command `line` passes with them.

    `again` makes the result of a file with some of its fixes only, while all files are as they were. Raise Refused
    where the command fails without any fix or cannot be run, or where files cannot be tried; the files are then in the
    last state that the command passed with, or the next run puts them back.
    """
    results = [_refusing(each) if each.data != each.before else each for each in results]
    changed = {each.path: each for each in results if each.data != each.before}
    if not changed:
        return Guarded(results, None)
    run = _Run(changed, again, line, root, quiet)
    try:
        with states.States(root, {path: each.before for path, each in changed.items()}) as on_disk:
            run.before_any_fix()
            run.search(on_disk)
            final = {path: run.made(on_disk, path) for path in changed}
    except command.CannotRun as error:
        raise Refused(str(error)) from None
    except journals.Busy:
        raise Refused(f"another run with --check-with is at work in {root}") from None
    except states.Changed as error:
        raise Refused(f"changed while `{line}` ran, and left as it is: {error}") from None
    except OSError as error:
        raise Refused(f"fixes cannot be tried: {_reason(error)}; the next --fix puts back what is left") from None
    return Guarded([final.get(each.path, each) for each in results], run.proof())


def put_back(root: str) -> None:
    """Put back what a killed run left in the project; raise Refused where it is still at work."""
    try:
        found = states.recover(root)
    except journals.Busy:
        raise Refused(f"another run with --check-with is at work in {root}") from None
    except OSError as error:
        reason = _reason(error)
        raise Refused(f"files of a killed run with --check-with cannot be put back: {reason}") from None
    for path in found.back:
        print(f"{opening(path)}: warning: put back, for a run with --check-with was killed", file=sys.stderr)
    for path, place in found.left:
        message = f"left as it is, though a run with --check-with was killed (before: {printable(place)})"
        print(f"{opening(path)}: warning: {message}", file=sys.stderr)


def _reason(error: OSError) -> str:
    return ": ".join(str(part) for part in (error.filename, error.strerror or error) if part is not None)


def _refusing(result: Result) -> Result:
    """The result; a failure where its file may not be written to."""
    try:
        writable(result.path)
    except OSError as error:
        failure = Failure(result.path, None, None, f"cannot be written: {error.strerror or error}")
        unfixed = result.unfixed._replace(failure=failure)
        return result._replace(report=unfixed, data=result.before, applied=(), withdrawn=(), unfixed=FileReport())
    return result


class _Run:
    """The fixes of one run, and what the command has said of some of them."""

    def __init__(
        self, changed: dict[str, Result], again: Callable[[str, Keys], Result], line: str, root: str, quiet: bool
    ) -> None:
        self._changed = changed
        self._again = again
        self._line = line
        self._root = root
        self._quiet = quiet
        self._runs = 0
        self._groups = [_items(each) for each in changed.values()]
        self._all = {(item.path, item.key) for group in self._groups for item in group}
        self._made: dict[tuple[str, Keys], Result] = {}
        self._seen: dict[tuple[bytes, ...], bool] = {}
        self._search: Search[_Item] | None = None

    def before_any_fix(self) -> None:
        """Raise Refused unless the command passes."""
        ended = self._ended("without fixes")
        if not ended.passed:
            if ended.tail:
                print("\n".join(map(printable, ended.tail.splitlines())), file=sys.stderr)
            raise Refused(f"`{self._line}` fails before any fix ({ended}): nothing is written")

    def search(self, on_disk: States) -> None:
        """Find the fixes that the command passes with; the files then hold the last of its states."""

        def passes(items: Sequence[_Item]) -> bool:
            state = {path: self._with(on_disk, path, items).data for path in self._changed}
            key = tuple(state.values())
            if key not in self._seen:
                on_disk.show(state)
                fixes = sum(len(item.fixes) for item in items)
                self._seen[key] = self._ended(f"with {fixes} fix{'' if fixes == 1 else 'es'}").passed
            if self._seen[key]:
                on_disk.settle(state)
            return self._seen[key]

        self._search = Search(passes, MOST_RUNS)
        self._search.add(self._groups)

    def made(self, on_disk: States, path: str) -> Result:
        """The final result of a file."""
        return self._with(on_disk, path, self._search.kept if self._search else ())

    def proof(self) -> Proof:
        """What the command said."""
        broken = self._search.broken if self._search else ()
        untested = self._search.untested if self._search else ()
        return Proof(self._line, self._runs, _fixes(broken), _fixes(untested))

    def _with(self, on_disk: States, path: str, items: Iterable[_Item]) -> Result:
        """The result of a file with these fixes: with all of them that of the run, else made beside the others' own."""
        items = list(items)
        if {(item.path, item.key) for item in items} == self._all:
            return self._changed[path]
        keys = frozenset(item.key for item in items if item.path == path)
        if (path, keys) not in self._made:
            on_disk.write({each.path: each.before for each in self._changed.values()})
            self._made[path, keys] = self._again(path, keys)
        return self._made[path, keys]

    def _ended(self, what: str) -> command.Ended:
        ended = command.run(self._line, self._root)
        self._runs += 1
        if not self._quiet:
            said = "passes" if ended.passed else f"fails ({ended})"
            print(f"Run {self._runs} of `{printable(self._line)}`, {what}: {said}.", file=sys.stderr, flush=True)
        return ended


def _items(result: Result) -> list[_Item]:
    by_key: dict[tuple[str, int], list[Applied]] = {}
    for each in result.applied:
        by_key.setdefault(each.key, []).append(each)
    return [_Item(result.path, key, tuple(fixes)) for key, fixes in by_key.items()]


def _fixes(items: Iterable[_Item]) -> list[Applied]:
    return sorted((each for item in items for each in item.fixes), key=lambda each: (each.path, each.row, each.code))
