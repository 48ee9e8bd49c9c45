// The commands, with a server that answers what a test says.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import type { LanguageClient } from "vscode-languageclient/node";
import { fixAll, openRule } from "../src/commands";
import { document, Range, reset, state, Uri, vscode } from "./vscode";

const URI = Uri.file("/project/train.py");

beforeEach(reset);

function answering(...answers: unknown[]): LanguageClient & { asked: unknown[] } {
  const asked: unknown[] = [];
  return {
    asked,
    code2ProtocolConverter: { asUri: (uri: Uri) => uri.toString() },
    protocol2CodeConverter: { asWorkspaceEdit: async (edit: unknown) => edit },
    sendRequest: async (_: unknown, params: unknown) => {
      asked.push(params);
      return answers.shift();
    },
  } as unknown as LanguageClient & { asked: unknown[] };
}

function inFront(languageId = "python"): void {
  vscode.window.activeTextEditor = {
    document: document(URI, "import torch\n\n", languageId),
    selection: new Range(1, 0, 1, 0),
  };
}

function finding(code: string, row: number, source = "torchperf-lint"): void {
  const found = Object.assign(new vscode.Diagnostic(new Range(row, 0, row, 5), `about ${code}`, 1), { code, source });
  state.diagnostics.set(URI.toString(), [...(state.diagnostics.get(URI.toString()) ?? []), found]);
}

test("without a server or a Python file there is a message", async () => {
  await fixAll(undefined);
  await openRule(undefined, "TPL101");
  await fixAll(answering());
  inFront("markdown");
  await openRule(answering());
  const [server, file] = ["The server of torchperf-lint is not running.", "No Python file is open in front."];
  assert.deepEqual(state.messages, [server, server, file, file]);
  assert.deepEqual(state.executed, []);
});

test("all safe fixes are asked for the whole document and made", async () => {
  inFront();
  const action = { title: "", kind: "source.fixAll.torchperf-lint", edit: "the edit" };
  const client = answering([{ title: "a command", command: "x" }, { title: "", kind: "quickfix" }, action]);
  await fixAll(client);
  assert.deepEqual(client.asked, [
    {
      textDocument: { uri: URI.toString() },
      range: { start: { line: 0, character: 0 }, end: { line: 3, character: 0 } },
      context: { diagnostics: [], only: ["source.fixAll.torchperf-lint"] },
    },
  ]);
  assert.deepEqual(state.edits, ["the edit"]);
  await fixAll(answering([{ ...action, edit: undefined }], action));
  assert.deepEqual(state.edits, ["the edit", "the edit"]);
});

test("where nothing is to be fixed, or the text has changed, there is a message", async () => {
  inFront();
  await fixAll(answering([]));
  await fixAll(answering(null));
  await fixAll(answering([{ title: "", kind: "source.fixAll.torchperf-lint" }], {}));
  const [none, changed] = ["torchperf-lint has no safe fix here.", "The fixes of torchperf-lint were not made"];
  assert.deepEqual(
    state.messages.map((each) => each.split(":")[0]),
    [none, none, changed],
  );
});

test("the page of the finding at the cursor is opened, else of one that is chosen", async () => {
  inFront();
  await openRule(answering());
  assert.deepEqual(state.messages, ["torchperf-lint has no finding here."]);
  finding("F401", 1, "ruff");
  finding("TPL203", 0);
  finding("TPL101", 1);
  finding("TPL101", 1);
  await openRule(answering());
  finding("TPL105", 1);
  state.answer = "TPL105";
  await openRule(answering());
  state.answer = undefined; // nothing is chosen
  await openRule(answering());
  await openRule(answering(), "TPL801");
  assert.deepEqual(
    state.executed.map(([command, uri]) => `${command} ${uri}`),
    ["TPL101", "TPL105", "TPL801"].map((code) => `markdown.showPreview torchperf-lint:${code}.md`),
  );
});
