"""The project around the linted files: its root, its files, and the cache of their symbols."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from torchperf_lint.cli import main
from torchperf_lint.engine import project_root
from torchperf_lint.engine import project_snapshot as gathering
from torchperf_lint.engine.files import CACHE_FOLDER
from torchperf_lint.engine.project_root import root_of
from torchperf_lint.engine.project_snapshot import gather
from torchperf_lint.knowledge.hints import Hints
from torchperf_lint.model.project.file_symbols import FileSymbols, symbols_of
from torchperf_lint.syntax.identity import key_of, keys_of

if TYPE_CHECKING:
    from collections.abc import Callable

HINTS = Hints()
LONG_AGO = 1_000_000_000_000_000_000


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which the run is made."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The contents whose symbols are extracted during a test."""
    seen: list[bytes] = []

    def noting(data: bytes) -> FileSymbols:
        seen.append(data)
        return symbols_of(data)

    monkeypatch.setattr(gathering, "symbols_of", noting)
    return seen


def write(folder: Path, *paths: str, text: str = "import torch\n") -> None:
    """Write files that were last changed long ago."""
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
        os.utime(folder / path, ns=(LONG_AGO, LONG_AGO))


def root(*paths: str) -> str:
    return os.path.relpath(root_of([key_of(path) for path in paths]))


def files(*linted: str, cache: str | None = None) -> list[str]:
    """The files of the project around these, from the current folder."""
    return sorted(os.path.relpath(key) for key in gather(linted, HINTS, cache=cache).facts)


def facts(*linted: str, cache: str | None = CACHE_FOLDER) -> dict[str, FileSymbols]:
    return {os.path.relpath(key): each for key, each in gather(linted, HINTS, cache=cache).facts.items()}


def store(folder: Path) -> Path:
    """The file that stores symbols."""
    (found,) = (folder / CACHE_FOLDER).glob("facts*.json")
    return found


# -- the root ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("marker", [".git", ".hg", "pyproject.toml", "setup.py", "setup.cfg"])
def test_a_marker_makes_a_root(marker: str, here: Path) -> None:
    write(here, f"a/{marker}", "a/b/c/train.py", "a/other.py")
    assert root("a/b/c/train.py") == "a"
    assert root("a/b/c/train.py", "a/other.py") == "a"


def test_the_innermost_repository_is_the_root_whatever_its_parts_have(here: Path) -> None:
    for folder in (".git", "a/.git"):
        (here / folder).mkdir(parents=True)
    write(here, "pyproject.toml", "a/part/pyproject.toml", "a/part/train.py", "b/part/setup.py", "b/part/train.py")
    assert root("a/part/train.py") == "a"
    assert root("b/part/train.py") == "."
    assert root("a/part/train.py", "b/part/train.py") == "."


def test_outside_repositories_a_part_has_the_root_of_the_whole(here: Path) -> None:
    write(here, "whole/pyproject.toml", "whole/part/setup.py", "whole/part/train.py", "whole/a.py")
    assert root("whole/part/train.py") == root("whole/a.py") == "whole"


def test_without_a_marker_the_root_holds_all_the_files(here: Path, tmp_path: Path) -> None:
    write(here, "a/b/train.py", "a/c/train.py")
    assert root("a/b/train.py", "a/c/train.py") == "."
    write(tmp_path, "elsewhere/x/y/train.py", "elsewhere/x/z.py")
    elsewhere = [str(tmp_path / "elsewhere/x/y/train.py"), str(tmp_path / "elsewhere/x/z.py")]
    assert root(*elsewhere) == "../elsewhere/x"
    assert root(elsewhere[0]) == "../elsewhere/x/y"


def test_without_a_marker_packages_are_left_upwards(tmp_path: Path, here: Path) -> None:
    write(tmp_path, "work/pkg/__init__.py", "work/pkg/sub/__init__.py", "work/pkg/sub/a.py")
    assert root(str(tmp_path / "work/pkg/sub/a.py")) == "../work"


