"""The project around the linted files: its root and its files."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.files import discover, stands_apart
from torchperf_lint.engine.names import is_notebook
from torchperf_lint.syntax.identity import key_of, keys_of

if TYPE_CHECKING:
    from collections.abc import Iterable

REPOSITORIES = (".git", ".hg")
"""Entries that mark the root of a repository."""

MARKERS = ("pyproject.toml", "setup.py", "setup.cfg")
"""Entries that mark the root of a project outside repositories, and parts of projects."""

MOST_FILES = 20_000
"""A folder with more Python files than this is not a project: only the linted files are read."""

MOST_ENTRIES = 500_000
"""The same limit for files and folders of any kind, without excluded ones."""


class Layout(NamedTuple):
    """A project on disk; files are named by their keys."""

    root: str
    shown: dict[str, str]  # display names of the linted files
    here: str  # display names are relative to this folder
    found: frozenset[str]  # its files, linted or not

    @property
    def keys(self) -> list[str]:
        """All keys, of the project's files and of linted ones, sorted; notebooks see the project and are not in it."""
        return sorted(key for key in self.found | self.shown.keys() if not is_notebook(key))

    def name(self, key: str) -> str:
        """A file's display name."""
        named = self.shown.get(key)
        return key.removeprefix(self.here) if named is None else named


def layout_of(linted: Iterable[str], member: str | None = None) -> Layout:
    """The project of the files, without what is excluded.

    Excluded are the files that `.gitignore`s name and the default exclusions of discovery; files that the user excludes
    are not linted but still run, so they count. With `member`, it is the project of that file, wherever the others are.
    """
    shown = {key: path for path, key in keys_of(linted).items()}
    return layout_at(root_of(shown if member is None else [key_of(member)]), shown)


def layout_at(root: str, shown: dict[str, str]) -> Layout:
    """The project at a root; `shown` maps keys of the linted files to display names."""
    return Layout(root, shown, folder_left_out(shown.values()), frozenset(_files_below(root)))


def folder_left_out(linted: Iterable[str]) -> str:
    """The folder that display names are relative to: empty if the linted files are named by absolute paths."""
    return "" if any(os.path.isabs(path) for path in linted) else key_of(os.curdir).rstrip("/") + "/"


def root_of(keys: Iterable[str]) -> str:
    """The root of the project that contains all the files.

    It is the root of the innermost repository around them. Outside repositories it is the outermost folder around
    them with a project marker, so that a part with a marker of its own has the same root as the whole.
    Without a marker it is the current folder if they are below it, otherwise their common folder; from a folder
    that is a package, the root moves up. Files in a folder that stands apart (`.venv`, `site-packages`, ...) are never
    part of a project around that folder.
    """
    here = key_of(os.curdir)
    folders = {os.path.dirname(key) for key in keys}
    try:
        common = os.path.commonpath(folders).replace(os.sep, "/") if folders else here
    except ValueError:  # different drives
        return here
    around = _folders_around(common)
    for marks in (REPOSITORIES, MARKERS):
        marked = [folder for folder in around if any(os.path.exists(os.path.join(folder, mark)) for mark in marks)]
        if marked:
            return marked[0] if marks is REPOSITORIES else marked[-1]
    root = here if here in around else common
    while os.path.exists(os.path.join(root, "__init__.py")) and not stands_apart(os.path.dirname(root)):
        root = os.path.dirname(root)
    return root


def _folders_around(folder: str) -> list[str]:
    """The folder and its ancestors, as far as they can be in a project.

    The user's home, the file system's root and the ancestors of a folder that stands apart cannot be.
    """
    found = []
    while _may_be_root(folder):
        found.append(folder)
        if stands_apart(folder):
            break
        folder = os.path.dirname(folder)
    return found


def _may_be_root(folder: str) -> bool:
    return folder not in (os.path.dirname(folder), _place_of(os.path.expanduser("~")))


_place_of = functools.cache(key_of)  # folders repeat and do not move


def _files_below(root: str) -> set[str]:
    """The Python files of the project; none if its root exceeds the limits."""
    if not _may_be_root(root):
        return set()
    found = discover([root], root=root, most_entries=MOST_ENTRIES).files
    if len(found) > MOST_FILES:
        return set()
    modules = (path for path in found if not is_notebook(path))
    return {key_of(path) if os.path.islink(path) else path.replace(os.sep, "/") for path in modules}
