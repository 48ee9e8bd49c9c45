"""The check command: from parsed options through the engine to printed findings and an exit status."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import TYPE_CHECKING

from torchperf_lint.config import BadConfig, Settings
from torchperf_lint.engine import registry
from torchperf_lint.engine.executors import PROCESSES, Unusable
from torchperf_lint.engine.files import CACHE_FOLDER, DEFAULT_EXCLUDE, left_out
from torchperf_lint.engine.findings import Severity
from torchperf_lint.engine.jobs import Action, Job, Result, broken, run_on
from torchperf_lint.engine.names import is_notebook
from torchperf_lint.engine.project import check_paths, run_in_project
from torchperf_lint.engine.project_root import root_of
from torchperf_lint.engine.runner import FileReport
from torchperf_lint.engine.suppress import Comments
from torchperf_lint.guarded import journals
from torchperf_lint.options import STANDARD_INPUT, common_folder, settings_for
from torchperf_lint.outcome import Outcome, counted, of_fixes, report
from torchperf_lint.report import FOR_PEOPLE, Context, opening, paint, printable
from torchperf_lint.report.progress import progress_bar
from torchperf_lint.report.sources import unified_diff
from torchperf_lint.syntax.identity import key_of
from torchperf_lint.syntax.source import Source
from torchperf_lint.terminal import colours_on, width_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TextIO

    from torchperf_lint.adopt.sieve import Sieve
    from torchperf_lint.engine.findings import Failure
    from torchperf_lint.report import Described
    from torchperf_lint.report.fixes import Proof

    Keys = frozenset[tuple[str, int]]
    _Judge = Callable[[Action, Callable[[str], bool], Mapping[str, Keys], Mapping[str, Keys]], list[Result]]

CLEAN, FINDINGS, FAILED = 0, 1, 2

_NOTHING: Mapping[str, Keys] = {}


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
    if options.show_settings or options.show_files:
        from torchperf_lint.shown import show

        return show(options, settings)
    reads_input = STANDARD_INPUT in options.paths
    if reads_input and len(options.paths) > 1:
        return complain("torchperf-lint: error: `-` cannot stand beside other paths")
    if reads_input and sys.stdin is None:  # closed by the parent process
        return complain(f"{STANDARD_INPUT}: error: cannot be read: standard input is closed")
    try:
        return _sifted(options, settings)
    except BadConfig as error:  # of a folder
        return complain(str(error.failure))


def _sifted(options: argparse.Namespace, settings: Settings) -> int:
    if not sifts(options, settings):
        return _run(options, settings, None)
    from torchperf_lint.adopt.baseline import BadBaseline
    from torchperf_lint.adopt.changed import NoChanges
    from torchperf_lint.adopt.sieve import sieve_for

    try:
        place = common_folder(options)
        sieve = sieve_for(settings, options.changed_since, place, options.paths, writes=options.write_baseline)
        return _run(options, settings, sieve)
    except BadBaseline as error:
        return complain(str(error.failure))
    except NoChanges as error:
        return complain(f"torchperf-lint: error: {error}")


def sifts(options: argparse.Namespace, settings: Settings) -> bool:
    """Whether findings may be taken out of the results."""
    return (
        settings.baseline is not None
        or options.changed_since is not None
        or settings.min_severity is not Severity.NOTE
        or options.write_baseline
    )


def _run(options: argparse.Namespace, settings: Settings, sieve: Sieve | None) -> int:
    """Judge, take out what does not count, and do with the rest what the options say."""
    action = _action(options)
    reads_input = STANDARD_INPUT in options.paths
    judge = _judge_of_input(options, settings) if reads_input else _judge(options, settings)
    guard = None
    if action is Action.FIX and not reads_input:
        root = _root(options, settings)
        if journals.near(root):
            from torchperf_lint.guarded.fixing import Refused, put_back

            try:
                put_back(root)
            except Refused as error:
                return complain(f"torchperf-lint: error: {error}")
        if options.checked and settings.check_with is None:
            return complain("torchperf-lint: error: --checked needs a setting `check-with`, and there is none")
        guard = settings.check_with if options.checked or options.check_with is not None else None
    made = action if guard is None else Action.TRY
    known, stale, spared, proof = 0, "", _NOTHING, None
    try:
        results = judge(made if sieve is None else Action.CHECK, sieve.wants if sieve is not None else _any, {}, {})
        if sieve is not None and options.write_baseline:
            return _write_baseline(results, sieve, options)
        if sieve is not None:
            sifted = sieve.sift(results)
            known, stale = sifted.known, sieve.told_of(sifted.stale)
            found, results = results, sifted.results
            if action is not Action.CHECK:
                spared = spared_in(found, results, always=reads_input)  # a text that is read is printed in any case
                results = repaired(results, lambda wanted, spared: judge(made, wanted, spared, {}), spared)
        if guard is not None:
            from torchperf_lint.guarded.fixing import Refused, fixed

            def again(path: str, chosen: Keys) -> Result:
                (result,) = judge(Action.TRY, lambda other: other == path, spared, {path: chosen})
                return result

            try:
                results, proof = fixed(results, again, guard, root, quiet=options.quiet)
            except Refused as error:
                return complain(f"torchperf-lint: error: {error}")
    except Unusable as error:
        return complain(f"torchperf-lint: error: {error}")
    if options.add_noqa:
        return _add_noqa(results, options)
    # As in any filter, the fixed text goes to stdout and the report elsewhere.
    filters = reads_input and action is Action.FIX
    status = _finish(results, options, settings, sys.stderr if filters else sys.stdout, known, proof)
    if stale and not options.quiet:
        print(f"warning: {stale}", file=sys.stderr)
    return status


def _any(path: str) -> bool:
    return True


def _root(options: argparse.Namespace, settings: Settings) -> str:
    """The folder of the configuration, or else the root of the project that is linted."""
    if settings.source is not None:
        return settings.root
    place = common_folder(options)
    return root_of([key_of(place if os.path.isfile(place) else os.path.join(place, os.curdir, "any"))])


def spared_in(found: Sequence[Result], sifted: Sequence[Result], *, always: bool = False) -> dict[str, Keys]:
    """By path, what fixes have to spare so that only the findings that count are fixed.

    It has the files with such fixes; with `always`, those without any as well.
    """
    spared = {}
    for before, after in zip(found, sifted, strict=True):
        counting = set(after.report.diagnostics)
        if always or any(each.fix is not None for each in counting):
            left_out = (each for each in before.report.diagnostics if each not in counting)
            spared[after.path] = frozenset((each.code, each.start) for each in left_out)
    return spared


def repaired(
    sifted: Sequence[Result],
    judge: Callable[[Callable[[str], bool], Mapping[str, Keys]], list[Result]],
    spared: Mapping[str, Keys],
) -> list[Result]:
    """The results after the fixes of the findings that count.

    `judge` takes what files are wanted, and what is spared in each.
    """
    again = {each.path: each for each in judge(spared.__contains__, spared)} if spared else {}
    return [again.get(each.path, each) for each in sifted]


def _write_baseline(results: Sequence[Result], sieve: Sieve, options: argparse.Namespace) -> int:
    """Write the findings into the baseline; return the exit status."""
    baseline, lost = sieve.written(results), sieve.lost
    baseline.write()
    if lost is not None:
        told = f"{opening(lost.place)}: warning: {lost.reason}"
        print(f"{told}: only what this run finds is in it now", file=sys.stderr)
    if not options.quiet:
        print(f"Wrote {counted(len(baseline))} to {printable(baseline.path)}.", file=sys.stderr)
    failures = [result.report.failure for result in results if result.report.failure is not None]
    for failure in failures:
        complain(str(failure))
    return FAILED if failures else CLEAN


def _add_noqa(results: Sequence[Result], options: argparse.Namespace) -> int:
    """Silence the findings by comments; return the exit status."""
    from torchperf_lint.adopt.noqa import add_noqa

    silenced = add_noqa(results)
    if not options.quiet:
        files = f"{silenced.files} file{'' if silenced.files == 1 else 's'}"
        print(f"Silenced {counted(silenced.findings)} by `# noqa` in {files}.", file=sys.stderr)
    for each in silenced.left:
        unused = each.code == registry.UNUSED_SUPPRESSION
        why = "`--fix` takes the comment out" if unused else "no row of its statement takes a comment"
        print(f"{opening(each.path)}:{each.row}: warning: {each.code} is not silenced: {why}", file=sys.stderr)
    for path, count in silenced.notebooks.items():
        verb = "is" if count == 1 else "are"
        told = f"{counted(count)} {verb} not silenced: no comments are written into notebooks"
        print(f"{opening(path)}: warning: {told}", file=sys.stderr)
    failures = [result.report.failure for result in results if result.report.failure is not None]
    for failure in (*failures, *silenced.failures):
        complain(str(failure))
    if failures or silenced.failures:
        return FAILED
    return FINDINGS if (silenced.left or silenced.notebooks) and not options.exit_zero else CLEAN


def _action(options: argparse.Namespace) -> Action:
    if options.diff:
        return Action.TRY
    return Action.FIX if options.fix else Action.CHECK


def _judge(options: argparse.Namespace, settings: Settings) -> _Judge:
    """What judges the files of the run: those that are wanted, sparing the findings that it is given by file."""

    def judged(
        action: Action, wanted: Callable[[str], bool], spared: Mapping[str, Keys], chosen: Mapping[str, Keys]
    ) -> list[Result]:
        bar = contextlib.nullcontext() if options.quiet else progress_bar(sys.stderr, colour=options.color != "never")
        with bar as progress:
            results = list(
                check_paths(
                    options.paths,
                    settings.rules_for,
                    settings.target,
                    settings.hints,
                    reports_unused=settings.reports_unused_in,
                    action=action,
                    unsafe=options.unsafe_fixes,
                    exclude=excluded(settings),
                    root=settings.root,
                    cache=_cache(options),
                    jobs=options.jobs,
                    executor=options.executor or PROCESSES,
                    progress=None if progress is None else progress.advance,
                    reading=None if progress is None else progress.read,
                    own_versions=not options.isolated,
                    least=settings.min_confidence,
                    wanted=wanted,
                    spared=spared,
                    chosen=chosen,
                    comments=_comments(options),
                    held=settings.held,
                    forced=settings.force_exclude,
                    own=settings.own,
                )
            )
        if not results and wanted is _any:
            warn_of_no_files(options.paths, settings)
        return results

    return judged


def warn_of_no_files(paths: Sequence[str], settings: Settings) -> None:
    """Say that there is nothing to lint, and why."""
    gone = [each for each in paths if settings.force_exclude and left_out(each, excluded(settings), settings.root)]
    searched = [each for each in paths if each not in gone]
    if gone:
        verb = "is" if len(gone) == 1 else "are"
        print(f"warning: {', '.join(map(printable, gone))} {verb} excluded", file=sys.stderr)
    if searched:
        print(f"warning: there are no Python files in {', '.join(map(printable, searched))}", file=sys.stderr)


def _judge_of_input(options: argparse.Namespace, settings: Settings) -> _Judge:
    """The same for standard input, which is read here; a fixed text is written to stdout."""
    path = options.stdin_filename or STANDARD_INPUT
    codes = tuple(rule.code for rule in settings.rules_for(path))
    unused = settings.reports_unused_in(path)
    own_versions = not options.isolated and options.stdin_filename is not None
    data = sys.stdin.buffer.read()

    def judged(
        action: Action, wanted: Callable[[str], bool], spared: Mapping[str, Keys], chosen: Mapping[str, Keys]
    ) -> list[Result]:
        asked = (action, options.unsafe_fixes, unused, own_versions, settings.min_confidence)
        job = Job(path, codes, settings.target, settings.hints, *asked, spared.get(path, frozenset()))
        job = job._replace(comments=_comments(options), held=settings.held)
        try:
            if settings.force_exclude and left_out(path, excluded(settings), settings.root) is not None:
                result = Result(path, FileReport())
            elif options.stdin_filename is None:  # it may belong to any project
                result = run_on(job, data)
            else:
                result = run_in_project(job, data, _cache(options))
        except Exception as error:
            result = broken(job, error)
        if action is Action.FIX:
            sys.stdout.buffer.write(result.data if result.applied else data)
            sys.stdout.buffer.flush()
        return [result]

    return judged


def _comments(options: argparse.Namespace) -> Comments:
    return Comments.NONE if options.ignore_noqa else Comments.ALL


def excluded(settings: Settings) -> tuple[str, ...]:
    """The globs of what is left out."""
    exclude = DEFAULT_EXCLUDE if settings.exclude is None else settings.exclude
    return (*exclude, *settings.extend_exclude)


def _cache(options: argparse.Namespace) -> str | None:
    if options.no_cache:
        return None
    return CACHE_FOLDER if options.cache_dir is None else os.path.abspath(options.cache_dir)


def _finish(
    results: Sequence[Result],
    options: argparse.Namespace,
    settings: Settings,
    out: TextIO,
    known: int,
    proof: Proof | None,
) -> int:
    """Print the results' report, or write it where the options say; return the exit status.

    `known` is the number of findings that the baseline holds, `proof` what the user's command said of the fixes.
    """
    written = None if options.output_file is None else io.StringIO()
    into_file = written is not None
    out = written or out
    parts = _in_cells(results)
    texts = {part.path: part.data for part in parts}
    failures = [hinted(each.report.failure, options) for each in results if each.report.failure is not None]
    colour = not into_file and colours_on(out, options)
    width = None if into_file else width_of(out)
    context = Context(texts.__getitem__, colour, options.unsafe_fixes, failures, described, width, _again(options))
    outcome = Outcome(
        [found for part in parts for found in part.report.diagnostics],
        tuple(each for result in results for each in result.applied),
        len(failures),
        known,
        proof,
    )
    changed = [result for result in results if result.data != result.before]
    if options.diff:
        for result in changed:
            for line in _diff(result, context, out.isatty()):
                print(line, file=out)
        _say_fixes(outcome, "Would fix", options, context)
        if not outcome.applied and not options.quiet:
            print("Would fix 0 findings in 0 files.", file=sys.stderr)
    else:
        if not options.fix_only:
            report(outcome, options, context, out)
        if options.fix_only or options.output_format not in FOR_PEOPLE:
            _say_fixes(outcome, "Fixed", options, context)
    out.flush()
    unwritten = written is not None and not write_report(options.output_file, written.getvalue())
    for result in results:
        for each in result.withdrawn:
            place = f"{opening(result.path)}:{each.row}"
            print(f"{place}: warning: the fix of {each.code} was withdrawn: {printable(each.reason)}", file=sys.stderr)
    for failure in failures:
        complain(str(failure))
    if failures or unwritten:
        return FAILED
    if options.exit_zero or (options.fix_only and not (options.diff or options.exit_non_zero_on_fix)):
        return CLEAN
    if options.diff or (options.exit_non_zero_on_fix and changed):
        return FINDINGS if changed else CLEAN
    counting = any(Severity(each.severity).satisfies(settings.fail_on) for each in outcome.diagnostics)
    return FINDINGS if counting else CLEAN


def _say_fixes(outcome: Outcome, title: str, options: argparse.Namespace, context: Context) -> None:
    """Print on stderr what was fixed, or would be."""
    if not options.quiet or options.show_fixes:
        for line in of_fixes(outcome, title, context._replace(colour=colours_on(sys.stderr, options))):
            print(line, file=sys.stderr)


def _in_cells(results: Sequence[Result]) -> Sequence[Result]:
    """The results, those of notebooks cell by cell."""
    if not any(is_notebook(result.path) for result in results):
        return results
    from torchperf_lint.engine.notebooks import in_cells

    return in_cells(results)


def write_report(path: str, text: str) -> bool:
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


def hinted(failure: Failure, options: argparse.Namespace) -> Failure:
    """The failure, with the command that was meant where a path is none."""
    if options.meant is None or failure.path != options.given[0]:
        return failure
    return failure._replace(reason=f"{failure.reason}; did you mean `{options.meant}`?")


def complain(line: str) -> int:
    """Print one line about a run that failed; return its exit status."""
    print(opening(line), file=sys.stderr)
    return FAILED


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
            pages.parse_page(text)
        except (pages.BadPage, OSError, UnicodeDecodeError):
            return Described(rule.summary, "", "", category, severity.value, default)
    page = pages.parse_page(text)
    about = page.sections.get("What it does", "")
    return Described(page.summary.rstrip("."), about, text, category, severity.value, default)


def _again(options: argparse.Namespace) -> list[str] | None:
    """The arguments that would check the same again; None where that was standard input."""
    if STANDARD_INPUT in options.paths:
        return None
    from torchperf_lint.report.commands import what_is_checked

    return what_is_checked(options.given)
