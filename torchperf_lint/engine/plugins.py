"""Rules of other packages: installed distributions that name a module in the entry point group `torchperf_lint.rules`.

The metadata is read here: `importlib.metadata` takes longer to import than most runs of the linter.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
import sys
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.declare import OWN_PREFIX, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUP = "torchperf_lint.rules"

_ENDINGS = (".dist-info", ".egg-info")
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


class BadPlugin(ValueError):
    """A plugin cannot be used; the message is one line that names the plugin and the reason."""


class Plugin(NamedTuple):
    """An entry point of our group, and the distribution that it belongs to, as `acme-rules 1.0`."""

    name: str
    module: str
    distribution: str

    def rules(self) -> dict[str, Rule]:
        """The rules that the module declares or imports, by code; raise BadPlugin where it has none, or a wrong one."""
        if not _MODULE.fullmatch(self.module):
            raise self.refused(f"`{self.module}` is no name of a module")
        try:
            module = importlib.import_module(self.module)
        except (Exception, SystemExit) as error:
            raise self.refused(f"{type(error).__name__}: {' '.join(str(error).split())}") from error
        found = {value.code: value for value in vars(module).values() if isinstance(value, Rule)}
        if not found:
            raise self.refused(f"`{self.module}` declares no rule")
        for code in found:
            if code.startswith(OWN_PREFIX):
                raise self.refused(f"the code {code} begins with {OWN_PREFIX}, which is ours: choose other letters")
        return found

    def refused(self, reason: str) -> BadPlugin:
        """The error that says why the rules cannot be used."""
        return BadPlugin(f"the rules of {self.distribution} (`{self.name}`) cannot be used: {reason}")


@functools.cache
def plugins() -> tuple[Plugin, ...]:
    """The installed plugins, ordered by name. Of two versions on the path the first counts, as for Python."""
    found: list[Plugin] = []
    seen: set[str] = set()
    for folder in sys.path:
        try:
            names = sorted(name for name in os.listdir(folder or ".") if name.endswith(_ENDINGS))
        except OSError:
            continue
        for name in names:
            distribution, _, version = name.rpartition(".")[0].partition("-")
            normal = re.sub("[-_.]+", "-", distribution).lower()
            if normal in seen:
                continue
            seen.add(normal)
            text = _entry_points(os.path.join(folder, name))
            if GROUP in text:
                told = f"{distribution} {version.partition('-')[0]}".rstrip()
                found += (Plugin(*entry, told) for entry in _entries(text))
    return tuple(sorted(found))


def distribution_of(code: str) -> str | None:
    """The distribution of the plugin whose rule has this code; None where it is a rule of ours."""
    if code.startswith(OWN_PREFIX):
        return None
    return next((plugin.distribution for plugin in plugins() if code in plugin.rules()), None)


def files() -> Iterator[tuple[str, os.stat_result]]:
    """The Python files that the plugins' rules may depend on: those beside and below each module's top package."""
    for plugin in plugins():
        module = sys.modules.get(plugin.module.partition(".")[0]) or _imported(plugin.module.partition(".")[0])
        path = getattr(module, "__file__", None)
        if path is None:
            continue
        folder = os.path.dirname(path)
        walked = os.walk(folder) if hasattr(module, "__path__") else [(folder, [], [os.path.basename(path)])]
        for place, _, names in walked:
            for name in names:
                if name.endswith(".py"):
                    below = os.path.join(place, name)
                    yield below, os.stat(below)


def _imported(name: str) -> object:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit):
        return None


def _entry_points(folder: str) -> str:
    try:
        with open(os.path.join(folder, "entry_points.txt"), encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """Name and value of the entry points of our group."""
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
        elif section == GROUP and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            yield name.strip(), value.strip()
