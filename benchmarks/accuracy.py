"""Recall, false alarms and precision on labelled sites of the corpus, per rule and by the reach of the evidence.

`python benchmarks/accuracy.py` lints every project and compares the findings with accuracy.tsv. Its sites were
labelled by reading the code, without knowing the linter's findings, and each was read twice, the
second time without the first verdict; where the two readings differed, the site was left out. A site is one line:
`flag` if it costs in every step (and a rule's page says so), `ok` if the linter must be silent.
`reach` says what a reader must know to be sure: the function (`local`), its class, its module, the contract of a
`framework`, or other files of the `project`. `--errors` lists every site that is missed or flagged wrongly.

A site counts as found if any rule of the same kind reports its line: a read that is both added up and displayed is
one wait, whichever rule reports it.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from corpus import corpus_parser, present
from linter import lint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

TABLE = Path(__file__).with_name("accuracy.tsv")
COLUMNS = ("project", "version", "path", "line", "code", "verdict", "reach", "why")
VERDICTS = ("flag", "ok")
REACHES = ("local", "class", "module", "framework", "project")


class Site(NamedTuple):
    """One labelled line; `code` is the best-fitting rule."""

    project: str
    version: str
    path: str
    line: int
    code: str
    verdict: str
    reach: str
    why: str


class Outcome(NamedTuple):
    """A site, and the rules that report its line."""

    site: Site
    reported: frozenset[str]

    @property
    def flagged(self) -> bool:
        """Whether a rule of the site's kind reports it."""
        return any(kind(code) == kind(self.site.code) for code in self.reported)

    @property
    def right(self) -> bool:
        """Whether the linter agrees with the label."""
        return self.flagged == (self.site.verdict == "flag")


def kind(code: str) -> str:
    """Rules of one kind report the same cost: waits (TPL1xx), copies (TPL2xx), metrics (TPL3xx); else the rule."""
    return code[:4] if code[:4] in ("TPL1", "TPL2", "TPL3") else code


def labelled(table: Path = TABLE) -> list[Site]:
    """The lines of the table; exits with the line's number where one is malformed."""
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    if not rows or tuple(rows[0]) != COLUMNS:
        raise SystemExit(f"{table}:1: the columns must be {', '.join(COLUMNS)}")
    sites: dict[tuple[str, str, str], Site] = {}
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(COLUMNS) or not row[3].isdecimal() or row[5] not in VERDICTS or row[6] not in REACHES:
            raise SystemExit(f"{table}:{number}: wanted a line number, one of {VERDICTS} and one of {REACHES}")
        project, version, path, line, code, verdict, reach, why = row
        if (project, path, line) in sites:
            raise SystemExit(f"{table}:{number}: this line is labelled twice")
        sites[project, path, line] = Site(project, version, path, int(line), code, verdict, reach, why)
    return list(sites.values())


def outcomes(sites: Iterable[Site], corpus: Path, only: str | None) -> Iterator[Outcome]:
    """Lint the projects and compare each site with the findings; exits if the linter fails or versions differ."""
    per_project: dict[str, list[Site]] = defaultdict(list)
    for site in sites:
        per_project[site.project].append(site)
    for project in present(corpus, only):
        mine = per_project.pop(project.name, [])
        if not mine:
            continue
        if any(site.version != project.version for site in mine):
            raise SystemExit(f"{project.name}: labelled at another version than the corpus holds")
        files = tuple(sorted({site.path for site in mine}))  # each is checked as part of the whole project
        with tempfile.TemporaryDirectory() as facts:  # without a cache, the symbols of a large project are not read
            report = lint(corpus / project.name, "--cache-dir", facts, paths=files)
        if report.crashed or report.complaints:  # a file that cannot be read would count as silent
            raise SystemExit("\n".join([f"{project.name}: the linter failed", *report.complaints[-5:]]))
        reported: dict[tuple[str, int], set[str]] = defaultdict(set)
        for found in report.findings:
            reported[found.path, found.line].add(found.code)
        for site in mine:
            yield Outcome(site, frozenset(reported[site.path, site.line]))
    if not only and per_project:
        raise SystemExit(f"not in {corpus}: {', '.join(sorted(per_project))}; run benchmarks/corpus.py")


def table(outcomes: Iterable[Outcome], title: str, group: Callable[[Site], str], order: Iterable[str]) -> Iterator[str]:
    """The lines of one table: a row per group, all of them last."""
    grouped: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        grouped[group(outcome.site)].append(outcome)
        grouped["all"].append(outcome)
    yield f"{title:<10}{'flag':>6}{'found':>7}{'recall':>9}{'ok':>6}{'flagged':>9}{'false alarms':>14}{'precision':>11}"
    for name in [*(name for name in order if name in grouped), "all"]:
        flags = [one for one in grouped[name] if one.site.verdict == "flag"]
        oks = [one for one in grouped[name] if one.site.verdict == "ok"]
        found, alarms = sum(one.flagged for one in flags), sum(one.flagged for one in oks)
        shares = (_share(found, len(flags)), _share(alarms, len(oks)), _share(found, found + alarms))
        yield (
            f"{name:<10}{len(flags):>6}{found:>7}{shares[0]:>9}{len(oks):>6}{alarms:>9}{shares[1]:>14}{shares[2]:>11}"
        )


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "-"


def errors(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """A line for each site that is missed or flagged wrongly."""
    for site, reported in sorted(one for one in outcomes if not one.right):
        what = f"missed {site.code}" if site.verdict == "flag" else f"wrong {', '.join(sorted(reported))}"
        yield f"{site.project}/{site.path}:{site.line}: {what} ({site.reach}): {site.why}"


def show(found: list[Outcome], *, with_errors: bool) -> None:
    """Print the tables by rule and by reach, and the errors if they are asked for."""
    for line in table(found, "rule", lambda site: site.code, sorted({one.site.code for one in found})):
        print(line)
    print()
    for line in table(found, "reach", lambda site: site.reach, REACHES):
        print(line)
    if with_errors:
        print()
        for line in errors(found):
            print(line)


def main() -> None:
    """Print the tables."""
    parser = corpus_parser(__doc__)
    parser.add_argument("--errors", action="store_true", help="list the sites that are missed or flagged wrongly")
    options = parser.parse_args()
    sites = [site for site in labelled() if options.project in (None, site.project)]
    show(list(outcomes(sites, options.corpus, options.project)), with_errors=options.errors)


if __name__ == "__main__":
    sys.exit(main())
