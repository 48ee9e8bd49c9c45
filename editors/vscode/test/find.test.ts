// Where the server is found, in which order, and what is said where it is not.

import assert from "node:assert/strict";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { after, before, test } from "node:test";
import { type Command, type Found, findServer, type Missing, onPath, probeIn } from "../src/find";

const NOTHING = { enable: true, path: "", interpreter: "", args: [] };

let folder: string;
let command: string;

before(() => {
  folder = mkdtempSync(join(tmpdir(), "torchperf-lint-"));
  const name = process.platform === "win32" ? "torchperf-lint.exe" : "torchperf-lint";
  mkdirSync(join(folder, "first", name), { recursive: true }); // a folder of that name is no command
  mkdirSync(join(folder, "second"));
  command = join(folder, "second", name);
  writeFileSync(command, "");
  chmodSync(command, 0o755);
});

after(() => rmSync(folder, { recursive: true }));

function search(): string {
  return ["", join(folder, "first"), join(folder, "nowhere"), join(folder, "second")].join(delimiter);
}

async function found(settings: object, python?: string, path = search(), works = /./): Promise<Found | Missing> {
  const probe = async (asked: Command) => {
    assert.deepEqual(asked.args.slice(-2), ["server", "--check"]);
    return works.test(asked.command) ? undefined : "it is broken";
  };
  return findServer({ ...NOTHING, ...settings }, python, path, probe);
}

test("a setting comes first, then the chosen interpreter, then PATH", async () => {
  const given = { path: "/a/lint", interpreter: "/a/python", args: ["--no-cache"] };
  const commands = [
    await found(given, "/b/python"),
    await found({ ...given, path: "" }, "/b/python"),
    await found({}, "/b/python"),
    await found({}),
  ].map((each) => (each.kind === "found" ? [each.command, ...each.args].join(" ") : each.message));
  assert.deepEqual(commands, [
    "/a/lint server --no-cache",
    "/a/python -m torchperf_lint server --no-cache",
    "/b/python -m torchperf_lint server",
    `${command} server`,
  ]);
});

test("the command on PATH stands in for an interpreter without it, and never for a setting", async () => {
  const stood = await found({}, "/b/python", search(), /torchperf-lint/);
  assert.equal(stood.kind === "found" && stood.command, command);
  const missing = await found({ interpreter: "/a/python" }, "/b/python", search(), /torchperf-lint/);
  assert.equal(missing.kind, "missing");
});

test("where it is missing, what was tried is told, and how to install it", async () => {
  const cases: [object, string | undefined, string, string][] = [
    [{}, undefined, "on PATH: there is no torchperf-lint", "python"],
    [
      {},
      "/my env/python",
      "the chosen Python interpreter (/my env/python): it is broken; on PATH: there is no torchperf-lint",
      '"/my env/python"',
    ],
    [{ path: "/a/lint" }, "/b/python", "the setting torchperfLint.path (/a/lint): it is broken", "/b/python"],
    [
      { interpreter: "/a/python" },
      undefined,
      "the setting torchperfLint.interpreter (/a/python): it is broken",
      "/a/python",
    ],
  ];
  for (const [settings, python, tried, installer] of cases) {
    assert.deepEqual(await found(settings, python, "", /nothing/), {
      kind: "missing",
      message: `The server of torchperf-lint was not found. ${tried}.`,
      install: `${installer} -m pip install "/path/to/torchperf-lint[server]"`,
    });
  }
});

test("PATH is searched in its order, for files that can be run", () => {
  assert.equal(onPath("torchperf-lint", search()), command);
  assert.equal(onPath("torchperf-lint", ""), undefined);
});

test("a program that fails says why", async () => {
  const probe = probeIn(undefined);
  const told = (program: string) => probe({ command: process.execPath, args: ["-e", program] });
  assert.equal(await told(""), undefined);
  assert.equal(await told("console.error('first\\nlast.\\n'); process.exit(2)"), "last");
  const absent = "console.error('/bin/python: No module named torchperf_lint'); process.exit(1)";
  assert.equal(await told(absent), "torchperf-lint is not installed there");
  assert.match((await told("process.exit(3)")) ?? "", /^Command failed/);
  assert.equal(await probe({ command: join(folder, "nowhere"), args: [] }), "there is no such program");
});
