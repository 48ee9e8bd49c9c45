"""The share of findings on public code that have a fix, by rule, and the commonest reason for having none.

`python benchmarks/coverage.py` lints the tuning set and the packages of all finished rounds of first contact with every
rule, prints the table and compares it with coverage.tsv: it fails where a share has become worse. `--reasons` lists
all reasons of each rule (`docs/no-fix.md` explains them), `--record` writes coverage.tsv.

Counted are the rules on waits (TPL1), on transfers (TPL2) and TPL402: their findings cost time in every step. A fix is
`safe` (`--fix` writes it), `unsafe` (`--unsafe-fixes` does) or `shown` (nobody writes it).
"""

from __future__ import annotations

import csv
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from corpus import corpus_parser, present
from first_contact import DEFAULT_FOLDER, bring, recorded, rounds
from linter import lint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TABLE = Path(__file__).with_name("coverage.tsv")
GRADES = {"safe": "safe", "unsafe": "unsafe", "display": "shown"}
COLUMNS = ("rule", "findings", "safe", "unsafe", "shown", "none", "reason", "for_reason")
COUNTED = ("TPL1", "TPL2", "TPL402")
ALL = "all"
SLACK, SLACK_OF_RULE, FEWEST = 0.01, 0.05, 20
"""By how much the share of all findings, or of a rule with at least FEWEST, may fall: findings come and go as well."""


class Counted(NamedTuple):
    """One finding: its rule, and the grade of its fix or the reason for having none."""

    code: str
    grade: str | None
    reason: str


class Row(NamedTuple):
    """The counts of one rule; `reason` is the commonest one, of `for_reason` findings."""

    rule: str
    findings: int
    safe: int
    unsafe: int
    shown: int
    none: int
    reason: str
    for_reason: int


def findings(corpus: Path, packages: Path, only: str | None) -> Iterator[Counted]:
    """The findings of the projects and, unless one project is asked for, of the packages; exits if the linter fails."""
    folders = [corpus / project.name for project in present(corpus, only) if project.name != "torch"]
    for folder in [*folders, *([] if only else _packages(packages))]:
        report = lint(folder, "--select=ALL", "--no-cache")
        if report.crashed:
            raise SystemExit("\n".join([f"{folder.name}: the linter failed", *report.complaints[-5:]]))
        for one in report.printed:
            if one["code"].startswith(COUNTED):
                grade = None if one["fix"] is None else GRADES[one["fix"]["applicability"]]
                yield Counted(one["code"], grade, one["no_fix"] or "not-named")


def _packages(folder: Path) -> Iterator[Path]:
    """The packages of the rounds whose figures are recorded; those of an open round stay unseen."""
    finished = {row.round for row in recorded()}
    for number in sorted(finished):
        for name, version in dict.fromkeys((site.project, site.version) for site in rounds()[number]):
            place = folder / f"{name}-{version}"
            if not place.is_dir():
                bring(name, version, place)
            yield place


def rows(found: Iterable[Counted]) -> list[Row]:
    """The table: a row for each rule, all of them last."""
    grouped: dict[str, list[Counted]] = defaultdict(list)
    for one in found:
        grouped[one.code].append(one)
        grouped[ALL].append(one)
    made = []
    for rule in sorted(grouped, key=lambda name: (name == ALL, name)):
        grades = Counter(one.grade for one in grouped[rule])
        reason, count = next(iter(reasons(grouped[rule])), ("-", 0))
        counts = (grades["safe"], grades["unsafe"], grades["shown"], grades[None])
        made.append(Row(rule, len(grouped[rule]), *counts, reason, count))
    return made


def reasons(found: Iterable[Counted]) -> list[tuple[str, int]]:
    """The reasons of the findings without a fix, the commonest first."""
    counts = Counter(one.reason for one in found if one.grade is None)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def kept(path: Path = TABLE) -> list[Row]:
    """The committed table."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [Row(line[0], *map(int, line[1:6]), line[6], int(line[7])) for line in lines[1:]]


def record(table: Iterable[Row], path: Path = TABLE) -> None:
    """Write the committed table."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", quoting=csv.QUOTE_NONE, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(table)


def worse(before: Iterable[Row], now: Iterable[Row]) -> Iterator[str]:
    """A line for each share that fell: of safe fixes, and of fixes of any grade."""
    known = {row.rule: row for row in before}
    for row in now:
        old = known.get(row.rule)
        if old is None or (row.rule != ALL and min(row.findings, old.findings) < FEWEST):
            continue
        slack = SLACK if row.rule == ALL else SLACK_OF_RULE
        shares = (("a safe fix", old.safe, row.safe), ("a fix", old.findings - old.none, row.findings - row.none))
        for what, were, are in shares:
            if are / row.findings < were / old.findings - slack:
                yield f"{row.rule}: {are} of {row.findings} findings have {what}, where {were} of {old.findings} had"


def shown(table: Iterable[Row]) -> Iterator[str]:
    """The lines of the table, with shares in per cent."""
    yield f"{'rule':<8}{'findings':>9}{'safe':>8}{'unsafe':>8}{'shown':>8}{'none':>8}  commonest reason for none"
    for row in table:
        shares = "".join(f"{part / row.findings:>8.0%}" for part in (row.safe, row.unsafe, row.shown, row.none))
        reason = f"{row.reason} ({row.for_reason})" if row.none else ""
        yield f"{row.rule:<8}{row.findings:>9}{shares}  {reason}".rstrip()


def main() -> int:
    """Print the table; the exit status is 1 where it is worse than the committed one."""
    parser = corpus_parser(__doc__)
    parser.add_argument("--packages", type=Path, default=DEFAULT_FOLDER, metavar="DIR", help="where the packages lie")
    parser.add_argument("--reasons", action="store_true", help="list every reason of each rule")
    parser.add_argument("--record", action="store_true", help="write coverage.tsv")
    options = parser.parse_args()
    found = list(findings(options.corpus, options.packages, options.project))
    table = rows(found)
    for line in shown(table):
        print(line)
    if options.reasons:
        for row in table:
            mine = [one for one in found if row.rule in (one.code, ALL)]
            print(f"\n{row.rule}: " + ", ".join(f"{name} {count}" for name, count in reasons(mine)))
    if options.record:
        record(table)
        return 0
    lost = [] if options.project else list(worse(kept(), table))
    for line in lost:
        print(line, file=sys.stderr)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
