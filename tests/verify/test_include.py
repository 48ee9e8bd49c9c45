"""A program that runs apart: libraries' code that counts as the user's own, another Python, and the rows that ran."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from torchperf_lint.verify import child, events
from torchperf_lint.verify.child import NOT_SIMULATED, OK
from torchperf_lint.verify.events import Place
from torchperf_lint.verify.runs import Run, run_program

if TYPE_CHECKING:
    from torchperf_lint.verify.runs import Launch

LIBRARY = """\
import torch


def train(batches, device):
    total = 0.0
    weight = torch.nn.Parameter(torch.ones(3, device=device))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for batch in batches:
        loss = (weight * batch).sum()
        loss.backward()
        optimizer.step()
        total += loss.item()
    if total == 0:
        print("never")
    return total
"""

PROGRAM = """\
import torch
import trainer

trainer.train([torch.ones(3, device="cuda")] * 6, "cuda")
"""


def _run(folder: Path, *include: str, **how: Any) -> Run:
    library = folder / "site-packages"
    (library / "trainer").mkdir(parents=True)
    (library / "trainer" / "__init__.py").write_text("from trainer.loop import train\n")
    (library / "trainer" / "loop.py").write_text(LIBRARY)
    script = folder / "program" / "train.py"
    script.parent.mkdir()
    script.write_text(PROGRAM)
    return run_program(script, "sim", libraries=[library], include=include, rows=True, **how)


def test_a_librarys_lines_are_its_callers_unless_it_is_included(tmp_path: Path, launch: Launch | None) -> None:
    run = _run(tmp_path, launch=launch)
    assert run.status == OK
    script = str(tmp_path / "program" / "train.py")
    assert {line.where.file for line in run.lines()} == {script}
    assert run.report["rows"] == {script: [1, 2, 4]}


@pytest.mark.slow
def test_an_included_packages_lines_are_counted_and_noted(tmp_path: Path) -> None:
    run = _run(tmp_path, "trainer", python=sys.executable)
    assert run.status == OK
    loop = str(tmp_path / "site-packages" / "trainer" / "loop.py")
    assert [line.where for line in run.lines()] == [Place(loop, 12)]
    assert loop in run.report["files"]
    assert run.report["rows"][loop] == [1, 4, *range(5, 14), 15]


@pytest.mark.parametrize("name", ["no_such_package", "no/such/folder"])
def test_what_is_included_has_to_be_there(tmp_path: Path, name: str, launch: Launch | None) -> None:
    run = _run(tmp_path, name, launch=launch)
    assert (run.status, run.report["error"]) == (
        NOT_SIMULATED,
        f"--include {name}: there is no such file, folder or package",
    )


def test_a_bare_name_is_a_packages_before_it_is_a_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs leave folders that are called like the packages that make them; a package may be a single file."""
    monkeypatch.setattr(events, "_INCLUDED", [])
    monkeypatch.setattr(events, "_classes", {})
    library, here = tmp_path / "site-packages", tmp_path / "here"
    for folder in (library / "made_up_logger", here / "made_up_logger", here / "made_up_folder"):
        folder.mkdir(parents=True)
    (library / "made_up_logger" / "__init__.py").write_text("")
    (library / "made_up_module.py").write_text("")
    monkeypatch.syspath_prepend(str(library))
    monkeypatch.chdir(here)
    assert child._include("made_up_logger") == [str(library / "made_up_logger")]
    assert child._include("made_up_module") == [str(library / "made_up_module.py")]
    assert child._include("made_up_folder") == [str(here / "made_up_folder")]
    assert child._include("./made_up_logger") == [str(here / "made_up_logger")]
    assert events.is_user_file(str(library / "made_up_module.py"))
    assert not events.is_user_file(str(library / "made_up_modules.py"))


def test_a_copy_is_looked_into_where_its_folder_would_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before: what lies in front of the folder goes before the copy, too."""
    monkeypatch.setattr(sys, "path", ["first", str(tmp_path), "last"])
    child._look_in("copy", str(tmp_path))
    child._look_in("copy", str(tmp_path))
    child._look_in("of what a finder knows", str(tmp_path / "editable"))
    assert sys.path == ["first", "copy", str(tmp_path), "last", "of what a finder knows"]
