"""Syntax newer than the running Python: which feature the code uses that this version's parser rejects."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Any

from torchperf_lint.syntax.logical_line import end_of_logical_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MOST_CHARACTERS = 1000
"""Longer code is not parsed: libcst's stack and time grow with the nesting that it may have."""

MOST_LINES = 50
"""The logical line may begin up to this many physical lines before the one at fault, which counts."""

MOST_TRIED = 4
"""Candidate beginnings of the logical line that are tried, the nearest first."""

_BEFORE = {
    "except": "try: pass\n",
    "finally": "try: pass\n",
    "elif": "if 0: pass\n",
    "else": "if 0: pass\n",
    "case": "match 0:\n ",
}
"""What has to precede a line that begins with such a word, unless the word is a name."""

_BODIES = ("", "\n  pass", "\n case 0: pass")
"""What may have to follow a line."""


def newer_syntax(before: Sequence[str], rest: str) -> str | None:
    """The feature that the logical line at fault uses, if a newer Python accepts it; the line is parsed by itself.

    `rest` begins with the physical line at which this Python stops, and `before` are the physical lines before it.
    """
    code, lead, tried = rest, 0, 0
    for line in ("", *reversed(before)):
        code, lead = line + code, lead + len(line)
        if lead > MOST_CHARACTERS or tried == MOST_TRIED:
            break
        end = end_of_logical_line(code, MOST_CHARACTERS)
        if end is not None and end > lead:
            found = _needed(code[:end].lstrip())
            if found is not None:
                return found
            tried += 1
    return None


def _needed(code: str) -> str | None:
    """The feature that a logical line uses, if this Python rejects the line and a newer one accepts it."""
    import libcst

    before = ["", *(each for word, each in _BEFORE.items() if code.startswith(word))]
    for start, body in itertools.product(before, _BODIES):
        try:
            module = libcst.parse_module(f"{start}{code}{body}\n")
        except (libcst.ParserSyntaxError, RecursionError):
            continue
        break
    else:
        return None
    pending: list[libcst.CSTNode] = [module]
    found: list[tuple[tuple[int, int], str]] = []
    for node in pending:
        found += _features(node, module)
        pending += node.children
    version, construct = max(found, default=((0, 0), ""))
    if version <= sys.version_info[:2]:
        return None
    here, needed = (".".join(map(str, each[:2])) for each in (sys.version_info, version))
    return f"needs Python {needed} or newer (this is {here}): {construct}"


def _features(node: Any, module: Any) -> Iterator[tuple[tuple[int, int], str]]:
    kind = type(node).__name__
    if kind in ("TryStar", "ExceptStarHandler"):
        yield (3, 11), "`except*`"
    elif kind == "TypeAlias":
        yield (3, 12), "`type` statement"
    elif kind == "TypeParameters":
        yield (3, 12), "type parameters"
    elif kind == "TypeParam" and node.default is not None:
        yield (3, 13), "default of a type parameter"
    elif kind == "FormattedString" and any(_is_free(node, code) for code in _expressions(node, module)):
        yield (3, 12), "quotes, backslashes, comments or lines within an f-string's braces"
    elif kind == "TemplatedString":
        yield (3, 14), "t-string"
    elif kind in ("LazyImport", "LazyImportFrom"):
        yield (3, 15), "lazy import"
    if kind in ("ExceptHandler", "ExceptStarHandler") and type(node.type).__name__ == "Tuple" and not node.type.lpar:
        yield (3, 14), "`except` of several types without parentheses"
    starred = (kind == "Index" and node.star) or (
        kind == "Annotation" and type(node.annotation).__name__ == "StarredElement"
    )
    if starred:
        yield (3, 11), "`*` in a subscript or an annotation"


def _expressions(string: Any, module: Any) -> Iterator[str]:
    """The code between the braces of an f-string, including the braces of its format specifications."""
    pending = list(string.parts)
    while pending:
        part = pending.pop()
        if type(part).__name__ == "FormattedStringExpression":
            yield "".join(
                module.code_for_node(each)
                for each in (part.whitespace_before_expression, part.expression, part.whitespace_after_expression)
            )
            pending += part.format_spec or ()


def _is_free(string: Any, code: str) -> bool:
    """Whether an older Python rejects this code in the braces of this string."""
    quote = string.end
    return quote in code or "\\" in code or "#" in code or (len(quote) == 1 and "\n" in code)
