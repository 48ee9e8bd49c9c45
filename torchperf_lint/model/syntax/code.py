"""The identifiers and option strings of a file's code: calls, names, paths of imported names.

They are read from the tree. Comments do not count, nor do docstrings and other strings with a blank in them. Names are
resolved by the file's imports alone, which is enough to show that a file does not use something.
"""

from __future__ import annotations

import ast
import functools
import re
from typing import TYPE_CHECKING, TypeVar

from torchperf_lint.model.syntax.index import last_name
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from torchperf_lint.model.syntax.index import CallRecord, FunctionInfo, Index

_BLANK = re.compile(r"\s")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)
TOLD = frozenset("names speaks_of states assigns takes_items calls calls_plainly calls_ending_in".split())
"""The questions of Code that are texts, as are their arguments."""
_Q = TypeVar("_Q", bound="Callable[..., bool]")


def _told(question: _Q) -> _Q:
    """The question, of which only the answer counts as read."""
    name = question.__name__

    @functools.wraps(question)
    def asked(self: Code, *texts: str) -> bool:
        reads = self.index.reads
        reads.asks("code", name, *texts)
        return reads.unheard(lambda: question(self, *texts))

    return asked  # type: ignore[return-value]


class Vocabulary:
    """The identifiers and strings in a piece of code.

    `names` are all identifiers, those of imports, parameters and keywords included; `paths` are dotted names of two
    parts and more, resolved by the imports (`torch.cuda.graph`, and so `cuda.graph`, for `graph` of
    `from torch.cuda import graph`); `attributes` are names behind a dot, `stored` the names and attributes that are
    assigned to, `subscripted` the last names of subscripted expressions; `strings` are strings without blanks.
    """

    def __init__(self, root: ast.AST) -> None:
        """`root` is the piece of code."""
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.stored: set[str] = set()
        self.subscripted: set[str] = set()
        self.strings: set[str] = set()
        self._imports: list[tuple[str, str, str]] = []
        self._chains: list[list[str]] = []
        inner: set[ast.AST] = set()  # parts of a longer chain, and the strings of docstrings
        for node in subtree(root):
            kind = node.__class__
            if kind is ast.Name:
                self.names.add(node.id)  # type: ignore[attr-defined]
                if node.ctx.__class__ is not ast.Load:  # type: ignore[attr-defined]
                    self.stored.add(node.id)  # type: ignore[attr-defined]
            elif kind is ast.Attribute:
                self.attributes.add(node.attr)  # type: ignore[attr-defined]
                inner.add(node.value)  # type: ignore[attr-defined]
                if node.ctx.__class__ is not ast.Load:  # type: ignore[attr-defined]
                    self.stored.add(node.attr)  # type: ignore[attr-defined]
                if node not in inner:
                    self._chains.append(_chain(node))  # type: ignore[arg-type]
            elif kind is ast.Constant:
                text = node.value  # type: ignore[attr-defined]
                if text.__class__ is str and node not in inner and not _BLANK.search(text):
                    self.strings.add(text)
            elif kind is ast.Expr:
                if node.value.__class__ is ast.Constant:  # type: ignore[attr-defined]
                    inner.add(node.value)  # type: ignore[attr-defined]
            elif kind is ast.Subscript:
                self.subscripted.add(last_name(node.value) or "")  # type: ignore[attr-defined]
            elif kind is ast.arg or kind is ast.keyword:
                self.names.add(node.arg or "")  # type: ignore[attr-defined]
            elif kind in _DEFINITIONS:
                self.names.add(node.name)  # type: ignore[attr-defined]
            elif kind in _IMPORTS:
                self._imports += _imports(node)  # type: ignore[arg-type]
        self.names |= self.attributes
        for whole, bound, _ in self._imports:
            self.names.update((*whole.split("."), bound))

    @functools.cached_property
    def paths(self) -> set[str]:
        """Dotted names."""
        found: set[str] = set()
        imported = {}
        for whole, bound, meant in self._imports:
            found.update(_parts(whole.split(".")))
            imported[bound] = meant
        for first, *others in self._chains:
            found.update(_parts([*imported.get(first, first).split("."), *others]))
        return found

    @functools.cached_property
    def _words(self) -> str:
        return "\n".join((*self.names, *self.strings))

    def has(self, *names: str) -> bool:
        """Whether one of these occurs: a name, a path `cuda.graph`, or `.name`, an attribute of any object."""
        for name in names:
            if name.startswith("."):
                found = name[1:] in self.attributes
            else:
                found = name in (self.paths if "." in name else self.names)
            if found:
                return True
        return False

    def speaks_of(self, *stems: str) -> bool:
        """Whether a name or a string contains one of the stems: `use_fp16` and `"--fp16"` contain `fp16`."""
        return any(stem in self._words for stem in stems)


