"""Samples in documents that no other test runs: they can be read in their language."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
import yaml
from pygments.lexers import get_lexer_by_name
from pygments.token import Error, Punctuation

from documents import DOCUMENTS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OF_OTHER_TESTS = {"console", "diff", "python", "text", "markdown"}
SAMPLES = [
    pytest.param(language, text, id=f"{path.stem}-{language}-{number}")
    for path in DOCUMENTS
    for number, (language, text) in enumerate(
        re.findall(r"(?ms)^ *```([\w-]+)[^\n]*\n(.*?)^ *```", Path(path).read_text(encoding="utf-8")), 1
    )
    if language not in OF_OTHER_TESTS
]
CLOSING = {")": "(", "]": "[", "}": "{"}


def read(language: str, text: str) -> None:
    """Read a sample; raise ValueError where it is broken."""
    if language == "json":
        json.loads(text)
    elif language == "toml":
        tomllib.loads(text)
    elif language == "yaml":
        try:
            yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ValueError(str(error)) from None
    else:
        _read_tokens(language, text)


def _read_tokens(language: str, text: str) -> None:
    """The same where no parser is at hand: every token is one of the language, and brackets are closed."""
    opened = []
    for kind, token in get_lexer_by_name(language).get_tokens(text):
        if kind is Error:
            raise ValueError(f"{token} is no token")
        for each in token if kind in Punctuation else "":
            if each in CLOSING.values():
                opened.append(each)
            elif each in CLOSING and (not opened or opened.pop() != CLOSING[each]):
                raise ValueError(f"{each} closes nothing")
    if opened:
        raise ValueError(f"{opened[-1]} is not closed")


@pytest.mark.parametrize(("language", "text"), SAMPLES)
def test_a_sample_can_be_read(language: str, text: str) -> None:
    read(language, text)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("json", "{"),
        ("toml", "a ="),
        ("yaml", "a: [1"),
        ("lua", "f({ 1 )}"),
        ("lua", "f(1"),
        ("elisp", "(f (g 'a)"),
        ("elisp", '(f ")'),
        ("lua", "f(1))"),
    ],
)
def test_a_broken_sample_is_refused(language: str, text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read(language, text)


def test_every_language_of_editors_is_there() -> None:
    assert {each.values[0] for each in SAMPLES} >= {"json", "toml", "yaml", "lua", "elisp"}
