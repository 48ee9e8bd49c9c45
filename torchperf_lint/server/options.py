"""What an editor configures: the options of the command line that make sense there, checked one by one."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_lint.config import Settings, load
from torchperf_lint.config_keys import checked_selectors
from torchperf_lint.engine.findings import Confidence, Severity, checked_confidence, checked_severity

if TYPE_CHECKING:
    from collections.abc import Mapping

SECTION = "torchperf-lint"
"""The section of an editor's configuration that is ours."""

MOST_DELAY = 10_000


class BadOption(ValueError):
    """An editor's option is wrong; the message is one line."""


class Run(enum.Enum):
    """When an open text is judged by itself: while it is typed, or when it is opened and saved."""

    ON_TYPE = "onType"
    ON_SAVE = "onSave"


class Options(NamedTuple):
    """The options of a session; selectors change the project's configuration as on the command line."""

    select: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    min_confidence: Confidence | None = None
    min_severity: Severity | None = None
    config: str | None = None
    isolated: bool = False
    run: Run = Run.ON_TYPE
    delay: int = 200  # milliseconds without a change after which a text is judged

    def settings(self, path: str) -> Settings:
        """The settings for a file; raise BadConfig where the project's configuration cannot be read."""
        settings = Settings() if self.isolated else load(path, self.config)
        return settings.with_selectors(self.select, self.ignore, self.extend_select)._replace(
            min_confidence=self.min_confidence or settings.min_confidence,
            min_severity=self.min_severity or settings.min_severity,
        )


def options_from(plain: object) -> Options:
    """The options that an editor sends, alone or below our section; raise BadOption for what is none."""
    if isinstance(plain, dict):
        for section in ("settings", SECTION):
            if isinstance(plain.get(section), dict):
                return options_from(plain[section])
    if plain is None:
        return Options()
    if not isinstance(plain, dict):
        raise BadOption(f"`{SECTION}` must be an object of options")
    return Options(**{NAMES[name]: _READERS[NAMES[name]](name, plain[name]) for name in _known(plain)})


def _known(plain: Mapping[str, object]) -> list[str]:
    for name in plain:
        if name not in NAMES:
            raise BadOption(f"there is no option `{name}`; the options are {', '.join(NAMES)}")
    return [name for name, value in plain.items() if value is not None]


def _selectors(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise BadOption(f"`{name}` must be a list of strings")
    try:
        return checked_selectors(value)
    except ValueError as error:
        raise BadOption(f"`{name}`: {error}") from None


def _confidence(name: str, value: object) -> Confidence:
    try:
        return checked_confidence(value)
    except ValueError as error:
        raise BadOption(f"`{name}`: {error}") from None


def _severity(name: str, value: object) -> Severity:
    try:
        return checked_severity(value)
    except ValueError as error:
        raise BadOption(f"`{name}`: {error}") from None


def _run(name: str, value: object) -> Run:
    names = [each.value for each in Run]
    if value not in names:
        raise BadOption(f"`{name}` must be {' or '.join(f'`{each}`' for each in names)}")
    return Run(value)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise BadOption(f"`{name}` must be a string")
    return value


def _truth(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise BadOption(f"`{name}` must be true or false")
    return value


def _delay(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_DELAY:
        raise BadOption(f"`{name}` must be a number of milliseconds up to {MOST_DELAY}")
    return value


NAMES = {
    "select": "select",
    "ignore": "ignore",
    "extendSelect": "extend_select",
    "minConfidence": "min_confidence",
    "minSeverity": "min_severity",
    "config": "config",
    "isolated": "isolated",
    "run": "run",
    "delay": "delay",
}
"""By the name that editors know, the field of an option."""

_READERS: dict[str, Any] = {
    "select": _selectors,
    "ignore": _selectors,
    "extend_select": _selectors,
    "min_confidence": _confidence,
    "min_severity": _severity,
    "config": _text,
    "isolated": _truth,
    "run": _run,
    "delay": _delay,
}
