// The extension: its session with the server, its commands, and what it follows while it is active.

import { commands, type ExtensionContext, window, workspace } from "vscode";
import { fixAll, openRule, PAGE_SCHEME, pages } from "./commands";
import { onInterpreterChange } from "./python";
import { Session } from "./session";
import { SECTION, START_SETTINGS, startSettings } from "./settings";

let session: Session | undefined;

export async function activate(context: ExtensionContext): Promise<void> {
  const output = window.createOutputChannel("torchperf-lint", { log: true });
  const begun = new Session(output);
  session = begun;
  context.subscriptions.push(
    output,
    commands.registerCommand("torchperfLint.restart", () => begun.restart()),
    commands.registerCommand("torchperfLint.showOutput", () => output.show()),
    commands.registerCommand("torchperfLint.fixAll", () => fixAll(begun.client)),
    commands.registerCommand("torchperfLint.openRule", (code?: string) => openRule(begun.client, code)),
    workspace.registerTextDocumentContentProvider(
      PAGE_SCHEME,
      pages(() => begun.client),
    ),
    workspace.onDidChangeConfiguration(async (change) => {
      if (START_SETTINGS.some((name) => change.affectsConfiguration(`${SECTION}.${name}`))) {
        await begun.restart();
      } else if (change.affectsConfiguration(SECTION)) {
        await begun.tell();
      }
    }),
  );
  await begun.restart();
  const following = await onInterpreterChange(async () => {
    const { path, interpreter } = startSettings();
    if (!path && !interpreter) {
      await begun.restart();
    }
  });
  if (following !== undefined) {
    context.subscriptions.push(following);
  }
}

export async function deactivate(): Promise<void> {
  await session?.stop();
  session = undefined;
}
