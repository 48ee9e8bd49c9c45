"""Judges our fixes by upstream's own tests: they run as they are, after `--fix`, and after `--fix --unsafe-fixes`.

`python benchmarks/upstream/run.py [SUITE ...]` prints the tests whose outcome differs, and `--update` writes the table.
The exit status is 1 where an outcome differs that does not differ without fixes, too, or where tests are missing.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(CHECKOUT / "benchmarks" / "programs"), str(CHECKOUT)]

from copies import SAFE, UNSAFE, WRITTEN, Finding, LintFailed, lint  # noqa: E402 - beside the programs
from environments import NotMade, make  # noqa: E402
from suites import FOLDER, Suite, Unusable, brought, lay_out, outcomes, outcomes_and_rows, suites  # noqa: E402

from torchperf_lint import fix  # noqa: E402

FIGURES = FOLDER / "upstream.tsv"
DEFAULT_FOLDER = Path("~/.cache/torchperf-lint-upstream").expanduser()

_HEADER = (
    *("package", "version", "tests", "passed", "flaky"),
    *("safe_fixes", "safe_run", "safe_differ", "unsafe_fixes", "unsafe_run", "unsafe_differ"),
)


class Judged(NamedTuple):
    """The fixes of one grade: their number, how many stand in rows that the tests run, and the tests that differ."""

    fixes: int
    run: int
    differ: tuple[tuple[str, str, str], ...]  # a test, with its outcomes before and after


class Row(NamedTuple):
    """What a suite gave; `flaky` tests have other outcomes in a second run without fixes."""

    suite: Suite
    tests: int
    passed: int
    flaky: tuple[str, ...]
    safe: Judged
    unsafe: Judged

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        counts = (self.tests, self.passed, len(self.flaky))
        judged = (count for each in (self.safe, self.unsafe) for count in (each.fixes, each.run, len(each.differ)))
        return (self.suite.name, self.suite.version, *map(str, (*counts, *judged)))


def judged(suite: Suite, folder: Path) -> Row:
    """Run a suite in its variants; raises Unusable, NotMade or LintFailed."""
    python = make(suite.environment, folder, suite.needs)
    archive = brought(suite, folder / "sdists")
    with tempfile.TemporaryDirectory(prefix="torchperf-lint-") as scratch:

        def laid_out() -> Path:
            shutil.rmtree(scratch)
            Path(scratch).mkdir()
            return lay_out(suite, archive, python, Path(scratch, suite.name))

        root = laid_out()
        found = [each for each in lint(root, [suite.module]) if each.grade in WRITTEN[UNSAFE]]
        before = outcomes(suite, python, root)
        if "passed" not in before.values():
            raise Unusable(f"none of its {len(before)} tests passes without fixes")
        again, ran = outcomes_and_rows(suite, python, laid_out(), sorted({each.path for each in found}))
        flaky = tuple(sorted(name for name in {**before, **again} if before.get(name) != again.get(name)))
        results: dict[str, Judged] = {}
        for variant, unsafe in ((SAFE, False), (UNSAFE, True)):
            root = laid_out()
            done = fix(str(root / suite.module), unsafe=unsafe, write=True, isolated=True, cache=False)
            problems = [each.problem for each in done if each.problem is not None]
            if problems:
                raise LintFailed(f"{problems[0].path}: {problems[0].reason}")
            count = sum(len(each.applied) for each in done)
            if variant == UNSAFE and count == results[SAFE].fixes:
                results[variant] = results[SAFE]
                continue
            after = outcomes(suite, python, root) if count else before
            differ = _different(before, after, flaky)
            results[variant] = Judged(count, _number_run(found, WRITTEN[variant], ran), differ)
    passed = sum(outcome == "passed" for outcome in before.values())
    return Row(suite, len(before), passed, flaky, results[SAFE], results[UNSAFE])


def _different(
    before: dict[str, str], after: dict[str, str], flaky: tuple[str, ...]
) -> tuple[tuple[str, str, str], ...]:
    names = sorted({**before, **after}.keys() - set(flaky))
    pairs = ((name, before.get(name, "missing"), after.get(name, "missing")) for name in names)
    return tuple(each for each in pairs if each[1] != each[2])


def _number_run(found: list[Finding], grades: tuple[str, ...], ran: dict[str, set[int]]) -> int:
    return sum(
        any(row in ran[each.path] for row in range(each.row, each.end_row + 1))
        for each in found
        if each.grade in grades
    )


def _shown(rows: list[tuple[str, ...]]) -> str:
    table = [_HEADER, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(_HEADER))]
    lines = (
        "  ".join(cell.ljust(width) if place < 2 else cell.rjust(width) for place, (cell, width) in enumerate(cells))
        for cells in (zip(row, widths, strict=True) for row in table)
    )
    return "\n".join(line.rstrip() for line in lines)


def committed() -> dict[str, tuple[str, ...]]:
    """The rows of the table by package."""
    if not FIGURES.is_file():
        return {}
    lines = FIGURES.read_text("utf-8").splitlines()[1:]
    return {line.split("\t")[0]: tuple(line.split("\t")) for line in lines}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="SUITE", help="suites (default: all)")
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER, help="environments (default: %(default)s)")
    parser.add_argument("--update", action="store_true", help="write the table")
    parser.add_argument("--committed", action="store_true", help="print the table, run nothing")
    options = parser.parse_args()
    known = committed()
    if options.committed:
        print(_shown([known[name] for name in sorted(known)]))
        return 0
    bad, rows = False, dict(known)
    for suite in suites(tuple(options.names)):
        try:
            row = judged(suite, options.folder)
        except (Unusable, NotMade, LintFailed) as error:
            print(f"{suite.name}: error: {error}", file=sys.stderr)
            bad = True
            continue
        print("  ".join(row.cells), flush=True)
        for name in row.flaky:
            print(f"  without fixes, too: {name}")
        for grade, each in ((SAFE, row.safe), (UNSAFE, row.unsafe)):
            for name, was, now in each.differ:
                print(f"  {grade}: {name}: {was}, then {now}")
                bad = True
        if suite.name in known and row.tests < int(known[suite.name][2]) and not options.update:
            print(f"  {known[suite.name][2]} tests are in the table")
            bad = True
        rows[suite.name] = row.cells
    if options.update:
        lines = ["\t".join(cells) for cells in (_HEADER, *(rows[name] for name in sorted(rows)))]
        FIGURES.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
