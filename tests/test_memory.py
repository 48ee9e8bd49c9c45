"""How much source stays parsed: by the memory of the machine, or of its container."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from torchperf_lint.config import Settings
from torchperf_lint.engine import memory
from torchperf_lint.engine.jobs import FileSystem
from torchperf_lint.engine.project_snapshot import gather

if TYPE_CHECKING:
    from pathlib import Path

GIGABYTE = 1 << 30


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with 16 gigabytes, and the file with the limit of its container, which is not there yet."""
    sizes = {"SC_PHYS_PAGES": 4 << 20, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__, raising=False)
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(memory, "_LIMITS", (str(limit),))
    return limit


@pytest.mark.parametrize(
    ("limit", "expected"), [(None, 16), ("max\n", 16), (str(2 * GIGABYTE), 2), (str(1 << 62), 16), ("", 16)]
)
def test_a_container_has_its_own_limit(machine: Path, limit: str | None, expected: int) -> None:
    if limit is not None:
        machine.write_text(limit)
    assert memory.memory() == expected * GIGABYTE


def test_processes_share_it(machine: Path) -> None:
    assert memory.room_for_trees(1) == 8 * GIGABYTE // 80
    assert memory.room_for_trees(4) == 2 * GIGABYTE // 80


def test_a_system_that_does_not_tell_has_no_room(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sysconf")
    assert memory.room_for_trees(1) == 0


@pytest.mark.parametrize(("processes", "kept"), [(1, 2), (200_000_000, 0)])
def test_trees_stay_where_there_is_room(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int, kept: int
) -> None:
    monkeypatch.setattr("torchperf_lint.model.bounds.MOST_BYTES_LOADED", 0)
    (tmp_path / ".git").mkdir()
    paths = [str(tmp_path / f"{name}.py") for name in "ab"]
    for path in paths:
        with open(path, "w", encoding="utf-8") as file:
            file.write("import torch\n")
    program = FileSystem(lambda: gather(paths, Settings().hints), processes=processes).program()
    for path in paths:
        program.analyzed(path)
    program.drop_unused_trees()
    assert len(program._indexed) == kept
