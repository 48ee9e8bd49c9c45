// A session that finds no server, or may not start one.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { activate, deactivate } from "../src/extension";
import { configure, context, reset, state, withPython } from "./vscode";

const INSTALL = `/nowhere/python -m pip install "/path/to/torchperf-lint[server]"`;

beforeEach(() => {
  reset();
  state.settings.interpreter = "/nowhere/python";
});
afterEach(deactivate);

async function start(): Promise<void> {
  await activate(context as never);
}

test("the message tells how to install it, and copies the command", async () => {
  state.answer = "Copy Command";
  await start();
  const [message] = state.messages;
  assert.match(
    message ?? "",
    /^The server of torchperf-lint was not found\. .*: there is no such program\. To install/,
  );
  assert.ok(message?.endsWith(INSTALL));
  assert.equal(state.copied, INSTALL);
});

test("the message leads to the settings and to the output", async () => {
  state.answer = "Open Settings";
  await start();
  assert.deepEqual(state.executed, [["workbench.action.openSettings", "torchperfLint"]]);
  state.answer = "Show Output";
  await state.commands.get("torchperfLint.restart")?.();
  assert.equal(state.shown, 1);
  await state.commands.get("torchperfLint.showOutput")?.();
  assert.equal(state.shown, 2);
});

test("nothing is started where it is off, and other settings start nothing again", async () => {
  state.settings.enable = false;
  await start();
  await configure({ select: ["TPL1"] });
  assert.deepEqual(state.messages, []);
  await configure({ enable: true });
  assert.equal(state.messages.length, 1);
});

test("another interpreter starts it again, unless a setting names one", async () => {
  withPython("/nowhere/else/python");
  await start();
  await state.interpreter.fire(undefined);
  assert.equal(state.messages.length, 1);
  await configure({ interpreter: "" });
  await state.interpreter.fire(undefined);
  assert.equal(state.messages.length, 3);
  assert.ok(state.messages[2]?.includes("the chosen Python interpreter (/nowhere/else/python)"));
});

test("a Python extension that fails is as good as none", async () => {
  state.settings.path = "/nowhere/torchperf-lint";
  state.extensions["ms-python.python"] = { isActive: true, exports: { environments: {} } };
  await start();
  assert.ok(state.messages[0]?.includes("the setting torchperfLint.path (/nowhere/torchperf-lint)"));
  assert.ok(state.messages[0]?.endsWith(`python -m pip install "/path/to/torchperf-lint[server]"`));
});
