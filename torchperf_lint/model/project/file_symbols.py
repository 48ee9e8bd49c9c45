"""A file's symbols without its tree: what it imports and calls by name, found by a regex scan of its bytes.

File symbols are plain data that can be stored and sent. They over-approximate: text that looks like code counts as
code (except for topics). So a file that they exclude cannot matter to a query; a file that they include is then parsed.
"""

from __future__ import annotations

import functools
import re
import sys
from bisect import bisect_left
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_lint.knowledge.accelerators import ACCELERATOR_WORDS
from torchperf_lint.knowledge.topics import IMPORTS, TOPICS
from torchperf_lint.model import bounds
from torchperf_lint.syntax.identity import digest_of
from torchperf_lint.syntax.prose import without_prose

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# A possessive quantifier from Python 3.11 on: few names are followed by what is sought, and backtracking over the
# others would take most of the time.
_NAME = rb"[A-Za-z_]\w*" + (rb"+" if sys.version_info >= (3, 11) else rb"(?!\w)")
_REST = rb"[^\n#;\\]*(?:\\\r?\n[^\n#;\\]*)*"
_BLANK = rb"(?:[ \t\f]|\\\r?\n)"
_BEFORE = rb"(?:^|[^\n]*?[;:])[ \t]*"
_FROM = re.compile(
    _BEFORE
    + (rb"(from)" + _BLANK + rb"+([.\w](?:[.\w]|" + _BLANK + rb")*?)(?<=[ \t\f\n])import\b[ \t]*")
    + (rb"(\((?:[^()#]|#[^\n]{0,9999}\n)*\)|" + _REST + rb")"),
    re.MULTILINE,
)
_IMPORT = re.compile(_BEFORE + rb"(import)(?=[ \t\\])(" + _REST + rb")", re.MULTILINE)
_COMMENT = re.compile(rb"#[^\n]*")
_BLANKS = re.compile(rb"[\s\\]+")
_ALIAS = re.compile(rb"([\w.]+|\*)(?:\s+as\s+(\w+))?")
_CALLED = re.compile(rb"\b(?:(?:def|class) \w+|(" + _NAME + rb")" + _BLANK + rb"*(?:\)" + _BLANK + rb"*)*\()")
_DEFINED = re.compile(rb"^([ \t]*)(?:async[ \t]+)?def[ \t]+(\w+)", re.MULTILINE)
_BLOCK_AT_TOP = re.compile(rb"^(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)[ \t]*[(\[:\\]", re.MULTILINE)
_LINE_AT_TOP = re.compile(rb"^[^\s#)\]},]", re.MULTILINE)
_BOUND = re.compile(
    rb"\b(?:def|class)[ \t]+(\w+)|\b(" + _NAME + rb")[\s\\]*(?:[-+*/%@&|^<>]{0,2}=(?!=)|[:,)\]\[]|in\b)"
)
_HANDED = re.compile(rb"[(,=]\s*(" + _NAME + rb")\s*(?=[,)#])")
_BEFORE_VALUE = rb"(?:[(,=\[{]|['\"][ \t]*:|\b(?:or|return|else))[ \t]*"
_AFTER_VALUE = rb"(?=[ \t]*(?:[,)\]}#\r\n]|(?:if|or)\b))"
_NAMED = re.compile(_BEFORE_VALUE + rb"(?:\w+\.)*(" + _NAME + rb")" + _AFTER_VALUE)
_TEXT = re.compile(rb"[(,=]\s*(['\"])([A-Za-z][A-Za-z0-9]*_\w*)\1\s*(?=[,)\]}\r\n#])")
_LOOKUP = re.compile(
    rb"getattr\(\s*[\w.]+(?:\[[^\]\n]{0,99}\]|\(\))?\s*,\s*"
    rb"(?:(f?)(['\"])([^'\"\n]*)\2\s*([+%]?)|[\w.]+(?:\s*\+\s*['\"]([^'\"\n]*)['\"])?)"
)
_FUNCTION = re.compile(rb"def(?<!\wdef)[\s\\]+(\w+)")
_OPENS, _ENDS = re.compile(rb"[\s\\]*\("), re.compile(rb"[\s\\]*(?::|->)")
_IN_HEAD = re.compile(
    rb"[()]|\bdef[\s\\]|#[^\n]*|'{3}(?:[^'\\]|\\.|'(?!''))*'{3}|\"{3}(?:[^\"\\]|\\.|\"(?!\"\"))*\"{3}"
    rb"|'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|['\"]",
    re.DOTALL,
)
_BREAKS_OFF = (b"'", b'"')  # a quote that is never closed
_PARAMETER = re.compile(rb"(?:^|[,*])[\s\\]*(\w+)[\s\\]*(?=[:=,]|$)")
_BACKWARD = re.compile(rb"backward(?:(?<!\wbackward)|(?<=\bmanual_backward))[ \t]*\(")  # a literal prefix is fast
_ACCELERATOR = re.compile(b"|".join(re.escape(word.encode()) for word in ACCELERATOR_WORDS))


