"""The comments of fixtures that say what must be found, and the exact comparison with what was found.

    total += loss.item()  # expect: TPL102
    # expect: TPL102 "waits for the device"          on a line of its own: the next code line; text optional
    # expect[torchmetrics>=1.6.2]: TPL301            only for that target
    # missed: TPL101 (helper lives in another file)  a known false negative
    # wrong: TPL101 (the loop runs once)             a known false positive
    # refuted: TPL101 (`load` gives a host tensor)   found in the file alone, and not where its project is known

The first lines of a file may hold directives: `# options: select=TPL101,TPL107 hot-functions=step`,
`# torch: 2.3`, `# torchmetrics: 1.6.1`.
"""

from __future__ import annotations

import io
import itertools
import re
import tokenize
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.knowledge.versions import Target, Version, parse_version, satisfies

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torchperf_lint.engine.findings import Diagnostic

LIBRARIES = ("torch", "torchmetrics")
OPTIONS = ("select", "hot-functions", "loader-names")

_LOOKS_LIKE = re.compile(r"#+\s*(?:expect|missed|wrong|refuted)\s*(?:\[|:|TPL)", re.IGNORECASE)
_EXPECTATION = re.compile(
    r"""\#\s*(?P<kind>expect|missed|wrong|refuted)
        (?:\[(?P<library>torch|torchmetrics)(?P<specifier>[<>=][^\]]*)\])?
        :\s*(?P<items>TPL\d{3}(?:\s+"[^"]*")?(?:\s*,\s*TPL\d{3}(?:\s+"[^"]*")?)*)
        \s*(?:\((?P<reason>.+?)\))?
        \s*(?=\#|$)""",
    re.VERBOSE,
)
_ITEM = re.compile(r'(?P<code>TPL\d{3})(?:\s+"(?P<text>[^"]*)")?')
_DIRECTIVE = re.compile(r"#\s*(?P<key>options|torch|torchmetrics):\s*(?P<value>.+?)\s*$")
_NOT_CODE = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
)


class BadComment(ValueError):
    """A comment of a fixture looks like an expectation or a directive and is none."""


class Gate(NamedTuple):
    """The targets that an expectation is limited to."""

    library: str
    specifier: str

    def holds(self, target: Target) -> bool:
        """Whether the target's version is known and meets the specifier."""
        version: Version | None = getattr(target, self.library)
        return version is not None and satisfies(version, self.specifier)


class Expectation(NamedTuple):
    """One code that a comment names, with the row of code that it is about."""

    row: int
    kind: str  # "expect", "missed", "wrong" or "refuted"
    code: str
    text: str
    gate: Gate | None

    def __str__(self) -> str:
        text = f' "{self.text}"' if self.text else ""
        gate = f"[{self.gate.library}{self.gate.specifier}]" if self.gate else ""
        return f"# {self.kind}{gate}: {self.code}{text}"

    def meets(self, found: Diagnostic) -> bool:
        """Whether this is the finding that the comment means: the same row, or another row of the statement."""
        first, last = found.noqa_rows
        here = self.row == found.row or first <= self.row <= last
        return here and self.code == found.code and self.text in found.message


class Directives(NamedTuple):
    """What the first lines of a fixture set."""

    options: dict[str, tuple[str, ...]]
    target: Target


class Commented(NamedTuple):
    """All that a fixture's comments say."""

    expectations: tuple[Expectation, ...]
    directives: Directives

    def targets(self) -> tuple[Target, ...]:
        """The targets to check for, oldest first.

        Without gated comments there is one, that of the directives; a gate adds a version on either side of
        each of its bounds, for a library that no directive fixes.
        """
        choices: list[Sequence[Version | None]] = []
        for library in LIBRARIES:
            fixed: Version | None = getattr(self.directives.target, library)
            gates = {each.gate for each in self.expectations if each.gate and each.gate.library == library}
            sides = {side for gate in gates for bound in _bounds(gate.specifier) for side in (_before(bound), bound)}
            choices.append(sorted(sides) if sides and fixed is None else [fixed])
        return tuple(Target(*versions) for versions in itertools.product(*choices))


def read_comments(text: str) -> Commented:
    """Parse a fixture's comments; raise BadComment for one that cannot be understood."""
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    return Commented(tuple(_expectations(tokens)), _directives(text))


def comments_of(text: str) -> list[str]:
    """The comments of Python source, in order."""
    return [
        each.string for each in tokenize.generate_tokens(io.StringIO(text).readline) if each.type == tokenize.COMMENT
    ]


