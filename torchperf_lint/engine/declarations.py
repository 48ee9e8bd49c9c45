"""A cache of rule declarations, so that a rule's module and its imports are loaded only to run its check.

Declarations are plain data and valid for the modules that they were made from. A wheel ships them, keyed by module
names and sizes. Otherwise they are stored where Python stores the byte code of the rules' package, and are keyed by
modification times as well, as byte code is.
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
from torchperf_lint.engine.findings import Loss, Rate, Safety, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torchperf_lint.engine.findings import Finding
    from torchperf_lint.model import Model

_PACKAGE = os.path.dirname(torchperf_lint.__file__)
_RULES = "rules"
_BESIDE = ("engine", "knowledge")
"""Other folders whose modules affect declarations: trigger tokens, and `rule` itself."""

_SHIPPED = os.path.join(_PACKAGE, "_declarations.json")


class Modules:
    """The rules' modules as they are on disk when the object is created."""

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
        """The cached declarations of these modules, or None; a check loads its module when it is first called."""
        for place, stamp in ((_SHIPPED, self._sizes), (_beside_byte_code(), self._stamp)):
            try:
                return self._read(place, stamp)
            except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue  # missing, for other modules, or truncated
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
        """Store the declarations for later runs, where Python may write byte code."""
        place = _beside_byte_code()
        if not place or sys.dont_write_bytecode:
            return
        unfinished = f"{place}.{os.getpid()}"
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(place), exist_ok=True)
            _write(unfinished, rules, self._stamp)
            os.replace(unfinished, place)

    def ship(self, place: str, rules: Iterable[Rule]) -> None:
        """Write the declarations to the file that a wheel ships as `_declarations.json`."""
        _write(place, rules, self._sizes)


class LateCheck:
    """A rule's check; it loads the rule's module on the first call."""

    def __init__(self, module: str, code: str) -> None:
        self.__module__ = module
        self._code = code

    def __call__(self, model: Model) -> Iterator[Finding]:
        """The rule's findings."""
        return declared_in(self.__module__)[self._code].check(model)


def declared_in(module: str) -> dict[str, Rule]:
    """The rules that a module declares, by code; imports the module."""
    values = vars(importlib.import_module(module)).values()
    return {value.code: value for value in values if isinstance(value, Rule)}


def _modules_in(folder: str) -> Iterator[tuple[str, int, int]]:
    for each in os.scandir(os.path.join(_PACKAGE, folder)):
        if each.name.endswith(".py"):
            status = each.stat()
            yield each.name, status.st_size, status.st_mtime_ns


def _beside_byte_code() -> str:
    """The cache file of these declarations; empty where byte code has no place."""
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
        None if rule.loses is None else rule.loses.value,
        None if rule.rate is None else rule.rate.value,
        rule.assumes,
        rule.copies_batches,
    ]


def _from_plain(plain: Any, modules: Sequence[str]) -> Rule:
    """Decode a rule; raise ValueError or a similar error for anything malformed."""
    code, name, category, summary, message, severity, default, fix, triggers, torch, torchmetrics, *others = plain
    at_use, asks, loses, rate, assumes, copies_batches = others
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
        loses if loses is None else Loss(loses),
        rate if rate is None else Rate(rate),
        assumes,
        copies_batches,
    )
