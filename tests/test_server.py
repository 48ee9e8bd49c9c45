"""The language server, by a real client: what an editor sees while a text changes, and what it can do about it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import pytest_lsp
from lsprotocol import types
from pygls.protocol import default_converter
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

from linting import ROOT
from test_api import HELPER, TRAIN
from torchperf_lint import __version__

PATIENCE = 60
"""Seconds that a busy machine may take."""

LOOP = """\
import torch


def train(model, loader, optimizer):
    model.cuda()
    for images in loader:
        images = images.cuda()
        name = "𝔸"; loss = model(images).mean(); print(name, loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
SERVER = [sys.executable, "-m", "torchperf_lint", "server", "--no-cache"]


class Editor:
    """A client with its documents."""

    def __init__(self, client: LanguageClient, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self._versions: dict[str, int] = {}

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    async def start(self, *folders: Path, options: object = None, **capabilities: object) -> types.InitializeResult:
        given = client_capabilities("visual-studio-code")
        for name, value in capabilities.items():
            setattr(given, name, value)
        roots = [types.WorkspaceFolder(each.as_uri(), each.name) for each in folders or [self.folder]]
        parameters = types.InitializeParams(
            capabilities=given, workspace_folders=roots, initialization_options={} if options is None else options
        )
        return await self.client.initialize_session(parameters)

    async def open(self, name: str, text: str) -> None:
        item = types.TextDocumentItem(self.uri(name), "python", 1, text)
        self._versions[name] = 1
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def change(self, name: str, text: str) -> int:
        self._versions[name] += 1
        document = types.VersionedTextDocumentIdentifier(version=self._versions[name], uri=self.uri(name))
        whole = types.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [whole]))
        return self._versions[name]

    async def until(self, name: str, codes: list[str]) -> list[types.Diagnostic]:
        """Wait until the diagnostics of a document have these codes."""
        return await self.until_uri(self.uri(name), codes)

    async def until_uri(self, uri: str, codes: list[str]) -> list[types.Diagnostic]:
        async with asyncio.timeout(PATIENCE) if sys.version_info >= (3, 11) else contextlib.nullcontext():
            while True:
                found = self.client.diagnostics.get(uri)
                if found is not None and [each.code for each in found] == codes:
                    return list(found)
                await asyncio.sleep(0.02)

    async def actions(self, name: str, place: types.Range, *only: str) -> list[types.CodeAction]:
        return await self.actions_of(self.uri(name), place, *only)

    async def actions_of(self, uri: str, place: types.Range, *only: str) -> list[types.CodeAction]:
        context = types.CodeActionContext([], only=list(only) or None)
        params = types.CodeActionParams(types.TextDocumentIdentifier(uri), place, context)
        return [
            each
            for each in await self.client.text_document_code_action_async(params) or []
            if isinstance(each, types.CodeAction)
        ]

    def on_disk(self, name: str, kind: types.FileChangeType) -> None:
        event = types.FileEvent(self.uri(name), kind)
        self.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([event]))


@pytest_lsp.fixture(
    config=ClientServerConfig(server_command=SERVER, server_env={**os.environ, "PYTHONPATH": str(ROOT)})
)
async def client(lsp_client: LanguageClient):
    lsp_client.feature(types.CLIENT_REGISTER_CAPABILITY)(lambda params: None)
    yield
    await lsp_client.shutdown_session()


@pytest.fixture
def editor(client: LanguageClient, tmp_path: Path) -> Editor:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'p'\n", encoding="utf-8")
    (tmp_path / "transfer.py").write_text(HELPER, encoding="utf-8")
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    return Editor(client, tmp_path)


