"""The versions that the linted project's own files state, used where configuration leaves them open.

Supported are requirements*.txt and requirements/*.txt with what they include, pyproject.toml (the project's table,
dependency groups, poetry, pdm and uv), setup.cfg, the literal lists of setup.py, the lock files of uv, poetry, pdm and
pipenv, pylock.toml, and conda's environment*.yml.

For each package, the nearest folder above a file that names it decides, up to the project's root. Within a folder,
files that contain only locks and pins take precedence, and the lowest of several bounds counts. The version is unknown
without a lower bound that is understood.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from torchperf_lint.engine.requirement_files import Mention, Read, read_requirements, reader_of
from torchperf_lint.knowledge.versions import PACKAGES, Stated, Target
from torchperf_lint.syntax.identity import key_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.engine.requirement_files import Reader
    from torchperf_lint.knowledge.versions import Bounds

_LARGEST = 20_000_000
_FOLDER = "requirements"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")  # PowerShell writes UTF-16 for `pip freeze > requirements.txt`
_CONFLICT = "\n<<<<<<< "  # an unresolved merge


class Requirements:
    """The versions that projects state; each folder is read once, on demand."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Stated | None]] = {}

    def complete(self, target: Target, path: str) -> Target:
        """`target` completed by what the project around a file states of the packages that it leaves open."""
        left_open = [package for package in PACKAGES if getattr(target, package) is None]
        if not left_open:
            return target
        folder = os.path.dirname(key_of(path))
        if folder not in self._known:
            from torchperf_lint.engine.project_root import root_of

            self._look_up(folder, root_of([key_of(path)]))
        stated = self._known[folder]
        return target._replace(**{package: _shown(stated.get(package), path) for package in left_open})

    def _look_up(self, folder: str, root: str) -> dict[str, Stated | None]:
        """The versions stated in the folder and its ancestors; None for a package named without a lower bound."""
        if folder not in self._known:
            below = folder.startswith(root.rstrip("/") + "/")
            further = self._look_up(os.path.dirname(folder), root) if below else {}
            self._known[folder] = {**further, **_stated_in(folder, root)}
        return self._known[folder]


def _shown(stated: Stated | None, linted: str) -> Stated | None:
    """The statement with a display path: relative to the current folder, unless the linted path is absolute."""
    if stated is None or os.path.isabs(linted):
        return stated
    return stated._replace(path=os.path.relpath(stated.path, key_of(os.curdir)).replace(os.sep, "/"))


def _stated_in(folder: str, root: str) -> dict[str, Stated | None]:
    read: dict[str, list[Mention]] = {}
    pending = list(_requirement_files(folder))[::-1]
    while pending:
        path, reader = pending.pop()
        if path in read:
            continue
        read[path], includes = _read(path, reader)
        for named in includes:
            included = key_of(os.path.join(os.path.dirname(path), named))
            if included.startswith(root.rstrip("/") + "/") and os.path.isfile(included):
                pending.append((included, read_requirements))
    mentioned = {mention.package for mentions in read.values() for mention in mentions}
    return {package: _decided(package, read) for package in mentioned}


def _requirement_files(folder: str) -> Iterator[tuple[str, Reader]]:
    """The files of a folder that can state requirements, sorted by name, with their readers."""
    for name in _names(folder):
        reader = reader_of(name)
        path = f"{folder.rstrip('/')}/{name}"
        if reader is not None and os.path.isfile(path):
            yield path, reader
        elif name == _FOLDER:
            inside = (f"{path}/{each}" for each in _names(path) if each.endswith(".txt"))
            yield from ((each, read_requirements) for each in inside if os.path.isfile(each))


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _read(path: str, reader: Reader) -> Read:
    """What a file states; nothing if it is unreadable or malformed."""
    nothing = Read([], [])
    try:
        if os.stat(path).st_size > _LARGEST:
            return nothing
        with open(path, "rb") as file:
            data = file.read()
        text = data.decode("utf-16" if data.startswith(_UTF16) else "utf-8-sig", errors="replace")
        may_include = reader is read_requirements
        if _CONFLICT in text or not (may_include or any(package in text.lower() for package in PACKAGES)):
            return nothing
        return reader(text.replace("\r\n", "\n"), PACKAGES)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return nothing


def _decided(package: str, read: dict[str, list[Mention]]) -> Stated | None:
    """What the files of a folder state together about a package."""
    everything: list[tuple[str, Mention]] = []
    pins: list[tuple[str, Mention]] = []
    for path, mentions in read.items():
        bounded = [(path, each) for each in mentions if each.package == package and each.bounds.lowest is not None]
        everything += bounded
        if all(each.bounds.pinned for _, each in bounded):
            pins += bounded
    chosen = pins or everything
    if not chosen:
        return None
    path, mention = min(chosen, key=lambda each: each[1].bounds.lowest or ())
    lowest, end = mention.bounds
    assert lowest is not None
    # Different bounds together have a lower end but no known upper end.
    agreed = all(_padded(each.bounds) == _padded(mention.bounds) for _, each in chosen)
    return Stated(lowest, end if agreed else None, path, mention.row, mention.text)


def _padded(bounds: Bounds) -> list[tuple[int, ...] | None]:
    """Bounds in a comparable form: 1.4 equals 1.4.0."""
    return [None if bound is None else (*bound, 0, 0, 0)[:4] for bound in bounds]
