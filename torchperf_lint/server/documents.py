"""The documents of a session: what was found in each version, and when a text is due to be judged."""

from __future__ import annotations

import asyncio
import io
import os
import tokenize
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from torchperf_lint.adopt.baseline import BadBaseline
from torchperf_lint.config import BadConfig
from torchperf_lint.engine.findings import Failure
from torchperf_lint.engine.mishaps import told
from torchperf_lint.engine.runner import FileReport
from torchperf_lint.server.options import Options, Run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from typing import TypeVar

    from torchperf_lint.config import Settings
    from torchperf_lint.server.judge import Judge, Text

    _R = TypeVar("_R")

AFTERWARDS = 1.0
"""Seconds without a change after which the other open documents are judged again: a change may concern them."""


class Judged(NamedTuple):
    """The report of one version of a document, and the text that its places refer to."""

    version: int | None
    text: Text
    settings: Settings
    report: FileReport
    tried: bool = False  # whether its fixes are those that can be made


class Documents:
    """The open documents. All calls come from the event loop; the judge works in one thread beside it."""

    def __init__(self, judge: Judge, publish: Callable[[str, Judged], None], complain: Callable[[str], None]) -> None:
        """`publish` is given each new report with the document's URI, `complain` a line for the user."""
        self.options = Options()
        self._judge = judge
        self._publish = publish
        self._complain = complain
        self._thread = ThreadPoolExecutor(1, "judge")
        self._open: dict[str, tuple[int | None, Text]] = {}
        self._judged: dict[str, Judged] = {}
        self._settings: dict[str, Settings] = {}  # by folder, as they were when its configuration could last be read
        self._state = 0  # counts what makes reports of texts that have not changed out of date
        self._due: dict[str, asyncio.Task[None]] = {}
        self._afterwards: asyncio.Task[None] | None = None
        self._complaints: set[str] = set()

    def put(self, uri: str, version: int | None, text: Text, *, typed: bool = False) -> None:
        """A document is open with this text; `typed`: it is not saved yet."""
        is_new = uri not in self._open
        self._open[uri] = version, text
        if typed and self.options.run is Run.ON_SAVE:
            return
        self._schedule(uri, 0.0 if is_new else self.options.delay / 1000)
        self._schedule_others(uri)

    async def close(self, uri: str) -> None:
        """A document is closed."""
        _, text = self._open.pop(uri, (None, None))
        self._judged.pop(uri, None)
        if uri in self._due:
            self._due.pop(uri).cancel()
        if text is not None and text.path is not None and text.cells is None:
            await self._in_thread(lambda: self._judge.close(text.path or ""))

    async def changed_on_disk(self, paths: Iterable[str]) -> None:
        """Files have changed on disk."""
        changed = list(paths)
        await self._in_thread(lambda: self._judge.changed(changed))
        self.judge_all()

    async def start_again(self) -> None:
        """Options or folders have changed: nothing that is known of projects holds any more."""
        await self._in_thread(self._judge.forget)
        self._settings.clear()
        self._complaints.clear()
        self.judge_all()

    def judge_all(self) -> None:
        """Judge all open documents again."""
        self._outdate(self._open)
        for uri in self._open:
            self._schedule(uri, self.options.delay / 1000)

    async def judged(self, uri: str, *, tried: bool = False) -> Judged | None:
        """The report of the document's present text; where `tried`, its fixes can be made. None if it is closed."""
        if uri not in self._open:
            return None
        version, text = self._open[uri]
        state = self._state
        known = self._judged.get(uri)
        if known is not None and known.text == text:
            found = known
        else:
            found = await self._in_thread(lambda: self._report(version, text))
        if tried and not found.tried:
            report = found
            found = await self._in_thread(lambda: self._tried(report))
        if self._open.get(uri) == (version, text) and self._state == state:
            self._judged[uri] = found
        return found

    async def fixed(self, judged: Judged) -> bytes:
        """The text with all safe fixes made."""
        return await self._in_thread(lambda: self._fixed(judged))

    # -- in time -------------------------------------------------------------------------------------------------------

    def _schedule(self, uri: str, delay: float) -> None:
        if uri in self._due:
            self._due[uri].cancel()
        self._due[uri] = asyncio.ensure_future(self._judge_after(uri, delay))

    def _schedule_others(self, changed: str) -> None:
        if self._afterwards is not None:
            self._afterwards.cancel()
        self._afterwards = asyncio.ensure_future(self._judge_others(changed))

    async def _judge_after(self, uri: str, delay: float) -> None:
        await asyncio.sleep(delay)
        judged = await self.judged(uri)
        if judged is not None and self._open.get(uri) == (judged.version, judged.text):
            self._publish(uri, judged)

    async def _judge_others(self, changed: str) -> None:
        await asyncio.sleep(max(AFTERWARDS, self.options.delay / 1000))
        others = [uri for uri in self._open if uri != changed]
        self._outdate(others)
        for uri in others:  # one by one, so that the next change need not wait for all of them
            await self._judge_after(uri, 0.0)

    def _outdate(self, concerned: Iterable[str]) -> None:
        self._state += 1
        for uri in concerned:
            self._judged.pop(uri, None)

    def _in_thread(self, work: Callable[[], _R]) -> Awaitable[_R]:
        """Work of the judge; where the request is cancelled before its turn comes, it is not done."""
        return asyncio.get_running_loop().run_in_executor(self._thread, work)

    # -- in the judge's thread -----------------------------------------------------------------------------------------

    def _report(self, version: int | None, text: Text) -> Judged:
        path = text.path or "untitled"
        self._judge.put(text)
        folder = os.path.dirname(path)
        try:
            settings = self._settings[folder] = self.options.settings(text.path or os.curdir)
        except BadConfig as error:
            self._tell(str(error.failure))
            if folder not in self._settings:
                return Judged(version, text, self.options._replace(isolated=True).settings(path), FileReport(), True)
            settings = self._settings[folder]
        try:
            report = self._judge.report(text, settings)
        except BadBaseline as error:
            self._tell(str(error.failure))
            return Judged(version, text, settings, FileReport(), True)
        except Exception as error:
            report = FileReport((), Failure(path, None, None, told({"": error})))
        return Judged(version, text, settings, report)

    def _fixed(self, judged: Judged) -> bytes:
        try:
            return self._judge.fixed(judged.text, judged.settings)
        except BadBaseline as error:
            self._tell(str(error.failure))
            return judged.text.data

    def _tried(self, judged: Judged) -> Judged:
        try:
            report = self._judge.offers(judged.text, judged.settings, judged.report)
        except Exception as error:
            self._tell(told({"": error}))
            bare = tuple(each._replace(fix=None) for each in judged.report.diagnostics)
            report = judged.report._replace(diagnostics=bare)
        return judged._replace(report=report, tried=True)

    def _tell(self, line: str) -> None:
        if line not in self._complaints:  # the next text would be complained of in the same words
            self._complaints.add(line)
            self._complain(line)


def encoded(text: str) -> bytes:
    """The bytes of a text in the encoding that its cookie names."""
    data = text.encode(errors="replace")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return text.encode(encoding, errors="replace")
    except (SyntaxError, LookupError, UnicodeError):
        return data
