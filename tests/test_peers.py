"""The script that measures other linters: one counts only if it did its work, and one that is missing is named."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

import pytest

from linting import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType


@pytest.fixture(scope="module")
def peers() -> ModuleType:
    """The script, which lies beside the modules that it imports."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
        return importlib.import_module("peers")


@pytest.fixture
def run(peers: ModuleType, tmp_path: Path) -> Callable[[str], object]:
    """Run a program as a linter that has to find X1 in the planted files."""
    for name in peers.PLANTED:
        (tmp_path / name).write_text(peers.PLANT, encoding="utf-8")

    def run(program: str) -> object:
        peer = peers.Peer("fake", "1", [], [], [0, 1], "X1", told=r"in (\d+) files")
        contender = peers.Contender(peer, [sys.executable, "-c", program])
        contender.run(tmp_path)
        return contender

    return run


def test_linter_that_finds_what_is_planted_is_measured(run: Callable[[str], object]) -> None:
    contender = run("print('aaa_planted.py:1: X1\\n./zzz_planted.py\\n  1: X1\\n2 errors in 2 files'); exit(1)")
    assert (contender.runs, contender.files) == (1, 2)  # type: ignore[attr-defined]
    assert 0 < contender.cpu < 60  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        pytest.param("raise KeyError('no table')", None, id="a crash, whose exit status is that of findings"),
        pytest.param("import sys; sys.exit(3)", "exit status 3: it says nothing", id="another exit status"),
        pytest.param("print('aaa_planted.py: X1')", "it does not find X1 in zzz_planted.py", id="stops on the way"),
        pytest.param(
            "print('aaa_planted.py: X1\\nzzz_planted.py: Y2')",
            "it does not find X1 in zzz_planted.py",
            id="finds something else",
        ),
    ],
)
def test_linter_that_did_not_do_its_work_has_no_figure(
    peers: ModuleType, run: Callable[[str], object], program: str, reason: str | None
) -> None:
    with pytest.raises(peers.Left) as left:
        run(program)
    assert reason is None or str(left.value) == reason


@pytest.mark.slow
def test_one_that_cannot_be_installed_is_named_with_the_reason(
    peers: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    peer = peers.Peer("fake", "1", ["no-such-linter==0"], ["fake"], [0], "X1")
    with pytest.raises(peers.Left, match=r"not installed: ERROR: .*no-such-linter==0"):
        peers.installed(peer, tmp_path)


def test_every_peer_is_pinned(peers: ModuleType) -> None:
    listed = peers.peers()
    assert {"TorchFix", "torch-preflight", "hotpath-ai", "perflint", "flake8", "ruff"} <= {each.name for each in listed}
    for peer in listed:
        assert peer.packages
        assert all("==" in package for package in peer.packages), peer.name
        assert set(peer.statuses) <= set(range(32))


def test_the_tree_has_the_planted_files_first_and_last(peers: ModuleType, tmp_path: Path) -> None:
    for name in ("one/b.py", "two/c.py", "torch/d.py", "torch/e.py"):
        (tmp_path / "corpus" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "corpus" / name).write_text("x = 1\n", encoding="utf-8")
    tree = tmp_path / "tree"
    peers.lay_out(tmp_path / "corpus", ["one"], 1, tree)
    names = [path.relative_to(tree).as_posix() for path in sorted(tree.rglob("*.py"))]
    assert names[0] == peers.PLANTED[0]
    assert names[-1] == peers.PLANTED[1]
    assert names[1] == "one/b.py"
    assert len(names) == 4
