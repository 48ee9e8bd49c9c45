"""The harness itself: every way in which a fixture's comment can be wrong makes it fail."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from expectations import BadComment, Expectation, comments_of, disagreements, read_comments, unaccounted
from linting import assert_pair, assert_sound, bless_pair
from torchperf_lint.engine.findings import Diagnostic, Edit, Fix, Safety
from torchperf_lint.knowledge.versions import Target


def found(
    row: int, code: str = "TPL102", rows: tuple[int, int] | None = None, message: str = "waits here"
) -> Diagnostic:
    return Diagnostic(
        "x.py",
        row,
        1,
        row,
        5,
        code,
        "some-name",
        "error",
        message,
        (),
        None,
        0,
        4,
        (row, row) if rows is None else rows,
    )


def complaints(text: str, *diagnostics: Diagnostic, target: Target | None = None) -> list[str]:
    comments = read_comments(text)
    return disagreements(comments.expectations, diagnostics, comments.directives.target if target is None else target)


@pytest.mark.parametrize(
    ("text", "diagnostics"),
    [
        ("x()\n", []),
        ("x()  # expect: TPL102\n", [found(1)]),
        ('x()  # expect: TPL102 "waits"\n', [found(1)]),
        ("# expect: TPL102\n\n# why\nx()\n", [found(4)]),
        ("x()  # expect: TPL102, TPL102\n", [found(1), found(1)]),
        ('x()  # expect: TPL101 "a, b" , TPL102\n', [found(1), found(1, "TPL101", message="a, b")]),
        ("x()  # expect: TPL101  # expect: TPL102\n", [found(1), found(1, "TPL101")]),
        ("x()  # noqa: TPL102  # expect: TPL001\n", [found(1, "TPL001")]),
        ("x(\n    1,  # expect: TPL102\n)\n", [found(1, rows=(1, 3))]),
        ("x(\n    # expect: TPL102\n    1,\n)\n", [found(1, rows=(1, 4))]),
        ("x()  # missed: TPL102 (another file)\n", []),
        ("x()  # wrong: TPL102 (a single pass)\n", [found(1)]),
        ("x()  # refuted: TPL102 (on the host)\n", []),
        ('x("# expect: TPL102")\n', []),
        ('x()  # expect: TPL102 "one"\n', [found(1, message="one")]),
        # A greedy pairing would give the first comment the wrong finding of the statement.
        (
            'x(  # expect: TPL102\n)  # expect: TPL102 "one"\n',
            [found(1, rows=(1, 2), message="one"), found(1, rows=(1, 2), message="two")],
        ),
    ],
)
def test_agreement(text: str, diagnostics: list[Diagnostic]) -> None:
    assert complaints(text, *diagnostics) == []


@pytest.mark.parametrize(
    ("text", "diagnostics", "part"),
    [
        ("x()\n", [found(1)], "row 1: unexpected TPL102"),
        ("x()  # expect: TPL102\n", [], "is not found"),
        ("x()  # expect: TPL102\n", [found(1, "TPL101")], "is not found"),
        ("y()\nx()  # expect: TPL102\n", [found(1)], "is not found"),
        ('x()  # expect: TPL102 "stalls"\n', [found(1)], "is not found"),
        ("x()  # expect: TPL102\n", [found(1), found(1)], "unexpected TPL102"),
        ("x()  # expect: TPL102, TPL102\n", [found(1)], "is not found"),
        ("# expect: TPL102\nx()\ny()\n", [found(3)], "row 2: # expect: TPL102 is not found"),
        ("x()  # missed: TPL102 (another file)\n", [found(1)], "missed no more"),
        ("x()  # wrong: TPL102 (a single pass)\n", [], "found no more"),
    ],
)
def test_disagreement(text: str, diagnostics: list[Diagnostic], part: str) -> None:
    assert part in "\n".join(complaints(text, *diagnostics))


@pytest.mark.parametrize(
    "comment",
    [
        "# expect TPL102",
        "# expect: TPL1",
        "# expect: item-accumulated",
        "# expect: TPL102 waits",
        "# expect: TPL102 (reason)",
        "# Expect: TPL102",
        "# missed: TPL102",
        "# wrong: TPL102",
        "# refuted: TPL102",
        "# expect[numpy>=2]: TPL102",
        "# expect[torch>=new]: TPL102",
        "# expect[torch>2.0]: TPL102",
        "# expect: TPL102  # expect: TPL",
    ],
)
def test_comment_that_is_not_understood(comment: str) -> None:
    with pytest.raises(BadComment):
        read_comments(f"x()  {comment}\n")


@pytest.mark.parametrize(
    ("text", "alone", "known", "part"),
    [
        ("x()\n", [found(1)], [found(1)], ""),
        ("x()\n", [], [found(1)], ""),
        ("x()  # refuted: TPL102 (on the host)\n", [found(1)], [], ""),
        ("x()\n", [found(1)], [], "row 1: TPL102 at column 1 is lost"),
        ("x()  # refuted: TPL101 (on the host)\n", [found(1)], [], "row 1: TPL102 at column 1 is lost"),
        ("x()  # refuted: TPL102 (on the host)\n", [found(1)], [found(1)], "nothing is lost here"),
        ("x()  # refuted: TPL102 (on the host)\n", [], [], "nothing is lost here"),
    ],
)
def test_what_a_project_refutes(text: str, alone: Sequence[Diagnostic], known: Sequence[Diagnostic], part: str) -> None:
    told = "\n".join(unaccounted(read_comments(text).expectations, alone, known))
    assert part in told
    assert bool(told) == bool(part)


def test_comment_without_code_after_it() -> None:
    with pytest.raises(BadComment, match="no code follows"):
        read_comments("x()\n# expect: TPL102\n")


def test_gate_adds_targets_on_both_sides() -> None:
    text = "x()  # expect[torchmetrics>=1.6.2]: TPL301\ny()  # expect[torchmetrics<1.6.2]: TPL301\n"
    targets = read_comments(text).targets()
    assert [each.torchmetrics for each in targets] == [(1, 6, 1), (1, 6, 2)]
    assert complaints(text, found(2, "TPL301"), target=targets[0]) == []
    assert complaints(text, found(1, "TPL301"), target=targets[1]) == []
    assert complaints(text, found(1, "TPL301"), target=targets[0]) != []
    assert complaints(text, target=Target()) == []


@pytest.mark.parametrize(
    ("bound", "before"), [("1.6.0", (1, 5, 99)), ("2.0", (1, 99)), ("2", (1, 99)), ("2.3", (2, 2, 99))]
)
def test_version_below_a_gate(bound: str, before: tuple[int, ...]) -> None:
    assert read_comments(f"x()  # expect[torch>={bound}]: TPL301\n").targets()[0].torch == before


def test_directives() -> None:
    comments = read_comments(
        "# options: select=TPL101,TPL107 hot-functions=step\n# torch: 2.3\n# torchmetrics: 1.6.1\n\n"
        "x()  # expect[torchmetrics>=1.6.2]: TPL301\n"
    )
    assert comments.directives.options == {"select": ("TPL101", "TPL107"), "hot-functions": ("step",)}
    assert comments.targets() == (Target((2, 3), (1, 6, 1)),)


@pytest.mark.parametrize("line", ["# options: selct=TPL101", "# options: select"])
def test_unknown_option(line: str) -> None:
    with pytest.raises(BadComment):
        read_comments(line + "\nx()\n")


def test_expectation_prints_as_its_comment() -> None:
    text = '# expect[torch>=2.0]: TPL101 "waits"'
    (only,) = read_comments(f"x()  {text}\n").expectations
    assert isinstance(only, Expectation)
    assert str(only) == text


def test_comments_of() -> None:
    assert comments_of("# one\nx = '# none'  # two\n") == ["# one", "# two"]


class StubFixture:
    """A fixture whose linter does whatever a test wants it to do wrong."""

    path = Path("x.py")
    reports_unused = False

    def __init__(
        self, text: str, found: Sequence[Diagnostic], left: Sequence[Diagnostic], again: str | None = None
    ) -> None:
        self.data = text.encode()
        self._found = found
        self._left = left
        self._again = again

    def check(self, data: bytes | None = None) -> Sequence[Diagnostic]:
        return self._found if data is None else self._left

    def fix(self, *, unsafe: bool, data: bytes) -> bytes:
        return data if self._again is None else self._again.encode()


def fixable(row: int, safety: Safety = Safety.SAFE) -> Diagnostic:
    return found(row)._replace(fix=Fix("do", safety, (Edit(0, 1, b"y"),)))


def test_sound_fix() -> None:
    assert_sound(StubFixture("x()  # c\n", [fixable(1)], []), b"y()  # c\n", unsafe=False)
    assert_sound(StubFixture("x()\n", [fixable(1, Safety.UNSAFE)], [fixable(1, Safety.UNSAFE)]), b"x()\n", unsafe=False)


@pytest.mark.parametrize(
    ("fixture", "result", "problem"),
    [
        (StubFixture("x()  # c\n", [fixable(1)], []), b"y()\n", "loses comments"),
        (StubFixture("x()\n", [fixable(1)], [], again="z()\n"), b"y()\n", "second run"),
        (StubFixture("x()\n", [fixable(1)], [found(1)]), b"y()\n", "after its fixes"),
        (StubFixture("x()\n", [fixable(1)], []), b"x()\n", "nothing changed"),
        (StubFixture("x()\n", [fixable(1), found(1)], [fixable(1)]), b"y()\n", "still to be fixed"),
    ],
)
def test_unsound_fix(fixture: StubFixture, result: bytes, problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        assert_sound(fixture, result, unsafe=False)


def test_fix_that_does_not_compile() -> None:
    with pytest.raises(SyntaxError):
        assert_sound(StubFixture("x()\n", [fixable(1)], []), b"x(\n", unsafe=False)


def test_pairs(tmp_path: Path) -> None:
    path = tmp_path / "x.fixed.py"
    assert_pair(path, b"x()\n", b"x()\n")
    with pytest.raises(AssertionError, match="is missing"):
        assert_pair(path, b"x()\n", b"y()\n")
    bless_pair(path, b"x()\n", b"y()\n")
    assert_pair(path, b"x()\n", b"y()\n")
    with pytest.raises(AssertionError):
        assert_pair(path, b"x()\n", b"z()\n")
    with pytest.raises(AssertionError, match="without a change"):
        assert_pair(path, b"x()\n", b"x()\n")
    bless_pair(path, b"x()\n", b"x()\n")
    assert not path.exists()
