"""The options of the check command: their parser, and the settings that they make with the configuration."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from torchperf_lint import __version__
from torchperf_lint.config import Nested, Settings, load, pair
from torchperf_lint.config_keys import WrongType, checked_command, checked_files, checked_globs, checked_selectors
from torchperf_lint.engine.findings import BadConfidence, BadSeverity, checked_confidence, checked_severity
from torchperf_lint.engine.globs import BadGlob
from torchperf_lint.engine.registry import UnknownSelector
from torchperf_lint.knowledge.versions import BadVersion, Version, parse_version
from torchperf_lint.report import COUNTABLE, FORMATS, printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from torchperf_lint.engine.findings import Confidence, Severity

STANDARD_INPUT = STANDARD_OUTPUT = "-"

_MORE = """\
other commands:
  torchperf-lint explain RULE   the page of a rule, by code or name
  torchperf-lint why FILE:LINE  why a line is reported, or is not
  torchperf-lint rules          the list of all rules
  torchperf-lint verify RULE    run the rule's programs before and after the fix, and compare (needs torch)
  torchperf-lint profile TRACE  the waits in a trace of torch.profiler, line by line, with the findings there
  torchperf-lint server         a language server for editors (needs pygls)
  torchperf-lint clean          remove the caches in this folder and its project
  torchperf-lint check PATHS    the same as without `check`
  torchperf-lint generate-shell-completion SHELL
                                completion for bash, zsh, fish and others (needs shtab)