def applied(text: str, edits: list[types.TextEdit]) -> str:
    """The text after the edits; its positions count UTF-16 units."""
    rows = text.splitlines(keepends=True)

    def offset(place: types.Position) -> int:
        row = rows[place.line] if place.line < len(rows) else ""
        units = row.encode("utf-16-le")[: 2 * place.character]
        return sum(map(len, rows[: place.line])) + len(units.decode("utf-16-le"))

    for edit in sorted(edits, key=lambda edit: offset(edit.range.start), reverse=True):
        text = text[: offset(edit.range.start)] + edit.new_text + text[offset(edit.range.end) :]
    return text


def edits_of(action: types.CodeAction) -> list[types.TextEdit]:
    assert action.edit is not None
    (change,) = action.edit.document_changes or []
    assert isinstance(change, types.TextDocumentEdit)
    return [each for each in change.edits if isinstance(each, types.TextEdit)]


def whole(text: str) -> types.Range:
    return types.Range(types.Position(0, 0), types.Position(text.count("\n"), 0))


@pytest.mark.asyncio
async def test_text_is_judged_with_the_project_while_it_changes(editor):
    await editor.start()
    await editor.open("transfer.py", HELPER)
    (found,) = await editor.until("transfer.py", ["TPL203"])
    assert found.range == types.Range(types.Position(1, 11), types.Position(1, 22))
    assert found.severity is types.DiagnosticSeverity.Error
    assert {Path(each.location.uri).name for each in found.related_information} == {"train.py"}
    editor.change("transfer.py", HELPER.replace(".cuda()", ""))
    await editor.until("transfer.py", [])
    editor.change("transfer.py", f"\n{HELPER}")
    (found,) = await editor.until("transfer.py", ["TPL203"])
    assert found.range.start.line == 2


@pytest.mark.asyncio
async def test_an_unsaved_text_counts_for_the_other_documents(editor):
    await editor.start()
    await editor.open("transfer.py", HELPER)
    await editor.until("transfer.py", ["TPL203"])
    await editor.open("train.py", TRAIN.replace("on_gpu(pixels)", "pixels"))
    await editor.until("transfer.py", [])
    editor.client.text_document_did_close(
        types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(editor.uri("train.py")))
    )
    editor.change("transfer.py", f"{HELPER}# the file of train.py counts again\n")
    await editor.until("transfer.py", ["TPL203"])


@pytest.mark.asyncio
async def test_quick_fixes_by_grade_and_all_safe_ones(editor):
    await editor.start()
    await editor.open("loop.py", LOOP)
    await editor.until("loop.py", ["TPL203", "TPL105"])
    actions = await editor.actions("loop.py", whole(LOOP), "quickfix")
    assert [(each.title, each.is_preferred) for each in actions] == [("Copy without waiting (TPL203)", True)]
    assert applied(LOOP, edits_of(actions[0])) == LOOP.replace("images.cuda()", "images.cuda(non_blocking=True)")
    (every,) = await editor.actions("loop.py", whole(LOOP), "source.fixAll")
    assert every.kind == "source.fixAll.torchperf-lint"
    assert applied(LOOP, edits_of(every)) == LOOP.replace("images.cuda()", "images.cuda(non_blocking=True)")
    assert not await editor.actions("loop.py", whole(LOOP), "refactor")
    elsewhere = types.Range(types.Position(0, 0), types.Position(0, 0))
    assert [each.kind for each in await editor.actions("loop.py", elsewhere)] == ["source.fixAll.torchperf-lint"]


@pytest.mark.asyncio
async def test_an_unsafe_fix_says_so_and_is_not_preferred(editor):
    await editor.start(options={"select": ["TPL201"]})
    text = LOOP.replace("loss.item()", 'torch.ones(3).to("cuda")').replace("images.cuda()", "images")
    await editor.open("loop.py", text)
    await editor.until("loop.py", ["TPL201"])
    safe_or_not = [(each.title, each.is_preferred) for each in await editor.actions("loop.py", whole(text), "quickfix")]
    assert len(safe_or_not) == 1
    assert safe_or_not[0][1] == ("unsafe" not in safe_or_not[0][0])


