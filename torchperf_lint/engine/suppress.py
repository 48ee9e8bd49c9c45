"""Suppressions: `# noqa` and our own comments, excluded files, and the report of unused ones."""

from __future__ import annotations

import bisect
import enum
import functools
import itertools
import re
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.engine import registry
from torchperf_lint.engine.findings import Diagnostic, Edit, Fix, Safety, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torchperf_lint.engine.declare import Rule
    from torchperf_lint.syntax.source import Source

# Codes are read as flake8 reads them: words after `noqa:` that are not codes silence everything.
# Patterns are compiled on first use: most files have no such comment.
_NOQA = r"(?i)#\s*noqa(?![\w-])(?:\s*:\s*(?P<items>[A-Z]+[0-9]+(?![\w-])(?:[\s,]+[A-Z]+[0-9]+(?![\w-]))*))?"
# A reason may follow, also after a colon; codes need brackets.
_RULES = r"(?:\s*\[(?P<items>[^\]]*)\](?![\w\[-])|(?![^\s:])(?!\s*\[)(?!\s*:?\s*TPL\d))"
_IGNORE_FILE = rf"(?i)#\s*torchperf-lint\s*:\s*ignore-file{_RULES}"
_IGNORE = rf"(?i)(?<!\S)#\s*torchperf-lint\s*:\s*ignore{_RULES}"
_ADDRESSED = r"(?i)(?<!\S)#\s*torchperf[-_]lint\s*:\s*(?P<said>[^\s#]*)"
_OURS = re.compile(rb"noqa\s*:[^\r\n]*\btpl\d|torchperf[-_]lint\s*:")


class _Kind(enum.Enum):
    """The syntax and scope of a suppression; `noqa` is shared with other tools."""

    NOQA = enum.auto()
    STATEMENT = enum.auto()
    FILE = enum.auto()
    NONE = enum.auto()  # addressed to us, without meaning


class _Item(NamedTuple):
    """One code (for whole files, any selector) of a comment, normalized, and the place of its bytes."""

    selector: str
    start: int
    end: int


class _Directive(NamedTuple):
    """One suppression in a comment; places are byte offsets in `Source.utf8`."""

    row: int
    kind: _Kind
    comment: tuple[int, int]
    start: int
    end: int
    items: tuple[_Item, ...] | None  # None: all codes


def mentions_ours(data: bytes) -> bool:
    """Whether the bytes may contain a suppression addressed to us, which may be unused."""
    lowered = data.lower()
    return (b"noqa" in lowered or b"torchperf" in lowered) and _OURS.search(lowered) is not None


class Comments(enum.Enum):
    """Which comments silence findings; OURS are all but those that are left to flake8."""

    ALL = "all"
    OURS = "ours"
    NONE = "none"


