"""`--show-settings` and `--show-files`: what a run would go by, and what it would lint."""

from __future__ import annotations

import enum
import os
from typing import TYPE_CHECKING, Any

from torchperf_lint.adopt.baseline import BadBaseline
from torchperf_lint.adopt.changed import NoChanges
from torchperf_lint.adopt.sieve import sieve_for
from torchperf_lint.check import CLEAN, FAILED, complain, excluded, hinted, sifts, warn_of_no_files, write_report
from torchperf_lint.config_keys import KEYS, Form
from torchperf_lint.engine.files import DEFAULT_EXCLUDE, discover
from torchperf_lint.options import STANDARD_INPUT, common_folder
from torchperf_lint.report import opening, printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from torchperf_lint.adopt.changed import Changes
    from torchperf_lint.config import Settings

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def show(options: argparse.Namespace, settings: Settings) -> int:
    """Print what the options ask for, or write it where they say; return the exit status.

    It is 2 where a run with these options could not begin, or could not read a file that they name.
    """
    lines = [*as_toml(settings)] if options.show_settings else []
    try:
        changes = _checked(options, settings)
    except (BadBaseline, NoChanges) as error:
        _put(lines, options.output_file)  # they may say what is wrong
        return complain(str(error.failure) if isinstance(error, BadBaseline) else f"torchperf-lint: error: {error}")
    # A search for settings alone would cost time, and find nothing to show.
    searched = options.paths if options.show_files else [each for each in options.paths if not os.path.isdir(each)]
    searched = [each for each in searched if each != STANDARD_INPUT]
    found = discover(searched, excluded(settings), settings.root, forced=settings.force_exclude)
    if options.show_files:
        files = found.files if changes is None else filter(changes.touch, found.files)
        lines += map(opening, files)
    status = _put(lines, options.output_file)
    for failure in found.failures:
        status = complain(str(hinted(failure, options)))
    if options.show_files and not found.files and not found.failures:
        warn_of_no_files(options.paths, settings)
    return status


def _checked(options: argparse.Namespace, settings: Settings) -> Changes | None:
    """What has changed, where the options ask for that; raise BadBaseline or NoChanges as the run would."""
    if not sifts(options, settings):
        return None
    place = common_folder(options)
    return sieve_for(settings, options.changed_since, place, options.paths, writes=options.write_baseline).changes


def _put(lines: Sequence[str], path: str | None) -> int:
    """Print the lines, or write them into a file."""
    text = "".join(f"{line}\n" for line in lines)
    if path is not None:
        return CLEAN if write_report(path, text) else FAILED
    print(text, end="", flush=True)
    return CLEAN


def as_toml(settings: Settings) -> Iterator[str]:
    """The settings as a `torchperf-lint.toml` that has the same effect, with comments on what has no value."""
    yield f"# from: {printable(settings.source or 'no configuration file')}"
    yield f"# globs are seen from: {printable(os.path.abspath(settings.root))}"
    for name, key in KEYS.items():
        value = getattr(settings, key.field)
        if key.form is Form.IGNORES:
            continue
        if name == "extend":  # its settings are among these
            yield f"# {name}: {printable(value or key.absent)}"
            continue
        if name == "exclude" and value is None:
            value = DEFAULT_EXCLUDE
        if value is None:
            yield f"# {name}: {key.absent}"
        elif key.form is Form.VERSION:
            yield f"{name} = {_text('.'.join(map(str, value)))}"
        else:
            yield f"{name} = {_toml(value)}"
    codes = ", ".join(rule.code for rule in settings.rules)
    yield f"# these rules run: {codes or 'none'}"
    if settings.per_file_ignores:
        yield ""
        yield "[per-file-ignores]"
        merged: dict[str, tuple[str, ...]] = {}
        for glob, selectors in settings.per_file_ignores:
            merged[glob] = (*merged.get(glob, ()), *selectors)
        for glob, selectors in merged.items():
            yield f"{_text(glob)} = {_toml(selectors)}"


def _toml(value: Any) -> str:
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    return f"[{', '.join(map(_text, value))}]"


def _text(text: str) -> str:
    """A basic string of TOML."""
    return '"' + "".join(_ESCAPES.get(each) or (each if each.isprintable() else _escaped(each)) for each in text) + '"'


def _escaped(each: str) -> str:
    return f"\\u{ord(each):04x}" if ord(each) < 0x10000 else f"\\U{ord(each):08x}"
