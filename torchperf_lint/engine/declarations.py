"""What rules declare, kept between runs: a rule's module, and all that it rests on, is loaded for its check only.

They are plain data, and hold for the modules that they were taken from. A wheel brings them, for modules of the same
names and sizes. Elsewhere they lie where Python keeps the byte code of the rules' package, and the modules' times of
change count as well, as they do for byte code.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

import torchperf_lint
import torchperf_lint.rules
from torchperf_lint.engine.declare import Category, Rule
from torchperf_lint.engine.findings import Safety, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torchperf_lint.engine.findings import Finding
    from torchperf_lint.model import Model

_PACKAGE = os.path.dirname(torchperf_lint.__file__)
_RULES = "rules"
_BESIDE = ("engine", "knowledge")
"""The other folders from whose modules declarations are made: the words of triggers, and `rule` itself."""

_SHIPPED = os.path.join(_PACKAGE, "_declarations.json")


class Modules:
    """The modules of the rules as they lie on disk when this is made."""

    def __init__(self) -> None:
        categories = [
            f"{_RULES}/{each.name}"
            for each in os.scandir(os.path.join(_PACKAGE, _RULES))
            if each.name.isidentifier() and not each.name.startswith("_") and each.is_dir()
        ]
        found = {folder: sorted(_modules_in(folder)) for folder in (*categories, *_BESIDE)}
        self.names = sorted(
            f"{torchperf_lint.__name__}.{folder}.{name[:-3]}".replace("/", ".")
            for folder in categories
            for name, _, _ in found[folder]
            if name != "__init__.py"
        )
        self._stamp: list[list[object]] = [[folder, *each] for folder in sorted(found) for each in found[folder]]
        self._sizes = [each[:3] for each in self._stamp]

    def kept(self) -> tuple[Rule, ...] | None:
        """What these modules declare, if that is known; checks load their modules when they are called."""
        for place, stamp in ((_SHIPPED, self._sizes), (_beside_byte_code(), self._stamp)):
            try:
                return self._read(place, stamp)
            except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue  # not there, of other modules, or torn
        return None

    def _read(self, place: str, stamp: list[list[object]]) -> tuple[Rule, ...]:
        with open(place, "rb") as file:
            data = file.read()
        import json

        document = json.loads(data)
        if document["stamp"] != stamp:
            raise ValueError("the modules are others")
        return tuple(_from_plain(each, self.names) for each in document["rules"])

    def keep(self, rules: Iterable[Rule]) -> None:
        """Keep what these modules declare for later runs, where Python may keep byte code."""
        place = _beside_byte_code()
        if not place or sys.dont_write_bytecode:
            return
        unfinished = f"{place}.{os.getpid()}"
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(place), exist_ok=True)
            _write(unfinished, rules, self._stamp)
            os.replace(unfinished, place)

    def ship(self, place: str, rules: Iterable[Rule]) -> None:
        """Write what these modules declare to a file that a wheel brings as `_declarations.json`."""
        _write(place, rules, self._sizes)


class LateCheck:
    """The check of a rule whose module is loaded when it is called first."""

    def __init__(self, module: str, code: str) -> None:
        self.__module__ = module
        self._code = code

    def __call__(self, model: Model) -> Iterator[Finding]:
        """What the rule finds."""
        return declared_in(self.__module__)[self._code].check(model)


def declared_in(module: str) -> dict[str, Rule]:
    """The rules that a module declares, by code; it is loaded for that."""
    values = vars(importlib.import_module(module)).values()
    return {value.code: value for value in values if isinstance(value, Rule)}


def _modules_in(folder: str) -> Iterator[tuple[str, int, int]]:
    for each in os.scandir(os.path.join(_PACKAGE, folder)):
        if each.name.endswith(".py"):
            status = each.stat()
            yield each.name, status.st_size, status.st_mtime_ns


def _beside_byte_code() -> str:
    """Where these declarations are kept between runs; empty where there is no such place."""
    cached = torchperf_lint.rules.__spec__.cached
    return os.path.join(os.path.dirname(cached), "declarations.json") if cached else ""


def _write(place: str, rules: Iterable[Rule], stamp: list[list[object]]) -> None:
    import json

    document = json.dumps({"stamp": stamp, "rules": [_plain(rule) for rule in rules]}, separators=(",", ":"))
    with open(place, "w", encoding="utf-8") as file:
        file.write(document)


def _plain(rule: Rule) -> list[Any]:
    return [
        rule.code,
        rule.name,
        rule.category.name,
        rule.summary,
        rule.message,
        rule.severity.value,
        rule.default,
        None if rule.fix is None else rule.fix.value,
        [[token.decode() for token in group] for group in rule.triggers],
        rule.torch,
        rule.torchmetrics,
        rule.costs_at_use,
        rule.asks,
    ]


def _from_plain(plain: Any, modules: Sequence[str]) -> Rule:
    """The rule that was written like this; raise ValueError or another error of its kind for anything else."""
    code, name, category, summary, message, severity, default, fix, triggers, torch, torchmetrics, at_use, asks = plain
    module = f"{torchperf_lint.rules.__name__}.{category.lower()}.{name.replace('-', '_')}"
    if module not in modules:
        raise ValueError("there is no such rule")
    return Rule(
        code,
        name,
        Category[category],
        summary,
        message,
        Severity(severity),
        default,
        fix if fix is None else Safety(fix),
        tuple(tuple(token.encode() for token in group) for group in triggers),
        torch,
        torchmetrics,
        LateCheck(module, code),
        at_use,
        tuple(asks),
    )