@pytest.mark.asyncio
async def test_columns_are_those_of_the_client(editor):
    await editor.start()
    await editor.open("loop.py", LOOP)
    found = await editor.until("loop.py", ["TPL203", "TPL105"])
    line = LOOP.splitlines()[7]
    units = len(line[: line.index("loss.item()")].encode("utf-16-le")) // 2
    assert found[1].range.start == types.Position(7, units)


@pytest.mark.asyncio
async def test_hover_has_the_evidence_and_the_page(editor):
    await editor.start()
    await editor.open("transfer.py", HELPER)
    place = types.TextDocumentIdentifier(editor.uri("transfer.py"))
    hover = await editor.client.text_document_hover_async(types.HoverParams(place, types.Position(1, 15)))
    assert "train.py, row 8: `on_gpu` is called here in every step" in hover.contents.value
    assert "# TPL203 blocking-h2d-copy" in hover.contents.value
    assert await editor.client.text_document_hover_async(types.HoverParams(place, types.Position(0, 0))) is None


@pytest.mark.asyncio
async def test_files_that_change_on_disk_count(editor):
    await editor.start()
    await editor.open("transfer.py", HELPER)
    await editor.until("transfer.py", ["TPL203"])
    (editor.folder / "train.py").unlink()
    editor.on_disk("train.py", types.FileChangeType.Deleted)
    await editor.until("transfer.py", [])
    (editor.folder / "again.py").write_text(TRAIN, encoding="utf-8")
    editor.on_disk("again.py", types.FileChangeType.Created)
    await editor.until("transfer.py", ["TPL203"])
    (editor.folder / "pyproject.toml").write_text("[tool.torchperf-lint]\nignore = ['TPL203']\n", encoding="utf-8")
    editor.on_disk("pyproject.toml", types.FileChangeType.Changed)
    await editor.until("transfer.py", [])


@pytest.mark.asyncio
async def test_options_of_the_editor(editor):
    await editor.start(options={"settings": {"ignore": ["TPL2"]}})
    await editor.open("transfer.py", HELPER)
    await editor.until("transfer.py", [])
    given = types.DidChangeConfigurationParams({"torchperf-lint": {"ignore": []}})
    editor.client.workspace_did_change_configuration(given)
    await editor.until("transfer.py", ["TPL203"])
    given = types.DidChangeConfigurationParams({"torchperf-lint": {"ignored": ["TPL2"]}})
    editor.client.workspace_did_change_configuration(given)
    while not editor.client.messages:
        await asyncio.sleep(0.02)
    assert "there is no option `ignored`" in editor.client.messages[0].message


@pytest.mark.asyncio
@pytest.mark.parametrize("can", [False, True])
async def test_only_a_client_that_can_be_asked_is_asked_for_options(editor, can):
    asked = []
    editor.client.get_configuration = lambda **item: asked.append(item) or {"ignore": ["TPL2"]}
    await editor.start(options={}, workspace=types.WorkspaceClientCapabilities(configuration=can))
    await editor.open("transfer.py", HELPER)
    await editor.until("transfer.py", ["TPL203"])
    editor.client.workspace_did_change_configuration(types.DidChangeConfigurationParams(None))
    await editor.until("transfer.py", [] if can else ["TPL203"])
    editor.change("transfer.py", "")
    await editor.until("transfer.py", [])
    assert len(asked) == can


@pytest.mark.asyncio
async def test_configuration_that_cannot_be_read_is_told_once(editor):
    (editor.folder / "pyproject.toml").write_text("[tool.torchperf-lint]\nselected = []\n", encoding="utf-8")
    await editor.start()
    await editor.open("transfer.py", HELPER)
    await editor.until("transfer.py", [])
    editor.change("transfer.py", HELPER + "\n")
    await editor.actions("transfer.py", whole(HELPER))
    (message,) = editor.client.messages
    assert "pyproject.toml: error: [tool.torchperf-lint] has no key `selected`" in message.message


