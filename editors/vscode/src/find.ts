// Where the server is: what a setting names, else in the interpreter's environment, else on PATH.

import { type ExecFileException, execFile } from "node:child_process";
import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join } from "node:path";
import type { StartSettings } from "./settings";

export interface Command {
  readonly command: string;
  readonly args: readonly string[];
}

/** A command that may be the server, and how it was come by. */
interface Candidate extends Command {
  readonly origin: string;
}

export interface Found extends Command {
  readonly kind: "found";
  readonly origin: string;
}

export interface Missing {
  readonly kind: "missing";
  /** What was tried, and why it is no server. */
  readonly message: string;
  /** The command that installs it. */
  readonly install: string;
}

/** Why a command is no server; undefined where it is one. */
export type Probe = (command: Command) => Promise<string | undefined>;

const EXTRA = "/path/to/torchperf-lint[server]";
const PATIENCE = 60_000; // milliseconds; the first start of an environment on a slow disk takes seconds

export async function findServer(
  settings: StartSettings,
  interpreter: string | undefined,
  search: string,
  probe: Probe,
): Promise<Found | Missing> {
  const candidates = candidatesOf(settings, interpreter, search);
  const tried: string[] = [];
  for (const { command, args, origin } of candidates) {
    const why = await probe({ command, args: [...args, "server", "--check"] });
    if (why === undefined) {
      return { kind: "found", command, args: [...args, "server", ...settings.args], origin };
    }
    tried.push(`${origin} (${command}): ${why}`);
  }
  if (!settings.path && !settings.interpreter && !candidates.some((each) => each.origin === ON_PATH)) {
    tried.push(`${ON_PATH}: there is no torchperf-lint`);
  }
  const python = settings.interpreter || interpreter || "python";
  return {
    kind: "missing",
    message: `The server of torchperf-lint was not found. ${tried.join("; ")}.`,
    install: `${/[^\w./\\:~-]/.test(python) ? `"${python}"` : python} -m pip install "${EXTRA}"`,
  };
}

const ON_PATH = "on PATH";

function candidatesOf(settings: StartSettings, interpreter: string | undefined, search: string): Candidate[] {
  if (settings.path) {
    return [{ command: settings.path, args: [], origin: "the setting torchperfLint.path" }];
  }
  if (settings.interpreter) {
    return [ofInterpreter(settings.interpreter, "the setting torchperfLint.interpreter")];
  }
  const candidates: Candidate[] = [];
  if (interpreter !== undefined) {
    candidates.push(ofInterpreter(interpreter, "the chosen Python interpreter"));
  }
  const command = onPath("torchperf-lint", search);
  if (command !== undefined) {
    candidates.push({ command, args: [], origin: ON_PATH });
  }
  return candidates;
}

function ofInterpreter(interpreter: string, origin: string): Candidate {
  return { command: interpreter, args: ["-m", "torchperf_lint"], origin };
}

/** The file of a command in the folders that `search` lists. */
export function onPath(name: string, search: string): string | undefined {
  const file = process.platform === "win32" ? `${name}.exe` : name;
  return search
    .split(delimiter)
    .filter((folder) => folder !== "")
    .map((folder) => join(folder, file))
    .find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** Runs the command in `folder`, and reads what it says. */
export function probeIn(folder: string | undefined): Probe {
  return ({ command, args }) =>
    new Promise((resolve) => {
      execFile(command, [...args], { cwd: folder, timeout: PATIENCE, windowsHide: true }, (error, _, errors) => {
        resolve(error === null ? undefined : whyNot(error, errors));
      });
    });
}

function whyNot(error: ExecFileException, errors: string): string {
  if (error.code === "ENOENT") {
    return "there is no such program";
  }
  if (error.killed) {
    return `no answer within ${PATIENCE / 1000} seconds`;
  }
  if (/No module named '?torchperf_lint'?\s*$/.test(errors)) {
    return "torchperf-lint is not installed there";
  }
  const last = errors.trim().split("\n").at(-1)?.trim();
  return last ? last.replace(/\.$/, "") : error.message;
}
