"""A file whose text changes in an editor: which units are parsed again, and which keep their functions."""

from __future__ import annotations

import ast

import pytest

from torchperf_lint.model.syntax.editing import EditedFile
from torchperf_lint.model.syntax.indexing import index_of
from torchperf_lint.syntax.source import Source, Unreadable

TEXT = """\
import torch


class Trainer(Base):
    rate = 0.1

    def one(self):
        self.a = 1
        return self.two(self.a)

    # about the next one
    @property
    def two(self):
        return self.rate

    limit = 3

    async def three(self, x=limit):
        self.b = x
        return [each for each in x]


def last():
    return Trainer().three()
"""


def edited(before: str, after: str) -> tuple[set[str], EditedFile]:
    """The functions that an edit replaces, and the file after it."""
    file = EditedFile(Source("x.py", before.encode()))
    known = {each for each in file.index.all_functions if not each.is_module}
    file.change(Source("x.py", after.encode()))
    return {each.name for each in known - {*file.index.all_functions}}, file


def shown(index: object) -> object:
    """All that an index knows, without its objects."""
    tables = {}
    for name in ("calls", "handed", "defaults", "aliases", "stores"):
        table = getattr(index, name)
        tables[name] = {key: sorted(map(str, map(_plain, dict.__getitem__(table, key)))) for key in dict.keys(table)}
    classes = [
        (each.name, each.row, each.head.end_lineno, dict.keys(each.methods), _stores(each))
        for each in index.all_classes  # type: ignore[attr-defined]
    ]
    functions = [(each.name, each.place) for each in index.all_functions]  # type: ignore[attr-defined]
    places = sorted((key.lineno, key.col_offset, each.position) for key, each in dict.items(index.places))  # type: ignore[attr-defined]
    dumped = ast.dump(index.tree, include_attributes=True)  # type: ignore[attr-defined]
    return tables, [tuple(map(str, each)) for each in classes], functions, places, dumped


def _stores(cls: object) -> dict[str, list[int]]:
    attributes = cls.attributes  # type: ignore[attr-defined]
    return {name: [each.target.lineno for each in dict.__getitem__(attributes, name)] for name in dict.keys(attributes)}


def _plain(record: object) -> object:
    return ast.dump(record.call, include_attributes=True) if hasattr(record, "call") else str(type(record))


@pytest.mark.parametrize(
    ("old", "new", "replaced"),
    [
        ("self.a = 1", "self.a = 2", {"one"}),
        ("self.a = 1", "self.c = [1, 2]", {"one"}),
        ("# about the next one", "# about it", {"one"}),
        ("return self.rate", "return self.limit", {"two"}),
        ("    @property\n", "    @cached\n", {"two"}),
        ("return self.two(self.a)", "return self.two(self.a)  # longer", {"one"}),
        ("x=limit):\n        self.b = x", "x=rate):\n        self.b = y", {"three"}),
        ("self.a = 1\n        return self.two(self.a)", "self.a = 1; b = 2\n        return b", {"one"}),
        ("return Trainer().three()", "return 3", {"last"}),
        # The rest of the class: all of it is new.
        ("rate = 0.1", "rate = 0.2", {"one", "two", "three"}),
        ("class Trainer(Base)", "class Trainer(Other)", {"one", "two", "three"}),
        ("limit = 3", "limit = 4", {"one", "two", "three"}),
        # A row more: what stands below is at another place. The file's last class may grow.
        ("self.a = 1\n", "self.a = 1\n        pass\n", {"one", "two", "three", "last"}),
        ("self.a = 1\n        return self.two(self.a)", "return 1", {"one", "two", "three", "last"}),
        # Rows at another depth, and what cannot be parsed alone.
        ("        self.a = 1\n", "    x = 1\n", {"one", "two", "three"}),
        (
            "        self.a = 1\n        return self.two(self.a)",
            "        pass\n    def more(self): pass",
            {"one", "two", "three"},
        ),
        ("        self.a = 1\n", '        """\n', {"one", "two", "three"}),
    ],
)
def test_an_edit_replaces_the_units_that_it_touches(old: str, new: str, replaced: set[str]) -> None:
    after = TEXT.replace(old, new)
    assert after != TEXT
    try:
        ast.parse(after)
    except SyntaxError:
        with pytest.raises(Unreadable):
            edited(TEXT, after)
        return
    found, file = edited(TEXT, after)
    assert found == replaced
    assert shown(file.index) == shown(index_of(ast.parse(after), "x.py"))


def test_the_last_class_of_a_file_grows_alone() -> None:
    text = TEXT[: TEXT.index("def last")]
    found, file = edited(text, text.replace("self.b = x\n", "self.b = x\n        self.c = x\n"))
    assert found == {"three"}
    assert file.index.all_classes[0].head.end_lineno == 21


def test_a_method_stays_where_another_is_edited_time_and_again() -> None:
    file = EditedFile(Source("x.py", TEXT.encode()))
    two = file.index.all_classes[0].methods["two"]
    cls = file.index.all_classes[0]
    for number in range(5):
        text = TEXT.replace("self.a = 1", f"self.a{number} = {number}")
        file.change(Source("x.py", text.encode()))
        assert file.index.all_classes == [cls]
        assert cls.methods["two"] is two
        assert [*cls.attributes] == ["rate", f"a{number}", "limit", "b"]
        assert shown(file.index) == shown(index_of(ast.parse(text), "x.py"))


def test_text_at_another_depth_is_no_method_of_the_class() -> None:
    after = TEXT.replace(
        "    # about the next one\n    @property\n    def two", "   # about the next one\n   @property\n   def two"
    )
    with pytest.raises(Unreadable, match="indent"):
        edited(TEXT, after)
