"""SARIF 2.1.0 by its JSON schema: what a log breaks of it."""

from __future__ import annotations

import json

from jsonschema import Draft202012Validator

from linting import ROOT

SCHEMA = ROOT / "tests" / "data" / "sarif" / "sarif-2.1.0.json"
DIGEST = "1c49a0f2b60444c71bb14878e21e0d882198eff4c539861b133093ad89ed798c"
"""The SHA-256 of the file as its package ships it."""

_VALIDATOR = Draft202012Validator(
    json.loads(SCHEMA.read_text(encoding="utf-8")), format_checker=Draft202012Validator.FORMAT_CHECKER
)


def problems(log: object) -> list[str]:
    """What a log breaks, with the places in it."""
    return [f"{each.json_path}: {each.message[:200]}" for each in _VALIDATOR.iter_errors(log)]
