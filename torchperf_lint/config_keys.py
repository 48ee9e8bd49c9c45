"""The keys of the configuration: how each value is read and checked, and what the reference says of it."""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_lint.engine import registry
from torchperf_lint.engine.findings import BadConfidence, BadSeverity, checked_confidence, checked_severity
from torchperf_lint.engine.globs import BadGlob, can_match
from torchperf_lint.knowledge.hints import BadName, checked_names
from torchperf_lint.knowledge.versions import BadVersion, Version, parse_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torchperf_lint.engine.findings import Severity


class WrongType(ValueError):
    """A value is of a type that its key does not take."""


BAD_VALUES = (WrongType, BadConfidence, BadGlob, BadName, BadSeverity, BadVersion, registry.UnknownSelector)
"""What readers of values raise; the message says what is wrong."""


class Form(enum.Enum):
    """What a value looks like, in the words of the reference."""

    SELECTORS = "list of selectors"
    GLOBS = "list of globs"
    IGNORES = "table from globs to lists of selectors"
    NAMES = "list of names"
    VERSION = "version"
    CONFIDENCE = '`"proven"` or `"likely"`'
    SEVERITY = '`"error"`, `"warning"` or `"note"`'
    FILE = "path"
    COMMAND = "command line"
    FLAG = "`true` or `false`"


class Key(NamedTuple):
    """One key: its form, what it sets, what holds without it, an example in TOML, and the option that wins over it."""

    name: str
    form: Form
    says: str
    absent: str
    example: str
    option: str | None = None

    @property
    def field(self) -> str:
        """The field of `Settings` that it sets."""
        return self.name.replace("-", "_")

    def read(self, value: Any) -> Any:
        """The value as `Settings` has it; raise one of BAD_VALUES."""
        return _READERS[self.form](value)


def texts(value: Any) -> tuple[str, ...]:
    """A list of strings."""
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise WrongType(f"must be a list of strings, not {_toml_name(value)}")
    return tuple(value)


def _selectors(value: Any) -> tuple[str, ...]:
    return checked_selectors(texts(value))


def _globs(value: Any) -> tuple[str, ...]:
    return checked_globs(texts(value))


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
        raise WrongType(f"must be a table of globs and lists of selectors, not {_toml_name(value)}")
    checked_files(value)
    return tuple((glob, _selectors(selectors)) for glob, selectors in value.items())


def checked_files(globs: Iterable[str]) -> tuple[str, ...]:
    """The globs unchanged; raise BadGlob for the first that no path can match, or that takes files back in."""
    checked = checked_globs(globs)
    for glob in checked:
        if glob.startswith("!"):
            raise BadGlob(f"`{glob}` takes no file in: a glob here stands by itself")
    return checked


def _names(value: Any) -> tuple[str, ...]:
    return checked_names(texts(value))


def _version(value: Any) -> Version:
    if not isinstance(value, str):
        raise WrongType(f"must be a string such as '2.4', not {_toml_name(value)}")
    return parse_version(value)


def _file(value: Any) -> str:
    if not isinstance(value, str):
        raise WrongType(f"must be a string, not {_toml_name(value)}")
    if not value or "\0" in value:
        raise WrongType("names no file")
    return value


def checked_command(value: object) -> str:
    """The command line unchanged; raise WrongType where a shell could not split it into words, or it has none."""
    import shlex

    if not isinstance(value, str):
        raise WrongType(f"must be a string, not {_toml_name(value)}")
    try:
        words = shlex.split(value)
    except ValueError as error:
        reason = str(error)
        raise WrongType(f"`{value}` is no command line: {reason[:1].lower()}{reason[1:]}") from None
    if not words or "\0" in value:
        raise WrongType("names no command")
    return value


def checked_selectors(selectors: Iterable[str]) -> tuple[str, ...]:
    """The selectors unchanged; raise registry.UnknownSelector for the first that names no rule."""
    checked = tuple(selectors)
    for selector in checked:
        registry.check_selector(selector)
    return checked


def _toml_name(value: Any) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", dict: "a table"}
    return names.get(type(value), "a list of other things" if isinstance(value, list) else "a date")


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise WrongType(f"must be true or false, not {_toml_name(value)}")
    return value


def _severity(value: Any) -> Severity:
    return checked_severity(value)


