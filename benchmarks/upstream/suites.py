"""Upstream's own tests: which of them are run, brought from the source distribution, and what each one's outcome is."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from catalogue import TABLE as PROGRAMS
from catalogue import Environment, tomllib
from copies import copy_packages

FOLDER = Path(__file__).resolve().parent

TABLE = FOLDER / "upstream.toml"

LONGEST = 3600
"""Seconds after which a suite is given up: each takes less than three minutes on two cores that nobody else uses."""


class Unusable(Exception):
    """A suite cannot be brought or run; the message says why."""


class Suite(NamedTuple):
    """The tests of a package: the arguments of pytest, and what they need beside the environment of its programs.

    `installed` are packages of tests that the wheel has; where there are some, no source distribution is brought.
    """

    name: str
    requirement: str  # of the distribution, pinned
    module: str
    environment: Environment
    arguments: tuple[str, ...]
    needs: tuple[str, ...]
    installed: tuple[str, ...]

    @property
    def version(self) -> str:
        """The version of the distribution."""
        return self.requirement.partition("==")[2]


def suites(names: tuple[str, ...] = ()) -> list[Suite]:
    """All suites, or those called so, by name; exits with a message where there is none called so."""
    listed: dict[str, Any] = tomllib.loads(TABLE.read_text("utf-8"))
    environments = tomllib.loads(PROGRAMS.read_text("utf-8"))["environments"]
    found = {}
    for name, each in sorted(listed["suites"].items()):
        made = environments[each.get("environment", name)]
        environment = Environment(each.get("environment", name), tuple(made["requires"]), made["known"])
        (pinned,) = (line for line in made["requires"] if line.startswith(f"{each['distribution']}=="))
        needs = (*listed["needs"], *each.get("needs", ()))
        arguments, installed = tuple(each["arguments"]), tuple(each.get("installed", ()))
        found[name] = Suite(name, pinned, each["module"], environment, arguments, needs, installed)
    unknown = [name for name in names if name not in found]
    if unknown:
        raise SystemExit(f"no suite `{unknown[0]}`; there are {', '.join(found)}")
    return [found[name] for name in names] or list(found.values())


def brought(suite: Suite, folder: Path) -> Path | None:
    """The archive of the source distribution below this folder, downloaded if it is missing; raises Unusable.

    None where the wheel has the tests.
    """
    if suite.installed:
        return None
    into = folder / suite.requirement
    archives = list(into.glob("*.tar.gz"))
    if not archives:
        bring = "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:", f"--dest={into}", suite.requirement
        done = subprocess.run([sys.executable, "-m", *bring], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unusable(f"{suite.requirement} cannot be downloaded: {done.stderr.strip()}")
        archives = list(into.glob("*.tar.gz"))
    if not archives:
        raise Unusable(f"{suite.requirement} has no archive of its source")
    return archives[0]


def lay_out(suite: Suite, archive: Path | None, python: Path, into: Path) -> Path:
    """Lay out the source distribution, with the package in it as this Python has it installed; return its folder.

    Modules are looked for there first.
    """
    if archive is None:
        root = into / "installed"
        root.mkdir(parents=True)
        copy_packages([suite.module, *suite.installed], python, root)
        return root
    into.mkdir()
    with tarfile.open(archive) as content:
        content.extractall(into, filter="data")
    (root,) = into.iterdir()
    shutil.rmtree(root / suite.module, ignore_errors=True)
    shutil.rmtree(root / "src" / suite.module, ignore_errors=True)
    copy_packages([suite.module], python, root)
    return root


def outcomes(suite: Suite, python: Path, root: Path) -> dict[str, str]:
    """The outcome of each test by its name; raises Unusable."""
    return _run(suite, python, root, {}, ())


def outcomes_and_rows(
    suite: Suite, python: Path, root: Path, files: list[str]
) -> tuple[dict[str, str], dict[str, set[int]]]:
    """The same, and the rows of files in the folder that run in the tests' own process."""
    places = {os.path.realpath(root / file): file for file in files}
    into = root / "ran-rows.json"
    asked = json.dumps({"files": list(places), "into": str(into)})
    found = _run(suite, python, root, {"RAN_ROWS": asked, "PYTHONPATH": str(FOLDER)}, ("-p", "ran_rows"))
    ran = json.loads(into.read_text("utf-8"))
    return found, {file: set(ran[place]) for place, file in places.items()}


def _run(suite: Suite, python: Path, root: Path, variables: dict[str, str], options: tuple[str, ...]) -> dict[str, str]:
    report = root / "outcomes.xml"
    command = [str(python), "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider", *options]
    fixed = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "2", "CUDA_VISIBLE_DEVICES": "", "WANDB_MODE": "offline"}
    offline = {"HF_HUB_OFFLINE": "1", "MPLBACKEND": "agg"}
    try:
        done = subprocess.run(
            [*command, f"--junitxml={report}", *suite.arguments],
            cwd=root,
            env=os.environ | fixed | offline | variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST,
        )
    except subprocess.TimeoutExpired:
        raise Unusable(f"the tests take more than {LONGEST} seconds") from None
    if not report.is_file():
        raise Unusable(f"pytest ended with status {done.returncode}: {(done.stderr or done.stdout).strip()[-2000:]}")
    return _outcomes_of(report.read_text("utf-8"))


def _outcomes_of(report: str) -> dict[str, str]:
    found = {}
    for case in ElementTree.fromstring(report).iter("testcase"):
        name = re.sub(r"0x[0-9a-f]+", "0x", f"{case.get('classname')}::{case.get('name')}")
        kinds = [kind for kind in ("failure", "error", "skipped") if case.find(kind) is not None]
        found[name] = kinds[0] if kinds else "passed"
    return found
