"""Findings as SARIF 2.1.0, which code scanning services and editors read."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from torchperf_lint import __version__
from torchperf_lint.engine.findings import Safety, file_of
from torchperf_lint.report import NOT_CHECKED, NOT_CHECKED_NAME, placed, placed_message
from torchperf_lint.report.groups import group_names
from torchperf_lint.report.identity import Fingerprints, below, region_in_file, row_in_file, well_formed
from torchperf_lint.report.sources import Sources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torchperf_lint.engine.findings import Because, Diagnostic, Edit, Failure, Fix
    from torchperf_lint.report import Context
    from torchperf_lint.syntax.source import Source

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

FINGERPRINT = "ruleAndLines/v1"
"""The name of our fingerprints; a new way to make them needs a new version."""

_ROOT = "%SRCROOT%"
_KINDS = {"error": "error", "warning": "warning", "note": "recommendation"}
_LINK = re.compile(r"\](?=\()")


def render(diagnostics: Iterable[Diagnostic], context: Context) -> Iterator[str]:
    """Yield a log with one run; its notifications tell the files that could not be checked."""
    found = list(diagnostics)
    sources = Sources(context.read)
    fingerprints = Fingerprints(sources)
    names = dict(sorted((each.code, each.name) for each in found))
    places = {code: place for place, code in enumerate(names)}
    driver = {
        "name": "torchperf-lint",
        "version": __version__,
        "rules": [_rule(code, name, context) for code, name in names.items()],
    }
    notices: dict[str, Any] = {}
    if context.failures:
        driver["notifications"] = [{"id": NOT_CHECKED, "name": NOT_CHECKED_NAME}]
        notices["toolExecutionNotifications"] = [_notification(each) for each in context.failures]
    run = {
        "tool": {"driver": driver},
        "originalUriBaseIds": {_ROOT: {"uri": _absolute_uri(os.path.join(os.getcwd(), ""))}},
        "columnKind": "unicodeCodePoints",
        "newlineSequences": ["\r\n", "\n", "\r"],
        "invocations": [{"executionSuccessful": not context.failures, **notices}],
        "results": [
            _result(each, group, places[each.code], sources, fingerprints, context)
            for each, group in zip(found, group_names(found), strict=True)
        ],
    }
    yield json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _rule(code: str, name: str, context: Context) -> dict[str, Any]:
    described = context.describe(code)
    if described is None:
        return {"id": code, "name": name}
    rule = {
        "id": code,
        "name": name,
        "shortDescription": _string(described.summary[:1].upper() + described.summary[1:] + "."),
        "defaultConfiguration": {"enabled": described.default, "level": described.severity},
        "properties": {
            "tags": ["performance", described.category],
            "problem.severity": _KINDS[described.severity],
        },
    }
    if described.about:
        rule["fullDescription"] = _string(described.about)
    if described.page:
        rule["help"] = _string(described.page) | {"markdown": described.page}
    return rule


def _result(
    diagnostic: Diagnostic,
    group: str | None,
    place: int,
    sources: Sources,
    fingerprints: Fingerprints,
    context: Context,
) -> dict[str, Any]:
    path = diagnostic.path
    whole = region_in_file(diagnostic)
    region = _region((whole.row, whole.column), (whole.end_row, whole.end_column))
    result = {
        "ruleId": diagnostic.code,
        "ruleIndex": place,
        "level": diagnostic.severity,
        "message": _message(placed_message(diagnostic)),
        "locations": [{"physicalLocation": {"artifactLocation": _artifact(path), "region": region}}],
        "partialFingerprints": {FINGERPRINT: fingerprints.of(diagnostic, _named(path))},
        "properties": _properties(diagnostic, group),
    }
    if diagnostic.because:
        result["relatedLocations"] = [_step(number, step, path) for number, step in enumerate(diagnostic.because, 1)]
    # A reader of SARIF may apply whatever it finds, so it gets what `--fix` would apply, and nothing in cells.
    source = sources.get(path) if context.fixable(diagnostic) and file_of(path) == path else None
    if diagnostic.fix is not None and source is not None:
        result["fixes"] = [_fix(diagnostic.fix, path, source)]
    return result


def _properties(diagnostic: Diagnostic, group: str | None) -> dict[str, str]:
    properties = {"confidence": diagnostic.confidence.value}
    if diagnostic.cost is not None:
        properties |= {"cost": diagnostic.cost.rate.value, "loses": diagnostic.cost.loss.value}
    if group is not None:
        properties["group"] = well_formed(group)
    return properties


def _step(number: int, step: Because, path: str) -> dict[str, Any]:
    path = step.path or path
    place = {"artifactLocation": _artifact(path), "region": {"startLine": row_in_file(path, step.row)}}
    return {"id": number, "physicalLocation": place, "message": _message(placed(path, step.row, step.text))}


def _fix(fix: Fix, path: str, source: Source) -> dict[str, Any]:
    grade = "safe" if fix.safety is Safety.SAFE else f"unsafe: assumes that {fix.assumes}" if fix.assumes else "unsafe"
    replacements = [_replacement(edit, source) for edit in fix.edits]
    return {
        "description": _message(f"{fix.message} ({grade})"),
        "artifactChanges": [{"artifactLocation": _artifact(path), "replacements": replacements}],
    }


def _replacement(edit: Edit, source: Source) -> dict[str, Any]:
    replacement: dict[str, Any] = {"deletedRegion": _region(source.position(edit.start), source.position(edit.end))}
    if edit.content:
        replacement["insertedContent"] = {"text": edit.content.decode()}
    return replacement


def _notification(failure: Failure) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": _artifact(failure.path)}
    if failure.row is not None:
        column = {} if failure.column is None else {"startColumn": failure.column}
        place["region"] = {"startLine": failure.row, **column}
    return {
        "descriptor": {"id": NOT_CHECKED, "index": 0},
        "level": "error",
        "message": _message(failure.reason),
        "locations": [{"physicalLocation": place}],
    }


def _region(start: tuple[int, int], end: tuple[int, int]) -> dict[str, int]:
    (row, column), (end_row, end_column) = start, end
    return {"startLine": row, "startColumn": column, "endLine": end_row, "endColumn": end_column}


def _message(text: str) -> dict[str, str]:
    """A message of plain text: braces are doubled, since one pair is a placeholder, and nothing looks like a link."""
    text = well_formed(text).replace("{", "{{").replace("}", "}}")
    return {"text": _LINK.sub("] ", text)}


def _string(text: str) -> dict[str, str]:
    return {"text": text}


def _named(path: str) -> str:
    return below(path, os.curdir) or path


def _artifact(path: str) -> dict[str, str]:
    relative = below(path, os.curdir)
    if relative is None:
        return {"uri": _absolute_uri(os.path.abspath(file_of(path)))}
    return {"uri": _quoted(relative), "uriBaseId": _ROOT}


def _absolute_uri(path: str) -> str:
    path = path.replace(os.sep, "/")
    return f"file://{_quoted(path if path.startswith('/') else f'/{path}')}"


def _quoted(path: str) -> str:
    """A path percent-encoded by its bytes; a character that no file system holds is replaced."""
    try:
        data = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        data = well_formed(path).encode()
    return quote(data)
