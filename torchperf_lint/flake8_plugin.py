"""The flake8 adapter: the same findings under the same codes, column-exact, one report each.

Rules that are off by default run when flake8 is told their code, or at least their group, by `select` or
`extend-select` (a bare `TPL` means the default set), and all of them run with `enable-extensions = TPX`.
`# noqa` is flake8's own business here.
"""

from __future__ import annotations

import io
import tokenize
from typing import TYPE_CHECKING, Any, ClassVar

from torchperf_lint import __version__
from torchperf_lint.engine import registry
from torchperf_lint.engine.runner import check_source
from torchperf_lint.knowledge.hints import Hints
from torchperf_lint.knowledge.versions import BadVersion, Target, parse_version

if TYPE_CHECKING:
    import argparse
    import ast
    from collections.abc import Iterator

    from torchperf_lint.engine.declare import Rule

PREFIX = "TPL"

NOT_CHECKED = "TPL000"
"""Reported for a file that Python can parse and we cannot handle."""


class _Checker:
    version = __version__
    rules: ClassVar[tuple[Rule, ...]] = ()
    target: ClassVar[Target] = Target()
    hints: ClassVar[Hints] = Hints()

    def __init__(self, tree: ast.AST, filename: str, lines: list[str]) -> None:
        """flake8 hands over a file; `tree` only tells it that this plugin looks at whole files."""
        self._path = filename
        self._data = _encoded("".join(lines))

    def run(self) -> Iterator[tuple[int, int, str, type[Any]]]:
        """Yield row, 0-based column, `CODE message` and the plugin's type for each finding."""
        report = check_source(
            self._path, self._data, self.rules, self.target, self.hints, noqa=False, report_unused=False
        )
        if report.failure is not None:
            row, column = report.failure.row or 1, (report.failure.column or 1) - 1
            yield row, column, f"{NOT_CHECKED} not checked: {report.failure.reason}", type(self)
        for found in report.diagnostics:
            yield found.row, found.column - 1, f"{found.code} {found.message}", type(self)


class Plugin(_Checker):
    """The rules that are on by default, and those that are selected by code or group."""

    name = "torchperf-lint"

    @classmethod
    def add_options(cls, manager: Any) -> None:
        """Register our options with flake8, for its command line and its configuration files."""
        for name, text in (
            ("target-torch", "the torch version that the code runs on, such as 2.4"),
            ("target-torchmetrics", "the torchmetrics version that the code runs on, such as 1.6.1"),
        ):
            manager.add_option(f"--torchperf-{name}", parse_from_config=True, help=text)
        for name, text in (
            ("hot-functions", "further functions that run in every training step"),
            ("loader-names", "further names that hold data loaders"),
        ):
            manager.add_option(
                f"--torchperf-{name}", default=[], comma_separated_list=True, parse_from_config=True, help=text
            )

    @classmethod
    def parse_options(cls, options: argparse.Namespace) -> None:
        """Take over flake8's options and choose the rules to run."""
        try:
            targets = (options.torchperf_target_torch, options.torchperf_target_torchmetrics)
            _Checker.target = Target(*(parse_version(text) if text else None for text in targets))
        except BadVersion as error:
            from flake8.exceptions import ExecutionError

            raise ExecutionError(f"torchperf-lint: {error}") from None
        _Checker.hints = Hints(tuple(options.torchperf_hot_functions), tuple(options.torchperf_loader_names))
        named = tuple(
            code for code in (*(options.select or ()), *(options.extend_select or ())) if len(code) > len(PREFIX)
        )
        cls.rules = tuple(rule for rule in registry.all_rules() if rule.default or rule.code.startswith(named))
        OptIn.rules = tuple(rule for rule in registry.all_rules() if rule not in cls.rules)


class OptIn(_Checker):
    """All the other rules, for `enable-extensions = TPX`."""

    name = "torchperf-lint-opt-in"
    off_by_default = True


def _encoded(text: str) -> bytes:
    """The file's bytes, from the lines that flake8 decoded, in the encoding that their own cookie names."""
    data = text.encode(errors="surrogateescape")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError:
        return data
    return text.encode(encoding, errors="replace")
