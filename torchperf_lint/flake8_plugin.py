"""The flake8 adapter: the same findings under the same codes, column-exact, one report each.

Rules that are off by default run when flake8's `select` or `extend-select` names their code, or at least their
group (a bare `TPL` means the default set), and all of them run with `enable-extensions = TPX`.
flake8 handles `# noqa` itself. The project around a file is read as on our own command line, once in each of
flake8's processes.
"""

from __future__ import annotations

import codecs
import functools
import io
import os
import tokenize
from typing import TYPE_CHECKING, Any, ClassVar

from torchperf_lint import __version__
from torchperf_lint.engine import registry
from torchperf_lint.engine.files import CACHE_FOLDER
from torchperf_lint.engine.findings import BadConfidence, Confidence, Failure, checked_confidence
from torchperf_lint.engine.jobs import completed
from torchperf_lint.engine.mishaps import told
from torchperf_lint.engine.names import NO_NOTEBOOKS, is_notebook
from torchperf_lint.engine.plugins import BadPlugin
from torchperf_lint.engine.runner import FileReport, check_source
from torchperf_lint.engine.suppress import Comments
from torchperf_lint.knowledge.hints import BadName, Hints, checked_names
from torchperf_lint.knowledge.versions import BadVersion, Target, parse_version
from torchperf_lint.report import NOT_CHECKED, printable

if TYPE_CHECKING:
    import argparse
    import ast
    from collections.abc import Iterator

    from torchperf_lint.engine.declare import Rule
    from torchperf_lint.engine.project_snapshot import Projects

PREFIX = "TPL"

NO_FILE = ("-", "stdin")
"""flake8's names for standard input without a file name."""


class _Checker:
    version = __version__
    rules: ClassVar[tuple[Rule, ...]] = ()
    target: ClassVar[Target] = Target()
    hints: ClassVar[Hints] = Hints()
    looks_around: ClassVar[bool] = True
    cache: ClassVar[str | None] = CACHE_FOLDER
    least: ClassVar[Confidence] = Confidence.LIKELY

    def __init__(self, tree: ast.AST, filename: str, lines: list[str]) -> None:
        """flake8 passes one file; the parameter `tree` only marks this plugin as one that checks whole files."""
        self._path = filename
        self._lines = lines

    def run(self) -> Iterator[tuple[int, int, str, type[Any]]]:
        """Yield row, 0-based column, `CODE message` and the plugin's type for each finding."""
        if is_notebook(self._path):  # for other files, flake8 decides what is Python
            yield 1, 0, f"{NOT_CHECKED} {NO_NOTEBOOKS}", type(self)
            return
        try:
            report = self._report()
        except Exception as error:
            report = FileReport((), Failure(self._path, None, None, told({"": error})))
        if report.failure is not None:
            row, column = report.failure.row or 1, (report.failure.column or 1) - 1
            yield row, column, f"{NOT_CHECKED} not checked: {printable(report.failure.reason)}", type(self)
        for found in report.diagnostics:
            yield found.row, found.column - 1, f"{found.code} {printable(found.message)}", type(self)

    def _report(self) -> FileReport:
        data = _data_of(self._path, "".join(self._lines))
        in_project = self.looks_around and self._path not in NO_FILE and os.path.isfile(self._path)
        return check_source(
            self._path,
            data,
            self.rules,
            completed(self.target, self._path, data, self.rules) if in_project else self.target,
            self.hints,
            program=(lambda: _projects(self.hints, self.cache).around(self._path)) if in_project else None,
            comments=Comments.OURS,
            report_unused=False,
            least=self.least,
        )


class Plugin(_Checker):
    """The default rules, and those that are selected by code or group."""

    name = "torchperf-lint"

    @classmethod
    def add_options(cls, manager: Any) -> None:
        """Register our options with flake8, for its command line and its configuration files."""
        for name, text in (
            ("target-torch", "the torch version that the code runs on, such as 2.4"),
            ("target-torchmetrics", "the torchmetrics version that the code runs on, such as 1.6.1"),
            ("min-confidence", "report findings that are at least likely (default) or proven"),
        ):
            manager.add_option(f"--torchperf-{name}", parse_from_config=True, help=text)
        for name, text in (
            ("hot-functions", "additional functions that run in every training step"),
            ("loader-names", "additional names that hold data loaders"),
        ):
            manager.add_option(
                f"--torchperf-{name}", default=[], comma_separated_list=True, parse_from_config=True, help=text
            )
        for name, text in (
            ("no-project", "check each file alone, without the project around it"),
            ("no-cache", "do not store anything for the next run"),
        ):
            manager.add_option(f"--torchperf-{name}", action="store_true", parse_from_config=True, help=text)
        manager.add_option(
            "--torchperf-cache-dir",
            normalize_paths=True,
            parse_from_config=True,
            help=f"the cache's folder (default: {CACHE_FOLDER} in the project's root)",
        )

    @classmethod
    def parse_options(cls, options: argparse.Namespace) -> None:
        """Read flake8's options and choose the rules to run."""
        try:
            targets = (options.torchperf_target_torch, options.torchperf_target_torchmetrics)
            _Checker.target = Target(*(parse_version(text) if text else None for text in targets))
            names = (options.torchperf_hot_functions, options.torchperf_loader_names)
            _Checker.hints = Hints(*map(checked_names, names))
            _Checker.least = checked_confidence(options.torchperf_min_confidence or Confidence.LIKELY.value)
            registry.all_rules()
        except (BadConfidence, BadPlugin, BadVersion, BadName) as error:
            from flake8.exceptions import ExecutionError

            raise ExecutionError(f"torchperf-lint: {error}") from None
        _Checker.looks_around = not options.torchperf_no_project
        _Checker.cache = None if options.torchperf_no_cache else _cache_folder(options.torchperf_cache_dir)
        named = tuple(
            code for code in (*(options.select or ()), *(options.extend_select or ())) if len(code) > len(PREFIX)
        )
        cls.rules = tuple(rule for rule in registry.all_rules() if rule.default or rule.code.startswith(named))
        OptIn.rules = tuple(rule for rule in registry.all_rules() if rule not in cls.rules)


class OptIn(_Checker):
    """All other rules, for `enable-extensions = TPX`."""

    name = "torchperf-lint-opt-in"
    off_by_default = True


@functools.cache
def _projects(hints: Hints, cache: str | None) -> Projects:
    """The projects that this process has read."""
    from torchperf_lint.engine.project_snapshot import Projects

    return Projects(hints, cache)


def _cache_folder(given: str | None) -> str:
    return CACHE_FOLDER if given is None else os.path.abspath(given)


def _data_of(path: str, text: str) -> bytes:
    """The file's bytes: those on disk if flake8 read them, because cached symbols go by content."""
    data = _encoded(text)
    try:
        with open(path, "rb") as file:
            on_disk = file.read()
    except OSError:
        return data
    # flake8 removes the byte-order mark and carriage returns.
    same = on_disk.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n") == data
    return on_disk if same else data


def _encoded(text: str) -> bytes:
    """The file's bytes, encoded from flake8's decoded lines in the encoding that their cookie names."""
    data = text.encode(errors="surrogateescape")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return text.encode(encoding, errors="replace")
    except (SyntaxError, LookupError, UnicodeError):  # the codec may not be a text codec, or may not encode this text
        return data
