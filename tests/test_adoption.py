"""docs/adoption.md: its files are made and its commands run, one after the other, in a real git repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from documents import ADOPTION, folded
from git_project import WHO, begun, committed
from linting import ROOT

if TYPE_CHECKING:
    from pathlib import Path

UNSET = ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "FORCE_COLOR")
BLOCK = re.compile(r"(?:<!-- write: (?P<file>\S+) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)```\n", re.DOTALL)


@pytest.mark.slow
def test_the_commands_print_what_the_page_says(tmp_path: Path, bless: bool) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    program = tmp_path / "bin" / "torchperf-lint"
    program.parent.mkdir()
    program.write_text(f'#!{bash}\nexec {sys.executable} -m torchperf_lint "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    project = tmp_path / "project"
    project.mkdir()
    begun(project)
    ours = {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    env = {name: value for name, value in os.environ.items() if name not in UNSET} | WHO | ours
    shown = ADOPTION.read_text(encoding="utf-8")
    pieces, at, is_begun = [], 0, False
    for block in BLOCK.finditer(shown):
        pieces.append(shown[at : block.start("text")])
        at = block.end("text")
        if block["file"]:
            (project / block["file"]).write_text(block["text"], encoding="utf-8")
            pieces.append(block["text"])
            if not is_begun:
                committed(project)
                is_begun = True
            continue
        assert block["language"] == "console"
        for command in re.findall(r"(?m)^\$ (.*)$", block["text"]):
            done = subprocess.run(
                [bash, "-c", f"{command} 2>&1"], cwd=project, env=env, capture_output=True, text=True, check=False
            )
            assert done.returncode in (0, 1), done.stdout
            pieces.append(f"$ {command}\n{folded(done.stdout)}")
    printed = "".join([*pieces, shown[at:]])
    if bless:
        ADOPTION.write_text(printed, encoding="utf-8")
    else:
        assert shown == printed, "`pytest --bless` rewrites it"
