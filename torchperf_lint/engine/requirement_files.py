"""Readers of requirement files, project files and lock files, one per format: what they state of a package's versions.

A reader takes a file's text and returns its Mentions of the wanted packages. Broken formats and anything that is not
understood give no Mention or one without bounds; nothing is executed.
"""

from __future__ import annotations

import ast
import itertools
import re
import sys
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from torchperf_lint.knowledge.versions import Bounds, bounds_of
from torchperf_lint.syntax.parsing import parse_module
from torchperf_lint.syntax.tree import subtree

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T = TypeVar("T")

MOST_STATEMENTS = 100
"""A file with more statements than this about one package is ignored for it."""

_NAMED = re.compile(r"([A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)\s*(?:\[[^\]]*\])?\s*(.*)", re.DOTALL)
_OPTION = re.compile(r"\s--?[A-Za-z]")
_COMMENT = re.compile(r"(?:^|\s)#.*")
_INCLUDE = re.compile(r"(?:-r|-c|--requirement|--constraint)(?:\s*=\s*|\s+|(?<=-[rc])(?=[^\s=-]))(.+)")
_CONDA_NAMES = {"pytorch": "torch", "pytorch-cpu": "torch", "pytorch-gpu": "torch"}


class Mention(NamedTuple):
    """A place that requires or locks a package; findings show `text`."""

    package: str
    bounds: Bounds
    row: int
    text: str


class Read(NamedTuple):
    """A file's mentions and the paths of requirement files that it includes."""

    mentions: list[Mention]
    includes: list[str]


Reader = Callable[[str, Collection[str]], Read]
"""Takes a file's text and the names of the wanted packages; may raise SyntaxError and ValueError."""


def reader_of(name: str) -> Reader | None:
    """The reader for a file of this name in a project's folder; None for any other file."""
    for pattern, reader in _READERS:
        if pattern.fullmatch(name):
            return reader
    return None


# -- requirements as pip writes them -----------------------------------------------------------------------------


def _required(text: str) -> tuple[str, Bounds, str] | None:
    """Name, bounds and displayed text of one PEP 508 requirement; extras and markers are ignored."""
    plain = _OPTION.split(text, maxsplit=1)[0].strip()
    match = _NAMED.fullmatch(plain.partition(";")[0].strip())
    if match is None:
        return None
    specifier = match[2].strip()
    if specifier.startswith("(") and specifier.endswith(")"):
        specifier = specifier[1:-1]
    return _normal(match[1]), bounds_of(specifier), " ".join(plain.split())


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _mentions(requirements: Iterable[tuple[int, str]], wanted: Collection[str]) -> Iterator[Mention]:
    """The mentions of wanted packages among (row, requirement) pairs."""
    for row, text in requirements:
        required = _required(text)
        if required is not None and required[0] in wanted:
            name, bounds, shown = required
            yield Mention(name, bounds, row, shown)