def test_the_project_of_one_file_stays_where_it_is_whatever_is_linted_with_it(here: Path, tmp_path: Path) -> None:
    write(tmp_path, "elsewhere/generated.py")
    write(here, "a/setup.py", "a/train.py")
    found = project_root.layout_of(["a/train.py", str(tmp_path / "elsewhere/generated.py")], member="a/train.py")
    assert os.path.relpath(found.root) == "a"
    assert [os.path.relpath(key) for key in found.keys] == ["../elsewhere/generated.py", "a/setup.py", "a/train.py"]


@pytest.mark.parametrize("hidden", [".venv/lib/site-packages", "build", ".tox", ".scratch", ".shown", "data"])
@pytest.mark.parametrize("package", ["", "__init__.py"])
def test_below_a_hidden_folder_a_project_is_one_as_anywhere(hidden: str, package: str, here: Path) -> None:
    (here / ".git").mkdir()
    write(here, ".gitignore", text=".scratch/\n")
    write(here, "own.py", f"{hidden}/other/b.py", f"{hidden}/copy/a.py", f"{hidden}/copy/sub/c.py")
    if package:
        write(here, f"{hidden}/copy/{package}", f"{hidden}/copy/sub/{package}")
    around = {".shown": ".", "data": "."}.get(hidden, f"{hidden}/copy")
    assert root(f"{hidden}/copy/a.py") == root(f"{hidden}/copy/a.py", f"{hidden}/copy/sub/c.py") == around
    found = files(f"{hidden}/copy/a.py")
    assert {f"{hidden}/copy/a.py", f"{hidden}/copy/sub/c.py"} <= {*found}
    assert ("own.py" in found) is (f"{hidden}/other/b.py" in found) is (around == ".")
    assert f"{hidden}/copy/a.py" not in files("own.py") or around == "."


def test_a_hidden_folder_that_leaves_itself_out_stands_apart(here: Path) -> None:
    (here / ".git").mkdir()
    write(here, ".made/.gitignore", text="*\n")
    write(here, "own.py", ".made/copy/a.py", ".made/copy/b.py")
    assert files(".made/copy/a.py") == [".made/copy/a.py", ".made/copy/b.py"]


def test_the_home_folder_is_never_a_root(tmp_path: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / ".git").mkdir()
    write(here, "a/train.py")
    assert root("a/train.py") == "."


# -- the files -----------------------------------------------------------------------------------------------------


def test_all_python_files_below_the_root_belong_to_it_and_none_above(here: Path, tmp_path: Path) -> None:
    (here / ".git").mkdir()
    write(tmp_path, "above.py")
    write(here, "train.py", "pkg/__init__.py", "pkg/a.py", "notes.txt")
    assert files("pkg/a.py") == files("train.py") == ["pkg/__init__.py", "pkg/a.py", "train.py"]


def test_what_git_ignores_does_not_belong_to_it_unless_it_is_linted(here: Path) -> None:
    (here / ".git").mkdir()
    write(here, "train.py", "made.py", ".venv/lib.py", "build/train.py")
    write(here, ".gitignore", text="made.py\n")
    assert files("train.py") == ["train.py"]
    assert files("made.py") == ["made.py", "train.py"]


def test_a_folder_with_too_many_files_is_no_project(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / ".git").mkdir()
    write(here, "a.py", "b.py", "c.py")
    monkeypatch.setattr(project_root, "MOST_FILES", 2)
    assert files("a.py") == ["a.py"]


def test_a_file_that_cannot_be_read_is_left_out(here: Path) -> None:
    (here / ".git").mkdir()
    write(here, "a.py")
    (here / "loop.py").symlink_to("loop.py")
    assert files("a.py") == ["a.py"]


def test_nothing_is_read_for_no_files(here: Path) -> None:
    assert gather([], HINTS).program() is not None


# -- what is kept --------------------------------------------------------------------------------------------------