To check a folder that has the name of a command, write ./rules, ./verify and so on.
Exit status: 0 no findings, 1 findings, 2 the run is not complete.
After an "internal error", set the environment variable TORCHPERF_LINT_TRACEBACK=1 to see where it came from."""


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help of a fixed width: for the terminal's width, argparse loads shutil at every start."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=110)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, whatever the arguments contain."""

    def error(self, message: str) -> NoReturn:
        """Print the line and exit with 2."""
        self.exit(2, f"{self.prog}: error: {printable(message)}\n")


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of the arguments; exits with one line where they do not go together."""
    parser = check_parser()
    options = parser.parse_args(arguments)
    options.given = arguments
    options.meant = None  # the command that the first argument may have been meant to be
    options.fix |= options.fix_only
    options.config, options.pairs = _configuration(options.config, parser)
    if not options.paths:
        options.paths = ["."] if options.stdin_filename is None else [STANDARD_INPUT]
    at_odds = _at_odds(options)
    if at_odds is not None:
        parser.error(at_odds)
    return options


def _configuration(given: Sequence[str], parser: argparse.ArgumentParser) -> tuple[str | None, list[str]]:
    """The file and the pairs `key = value` among the values of `--config`."""
    pairs = [each for each in given if "=" in each and not os.path.exists(each)]
    files = [each for each in given if each not in pairs]
    if len(files) > 1:
        parser.error(f"--config names one file: {files[0]} cannot stand beside {files[1]}")
    return (files[0] if files else None), pairs


def _at_odds(options: argparse.Namespace) -> str | None:
    """Why the options do not go together; None if they do."""
    reads_input = STANDARD_INPUT in options.paths
    if options.stdin_filename is not None and options.paths != [STANDARD_INPUT]:
        return "--stdin-filename names what is read from standard input: it cannot stand beside a path but `-`"
    if options.isolated and options.config is not None:
        return "--isolated reads no configuration file: it cannot stand beside --config FILE"
    if options.jobs is not None and options.executor not in (None, "processes"):
        return "--jobs counts processes of this machine: it cannot stand beside --executor dask=..."
    if options.statistics and options.output_format not in COUNTABLE:
        return f"--statistics is printed as {', '.join(COUNTABLE)}: it cannot stand beside {options.output_format}"
    for name, given in (("--add-noqa", options.add_noqa), ("--write-baseline", options.write_baseline)):
        beside = [other for other in ("fix", "diff", "add_noqa", "write_baseline") if getattr(options, other)]
        if given and (beside := [each for each in map(_option, beside) if each != name]):
            return f"{name} takes the findings as they are: it cannot stand beside {beside[0]}"
        if given and reads_input:
            return f"{name} is for files: it cannot stand beside the path `-`"
        if given and options.output_file is not None:
            return f"{name} prints no report: it cannot stand beside --output-file"
    if options.add_noqa and options.ignore_noqa:
        return "--add-noqa heeds the comments that there are: it cannot stand beside --ignore-noqa"
    if options.check_with is not None or options.checked:
        name = "--checked" if options.check_with is None else "--check-with"
        if options.checked and options.check_with is not None:
            return "--checked runs the command of the configuration: it cannot stand beside --check-with"
        if options.diff:
            return f"{name} tries what is written: it cannot stand beside --diff"
        if not options.fix:
            return f"{name} tries what --fix writes: it needs --fix"
        if reads_input:
            return f"{name} is for files: it cannot stand beside the path `-`"
    if options.changed_since is not None and reads_input:
        return "--changed-since is for files: it cannot stand beside the path `-`"
    if options.changed_since is not None and options.write_baseline:
        return "--write-baseline takes all findings: it cannot stand beside --changed-since"
    if options.no_baseline and (options.baseline is not None or options.write_baseline):
        return "--no-baseline cannot stand beside --baseline or --write-baseline"
    if options.watch:
        exclusive = ("fix", "diff", "add_noqa", "write_baseline", "output_file", "show_files", "show_settings")
        others = [_option(each) for each in exclusive if getattr(options, each)] + ["the path `-`"] * reads_input
        if others:
            return f"--watch prints what is found in files: it cannot stand beside {others[0]}"
    if options.show_files and reads_input:
        return "--show-files is for files: it cannot stand beside the path `-`"
    return None


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def check_parser(*, with_paths: bool = True) -> argparse.ArgumentParser:
    """The parser of `torchperf-lint [check]`; `with_paths` False leaves out all but the options."""
    parser = Parser(
        prog="torchperf-lint",
        description="Find PyTorch performance anti-patterns, and fix them.",
        epilog=_MORE,
        formatter_class=_Help,
        allow_abbrev=False,
    )
    add = parser.add_argument
    if with_paths:
        paths = "files and folders, or - for standard input (default . or, with --stdin-filename, -)"
        add("paths", nargs="*", type=_path, metavar="PATH", help=paths)
    add("--version", action="version", version=f"torchperf-lint {__version__}")

    add = parser.add_argument_group("fixes").add_argument
    add("--fix", action="store_true", help="apply the safe fixes")
    add("--fix-only", action="store_true", help="the same, without a report of what remains and with exit status 0")
    add("--unsafe-fixes", action="store_true", help="with --fix or --diff: the unsafe fixes as well")
    add("--diff", action="store_true", help="show what --fix would change, write nothing")
    add(
        "--check-with",
        type=_command,
        metavar="COMMAND",
        help="with --fix: keep the fixes only as far as this command passes, such as 'pytest -q'",
    )
    add("--checked", action="store_true", help="the same with the command of the setting `check-with`")
    add("--show-fixes", action="store_true", help="list what was fixed with --quiet, too")
    add("--fixable", action="extend", type=_selected, metavar="RULES", help="apply the fixes of these rules only")
    add(
        "--unfixable", action="extend", type=_listed, metavar="RULES", default=[], help="only show fixes of these rules"
    )
    add(
        "--extend-fixable", action="extend", type=_listed, metavar="RULES", default=[], help="apply these fixes as well"
    )
    add("--add-noqa", action="store_true", help="write a `# noqa` comment behind each finding")

    add = parser.add_argument_group("rules").add_argument
    selectors = "comma-separated codes, prefixes of codes, names, or ALL"
    add("--select", action="extend", type=_selected, metavar="RULES", help=f"run only these rules: {selectors}")
    add("--ignore", action="extend", type=_listed, metavar="RULES", default=[], help="do not run these rules")
    add("--extend-select", action="extend", type=_listed, metavar="RULES", default=[], help="also run these rules")
    add(
        "--min-confidence",
        type=_confidence,
        metavar="LEVEL",
        help="report findings that are at least likely (default) or proven",
    )
    add(
        "--min-severity",
        type=_severity,
        metavar="LEVEL",
        help="report findings of at least this severity: error, warning or note (default)",
    )
    add(
        "--per-file-ignores",
        action="extend",
        type=_ignores_by_file,
        metavar="GLOB:RULE",
        help="do not run a rule in these files (comma-separated list; replaces the configuration's)",
    )
    add(
        "--extend-per-file-ignores",
        action="extend",
        type=_ignores_by_file,
        default=[],
        metavar="GLOB:RULE",
        help="the same, in addition to the configuration's",
    )
    add("--ignore-noqa", action="store_true", help="report what comments silence as well")
    add("--target-torch", type=_version, metavar="VERSION", help="the torch version that the code runs on")
    add(
        "--target-torchmetrics", type=_version, metavar="VERSION", help="the torchmetrics version that the code runs on"
    )

    add = parser.add_argument_group("files").add_argument
    add(
        "--exclude",
        action="extend",
        type=_globs,
        metavar="GLOBS",
        help="leave out these files, instead of the usual ones",
    )
    add(
        "--extend-exclude",
        action="extend",
        type=_globs,
        metavar="GLOBS",
        default=[],
        help="leave out these files in addition",
    )
    add("--force-exclude", action="store_true", help="leave out files that are named as well")
    add("-w", "--watch", action="store_true", help="check again whenever a file changes (needs watchfiles)")
    add("--show-files", action="store_true", help="print the files that would be checked, and check none")
    add("--stdin-filename", metavar="PATH", help="the file name of the text on standard input")
    add("-j", "--jobs", type=_jobs, metavar="N", help="number of worker processes (default: as many as are useful)")
    add(
        "--executor",
        type=_executor,
        metavar="NAME",
        help="where files are checked: processes (default), or a cluster, dask=tcp://HOST:PORT",
    )
    add("-n", "--no-cache", action="store_true", help="do not store anything for the next run")
    add("--cache-dir", metavar="DIR", help="the cache's folder (default: .torchperf_lint_cache in the project's root)")
    add(
        "--config",
        action="append",
        default=[],
        metavar="FILE or KEY=VALUE",
        help="read the configuration from this file; set one key, as in 'min-severity = \"error\"'",
    )
    add("--isolated", action="store_true", help="read no configuration and no requirement files")
    add("--show-settings", action="store_true", help="print the settings in force, as TOML, and check nothing")

    add = parser.add_argument_group("old code").add_argument
    add("--baseline", type=_file, metavar="FILE", help="do not report the findings that this file holds")
    add("--write-baseline", action="store_true", help="write the findings into the baseline instead of reporting them")
    add("--no-baseline", action="store_true", help="report the findings of the configuration's baseline as well")
    add(
        "--changed-since",
        type=_commit,
        metavar="REF",
        help="report only findings on lines that changed since this branch left REF (a commit, tag or branch)",
    )

    add = parser.add_argument_group("output").add_argument
    add(
        "--output-format",
        choices=tuple(FORMATS),
        default="text",
        metavar="FORMAT",
        help=f"how findings are printed: {', '.join(FORMATS)} (default text)",
    )
    add(
        "-o",
        "--output-file",
        type=_output,
        metavar="FILE",
        help="write the report into this file instead of standard output (-)",
    )
    add("--statistics", action="store_true", help="print only the number of findings per rule")
    add("-e", "--exit-zero", action="store_true", help="exit with 0 even if there are findings")
    add("--fail-on", type=_severity, metavar="LEVEL", help="exit with 1 only for findings of at least this severity")
    add("--exit-non-zero-on-fix", action="store_true", help="exit with 1 if --fix changed a file")
    add("-q", "--quiet", action="store_true", help="print only the findings")
    add(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="when colours are printed (default auto: on a terminal, unless NO_COLOR or FORCE_COLOR is set)",
    )
    add("--no-color", dest="color", action="store_const", const="never", help="the same as --color never")
    return parser


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _selected(text: str) -> list[str]:
    # An empty variable in a script must not look like success.
    selectors = _listed(text)
    if not selectors:
        raise argparse.ArgumentTypeError("no rule is named")
    return selectors


def _file(text: str) -> str:
    # As above.
    if not text:
        raise argparse.ArgumentTypeError("no file is named")
    return text


def _path(text: str) -> str:
    # As above.
    if not text:
        raise argparse.ArgumentTypeError("no file or folder is named")
    return text


def _output(text: str) -> str | None:
    return None if text == STANDARD_OUTPUT else _file(text)


def _command(text: str) -> str:
    try:
        return checked_command(text)
    except WrongType as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _commit(text: str) -> str:
    # As above.
    if not text:
        raise argparse.ArgumentTypeError("no commit is named")
    return text


def _ignores_by_file(text: str) -> list[tuple[str, str]]:
    pairs = []
    for each in _listed(text):
        glob, colon, selector = (part.strip() for part in each.rpartition(":"))
        if not (glob and colon and selector):
            raise argparse.ArgumentTypeError(f"`{each}` is not GLOB:RULE, such as tests/**:TPL105")
        pairs.append((glob, selector))
    try:
        checked_files(glob for glob, _ in pairs)
        checked_selectors(selector for _, selector in pairs)
    except (BadGlob, UnknownSelector) as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return pairs


def _globs(text: str) -> list[str]:
    try:
        return list(checked_globs(_listed(text)))
    except BadGlob as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _confidence(text: str) -> Confidence:
    try:
        return checked_confidence(text)
    except BadConfidence as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _severity(text: str) -> Severity:
    try:
        return checked_severity(text)
    except BadSeverity as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _version(text: str) -> Version:
    try:
        return parse_version(text)
    except BadVersion as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _jobs(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"`{text}` is not a number of processes")
    return int(text)


def _executor(text: str) -> str:
    from torchperf_lint.engine.executors import BadExecutor, checked_executor

    try:
        return checked_executor(text)
    except BadExecutor as error:
        raise argparse.ArgumentTypeError(str(error)) from None


OF_SETTINGS = {
    **dict.fromkeys(
        ("select", "exclude", "target_torch", "target_torchmetrics", "min_confidence", "min_severity", "fail_on")
    ),
    **dict.fromkeys(("per_file_ignores", "baseline", "check_with", "fixable")),
    **dict.fromkeys(("ignore", "extend_select", "extend_exclude", "extend_per_file_ignores"), ()),
    **dict.fromkeys(("unfixable", "extend_fixable", "pairs"), ()),
    **dict.fromkeys(("no_baseline", "force_exclude"), False),
}
"""What the options that change settings hold where none is given, for commands without them."""


OF_FIELDS = (
    *("target_torch", "target_torchmetrics", "min_confidence", "min_severity", "fail_on"),
    *("baseline", "check_with"),
)
"""Options whose value takes the place of the configuration's."""


