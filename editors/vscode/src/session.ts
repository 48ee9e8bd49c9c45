// The running server: started, stopped and told of settings in turn.

import { commands, env, type LogOutputChannel, Uri, window } from "vscode";
import {
  DidChangeConfigurationNotification,
  LanguageClient,
  type LanguageClientOptions,
  RevealOutputChannelOn,
} from "vscode-languageclient/node";
import { type Found, findServer, type Missing, probeIn } from "./find";
import { activeInterpreter } from "./python";
import { firstFolder, SECTION, SERVER_SECTION, serverOptions, startSettings } from "./settings";

/** The scheme of documents that are cells. */
const NOTEBOOK_CELL = "vscode-notebook-cell";

const COPY = "Copy Command";
const SETTINGS = "Open Settings";
const OUTPUT = "Show Output";

export class Session {
  client: LanguageClient | undefined;
  private turn: Promise<void> = Promise.resolve();

  constructor(private readonly output: LogOutputChannel) {}

  /** Start the server, or start it again. */
  restart(): Promise<void> {
    return this.inTurn(async () => {
      await this.end();
      await this.begin();
    });
  }

  stop(): Promise<void> {
    return this.inTurn(() => this.end());
  }

  /** Tell the server of settings that need no new start. */
  tell(): Promise<void> {
    return this.inTurn(async () => {
      await this.client?.sendNotification(DidChangeConfigurationNotification.type, {
        settings: { [SERVER_SECTION]: serverOptions() },
      });
    });
  }

  private inTurn(work: () => Promise<void>): Promise<void> {
    this.turn = this.turn.then(work).catch((error: unknown) => {
      this.output.error(error instanceof Error ? error : String(error));
    });
    return this.turn;
  }

  private async begin(): Promise<void> {
    const settings = startSettings();
    if (!settings.enable) {
      this.output.info("off by the setting torchperfLint.enable");
      return;
    }
    const folder = firstFolder();
    const interpreter = await activeInterpreter(folder === undefined ? undefined : Uri.file(folder));
    const found = await findServer(settings, interpreter, process.env.PATH ?? "", probeIn(folder));
    if (found.kind === "missing") {
      void this.complain(found);
      return;
    }
    this.output.info(`${found.origin}: ${[found.command, ...found.args].join(" ")}`);
    const client = makeClient(found, folder, this.output);
    this.client = client;
    try {
      await client.start();
    } catch (error) {
      this.client = undefined;
      this.output.error(error instanceof Error ? error : String(error));
      void window.showErrorMessage(`The server of torchperf-lint did not start: ${error}`);
    }
  }

  private async end(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    if (client?.needsStop()) {
      await client.stop();
    }
  }

  private async complain(missing: Missing): Promise<void> {
    this.output.error(missing.message);
    this.output.info(`to install it from a checkout: ${missing.install}`);
    const message = `${missing.message} To install it from a checkout: ${missing.install}`;
    const chosen = await window.showErrorMessage(message, COPY, SETTINGS, OUTPUT);
    if (chosen === COPY) {
      await env.clipboard.writeText(missing.install);
    } else if (chosen === SETTINGS) {
      await commands.executeCommand("workbench.action.openSettings", SECTION);
    } else if (chosen === OUTPUT) {
      this.output.show();
    }
  }
}

function makeClient(found: Found, folder: string | undefined, output: LogOutputChannel): LanguageClient {
  const options: LanguageClientOptions = {
    documentSelector: ["file", "untitled", NOTEBOOK_CELL].map((scheme) => ({ scheme, language: "python" })),
    initializationOptions: serverOptions(),
    diagnosticCollectionName: SERVER_SECTION,
    outputChannel: output,
    traceOutputChannel: output,
    revealOutputChannelOn: RevealOutputChannelOn.Never,
  };
  const started = {
    command: found.command,
    args: [...found.args],
    options: folder === undefined ? {} : { cwd: folder },
  };
  return new LanguageClient(SECTION, SERVER_SECTION, started, options);
}