def test_symbols_are_cached_and_not_extracted_again(here: Path, taken: list[bytes]) -> None:
    (here / ".git").mkdir()
    write(here, "a.py", text="import b\n")
    write(here, "b.py", text="import c\n")
    first = facts("a.py")
    assert sorted(taken) == [b"import b\n", b"import c\n"]
    taken.clear()
    assert facts("a.py") == first
    assert facts("b.py") == first
    assert taken == []


def test_a_changed_file_is_read_again(here: Path, taken: list[bytes]) -> None:
    (here / ".git").mkdir()
    write(here, "a.py", "b.py")
    facts("a.py")
    taken.clear()
    write(here, "b.py", text="import numpy as np\n")
    assert facts("a.py")["b.py"].imports == ("numpy",)
    assert taken == [b"import numpy as np\n"]


def test_the_same_content_at_another_time_has_the_cached_symbols(here: Path, taken: list[bytes]) -> None:
    (here / ".git").mkdir()
    write(here, "a.py", text="import b\n")
    first = facts("a.py")
    taken.clear()
    os.utime(here / "a.py", ns=(LONG_AGO + 1, LONG_AGO + 1))
    assert facts("a.py") == first
    os.utime(here / "a.py")
    assert facts("a.py") == first
    assert taken == []


def test_a_change_that_size_and_time_do_not_show_is_seen(here: Path) -> None:
    (here / ".git").mkdir()
    (here / "a.py").write_text("import one\n")
    times = os.stat(here / "a.py")
    assert facts("a.py")["a.py"].imports == ("one",)
    (here / "a.py").write_text("import two\n")
    os.utime(here / "a.py", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert facts("a.py")["a.py"].imports == ("two",)


def test_a_file_that_is_gone_is_forgotten(here: Path) -> None:
    (here / ".git").mkdir()
    write(here, "a.py", "b.py")
    facts("a.py")
    (here / "b.py").unlink()
    assert list(facts("a.py")) == ["a.py"]
    assert "b.py" not in json.loads(store(here).read_bytes())["files"]


def test_the_cache_is_marked_as_one(here: Path) -> None:
    (here / ".git").mkdir()
    write(here, "a.py")
    facts("a.py")
    assert (here / CACHE_FOLDER / ".gitignore").read_text() == "*\n"
    assert (here / CACHE_FOLDER / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")
    assert sorted(each.name for each in (here / CACHE_FOLDER).iterdir()) == [
        ".gitignore",
        "CACHEDIR.TAG",
        store(here).name,
    ]


def test_a_cache_elsewhere_serves_several_projects(tmp_path: Path, here: Path, taken: list[bytes]) -> None:
    cache = str(tmp_path / "cache")
    for name in ("one", "two"):
        (here / name / ".git").mkdir(parents=True)
        write(here, f"{name}/a.py", text=f"import {name}\n")
        facts(f"{name}/a.py", cache=cache)
    taken.clear()
    assert facts("one/a.py", cache=cache)["one/a.py"].imports == ("one",)
    assert facts("two/a.py", cache=cache)["two/a.py"].imports == ("two",)
    assert taken == []
    assert not [path for path in here.rglob("*") if path.name == CACHE_FOLDER]


# -- a cache that cannot be used -----------------------------------------------------------------------------------


def _other_version(kept: bytes) -> bytes:
    document = json.loads(kept)
    document["stamp"] = [*document["stamp"][:-1], "0.0.0"]
    document["files"] = {"a.py": document["files"]["a.py"], "b.py": document["files"]["a.py"]}
    return json.dumps(document).encode()


def _other_types(kept: bytes) -> bytes:
    document = json.loads(kept)
    document["files"]["a.py"] = [["1", "2", "3"], ["digest", [1], [], [], "yes"]]
    return json.dumps(document).encode()


SPOILT: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda kept: b"",
    "torn": lambda kept: kept[: len(kept) // 2],
    "binary": lambda kept: b"\x80\x04\x95" + kept,
    "foreign": lambda kept: b'{"files": "mine"}',
    "a list": lambda kept: b"[1, 2]",
    "null": lambda kept: b"null",
    "deep": lambda kept: b"[" * 100_000,
    "another version": _other_version,
    "other types": _other_types,
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_a_spoilt_cache_is_ignored_and_replaced(spoil: Callable[[bytes], bytes], here: Path) -> None:
    (here / ".git").mkdir()
    write(here, "a.py", text="import one\n")
    write(here, "b.py", text="import two\n")
    first = facts("a.py")
    good = store(here).read_bytes()
    store(here).write_bytes(spoil(good))
    assert facts("a.py") == first
    assert json.loads(store(here).read_bytes()) == json.loads(good)


def test_a_cache_that_is_a_file_or_out_of_reach_costs_nothing_but_time(here: Path) -> None:
    (here / ".git").mkdir()
    write(here, "a.py")
    first = facts("a.py", cache=None)
    (here / CACHE_FOLDER).write_text("mine")
    assert facts("a.py") == first
    assert (here / CACHE_FOLDER).read_text() == "mine"
    assert facts("a.py", cache="/dev/null/nowhere") == first


@pytest.mark.parametrize("refused", ["makedirs", "open"])
def test_a_folder_that_may_not_be_written_costs_nothing_but_time(
    refused: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise PermissionError(13, "permission denied")

    (here / ".git").mkdir()
    write(here, "a.py")
    first = facts("a.py", cache=None)
    monkeypatch.setattr(os, refused, refuse)
    assert facts("a.py") == first
    monkeypatch.undo()
    assert not list((Path(here) / CACHE_FOLDER).glob("*facts*"))


def test_a_store_that_cannot_be_replaced_leaves_no_piece_of_itself(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "no space left on device")

    (here / ".git").mkdir()
    write(here, "a.py")
    first = facts("a.py", cache=None)
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        assert facts("a.py") == first
    with contextlib.suppress(FileNotFoundError):
        assert sorted(each.name for each in (here / CACHE_FOLDER).iterdir()) == [".gitignore", "CACHEDIR.TAG"]
    assert facts("a.py") == first
    assert store(here).exists()


# -- the command line ----------------------------------------------------------------------------------------------


def test_a_run_caches_symbols_and_one_without_a_cache_writes_nothing(here: Path, capsys: pytest.CaptureFixture) -> None:
    (here / ".git").mkdir()
    write(here, "a.py", text="import torch\ntorch.ones(1, device='cuda').item()\n")
    write(here, "b.py")
    before = sorted(here.rglob("*"))
    assert main(["--isolated", "--no-cache", "-q", "a.py"]) == 0
    assert sorted(here.rglob("*")) == before
    assert main(["--isolated", "-q", "a.py"]) == 0
    assert sorted(json.loads(store(here).read_bytes())["files"]) == ["a.py", "b.py"]
    capsys.readouterr()


# -- keys ----------------------------------------------------------------------------------------------------------


def test_many_files_have_the_keys_that_each_has(here: Path) -> None:
    write(here, "a.py", "pkg/b.py", "pkg/sub/c.py")
    (here / "link.py").symlink_to("pkg/b.py")
    (here / "folder").symlink_to("pkg/sub")
    (here / "loop.py").symlink_to("loop.py")
    paths = ["a.py", "./a.py", "pkg/../a.py", "link.py", "folder/c.py", "folder/../b.py", "loop.py", "gone/x.py", "."]
    paths += [str(here / path) for path in paths] + ["/", "..", "pkg/"]
    assert keys_of(paths) == {path: key_of(path) for path in paths}


def test_the_files_that_are_read_are_counted(here: Path) -> None:
    write(here, "a.py", "b.py", "c.ipynb")
    seen: list[tuple[int, int]] = []
    gather(["a.py"], HINTS, reading=lambda *counts: seen.append(counts))
    assert seen == [(1, 2), (2, 2)]