@pytest.mark.asyncio
async def test_configuration_that_breaks_leaves_what_the_last_good_one_showed(editor):
    place = editor.folder / "pyproject.toml"
    place.write_text("[tool.torchperf-lint]\nignore = ['TPL203']\n", encoding="utf-8")
    await editor.start(options={"delay": 0})
    await editor.open("loop.py", LOOP)
    await editor.until("loop.py", ["TPL105"])
    place.write_text("[tool.torchperf-lint]\nignore = ['TPL203'\n", encoding="utf-8")
    editor.on_disk("pyproject.toml", types.FileChangeType.Changed)
    editor.change("loop.py", LOOP.replace(", loss.item()", ""))
    await editor.until("loop.py", [])
    editor.change("loop.py", LOOP)
    await editor.until("loop.py", ["TPL105"])
    (message,) = editor.client.messages
    assert "pyproject.toml" in message.message
    assert "is not TOML" in message.message
    place.write_text("", encoding="utf-8")
    editor.on_disk("pyproject.toml", types.FileChangeType.Changed)
    await editor.until("loop.py", ["TPL203", "TPL105"])


@pytest.mark.asyncio
async def test_two_folders_are_two_projects(editor, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "pyproject.toml").write_text("[tool.torchperf-lint]\nignore = ['TPL203']\n", encoding="utf-8")
    await editor.start(editor.folder, other)
    await editor.open("loop.py", LOOP)
    await editor.until("loop.py", ["TPL203", "TPL105"])
    second = Editor(editor.client, other)
    await second.open("loop.py", LOOP)
    await second.until("loop.py", ["TPL105"])


@pytest.mark.asyncio
async def test_broken_and_unsaved_texts(editor):
    await editor.start()
    await editor.open("loop.py", "def (\n")
    (found,) = await editor.until("loop.py", [None])
    assert found.message.startswith("not checked: syntax error")
    item = types.TextDocumentItem("untitled:Untitled-1", "python", 1, LOOP)
    editor.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
    while "untitled:Untitled-1" not in editor.client.diagnostics:
        await asyncio.sleep(0.02)
    assert [each.code for each in editor.client.diagnostics["untitled:Untitled-1"]] == ["TPL203", "TPL105"]


@pytest.mark.asyncio
async def test_a_cancelled_request_is_answered_and_the_next_one_too(editor):
    await editor.start()
    await editor.open("loop.py", LOOP)
    place = types.TextDocumentIdentifier(editor.uri("loop.py"))
    asked = types.HoverParams(place, types.Position(6, 20))
    request = editor.client.protocol.send_request(types.TEXT_DOCUMENT_HOVER, asked, msg_id="first")
    editor.client.cancel_request(types.CancelParams("first"))
    with pytest.raises(Exception, match=r"(?i)cancel"):
        await asyncio.wrap_future(request)
    assert "TPL203" in (await editor.client.text_document_hover_async(asked)).contents.value


@pytest.mark.asyncio
async def test_only_the_last_of_many_changes_is_judged(editor):
    await editor.start(options={"delay": 300})
    await editor.open("transfer.py", HELPER)
    await editor.until("transfer.py", ["TPL203"])
    published = []
    editor.client.feature  # noqa: B018 - the client keeps the last diagnostics only, so versions are watched
    for count in range(5):
        last = editor.change("transfer.py", "\n" * (count + 1) + HELPER)
    while not published or published[-1] != 6:
        found = await editor.until("transfer.py", ["TPL203"])
        if not published or published[-1] != found[0].range.start.line:
            published.append(found[0].range.start.line)
        await asyncio.sleep(0.01)
    assert (published, last) == ([1, 6], 6)


@pytest.mark.asyncio
async def test_milder_findings_are_left_out(editor):
    await editor.start(options={"minSeverity": "error"})
    await editor.open("loop.py", LOOP)
    await editor.until("loop.py", ["TPL203", "TPL105"])
    given = types.DidChangeConfigurationParams({"select": ["TPL201"], "minSeverity": "error"})
    editor.client.workspace_did_change_configuration(given)
    await editor.until("loop.py", [])


