"""Configuration: the table `[tool.torchperf-lint]` of pyproject.toml as frozen Settings."""

from __future__ import annotations

import functools
import os
import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_lint.engine import registry
from torchperf_lint.engine.findings import BadConfidence, Confidence, Failure, checked_confidence
from torchperf_lint.engine.globs import BadGlob, can_match, matcher
from torchperf_lint.knowledge.hints import BadName, Hints, checked_names
from torchperf_lint.knowledge.versions import BadVersion, Target, Version, parse_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torchperf_lint.engine.declare import Rule

TABLE = "torchperf-lint"

_LIKE_OURS = re.compile(rb"(?i)torchperf[-_]?lint")
"""Names of tables that are probably meant for us."""


class BadConfig(ValueError):
    """The configuration is invalid; `failure` is one line for the user: where and why."""

    def __init__(self, path: str, reason: str, row: int | None = None, column: int | None = None) -> None:
        super().__init__(reason)
        self.failure = Failure(path, row, column, reason)


class Settings(NamedTuple):
    """Everything that configuration and command line decide. Globs are `.gitignore` lines relative to `root`."""

    root: str = "."
    select: tuple[str, ...] | None = None  # None: the default rules
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    exclude: tuple[str, ...] | None = None  # None: the default exclusions of discovery
    extend_exclude: tuple[str, ...] = ()
    target_torch: Version | None = None
    target_torchmetrics: Version | None = None
    hot_functions: tuple[str, ...] = ()
    loader_names: tuple[str, ...] = ()
    min_confidence: Confidence = Confidence.LIKELY

    @property
    def target(self) -> Target:
        """The versions that the linted project runs on, as far as configuration states them."""
        return Target(self.target_torch, self.target_torchmetrics)

    @property
    def hints(self) -> Hints:
        """The user's additions to the model's knowledge of hot code."""
        return Hints(self.hot_functions, self.loader_names)

    def rules_for(self, path: str) -> tuple[Rule, ...]:
        """The rules to run on one file: the selected ones without those that `per-file-ignores` excludes."""
        ignored = self.ignored_in(path)
        if not ignored:
            return self.rules
        return tuple(rule for rule in self.rules if not any(registry.matches(each, rule) for each in ignored))

    def reports_unused_in(self, path: str) -> bool:
        """Whether unused suppressions are reported (TPL001) in one file."""
        names = (registry.UNUSED_SUPPRESSION, registry.UNUSED_SUPPRESSION_NAME)
        if any(registry.covers(selector, *names) for selector in self.ignored_in(path)):
            return False
        return registry.reports_unused(self.select, self.ignore, self.extend_select)

    def ignored_in(self, path: str) -> tuple[str, ...]:
        """The selectors that `per-file-ignores` lists for a file."""
        if not self.per_file_ignores:
            return ()
        place = os.path.relpath(os.path.realpath(path), os.path.realpath(self.root)).replace(os.sep, "/")
        if place.startswith("../"):  # outside the project: no glob can match this file
            return ()
        return tuple(
            selector
            for glob, selectors in self.per_file_ignores
            if _glob_matcher(glob).match_file(place)
            for selector in selectors
        )

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that the selectors enable, ordered by code."""
        return _selected_rules(self.select, self.ignore, self.extend_select)

    def with_selectors(
        self, select: Sequence[str] | None, ignore: Sequence[str], extend_select: Sequence[str]
    ) -> Settings:
        """These settings with the command line's selectors, which take precedence over the file's.

        `select` replaces the file's select, ignore and extend-select. The other two add to the file's.
        """
        base = self if select is None else self._replace(select=tuple(select), ignore=(), extend_select=())
        kept = tuple(each for each in base.ignore if each not in extend_select)
        return base._replace(ignore=(*kept, *ignore), extend_select=(*base.extend_select, *extend_select))


@functools.cache
def _selected_rules(
    select: tuple[str, ...] | None, ignore: tuple[str, ...], extend_select: tuple[str, ...]
) -> tuple[Rule, ...]:
    return registry.select(select, ignore, extend_select)


@functools.cache
def _glob_matcher(glob: str) -> Any:
    return matcher([glob])


def load(start: str, config: str | None = None) -> Settings:
    """The settings of `config`, or else of the nearest pyproject.toml above `start` that has our table.

    `start` is a file or folder, and need not exist. Raise BadConfig when the configuration cannot be read, is not
    TOML, or has unknown contents.
    """
    if config is not None:
        table = _read_table(config)
        if table is None:
            raise BadConfig(config, f"there is no table [tool.{TABLE}] in it")
        return _settings(config, table)
    folder, above = os.path.abspath(start), ""
    while folder != above:
        candidate = os.path.join(folder, "pyproject.toml")
        table = _read_table(candidate) if os.path.isfile(candidate) else None
        if table is not None:
            return _settings(candidate, table)
        folder, above = os.path.dirname(folder), folder
    return Settings()


def _read_table(path: str) -> dict[str, Any] | None:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise BadConfig(path, f"cannot be read: {error.strerror}") from None
    if not _LIKE_OURS.search(data):  # most projects: spares the import of a TOML parser
        return None
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        document = tomllib.loads(data.decode())
    except UnicodeDecodeError as error:
        raise BadConfig(path, "is not UTF-8", data.count(b"\n", 0, error.start) + 1) from None
    except tomllib.TOMLDecodeError as error:
        where = re.search(r" \(at line (\d+), column (\d+)\)$", str(error))
        at_end = (data.count(b"\n") + 1, None)  # the parser's only other place is the end of the document
        row, column = (int(where.group(1)), int(where.group(2))) if where else at_end
        raise BadConfig(path, f"is not TOML: {re.sub(r' [(]at .*[)]$', '', str(error))}", row, column) from None
    except ValueError as error:  # such as a number of too many digits
        raise BadConfig(path, f"cannot be read: {error}") from None
    except RecursionError:
        raise BadConfig(path, "is too deeply nested to read") from None
    tool = document.get("tool", {})
    tools = tool if isinstance(tool, dict) else {}
    _refuse_mistaken(path, document, tools)
    table = tools.get(TABLE)
    if table is not None and not isinstance(table, dict):
        raise BadConfig(path, f"[tool.{TABLE}] must be a table")
    return table


def _refuse_mistaken(path: str, document: dict[str, Any], tools: dict[str, Any]) -> None:
    """Raise BadConfig for a table with a misspelt name of ours, which would be ignored."""
    names = [*document, *(f"tool.{key}" for key in tools if key != TABLE)]
    for name in names:
        if _LIKE_OURS.fullmatch(name.removeprefix("tool.").encode()):
            raise BadConfig(path, f"[{name}] is no table of ours; the nearest is [tool.{TABLE}]")


def _settings(path: str, table: dict[str, Any]) -> Settings:
    values: dict[str, Any] = {}
    for key, value in table.items():
        reader = _READERS.get(key)
        if reader is None:
            from difflib import get_close_matches

            near = get_close_matches(key, _READERS, n=1, cutoff=0.0)
            raise BadConfig(path, f"[tool.{TABLE}] has no key `{key}`; the nearest is `{near[0]}`")
        try:
            values[key.replace("-", "_")] = reader(value)
        except (_WrongType, BadConfidence, BadGlob, BadName, BadVersion, registry.UnknownSelector) as error:
            raise BadConfig(path, f"[tool.{TABLE}] `{key}`: {error}") from None
    return Settings(root=os.path.dirname(os.path.abspath(path)), **values)


class _WrongType(ValueError):
    pass


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise _WrongType(f"must be a list of strings, not {_toml_name(value)}")
    return tuple(value)


def _selectors(value: Any) -> tuple[str, ...]:
    return checked_selectors(_texts(value))


def _globs(value: Any) -> tuple[str, ...]:
    return checked_globs(_texts(value))


def checked_globs(globs: Iterable[str]) -> tuple[str, ...]:
    """The globs unchanged; raise BadGlob for the first that no path can match."""
    checked = tuple(globs)
    for glob in checked:
        # Plain names are valid globs; checking them here spares the import of pathspec.
        if not re.fullmatch(r"[\w.-]+", glob) and not can_match(glob):
            raise BadGlob(f"`{glob}` is not a glob as in a .gitignore")
    return checked


def _ignores_by_file(value: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise _WrongType(f"must be a table of globs and lists of selectors, not {_toml_name(value)}")
    for glob in checked_globs(value):
        if glob.startswith("!"):
            raise BadGlob(f"`{glob}` takes no file in: a glob here stands by itself")
    return tuple((glob, _selectors(selectors)) for glob, selectors in value.items())


def _names(value: Any) -> tuple[str, ...]:
    return checked_names(_texts(value))


def _version(value: Any) -> Version:
    if not isinstance(value, str):
        raise _WrongType(f"must be a string such as '2.4', not {_toml_name(value)}")
    return parse_version(value)


def checked_selectors(selectors: Iterable[str]) -> tuple[str, ...]:
    """The selectors unchanged; raise registry.UnknownSelector for the first that names no rule."""
    checked = tuple(selectors)
    for selector in checked:
        registry.check_selector(selector)
    return checked


def _toml_name(value: Any) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", dict: "a table"}
    return names.get(type(value), "a list of other things" if isinstance(value, list) else "a date")


_READERS = {
    "select": _selectors,
    "ignore": _selectors,
    "extend-select": _selectors,
    "per-file-ignores": _ignores_by_file,
    "exclude": _globs,
    "extend-exclude": _globs,
    "target-torch": _version,
    "target-torchmetrics": _version,
    "hot-functions": _names,
    "loader-names": _names,
    "min-confidence": checked_confidence,
}
