"""Breaks the fixes on purpose: the program of every mutant must reject it.

A mutant is the fixed text of a rule's program, changed in one place. `torchperf-lint verify` would run and judge it
in the same way, except that here programs are forks of a process that has imported torch. There are two kinds, both in
mutants.toml: hand-written ones, and those that operators make of the text that fixes insert.

Exit status: 0 all are rejected, 1 some are not, or do not count: a mutant that no longer applies, that raises (it
does not show that results are compared), or that is rejected for a reason other than the stated one; and where a rule
has fewer than in mutants.tsv, which holds the counts of the last run of all that was given `--update`.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import sys
import tempfile
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from difflib import SequenceMatcher
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from torchperf_lint import pages
from torchperf_lint.engine import registry
from torchperf_lint.engine.findings import Safety
from torchperf_lint.measurements import UNFIXED
from torchperf_lint.verify import environments, pairs
from torchperf_lint.verify.child import NOT_SIMULATED, OK
from torchperf_lint.verify.command import broken_claims
from torchperf_lint.verify.warm import warm_launches
from torchperf_lint.verify.workloads import workloads_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

    from torchperf_lint.engine.declare import Rule
    from torchperf_lint.measurements import Device
    from torchperf_lint.verify.runs import Launch, Run
    from torchperf_lint.verify.workloads import Workload

TABLE = Path(__file__).with_suffix(".toml")
COUNTS = Path(__file__).with_suffix(".tsv")
MIXED_DEVICES = "Expected all tensors to be on the same device"
"""The error that any mutant of kind `device` may raise."""

VERDICTS = "rejected", "equivalent", "survives", "does not count"
REJECTED, EQUIVALENT, SURVIVES, VOID = VERDICTS


class BadTable(ValueError):
    """An entry of the table is invalid; the text says which and why."""


class Operator(NamedTuple):
    """Makes mutants of inserted text: one of each line that the regular expression `right` matches.

    `raises` is a regular expression for the error that such a mutant may raise.
    """

    kind: str
    right: str
    wrong: str
    raises: str = ""


class Mutant(NamedTuple):
    """A wrong fix of a program: its text, and its difference from the right one.

    `said` must occur in the reason for its rejection.
    """

    variant: str
    kind: str
    row: int
    right: str
    wrong: str
    text: str
    said: str = ""
    raises: str = ""

    @property
    def line(self) -> str:
        """The first wrong line."""
        return self.text.split("\n")[self.row - 1].partition("  # expect")[0].strip()

    def __str__(self) -> str:
        return f"{self.kind}, `{_shown(self.right)}` -> `{_shown(self.wrong)}` in `{self.line}`"


def _shown(text: str) -> str:
    return " / ".join(line.strip() for line in text.splitlines())


class Outcome(NamedTuple):
    """A mutant's verdict in a program, with the reason."""

    program: str
    mutant: Mutant
    verdict: str
    reason: str

    def __str__(self) -> str:
        return f"{self.program} {self.mutant}: {self.verdict}, {self.reason}"


class Table(NamedTuple):
    """The contents of mutants.toml, with the operators parsed."""

    operators: tuple[Operator, ...]
    written: tuple[dict[str, str], ...]
    equivalent: tuple[dict[str, Any], ...]
    exempt: tuple[dict[str, str], ...]


_FIELDS = {
    "mutant": ({"program", "kind", "right", "wrong"}, {"grade", "said", "raises"}),
    "equivalent": ({"rule", "right", "wrong", "lines", "why"}, set()),
    "exempt": ({"rule", "why"}, set()),
}


def read_table(path: Path = TABLE) -> Table:
    """Read the table; raise BadTable for an incomplete entry."""
    content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    for name, (needed, allowed) in _FIELDS.items():
        for entry in content.get(name, ()):
            if not needed <= entry.keys() <= needed | allowed or len(entry.keys() & {"said", "raises"}) != (
                name == "mutant"
            ):
                raise BadTable(f"{entry}: this is no {name}")
    operators = tuple(Operator(**each) for each in content.get("operator", ()))
    return Table(operators, *(tuple(content.get(name, ())) for name in _FIELDS))


