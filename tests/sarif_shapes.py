"""The part of SARIF 2.1.0 that our logs use, as tables: which properties an object may have, and which it must have.

The official schema knows more; this knows what it forbids of ours: other properties, other types, values out of range.
"""

from __future__ import annotations

import re
from typing import Any

POSITIVE, NATURAL, URI = "positive", "natural", "uri"
LEVELS = ("none", "note", "warning", "error")

SHAPES: dict[str, dict[str, Any]] = {
    "log": {"$schema": URI, "version!": ("2.1.0",), "runs!": ["run"]},
    "run": {
        "tool!": "tool",
        "originalUriBaseIds": {"": "artifactLocation"},
        "columnKind": ("utf16CodeUnits", "unicodeCodePoints"),
        "newlineSequences": [str],
        "invocations": ["invocation"],
        "results": ["result"],
    },
    "tool": {"driver!": "driver"},
    "driver": {"name!": str, "version": str, "rules": ["descriptor"], "notifications": ["descriptor"]},
    "descriptor": {
        "id!": str,
        "name": str,
        "shortDescription": "string",
        "fullDescription": "string",
        "help": "string",
        "helpUri": URI,
        "defaultConfiguration": "configuration",
        "properties": "bag",
    },
    "bag": {"tags": [str], "problem.severity": ("error", "warning", "recommendation")},
    "configuration": {"enabled": bool, "level": LEVELS},
    "string": {"text!": str, "markdown": str},
    "invocation": {"executionSuccessful!": bool, "toolExecutionNotifications": ["notification"]},
    "notification": {"message!": "string", "level": LEVELS, "locations": ["location"], "descriptor": "reference"},
    "reference": {"id": str, "index": NATURAL},
    "result": {
        "ruleId": str,
        "ruleIndex": NATURAL,
        "level": LEVELS,
        "message!": "string",
        "locations": ["location"],
        "relatedLocations": ["location"],
        "partialFingerprints": {"": str},
        "fixes": ["fix"],
        "properties": "weight",
    },
    "weight": {"cost": str, "loses": str, "confidence!": ("proven", "likely"), "group": str},
    "location": {"id": NATURAL, "physicalLocation": "place", "message": "string"},
    "place": {"artifactLocation!": "artifactLocation", "region": "region"},
    "artifactLocation": {"uri": URI, "uriBaseId": str},
    "region": {
        "startLine": POSITIVE,
        "startColumn": POSITIVE,
        "endLine": POSITIVE,
        "endColumn": POSITIVE,
    },
    "fix": {"description": "string", "artifactChanges!": ["change"]},
    "change": {"artifactLocation!": "artifactLocation", "replacements!": ["replacement"]},
    "replacement": {"deletedRegion!": "region", "insertedContent": "content"},
    "content": {"text": str},
}

_URI = re.compile(r"(?:[A-Za-z0-9._~:/?#@!$&'()*+,;=-]|%[0-9A-F]{2})*")


def problems(value: object, shape: Any = "log", place: str = "$") -> list[str]:
    """What a log breaks, with the places in it."""
    if isinstance(shape, str) and shape in SHAPES:
        return _of_object(value, SHAPES[shape], place)
    if isinstance(shape, dict):
        if not isinstance(value, dict) or not value:
            return [f"{place}: no object with properties"]
        return [each for name, item in value.items() for each in problems(item, shape[""], f"{place}.{name}")]
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [f"{place}: no list"]
        return [each for i, item in enumerate(value) for each in problems(item, shape[0], f"{place}[{i}]")]
    if isinstance(shape, tuple):
        fits = value in shape
    elif shape == URI:
        fits = isinstance(value, str) and bool(_URI.fullmatch(value))
    elif shape in (POSITIVE, NATURAL):
        fits = type(value) is int and value >= (shape == POSITIVE)
    else:
        fits = type(value) is shape
    return [] if fits else [f"{place}: {value!r}"]


def _of_object(value: object, shape: dict[str, Any], place: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{place}: no object"]
    shapes = {name.rstrip("!"): each for name, each in shape.items()}
    found = [f"{place}: no {name[:-1]}" for name in shape if name.endswith("!") and name[:-1] not in value]
    found += [f"{place}: {name} is unknown" for name in value if name not in shapes]
    for name, item in value.items():
        found += problems(item, shapes[name], f"{place}.{name}") if name in shapes else []
    return found
