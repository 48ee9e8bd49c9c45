// Settings: what starts the server, and what the server is told.

import assert from "node:assert/strict";
import { homedir } from "node:os";
import { beforeEach, test } from "node:test";
import { SERVER_OPTIONS, serverOptions, startSettings } from "../src/settings";
import { reset, state, Uri, vscode } from "./vscode";

beforeEach(reset);

test("without settings, the server is told what the manifest has by default", () => {
  assert.deepEqual(startSettings(), { enable: true, path: "", interpreter: "", args: [] });
  assert.deepEqual(serverOptions(), { extendSelect: [], ignore: [], isolated: false, run: "onType", delay: 200 });
});

test("what is set is handed on by its name", () => {
  const settings = { select: ["TPL1"], minSeverity: "error", minConfidence: "proven", run: "onSave", delay: 5 };
  Object.assign(state.settings, settings, { args: ["--no-cache"], enable: false });
  assert.deepEqual(serverOptions(), { extendSelect: [], ignore: [], isolated: false, ...settings });
  assert.deepEqual(startSettings(), { enable: false, path: "", interpreter: "", args: ["--no-cache"] });
  assert.ok(Object.keys(settings).every((name) => (SERVER_OPTIONS as readonly string[]).includes(name)));
});

test("places in paths are filled in", () => {
  vscode.workspace.workspaceFolders = [{ uri: Uri.file("/project") }];
  process.env.TORCHPERF_LINT_TEST = "/environment";
  Object.assign(state.settings, {
    path: "~/bin/torchperf-lint",
    interpreter: " $" + "{env:TORCHPERF_LINT_TEST}/bin/python ",
    args: ["$" + "{env:NOTHING_OF_THAT_NAME}", "a~b"],
    config: "$" + "{workspaceFolder}/lint.toml",
  });
  assert.deepEqual(startSettings(), {
    enable: true,
    path: `${homedir()}/bin/torchperf-lint`,
    interpreter: "/environment/bin/python",
    args: ["", "a~b"],
  });
  assert.equal(serverOptions().config, "/project/lint.toml");
});
