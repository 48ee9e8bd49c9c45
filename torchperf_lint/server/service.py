"""The server's requests and notifications, and what each of them is answered with."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer

from torchperf_lint import __version__
from torchperf_lint.check import described
from torchperf_lint.engine.findings import Diagnostic, Safety
from torchperf_lint.server import convert
from torchperf_lint.server.documents import Documents, Judged
from torchperf_lint.server.judge import Judge
from torchperf_lint.server.options import SECTION, BadOption, options_from
from torchperf_lint.syntax.source import Source, Unreadable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

FIX_ALL = f"{types.CodeActionKind.SourceFixAll.value}.{convert.NAME}"
"""The kind of the action that makes all safe fixes."""

WATCHED = (
    *("**/*.py", "**/.gitignore", "**/pyproject.toml", "**/torchperf-lint.toml", "**/.torchperf-lint.toml"),
    *("**/*baseline*.json", "**/setup.cfg", "**/*requirements*.txt", "**/*.lock"),
)


def serve(*, cached: bool) -> None:
    """Serve on standard input and output until the client says exit."""
    # Duplicates: the library closes its streams. Nothing else may write where the client reads.
    with (
        open(os.dup(sys.stdin.fileno()), "rb") as requests,
        open(os.dup(sys.stdout.fileno()), "wb") as answers,
        contextlib.redirect_stdout(sys.stderr),
    ):
        make_server(cached=cached).start_io(requests, answers)


def make_server(*, cached: bool) -> LanguageServer:
    """A server with all that it answers; `cached` is as for `Judge`."""
    server = LanguageServer(convert.NAME, __version__)
    service = _Service(server, cached)
    answers: dict[str, Callable[[Any], Awaitable[Any]]] = {
        types.INITIALIZE: service.initialize,
        types.INITIALIZED: service.initialized,
        types.TEXT_DOCUMENT_DID_OPEN: service.opened,
        types.TEXT_DOCUMENT_DID_CHANGE: service.changed,
        types.TEXT_DOCUMENT_DID_SAVE: service.saved,
        types.TEXT_DOCUMENT_DID_CLOSE: service.closed,
        types.TEXT_DOCUMENT_HOVER: service.hover,
        types.TEXT_DOCUMENT_CODE_ACTION: service.actions,
        types.CODE_ACTION_RESOLVE: service.resolved,
        types.WORKSPACE_DID_CHANGE_WATCHED_FILES: service.watched,
        types.WORKSPACE_DID_CHANGE_CONFIGURATION: service.configured,
        types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS: service.folders,
    }
    kinds = [types.CodeActionKind.QuickFix, FIX_ALL]
    options = {types.TEXT_DOCUMENT_CODE_ACTION: types.CodeActionOptions(kinds, resolve_provider=True)}
    for name, answer in answers.items():
        server.feature(name, options.get(name))(_as_function(answer))
    return server


def _as_function(answer: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
    """The library sets attributes of what it is given, which a method cannot have."""

    async def function(params: Any) -> Any:
        return await answer(params)

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
        if self._given is None and workspace is not None and workspace.configuration:
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
        self._put(params.text_document.uri)

    async def saved(self, params: types.DidSaveTextDocumentParams) -> None:
        """A text is saved: other files may rest on it."""
        self._put(params.text_document.uri)

    async def closed(self, params: types.DidCloseTextDocumentParams) -> None:
        """A document is closed: its diagnostics go."""
        uri = params.text_document.uri
        await self._documents.close(uri)
        self._server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    def _put(self, uri: str) -> None:
        document = self._server.workspace.get_text_document(uri)
        self._documents.put(uri, document.version, document.source)

    def _publish(self, uri: str, judged: Judged) -> None:
        places = self._places(judged)
        failure = judged.report.failure
        found = [] if places is None else [convert.diagnostic(each, places) for each in judged.report.diagnostics]
        if failure is not None:
            found.append(convert.not_checked(failure))
        self._server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, found, judged.version))

    def _complain(self, line: str) -> None:
        self._server.window_show_message(types.ShowMessageParams(types.MessageType.Warning, line))

    # -- requests ------------------------------------------------------------------------------------------------------

    async def hover(self, params: types.HoverParams) -> types.Hover | None:
        """The findings at a place, each with the page of its rule."""
        judged = await self._documents.judged(params.text_document.uri)
        places = None if judged is None else self._places(judged)
        if judged is None or places is None:
            return None
        here = types.Range(params.position, params.position)
        found = [each for each in judged.report.diagnostics if _meet(places.range(each.start, each.end), here)]
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
        judged = await self._documents.judged(uri, tried=True)
        places = None if judged is None else self._places(judged)
        if judged is None or places is None:
            return []
        found: list[types.CodeAction] = []
        if only is None or any(_covers(each, "quickfix") for each in only):
            here = [
                each
                for each in judged.report.diagnostics
                if each.fix is not None
                and each.fix.safety is not Safety.SHOWN
                and _meet(places.range(each.start, each.end), params.range)
            ]
            here.sort(key=lambda each: each.fix.safety.rank if each.fix is not None else 0)
            found += (self._quick_fix(uri, judged, each, places) for each in here)
        fixable = any(each.fix is not None and each.fix.safety is Safety.SAFE for each in judged.report.diagnostics)
        if fixable and (only is None or any(_covers(each, FIX_ALL) for each in only)):
            action = types.CodeAction("Make all safe fixes (torchperf-lint)", FIX_ALL, data={"uri": uri})
            # Editors that ask for this kind alone, as on saving, may apply the answer as it is.
            found.append(action if only is None and self._resolves() else await self.resolved(action))
        return found

    async def resolved(self, action: types.CodeAction) -> types.CodeAction:
        """The action that makes all safe fixes, with its edits."""
        data = _plain(action.data)
        judged = await self._documents.judged(data["uri"]) if isinstance(data, dict) and "uri" in data else None
        places = None if judged is None else self._places(judged)
        if judged is not None and places is not None:
            after = await self._documents.fixed(judged)
            edits = convert.changes(_source(judged), after, places)
            action.edit = self._edit(data["uri"], judged, edits)
        return action

    def _quick_fix(self, uri: str, judged: Judged, found: Diagnostic, places: convert.Places) -> types.CodeAction:
        assert found.fix is not None
        return types.CodeAction(
            convert.title(found),
            types.CodeActionKind.QuickFix,
            [convert.diagnostic(found, places)],
            is_preferred=found.fix.safety is Safety.SAFE,
            edit=self._edit(uri, judged, places.edits(found.fix.edits)),
        )

    def _edit(self, uri: str, judged: Judged, edits: list[types.TextEdit]) -> types.WorkspaceEdit:
        """Edits of the version that was judged; a client that knows versions refuses them for another one."""
        workspace = self._server.client_capabilities.workspace
        if workspace is not None and workspace.workspace_edit and workspace.workspace_edit.document_changes:
            document = types.OptionalVersionedTextDocumentIdentifier(uri, judged.version)
            return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(document, list(edits))])
        return types.WorkspaceEdit(changes={uri: edits})

    def _resolves(self) -> bool:
        """Whether the client asks for the edits of an action when it is chosen."""
        document = self._server.client_capabilities.text_document
        action = None if document is None else document.code_action
        support = None if action is None else action.resolve_support
        return support is not None and "edit" in support.properties

    def _places(self, judged: Judged) -> convert.Places | None:
        try:
            return convert.Places(_source(judged), self._server.workspace.position_encoding)
        except Unreadable:
            return None


def _source(judged: Judged) -> Source:
    return Source(judged.text.path or "untitled", judged.text.data)


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