_READERS: dict[Form, Callable[[Any], Any]] = {
    Form.SELECTORS: _selectors,
    Form.GLOBS: _globs,
    Form.IGNORES: _ignores_by_file,
    Form.NAMES: _names,
    Form.VERSION: _version,
    Form.CONFIDENCE: checked_confidence,
    Form.SEVERITY: _severity,
    Form.FILE: _file,
    Form.COMMAND: checked_command,
    Form.FLAG: _flag,
}

KEYS = {
    key.name: key
    for key in (
        Key(
            "extend",
            Form.FILE,
            "a configuration file that this one is based on; relative to this file",
            "none",
            '"base.toml"',
        ),
        Key("select", Form.SELECTORS, "the rules to run", "those that are on by default", '["TPL1"]', "--select"),
        Key("ignore", Form.SELECTORS, "rules to leave out", "none", '["dataloader-no-workers"]', "--ignore"),
        Key(
            "extend-select",
            Form.SELECTORS,
            "rules to run in addition to those of `select`",
            "none",
            '["TPL404"]',
            "--extend-select",
        ),
        Key(
            "per-file-ignores",
            Form.IGNORES,
            "rules to leave out in the files that a glob matches",
            "none",
            '{ "scripts/**" = ["TPL105"] }',
            "--per-file-ignores",
        ),
        Key(
            "exclude",
            Form.GLOBS,
            "files and folders to leave out, instead of the usual ones",
            "`.venv`, `build`, `node_modules` and the like",
            '[".venv", "third_party/"]',
            "--exclude",
        ),
        Key(
            "extend-exclude",
            Form.GLOBS,
            "files and folders to leave out in addition to those of `exclude`",
            "none",
            '["generated/"]',
            "--extend-exclude",
        ),
        Key(
            "force-exclude",
            Form.FLAG,
            "whether files that are named are left out as well, as in pre-commit",
            "`false`",
            "true",
            "--force-exclude",
        ),
        Key(
            "fixable",
            Form.SELECTORS,
            "the rules whose fixes are applied; those of others are only shown",
            "all",
            '["TPL1"]',
            "--fixable",
        ),
        Key(
            "unfixable",
            Form.SELECTORS,
            "rules whose fixes are only shown",
            "none",
            '["TPL402"]',
            "--unfixable",
        ),
        Key(
            "extend-fixable",
            Form.SELECTORS,
            "rules whose fixes are applied in addition to those of `fixable`",
            "none",
            '["TPL102"]',
            "--extend-fixable",
        ),
        Key(
            "target-torch",
            Form.VERSION,
            "the torch version that the code runs on",
            "what the project's requirement files state",
            '"2.6"',
            "--target-torch",
        ),
        Key(
            "target-torchmetrics",
            Form.VERSION,
            "the torchmetrics version that the code runs on",
            "what the project's requirement files state",
            '"1.6"',
            "--target-torchmetrics",
        ),
        Key(
            "hot-functions",
            Form.NAMES,
            "additional functions, `name` or `Class.name`, that run in every step",
            "none",
            '["Agent.learn"]',
        ),
        Key("loader-names", Form.NAMES, "additional names that hold data loaders", "none", '["feed"]'),
        Key(
            "min-confidence",
            Form.CONFIDENCE,
            "the confidence that a finding needs to be reported",
            '`"likely"`: all are reported',
            '"proven"',
            "--min-confidence",
        ),
        Key(
            "min-severity",
            Form.SEVERITY,
            "the severity that a finding needs to be reported",
            '`"note"`: all are reported',
            '"warning"',
            "--min-severity",
        ),
        Key(
            "fail-on",
            Form.SEVERITY,
            "the severity that a finding needs to make the exit status 1; milder ones are only reported",
            '`"note"`: all do',
            '"error"',
            "--fail-on",
        ),
        Key(
            "baseline",
            Form.FILE,
            "the file of known findings, which are not reported; relative to the folder of the configuration",
            "none",
            '"torchperf-baseline.json"',
            "--baseline",
        ),
        Key(
            "check-with",
            Form.COMMAND,
            "the command that `--fix --checked` runs, in this folder: fixes stay as far as it passes with them",
            "none",
            '"python -m pytest -q tests"',
            "--check-with",
        ),
    )
}
"""All keys by name, in the order of the reference."""
