"""The server's requests and notifications, and what each of them is answered with."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer

from torchperf_lint import __version__
from torchperf_lint.check import described
from torchperf_lint.engine.findings import Safety
from torchperf_lint.engine.names import is_notebook
from torchperf_lint.server import convert
from torchperf_lint.server.documents import Documents, Judged, encoded
from torchperf_lint.server.judge import Cell, Judge, Text
from torchperf_lint.server.options import SECTION, BadOption, options_from
from torchperf_lint.server.parts import Edited, Found, Parts, notebook_of
from torchperf_lint.server.protocol import Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

PAGE = f"{convert.NAME}.page"
"""The command that answers a rule's code with the rule's page."""

NOTEBOOKS = types.NotebookDocumentSyncOptions(
    [types.NotebookDocumentFilterWithNotebook(types.NotebookDocumentFilterNotebookType("jupyter-notebook"))], save=True
)
"""All cells are asked for, those of text too: cells are told by their number."""

FIX_ALL = f"{types.CodeActionKind.SourceFixAll.value}.{convert.NAME}"
"""The kind of the action that makes all safe fixes."""

WATCHED = (
    *("**/*.py", "**/.gitignore", "**/pyproject.toml", "**/torchperf-lint.toml", "**/.torchperf-lint.toml"),
    *("**/*baseline*.json", "**/setup.cfg", "**/*requirements*.txt", "**/*.lock"),
)


def serve(*, cached: bool) -> bool:
    """Serve on standard input and output until the client says exit; return whether it has shut down before that."""
    server = make_server(cached=cached)
    # Duplicates: the library closes its streams. Nothing else may write where the client reads.
    with (
        open(os.dup(sys.stdin.fileno()), "rb") as requests,
        open(os.dup(sys.stdout.fileno()), "wb") as answers,
        contextlib.redirect_stdout(sys.stderr),
    ):
        server.start_io(requests, answers)
    return isinstance(server.protocol, Protocol) and server.protocol.is_shut_down


def make_server(*, cached: bool) -> LanguageServer:
    """A server with all that it answers; `cached` is as for `Judge`."""
    server = LanguageServer(convert.NAME, __version__, notebook_document_sync=NOTEBOOKS, protocol_cls=Protocol)
    service = _Service(server, cached)
    requests: dict[str, Callable[[Any], Awaitable[Any]]] = {
        types.INITIALIZE: service.initialize,
        types.TEXT_DOCUMENT_HOVER: service.hover,
        types.TEXT_DOCUMENT_CODE_ACTION: service.actions,
        types.CODE_ACTION_RESOLVE: service.resolved,
    }
    notifications: dict[str, Callable[[Any], Awaitable[None]]] = {
        types.INITIALIZED: service.initialized,
        types.TEXT_DOCUMENT_DID_OPEN: service.opened,
        types.TEXT_DOCUMENT_DID_CHANGE: service.changed,
        types.TEXT_DOCUMENT_DID_SAVE: service.saved,
        types.TEXT_DOCUMENT_DID_CLOSE: service.closed,
        types.NOTEBOOK_DOCUMENT_DID_OPEN: service.notebook_opened,
        types.NOTEBOOK_DOCUMENT_DID_CHANGE: service.notebook_changed,
        types.NOTEBOOK_DOCUMENT_DID_SAVE: service.notebook_saved,
        types.NOTEBOOK_DOCUMENT_DID_CLOSE: service.notebook_closed,
        types.WORKSPACE_DID_CHANGE_WATCHED_FILES: service.watched,
        types.WORKSPACE_DID_CHANGE_CONFIGURATION: service.configured,
        types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS: service.folders,
    }
    kinds = [types.CodeActionKind.QuickFix, FIX_ALL]
    options = {types.TEXT_DOCUMENT_CODE_ACTION: types.CodeActionOptions(kinds, resolve_provider=True)}
    for name, answer in requests.items():
        server.feature(name, options.get(name))(_as_function(answer))
    for name, hear in notifications.items():
        server.feature(name)(_heard(hear))
    server.command(PAGE)(_page)
    return server


def _page(code: str) -> str | None:
    about = described(code)
    return about.page if about is not None and about.page else None


def _as_function(answer: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
    """The library sets attributes of what it is given, which a method cannot have."""

    async def function(params: Any) -> Any:
        return await answer(params)

    return function


def _heard(hear: Callable[[Any], Awaitable[None]]) -> Callable[[Any], Awaitable[None]]:
    """The same for a notification, which is cancelled only where the session ends: then no one is to be told."""

    async def function(params: Any) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await hear(params)

    return function


class _Service:
    def __init__(self, server: LanguageServer, cached: bool) -> None:
        self._server = server
        self._given: Any = None
        self._documents = Documents(Judge(cached=cached), self._publish, self._complain)

    # -- the session ---------------------------------------------------------------------------------------------------

    async def initialize(self, params: types.InitializeParams) -> None:
        """A session begins."""
        self._given = params.initialization_options

    async def initialized(self, params: types.InitializedParams) -> None:
        """Read the editor's options, and ask to be told of files that change."""
        workspace = self._server.client_capabilities.workspace
        self._take(self._given)
        if self._given is None:
            await self._ask_for_options()
        watching = None if workspace is None else workspace.did_change_watched_files
        if watching is not None and watching.dynamic_registration:
            watchers = [types.FileSystemWatcher(glob) for glob in WATCHED]
            options = types.DidChangeWatchedFilesRegistrationOptions(watchers)
            registration = types.Registration(convert.NAME, types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
            await self._server.client_register_capability_async(types.RegistrationParams([registration]))

    async def configured(self, params: types.DidChangeConfigurationParams) -> None:
        """The editor's options have changed."""
        if params.settings is None:
            await self._ask_for_options()
        else:
            self._take(_plain(params.settings))
        await self._documents.start_again()

    async def folders(self, params: types.DidChangeWorkspaceFoldersParams) -> None:
        """Folders were added or removed: projects are found by their files, so that nothing is kept of either."""
        await self._documents.start_again()

    async def watched(self, params: types.DidChangeWatchedFilesParams) -> None:
        """Files have changed on disk."""
        paths = [uris.to_fs_path(each.uri) for each in params.changes]
        await self._documents.changed_on_disk(path for path in paths if path is not None)

    async def _ask_for_options(self) -> None:
        """Ask a client that can be asked; of others the options stay as they are."""
        workspace = self._server.client_capabilities.workspace
        if workspace is None or not workspace.configuration:
            return
        item = types.ConfigurationItem(section=SECTION)
        answer = await self._server.workspace_configuration_async(types.ConfigurationParams([item]))
        self._take(_plain(answer[0]) if answer else None)

    def _take(self, plain: object) -> None:
        try:
            self._documents.options = options_from(_plain(plain))
        except BadOption as error:
            self._complain(f"{convert.NAME}: {error}")

    # -- documents -----------------------------------------------------------------------------------------------------

    async def opened(self, params: types.DidOpenTextDocumentParams) -> None:
        """A document is open: it is judged at once."""
        self._put(params.text_document.uri)

    async def changed(self, params: types.DidChangeTextDocumentParams) -> None:
        """A text has changed: it is judged when nothing more is typed."""
        self._put(params.text_document.uri, typed=True)

    async def saved(self, params: types.DidSaveTextDocumentParams) -> None:
        """A text is saved: other files may rest on it."""
        self._put(params.text_document.uri)

    async def closed(self, params: types.DidCloseTextDocumentParams) -> None:
        """A document is closed: its diagnostics go."""
        uri = params.text_document.uri
        await self._documents.close(uri)
        self._clear([uri])

    async def notebook_opened(self, params: types.DidOpenNotebookDocumentParams) -> None:
        """A notebook is open: its cells are judged as one program."""
        self._put_notebook(params.notebook_document.uri)

    async def notebook_changed(self, params: types.DidChangeNotebookDocumentParams) -> None:
        """A text of a cell, or the order of the cells, has changed."""
        cells = params.change.cells
        if cells is not None and cells.structure is not None:
            self._clear(each.uri for each in cells.structure.did_close or ())
        self._put_notebook(params.notebook_document.uri, typed=True)

    async def notebook_saved(self, params: types.DidSaveNotebookDocumentParams) -> None:
        """A notebook is saved."""
        self._put_notebook(params.notebook_document.uri)

    async def notebook_closed(self, params: types.DidCloseNotebookDocumentParams) -> None:
        """A notebook is closed: the diagnostics of its cells go."""
        await self._documents.close(params.notebook_document.uri)
        self._clear(each.uri for each in params.cell_text_documents)

    def _put(self, uri: str, *, typed: bool = False) -> None:
        document = self._server.workspace.get_text_document(uri)
        self._documents.put(uri, document.version, Text(_path(uri), encoded(document.source)), typed=typed)

    def _put_notebook(self, uri: str, *, typed: bool = False) -> None:
        workspace = self._server.workspace
        notebook = workspace.get_notebook_document(notebook_uri=uri)
        if notebook is None:
            return
        documents = [workspace.get_text_document(each.document) for each in notebook.cells]
        is_code = [each.kind == types.NotebookCellKind.Code for each in notebook.cells]
        sources = [
            each.source if code and each.language_id == "python" else None
            for each, code in zip(documents, is_code, strict=True)
        ]
        path, cells = _path(uri), tuple(Cell(each.uri, each.version) for each in documents)
        if path is not None and not is_notebook(path):
            path = f"{path}.ipynb"  # whatever its name, the editor has it as a notebook
        self._documents.put(uri, notebook.version, Text(path, notebook_of(sources), cells), typed=typed)

    def _publish(self, uri: str, judged: Judged) -> None:
        parts = self._parts(uri, judged)
        for part in parts.all:
            places = None if part.source is None else parts.places(part.source)
            found = [convert.diagnostic(each.told, places, parts.uri_of) for each in part.found if places is not None]
            if part.failure is not None:
                found.append(convert.not_checked(*part.failure))
            self._server.text_document_publish_diagnostics(
                types.PublishDiagnosticsParams(part.uri, found, part.version)
            )

    def _clear(self, documents: Iterable[str]) -> None:
        for uri in documents:
            self._server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    def _complain(self, line: str) -> None:
        self._server.window_show_message(types.ShowMessageParams(types.MessageType.Warning, line))

    # -- requests ------------------------------------------------------------------------------------------------------

    async def hover(self, params: types.HoverParams) -> types.Hover | None:
        """The findings at a place, each with the page of its rule."""
        uri = params.text_document.uri
        around = await self._around(uri)
        known = None if around is None else around[1].part(uri)
        if known is None:
            return None
        part, places = known
        here = types.Range(params.position, params.position)
        told = (each.told for each in part.found)
        found = [each for each in told if _meet(places.range(each.start, each.end), here)]
        if not found:
            return None
        pages = {each.code: described(each.code) for each in found}
        texts = [convert.hover(each, about.page if (about := pages[each.code]) else "") for each in found]
        content = types.MarkupContent(types.MarkupKind.Markdown, "\n\n".join(texts))
        return types.Hover(content, places.range(found[0].start, found[0].end))

    async def actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """The fixes in a range, the safe ones first, and the one that makes all safe fixes."""
        only = params.context.only
        uri = params.text_document.uri
        if only is not None and not any(_covers(each, kind) for each in only for kind in ("quickfix", FIX_ALL)):
            return []
        around = await self._around(uri, tried=True)
        if around is None:
            return []
        judged, parts = around
        known = parts.part(uri)
        if known is None:
            return []
        part, places = known
        found: list[types.CodeAction] = []
        if only is None or any(_covers(each, "quickfix") for each in only):
            here = [
                each
                for each in part.found
                if each.judged.fix is not None
                and each.judged.fix.safety is not Safety.SHOWN
                and _meet(places.range(each.told.start, each.told.end), params.range)
            ]
            here.sort(key=lambda each: each.judged.fix.safety.rank if each.judged.fix is not None else 0)
            fixes = (self._quick_fix(each, places, parts) for each in here)
            found += (each for each in fixes if each is not None)
        fixable = any(each.fix is not None and each.fix.safety is Safety.SAFE for each in judged.report.diagnostics)
        if fixable and (only is None or any(_covers(each, FIX_ALL) for each in only)):
            action = types.CodeAction("Make all safe fixes (torchperf-lint)", FIX_ALL, data={"uri": uri})
            # Editors that ask for this kind alone, as on saving, may apply the answer as it is.
            found.append(action if only is None and self._resolves() else await self.resolved(action))
        return found

    async def resolved(self, action: types.CodeAction) -> types.CodeAction:
        """The action that makes all safe fixes, with its edits."""
        data = _plain(action.data)
        around = await self._around(data["uri"]) if isinstance(data, dict) and "uri" in data else None
        if around is not None:
            judged, parts = around
            action.edit = self._edit(parts.changed(await self._documents.fixed(judged)))
        return action

    async def _around(self, uri: str, *, tried: bool = False) -> tuple[Judged, Parts] | None:
        """What was found in a document, or in the notebook around a cell."""
        notebook = self._server.workspace.get_notebook_document(cell_uri=uri)
        whole = uri if notebook is None else notebook.uri
        judged = await self._documents.judged(whole, tried=tried)
        return None if judged is None else (judged, self._parts(whole, judged))

    def _parts(self, uri: str, judged: Judged) -> Parts:
        return Parts(uri, judged, self._server.workspace.position_encoding)

    def _quick_fix(self, found: Found, places: convert.Places, parts: Parts) -> types.CodeAction | None:
        fix = found.judged.fix
        edited = [] if fix is None else parts.fixed(fix)
        if fix is None or not edited:
            return None
        return types.CodeAction(
            convert.title(found.judged),
            types.CodeActionKind.QuickFix,
            [convert.diagnostic(found.told, places, parts.uri_of)],
            is_preferred=fix.safety is Safety.SAFE,
            edit=self._edit(edited),
        )

    def _edit(self, edited: Sequence[Edited]) -> types.WorkspaceEdit:
        """Edits of the versions that were judged; a client that knows versions refuses them for others."""
        workspace = self._server.client_capabilities.workspace
        if workspace is not None and workspace.workspace_edit and workspace.workspace_edit.document_changes:
            return types.WorkspaceEdit(
                document_changes=[
                    types.TextDocumentEdit(types.OptionalVersionedTextDocumentIdentifier(uri, version), list(edits))
                    for uri, version, edits in edited
                ]
            )
        return types.WorkspaceEdit(changes={each.uri: each.edits for each in edited})

    def _resolves(self) -> bool:
        """Whether the client asks for the edits of an action when it is chosen."""
        document = self._server.client_capabilities.text_document
        action = None if document is None else document.code_action
        support = None if action is None else action.resolve_support
        return support is not None and "edit" in support.properties


def _path(uri: str) -> str | None:
    return uris.to_fs_path(uri) if uri.startswith("file:") else None


def _covers(wanted: str, kind: str) -> bool:
    """Whether a kind that a client asks for covers one of ours: `source` covers `source.fixAll.torchperf-lint`."""
    return wanted in ("", kind) or kind.startswith(f"{wanted}.")


def _meet(one: types.Range, other: types.Range) -> bool:
    return _order(one.start) <= _order(other.end) and _order(other.start) <= _order(one.end)


def _order(place: types.Position) -> tuple[int, int]:
    return place.line, place.character


def _plain(value: Any) -> Any:
    """JSON that the protocol's library has made objects of, as plain data again."""
    if hasattr(value, "_asdict"):
        return {name: _plain(each) for name, each in value._asdict().items()}
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