class Suppressions:
    """The suppressions of one file; its comments are read at the first query that needs them."""

    def __init__(self, source: Source, comments: Comments = Comments.ALL) -> None:
        self._source = source
        self._noqa = comments is Comments.ALL
        self._lowered = source.utf8.lower() if comments is not Comments.NONE else b""

    @property
    def cover_the_file(self) -> bool:
        """Whether a comment excludes the whole file."""
        return b"ignore-file" in self._lowered and any(
            each.kind is _Kind.FILE and each.items is None for each in self._directives
        )

    def sift(self, found: Sequence[Diagnostic], enabled: Sequence[Rule], *, report_unused: bool) -> list[Diagnostic]:
        """The diagnostics that no comment silences and, with `report_unused`, a TPL001 per unused comment.

        Unused are codes that silenced nothing and whose rules are all `enabled` (they ran on this file), codes
        of ours that no rule has, and comments addressed to us without meaning.
        """
        if not self._matter_to(found, report_unused):
            return list(found)
        lines = [each for each in self._directives if each.kind in (_Kind.NOQA, _Kind.STATEMENT)]
        whole = [each for each in self._directives if each.kind is _Kind.FILE]
        rows = [each.row for each in lines]
        used: set[int] = set()
        kept = []
        for diagnostic in found:
            first, last = diagnostic.noqa_rows
            near = lines[bisect.bisect_left(rows, first) : bisect.bisect_right(rows, last)]
            silenced = False
            for directive in (*whole, *near):
                if directive.items is None:
                    used.add(directive.start)
                    silenced = True
                for item in directive.items or ():
                    if registry.covers(item.selector, diagnostic.code, diagnostic.name):
                        used.add(item.start)
                        silenced = True
            if not silenced:
                kept.append(diagnostic)
        if report_unused and not any(map(_spares_unused, whole)):
            kept.extend(self._unused(used, enabled))
        return kept

    def silencing(self, diagnostic: Diagnostic) -> tuple[int, str] | None:
        """The row and text of the comment that silences the diagnostic; None if none does."""
        first, last = diagnostic.noqa_rows
        for each in self._directives:
            applies = each.kind is _Kind.FILE or (each.kind is not _Kind.NONE and first <= each.row <= last)
            names = each.items is None or any(
                registry.covers(item.selector, diagnostic.code, diagnostic.name) for item in each.items
            )
            if applies and names:
                return each.row, self._source.utf8[each.start : each.end].decode()
        return None

    def codes_at(self, row: int) -> tuple[int, bytes] | None:
        """Where a `# noqa` in this row takes another code, and the separator for it; None if it names no codes."""
        for each in self._directives:
            if each.kind is _Kind.NOQA and each.row == row and each.items:
                first, *others = each.items
                separator = self._source.utf8[first.end : others[0].start] if others else b", "
                return each.items[-1].end, separator
        return None

    def _matter_to(self, found: Sequence[Diagnostic], report_unused: bool) -> bool:
        """Whether the comments can affect the result: reading them costs more than parsing the file."""
        if b"ignore-file" in self._lowered or (report_unused and _OURS.search(self._lowered)):
            return True
        rows = [self._source.row(match.start()) for match in re.finditer(rb"noqa|torchperf-lint", self._lowered)]
        return any(
            bisect.bisect_left(rows, each.noqa_rows[0]) < bisect.bisect_right(rows, each.noqa_rows[1]) for each in found
        )

    @functools.cached_property
    def _directives(self) -> list[_Directive]:
        found = []
        for row, column, comment in _comments(self._source.text):
            start = self._source.line_starts[row - 1]
            before = self._source.line(row)[:column]
            start += len(before.encode())
            own_line = not before.strip()
            offsets = range(len(comment) + 1) if comment.isascii() else _byte_offsets(comment)
            known = [
                (_Kind.FILE, own_line and re.match(_IGNORE_FILE, comment)),
                (_Kind.STATEMENT, re.search(_IGNORE, comment)),
                (_Kind.NOQA, self._noqa and re.search(_NOQA, comment)),
            ]
            here = [_directive(row, start, offsets, match, kind) for kind, match in known if match]
            starts = {each.start for each in here if each.items != ()}
            for match in re.finditer(_ADDRESSED, comment):
                addressed = _directive(row, start, offsets, match, _Kind.NONE)
                if addressed.start not in starts:
                    here.append(addressed)
            found += here
        return found

    def _unused(self, used: set[int], enabled: Sequence[Rule]) -> Iterator[Diagnostic]:
        @functools.cache  # a comment may repeat a code
        def is_idle(selector: str, ours: bool) -> bool:
            return _is_idle(selector, enabled, ours)

        for directive in self._directives:
            if directive.kind is _Kind.NONE:
                yield self._report(directive, _mistake(self._source.utf8[directive.start : directive.end].decode()))
            elif directive.items is None:
                if directive.kind is _Kind.STATEMENT and directive.start not in used and _all_ran(enabled):
                    yield self._report(directive, "nothing is left to suppress here", self._removal(directive, ()))
            elif not _spares_unused(directive):
                ours = directive.kind is not _Kind.NOQA
                idle = [item for item in directive.items if item.start not in used and is_idle(item.selector, ours)]
                if idle:
                    yield self._report(directive, self._why_idle(idle), self._removal(directive, idle))

    def _why_idle(self, idle: Sequence[_Item]) -> str:
        """Why codes silence nothing, each of them as it is written."""
        reasons: dict[str, list[str]] = {}
        for item in idle:
            why = "nothing is left to suppress for" if _covered(item.selector) else "there is no rule"
            reasons.setdefault(why, []).append(f"`{self._source.utf8[item.start : item.end].decode()}`")
        return "; ".join(f"{why} {', '.join(names)}" for why, names in reasons.items())

    def _report(self, directive: _Directive, message: str, removal: Edit | None = None) -> Diagnostic:
        row, column = self._source.position(directive.start)
        end_row, end_column = self._source.position(directive.end)
        return Diagnostic(
            path=self._source.path,
            row=row,
            column=column,
            end_row=end_row,
            end_column=end_column,
            code=registry.UNUSED_SUPPRESSION,
            name=registry.UNUSED_SUPPRESSION_NAME,
            severity=Severity.WARNING.value,
            message=message,
            because=(),
            fix=None if removal is None else Fix("remove the unused suppression", Safety.SAFE, (removal,)),
            start=directive.start,
            end=directive.end,
            noqa_rows=(row, row),
        )

    def _removal(self, directive: _Directive, idle: Sequence[_Item]) -> Edit:
        """Remove the unused codes; the suppression if all are unused; the comment if nothing else is in it."""
        text, items = self._source.utf8, directive.items or ()
        gone = set(idle)
        left = [item for item in items if item not in gone]
        if left:
            separator = text[items[0].end : items[1].start]
            codes = separator.join(text[item.start : item.end] for item in left)
            return Edit(items[0].start, items[-1].end, codes)
        start, end = directive.start, directive.comment[1]
        rest = text[directive.end : end]
        if rest.strip():  # other words of the comment stay, after their own `#`
            kept = rest.lstrip()
            return Edit(start, end - len(kept), b"" if kept.startswith(b"#") else b"# ")
        line_start = self._source.line_starts[directive.row - 1]
        while start > line_start and text[start - 1 : start] in b" \t":
            start -= 1
        if start == line_start and directive.row < len(self._source.line_starts):
            end = self._source.line_starts[directive.row]
        return Edit(start, end, b"")


