"""Checks one file: from its bytes to its diagnostics, with every error as one line."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine.findings import Confidence, Diagnostic, Failure, Fix, NoFix, OfSomeObjects, Safety
from torchperf_lint.engine.mishaps import one_line, told
from torchperf_lint.engine.plugins import distribution_of
from torchperf_lint.engine.scan import rules_worth_running
from torchperf_lint.engine.suppress import Comments, Suppressions, mentions_ours
from torchperf_lint.syntax.recursion import NoRoom, with_room
from torchperf_lint.syntax.source import Source, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torchperf_lint.engine.declare import Rule
    from torchperf_lint.engine.findings import Because, Finding
    from torchperf_lint.knowledge.hints import Hints
    from torchperf_lint.knowledge.versions import Target
    from torchperf_lint.model import Model
    from torchperf_lint.model.program import Program

LARGEST = 20_000_000
"""Bytes of the largest file that is parsed; a tree takes about a hundred times its source in memory."""


class FileReport(NamedTuple):
    """The report of one file; `failure` tells why the diagnostics are incomplete."""

    diagnostics: tuple[Diagnostic, ...] = ()
    failure: Failure | None = None


def check_source(
    path: str,
    data: bytes,
    rules: Sequence[Rule],
    target: Target,
    hints: Hints,
    *,
    program: Callable[[], Program] | None = None,
    comments: Comments = Comments.ALL,
    report_unused: bool = True,
    least: Confidence = Confidence.LIKELY,
    held: frozenset[str] = frozenset(),
) -> FileReport:
    """Check the bytes of one file; never raises because of the file's content.

    `program` gives the file's project and is called only if a rule may report something; without it, the file is
    checked on its own.
    `comments` says which suppressions count. `report_unused` says whether TPL001 is on: suppressions that name one of
    `rules` and silence nothing. `held` has the codes whose fixes are only shown. `least` is the confidence that a
    diagnostic must have; a suppression of one that has less is not unused. The diagnostics are sorted by place, then
    code.
    """
    enabled = [rule for rule in rules if may_speak(rule, target)]
    triggered = rules_worth_running(data, enabled, accelerated=program is not None)
    around = program() if program is not None and triggered else None
    if around is not None:
        around.drop_unused_trees()
        accelerated, metrics = around.reached(path), around.may_have_metrics(path)
        triggered = rules_worth_running(data, enabled, accelerated=accelerated, metrics=metrics)
    if len(data) > LARGEST:
        quiet = not triggered and not (report_unused and mentions_ours(data))
        reason = f"larger than {LARGEST // 1_000_000} MB, not checked"
        return FileReport() if quiet else FileReport((), Failure(path, None, None, reason))
    judge = functools.partial(
        _judged, path, data, enabled, triggered, target, hints, around, comments, report_unused, least, held
    )
    if not triggered:
        return judge()
    try:
        return with_room(judge)  # queries are nested deeply
    except NoRoom:
        return judge()


def _judged(
    path: str,
    data: bytes,
    enabled: Sequence[Rule],
    triggered: Sequence[Rule],
    target: Target,
    hints: Hints,
    around: Program | None,
    comments: Comments,
    report_unused: bool,
    least: Confidence,
    held: frozenset[str],
) -> FileReport:
    """Parse the file and run the triggered rules."""
    try:
        source = Source(path, data)
        suppressions = Suppressions(source, comments)
        if suppressions.cover_the_file:
            return FileReport()
        if not triggered:
            source.parse()
            analyzed = None
        elif around is None:
            from torchperf_lint.model.analyzed_file import AnalyzedFile
            from torchperf_lint.model.syntax.indexing import index_of

            analyzed = AnalyzedFile(source, index_of(source.parse(), source.path), hints)
        else:
            analyzed = around.open(path, data, source)
    except Unreadable as error:
        return FileReport((), Failure(path, error.row, error.column, one_line(error.reason)))
    except Exception as error:
        return FileReport((), _broken(path, {"the model": error}))
    found: list[Diagnostic] = []
    broken: dict[str, Exception] = {}
    if analyzed is not None:
        from torchperf_lint.model import Model

        try:
            model = Model(analyzed, target)
        except Exception as error:
            return FileReport((), _broken(path, {"the model": error}))
        raw: list[tuple[Rule, Finding]] = []
        for rule in triggered:
            try:
                raw.extend((rule, finding) for finding in rule.check(model))
            except Exception as error:
                broken[rule.code] = error
        for rule, finding in raw:
            try:
                found.append(diagnostic_of(rule, finding, source, model))
            except Exception as error:
                broken[rule.code] = error
        model.take_apart()
    ran = [rule for rule in enabled if rule.code not in broken]
    unsilenced = suppressions.sift(found, ran, report_unused=report_unused)
    kept = [_only_shown(each) if each.code in held else each for each in unsilenced if each.confidence.satisfies(least)]
    kept.sort(key=lambda each: (each.start, each.code, each.end, each.message))
    return FileReport(tuple(kept), _broken(path, broken) if broken else None)


def may_speak(rule: Rule, target: Target) -> bool:
    """Whether the target may satisfy the rule's version gates."""
    if rule.torch is not None and target.torch_is(rule.torch) is False:
        return False
    return rule.torchmetrics is None or target.torchmetrics_is(rule.torchmetrics) is not False


