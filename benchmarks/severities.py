"""Severities of the findings that readers judged at first contact: how many debatable ones still are errors.

`python benchmarks/severities.py` lints the packages of first_contact_findings.tsv and prints, by verdict, how many of
the judged findings are an `error`, a `warning`, a `note`, or no longer reported. `--verbose` lists each of them,
`--write FILE` stores the list, and `--against FILE` prints the table of such a list beside today's.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from first_contact import DEFAULT_FOLDER, bring
from linter import lint

from torchperf_lint.engine.findings import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

TABLE = Path(__file__).with_name("first_contact_findings.tsv")
VERDICTS = ("right", "debatable", "wrong")
GONE = "gone"
LEVELS = (*(each.value for each in Severity), GONE)


class Judged(NamedTuple):
    """One judged finding of a round."""

    project: str
    version: str
    path: str
    line: int
    code: str
    verdict: str
    why: str


class Weighed(NamedTuple):
    """A judged finding, and its severity today; GONE where it is no longer reported."""

    judged: Judged
    severity: str


def judged(table: Path = TABLE) -> list[Judged]:
    """The judged findings of all rounds."""
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    columns = [field for field in Judged._fields if field != "line"]
    return [Judged(line=int(row["line"]), **{name: row[name] for name in columns}) for row in rows]


def weighed(findings: Iterable[Judged], folder: Path) -> Iterator[Weighed]:
    """Lint the files of judged findings in their packages; of several in one line, the most severe comes first."""
    per_package: dict[tuple[str, str], list[Judged]] = defaultdict(list)
    for each in findings:
        per_package[each.project, each.version].append(each)
    for (name, version), mine in per_package.items():
        place = folder / f"{name}-{version}"
        if not place.is_dir():
            bring(name, version, place)
        report = lint(place, "--no-cache", paths=tuple(sorted({each.path for each in mine})))
        if report.crashed:
            raise SystemExit(f"{name}: the linter failed")
        left: dict[tuple[str, int, str], list[str]] = defaultdict(list)
        for one in report.printed:
            left[Path(one["filename"]).as_posix(), one["location"]["row"], one["code"]].append(one["severity"])
        for each in mine:
            found = sorted(left[each.path, each.line, each.code], key=LEVELS.index)
            yield Weighed(each, found[0] if found else GONE)
            left[each.path, each.line, each.code] = found[1:]


def table(found: Sequence[Weighed]) -> str:
    """How many findings of each verdict have each severity, and the share of debatable ones a reader meets."""
    counts = Counter((each.judged.verdict, each.severity) for each in found)
    lines = [f"{'':10}" + "".join(f"{level:>9}" for level in LEVELS)]
    lines += [f"{verdict:10}" + "".join(f"{counts[verdict, level]:9}" for level in LEVELS) for verdict in VERDICTS]
    for shown in (LEVELS[:1], LEVELS[:2], LEVELS[:3]):
        by_verdict = {verdict: sum(counts[verdict, level] for level in shown) for verdict in VERDICTS}
        share = by_verdict["debatable"] / max(1, sum(by_verdict.values()))
        lines.append(f"debatable among {' and '.join(shown)}: {by_verdict['debatable']} ({share:.0%})")
    return "\n".join(lines)


def main() -> None:
    """Print the table, and what else is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER, metavar="DIR", help="where the packages lie")
    parser.add_argument("--verbose", action="store_true", help="list the judged findings")
    parser.add_argument("--write", type=Path, metavar="FILE", help="store the severity of each judged finding")
    parser.add_argument("--against", type=Path, metavar="FILE", help="a stored list to compare with")
    options = parser.parse_args()
    before = options.against.read_text(encoding="utf-8").splitlines() if options.against else []
    found: list[Weighed] = []
    for each in weighed(judged(), options.folder):
        was = before[len(found)] if before else each.severity
        found.append(each)
        if options.verbose or was != each.severity:
            one, change = each.judged, f"{was} -> " if before else ""
            told = (
                f"{one.verdict:10} {change}{each.severity:8} {one.code} {one.project} {one.path}:{one.line} {one.why}"
            )
            print(told, flush=True)
    if options.write:
        options.write.write_text("".join(f"{each.severity}\n" for each in found), encoding="utf-8")
    if before:
        print(table([each._replace(severity=was) for each, was in zip(found, before, strict=True)]), end="\n\n")
    print(table(found))


if __name__ == "__main__":
    sys.exit(main())
