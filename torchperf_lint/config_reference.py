"""What is generated from the keys of the configuration: its JSON schema, and the page that lists them."""

from __future__ import annotations

import json
import os
import textwrap
from typing import TYPE_CHECKING, Any

from torchperf_lint.config_keys import KEYS, Form
from torchperf_lint.engine import registry
from torchperf_lint.engine.findings import Confidence, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torchperf_lint.config_keys import Key

SCHEMA = os.path.join(os.path.dirname(__file__), "torchperf-lint.schema.json")
"""The schema, as it is shipped."""

_NOT_BLANK = r"^[^\x00]+$"
_MARKS = r"\s!-/:-@\[-^`{-~"  # what no name holds, but for letters beyond ASCII, which dialects see differently
_PART = rf"[^{_MARKS}0-9][^{_MARKS}]*"
_GLOB = r"[^\s]"
_WIDTH = 120
_WORDS = r"^[^\x00]*[^\x00\s][^\x00]*$"
_OF_OTHERS = r"^([A-Z]+|[A-Z]{3,}[0-9]{1,3}|[a-z][a-z0-9]*(-[a-z0-9]+)+)$"


def schema() -> dict[str, Any]:
    """The JSON schema of `torchperf-lint.toml`, and of the table in pyproject.toml.

    It accepts all that the configuration accepts. It refuses the rest as well, but for globs, where it only asks for
    some text, for rules that look like those of other packages, for names with letters beyond ASCII, where it does not
    know which of these Python takes, and for quotes in command lines.
    """
    properties = {}
    for name, key in KEYS.items():
        described = {"description": f"{key.says[:1].upper()}{key.says[1:]}.", **_of_form(key.form)}
        properties[name] = described
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "torchperf-lint",
        "description": "The keys of torchperf-lint.toml, and of [tool.torchperf-lint] in pyproject.toml.",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "definitions": {"selector": {"anyOf": [{"enum": _selectors()}, _selector_of_others()]}},
    }


def schema_text() -> str:
    """The schema as it is written to its file."""
    return json.dumps(schema(), indent=2) + "\n"


def _of_form(form: Form) -> dict[str, Any]:
    selectors = {"type": "array", "items": {"$ref": "#/definitions/selector"}}
    match form:
        case Form.SELECTORS:
            return selectors
        case Form.GLOBS:
            return {"type": "array", "items": {"type": "string", "pattern": _GLOB}}
        case Form.IGNORES:
            names = {"pattern": r"^[^!]", "minLength": 1}
            return {"type": "object", "propertyNames": names, "additionalProperties": selectors}
        case Form.NAMES:
            return {"type": "array", "items": {"type": "string", "pattern": rf"^{_PART}(\.{_PART})*$"}}
        case Form.VERSION:
            suffix = r"([.\-_]?(a|b|rc|alpha|beta|dev|post)(\.?\d+)?)*(\+.*)?"
            return {"type": "string", "pattern": rf"^\s*v?\d+(\.\d+)*{suffix}\s*$"}
        case Form.CONFIDENCE:
            return {"enum": [each.value for each in Confidence]}
        case Form.SEVERITY:
            return {"enum": [each.value for each in Severity]}
        case Form.FILE:
            return {"type": "string", "pattern": _NOT_BLANK}
        case Form.FLAG:
            return {"type": "boolean"}
        case Form.COMMAND:
            return {"type": "string", "pattern": _WORDS}


def _selectors() -> list[str]:
    """All that a selector may be: `ALL`, names, codes and their beginnings."""
    codes = {*(rule.code for rule in registry.all_rules()), registry.UNUSED_SUPPRESSION}
    names = {*(rule.name for rule in registry.all_rules()), registry.UNUSED_SUPPRESSION_NAME}
    beginnings = {code[:end] for code in codes for end in range(1, len(code) + 1)}
    return ["ALL", *sorted(beginnings), *sorted(names)]


def _selector_of_others() -> dict[str, Any]:
    """What a selector of a plugin's rules looks like: who reads the schema does not know which are installed."""
    return {"type": "string", "pattern": _OF_OTHERS, "not": {"pattern": "^TPL"}}


# -- the page ---------------------------------------------------------------------------------------------------------


def table() -> str:
    """The keys as a table in Markdown, then each key with an example and the option that wins over it."""
    return "\n".join([*_rows(), "", *(line for key in KEYS.values() for line in _section(key))]).rstrip() + "\n"


def _rows() -> Iterator[str]:
    yield "| key | holds | if absent |"
    yield "| --- | --- | --- |"
    for key in KEYS.values():
        yield f"| [`{key.name}`](#{key.name}) | {key.form.value} | {key.absent} |"


def _section(key: Key) -> Iterator[str]:
    yield f"### `{key.name}`"
    yield ""
    option = f" On the command line: `{key.option}`." if key.option else ""
    yield from textwrap.wrap(f"{key.says[:1].upper()}{key.says[1:]}.{option}", _WIDTH, break_on_hyphens=False)
    yield ""
    yield "```toml"
    yield f"{key.name} = {key.example}"
    yield "```"
    yield ""
