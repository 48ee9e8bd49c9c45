"""What is known of a file without its tree: what it imports and calls by name, found by a scan of its bytes.

Facts are plain data that can be kept and sent. They err on one side only: a text that looks like code counts as
code. So a file that they leave out cannot matter to a question, and one that they name is asked properly.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from torchperf_lint.knowledge.accelerators import ACCELERATOR_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator

_REST = rb"[^\n#;\\]*(?:\\\r?\n[^\n#;\\]*)*"
_FROM = re.compile(
    rb"(?:^|[;:])[ \t]*from[ \t]+([.\w][.\w \t]*?)[ \t]+import[ \t]*(\((?:[^)#]|#[^\n]*)*\)|" + _REST + rb")",
    re.MULTILINE,
)
_IMPORT = re.compile(rb"(?:^|[;:])[ \t]*import[ \t]+(" + _REST + rb")", re.MULTILINE)
_COMMENT = re.compile(rb"#[^\n]*")
_ALIAS = re.compile(rb"([\w.]+|\*)(?:\s+as\s+(\w+))?")
_CALLED = re.compile(rb"(?<!def )(?<!class )\b([A-Za-z_]\w*)[ \t]*\(")
_DEFINED = re.compile(rb"^([ \t]*)(?:async[ \t]+)?def[ \t]+(\w+)", re.MULTILINE)
_BACKWARD = re.compile(rb"\b(?:manual_)?backward[ \t]*\(")
_ACCELERATOR = re.compile(b"|".join(re.escape(word.encode()) for word in ACCELERATOR_WORDS))


class Facts(NamedTuple):
    """The facts of one file.

    `imports` are names as they are written (`a.b` of `from a import b`, `..c.*` of `from ..c import *`);
    `called` are the names that stand before a parenthesis, `renamed` the pairs of old and new name of `as`;
    `steps` are functions that send something backward, by themselves or through another one of the file.
    """

    digest: str
    imports: tuple[str, ...] = ()
    called: frozenset[str] = frozenset()
    steps: frozenset[str] = frozenset()
    renamed: tuple[tuple[str, str], ...] = ()
    accelerated: bool = False  # it speaks of an accelerator, or of a framework that would use one

    def plain(self) -> list[Any]:
        """As JSON can hold it."""
        renamed = [list(pair) for pair in self.renamed]
        return [self.digest, list(self.imports), sorted(self.called), sorted(self.steps), renamed, self.accelerated]

    @classmethod
    def from_plain(cls, plain: Any) -> Facts:
        """The facts that `plain()` gave; raise ValueError for anything else."""
        match plain:
            case [str() as digest, [*imports], [*called], [*steps], [*renamed], bool() as accelerated]:
                pairs = tuple((old, new) for old, new in renamed)
                names = (*imports, *called, *steps, *(name for pair in pairs for name in pair))
                if all(isinstance(each, str) for each in names):
                    return cls(digest, tuple(imports), frozenset(called), frozenset(steps), pairs, accelerated)
        raise ValueError("these are no facts")


def facts_of(data: bytes) -> Facts:
    """The facts of a file with these bytes, whatever they hold."""
    imports: dict[str, None] = {}
    renamed: dict[tuple[str, str], None] = {}
    for name, new_name in _imported(data):
        imports[name] = None
        if new_name is not None:
            renamed[name.rpartition(".")[2], new_name] = None
    called = {name.decode() for name in set(_CALLED.findall(data)) if name.isascii()}
    return Facts(
        digest_of(data),
        tuple(imports),
        frozenset(called),
        frozenset(_steps(data)) if b"backward" in data else frozenset(),
        tuple(renamed),
        _ACCELERATOR.search(data) is not None,
    )


def digest_of(data: bytes) -> str:
    """The name of a content: equal for equal bytes, and for no others in practice."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _imported(data: bytes) -> Iterator[tuple[str, str | None]]:
    """Every imported name with the name that it is given by `as`."""
    for match in _FROM.finditer(data):
        module = match.group(1).replace(b" ", b"").replace(b"\t", b"").decode(errors="replace")
        listed = _COMMENT.sub(b"", match.group(2)).strip(b"()\\ \t\r\n")
        for part in listed.split(b","):
            alias = _ALIAS.match(part.strip(b" \t\r\n\\"))
            if alias is not None:
                name = alias.group(1).decode(errors="replace")
                joint = "" if module.endswith(".") else "."
                yield f"{module}{joint}{name}", None if alias.group(2) is None else alias.group(2).decode()
    for match in _IMPORT.finditer(data):
        for part in match.group(1).split(b","):
            alias = _ALIAS.match(part.strip(b" \t\r\n\\"))
            if alias is not None:
                yield alias.group(1).decode(errors="replace"), None


def _steps(data: bytes) -> set[str]:
    """Names of the functions with `backward(` in them, and of those that call one of these, twice over."""
    blocks: list[tuple[bytes, int, int]] = []
    heads = list(_DEFINED.finditer(data))
    for number, head in enumerate(heads):
        indent = len(head.group(1))
        inner = (other.start() for other in heads[number + 1 :] if len(other.group(1)) <= indent)
        blocks.append((head.group(2), head.end(), next(inner, len(data))))
    found = {name for name, start, end in blocks if _BACKWARD.search(data, start, end)}
    for _ in range(2):
        if not found or len(found) > _MOST_STEPS:
            break
        calls = re.compile(rb"\b(?:" + b"|".join(sorted(found)) + rb")[ \t]*\(")
        found |= {name for name, start, end in blocks if calls.search(data, start, end)}
    return {name.decode(errors="replace") for name in found}


_MOST_STEPS = 100
