"""Stores the results of proofs in a checkout: in `rules/measurements.json` and in the rules' pages."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from torchperf_lint import measurements, pages
from torchperf_lint.engine.replacing import write_atomically
from torchperf_lint.measurements import Device, Measurement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from torchperf_lint.engine.declare import Rule
    from torchperf_lint.verify.pairs import Proof
    from torchperf_lint.verify.step_times import StepTimes


def measurement(proof: Proof, times: StepTimes | None = None) -> Measurement:
    """A proof as a Measurement; `times` come from a real GPU."""
    counts = {variant: run.counts() for variant, run in proof.runs.items()}
    return Measurement(
        proof.case.workload.name,
        proof.case.torchmetrics,
        {variant: round(float(each.waits), 3) for variant, each in counts.items()},
        {variant: round(float(each.staged), 3) for variant, each in counts.items()},
        _results_of(proof),
        {variant: round(ms, 4) for variant, ms in times.medians.items()} if times else {},
        {
            what: {variant: round(float(count), 3) for variant, count in by_variant.items()}
            for what, by_variant in proof.others.items()
        },
    )


def _results_of(proof: Proof) -> str:
    """How the results of an accepted proof compare; a dash where no fix changed them."""
    agreement = proof.case.workload.agreement
    if not proof.objections:
        return "–"
    if agreement.differ:
        return "differ, as stated"
    if agreement.other_types:
        return "equal but for types"
    return f"within {agreement.tolerance:g}" if agreement.tolerance else "equal"


def keep(rule: Rule, rows: Sequence[Measurement], facts: Mapping[str, str]) -> None:
    """Replace a rule's measurements on that device, whose `facts` are in the report of a run.

    A program's step times stay where it is only counted again, with the same counts and the same torch.
    """
    devices = pages.measured()
    name = device_name(facts)
    rules = dict(devices[name].rules) if name in devices else {}
    torch = facts["torch"].partition("+")[0]
    timed = rules.get(rule.code, ()) if name in devices and devices[name].torch == torch else ()
    earlier = {(row.workload, row.torchmetrics): row for row in timed}
    rules[rule.code] = tuple(_with_times(row, earlier.get((row.workload, row.torchmetrics))) for row in rows)
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    devices = {**devices, name: Device(name, torch, today, rules)}
    _replace(pages.pages_root() / measurements.NAME, measurements.text_of(devices))
    page = pages.page_path(rule)
    _replace(page, pages.with_measured_effect(page.read_text(encoding="utf-8"), measurements.section(rule, devices)))


def device_name(facts: Mapping[str, str]) -> str:
    """The name that a device's measurements are kept under."""
    return measurements.SIMULATED if facts["kind"] == "sim" else facts["name"]


def _with_times(row: Measurement, earlier: Measurement | None) -> Measurement:
    """The measurement with the step times of an earlier one, where it has none and its counts are the same."""
    if row.step_ms or earlier is None or (row.waits, row.staged) != (earlier.waits, earlier.staged):
        return row
    return row._replace(step_ms=earlier.step_ms)


def _replace(path: Path, text: str) -> None:
    if not path.exists():
        path.touch()
    write_atomically(str(path), text.encode())
