"""A project whose files change: answers that rest on nothing that has changed stay.

An answer rests on queries (`project/dependencies.py`). After a change, those about the changed file and about all
files' symbols are made again. What rests on a query with another answer is forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchperf_lint.model import bounds
from torchperf_lint.model.facts import parts_of
from torchperf_lint.model.loaded_files import LoadedFiles
from torchperf_lint.model.project.dependencies import OF_FILE
from torchperf_lint.model.project.parts import BY_STATEMENTS
from torchperf_lint.model.project.renewal import may_change, take_over
from torchperf_lint.model.project.symbol_index import QUESTIONS, SymbolIndex
from torchperf_lint.model.syntax.editing import EditedFile
from torchperf_lint.model.syntax.indexing import functions_in
from torchperf_lint.syntax.source import Source, Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable

    from torchperf_lint.model.analyzed_file import AnalyzedFile
    from torchperf_lint.model.project.dependencies import Question
    from torchperf_lint.model.project.file_symbols import FileSymbols
    from torchperf_lint.model.project.parts import Parts


class EditedFiles(LoadedFiles):
    """The files of a project; one at a time is replaced."""

    _edited: dict[str, EditedFile]
    _unparsed: dict[str, FileSymbols]
    _answers: dict[Question, Any]

    def follow_edits(self) -> None:
        """Files that are opened from now on will change, by `replace`."""
        self._follows = True

    def _forget_what_lasts(self) -> None:
        super()._forget_what_lasts()
        self._edited, self._unparsed, self._answers = {}, {}, {}

    def forget(self) -> None:
        """Clear all caches, as `LoadedFiles` does."""
        unparsed = self._unparsed
        super().forget()
        self._unparsed = unparsed

    def open(self, path: str, data: bytes, source: Source) -> AnalyzedFile:
        """The file at `path` with this content, as for `LoadedFiles`."""
        key = self._place_of(path)
        if key in self._unparsed:
            source.parse()
        if self._follows and key not in self._indexed:
            edited = EditedFile(source)
            self._keep(key, source, edited.index)
            self._edited[key] = edited
        return super().open(path, data, source)

    def replace(self, key: str, symbols: FileSymbols | None, data: bytes | None = None) -> None:
        """A file of the project has this content from now on; None: there is no such file any more."""
        others = {each: known for each, known in self._found.items() if each != key}
        self._found = others if symbols is None else {**others, key: symbols}
        self._unparsed.pop(key, None)
        self.recorder.begin(keeps=False)
        edited = self._edited.get(key)
        if edited is None or symbols is None or data is None or self._parts(key) is None:
            self._drop_file(key, symbols)
        elif edited.replaced > bounds.MOST_BYTES_REPLACED:
            self._start_again(key, symbols)
        else:
            try:
                self._change(key, symbols, edited, Source(self._shown(key), data))
            except Unreadable:
                self._unparsed[key] = symbols

    def settle(self, key: str) -> None:
        """The file is looked at: the others that could not be parsed last are what they are."""
        for other in [each for each in self._unparsed if each != key]:
            self._drop_file(other, self._unparsed.pop(other))

    def _start_again(self, key: str, symbols: FileSymbols) -> None:
        """Forget all answers, and what they were kept for."""
        self._drop(key)
        self.forget()
        self.recorder.start_again()
        for other, (_, index) in self._indexed.items():
            index.forget_all()
            index.tell(self.recorder.reads(other))
        self._know(key, symbols)

    def _drop(self, key: str) -> None:
        super()._drop(key)
        self._edited.pop(key, None)

    def _drop_file(self, key: str, symbols: FileSymbols | None) -> None:
        """The tree of the file goes, with all answers that may refer to it."""
        before = self._symbol_answers(key, symbols)
        analyzed = self._analyzed_files.pop(key, None)
        if analyzed is not None:
            del self._by_index[analyzed.index]
            analyzed.take_apart()
        if key in self._indexed:
            self._indexed[key][1].take_apart()
        self._drop(key)
        self._know(key, symbols)
        changed = set(self.recorder.questions(key))
        for question in changed:
            self._answers.pop(question, None)
        self._forget_changed(key, changed | self._other_answers(before))

    def _change(self, key: str, symbols: FileSymbols, edited: EditedFile, source: Source) -> None:
        """The text of a file has changed; raises Unreadable, and changes nothing, where it cannot be parsed."""
        old = self._parts(key)
        assert old is not None
        asked, told = self._answered(key, old)
        edited.change(source)
        before = self._symbol_answers(key, symbols)
        self._loaded += len(source.utf8) - len(self._indexed[key][0].utf8)
        self._indexed[key] = source, edited.index
        new = self._known_parts[key] = parts_of(source, self._hints, edited.index, old)
        self._know(key, symbols)
        changed = {question for question in asked if _answer(new, question) != _answer(old, question)}
        # What the text answers is worked out anew, from nothing that may rest on another answer of the text.
        edited.index.forget(self.recorder.resting_on(changed.union(told)), _always)
        analyzed = self._analyzed_files.get(key)
        if analyzed is not None:
            analyzed.renew(source)
        for question in told:
            answer = _answer(new, question)
            if answer != self._answers[question]:
                changed.add(question)
                self._answers[question] = answer
        self._forget_changed(key, changed | self._other_answers(before), renews=True)

    def _answered(self, key: str, parts: Parts) -> tuple[list[Question], list[Question]]:
        """The queries about a file's text: those that statements answer, and the others, whose answers are noted."""
        while True:
            asked = self.recorder.questions(key)
            told = [question for question in asked if question[0].removeprefix(OF_FILE) not in BY_STATEMENTS]
            new = [question for question in told if question not in self._answers]
            if not new:
                return [question for question in asked if question[0].removeprefix(OF_FILE) in BY_STATEMENTS], told
            for question in new:
                self._answers[question] = _answer(parts, question)

    def _know(self, key: str, symbols: FileSymbols | None) -> None:
        """The symbols of a file are these."""
        known = self._facts.get(key)
        if symbols is not None:
            self._facts[key] = symbols
        elif known is not None:
            del self._facts[key]
        if _are_alike(known, symbols):
            return
        before, self._symbol_index = self._symbol_index, SymbolIndex(self._facts, self._root)
        if known is not None and symbols is not None:
            take_over(self._symbol_index, before, key, known, symbols)

    def _symbol_answers(self, key: str, symbols: FileSymbols | None) -> dict[Question, Any]:
        """The answers that rest on all files' symbols, before those of a file change; none if they do not."""
        before = self._facts.get(key)
        if _are_alike(before, symbols):
            return {}
        asked = self.recorder.questions(None)
        if before is not None and symbols is not None:
            perhaps = {name for name in QUESTIONS if may_change(name, before, symbols)}
            asked = [each for each in asked if each[0] in perhaps]
        known, answer = self._answers, self._symbol_index.answer
        return {each: known[each] if each in known else answer(each) for each in asked}

    def _other_answers(self, before: dict[Question, Any]) -> set[Question]:
        """The queries that have other answers now."""
        answers = {question: self._symbol_index.answer(question) for question in before}
        self._answers.update(answers)
        return {question for question, answer in answers.items() if answer != before[question]}

    def _forget_changed(self, key: str, changed: set[Question], *, renews: bool = False) -> None:
        """Forget what rests on these queries, and what is known by a place of a function that is gone from the file."""
        is_bad = self.recorder.forget_where(changed, renews=renews)
        held = self._indexed.get(key)
        functions = [] if held is None else held[1].all_functions
        places = {each.place for each in functions}
        for memo in (self._files, self._handing):
            memo.forget(is_bad)
            for place in [each for each in memo if each[0] == key and each[1:] not in places]:
                del memo[place]
        for file, reachable in self._reachability.items():
            for function in [
                each for each, (_, node) in reachable.items() if is_bad(node) or (file == key and each not in places)
            ]:
                del reachable[function]
        present = {*functions, *(each for found in _lambdas(held) for each in found)}
        for other, (_, index) in self._indexed.items():
            stays: Callable[[object], bool] = (
                (lambda question: present.issuperset(functions_in(question))) if other == key else _always
            )
            index.forget(is_bad, stays)
        for analyzed in filter(None, self._analyzed_files.values()):
            analyzed.forget(is_bad)


def _answer(parts: Parts, question: Question) -> object:
    kind, _, *texts = question
    return parts.placed(kind.removeprefix(OF_FILE), *texts)


def _lambdas(held: tuple[Source, Any] | None) -> list[Any]:
    return [] if held is None else list(dict.values(held[1].lambdas))


def _always(question: object) -> bool:
    return True


def _are_alike(one: FileSymbols | None, other: FileSymbols | None) -> bool:
    """Whether two texts have the same symbols."""
    return one is not None and other is not None and one._replace(digest="") == other._replace(digest="")