def _name(workload: Workload) -> str:
    return f"{workload.rule.code}/{workload.name}"


def inserted(before: str, after: str) -> list[tuple[int, int]]:
    """The spans of `after` that are not in `before`."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    starts = [0]
    for line in new:
        starts.append(starts[-1] + len(line))
    spans = []
    for tag, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag in ("replace", "insert"):
            text, place = "".join(new[k:m]), starts[k]
            spans += [(place + start, place + end) for start, end in _new_words("".join(old[i:j]), text)]
    return spans


def _new_words(before: str, after: str) -> Iterator[tuple[int, int]]:
    words, others = (re.findall(r"\w+|\s+|.", text) for text in (after, before))
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    for tag, _, _, k, m in SequenceMatcher(None, others, words, autojunk=False).get_opcodes():
        if tag in ("replace", "insert"):
            yield starts[k], starts[m]


def made_by(operators: Iterable[Operator], programs: Mapping[str, str]) -> Iterator[Mutant]:
    """The mutants that operators make of a program, given its texts by variant, the unfixed one first."""
    texts = list(programs.items())
    for (_, before), (variant, text) in pairwise(texts):
        spans = inserted(before, text)
        for operator in operators:
            rows = set()
            for match in re.finditer(operator.right, text):
                new = any(start < match.end() and match.start() < end for start, end in spans)
                row = text.count("\n", 0, match.start())
                if new and row not in rows:
                    rows.add(row)
                    wrong = match.expand(operator.wrong)
                    yield _mutant(variant, operator.kind, text, *match.span(), wrong, raises=operator.raises)


def written(entry: dict[str, str], programs: Mapping[str, str]) -> Mutant:
    """A mutant of the table; raise BadTable where what it replaces is not in the fixed text exactly once."""
    variant = entry.get("grade", list(programs)[-1])
    text, right = programs.get(variant, ""), entry["right"]
    if text.count(right) != 1:
        times = f"{text.count(right)} times in the {variant} text"
        raise BadTable(f"{entry['program']}: `{right}` occurs {times}, and has to once")
    start = text.index(right)
    span = start, start + len(right)
    return _mutant(variant, entry["kind"], text, *span, entry["wrong"], entry.get("said", ""), entry.get("raises", ""))


def _mutant(
    variant: str, kind: str, text: str, start: int, end: int, wrong: str, said: str = "", raises: str = ""
) -> Mutant:
    row = text.count("\n", 0, start) + 1
    return Mutant(variant, kind, row, text[start:end], wrong, text[:start] + wrong + text[end:], said, raises)


class Trial:
    """A program with one set of releases; its right texts are run once."""

    def __init__(self, case: pairs.Case, releases: Path, launch: Launch | None) -> None:
        self.case = case
        self.name = _name(case.workload)
        self._launch = launch
        self._libraries = environments.folders_of(case.releases, releases)
        self._texts = pairs.variants(case)
        self.programs = {variant: text.decode() for variant, text in self._texts.items()}
        self._right: dict[str, Run] = {}

    def judge(self, mutant: Mutant, claimed: dict[str, Device]) -> tuple[str, str]:
        """The verdict on a mutant and its reason; raise BadTable where the right fix is not accepted either."""
        if not self._right:
            self._right = {variant: self._run(text) for variant, text in self.programs.items()}
            wrong = [run.report["error"] for run in self._right.values() if run.status != OK]
            wrong += [
                each for variant in list(self.programs)[1:] for each in self._against(variant, self._right, claimed)
            ]
            if wrong:
                raise BadTable(f"{self.name}: the right fix is not accepted: {wrong[0]}")
        run = self._run(mutant.text)
        error = str(run.report["error"]).partition("\n")[0]
        if run.status == NOT_SIMULATED:
            return VOID, f"it cannot be run here: {error}"
        if run.status != OK:
            allowed = [each for each in (mutant.raises, MIXED_DEVICES if mutant.kind == "device" else "") if each]
            return REJECTED if any(re.search(each, error) for each in allowed) else VOID, f"it breaks off: {error}"
        against = self._against(mutant.variant, {**self._right, mutant.variant: run}, claimed)
        if not against:
            return SURVIVES, "nothing speaks against it"
        reason = next((each for each in against if mutant.said in each), None)
        if reason is None:
            return VOID, f"rejected, but not since `{mutant.said}`: {against[0]}"
        return REJECTED, reason

    def _run(self, text: str) -> Run:
        with tempfile.TemporaryDirectory(prefix="torchperf-lint-") as folder:
            place = Path(folder)
            return pairs.run_variant(place, self.case, text.encode(), "sim", self._libraries, launch=self._launch)

    def _against(self, variant: str, runs: dict[str, Run], claimed: dict[str, Device]) -> list[str]:
        """The objections of `verify` to a fix: from the comparison of runs, and from the rule's page."""
        agreement, safe = self.case.workload.agreement, variant == Safety.SAFE.value
        found = pairs.objections(runs[UNFIXED], runs[variant], agreement, safe=safe)
        proof = pairs.Proof(self.case, self._texts, runs, {variant: found})
        return [*found, *broken_claims(proof, "sim", claimed)]


