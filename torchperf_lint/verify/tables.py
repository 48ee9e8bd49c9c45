"""What `torchperf-lint verify` prints: one line per program, the lines that wait, and a summary."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from torchperf_lint.measurements import UNFIXED
from torchperf_lint.verify.pairs import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from torchperf_lint.engine.declare import Rule
    from torchperf_lint.verify.events import Place
    from torchperf_lint.verify.pairs import Proof
    from torchperf_lint.verify.runs import Run
    from torchperf_lint.verify.step_times import StepTimes

MEBIBYTE = 2**20


def row(proof: Proof, complaints: Sequence[str] = (), times: StepTimes | None = None) -> str:
    """One line per program, one for each comparison of times, and one for each reason not to accept it."""
    shown = [f"{variant} {_counts(run)}" if variant != UNFIXED else _counts(run) for variant, run in proof.runs.items()]
    effect = " -> ".join(shown) or "not run"
    verdict = proof.verdict if not complaints else "not what the page says"
    others = [f"{what} {' -> '.join(map(per_step, counts.values()))}" for what, counts in proof.others.items()]
    remarks = [*_ratios(times), *others, *_disagreements(proof), *proof.reasons, *complaints]
    notes = "".join(f"\n         {remark}" for remark in remarks)
    return f"{proof.case.workload.rule.code}  {proof.case.name}: {effect} waits per step; {verdict}{notes}"


def _ratios(times: StepTimes | None) -> list[str]:
    """Step times and memory, by variant; from a real GPU only."""
    if times is None:
        return []
    before = times.peaks[UNFIXED] / MEBIBYTE
    return [
        f"{variant}: a step takes {each.after.median:.3g} ms for {each.before.median:.3g} ms, ratio {each.ratio:.3g} "
        f"(95 % from {each.low:.3g} to {each.high:.3g}); "
        f"at most {times.peaks[variant] / MEBIBYTE:.4g} MiB for {before:.4g} MiB"
        for variant, each in times.comparisons.items()
    ]


def _disagreements(proof: Proof) -> list[str]:
    """Where the two detectors of a real GPU counted differently."""
    return [
        f"{variant}: {disagreement}"
        for variant, run in proof.runs.items()
        for disagreement in run.report["counters"].get("disagreements", ())
    ]


def _counts(run: Run) -> str:
    counts = run.counts()
    staged = f" (+{per_step(counts.staged)} staged)" if counts.staged else ""
    return f"{per_step(counts.waits)}{staged}"


def per_step(count: Fraction) -> str:
    """A count as a short decimal."""
    return f"{float(count):.3g}"


def lines(proof: Proof) -> str:
    """The lines of each variant that wait, with how often they do so per step."""
    text = []
    for variant, run in proof.runs.items():
        for line in run.lines():
            code = source_line(proof, variant, line.where)
            via = f" via {short(line.via)}" if line.via else ""
            often = f"{per_step(line.waits)} waits" if line.waits else f"{per_step(line.staged)} staged"
            text.append(f"         {variant:>8} {often:>9}  {short(line.where)} {line.operator}{via}: {code}\n")
    return "".join(text)


def source_line(proof: Proof, variant: str, place: Place) -> str:
    """The text of a line of a variant; empty for a line of another file."""
    program = program_lines(proof.programs[variant])
    own = Path(place.file).name == proof.case.workload.path.name
    return program[place.row - 1].strip() if own and 0 < place.row <= len(program) else ""


def program_lines(program: bytes) -> list[str]:
    """The lines of a program, as Python counts them: bytes, unlike text, do not break at a form feed."""
    return [line.decode(errors="replace") for line in program.splitlines()]


def short(place: Place) -> str:
    """A place as folder/file:row."""
    return f"{'/'.join(Path(place.file).parts[-2:])}:{place.row}" if place.row else place.file


def summary(proofs: Sequence[Proof], rules: Sequence[Rule]) -> str:
    """The number of programs by outcome, and the rules without any."""
    verdicts = Counter(proof.verdict for proof in proofs)
    covered = {proof.case.workload.rule.code for proof in proofs}
    ended = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in VERDICTS if verdicts[verdict])
    text = f"{_counted(len(proofs), 'run')} of {_counted(len(covered), 'rule')}: {ended or 'nothing was run'}"
    bare = [rule.code for rule in rules if rule.fix is not None and rule.code not in covered]
    return f"{text}; no program to run for {', '.join(bare)}" if bare else text


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
