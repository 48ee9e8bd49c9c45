"""Measures how long an editor waits for the language server: a real server on its pipes, and a text that changes.

The first figure is from opening a file to its diagnostics: the first look at the project, without a cache. Then each
change is sent when the diagnostics of the last one are there, and the time until its own are there is taken, without
the server's delay (which is set to 0). `number at the end` and `new name at the end` change the last row: a new name
asks the whole project anew. `in a function` changes a row of the function in the middle of the file, `new row in a
function` adds rows there, so that all below moves. Then quick fixes for the whole file, and a hover.
Wall time: medians, and the slowest. Without `--file`, the file is a script of 1,000 lines with a training loop after
every third network, in a project of its own.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from latency import long_file
from linter import CHECKOUT
from lsprotocol import types
from pygls.lsp.client import LanguageClient

PATIENCE = 300
"""Seconds for one answer."""


class Editor:
    """A client with one document."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.client = LanguageClient("benchmark", "1")
        self.version = 0
        self._told: dict[int, asyncio.Future[int]] = {}
        self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(self._as_function())

    def _as_function(self):  # type: ignore[no-untyped-def]
        def told(params: types.PublishDiagnosticsParams) -> None:
            waiting = self._told.get(params.version or 0)
            if params.uri == self.path.as_uri() and waiting is not None and not waiting.done():
                waiting.set_result(len(params.diagnostics))

        return told

    async def start(self, root: Path) -> None:
        """Start a server for a folder."""
        environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
        arguments = ["-m", "torchperf_lint", "server", "--no-cache"]
        await self.client.start_io(sys.executable, *arguments, env=environment)
        await self.client.initialize_async(
            types.InitializeParams(
                capabilities=types.ClientCapabilities(),
                root_uri=root.as_uri(),
                initialization_options={"delay": 0},
            )
        )
        self.client.initialized(types.InitializedParams())

    async def put(self, text: str) -> tuple[float, int]:
        """Send the text; seconds until its diagnostics are there, and their number."""
        self.version += 1
        self._told[self.version] = asyncio.get_running_loop().create_future()
        start = time.perf_counter()
        if self.version == 1:
            item = types.TextDocumentItem(self.path.as_uri(), "python", 1, text)
            self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        else:
            document = types.VersionedTextDocumentIdentifier(version=self.version, uri=self.path.as_uri())
            change = types.TextDocumentContentChangeWholeDocument(text)
            self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))
        found = await asyncio.wait_for(self._told[self.version], PATIENCE)
        return time.perf_counter() - start, found

    async def actions(self, rows: int) -> float:
        """Seconds until the quick fixes of all rows are there."""
        whole = types.Range(types.Position(0, 0), types.Position(rows, 0))
        context = types.CodeActionContext([], only=["quickfix"])
        document = types.TextDocumentIdentifier(self.path.as_uri())
        start = time.perf_counter()
        await self.client.text_document_code_action_async(types.CodeActionParams(document, whole, context))
        return time.perf_counter() - start

    async def hover(self) -> float:
        """Seconds until the first row is answered."""
        document = types.TextDocumentIdentifier(self.path.as_uri())
        start = time.perf_counter()
        await self.client.text_document_hover_async(types.HoverParams(document, types.Position(0, 0)))
        return time.perf_counter() - start


def changed_inside(text: str, run: int, *, adds: bool) -> str:
    """The text with another comment behind the last row of the function in its middle, or with more rows there."""
    rows = text.split("\n")
    functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
    last = min((each.body[-1] for each in functions), key=lambda node: abs(node.lineno - len(rows) // 2))
    begin, end = last.lineno - 1, last.end_lineno or last.lineno
    if adds:
        return "\n".join([*rows[:begin], *[" " * last.col_offset + "pass"] * (run + 1), *rows[begin:]])
    return "\n".join([*rows[: end - 1], f"{rows[end - 1]}  # {run}", *rows[end:]])


def report(name: str, seconds: list[float]) -> None:
    print(f"{name:<28}{1000 * statistics.median(seconds):>9.0f} ms{1000 * max(seconds):>9.0f} ms")


async def measure(path: Path, root: Path, runs: int) -> None:
    text = path.read_text(encoding="utf-8")
    editor = Editor(path)
    await editor.start(root)
    rows = text.count("\n")
    first, found = await editor.put(text)
    print(f"{path.name}: {rows} lines, {found} findings; median and slowest of {runs}")
    report("first look at the project", [first])
    changes = {
        "number at the end": lambda run: f"{text}\nchanged = {run}\n",
        "new name at the end": lambda run: f"{text}\nchanged_{run} = 0\n",
        "in a function": lambda run: changed_inside(text, run, adds=False),
        "new row in a function": lambda run: changed_inside(text, run, adds=True),
    }
    for name, change in changes.items():
        report(name, [(await editor.put(change(run)))[0] for run in range(runs)])
    fixes = []
    for run in range(runs):
        await editor.put(f"{text}\nchanged = {run}\n")
        fixes.append(await editor.actions(rows))
    report("quick fixes of the file", fixes)
    report("hover", [await editor.hover() for _ in range(runs)])
    await editor.client.shutdown_async(None)
    editor.client.exit(None)
    await editor.client.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--file", type=Path, help="a file of a project, instead of the made one")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        path = options.file
        if path is None:
            (Path(scratch) / "pyproject.toml").touch()
            path = Path(scratch) / "long.py"
            path.write_text(long_file(3), encoding="utf-8")
        asyncio.run(measure(path.resolve(), path.resolve().parent, options.runs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
