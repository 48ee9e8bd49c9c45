"""The runnable fixtures of the rules: their location, the declarations in their first lines, and their fixed texts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine import registry
from torchperf_lint.engine.findings import Safety
from torchperf_lint.engine.fixer import fix_source
from torchperf_lint.knowledge.hints import Hints
from torchperf_lint.knowledge.versions import Target
from torchperf_lint.verify.environments import Release

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torchperf_lint.engine.declare import Rule
    from torchperf_lint.knowledge.versions import Version

PREFIX = "run_"
FIXED = (".fixed.py", ".unsafe.py")

_DIRECTIVE = re.compile(r"#\s*verify:\s*(?P<text>.+?)\s*$")
_VERSIONS = re.compile(r"torchmetrics\s+(?P<versions>[\d.]+(?:\s*,\s*[\d.]+)*)")
_NEEDS = re.compile(r"with\s+(?P<needs>[\w.-]+\s+[\d.]+(?:\s*,\s*[\w.-]+\s+[\d.]+)*)")
_HOST_BYTES = "counts host bytes"
_RESULTS = re.compile(
    r"(?:results\s+within\s+(?P<tolerance>[\d.e+-]+)|(?P<differ>results|values|types)\s+differ)\s+\((?P<reason>.+)\)"
)
_KEEPS = re.compile(r"keeps\s+(?P<bytes>\d+)\s+bytes\s+per\s+wait\s+\(.+\)")


class BadWorkload(ValueError):
    """A workload cannot be used; the text says which and why."""


class Agreement(NamedTuple):
    """How far a fixed program's results may differ from the unfixed one's, and why.

    Where they `differ`, their types may as well, and those of printed and logged values, unless it says `same_types`.
    With `other_types`, numbers have equal values and maybe other types: ints, floats, zero-dimensional tensors.
    `kept` is what an unsafe fix may defer on the device, in bytes per saved wait.
    """

    tolerance: float = 0.0
    differ: bool = False
    reason: str = ""
    kept: int = 0
    same_types: bool = False
    other_types: bool = False


class Workload(NamedTuple):
    """A runnable fixture of a rule.

    `torchmetrics` are the versions to run it against, the installed one if empty; `needs` are further packages;
    `host_bytes` requests a count of the bytes that host operators allocate.
    """

    path: Path
    rule: Rule
    torchmetrics: tuple[str, ...]
    agreement: Agreement
    needs: tuple[Release, ...] = ()
    host_bytes: bool = False

    @property
    def name(self) -> str:
        """What tables call it."""
        return self.path.stem.removeprefix(PREFIX)

    @property
    def data(self) -> bytes:
        """The unfixed program."""
        return self.path.read_bytes()

    def fixed(self, torch: Version | None, torchmetrics: Version | None) -> dict[Safety, bytes]:
        """The program after `--fix`, and after `--unsafe-fixes` too; without a grade that changes nothing (more)."""
        target = Target(torch, torchmetrics)
        programs: dict[Safety, bytes] = {}
        best = self.data
        for safety in (Safety.SAFE, Safety.UNSAFE):
            report = fix_source(
                self.path.name, self.data, (self.rule,), target, Hints(), safety is Safety.UNSAFE, report_unused=False
            )
            if report.data != best:
                programs[safety] = best = report.data
        return programs


def fixtures_root() -> Path:
    """The folder of the fixtures: package data in a wheel, else `fixtures/` of the checkout."""
    package = Path(__file__).resolve().parent.parent
    shipped = package / "_fixtures"
    root = shipped if shipped.is_dir() else package.parent / "fixtures"
    if not (root / "rules").is_dir():
        raise BadWorkload("this installation of torchperf-lint holds no fixtures to run")
    return root


def workloads_of(rules: Iterable[Rule]) -> list[Workload]:
    """The runnable fixtures of these rules, in the order of the rules; raise BadWorkload where one cannot be read."""
    return [
        read_workload(path, rule)
        for rule in rules
        for path in sorted((fixtures_root() / "rules" / rule.category.name.lower() / rule.stem).glob(f"{PREFIX}*.py"))
        if not path.name.endswith(FIXED)
    ]


def read_workload(path: Path, rule: Rule | None = None) -> Workload:
    """The workload that a file holds; its rule is the one that its folder is named after."""
    rule = rule or registry.find_rule(path.parent.name.replace("_", "-"))
    if rule is None:
        raise BadWorkload(f"{path}: its folder is named after no rule")
    versions: tuple[str, ...] = ()
    needs: tuple[Release, ...] = ()
    agreement = Agreement()
    host_bytes = False
    for line in path.read_text(encoding="utf-8").splitlines():
        directive = _DIRECTIVE.match(line)
        if directive is None:
            continue
        if match := _VERSIONS.fullmatch(directive["text"]):
            versions = tuple(re.split(r"\s*,\s*", match["versions"]))
        elif match := _NEEDS.fullmatch(directive["text"]):
            needs = tuple(Release(*each.split()) for each in match["needs"].split(","))
        elif match := _RESULTS.fullmatch(directive["text"]):
            what, tolerance = match["differ"], float(match["tolerance"] or agreement.tolerance)
            agreement = agreement._replace(
                tolerance=tolerance,
                differ=agreement.differ or what in ("results", "values"),
                reason="; ".join(filter(None, (agreement.reason, match["reason"]))),
                same_types=agreement.same_types or what == "values",
                other_types=agreement.other_types or what == "types",
            )
        elif match := _KEEPS.fullmatch(directive["text"]):
            agreement = agreement._replace(kept=int(match["bytes"]))
        elif directive["text"] == _HOST_BYTES:
            host_bytes = True
        else:
            raise BadWorkload(f"{path}: `{line.strip()}` is not understood")
    return Workload(path, rule, versions, agreement, needs, host_bytes)
