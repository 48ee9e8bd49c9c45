// The whole extension as it is packaged with the real server, and with the real client between them.

import assert from "node:assert/strict";
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import type * as extension from "../src/extension";
import { configure, context, document, manifest, reset, state, Uri, vscode, withPython } from "./vscode";

const { activate, deactivate }: typeof extension = require(resolve("dist/extension.js"));
const PYTHON = process.env.TORCHPERF_LINT_PYTHON ?? resolve("../../.venv/bin/python");
const PATIENCE = 30_000;
const LOOP = `def train(model, loader, optimizer):
    model.cuda()
    for images in loader:
        loss = model(images.cuda()).mean()
        loss.backward()
        optimizer.step()
`;

let folder: string;

beforeEach(() => {
  reset();
  folder = realpathSync(mkdtempSync(join(tmpdir(), "torchperf-lint-")));
  writeFileSync(join(folder, "pyproject.toml"), "");
  vscode.workspace.workspaceFolders = [{ uri: Uri.file(folder), name: "folder", index: 0 }];
});

afterEach(async () => {
  await deactivate();
  rmSync(folder, { recursive: true });
});

async function until(condition: () => boolean): Promise<void> {
  const end = Date.now() + PATIENCE;
  while (!condition()) {
    assert.ok(Date.now() < end, `nothing happened; the log is:\n${state.logged.join("\n")}`);
    await new Promise((done) => setTimeout(done, 20));
  }
}

function codes(uri: Uri): unknown[] {
  return (state.diagnostics.get(uri.toString()) ?? []).map((each) => each.code);
}

async function start(): Promise<void> {
  await activate(context as never);
}

test("diagnostics, all safe fixes, settings and pages of a file", async () => {
  const opened = document(Uri.file(join(folder, "train.py")), LOOP);
  vscode.workspace.textDocuments = [opened];
  vscode.window.activeTextEditor = { document: opened, selection: new vscode.Range(0, 0, 0, 0) };
  state.settings.interpreter = PYTHON;
  await start();
  assert.deepEqual(state.messages, []);
  await until(() => codes(opened.uri).length === 1);
  assert.deepEqual(codes(opened.uri), ["TPL203"]);

  await state.commands.get("torchperfLint.fixAll")?.();
  const [made] = state.edits;
  assert.deepEqual([...(made?.edits.keys() ?? [])], [opened.uri.toString()]);
  const [edit] = made?.edits.get(opened.uri.toString()) ?? [];
  assert.equal(edit?.newText, "        loss = model(images.cuda(non_blocking=True)).mean()\n");

  await state.commands.get("torchperfLint.openRule")?.();
  const [[command, page]] = state.executed as [[string, Uri]];
  assert.deepEqual([command, page.toString()], ["markdown.showPreview", "torchperf-lint:TPL203.md"]);
  const [provider] = state.providers.get("torchperf-lint") as [
    { provideTextDocumentContent(uri: Uri): Promise<string> },
  ];
  assert.match(await provider.provideTextDocumentContent(page), /^# TPL203 blocking-h2d-copy\n/);
  assert.match(await provider.provideTextDocumentContent(Uri.parse("torchperf-lint:TPL999.md")), /^There is no page/);

  await configure({ ignore: ["TPL203"] });
  await until(() => codes(opened.uri).length === 0);
  await configure({ ignore: [] });
  await until(() => codes(opened.uri).length === 1);

  const configuration = join(folder, "pyproject.toml");
  writeFileSync(configuration, "[tool.torchperf-lint]\nignore = ['TPL203']\n");
  const watcher = state.watchers.find((each) => each.glob === "**/pyproject.toml");
  await watcher?.onDisk.fire(Uri.file(configuration));
  await until(() => codes(opened.uri).length === 0);
  assert.deepEqual(state.messages, []);
});

test("cells of a notebook", async () => {
  const path = join(folder, "train.ipynb");
  const cells = [LOOP, "print('no finding')"].map((text, index) => ({
    index,
    kind: 2,
    document: document(Uri.parse(`vscode-notebook-cell:${path}#${index}`), text),
    metadata: {},
  }));
  const notebook = {
    uri: Uri.file(path),
    notebookType: "jupyter-notebook",
    version: 1,
    metadata: {},
    getCells: () => cells,
  };
  vscode.workspace.notebookDocuments = [notebook];
  vscode.workspace.textDocuments = cells.map((each) => each.document);
  withPython(PYTHON);
  await start();
  const [first, second] = cells.map((each) => each.document);
  assert.ok(first && second);
  await until(() => codes(first.uri).length === 1 && state.diagnostics.has(second.uri.toString()));
  assert.deepEqual([codes(first.uri), codes(second.uri)], [["TPL203"], []]);
  vscode.window.activeTextEditor = { document: second, selection: new vscode.Range(0, 0, 0, 0) };
  await state.commands.get("torchperfLint.fixAll")?.();
  assert.deepEqual([...(state.edits[0]?.edits.keys() ?? [])], [first.uri.toString()]);
  assert.deepEqual(state.messages, []);
});

test("the commands are those of the manifest, and the server can start again", async () => {
  state.settings.interpreter = PYTHON;
  await start();
  const named = manifest.contributes.commands.map((each: { command: string }) => each.command).sort();
  const registered = [...state.commands.keys()].filter((name) => name.startsWith("torchperfLint."));
  assert.deepEqual(registered.sort(), named);
  state.logged.length = 0;
  await state.commands.get("torchperfLint.restart")?.();
  assert.equal(state.logged.filter((line) => line.includes("torchperf_lint server")).length, 1);
  await configure({ enable: false });
  await state.commands.get("torchperfLint.fixAll")?.();
  assert.deepEqual(state.messages, ["The server of torchperf-lint is not running."]);
});
