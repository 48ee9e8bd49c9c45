"""The end of a logical line of Python, from its brackets and strings; f-strings follow the grammar of Python 3.12.

The tokenizer of an older Python is no help: it ends such an f-string at the first quote within its braces.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MOST_NESTED = 10
"""The depth of nested brackets and f-strings up to which an end is found."""

_CODE = re.compile(
    r"""
    (?P<end> \r\n? | \n )
    | (?: [fFtT][rR]? | [rR][fFtT] ) (?P<quote> '''|\"""|'|" )
    | '''(?: [^\\] | \\. )*?''' | \"""(?: [^\\] | \\. )*?\"""
    | '(?!'') (?: [^\\'\r\n] | \\. )*' | "(?!"") (?: [^\\"\r\n] | \\. )*"
    | (?P<unclosed> ['"] )
    | (?P<opening> [(\[{] ) | (?P<closing> [)\]}] )
    | \w+ | \#[^\r\n]* | \\\r\n | \\. | .
    """,
    re.DOTALL | re.VERBOSE,
)
_TEXT = re.compile(r"\\N\{\w[^{}]*\} | \\[^{}] | \{\{ | \}\} | .", re.DOTALL | re.VERBOSE)
_CLOSING = {"(": ")", "[": "]", "{": "}"}


class _Open(NamedTuple):
    """An open construct: a bracket, the braces of an f-string, its text or a format specification."""

    closing: str
    is_text: bool = False
    is_field: bool = False


def end_of_logical_line(text: str, most: int) -> int | None:
    """The end of the first logical line of a text, without its line end.

    None if its brackets do not match, a string is not closed, it has more than `most` characters, or it nests deeper
    than MOST_NESTED.
    """
    within = [_Open("")]
    at = 0
    while at < len(text):
        inner = within[-1]
        if inner.is_text:
            if text.startswith(inner.closing, at):
                within.pop()
                at += len(inner.closing)
                continue
            token = _TEXT.match(text, at)
            if token is None or token.group() == "}" or (token.group() in "\r\n" and len(inner.closing) == 1):
                return None
            if token.group() == "{":
                within.append(_Open("}", is_field=True))
        else:
            token = _CODE.match(text, at)
            if token is None or token["unclosed"]:
                return None
            if token["end"] and len(within) == 1:
                break
            if token["quote"]:
                within.append(_Open(token["quote"], is_text=True))
            elif token["opening"]:
                within.append(_Open(_CLOSING[token["opening"]]))
            elif token["closing"]:
                if within.pop().closing != token["closing"]:
                    return None
            elif token.group() == ":" and inner.is_field:
                within[-1] = _Open("}", is_text=True)
        at = token.end()
        if at > most or len(within) > MOST_NESTED + 1:
            return None
    return at if len(within) == 1 and at <= most else None
