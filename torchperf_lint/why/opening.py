"""Opens a file as a part of its project, as a normal run on this file does."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine import registry
from torchperf_lint.engine.jobs import completed
from torchperf_lint.engine.names import is_notebook
from torchperf_lint.engine.project import program_around
from torchperf_lint.engine.scan import rules_worth_running
from torchperf_lint.syntax.source import Source

if TYPE_CHECKING:
    from torchperf_lint.config import Settings
    from torchperf_lint.engine.declare import Rule
    from torchperf_lint.engine.findings import Confidence, Severity
    from torchperf_lint.knowledge.versions import Target
    from torchperf_lint.model.analyzed_file import AnalyzedFile
    from torchperf_lint.model.program import Program


class Opened(NamedTuple):
    """A file in its project: the rules that its bytes wake, and which of all are selected for it."""

    source: Source
    program: Program
    analyzed: AnalyzedFile
    target: Target
    triggered: tuple[Rule, ...]
    selected: frozenset[str]  # codes
    accelerated: bool  # whether the file, or one that uses it, speaks of an accelerator
    least: Confidence  # what a finding needs to be reported
    mildest: Severity  # the same


def open_file(path: str, data: bytes, settings: Settings, cache: str | None, own_versions: bool = True) -> Opened:
    """The file at a path with these bytes; raise Unreadable where Python cannot read it.

    `cache` is as for `gather`, `own_versions` as in Job.
    """
    source = Source(path, data)
    source.parse()
    program = program_around(path, settings.hints, cache)
    if is_notebook(path):  # the project does not see its notebooks
        program = program.with_file(path, data)
    program.recorder.begin()
    program.drop_unused_trees()
    rules = registry.all_rules()
    accelerated = program.reached(path)
    triggered = rules_worth_running(data, rules, accelerated=accelerated, metrics=program.may_have_metrics(path))
    target = completed(settings.target, path, data, rules) if own_versions else settings.target
    analyzed = program.open(path, data, source)
    selected = frozenset(rule.code for rule in settings.rules_for(path))
    least = settings.min_confidence, settings.min_severity
    return Opened(source, program, analyzed, target, tuple(triggered), selected, accelerated, *least)