def outcomes(
    rule: Rule, workloads: Sequence[Workload], table: Table, make: Callable[[pairs.Case], Trial]
) -> Iterator[Outcome]:
    """The outcomes of all mutants of a rule; raise BadTable where an entry of the table no longer applies.

    Where several programs or releases have the same line, one of them must reject its mutant.
    """
    places: dict[tuple[str, ...], list[tuple[Trial, Mutant]]] = defaultdict(list)
    trials = [make(case) for case in pairs.cases_of(workloads)]
    for trial in trials:
        for mutant in made_by(table.operators, trial.programs):
            places[mutant.kind, mutant.right, mutant.wrong, mutant.line].append((trial, mutant))
    for entry in (entry for entry in table.written if entry["program"].startswith(f"{rule.code}/")):
        fixed = [trial for trial in trials if trial.name == entry["program"] and len(trial.programs) > 1]
        if not fixed:
            raise BadTable(f"{entry['program']}: there is no such program with a fix")
        mutant = written(entry, fixed[-1].programs)
        places[entry["program"], mutant.right, mutant.wrong, mutant.line].append((fixed[-1], mutant))
    entries = [entry for entry in table.equivalent if entry["rule"] == rule.code]
    claimed = pages.measured()
    mutants = [found[0][1] for found in places.values()]
    for entry in entries:
        for line in entry["lines"]:
            if not any(_is({**entry, "lines": [line]}, mutant) for mutant in mutants):
                raise BadTable(f"{rule.code}: no mutant makes `{line}` any more, which is listed as equivalent")
    for found in places.values():
        why = next((entry["why"] for entry in entries if _is(entry, found[0][1])), None)
        for trial, mutant in found:
            verdict, reason = trial.judge(mutant, claimed)
            if verdict == REJECTED:
                break
        if why is not None:
            rejected = f"listed as equivalent, and it is not: {reason}"
            verdict, reason = (EQUIVALENT, why) if verdict == SURVIVES else (VOID, rejected)
        yield Outcome(trial.name, mutant, verdict, reason)


def _is(entry: dict[str, Any], mutant: Mutant) -> bool:
    change = entry["right"], entry["wrong"]
    return change == (mutant.right, mutant.wrong) and any(line in mutant.line for line in entry["lines"])


def all_outcomes(
    workloads: Sequence[Workload], table: Table, releases: Path, jobs: int
) -> Iterator[Sequence[Outcome | str]]:
    """The outcomes by rule, in order; a text explains missing ones."""
    by_rule: dict[Rule, list[Workload]] = defaultdict(list)
    for workload in workloads:
        by_rule[workload.rule].append(workload)
    with warm_launches("sim") as launch, ThreadPoolExecutor(jobs) as pool:

        def one(rule: Rule) -> Sequence[Outcome | str]:
            mine = launch()
            found: list[Outcome | str] = []
            try:
                found.extend(outcomes(rule, by_rule[rule], table, lambda case: Trial(case, releases, mine)))
            except (BadTable, environments.Unavailable) as error:
                found.append(str(error))
            return found

        yield from pool.map(one, by_rule)


