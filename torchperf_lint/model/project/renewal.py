"""Which symbols the tables and answers of a symbol index rest on: those that a change leaves alone are taken over."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchperf_lint.model.project.file_symbols import FileSymbols
    from torchperf_lint.model.project.symbol_index import SymbolIndex

_TABLES = {
    "_calling": ("called",),
    "_calling_given": ("callers", "renamed"),
    "_defining": ("defined",),
    "_group_of": ("imports",),
    "_handing": ("handed",),
    "_imported_by": ("imports",),
    "_importing": ("imports",),
    "_lookups": ("lookups", "texts"),
    "_naming": ("named", "defined"),
    "_near_metrics": ("imports",),
    "_new_names": ("renamed",),
    "_reached": ("imports", "accelerated"),
    "_renamed": ("renamed",),
    "_step_names": ("steps",),
    "_topics": ("imports", "topics"),
}
"""Tables of SymbolIndex over all files, each with the symbols that it is made of, beside the files' paths."""

_LEADS = ("imports", "renamed", "links", "bound")

_MEMOS = {
    "_called_by": ("called", "renamed", "imports"),
    "_importing_names": ("called", *_LEADS),
    "_looked_up": ("lookups", "texts"),
    "_offered": ("bound", "links", "imports"),
    "_refs_by_end": ("imports", "renamed"),
}
"""Memos that may rest on the symbols of any file."""

_MEMOS_BY_FILE = {
    "_imported": ("imports",),
    "_links_of": ("links",),
    "_places": ("imports",),
    "_stars_of": ("imports",),
    "_tests": (),
}
"""Memos by file, each of which rests on the symbols of its file only."""

_ANSWERS = {
    "absolute": (),
    "called_by": ("called", "renamed", "imports"),
    "calling_imported": ("called", *_LEADS),
    "calling_objects": ("called", *_LEADS),
    "calls_given": ("callers", "renamed"),
    "defining": ("defined",),
    "files_calling": ("called",),
    "handing_imported": ("handed", "named", "defined", *_LEADS),
    "hop": ("imports", "links", "bound"),
    "imported_files": ("imports",),
    "importers": ("imports",),
    "importing_it": ("called", *_LEADS),
    "importing_name": ("imports",),
    "imports": ("imports",),
    "is_in_program": ("imports",),
    "is_known_beyond": ("called", "imports", "named", "defined", "renamed", "lookups", "texts"),
    "is_near_metrics": ("imports",),
    "is_reached": ("imports", "accelerated"),
    "leading": _LEADS,
    "looking_up": ("lookups", "texts"),
    "making_imported": ("called", *_LEADS),
    "name_of": (),
    "names": ("renamed",),
    "naming": ("named", "defined", "imports"),
    "programs_speaking_of": ("imports", "topics"),
    "speaks_of": ("imports", "topics"),
    "split": (),
    "starred_modules": ("imports",),
    "steps_called_in": ("called", "steps"),
}
"""The questions, each with the symbols that its answer may rest on, beside the files' paths."""


def may_change(question: str, before: FileSymbols, after: FileSymbols) -> bool:
    """Whether the answer may be another one for these symbols of a file."""
    return any(getattr(before, name) != getattr(after, name) for name in _ANSWERS[question])


def take_over(new: SymbolIndex, old: SymbolIndex, key: str, before: FileSymbols, after: FileSymbols) -> None:
    """Let the index of the same files know what the old one knew, except what rests on changed symbols of the file."""
    same = {name for name in after._fields if getattr(before, name) == getattr(after, name)}
    known, tables = vars(old), vars(new)
    tables["modules"] = known["modules"]
    for name, made_of in (_TABLES | _MEMOS).items():
        if name in known and same.issuperset(made_of):
            tables[name] = known[name]
    for name, made_of in _MEMOS_BY_FILE.items():
        tables[name] = known[name]
        if not same.issuperset(made_of):
            tables[name].pop(key, None)