def disagreements(expectations: Iterable[Expectation], found: Iterable[Diagnostic], target: Target) -> list[str]:
    """Every finding without a comment and every comment without its finding, one line each.

    What is refuted says nothing here; `unaccounted` holds it.
    """
    stated = [each for each in expectations if each.kind != "refuted"]
    wanted = [each for each in stated if each.gate is None or each.gate.holds(target)]
    positive = [each for each in wanted if each.kind != "missed"]
    diagnostics = list(found)
    matched = _match(positive, diagnostics)
    complaints = []
    for number, each in enumerate(positive):
        if number not in matched:
            gone = " is found no more: remove the comment" if each.kind == "wrong" else " is not found"
            complaints.append((each.row, f"{each}{gone}"))
    unexpected = [each for number, each in enumerate(diagnostics) if number not in matched.values()]
    for each in (each for each in wanted if each.kind == "missed"):
        gained = next((found for found in unexpected if each.meets(found)), None)
        if gained is not None:
            unexpected.remove(gained)
            complaints.append((each.row, f"{each} is missed no more: make it an expectation"))
    complaints += [(each.row, f"unexpected {each.code} at column {each.column}: {each.message}") for each in unexpected]
    return [f"row {row}: {complaint}" for row, complaint in sorted(complaints)]


def unaccounted(
    expectations: Iterable[Expectation], alone: Iterable[Diagnostic], known: Iterable[Diagnostic]
) -> list[str]:
    """What a file has alone and not with its project, and no comment calls refuted; and such comments without cause."""
    refuted = [each for each in expectations if each.kind == "refuted"]
    kept = {(each.code, each.start) for each in known}
    lost = [each for each in alone if (each.code, each.start) not in kept]
    matched = _match(refuted, lost)
    complaints = [
        (each.row, f"{each}: nothing is lost here") for number, each in enumerate(refuted) if number not in matched
    ]
    complaints += [
        (each.row, f"{each.code} at column {each.column} is lost where the project is known: {each.message}")
        for number, each in enumerate(lost)
        if number not in matched.values()
    ]
    return [f"row {row}: {complaint}" for row, complaint in sorted(complaints)]


def _match(expectations: Sequence[Expectation], found: Sequence[Diagnostic]) -> dict[int, int]:
    """A largest pairing of expectations with findings, each used once."""
    owner: dict[int, int] = {}

    def place(number: int, tried: set[int]) -> bool:
        each = expectations[number]
        candidates = [other for other, diagnostic in enumerate(found) if each.meets(diagnostic)]
        for candidate in sorted(candidates, key=lambda other: found[other].row != each.row):
            if candidate not in tried:
                tried.add(candidate)
                if candidate not in owner or place(owner[candidate], tried):
                    owner[candidate] = number
                    return True
        return False

    for number in range(len(expectations)):
        place(number, set())
    return {number: candidate for candidate, number in owner.items()}


def _expectations(tokens: Sequence[tokenize.TokenInfo]) -> Iterator[Expectation]:
    code_rows = sorted({each.start[0] for each in tokens if each.type not in _NOT_CODE})
    for token in tokens:
        if token.type != tokenize.COMMENT or not _LOOKS_LIKE.search(token.string):
            continue
        row = token.start[0]
        if not token.line[: token.start[1]].strip():
            row = next((each for each in code_rows if each > row), 0)
            if not row:
                raise BadComment(f"row {token.start[0]}: no code follows `{token.string}`")
        parts = list(_EXPECTATION.finditer(token.string))
        if len(parts) != len(_LOOKS_LIKE.findall(token.string)):
            raise BadComment(f"row {token.start[0]}: `{token.string}` is not understood")
        for part in parts:
            if (part["reason"] is None) != (part["kind"] == "expect"):
                raise BadComment(f"row {token.start[0]}: all but expect take a reason in parentheses, expect none")
            gate = Gate(part["library"], _checked(part["specifier"])) if part["library"] else None
            for item in _ITEM.finditer(part["items"]):
                yield Expectation(row, part["kind"], item["code"], item["text"] or "", gate)


def _checked(specifier: str) -> str:
    """The specifier, if it is one for which the versions on either side of its bounds are known."""
    if not re.fullmatch(r"\s*(?:>=|<)\s*[\d.]+\s*(?:,\s*(?:>=|<)\s*[\d.]+\s*)?", specifier):
        raise BadComment(f"`{specifier}` is not a gate such as >=1.6.2 or >=1.8,<2")
    return specifier


def _directives(text: str) -> Directives:
    options: dict[str, tuple[str, ...]] = {}
    versions: dict[str, Version] = {}
    for line in itertools.takewhile(lambda line: line.startswith("#"), text.splitlines()):
        match = _DIRECTIVE.match(line)
        if match is None:
            continue
        if match["key"] in LIBRARIES:
            versions[match["key"]] = parse_version(match["value"])
            continue
        for word in match["value"].split():
            key, _, value = word.partition("=")
            if key not in OPTIONS or not value:
                raise BadComment(f"`{word}` is not an option; there are {', '.join(OPTIONS)}")
            options[key] = tuple(value.split(","))
    return Directives(options, Target(**versions))


def _bounds(specifier: str) -> Iterator[Version]:
    for clause in specifier.split(","):
        yield parse_version(clause.strip().lstrip("<>="))


def _before(version: Version) -> Version:
    """A version just below: 1.6.1 for 1.6.2, 1.5.99 for 1.6.0."""
    numbers = list(version)
    last = max(place for place, number in enumerate(numbers) if number)
    numbers[last] -= 1
    return (*numbers[: last + 1], *([99] if last < 2 else []))