def _directive(row: int, start: int, offsets: Sequence[int], match: re.Match[str], kind: _Kind) -> _Directive:
    """`offsets` gives, for each character of the comment and for its end, the byte offset relative to `start`."""

    def place(index: int) -> int:
        return start + offsets[index]

    items = None
    if kind is not _Kind.NONE and match["items"] is not None:
        offset = match.start("items")
        pieces = re.finditer(r"[^\s,]+", match["items"])
        items = tuple(
            _Item(_normal(piece.group()), place(offset + piece.start()), place(offset + piece.end()))
            for piece in pieces
        )
    return _Directive(row, kind, (start, start + offsets[-1]), place(match.start()), place(match.end()), items)


def _byte_offsets(text: str) -> list[int]:
    return [0, *itertools.accumulate(len(each.encode()) for each in text)]


def _normal(selector: str) -> str:
    """Codes in upper case, names in lower case, as in the registry."""
    return selector.upper() if re.fullmatch(r"(?i)[A-Z]+\d*", selector) else selector.lower()


def _comments(text: str) -> Iterator[tuple[int, int, str]]:
    """Row (1-based), column (0-based, characters) and text of every comment."""
    import io
    import tokenize

    try:
        for token in tokenize.generate_tokens(io.StringIO(re.sub("\r\n?", "\n", text)).readline):
            if token.type == tokenize.COMMENT:
                yield *token.start, token.string
    except (tokenize.TokenError, SyntaxError):
        return  # the file does not parse; a comment before the error may still exclude it


def _mistake(words: str) -> str:
    """What is wrong with a comment addressed to us that suppresses nothing."""
    name, _, said = words.partition(":")
    if "_" in name:
        return "`torchperf_lint` suppresses nothing: did you mean `torchperf-lint`?"
    said = said.strip()
    word = re.split(r"[^\w-]", said, maxsplit=1)[0].lower()
    if word == "ignore-file" and said.lower() == word:
        why = "it needs a comment line of its own"
    elif word in ("ignore", "ignore-file"):
        why = "rules stand in brackets behind it, as in `ignore[TPL101]`"
    else:
        why = f"did you mean `{'ignore-file' if 'fil' in word else 'ignore'}`?"
    return f"`{said}` suppresses nothing: {why}"


def _all_ran(enabled: Sequence[Rule]) -> bool:
    """Whether all default rules ran: a suppression without codes means them."""
    return {each.code for each in registry.all_rules() if each.default} <= {each.code for each in enabled}


def _spares_unused(directive: _Directive) -> bool:
    names = (registry.UNUSED_SUPPRESSION, registry.UNUSED_SUPPRESSION_NAME)
    return any(registry.covers(item.selector, *names) for item in directive.items or ())


def _is_idle(selector: str, enabled: Sequence[Rule], ours: bool) -> bool:
    """Whether a selector that silenced nothing can be reported as unused.

    It can if all rules that it covers ran, or if it covers none but claims one of ours: `TPL9`, or any selector where
    it is `ours` alone. `TPL0` means reports of the tool itself, not of rules.
    """
    covered = _covered(selector)
    if covered:
        return covered <= {each.code for each in enabled}
    return ours or re.fullmatch(r"TPL[1-9]\d*", selector) is not None


def _covered(selector: str) -> set[str]:
    """The codes of the rules that a selector covers."""
    return {each.code for each in registry.all_rules() if registry.matches(selector, each)}
