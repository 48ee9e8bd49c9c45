"""The benchmark of upstream's own tests: what it counts, and the table that it wrote."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from linting import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

FOLDERS = [str(ROOT / "benchmarks" / name) for name in ("upstream", "programs")]
MODULES = ("run", "suites", "copies", "catalogue", "environments")

REPORT = """\
<testsuites><testsuite>
<testcase classname="tests.test_a" name="test_one" time="0.1"/>
<testcase classname="tests.test_a" name="test_two[at 0x7f01]"><failure message="no">gone</failure></testcase>
<testcase classname="tests.test_a" name="test_three"><skipped/></testcase>
<testcase classname="" name="tests.test_b"><error message="import"/></testcase>
</testsuite></testsuites>
"""


@pytest.fixture(scope="module")
def run() -> Iterator[ModuleType]:
    """The script, imported under its own name as python does it, and nothing of it left behind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*FOLDERS, *sys.path])
        for name in MODULES:
            patch.delitem(sys.modules, name, raising=False)
        yield importlib.import_module("run")
        for name in MODULES:
            sys.modules.pop(name, None)


def test_no_outcome_differs(run: ModuleType) -> None:
    rows = run.committed()
    assert rows
    assert set(rows) <= {each.name for each in run.suites()}
    for suite in (each for each in run.suites() if each.name in rows):
        row = dict(zip(run._HEADER, rows[suite.name], strict=True))
        assert row["version"] == suite.version
        assert int(row["tests"]) >= int(row["passed"]) > 0
        assert (row["safe_differ"], row["unsafe_differ"]) == ("0", "0")
        assert int(row["safe_fixes"]) <= int(row["unsafe_fixes"])
        assert int(row["safe_run"]) <= int(row["unsafe_run"])


def test_outcomes_are_read_test_by_test(run: ModuleType) -> None:
    assert sys.modules["suites"]._outcomes_of(REPORT) == {
        "tests.test_a::test_one": "passed",
        "tests.test_a::test_two[at 0x]": "failure",
        "tests.test_a::test_three": "skipped",
        "::tests.test_b": "error",
    }


def test_what_differs_is_told_but_not_what_is_flaky(run: ModuleType) -> None:
    before = {"a": "passed", "b": "passed", "c": "passed", "d": "failure"}
    after = {"a": "failure", "b": "failure", "d": "failure", "e": "passed"}
    different = (("a", "passed", "failure"), ("c", "passed", "missing"), ("e", "missing", "passed"))
    assert run._different(before, after, ("b",)) == different


@pytest.mark.slow
def test_rows_that_tests_run_are_noted(run: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "package.py").write_text("def used():\n    x = 1\n    return x\n\n\ndef unused():\n    return 2\n")
    tests = "import package\n\ndef test_used(): assert package.used() == 1\n\ndef test_bad(): assert package.no\n"
    (tmp_path / "test_package.py").write_text(tests)
    suites = sys.modules["suites"]
    suite = run.suites()[0]._replace(arguments=("test_package.py",))
    found, rows = suites.outcomes_and_rows(suite, sys.executable, tmp_path, ["package.py"])
    assert found == {"test_package::test_used": "passed", "test_package::test_bad": "failure"}
    assert rows == {"package.py": {1, 2, 3, 6}}


def test_an_unknown_suite_is_one_line() -> None:
    script = os.path.join(FOLDERS[0], "run.py")
    done = subprocess.run([sys.executable, script, "none"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("no suite `none`; there are ")
