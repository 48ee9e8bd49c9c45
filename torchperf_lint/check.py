"""The check command: from parsed options through the engine to printed findings and an exit status."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.config import BadConfig, Settings, checked_selectors, load
from torchperf_lint.engine import registry
from torchperf_lint.engine.executors import PROCESSES, Unusable
from torchperf_lint.engine.files import CACHE_FOLDER, DEFAULT_EXCLUDE
from torchperf_lint.engine.findings import Failure, Rate, Safety, Severity
from torchperf_lint.engine.jobs import Action, Job, Result, broken, failed, run_on
from torchperf_lint.engine.names import NO_NOTEBOOKS, is_notebook
from torchperf_lint.engine.project import check_paths, run_in_project
from torchperf_lint.report import FOR_PEOPLE, FORMATS, MOST_IN_FULL, WITH_OVERVIEW, Context, opening, paint, printable
from torchperf_lint.report.groups import grouped
from torchperf_lint.report.progress import progress_bar
from torchperf_lint.report.sources import unified_diff
from torchperf_lint.syntax.source import Source

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TextIO

    from torchperf_lint.engine.findings import Diagnostic
    from torchperf_lint.report import Described

STANDARD_INPUT = "-"

CLEAN, FINDINGS, FAILED = 0, 1, 2


def run(options: argparse.Namespace) -> int:
    """Check the files that the options name; return the exit status."""
    try:
        settings = settings_for(options)
    except BadConfig as error:
        return complain(str(error.failure))
    except registry.UnknownSelector as error:
        return complain(f"torchperf-lint: error: {error}")
    if options.output_file is not None:
        from torchperf_lint.engine.replacing import prepare_output

        try:
            prepare_output(options.output_file)
        except (OSError, ValueError) as error:
            return _complain_of_output(options.output_file, error)
    if STANDARD_INPUT not in options.paths:
        try:
            results = _results(options, settings)
        except Unusable as error:
            return complain(f"torchperf-lint: error: {error}")
        return _finish(results, options, sys.stdout)
    if len(options.paths) > 1:
        return complain("torchperf-lint: error: `-` cannot stand beside other paths")
    if sys.stdin is None:  # closed by the parent process
        return complain(f"{STANDARD_INPUT}: error: cannot be read: standard input is closed")
    result = _result_of_input(options, settings)
    # As in any filter, the fixed text goes to stdout and the report elsewhere.
    return _finish([result], options, sys.stderr if _action(options) is Action.FIX else sys.stdout)


def _action(options: argparse.Namespace) -> Action:
    if options.diff:
        return Action.TRY
    return Action.FIX if options.fix else Action.CHECK


def _results(options: argparse.Namespace, settings: Settings) -> list[Result]:
    bar = contextlib.nullcontext() if options.quiet else progress_bar(sys.stderr, colour=not options.no_color)
    with bar as progress:
        results = list(
            check_paths(
                options.paths,
                settings.rules_for,
                settings.target,
                settings.hints,
                reports_unused=settings.reports_unused_in,
                action=_action(options),
                unsafe=options.unsafe_fixes,
                exclude=_excluded(settings),
                root=settings.root,
                cache=_cache(options),
                jobs=options.jobs,
                executor=options.executor or PROCESSES,
                progress=progress,
                own_versions=not options.isolated,
                least=settings.min_confidence,
            )
        )
    if not results:
        print(f"warning: there are no Python files in {', '.join(map(printable, options.paths))}", file=sys.stderr)
    return results


def _result_of_input(options: argparse.Namespace, settings: Settings) -> Result:
    path = options.stdin_filename or STANDARD_INPUT
    codes = tuple(rule.code for rule in settings.rules_for(path))
    action, unused = _action(options), settings.reports_unused_in(path)
    own_versions = not options.isolated and options.stdin_filename is not None
    asked = (action, options.unsafe_fixes, unused, own_versions, settings.min_confidence)
    job = Job(path, codes, settings.target, settings.hints, *asked)
    data = sys.stdin.buffer.read()
    try:
        if is_notebook(path):
            result = failed(Failure(path, None, None, NO_NOTEBOOKS))
        elif options.stdin_filename is None:  # it may belong to any project
            result = run_on(job, data)
        else:
            result = run_in_project(job, data, _cache(options))
    except Exception as error:
        result = broken(job, error)
    if action is Action.FIX:
        sys.stdout.buffer.write(result.data if result.applied else data)
        sys.stdout.buffer.flush()
    return result


def _excluded(settings: Settings) -> tuple[str, ...]:
    exclude = DEFAULT_EXCLUDE if settings.exclude is None else settings.exclude
    return (*exclude, *settings.extend_exclude)


def _cache(options: argparse.Namespace) -> str | None:
    if options.no_cache:
        return None
    return CACHE_FOLDER if options.cache_dir is None else os.path.abspath(options.cache_dir)


def _finish(results: Sequence[Result], options: argparse.Namespace, out: TextIO) -> int:
    """Print the results' report, or write it where the options say; return the exit status."""
    into_file = options.output_file is not None
    out = io.StringIO() if into_file else out
    texts = {result.path: result.data for result in results}
    failures = [result.report.failure for result in results if result.report.failure is not None]
    colour = not into_file and colours_on(out, options)
    width = None if into_file else _width(out)
    context = Context(texts.__getitem__, colour, options.unsafe_fixes, failures, described, width, _again(options))
    outcome = Outcome(
        [found for result in results for found in result.report.diagnostics],
        sum(len(result.applied) for result in results),
        len(failures),
    )
    changed = [result for result in results if result.data != result.before]
    if options.diff:
        for result in changed:
            for line in _diff(result, context, out.isatty()):
                print(line, file=out)
        if not options.quiet:
            files = f"{len(changed)} file{'' if len(changed) == 1 else 's'}"
            print(f"Would fix {_counted(outcome.fixed)} in {files}.", file=sys.stderr)
    else:
        report(outcome, options, context, out)
    out.flush()
    unwritten = isinstance(out, io.StringIO) and not _write_output(options.output_file, out.getvalue())
    for result in results:
        for each in result.withdrawn:
            place = f"{opening(result.path)}:{each.row}"
            print(f"{place}: warning: the fix of {each.code} was withdrawn: {printable(each.reason)}", file=sys.stderr)
    for failure in failures:
        complain(str(failure))
    if failures or unwritten:
        return FAILED
    found = changed if options.diff else outcome.diagnostics
    return FINDINGS if found and not options.exit_zero else CLEAN