def unbroken(rules: Iterable[Rule], broken: Container[str], table: Table) -> list[str]:
    """The rules whose written fixes have no mutant, those that are exempt and have one, and names of no rule."""
    exempt = {entry["rule"] for entry in table.exempt}
    named = exempt | {entry["program"].partition("/")[0] for entry in table.written}
    unknown = sorted(named - {rule.code for rule in rules})
    written = [rule.code for rule in rules if rule.fix in (Safety.SAFE, Safety.UNSAFE)]
    bare = [f"{code} has a fix and no mutant" for code in written if code not in broken and code not in exempt]
    bare += [f"there is no rule {code}" for code in unknown]
    return bare + [f"{code} is exempt and has mutants" for code in sorted(exempt) if code in broken]


Counts = dict[str, Counter[str]]
"""How many mutants of a rule got each verdict, by code."""


def told(counts: Counts, errors: int = 0) -> str:
    """The counts over all rules, in one line; each error is a mutant that does not count."""
    all_in_all = Counter({VOID: errors})
    for each in counts.values():
        all_in_all += each
    counted = ", ".join(f"{all_in_all[verdict]} {verdict}" for verdict in VERDICTS)
    return f"{all_in_all.total()} mutants of the fixes of {len(counts)} rules: {counted}"


def fewer(before: Counts, now: Counts) -> list[str]:
    """The rules that had more mutants before, which were rejected."""
    return [
        f"{code} has {now.get(code, Counter())[REJECTED]} rejected mutants, and had {each[REJECTED]}"
        for code, each in before.items()
        if now.get(code, Counter())[REJECTED] < each[REJECTED]
    ]


def read_counts() -> Counts:
    """The counts of mutants.tsv."""
    with COUNTS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return {row["rule"]: Counter({verdict: int(row[verdict]) for verdict in VERDICTS}) for row in rows}


def write_counts(counts: Counts) -> None:
    """Replace mutants.tsv."""
    with COUNTS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(("rule", *VERDICTS))
        writer.writerows((code, *(counts[code][verdict] for verdict in VERDICTS)) for code in sorted(counts))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the requested mutants; return the exit status."""
    parser = argparse.ArgumentParser(description="Break the fixes on purpose, and see whether the programs notice.")
    parser.add_argument("chosen", nargs="*", metavar="RULE", help="codes (default: all)")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="runs at a time")
    parser.add_argument("--releases", type=Path, default=environments.default_folder(), metavar="DIR")
    parser.add_argument("--update", action="store_true", help="write the counts of all rules into mutants.tsv")
    parser.add_argument("--committed", action="store_true", help="run nothing, and print the counts of mutants.tsv")
    options = parser.parse_args(arguments)
    if options.committed:
        print(told(read_counts()))
        return 0
    if options.update and options.chosen:
        parser.error("--update takes all rules")
    table, rules = read_table(), registry.all_rules()
    workloads = workloads_of([rule for rule in rules if not options.chosen or rule.code in options.chosen])
    counts: Counts = {}
    errors: list[str] = []
    for found in all_outcomes(workloads, table, options.releases, options.jobs):
        for outcome in found:
            if isinstance(outcome, Outcome):
                code = outcome.program.partition("/")[0]
                counts.setdefault(code, Counter())[outcome.verdict] += 1
                print(outcome, flush=True)
            else:
                errors.append(outcome)
                print(f"error: {outcome}", flush=True)
    told_already = len(errors)
    if not options.chosen:
        errors += unbroken(rules, counts, table)
        for error in errors[told_already:]:
            print(f"error: {error}")
    print(told(counts, len(errors)))
    lost = [] if options.chosen else fewer(read_counts(), counts)
    for each in lost:
        print(f"fewer: {each}")
    failed = errors or any(each[SURVIVES] + each[VOID] for each in counts.values())
    if options.update and not failed:
        write_counts(counts)
    return int(bool(failed or (lost and not options.update)))


if __name__ == "__main__":
    sys.exit(main())
