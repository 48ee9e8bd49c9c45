"""Configuration: the table `[tool.torchperf-lint]` of pyproject.toml, or a file of our own, as frozen Settings."""

from __future__ import annotations

import functools
import os
import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_lint.config_keys import BAD_VALUES, KEYS
from torchperf_lint.engine import registry
from torchperf_lint.engine.findings import Confidence, Failure, Severity
from torchperf_lint.engine.globs import matcher
from torchperf_lint.knowledge.hints import Hints
from torchperf_lint.knowledge.versions import Target, Version

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torchperf_lint.engine.declare import Rule

TABLE = "torchperf-lint"

OWN_FILES = (".torchperf-lint.toml", "torchperf-lint.toml")
"""Names of files that hold nothing but our keys, the first to count first."""

PROJECT_FILE = "pyproject.toml"

_read: set[str] = set()

_LIKE_OURS = re.compile(rb"(?i)torchperf[-_]?lint")
"""Names of tables that are probably meant for us."""


class BadConfig(ValueError):
    """The configuration is invalid; `failure` is one line for the user: where and why."""

    def __init__(self, path: str, reason: str, row: int | None = None, column: int | None = None) -> None:
        super().__init__(reason)
        self.failure = Failure(path, row, column, reason)


class Settings(NamedTuple):
    """Everything that configuration and command line decide. Globs are `.gitignore` lines relative to `root`.

    `source` is the file that they were read from; None: no file.
    """

    root: str = "."
    source: str | None = None
    extend: str | None = None  # the file that this one is based on, absolute
    select: tuple[str, ...] | None = None  # None: the default rules
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    exclude: tuple[str, ...] | None = None  # None: the default exclusions of discovery
    extend_exclude: tuple[str, ...] = ()
    force_exclude: bool = False
    fixable: tuple[str, ...] | None = None  # None: all rules
    unfixable: tuple[str, ...] = ()
    extend_fixable: tuple[str, ...] = ()
    target_torch: Version | None = None
    target_torchmetrics: Version | None = None
    hot_functions: tuple[str, ...] = ()
    loader_names: tuple[str, ...] = ()
    min_confidence: Confidence = Confidence.LIKELY
    min_severity: Severity = Severity.NOTE
    fail_on: Severity = Severity.NOTE
    baseline: str | None = None  # absolute, or as the command line names it
    baseline_source: str | None = None  # the file that names it; None: the command line does
    check_with: str | None = None  # a command line
    nested: Nested | None = None

    def own(self, path: str) -> Settings:
        """The settings of one file: those of the nearest configuration, or else these."""
        return (None if self.nested is None else self.nested.of(path)) or self

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
        rules = self.own(path).rules
        if not ignored:
            return rules
        return tuple(rule for rule in rules if not any(registry.matches(each, rule) for each in ignored))

    def reports_unused_in(self, path: str) -> bool:
        """Whether unused suppressions are reported (TPL001) in one file."""
        names = (registry.UNUSED_SUPPRESSION, registry.UNUSED_SUPPRESSION_NAME)
        if any(registry.covers(selector, *names) for selector in self.ignored_in(path)):
            return False
        own = self.own(path)
        return registry.reports_unused(own.select, own.ignore, own.extend_select)

    def ignored_in(self, path: str) -> tuple[str, ...]:
        """The selectors that `per-file-ignores` lists for a file."""
        own = self.own(path)
        if self.nested is not None and own is not self:
            return (*own.ignored_in(path), *self.nested.given.ignored_in(path))
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
    def held(self) -> frozenset[str]:
        """The codes of the rules whose fixes are only shown."""
        if self.fixable is None and not self.unfixable:
            return frozenset()
        return registry.held(self.fixable, self.unfixable, self.extend_fixable)

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


class Nested:
    """The configurations of folders below the one that a run takes its settings from."""

    def __init__(self, top: str, given: Settings, adapted: Callable[[Settings], Settings]) -> None:
        """`top` has no configuration below the run's; `given` has the command line's `per-file-ignores`.

        `adapted` applies the other options of the command line to the settings of a file.
        """
        self.given = given
        self._adapted = adapted
        self._known: dict[str, Settings | None] = {os.path.abspath(top): None}

    def of(self, path: str) -> Settings | None:
        """The settings of the nearest configuration above a file; None: those of the run. Raise BadConfig as `load`."""
        folder, passed = os.path.dirname(os.path.abspath(path)), []
        while folder not in self._known:
            passed.append(folder)
            found = _found_in(folder)
            above = os.path.dirname(folder)
            if found is not None or above == folder:
                self._known[folder] = None if found is None else self._adapted(_settings(*found))
            folder = folder if folder in self._known else above
        self._known.update(dict.fromkeys(passed, self._known[folder]))
        return self._known[folder]


@functools.cache
def _selected_rules(
    select: tuple[str, ...] | None, ignore: tuple[str, ...], extend_select: tuple[str, ...]
) -> tuple[Rule, ...]:
    return registry.select(select, ignore, extend_select)


@functools.cache
def _glob_matcher(glob: str) -> Any:
    return matcher([glob])


def load(start: str, config: str | None = None) -> Settings:
    """The settings of `config`, or else of the nearest file above `start` that is ours or has our table.

    In one folder `.torchperf-lint.toml` goes before `torchperf-lint.toml`, and that before pyproject.toml. `start` is a
    file or folder, and need not exist. Raise BadConfig when the configuration cannot be read, is not TOML, or has
    unknown contents.
    """
    if config is not None:
        return _settings(config, *_table_named(config))
    folder, above = os.path.abspath(start), ""
    while folder != above:
        found = _found_in(folder)
        if found is not None:
            return _settings(*found)
        folder, above = os.path.dirname(folder), folder
    return Settings()