def _write_output(path: str, text: str) -> bool:
    """Write a report into its file; tell where that fails, and return whether it did not."""
    from torchperf_lint.engine.replacing import write_output

    try:
        write_output(path, text.encode(errors="backslashreplace"))
    except OSError as error:
        _complain_of_output(path, error)
        return False
    return True


def _complain_of_output(path: str, error: OSError | ValueError) -> int:
    reason = (error.strerror if isinstance(error, OSError) else None) or error
    return complain(f"torchperf-lint: error: the report cannot be written to {path}: {reason}")


def _diff(result: Result, context: Context, for_people: bool) -> Iterator[str]:
    """The lines of a diff: unchanged for `patch`, without control characters for people."""
    before, after = (Source(result.path, data).text for data in (result.before, result.data))
    styles = {"+": "green", "-": "red", "@": "cyan"}
    for line in unified_diff(before, after, result.path):
        style = styles.get(line[:1])
        line = printable(line.removesuffix("\r")) if for_people else line
        yield paint(line, style, context) if style else line


def complain(line: str) -> int:
    """Print one line about a run that failed; return its exit status."""
    print(opening(line), file=sys.stderr)
    return FAILED


def settings_for(options: argparse.Namespace) -> Settings:
    """The configuration with the command line's options applied; raise BadConfig or registry.UnknownSelector."""
    settings = Settings() if options.isolated else load(_common_folder(options), options.config)
    given = (
        None if options.select is None else checked_selectors(options.select),
        checked_selectors(options.ignore),
        checked_selectors(options.extend_select),
    )
    return settings.with_selectors(*given)._replace(
        extend_exclude=(*settings.extend_exclude, *options.exclude),
        target_torch=options.target_torch or settings.target_torch,
        target_torchmetrics=options.target_torchmetrics or settings.target_torchmetrics,
        min_confidence=options.min_confidence or settings.min_confidence,
    )


def _common_folder(options: argparse.Namespace) -> str:
    """The innermost folder that contains all linted paths, whatever their order."""
    paths: list[str] = options.paths
    if paths == [STANDARD_INPUT]:
        paths = [options.stdin_filename or "."]
    try:
        return os.path.commonpath([os.path.abspath(path) for path in paths])
    except ValueError:  # different drives
        return "."


class Outcome(NamedTuple):
    """The remaining findings, sorted by path, and the numbers of fixed findings and of unchecked files."""

    diagnostics: list[Diagnostic]
    fixed: int = 0
    unchecked: int = 0


