"""What continuous integration runs, with other programs in the place of those that it calls."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from linting import ROOT
from other_programs import ANY_OF

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the script is one of bash")

ALL = ["test-all", "verify", "consumers", "vscode"]
INSTALLS = """
echo "$@" >> calls
case "$*" in *update) exit 0;; esac
for package; do :; done
printf '#!/bin/sh\\n' > "bin/$package"
chmod +x "bin/$package"
"""


def ci(
    folder: Path, programs: str, apt: str | None = None, user: str = "1000", make: str = ""
) -> tuple[int, list[str], str]:
    """The exit status, the targets that were made and what was said, where there are these programs and no others."""
    there = folder / "bin"
    there.mkdir()
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
    for name in ("bash", "dirname", "chmod"):
        found = shutil.which(name)
        assert found is not None
        (there / name).symlink_to(found)
    written = {"make": f'echo "$1" >> made\n{make}', "id": f"echo {user}", **dict.fromkeys(programs.split(), "")}
    if apt is not None:
        written["apt-get"] = apt
    for name, text in written.items():
        (there / name).write_text(f"#!{there}/bash\n{text}\n", encoding="utf-8")
        (there / name).chmod(0o755)
    done = subprocess.run(
        [there / "bash", ".ci/run"],
        cwd=folder,
        env={"PATH": str(there)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, (folder / "made").read_text(encoding="utf-8").split(), done.stderr


@pytest.mark.parametrize("browser", ANY_OF["chromium"])
def test_any_name_of_the_browser_will_do(tmp_path: Path, browser: str) -> None:
    assert ci(tmp_path, f"{browser} npm", apt="echo never >&2; exit 1", user="0") == (0, ALL, "")


def test_what_is_missing_is_installed(tmp_path: Path) -> None:
    assert ci(tmp_path, "", apt=INSTALLS, user="0") == (0, ALL, "")
    calls = (tmp_path / "calls").read_text(encoding="utf-8").splitlines()
    assert [call.split()[-1] for call in calls] == ["update", "chromium", "update", "npm"]


def test_what_cannot_be_installed_is_told_with_the_reason(tmp_path: Path) -> None:
    status, made, said = ci(tmp_path, "npm", apt="echo E: no such package >&2; exit 100", user="0")
    assert (status, made) == (0, ["test-all", "verify", "vscode"])
    assert said == "E: no such package\n`make consumers` is not run, for lack of chromium\n"


def test_without_rights_nothing_is_installed(tmp_path: Path) -> None:
    status, made, said = ci(tmp_path, "", apt="echo never >&2; exit 1")
    assert (status, made) == (0, ["test-all", "verify"])
    assert said == (
        "`make consumers` is not run, for lack of chromium npm\n`make vscode` is not run, for lack of npm\n"
    )


@pytest.mark.parametrize("target", ALL)
def test_what_fails_is_not_tried_again(tmp_path: Path, target: str) -> None:
    status, made, _ = ci(tmp_path, "chromium npm", make=f'[ "$1" != {target} ]')
    assert status != 0
    assert made == ALL[: ALL.index(target) + 1]
