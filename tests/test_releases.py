"""The script that holds the simulated device on other releases of torch: how their programs are told apart."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

import pytest

from linting import ROOT

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType


@pytest.fixture(scope="module")
def releases() -> ModuleType:
    """The script, which lies beside the modules that it imports."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
        return importlib.import_module("releases")


def _found(build: str, **programs: str) -> dict[str, object]:
    return {"build": build, "python": "3.11.7", "programs": programs}


def test_what_differs_and_what_is_refused_is_named(releases: ModuleType) -> None:
    rule = releases.RULES_PROGRAMS[0]
    base = _found("2.13.0+cpu", values="as declared", counts="as declared", masks="as declared", **{rule: "2 waits"})
    refused = "not simulated: a layout"
    other = _found("2.15.0+cu132", values="as declared", counts=refused, **{rule: "1 waits"})
    build, python, *counts, how = releases.compare(other, base)
    assert (build, python, counts) == ("2.15.0+cu132", "3.11.7", ["1", "2", "1"])
    assert how == f"counts: {refused}; masks: it did not run, not as declared; {rule}: 1 waits, not 2 waits"


def test_the_base_is_held_against_what_is_declared(releases: ModuleType) -> None:
    base = _found("2.13.0+cpu", values="AssertionError")
    assert releases.compare(base, base)[2:5] == ("0", "1", "0")


def test_a_row_takes_the_place_of_its_builds_earlier_one(releases: ModuleType, tmp_path: Path) -> None:
    table = tmp_path / "releases.tsv"
    first, second = ("2.15.0+cu132", "3.11.7", "1", "0", "0", ""), ("2.11.0+cu130", "3.11.7", "1", "0", "0", "")
    releases.write(table, {first[0]: first, second[0]: second})
    assert releases.read(table) == {first[0]: first, second[0]: second}
    assert table.read_text().splitlines()[1].startswith("2.11.0")


def test_the_rules_programs_are_there(releases: ModuleType) -> None:
    assert all((ROOT / "fixtures" / "rules" / name).is_file() for name in releases.RULES_PROGRAMS)


def test_the_table_covers_the_releases_that_are_not_refused(releases: ModuleType) -> None:
    pytest.importorskip("torch")
    from torchperf_lint.verify.simulated.releases import NEWEST, OLDEST

    builds = releases.read(releases.TABLE)
    covered = {tuple(map(int, build.split(".")[:2])) for build in builds}
    assert covered == {(2, minor) for minor in range(OLDEST[1], NEWEST[1] + 1)}
    assert any("+cpu" in build for build in builds)