def report(outcome: Outcome, options: argparse.Namespace, context: Context, out: TextIO) -> None:
    """Print the findings, or their statistics, and a summary."""
    for line in _lines(outcome, options, context):
        print(line, file=out)


def _lines(outcome: Outcome, options: argparse.Namespace, context: Context) -> Iterator[str]:
    found, name = outcome.diagnostics, options.output_format
    render = _renderer(options)
    if name == "summary" and not options.statistics:
        if not options.quiet:
            yield from totals(outcome)
        yield from render(found, context)
        return
    yield from render(found, context)
    if options.quiet or name not in FOR_PEOPLE:
        return
    yield from totals(outcome)
    if name in WITH_OVERVIEW and not options.statistics and len(found) > MOST_IN_FULL:
        from torchperf_lint.report import overview

        yield from overview.render(found, context)
    else:
        yield from fixable(outcome, context)


def _renderer(options: argparse.Namespace) -> Callable[[Iterable[Diagnostic], Context], Iterator[str]]:
    if options.statistics:
        from torchperf_lint.report import statistics

        return statistics.render_json if options.output_format == "json" else statistics.render
    import importlib

    module = importlib.import_module(f"torchperf_lint.report.{FORMATS[options.output_format]}")
    render: Callable[[Iterable[Diagnostic], Context], Iterator[str]] = module.render
    return render


def described(code: str) -> Described | None:
    """What the rule's declaration and page say; None where the code is of no rule, or no page is installed."""
    from torchperf_lint import pages
    from torchperf_lint.report import Described

    if code == registry.UNUSED_SUPPRESSION:
        text, severity, category, default = pages.UNUSED_SUPPRESSION_PAGE, Severity.WARNING, "suppressions", True
    else:
        rule = registry.find_rule(code)
        if rule is None:
            return None
        severity, category, default = rule.severity, rule.category.name.lower(), rule.default
        try:
            text = pages.page_text(rule)
        except (pages.BadPage, OSError):
            return Described(rule.summary, "", "", category, severity.value, default)
    page = pages.parse_page(text)
    about = page.sections.get("What it does", "")
    return Described(page.summary.rstrip("."), about, text, category, severity.value, default)


def totals(outcome: Outcome) -> Iterator[str]:
    """The number of findings, and how often their costs are paid."""
    remaining = len(outcome.diagnostics)
    total = remaining + outcome.fixed
    if not total:
        files = f"{outcome.unchecked} file{'' if outcome.unchecked == 1 else 's'}"
        yield f"No findings; {files} could not be checked." if outcome.unchecked else "No findings."
        return
    split = f" ({outcome.fixed} fixed, {remaining} remaining)" if outcome.fixed else ""
    places = len(grouped(outcome.diagnostics))
    where = f" at {places} place{'' if places == 1 else 's'}" if places < remaining else ""
    yield f"Found {_counted(total)}{split}{where}."
    rates = Counter(each.cost.rate for each in outcome.diagnostics if each.cost is not None)
    if len(rates) > 1:
        yield f"{', '.join(f'{rates[rate]} {rate.value}' for rate in Rate if rate in rates)}."


def fixable(outcome: Outcome, context: Context) -> Iterator[str]:
    """How many of the remaining findings a fix would repair."""
    count = sum(map(context.fixable, outcome.diagnostics))
    unsafe = sum(1 for each in outcome.diagnostics if each.fix and each.fix.safety is Safety.UNSAFE)
    hidden = 0 if context.unsafe else unsafe
    if count:
        more = f" ({hidden} more with `--unsafe-fixes`)" if hidden else ""
        yield f"[*] {count} fixable with `--fix`{more}."
    elif hidden:
        yield f"{hidden} fixable with `--fix --unsafe-fixes`."


def _counted(findings: int) -> str:
    return f"{findings} finding{'' if findings == 1 else 's'}"


def colours_on(stream: TextIO, options: argparse.Namespace) -> bool:
    """Whether to print colours: decided by the options, then NO_COLOR and FORCE_COLOR, then the stream."""
    if options.no_color or os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def _width(stream: TextIO) -> int | None:
    """The columns of a terminal; None where the stream is none."""
    if not stream.isatty():
        return None
    from shutil import get_terminal_size

    return get_terminal_size().columns


def _again(options: argparse.Namespace) -> list[str] | None:
    """The arguments that would check the same again; None where that was standard input."""
    if STANDARD_INPUT in options.paths:
        return None
    from torchperf_lint.report.commands import what_is_checked

    return what_is_checked(options.given)