def diagnostic_of(rule: Rule, finding: Finding, source: Source, model: Model) -> Diagnostic:
    """The finding as plain data; `model` answers for its file."""
    from torchperf_lint.engine.costs import weigh

    site, weight = finding.site, weigh(rule, finding, model)
    row, column = source.position(site.start)
    end_row, end_column = source.position(site.end)
    fix = _as_far_as_shown(finding.fix, weight.because)
    return Diagnostic(
        path=source.path,
        row=row,
        column=column,
        end_row=end_row,
        end_column=end_column,
        code=rule.code,
        name=rule.name,
        severity=weight.severity.value,
        message=rule.message.format(**finding.fields) + weight.only_if,
        because=tuple(dict.fromkeys(_from_here(step, source.path) for step in weight.because)),
        fix=_with_assumption(fix, rule) if isinstance(fix, Fix) else None,
        start=site.start,
        end=site.end,
        noqa_rows=site.rows,
        cost=weight.cost,
        confidence=weight.confidence,
        about=weight.about,
        behind=weight.behind,
        no_fix=fix.identifier if isinstance(fix, NoFix) else None,
    )


def _as_far_as_shown(fix: Fix | NoFix | None, because: Sequence[Because]) -> Fix | NoFix | None:
    """The fix, which is not safe where it rests on what holds for some objects of a class alone."""
    if not isinstance(fix, Fix) or not any(isinstance(step, OfSomeObjects) for step in because):
        return fix
    besides = "; ".join(filter(None, (fix.besides, "all objects of the class are made alike")))
    return fix._replace(safety=fix.safety.at_worst(Safety.UNSAFE), besides=besides)


def _with_assumption(fix: Fix, rule: Rule) -> Fix:
    assumed = (fix.assumes or rule.assumes, fix.besides) if fix.safety is Safety.UNSAFE else ()
    return fix._replace(assumes="; ".join(filter(None, assumed)), besides="")


def _only_shown(found: Diagnostic) -> Diagnostic:
    return found if found.fix is None else found._replace(fix=found.fix._replace(safety=Safety.SHOWN))


def _from_here(step: Because, path: str) -> Because:
    return step._replace(path=None) if step.path == path else step


def _broken(path: str, errors: dict[str, Exception]) -> Failure:
    """The one-line failure for errors in the model or in rules, keyed by where they happened."""
    distributions = {where: distribution_of(where) for where in errors}
    others = {where: distribution for where, distribution in distributions.items() if distribution is not None}
    return Failure(path, None, None, told(errors, others))
