"""The project around what is linted: where its root is, and which files belong to it."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.files import discover, stands_apart
from torchperf_lint.syntax.identity import key_of, keys_of

if TYPE_CHECKING:
    from collections.abc import Iterable

REPOSITORIES = (".git", ".hg")
"""What lies in the root of a repository."""

MARKERS = ("pyproject.toml", "setup.py", "setup.cfg")
"""What lies in the root of a project outside repositories, and in parts of projects, too."""

MOST_FILES = 20_000
"""A folder with more Python files than this is no project: only what is linted is looked at."""

MOST_ENTRIES = 500_000
"""The same for files and folders of any kind, less those that are left out."""


class Layout(NamedTuple):
    """A project as it lies on disk; files go by their keys."""

    root: str
    shown: dict[str, str]  # how the linted files are named to the user
    here: str  # the folder whose files are named to the user without it
    found: frozenset[str]  # its files, whether they are linted or not

    @property
    def keys(self) -> list[str]:
        """All of its files, and those that are linted, sorted."""
        return sorted(self.found | self.shown.keys())

    def name(self, key: str) -> str:
        """How a file is named to the user."""
        named = self.shown.get(key)
        return key.removeprefix(self.here) if named is None else named


def layout_of(linted: Iterable[str], member: str | None = None) -> Layout:
    """The project that the files belong to, as far as it lies on disk and is not left out.

    Left out is what `.gitignore` files name and what discovery passes over by itself; what the user excludes is not
    linted, and still runs. It is the project of `member`, if that is given, wherever the others lie.
    """
    shown = {key: path for path, key in keys_of(linted).items()}
    return layout_at(root_of(shown if member is None else [key_of(member)]), shown)


def layout_at(root: str, shown: dict[str, str]) -> Layout:
    """The project at a root; `shown` are the linted files by their keys."""
    return Layout(root, shown, folder_left_out(shown.values()), frozenset(_files_below(root)))


def folder_left_out(linted: Iterable[str]) -> str:
    """The folder whose files are named to the user without it: none, if what is linted is named by absolute paths."""
    return "" if any(os.path.isabs(path) for path in linted) else key_of(os.curdir).rstrip("/") + "/"


def root_of(keys: Iterable[str]) -> str:
    """The root of the project that holds all the files.

    That is the root of the innermost repository around them. Outside repositories it is the outermost folder around
    them with a marker of a project, so that a part of it with a marker of its own has the same root as the whole.
    Without a marker it is the current folder, if they lie below it, else the folder that holds them all; folders
    that are packages are left upwards. What lies in a folder that stands apart (`.venv`, `site-packages`, ...) is never
    a part of what lies around that folder.
    """
    here = key_of(os.curdir)
    folders = {os.path.dirname(key) for key in keys}
    try:
        common = os.path.commonpath(folders).replace(os.sep, "/") if folders else here
    except ValueError:  # on several drives
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
    """The folder and those that hold it, as far as they can be a project's.

    That is not the user's home, nor all there is, nor what holds a folder that stands apart.
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


_place_of = functools.cache(key_of)  # for a folder that is asked about again and again, and stays where it is


def _files_below(root: str) -> set[str]:
    """The Python files of the project; none if its root holds too much to be one."""
    if not _may_be_root(root):
        return set()
    found = discover([root], root=root, most_entries=MOST_ENTRIES).files
    if len(found) > MOST_FILES:
        return set()
    return {key_of(path) if os.path.islink(path) else path.replace(os.sep, "/") for path in found}
