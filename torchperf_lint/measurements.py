"""`rules/measurements.json`: the results of the verification suite, and their presentation in pages and tables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torchperf_lint.engine.declare import Rule

NAME = "measurements.json"
SIMULATED = "simulated"
UNFIXED, SAFE, UNSAFE = VARIANTS = ("unfixed", "safe", "unsafe")

OTHER_WORK_MS = 5.0
"""The milliseconds of other work with which each timed step begins on the GPU."""


class Measurement(NamedTuple):
    """One workload on one device: counts per step by variant; a grade whose fixes change nothing is missing.

    `torchmetrics` is the pinned release, if any; `results` says how the fixed programs' results compare.
    `step_ms` are medians in milliseconds, from a real GPU only, each step with OTHER_WORK_MS of other work on it.
    `others` are counts of other costs that drop where the number of waits does not.
    """

    workload: str
    torchmetrics: str | None
    waits: dict[str, float]
    staged: dict[str, float]
    results: str
    step_ms: dict[str, float] = {}  # noqa: RUF012 - never written to
    others: dict[str, dict[str, float]] = {}  # noqa: RUF012 - never written to


class Device(NamedTuple):
    """The measurements of one device, by rule code."""

    name: str
    torch: str
    date: str
    rules: dict[str, tuple[Measurement, ...]]


def parse(text: str) -> dict[str, Device]:
    """Parse the file's text into devices."""
    return {
        name: Device(
            name,
            each["torch"],
            each["date"],
            {code: tuple(Measurement(**row) for row in rows) for code, rows in each["rules"].items()},
        )
        for name, each in json.loads(text).items()
    }


def text_of(devices: dict[str, Device]) -> str:
    """The file's text, in a fixed order."""
    data: dict[str, Any] = {}
    for name, device in sorted(devices.items(), key=lambda item: (item[0] != SIMULATED, item[0])):
        rules = {
            code: [
                {key: value for key, value in row._asdict().items() if key not in ("step_ms", "others") or value}
                for row in rows
            ]
            for code, rows in sorted(device.rules.items())
        }
        data[name] = {"torch": device.torch, "date": device.date, "rules": rules}
    return json.dumps(data, indent=2) + "\n"


def real(devices: dict[str, Device]) -> list[Device]:
    """The real GPUs among the devices."""
    return [device for name, device in sorted(devices.items()) if name != SIMULATED]


def section(rule: Rule, devices: dict[str, Device]) -> str:
    """The section `Measured effect` of a rule's page; empty where nothing was measured."""
    parts = [_table(rule, device) for device in [*_simulated(devices), *real(devices)] if device.rules.get(rule.code)]
    if not parts:
        return ""
    if not any(device.rules.get(rule.code) for device in real(devices)):
        parts.append(
            "Simulated only: no GPU has measured this rule yet, and a simulated device tells nothing about time."
        )
    return "\n\n".join(parts)


def _simulated(devices: dict[str, Device]) -> list[Device]:
    return [devices[SIMULATED]] if SIMULATED in devices else []


def _table(rule: Rule, device: Device) -> str:
    rows = device.rules[rule.code]
    timed = any(row.step_ms for row in rows)
    place = "the simulated device" if device.name == SIMULATED else device.name
    counted = any(row.others for row in rows)
    heads = ["workload", *VARIANTS, "results", *(["step time, ms"] if timed else []), *(["else"] if counted else [])]
    lines = [
        f"Waits of the host per step on {place} (torch {device.torch}), unfixed and after the fixes of each grade;",
        f"`torchperf-lint verify {rule.code}` counts them again.",
        "",
        f"| {' | '.join(heads)} |",
        f"|{' --- |' * len(heads)}",
    ]
    for row in rows:
        name = f"`run_{row.workload}.py`" + (f", torchmetrics {row.torchmetrics}" if row.torchmetrics else "")
        cells = [name, *(_cell(row, variant) for variant in VARIANTS), row.results]
        if timed:
            cells.append(" → ".join(f"{row.step_ms[each]:.2f}" for each in VARIANTS if each in row.step_ms))
        if counted:
            cells.append(", ".join(_other(row, what) for what in row.others))
        lines.append(f"| {' | '.join(cells)} |")
    if timed:
        lines += [
            "",
            f"Each timed step begins with {OTHER_WORK_MS:g} ms of other work on the GPU, in place of a larger model.",
        ]
    return "\n".join(lines)


def _other(row: Measurement, what: str) -> str:
    return f"{what} " + " → ".join(f"{row.others[what][each]:.3g}" for each in VARIANTS if each in row.others[what])


def _cell(row: Measurement, variant: str) -> str:
    if variant not in row.waits:
        return "–"
    staged = row.staged[variant]
    return f"{row.waits[variant]:g}" + (f", {staged:g} staged" if staged else "")


def summary(rule: Rule, devices: dict[str, Device]) -> str:
    """The effect in a few characters, `2 → 0`; a dash where nothing was measured.

    It is the effect on the workload that loses the largest share of its waits, and of several such the simplest; where
    no workload loses any, the effect on other counts.
    """
    rows = [row for device in [*_simulated(devices), *real(devices)] for row in device.rules.get(rule.code, ())]
    changes = [(_total(row, UNFIXED), _total(row, list(row.waits)[-1])) for row in rows]
    lessened = [(before, after) for before, after in changes if after < before]
    if lessened:
        before, after = min(lessened, key=lambda change: (change[1] / change[0], change[0]))
        return f"{before:.3g} → {after:.3g}"
    return next((_other(row, what) for row in rows for what in row.others), "–")


def _total(row: Measurement, variant: str) -> float:
    return row.waits[variant] + row.staged[variant]
