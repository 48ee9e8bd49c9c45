"""Module resolution: from a module's name, as another file imports it, to a file of the project."""

from __future__ import annotations

import posixpath
import sys
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.knowledge import other_libraries, torch_api

if TYPE_CHECKING:
    from collections.abc import Iterable

_INSTALLED = sys.stdlib_module_names | other_libraries.FRAMEWORKS
"""Modules that a bare name always means inside a package, even if a neighbour has the same name."""

LIBRARIES = ("torch", "torchmetrics", "numpy")
"""Packages of the knowledge tables: their names always mean the libraries, whatever the project contains."""


_INNER = ("ao", "distributed", "testing", "export", "fx", "onnx", "package", "quantization")


def is_library(name: str) -> bool:
    """Whether the knowledge tables cover a dotted name; they hardly cover torch's internals."""
    if name in torch_api.LOADERS:
        return True
    root, _, rest = name.partition(".")
    if root not in LIBRARIES or root != "torch":
        return root in LIBRARIES
    return not (rest.startswith("_") or "._" in rest or rest.partition(".")[0] in _INNER)


class Hop(NamedTuple):
    """One step in resolving an imported name: the file, and the rest of the name that is looked up there.

    Without a rest the file itself is meant, under the name `ref`. `offers` says whether the file may have the first
    part of the rest, `link` is the target of that part's import there, `bound` says whether the file may bind it
    otherwise.
    """

    ref: str
    file: str | None = None
    rest: str = ""
    offers: bool = False
    link: str | None = None
    bound: bool = False


class ModuleResolver:
    """The modules of a project, by path: every key is a file's absolute path with slashes."""

    def __init__(self, paths: Iterable[str], root: str) -> None:
        self._root = root
        self._path_of: dict[str, str] = {}  # folder/module, without `.py` or `/__init__.py`
        self._packages: set[str] = set()  # folders with an __init__.py
        for path in sorted(paths):
            place = path.removesuffix(".py")
            if posixpath.basename(place) == "__init__":
                place = posixpath.dirname(place)
                self._packages.add(place)
                self._path_of[place] = path  # a package takes precedence over a module of the same name
            else:
                self._path_of.setdefault(place, path)
        self._source_roots = sorted({posixpath.dirname(package) for package in self._packages} - self._packages)
        self.last_names = {posixpath.basename(place) for place in self._path_of}
        self._names: dict[str, str] = {}
        self._folders: dict[str, tuple[list[str], list[str]]] = {}
        self._found: dict[tuple[str, str], str | None] = {}

    def name_of(self, path: str) -> str:
        """The dotted name under which the file is imported, from its outermost package or from the project's root."""
        known = self._names.get(path)
        if known is None:
            known = self._names[path] = self._name_of(path)
        return known

    def _name_of(self, path: str) -> str:
        place = path.removesuffix(".py")
        if posixpath.basename(place) == "__init__":
            place = posixpath.dirname(place)
        top = posixpath.dirname(place)
        if top in self._packages:
            while top in self._packages:
                top = posixpath.dirname(top)
        elif place not in self._packages:
            top = self._root if place.startswith(self._root + "/") else top
        return place[len(top) :].strip("/").replace("/", ".")

    def package_of(self, path: str) -> str | None:
        """The folder of the outermost package that holds the file; None for a file in no package."""
        folder = posixpath.dirname(path)
        if folder not in self._packages:
            return None
        while posixpath.dirname(folder) in self._packages:
            folder = posixpath.dirname(folder)
        return folder

    def absolute(self, name: str, path: str) -> str:
        """`name`, as the file at `path` writes it, without leading dots."""
        level = len(name) - len(name.lstrip("."))
        if level == 0:
            return name
        package = self.name_of(path)
        if posixpath.basename(path) != "__init__.py":
            package = package.rpartition(".")[0]
        for _ in range(level - 1):
            package = package.rpartition(".")[0]
        return ".".join(filter(None, [package, name[level:]]))

    def find(self, module: str, path: str) -> str | None:
        """The file that `import module` in the file at `path` means; None if it is not in the project.

        The search covers the folders from the importing file's up to the project's root, then the folders that contain
        packages (`src`). If several have the module, the nearest to the importer is meant, and none if two are equally
        near.
        """
        folder = posixpath.dirname(path)
        key = (module, folder)
        if key not in self._found:
            self._found[key] = self._search(module.replace(".", "/"), folder)
        return self._found[key]

    def _search(self, inner: str, folder: str) -> str | None:
        outside, inside = self._around(folder)
        # Inside a package, only files that also run as scripts import a neighbour by its bare name.
        for at in outside if inner.partition("/")[0] in _INSTALLED else (*outside, *inside):
            found = self._path_of.get(f"{at}/{inner}")
            if found is not None:
                return found
        is_standard = inner.partition("/")[0] in sys.stdlib_module_names
        near: dict[int, list[str]] = {}
        for root in self._source_roots:
            found = self._path_of.get(f"{root}/{inner}")
            if found is not None and not (is_standard and f"{root}/os" in self._path_of):  # a copy of the library
                near.setdefault(len(posixpath.commonpath([root, folder])), []).append(found)
        nearest = near[max(near)] if near else []
        return nearest[0] if len(nearest) == 1 else None

    def _around(self, folder: str) -> tuple[list[str], list[str]]:
        """The folder and its parents up to the root: those that are no packages, and those that are."""
        known = self._folders.get(folder)
        if known is None:
            around = [folder]
            while around[-1] != self._root and around[-1].startswith(self._root + "/"):
                around.append(posixpath.dirname(around[-1]))
            packages = [at for at in around if at in self._packages]
            known = self._folders[folder] = [at for at in around if at not in self._packages], packages
        return known

    def split(self, name: str, path: str) -> tuple[str, str] | None:
        """The file of the longest prefix of a dotted name that is a module, and the rest of the name.

        None if no prefix is in the project, or if the name belongs to a library of the knowledge tables.
        """
        if is_library(name):
            return None
        head, rest = name, ""
        while head:
            found = self.find(head, path)
            if found is not None:
                return found, rest
            head, _, last = head.rpartition(".")
            rest = f"{last}.{rest}" if rest else last
        return None
