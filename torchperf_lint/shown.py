"""`--show-settings` and `--show-files`: what a run would go by, and what it would lint."""

from __future__ import annotations

import enum
import os
import sys
from typing import TYPE_CHECKING, Any

from torchperf_lint.check import CLEAN, complain, excluded, warn_of_no_files
from torchperf_lint.config_keys import KEYS, Form
from torchperf_lint.engine.files import DEFAULT_EXCLUDE, discover
from torchperf_lint.report import opening, printable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from torchperf_lint.config import Settings

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def show(options: argparse.Namespace, settings: Settings) -> int:
    """Print what the options ask for; return the exit status."""
    if options.show_settings:
        for line in as_toml(settings):
            print(line)
    return _show_files(options, settings) if options.show_files else CLEAN


def _show_files(options: argparse.Namespace, settings: Settings) -> int:
    """Print the files, one per row, as findings name them; only those where a changed line could be reported."""
    found = discover(options.paths, excluded(settings), settings.root, forced=settings.force_exclude)
    files = found.files
    if options.changed_since is not None:
        from torchperf_lint.adopt.changed import NoChanges, changes_since
        from torchperf_lint.options import common_folder

        try:
            changes = changes_since(options.changed_since, common_folder(options))
        except NoChanges as error:
            return complain(f"torchperf-lint: error: {error}")
        files = tuple(filter(changes.touch, files))
    for path in files:
        print(opening(path))
    status = CLEAN
    for failure in found.failures:
        status = complain(str(failure))
    if not found.files and not found.failures:
        warn_of_no_files(options.paths, settings)
    sys.stdout.flush()
    return status


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
