"""Computes the precision of findings from triage.tsv, and draws new ones to judge.

`python benchmarks/precision.py` prints precision = right / (right + wrong) per rule and in all; debatable verdicts
are counted separately. `--check` compares every verdict with the linter's current findings in the corpus. `--sample N`
writes at most N unjudged findings of each rule, as lines of triage.tsv without a verdict.
"""

from __future__ import annotations

import csv
import random
import sys
import textwrap
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from corpus import Project, corpus_parser, present
from linter import Found, lint

from torchperf_lint.engine.registry import all_rules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TRIAGE = Path(__file__).with_name("triage.tsv")
COLUMNS = ("project", "version", "path", "line", "code", "verdict", "why")
VERDICTS = ("right", "wrong", "debatable")
TARGET = 0.9
"""The minimum precision of a rule that is on by default."""


class Verdict(NamedTuple):
    """One judged finding."""

    project: str
    version: str
    finding: Found
    verdict: str
    why: str


def verdicts(table: Path) -> list[Verdict]:
    """The lines of a triage table; exits with the line's number where one is malformed."""
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    if not rows or tuple(rows[0]) != COLUMNS:
        raise SystemExit(f"{table}:1: the columns must be {', '.join(COLUMNS)}")
    judged, seen = [], set()
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(COLUMNS) or not row[3].isdecimal() or row[5] not in VERDICTS:
            raise SystemExit(f"{table}:{number}: wanted {len(COLUMNS)} columns, a line number and one of {VERDICTS}")
        project, version, path, line, code, verdict, why = row
        one = Verdict(project, version, Found(path, int(line), code), verdict, why)
        if (project, one.finding) in seen:
            raise SystemExit(f"{table}:{number}: this finding is judged twice")
        seen.add((project, one.finding))
        judged.append(one)
    return judged


def counts(judged: Iterable[Verdict]) -> Iterator[str]:
    """The lines of the precision table, all rules last."""
    per_rule: dict[str, Counter[str]] = defaultdict(Counter)
    for one in judged:
        per_rule[one.finding.code][one.verdict] += 1
    total = sum(per_rule.values(), Counter())
    yield f"{'rule':<8}{'right':>7}{'wrong':>7}{'debatable':>11}{'precision':>11}"
    for code, tally in [*sorted(per_rule.items()), ("all", total)]:
        decided = tally["right"] + tally["wrong"]
        precision = tally["right"] / decided if decided else None
        shown = "-" if precision is None else f"{precision:.1%}"
        note = "" if precision is None or precision >= TARGET else f"  below {TARGET:.0%}"
        yield f"{code:<8}{tally['right']:>7}{tally['wrong']:>7}{tally['debatable']:>11}{shown:>11}{note}"
    unjudged = " ".join(rule.code for rule in all_rules() if rule.code not in per_rule)
    yield from textwrap.wrap(f"no verdict yet: {unjudged}", 120, subsequent_indent="  ")


def findings(corpus: Path, project: Project) -> list[Found]:
    """The linter's findings in a project with all rules, also those off by default; exits if it fails."""
    report = lint(corpus / project.name, "--select=ALL")
    if report.crashed:
        raise SystemExit("\n".join([f"{project.name}: the linter failed", *report.complaints[-5:]]))
    return report.findings


def drift(judged: Iterable[Verdict], corpus: Path, only: str | None) -> Iterator[str]:
    """A line for each verdict whose finding changed: a right one gone, a wrong one still there.

    A debatable finding may come or go. Verdicts on another version than the corpus has are ignored.
    """
    per_project: dict[str, list[Verdict]] = defaultdict(list)
    for one in judged:
        per_project[one.project].append(one)
    for project in present(corpus, only):
        mine = per_project.pop(project.name, [])
        found = set(findings(corpus, project)) if mine else set()
        for one in mine:
            path, line, code = one.finding
            place = f"{project.name}/{path}:{line}: {code}"
            if one.version != project.version:
                yield f"{place}: judged at {one.version}, the corpus holds {project.version}"
            elif one.verdict == "right" and one.finding not in found:
                yield f"{place}: judged right, no longer found: {one.why}"
            elif one.verdict == "wrong" and one.finding in found:
                yield f"{place}: judged wrong, still found: {one.why}"
    if not only:
        yield from (f"{name}: {len(rest)} verdicts not checked" for name, rest in sorted(per_project.items()))


def sample(corpus: Path, only: str | None, count: int, seed: int, known: set[tuple[str, Found]]) -> None:
    """Print at most `count` unjudged findings per rule, spread over the projects as evenly as possible."""
    draw = random.Random(seed)
    pools: dict[str, list[tuple[int, float, Project, Found]]] = defaultdict(list)
    for project in present(corpus, only):
        fresh = [one for one in dict.fromkeys(findings(corpus, project)) if (project.name, one) not in known]
        draw.shuffle(fresh)
        taken: Counter[str] = Counter()
        for one in fresh:
            # The n-th finding of each project before the n+1-th of any: no project fills the sample alone.
            pools[one.code].append((taken[one.code], draw.random(), project, one))
            taken[one.code] += 1
    writer = csv.writer(sys.stdout, delimiter="\t", quoting=csv.QUOTE_NONE, lineterminator="\n")
    writer.writerow(COLUMNS)
    for _, pool in sorted(pools.items()):
        for _, _, project, one in sorted(pool)[:count]:
            writer.writerow([project.name, project.version, one.path, one.line, one.code, "", ""])


def main() -> int:
    parser = corpus_parser(__doc__)
    parser.add_argument("--triage", type=Path, default=TRIAGE, metavar="FILE", help="the table of verdicts")
    parser.add_argument("--check", action="store_true", help="list the verdicts that the linter has drifted from")
    parser.add_argument("--sample", type=int, metavar="N", help="draw N findings of each rule to judge")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the draw (default 0)")
    options = parser.parse_args()
    judged = verdicts(options.triage) if options.triage.exists() else []
    if options.sample:
        known = {(one.project, one.finding) for one in judged}
        sample(options.corpus, options.project, options.sample, options.seed, known)
        return 0
    if not judged:
        raise SystemExit(f"{options.triage}: no verdicts yet")
    if options.check:
        drifted = list(drift(judged, options.corpus, options.project))
        print(*drifted, f"{len(drifted)} of {len(judged)} drifted", sep="\n")
        return 1 if drifted else 0
    print(*counts(judged), sep="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
