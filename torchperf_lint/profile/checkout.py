"""Maps the paths in a trace, which may be relative or from another machine, to files on disk and their functions."""

from __future__ import annotations

import ast
import os
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.files import discover
from torchperf_lint.engine.project_root import MOST_ENTRIES
from torchperf_lint.syntax.source import Source, Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchperf_lint.profile.frames import Frame

MODULE_LEVEL = "<module>"

_NAMELESS: dict[str, type[ast.expr]] = {
    "<lambda>": ast.Lambda,
    "<listcomp>": ast.ListComp,
    "<setcomp>": ast.SetComp,
    "<dictcomp>": ast.DictComp,
    "<genexpr>": ast.GeneratorExp,
}


class Body(NamedTuple):
    """A function, a comprehension or a whole module: its rows, including decorators, and its tree."""

    name: str
    first: int
    last: int
    node: ast.AST


class Checkout:
    """The Python files below a folder, looked up by the paths of a trace."""

    def __init__(self, root: str, frames: Iterable[Frame]) -> None:
        """`frames` are all frames of the trace: they decide between several files that match a path."""
        self.root = root
        self._frames: dict[str, set[Frame]] = {}
        for frame in frames:
            self._frames.setdefault(frame.path, set()).add(frame)
        self._by_name: dict[str, list[str]] | None = None
        self._found: dict[str, tuple[str, ...]] = {}
        self._bodies: dict[str, list[Body]] = {}

    def files(self, frame: Frame) -> tuple[str, ...]:
        """The file that a frame runs; empty if it is not on disk, several if ambiguous."""
        known = self._found.get(frame.path)
        if known is None:
            known = self._found[frame.path] = tuple(self._resolve(frame.path))
        return known

    def body(self, file: str, frame: Frame) -> Body | None:
        """The part of a file that a frame runs; None if no such function is at its row, because the file changed."""
        bodies = [each for each in self._bodies_of(file) if _is_body_of(each, frame)]
        begun = [each for each in bodies if each.first == frame.row]
        return max(begun or bodies, key=lambda each: each.first, default=None)

    def _resolve(self, path: str) -> list[str]:
        frames = self._frames[path]
        foreign = any(frame.is_installed or frame.is_python for frame in frames)
        if _is_absolute(path) and foreign and not path.startswith(_slashed(os.path.join(self.root, ""))):
            return []
        if os.path.isabs(path) and os.path.isfile(path):
            here = os.path.join(os.getcwd(), "")
            return [os.path.relpath(path) if path.startswith(here) else path]
        alike = self._alike(path)
        if len(alike) == 1 and not foreign and not _is_absolute(path):
            return alike
        # A partial path is weak evidence: the functions that ran must be in the file.
        return [file for file in alike if all(self.body(file, frame) for frame in frames)]

    def _alike(self, path: str) -> list[str]:
        """The files whose paths end like this one: all of it if relative, otherwise the longest part."""
        if self._by_name is None:
            self._by_name = {}
            for file in discover([self.root], root=self.root, most_entries=MOST_ENTRIES).files:
                self._by_name.setdefault(os.path.basename(file), []).append(file)
        parts = [part for part in path.split("/") if part not in ("", ".")]
        same = {file: _same_at_end(parts, _parts(file)) for file in self._by_name.get(parts[-1] if parts else "", ())}
        least = max(same.values(), default=0) if _is_absolute(path) else len(parts)
        return sorted(file for file, length in same.items() if length >= least)

    def _bodies_of(self, file: str) -> list[Body]:
        if file not in self._bodies:
            self._bodies[file] = list(_bodies(file))
        return self._bodies[file]


def _is_absolute(path: str) -> bool:
    return path.startswith("/") or path[1:3] == ":/"


def _slashed(path: str) -> str:
    return os.path.abspath(path).replace(os.sep, "/") + ("/" if path.endswith(os.sep) else "")


def _parts(file: str) -> list[str]:
    return _slashed(file).split("/")


def _same_at_end(one: list[str], other: list[str]) -> int:
    length = 0
    while length < min(len(one), len(other)) and one[-length - 1] == other[-length - 1]:
        length += 1
    return length


def _bodies(file: str) -> Iterator[Body]:
    try:
        with open(file, "rb") as opened:
            source = Source(file, opened.read())
        tree = source.parse()
    except (OSError, Unreadable):
        return
    yield Body(MODULE_LEVEL, 1, len(source.line_starts), tree)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            yield Body(node.name, first, node.end_lineno or first, node)
        else:
            for name, kind in _NAMELESS.items():
                if isinstance(node, kind):
                    yield Body(name, node.lineno, node.end_lineno or node.lineno, node)


def _is_body_of(body: Body, frame: Frame) -> bool:
    return body.name == frame.function.rpartition(".")[2] and body.first <= frame.row <= body.last