def settings_for(options: argparse.Namespace) -> Settings:
    """The configuration with the command line's options applied; raise BadConfig or registry.UnknownSelector.

    Folders below it may have configurations of their own, unless the command line names one, or none is to be read.
    """
    around = common_folder(options)
    settings = Settings() if options.isolated else load(around, options.config)
    whole = _with_options(settings, options)
    if options.isolated or options.config is not None:
        return whole
    ignores = [*(options.per_file_ignores or ()), *options.extend_per_file_ignores]
    given = Settings(root=settings.root, per_file_ignores=_by_glob(ignores))

    def adapted(own: Settings) -> Settings:
        kept = own.per_file_ignores if options.per_file_ignores is None else ()
        return _with_options(own, options)._replace(per_file_ignores=kept)

    top = around if os.path.isdir(around) else os.path.dirname(around)
    return whole._replace(nested=Nested(top, given, adapted))


def _with_options(settings: Settings, options: argparse.Namespace) -> Settings:
    for text in options.pairs:
        values = pair(text)
        if "baseline" in values:
            values["baseline_source"] = None
        settings = settings._replace(**values)
    given = (
        None if options.select is None else checked_selectors(options.select),
        checked_selectors(options.ignore),
        checked_selectors(options.extend_select),
    )
    replaced = {name: getattr(options, name) for name in OF_FIELDS if getattr(options, name) is not None}
    if options.no_baseline:
        replaced["baseline"] = None
    if "baseline" in replaced:
        replaced["baseline_source"] = None
    if options.force_exclude:
        replaced["force_exclude"] = True
    if options.fixable is not None:
        replaced |= {"fixable": checked_selectors(options.fixable), "unfixable": (), "extend_fixable": ()}
    fixing = settings._replace(**replaced)
    replaced["unfixable"] = (*fixing.unfixable, *checked_selectors(options.unfixable))
    replaced["extend_fixable"] = (*fixing.extend_fixable, *checked_selectors(options.extend_fixable))
    if options.exclude is not None:
        replaced["exclude"] = tuple(options.exclude)
    ignores = settings.per_file_ignores if options.per_file_ignores is None else _by_glob(options.per_file_ignores)
    return settings.with_selectors(*given)._replace(
        extend_exclude=(*settings.extend_exclude, *options.extend_exclude),
        per_file_ignores=(*ignores, *_by_glob(options.extend_per_file_ignores)),
        **replaced,
    )


def _by_glob(pairs: Sequence[tuple[str, str]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found: dict[str, list[str]] = {}
    for glob, selector in pairs:
        found.setdefault(glob, []).append(selector)
    return tuple((glob, tuple(selectors)) for glob, selectors in found.items())


def common_folder(options: argparse.Namespace) -> str:
    """The innermost folder that contains all linted paths, whatever their order."""
    paths: list[str] = options.paths
    if paths == [STANDARD_INPUT]:
        paths = [options.stdin_filename or "."]
    try:
        return os.path.commonpath([os.path.abspath(path) for path in paths])
    except ValueError:  # different drives
        return "."