def read_requirements(text: str, wanted: Collection[str]) -> Read:
    """`requirements.txt`, pip-tools' output and constraints."""
    lines = list(_logical_lines(text))
    includes = [match[1].strip("\"' ") for _, line in lines if (match := _INCLUDE.fullmatch(line))]
    return Read(list(_mentions(((row, line) for row, line in lines if line[0] != "-"), wanted)), includes)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines without comments, joined at backslashes, with their first row."""
    first, held = 0, ""
    for row, physical in enumerate(text.splitlines(), 1):
        line = _COMMENT.sub("", physical)
        first = first or row
        if line.endswith("\\"):
            held += line[:-1]
            continue
        if joined := (held + line).strip():
            yield first, joined
        first, held = 0, ""
    if joined := held.strip():
        yield first, joined


# -- pyproject.toml ----------------------------------------------------------------------------------------------

_LISTS = (
    ("project", "dependencies"),
    ("project", "optional-dependencies"),
    ("dependency-groups",),
    ("tool", "pdm", "dev-dependencies"),
    ("tool", "uv", "dev-dependencies"),
)


def _read_pyproject(text: str, wanted: Collection[str]) -> Read:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    document = tomllib.loads(text)
    rows = _rows_of_strings(text)
    stated = [
        (rows.get(each.partition(";")[0].strip(), 1), each) for way in _LISTS for each in _strings(_at(document, *way))
    ]
    found = list(_mentions(stated, wanted))
    poetry = _at(document, "tool", "poetry")
    tables = [_at(poetry, "dependencies"), _at(poetry, "dev-dependencies")]
    groups = _at(poetry, "group")
    tables += [_at(group, "dependencies") for group in (groups.values() if isinstance(groups, dict) else ())]
    for table in tables:
        for name, value in table.items() if isinstance(table, dict) else ():
            if _normal(name) in wanted:
                for version in _few(_poetry_versions(value)):
                    row, shown = _row_of_entry(text, name, version), f'{name} = "{version}"'
                    found.append(Mention(_normal(name), bounds_of(version, wider=True), row, shown))
    return Read(found, [])


def _few(statements: Iterable[T]) -> list[T]:
    """The statements about one package in one file, each of which costs a search; none beyond MOST_STATEMENTS."""
    few = list(itertools.islice(statements, MOST_STATEMENTS + 1))
    return few if len(few) <= MOST_STATEMENTS else []


def _at(value: Any, *keys: str) -> Any:
    """The value under the keys of nested tables; None if missing."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _strings(value: Any) -> Iterator[str]:
    """The strings in a list, or in a table's lists."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        yield from (each for each in value if isinstance(each, str))


def _poetry_versions(value: Any) -> Iterator[str]:
    """The versions of `"^1.4"`, of a table with a version, and of a list of such tables; empty for a path or URL."""
    for each in value if isinstance(value, list) else [value]:
        version = _at(each, "version") if isinstance(each, dict) else each
        yield version if isinstance(version, str) else ""


_STRING = re.compile(r"[\"']([^\"';\n]*)(?=;|[\"']\s*(?:#.*\n\s*)?[,\]])")


def _rows_of_strings(text: str) -> dict[str, int]:
    """The first row of each string in a list, without what follows a semicolon in it."""
    rows: dict[str, int] = {}
    row, at, in_comment = 1, 0, False
    for match in _STRING.finditer(text):
        between = text[at : match.start()]
        if "\n" in between:
            row += between.count("\n")
            in_comment = False
        in_comment = in_comment or "#" in between.rpartition("\n")[2]
        at = match.start()
        if not in_comment:
            rows.setdefault(match[1].strip(), row)
    return rows


def _row_of_entry(text: str, name: str, version: str) -> int:
    """The row of `name = ...` that holds the version, or of the version in a table `[... .name]`."""
    key, quoted = re.escape(name), rf"[\"']{re.escape(version)}[\"']"
    return _row_of(
        text,
        rf"^\s*[\"']?{key}[\"']?\s*=.*{quoted}",
        rf"^\[.*\b{key}[\"']?\][^\[]*?\n\s*version\s*=\s*{quoted}",
        rf"^\s*[\"']?{key}[\"']?\s*=",
    )


def _row_of(text: str, *patterns: str) -> int:
    """The row where the first pattern that occurs ends; 1 if none does."""
    for pattern in patterns:
        match = re.search(pattern, text, re.MULTILINE)
        if match is not None:
            return text.count("\n", 0, match.end()) + 1
    return 1


# -- setuptools --------------------------------------------------------------------------------------------------

_SETUP_KEYWORDS = ("install_requires", "extras_require")


def _read_setup_cfg(text: str, wanted: Collection[str]) -> Read:
    import configparser

    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return Read([], [])
    values = [parser.get("options", "install_requires", fallback="")]
    if parser.has_section("options.extras_require"):
        values += [value for _, value in parser.items("options.extras_require")]
    lines = [line.strip() for value in values for line in (value or "").splitlines() if line.strip()]
    rows: dict[str, int] = {}
    for row, physical in enumerate(text.split("\n"), 1):
        rows.setdefault(physical.strip(), row)
        rows.setdefault(physical.partition("=")[2].strip(), row)  # after the key
    return Read(list(_mentions([(rows.get(line, 1), line) for line in lines], wanted)), [])


def _read_setup_py(text: str, wanted: Collection[str]) -> Read:
    tree = parse_module(text)
    assigned: dict[str, list[ast.expr]] = {}
    given: list[ast.expr] = []
    for node in subtree(tree):
        if isinstance(node, ast.Call):
            given += [keyword.value for keyword in node.keywords if keyword.arg in _SETUP_KEYWORDS]
        elif isinstance(node, ast.Dict):
            named = zip(node.keys, node.values, strict=True)
            given += [value for key, value in named if isinstance(key, ast.Constant) and key.value in _SETUP_KEYWORDS]
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                name = target.value if isinstance(target, ast.Subscript) else target
                if isinstance(name, ast.Name):
                    assigned.setdefault(name.id, []).append(node.value)
    stated = [line for value in given for line in _literals(value, assigned)]
    return Read(list(_mentions(stated, wanted)), [])


def _literals(value: ast.expr, assigned: dict[str, list[ast.expr]]) -> Iterator[tuple[int, str]]:
    """The strings of literal lists and dicts, also through names and sums of them."""
    pending = [value]
    followed: set[str] = set()
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from ((node.lineno + index, line) for index, line in enumerate(node.value.splitlines()))
        elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            pending += node.elts
        elif isinstance(node, ast.Starred):
            pending.append(node.value)
        elif isinstance(node, ast.Dict):
            pending += node.values
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            pending += (node.left, node.right)
        elif isinstance(node, ast.Name) and node.id not in followed:
            followed.add(node.id)
            pending += assigned.get(node.id, ())


# -- lock files --------------------------------------------------------------------------------------------------


def _read_toml_lock(text: str, wanted: Collection[str]) -> Read:
    """The locks of uv, poetry and pdm, and pylock.toml.

    All are machine-written, with headers and keys on lines of their own; a TOML parser takes a hundred times as long
    for a large one.
    """
    found = []
    for name in wanted:
        for match in _few(re.finditer(rf'^name\s*=\s*"{re.escape(name)}"\s*$', text, re.MULTILINE)):
            start, end = text.rfind("\n[", 0, match.start()) + 1, text.find("\n[", match.end())
            block = text[start:] if end < 0 else text[start:end]
            version = re.search(r'^version\s*=\s*"([^"\n]+)"\s*?$', block, re.MULTILINE)
            if re.match(r"\[\[packages?\]\]", block) and version is not None:
                row = text.count("\n", 0, start + version.start()) + 1
                found.append(_locked(name, version[1], row))
    return Read(found, [])


def _read_pipfile_lock(text: str, wanted: Collection[str]) -> Read:
    import json

    document = json.loads(text)
    found = []
    for section in ("default", "develop"):
        for name in wanted:
            version = _at(document, section, name, "version")
            if isinstance(version, str) and version.startswith("=="):
                row = _row_of(text, rf'"{re.escape(name)}"\s*:\s*\{{[^{{}}]*?"version"\s*:', rf'"{re.escape(name)}"')
                found.append(_locked(name, version[2:], row))
    return Read(found, [])


def _locked(name: str, version: str, row: int) -> Mention:
    pin = f"{name}=={version}"
    return Mention(name, bounds_of(f"=={version}"), row, pin)


# -- conda -------------------------------------------------------------------------------------------------------

_CONDA = re.compile(r"(?:[^\s:]+::)?([A-Za-z0-9][\w.-]*)\s*(.*)")
_ITEM = re.compile(r"(\s*)-\s+(.*)")


def _read_environment(text: str, wanted: Collection[str]) -> Read:
    """The list `dependencies:` of a conda environment, item by item, and the list `- pip:` in it."""
    conda: list[Mention] = []
    pip: list[tuple[int, str]] = []
    inside, pip_indent = False, -1
    for row, physical in enumerate(text.splitlines(), 1):
        line = _COMMENT.sub("", physical).rstrip()
        item = _ITEM.fullmatch(line)
        if item is None:
            if line and not line[0].isspace():
                inside, pip_indent = line == "dependencies:", -1
            continue
        if not inside:
            continue
        indent, spec = len(item[1]), _unquoted(item[2])
        if 0 <= pip_indent < indent:
            pip.append((row, spec))
        elif spec == "pip:":
            pip_indent = indent
        else:
            pip_indent = -1
            conda += _conda_mention(spec, row, wanted)
    includes = [match[1].strip() for _, line in pip if (match := _INCLUDE.fullmatch(line))]
    return Read([*conda, *_mentions(pip, wanted)], includes)


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1].strip() if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _conda_mention(spec: str, row: int, wanted: Collection[str]) -> Iterator[Mention]:
    """`pytorch=2.1`, `pytorch==2.1.0=py3.9_cuda`, `conda-forge::torchmetrics >=1.4,<2`, `pytorch 2.1.0 py3.9_cuda`."""
    match = _CONDA.fullmatch(spec)
    if match is None:
        return
    name = _normal(match[1])
    name = _CONDA_NAMES.get(name, name)
    if name not in wanted:
        return
    release = match[2].strip()
    built = re.fullmatch(r"={0,2}\s*(\d[\w.+*]*)(?:=|\s+)[^\s=]+", release)  # with a build string the version is exact
    yield Mention(name, bounds_of(built[1] if built else release, wider=True), row, spec)


_READERS: tuple[tuple[re.Pattern[str], Reader], ...] = (
    (re.compile(r"requirements.*\.txt"), read_requirements),
    (re.compile(r"pyproject\.toml"), _read_pyproject),
    (re.compile(r"setup\.cfg"), _read_setup_cfg),
    (re.compile(r"setup\.py"), _read_setup_py),
    (re.compile(r"(?:uv|poetry|pdm)\.lock|pylock(?:\..+)?\.toml"), _read_toml_lock),
    (re.compile(r"Pipfile\.lock"), _read_pipfile_lock),
    (re.compile(r"environment.*\.ya?ml"), _read_environment),
)