@pytest.mark.asyncio
async def test_where_saving_counts_nothing_is_judged_while_typing(editor):
    await editor.start(options={"run": "onSave", "delay": 0})
    await editor.open("transfer.py", HELPER)
    await editor.until("transfer.py", ["TPL203"])
    editor.change("transfer.py", HELPER.replace(".cuda()", ""))
    await editor.open("loop.py", LOOP)  # judged after the change, by the same thread
    await editor.until("loop.py", ["TPL203", "TPL105"])
    assert [each.code for each in editor.client.diagnostics[editor.uri("transfer.py")]] == ["TPL203"]
    assert not await editor.actions("transfer.py", whole(HELPER))  # what is asked for is of the present text
    place = types.TextDocumentIdentifier(editor.uri("transfer.py"))
    editor.client.text_document_did_save(types.DidSaveTextDocumentParams(place))
    await editor.until("transfer.py", [])


@pytest.mark.asyncio
async def test_the_page_of_a_rule_is_answered(editor):
    started = await editor.start()
    assert list(started.capabilities.execute_command_provider.commands) == ["torchperf-lint.page"]
    for code, begins in (("TPL203", "# TPL203 blocking-h2d-copy"), ("TPL999", None)):
        asked = types.ExecuteCommandParams("torchperf-lint.page", [code])
        page = await editor.client.workspace_execute_command_async(asked)
        assert page is None if begins is None else page.startswith(begins)


INITIALIZE = {"processId": None, "rootUri": None, "capabilities": client_capabilities("visual-studio-code")}
BEGIN = [(types.INITIALIZE, INITIALIZE), (types.INITIALIZED, {})]
HOVER = (types.TEXT_DOCUMENT_HOVER, {"textDocument": {"uri": "file:///a.py"}, "position": {"line": 0, "character": 0}})


def session(*said: tuple[str, object]) -> tuple[int, dict[str, dict[str, object]], str]:
    """The exit status after these messages, the answers by method, and what stands on standard error."""
    data = b""
    for method, params in (*BEGIN, *said):
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if method not in (types.INITIALIZED, types.EXIT):
            message["id"] = method
        body = json.dumps(message, default=default_converter().unstructure).encode()
        data += b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    done = subprocess.run(SERVER, cwd=ROOT, input=data, capture_output=True, check=False, timeout=PATIENCE)
    bodies = map(json.loads, re.findall(rb"\r\n\r\n(.*?)(?=Content-Length|\Z)", done.stdout, re.DOTALL))
    return done.returncode, {each["id"]: each for each in bodies if "id" in each}, done.stderr.decode()


def test_a_session_that_is_shut_down_ends_well_and_answers_nothing_more():
    status, answers, told = session((types.SHUTDOWN, None), HOVER, (types.EXIT, None))
    assert (status, told) == (0, "")
    assert answers[types.SHUTDOWN]["result"] is None
    assert answers[types.TEXT_DOCUMENT_HOVER]["error"]["code"] == -32600, "invalid request"


@pytest.mark.parametrize("end", [[], [(types.EXIT, None)]])
def test_a_session_that_breaks_off_is_an_error_without_a_traceback(end):
    status, _, told = session(*end)
    assert (status, told) == (1, "")


@pytest.mark.parametrize("check", [[], ["--check"]])
def test_without_pygls_there_is_one_line(check):
    program = (
        "import sys; sys.modules['pygls'] = None\n"
        "import importlib.util; importlib.util.find_spec = lambda name: None\n"
        f"from torchperf_lint.cli import main; sys.exit(main(['server', *{check}]))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "torchperf-lint: error: the server needs pygls: pip install 'torchperf-lint[server]'\n"


def test_a_client_can_ask_whether_the_server_starts():
    done = subprocess.run([*SERVER, "--check"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"torchperf-lint {__version__}\n", "")
