// The settings of the user, and what of them the server is told.

import { homedir } from "node:os";
import { workspace } from "vscode";

export const SECTION = "torchperfLint";

/** The section of the server's configuration that is ours. */
export const SERVER_SECTION = "torchperf-lint";

/** A change of these starts the server again; the others it is told of. */
export const START_SETTINGS = ["enable", "path", "interpreter", "args"] as const;

/** What the server takes as options, by the same names. */
export const SERVER_OPTIONS = [
  "select",
  "extendSelect",
  "ignore",
  "minSeverity",
  "minConfidence",
  "config",
  "isolated",
  "run",
  "delay",
] as const;

export interface StartSettings {
  readonly enable: boolean;
  readonly path: string;
  readonly interpreter: string;
  readonly args: readonly string[];
}

export function startSettings(): StartSettings {
  const configured = workspace.getConfiguration(SECTION);
  return {
    enable: configured.get("enable", true),
    path: expanded(configured.get("path", "")),
    interpreter: expanded(configured.get("interpreter", "")),
    args: configured.get<string[]>("args", []).map(expanded),
  };
}

export function serverOptions(): Record<string, unknown> {
  const configured = workspace.getConfiguration(SECTION);
  const options: Record<string, unknown> = {};
  for (const name of SERVER_OPTIONS) {
    const value = configured.get(name);
    if (value !== undefined && value !== null) {
      options[name] = name === "config" && typeof value === "string" ? expanded(value) : value;
    }
  }
  return options;
}

/** The first folder of the workspace: paths are relative to it. */
export function firstFolder(): string | undefined {
  return workspace.workspaceFolders?.[0]?.uri.fsPath;
}

function expanded(text: string): string {
  return text
    .trim()
    .replace(/^~(?=$|[/\\])/, homedir())
    .replace(/\$\{workspaceFolder\}/g, () => firstFolder() ?? "")
    .replace(/\$\{env:(\w+)\}/g, (_, name: string) => process.env[name] ?? "");
}