class FileSymbols(NamedTuple):
    """The symbols of one file.

    `imports` are names as written (`a.b` of `from a import b`, `..c.*` of `from ..c import *`); `called` are the names
    before a parenthesis, `renamed` the (old, new) pairs of `as`; `steps` are functions that call backward, directly or
    through another function of the file; `bound` are the names that the top level may bind other than by an import,
    `handed` the imported names that may be passed as arguments; `callers` are functions that may call one of their
    parameters; `links` are the imported names, each with its target at the top level, or an empty text if that is not
    certain; `topics` are the topics of `knowledge/topics.py` that the file mentions; `defined` are the functions and
    methods that it defines anywhere, `named` the names of values that it assigns, passes, returns or puts into a
    container; `texts` are the names of several words that it writes as strings, `lookups` the names that it looks up by
    `getattr`, with `*` for what is composed at run time.
    """

    digest: str
    imports: tuple[str, ...] = ()
    called: frozenset[str] = frozenset()
    steps: frozenset[str] = frozenset()
    bound: frozenset[str] = frozenset()
    handed: frozenset[str] = frozenset()
    callers: frozenset[str] = frozenset()
    renamed: tuple[tuple[str, str], ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    accelerated: bool = False  # it mentions an accelerator, or a framework that would use one
    topics: frozenset[str] = frozenset()
    defined: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    lookups: frozenset[str] = frozenset()

    def plain(self) -> list[Any]:
        """The symbols as JSON data."""
        pairs = [[list(pair) for pair in each] for each in (self.renamed, self.links)]
        names = [sorted(each) for each in (self.called, self.steps, self.bound, self.handed, self.callers)]
        last = map(sorted, (self.topics, self.defined, self.named, self.texts, self.lookups))
        return [self.digest, list(self.imports), *names, *pairs, self.accelerated, *last]

    @classmethod
    def from_plain(cls, plain: Any) -> FileSymbols:
        """The inverse of `plain()`; raise ValueError for anything else."""
        match plain:
            case [
                str() as digest,
                [*imports],
                [*called],
                [*steps],
                [*bound],
                [*handed],
                [*callers],
                [*old_and_new],
                [*linked],
                bool() as accelerated,
                [*topics],
                [*defined],
                [*named],
                [*texts],
                [*lookups],
            ]:
                renamed = tuple((old, new) for old, new in old_and_new)
                links = tuple((name, ref) for name, ref in linked)
                in_pairs = (name for pair in (*renamed, *links) for name in pair)
                listed = (called, steps, bound, handed, callers, topics, defined, named, texts, lookups)
                if all(isinstance(each, str) for names in (imports, *listed, in_pairs) for each in names):
                    calls, makes, binds, hands, gives, speaks, *last = map(frozenset, listed)
                    names = (calls, makes, binds, hands, gives)
                    return cls(digest, tuple(imports), *names, renamed, links, accelerated, speaks, *last)
        raise ValueError("these are no facts")


def symbols_of(data: bytes) -> FileSymbols:
    """The symbols of a file with these bytes; any bytes are accepted."""
    imports: dict[str, None] = {}
    renamed: dict[tuple[str, str], None] = {}
    links: dict[str, str] = {}
    found = _imports_in(data)
    bound = _bound(_without(data, found))
    named = {name.decode() for name in set(_NAMED.findall(data)) if name.isascii()}
    given = named | {name.decode() for name in set(_HANDED.findall(data)) if name.isascii()}
    for name, new_name, at_top in _imported_from(found):
        imports[name] = None
        _link(links, new_name or name.rpartition(".")[2], name if at_top else "", bound)
        if new_name is not None:
            renamed[name.rpartition(".")[2], new_name] = None
    for name, new_name, at_top in _imported(found):
        imports[name] = None
        root = name.partition(".")[0]
        _link(links, new_name or root, (name if new_name else root) if at_top else "", bound)
    called = {name.decode() for name in set(_CALLED.findall(data)) if name and name.isascii()}
    heads = list(_FUNCTION.finditer(data))
    return FileSymbols(
        digest_of(data),
        tuple(imports),
        frozenset(called),
        frozenset(_steps(data)),
        frozenset(bound),
        frozenset(given & {name.rpartition(".")[2] for name in imports}),
        frozenset(_callers(data, heads, called)),
        tuple(renamed),
        tuple(links.items()),
        _occurs((_ACCELERATOR,), data),
        topics_of(data, imports),
        frozenset(head.group(1).decode(errors="replace") for head in heads),
        frozenset(named),
        frozenset(text.decode() for text in {match[1] for match in _TEXT.findall(data)} if text.isascii()),
        frozenset(_lookups(data)),
    )


def _lookups(data: bytes) -> Iterator[str]:
    """The names that `getattr` looks up, with `*` for what is composed at run time: `on_*`."""
    for match in _LOOKUP.finditer(data):
        is_filled, quote, text, operator, end = match.groups()
        if not quote:
            pattern = b"*" + (end or b"")
        elif operator == b"+":
            pattern = text + b"*"
        else:
            start, end = (b"{", b"}") if is_filled else (b"%s", b"%s")
            is_composed = bool(is_filled or operator) and start in text
            pattern = text.partition(start)[0] + b"*" + text.rpartition(end)[2] if is_composed else text
        if pattern.isascii():
            yield pattern.decode()


def topics_of(data: bytes, imports: Iterable[str]) -> frozenset[str]:
    """The topics that a file with these bytes and imports mentions."""
    named = {topic for topic, starts in IMPORTS.items() if any(name.startswith(starts) for name in imports)}
    return frozenset(named | {topic for topic, texts in TOPICS.items() if _occurs(texts, data)})


def _occurs(texts: Iterable[re.Pattern[bytes]], data: bytes) -> bool:
    """Whether one of the patterns occurs in the code; comments and strings do not count."""
    found = [text for text in texts if text.search(data)]
    return bool(found) and any(text.search(_code(data)) for text in found)


@functools.lru_cache(maxsize=1)
def _code(data: bytes) -> bytes:
    """The code without prose, and without a function that our fixes write: it asks about graphs for its callers."""
    return _WRITTEN.sub(b"", without_prose(data))


_WRITTEN = re.compile(rb"^def _sent\(tensor, device: [^\n]*\n(?:(?:[ \t][^\n]*)?(?:\n|\Z))+", re.MULTILINE)


def _link(links: dict[str, str], name: str, ref: str, bound: set[str]) -> None:
    """Record the target of an imported name; it is uncertain if the name is imported twice or also bound otherwise."""
    if name != "*":
        links[name] = "" if name in bound or links.get(name, ref) != ref else ref


def _imports_in(data: bytes) -> list[re.Match[bytes]]:
    """The import statements. Only lines that contain `import` are matched in full."""
    found: list[re.Match[bytes]] = []
    place = searched = 0  # no statement with `from` begins between the two
    while (word := data.find(b"import", place)) >= 0:
        line = first = max(data.rfind(b"\n", place, word) + 1, place)
        while data.endswith((b"\\\n", b"\\\r\n"), place, first):
            first = max(data.rfind(b"\n", place, first - 1) + 1, place)
        match = None
        if line >= searched:
            match = _FROM.match(data, first) or _FROM.match(data, line)
            searched = line if match is not None else _line_end(data, word)
        match = match or _IMPORT.match(data, line)
        if match is not None:
            found.append(match)
        place = max(match.end(), word + 1) if match is not None else _line_end(data, word)
    return found


def _line_end(data: bytes, place: int) -> int:
    end = data.find(b"\n", place)
    return len(data) if end < 0 else end


def _without(data: bytes, statements: list[re.Match[bytes]]) -> bytes:
    ends = [0, *(match.end() for match in statements)]
    starts = [*(match.start(1) for match in statements), len(data)]
    return b"".join(data[end:start] for end, start in zip(ends, starts, strict=True))


def _imported_from(statements: list[re.Match[bytes]]) -> Iterator[tuple[str, str | None, bool]]:
    """The names that `from ... import` brings, each with its `as` name, and whether it is surely at the top level."""
    for match in statements:
        if match.re is not _FROM:
            continue
        module = _BLANKS.sub(b"", match.group(2)).decode(errors="replace")
        listed = _COMMENT.sub(b"", match.group(3)).strip(b"()\\ \t\r\n")
        for part in listed.split(b","):
            alias = _ALIAS.match(part.strip(b" \t\r\n\\"))
            if alias is not None:
                name = alias.group(1).decode(errors="replace")
                joint = "" if module.endswith(".") else "."
                yield f"{module}{joint}{name}", _new_name(alias), match.group().startswith(b"from")


def _imported(statements: list[re.Match[bytes]]) -> Iterator[tuple[str, str | None, bool]]:
    """The same for `import ...`."""
    for match in statements:
        for part in match.group(2).split(b",") if match.re is _IMPORT else ():
            alias = _ALIAS.match(part.strip(b" \t\r\n\\"))
            if alias is not None:
                yield alias.group(1).decode(errors="replace"), _new_name(alias), match.group().startswith(b"import")


def _new_name(alias: re.Match[bytes]) -> str | None:
    return None if alias.group(2) is None else alias.group(2).decode(errors="replace")


def _bound(data: bytes) -> set[str]:
    """Names bound at the top level other than by imports: its functions and classes, and names outside of these."""
    found: set[bytes] = set()
    place = 0
    while place < len(data):
        block = _BLOCK_AT_TOP.search(data, place)
        between = data[place : len(data) if block is None else block.start()]
        found.update(name for pair in _BOUND.findall(between) for name in pair)
        if block is None:
            break
        found.add(block.group(1))
        following = _LINE_AT_TOP.search(data, block.end())
        place = len(data) if following is None else following.start()
    return {name.decode() for name in found if name and name.isascii()}


def _callers(data: bytes, heads: list[re.Match[bytes]], called: set[str]) -> set[str]:
    """Names of the functions with a parameter whose name is called in the file.

    Functions whose parameters cannot be read by this scan are included.
    """
    found = set()
    for head in heads:
        parameters = _parameters(data, head.end())
        if parameters is not None and parameters.isascii():
            names = _PARAMETER.findall(parameters)
            if not any(name.decode() in called for name in names):
                continue
        found.add(head.group(1).decode(errors="replace"))
    return found


def _parameters(data: bytes, place: int) -> bytes | None:
    """The text between the parentheses that open here, without strings and comments; None if the scan cannot tell."""
    opening = _OPENS.match(data, place)
    if opening is None:
        return None
    kept, start, depth = [], opening.end(), 1
    for mark in islice(_IN_HEAD.finditer(data, start, start + bounds.MOST_HEAD_BYTES), bounds.MOST_MARKS):
        text = mark.group()
        if text == b"(":
            depth += 1
        elif text != b")":
            if text in _BREAKS_OFF or text.startswith(b"def"):
                return None
            kept.append(data[start : mark.start()])
            start = mark.end()
        elif depth > 1:
            depth -= 1
        else:
            kept.append(data[start : mark.start()])
            return b"".join(kept) if _ENDS.match(data, mark.end()) else None
    return None


def _steps(data: bytes) -> set[str]:
    """Names of the functions that contain `backward(`, and of those that call one of these, over two levels."""
    if _BACKWARD.search(data) is None:
        return set()
    blocks: list[tuple[bytes, int, int]] = []
    around: list[re.Match[bytes]] = []
    for head in _DEFINED.finditer(data):
        while around and len(around[-1].group(1)) >= len(head.group(1)):
            ended = around.pop()
            blocks.append((ended.group(2), ended.end(), head.start()))
        around.append(head)
    blocks += ((head.group(2), head.end(), len(data)) for head in around)
    found = _holding(blocks, _BACKWARD, data)
    for _ in range(2):
        if not found or len(found) > bounds.MOST_STEP_NAMES:
            break
        calls = re.compile(rb"\b(?:" + b"|".join(sorted(found)) + rb")[ \t]*\(")
        found |= _holding(blocks, calls, data)
    return {name.decode(errors="replace") for name in found}


def _holding(blocks: list[tuple[bytes, int, int]], pattern: re.Pattern[bytes], data: bytes) -> set[bytes]:
    """The names of the blocks (name, start, end) in which a match begins."""
    matches = [match.start() for match in pattern.finditer(data)]
    return {name for name, start, end in blocks if bisect_left(matches, start) < bisect_left(matches, end)}
