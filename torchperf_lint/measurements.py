"""`rules/measurements.json`: what the verification suite has measured, and how pages and tables show it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torchperf_lint.engine.declare import Rule

NAME = "measurements.json"
SIMULATED = "simulated"
UNFIXED, SAFE, UNSAFE = VARIANTS = ("unfixed", "safe", "unsafe")


class Measurement(NamedTuple):
    """One workload on one device: counts per step by variant; a grade whose fixes change nothing is missing.

    `torchmetrics` is the release that it was bound to, if any; `results` says how the fixed programs' results compare.
    `step_ms` are medians in milliseconds, from a real GPU only. `others` are counts of what else becomes less, where
    the waits stay what they are.
    """

    workload: str
    torchmetrics: str | None
    waits: dict[str, float]
    staged: dict[str, float]
    results: str
    step_ms: dict[str, float] = {}  # noqa: RUF012 - never written to
    others: dict[str, dict[str, float]] = {}  # noqa: RUF012 - never written to


class Device(NamedTuple):
    """What was measured on one device, by code of the rule."""

    name: str
    torch: str
    date: str
    rules: dict[str, tuple[Measurement, ...]]


def parse(text: str) -> dict[str, Device]:
    """The devices that a file's text holds."""
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
    """The file's text, always in the same order."""
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
    """The devices that are GPUs."""
    return [device for name, device in sorted(devices.items()) if name != SIMULATED]


def section(rule: Rule, devices: dict[str, Device]) -> str:
    """The text of the section `Measured effect` of a rule's page; empty where nothing has been measured."""
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
    return "\n".join(lines)


def _other(row: Measurement, what: str) -> str:
    return f"{what} " + " → ".join(f"{row.others[what][each]:.3g}" for each in VARIANTS if each in row.others[what])


def _cell(row: Measurement, variant: str) -> str:
    if variant not in row.waits:
        return "–"
    staged = row.staged[variant]
    return f"{row.waits[variant]:g}" + (f", {staged:g} staged" if staged else "")


def summary(rule: Rule, devices: dict[str, Device]) -> str:
    """The effect in a few characters, `2 → 0`; a dash where nothing is measured.

    It is that of the workload which loses the largest share of its waits, and of several such the plainest; where no
    workload loses any, what else becomes less.
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
