"""Edits touch no byte outside their spans: fixing a file in another dress gives the fixed file in that dress."""

from __future__ import annotations

import io
import itertools
import tokenize

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from linting import fixture_paths, label, load_fixture

BOM = b"\xef\xbb\xbf"
FIXABLE = [
    path
    for path in fixture_paths()
    if any(path.with_name(path.stem + end).exists() for end in (".fixed.py", ".unsafe.py"))
]


class Dress:
    """A way to write the same program in other bytes."""

    def __init__(self, *, crlf: bool, tabs: bool, final_newline: bool, head: str) -> None:
        self.crlf = crlf
        self.tabs = tabs
        self.final_newline = final_newline
        self.head = head

    def __repr__(self) -> str:
        return f"Dress(crlf={self.crlf}, tabs={self.tabs}, final_newline={self.final_newline}, head={self.head!r})"

    def put_on(self, text: str) -> bytes:
        """The program in this dress; raise UnicodeEncodeError where its characters do not fit the encoding."""
        if self.tabs:
            text = _tabbed(text)
        if self.head == "latin-1":
            text = "# -*- coding: latin-1 -*-\n# caf\N{LATIN SMALL LETTER E WITH ACUTE}\n" + text
        elif self.head == "form feed":
            text = "# trailing blanks   \n\f\n" + text
        if not self.final_newline:
            text = text.rstrip("\n")
        if self.crlf:
            text = text.replace("\n", "\r\n")
        data = text.encode("latin-1" if self.head == "latin-1" else "utf-8")
        return BOM + data if self.head == "bom" else data


dresses = st.builds(
    Dress,
    crlf=st.booleans(),
    tabs=st.booleans(),
    final_newline=st.booleans(),
    head=st.sampled_from(["", "bom", "latin-1", "form feed"]),
)


def test_some_fixture_has_a_fix() -> None:
    assert FIXABLE, "no fixture has a fix, so nothing was tested"


@pytest.mark.skipif(not FIXABLE, reason="test_some_fixture_has_a_fix fails and says so")
@given(data=st.data(), dress=dresses, unsafe=st.booleans())
def test_dress_does_not_matter(data: st.DataObject, dress: Dress, unsafe: bool) -> None:
    path = data.draw(st.sampled_from(FIXABLE).map(label), label="fixture")
    fixture = load_fixture(next(each for each in FIXABLE if label(each) == path))
    plain = fixture.fix(unsafe=unsafe)
    try:
        dressed, wanted = dress.put_on(fixture.data.decode()), dress.put_on(plain.decode())
    except UnicodeEncodeError:
        assume(False)
    fixed = fixture.fix(unsafe=unsafe, data=dressed)
    assert fixed == wanted


@pytest.mark.parametrize("path", FIXABLE, ids=label)
def test_old_bytes_around_the_edits_are_kept(path: object) -> None:
    """What a fix leaves is, apart from the spans of its edits, the file as it was."""
    fixture = load_fixture(path)  # type: ignore[arg-type]
    for found in fixture.check():
        if found.fix is None:
            continue
        edits = sorted(found.fix.edits)
        assert all(0 <= edit.start <= edit.end <= len(fixture.data) for edit in edits)
        assert all(one.end <= other.start for one, other in itertools.pairwise(edits)), "edits overlap"
        assert all(fixture.data[edit.start : edit.end] != edit.content for edit in edits), "an edit changes nothing"


def test_tabbed() -> None:
    assert _tabbed('def f():\n    x = """\n    a"""\n    g(\n        x,\n    )\n') == (
        'def f():\n\tx = """\n    a"""\n\tg(\n\t\tx,\n\t)\n'
    )


def _tabbed(text: str) -> str:
    """The text with each four leading blanks as a tab, lines inside strings left alone."""
    inside = {
        row
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.start[0] != token.end[0] and token.type not in (tokenize.NEWLINE, tokenize.NL)
        for row in range(token.start[0] + 1, token.end[0] + 1)
    }
    lines = []
    for row, line in enumerate(text.split("\n"), 1):
        blanks = len(line) - len(line.lstrip(" "))
        if row not in inside and line.strip():
            line = "\t" * (blanks // 4) + " " * (blanks % 4) + line[blanks:]
        lines.append(line)
    return "\n".join(lines)