def files_read() -> frozenset[str]:
    """All configuration files that this process has read so far, whatever was in them, by absolute path."""
    return frozenset(_read)


def _found_in(folder: str) -> tuple[str, dict[str, Any], bool] | None:
    """The configuration of a folder: its path, its table, and whether it is a file of our own."""
    for name in (*OWN_FILES, PROJECT_FILE):
        candidate = os.path.join(folder, name)
        if not os.path.isfile(candidate):
            continue
        table = _read_table(candidate) if name == PROJECT_FILE else _read_own(candidate)
        if table is not None:
            return candidate, table, name != PROJECT_FILE
    return None


def _table_named(path: str) -> tuple[dict[str, Any], bool]:
    """The table of a file that the user names, and whether the file is our own: by its content, if not by its name."""
    name = os.path.basename(path)
    if name in OWN_FILES:
        return _read_own(path), True
    table = _read_table(path)
    if table is not None:
        return table, False
    if name != PROJECT_FILE and "tool" not in _document(path, _bytes_of(path)):
        return _read_own(path), True
    raise BadConfig(path, f"there is no table [tool.{TABLE}] in it")


def _read_own(path: str) -> dict[str, Any]:
    """The keys of a file of our own, where they stand at the top."""
    document = _document(path, _bytes_of(path))
    for name in ("tool", TABLE):
        if name in document:
            raise BadConfig(path, f"has a table [{name}]; in a file of our own the keys stand at the top, without one")
    return document


def _read_table(path: str) -> dict[str, Any] | None:
    """Our table in a file that other tools share; None if it has none."""
    data = _bytes_of(path)
    if not _LIKE_OURS.search(data):  # most projects: spares the import of a TOML parser
        return None
    document = _document(path, data)
    tool = document.get("tool", {})
    tools = tool if isinstance(tool, dict) else {}
    _refuse_mistaken(path, document, tools)
    table = tools.get(TABLE)
    if table is not None and not isinstance(table, dict):
        raise BadConfig(path, f"[tool.{TABLE}] must be a table")
    return table


def _bytes_of(path: str) -> bytes:
    _read.add(os.path.abspath(path))
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise BadConfig(path, f"cannot be read: {error.strerror}") from None


def _document(path: str, data: bytes) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        document: dict[str, Any] = tomllib.loads(data.decode())
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
    return document


def _refuse_mistaken(path: str, document: dict[str, Any], tools: dict[str, Any]) -> None:
    """Raise BadConfig for a table with a misspelt name of ours, which would be ignored."""
    names = [*document, *(f"tool.{key}" for key in tools if key != TABLE)]
    for name in names:
        if _LIKE_OURS.fullmatch(name.removeprefix("tool.").encode()):
            raise BadConfig(path, f"[{name}] is no table of ours; the nearest is [tool.{TABLE}]")


def pair(text: str) -> dict[str, Any]:
    """The field that `key = value` sets, as in a file of our own; raise BadConfig where it is none."""
    where = f"--config '{text}'"
    values = _values(where, _document(where, text.encode()), "")
    if len(values) != 1 or "extend" in values:
        raise BadConfig(where, "is neither a file nor one `key = value`")
    return values


def _values(path: str, table: dict[str, Any], where: str) -> dict[str, Any]:
    """The fields that a table sets."""
    values: dict[str, Any] = {}
    for name, value in table.items():
        key = KEYS.get(name)
        if key is None:
            from difflib import get_close_matches

            near = get_close_matches(name, KEYS, n=1)
            hint = f"the nearest is `{near[0]}`" if near else "`torchperf-lint --isolated --show-settings` lists them"
            raise BadConfig(path, f"{where}has no key `{name}`; {hint}")
        try:
            values[key.field] = key.read(value)
        except BAD_VALUES as error:
            raise BadConfig(path, f"{where}`{name}`: {error}") from None
    return values


def _settings(path: str, table: dict[str, Any], is_own: bool, inner: tuple[str, ...] = ()) -> Settings:
    """The settings of a file with this table; `inner` has the files that are based on it."""
    values = _values(path, table, "" if is_own else f"[tool.{TABLE}] ")
    source = os.path.abspath(path)
    folder = os.path.dirname(source)
    if "baseline" in values:
        values |= {"baseline": os.path.join(folder, values["baseline"]), "baseline_source": source}
    if "extend" not in values:
        return Settings(root=folder, source=source, **values)
    values["extend"] = base = os.path.join(folder, values["extend"])
    if os.path.realpath(base) in {os.path.realpath(each) for each in (*inner, source)}:
        raise BadConfig(path, f"`extend`: {base} is based on this file itself")
    try:
        named = _table_named(base)
    except BadConfig as error:
        _, row, column, reason, _ = error.failure
        raise BadConfig(base, f"{reason} (`extend` of {path})", row, column) from None
    return _based(_settings(base, *named, (*inner, source)), values)._replace(root=folder, source=source)


def _based(base: Settings, values: dict[str, Any]) -> Settings:
    """The settings of a base with these fields on top: selectors as on the command line, what extends is added."""
    selectors = (values.pop("select", None), values.pop("ignore", ()), values.pop("extend_select", ()))
    added = {name: getattr(base, name) + values.pop(name, ()) for name in ("extend_exclude", "extend_fixable")}
    return base.with_selectors(*selectors)._replace(**added, **values)