class Code:
    """The identifiers of one file's code. A text that the file does not contain is answered without the tree."""

    def __init__(self, index: Index, text: str) -> None:
        """`text` is the text of the index's file."""
        self.index = index
        self._text = text
        self._parts: dict[str, bool] = {}

    def renew(self, text: str) -> None:
        """The text of the file has changed."""
        self._text, self._parts = text, {}

    @property
    def functions(self) -> list[FunctionInfo]:
        """The functions and methods of the file, the top level first."""
        return self.index.functions

    @property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of the file's tree."""
        return self.index.module.nodes

    @_told
    def names(self, *names: str) -> bool:
        """Whether the code has one of these: a name, an imported path `cuda.graph`, an attribute `.name` of any object.

        Imports, parameters and keywords count as names; paths are resolved by the file's imports.
        """
        return self._may_have(name.rpartition(".")[2] for name in names) and self._vocabulary.has(*names)

    @_told
    def speaks_of(self, *stems: str) -> bool:
        """Whether a name in the code, or a string without blanks (an option, a key, a mode), contains a stem."""
        return self._may_have(stems) and self._vocabulary.speaks_of(*stems)

    @_told
    def states(self, *strings: str) -> bool:
        """Whether one of these is a whole string of the code, other than a docstring."""
        return self._may_have(strings) and not self._vocabulary.strings.isdisjoint(strings)

    @_told
    def assigns(self, *names: str) -> bool:
        """Whether the code assigns to a name or an attribute of this name."""
        return self._may_have(names) and not self._vocabulary.stored.isdisjoint(names)

    @_told
    def takes_items(self, *names: str) -> bool:
        """Whether the code subscripts something of this last name, to read or to write: `x.name[0]`."""
        return self._may_have(names) and not self._vocabulary.subscripted.isdisjoint(names)

    @_told
    def calls(self, *names: str) -> bool:
        """Whether it calls something by one of these names or an alias of it; `.name` stands for methods only."""
        return any(_calls(self.index, name) for name in names)

    @_told
    def calls_plainly(self, *names: str) -> bool:
        """Whether it calls one of these functions by its bare name, as builtins are called."""
        found = (record for name in names for record in self.index.calls_named(name))
        return any(isinstance(record.call.func, ast.Name) for record in found)

    @_told
    def calls_ending_in(self, *endings: str) -> bool:
        """Whether it calls something whose name ends with one of these: `Seq2SeqTrainer` ends with `Trainer`."""
        return any(name.endswith(endings) for name in self.index.calls)

    def all_calls_of(self, *names: str) -> Iterator[ast.Call]:
        """All calls of something with one of these names: `to` finds `x.to(...)`."""
        return (record.call for name in names for record in self.index.calls_named(name))

    def gives(self, name: str, *constants: object) -> bool:
        """Whether a call of this name gets one of the constants, by position or by keyword."""
        given = (each for record in self.index.calls_named(name) for each in _arguments(record))
        return any(_is_one_of(each, constants) for each in given)

    def passes(self, keyword: str, *constants: object) -> bool:
        """Whether any call passes one of the constants by this keyword."""
        self.index.reads.mentions(keyword)
        records = self.index.reads.unheard(lambda: [each for found in self.index.calls.values() for each in found])
        given = (each for record in records for each in record.call.keywords if each.arg == keyword)
        return self._may_have((keyword,)) and any(_is_one_of(each.value, constants) for each in given)

    def hands_over(self, name: str) -> bool:
        """Whether some call gets something of this name as an argument."""
        return name in self.index.handed

    def _may_have(self, texts: Iterable[str]) -> bool:
        return any(map(self._has, texts))

    def _has(self, part: str) -> bool:
        known = self._parts.get(part)
        if known is None:
            known = self._parts[part] = part in self._text
        return known

    @property
    def _vocabulary(self) -> Vocabulary:
        return self.index.note("vocabulary", lambda: Vocabulary(self.index.module.node))


def _calls(index: Index, name: str) -> bool:
    found = index.calls_named(name.removeprefix("."))
    return any(isinstance(record.call.func, ast.Attribute) for record in found) if name.startswith(".") else bool(found)


def _arguments(record: CallRecord) -> list[ast.expr]:
    return [*record.call.args, *(keyword.value for keyword in record.call.keywords)]


def _is_one_of(node: ast.expr, constants: tuple[object, ...]) -> bool:
    value = node.value if isinstance(node, ast.Constant) else ...
    return any(type(value) is type(each) and value == each for each in constants)


def _chain(node: ast.Attribute) -> list[str]:
    """The names of `a.b.c`; for an attribute of a call or an item, an empty one and the attributes."""
    attributes: list[str] = []
    current: ast.expr = node
    while isinstance(current, ast.Attribute):
        attributes.append(current.attr)
        current = current.value
    return [current.id if isinstance(current, ast.Name) else "", *reversed(attributes)]


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str, str]]:
    """What is imported, the name that it binds, and the dotted name for which that then stands."""
    module = "" if isinstance(node, ast.Import) else f"{node.module}." if node.module else ""
    for alias in node.names:
        whole = module + alias.name
        if isinstance(node, ast.Import) and alias.asname is None:
            bound = meant = whole.partition(".")[0]
        else:
            bound, meant = alias.asname or alias.name, whole
        yield whole, bound, meant


def _parts(path: list[str]) -> Iterator[str]:
    """The dotted names of two parts and more within a path."""
    for start in range(len(path) - 1):
        for end in range(start + 2, len(path) + 1):
            yield ".".join(path[start:end])
