// Stands for the module `vscode`, which only the editor has: it is loaded before the tests.
//
// What the tests look at is here. For every other name there is a class, an event or a registration that does nothing.

import { readFileSync } from "node:fs";
import Module from "node:module";
import { pathToFileURL } from "node:url";

export const manifest = JSON.parse(readFileSync("package.json", "utf8"));

type Listener = (value: unknown) => unknown;

class Disposable {
  constructor(readonly dispose: () => void = () => {}) {}
}

class EventEmitter {
  private readonly listeners = new Set<Listener>();
  readonly event = (listener: Listener, self?: unknown) => {
    const bound = self === undefined ? listener : listener.bind(self);
    this.listeners.add(bound);
    return new Disposable(() => this.listeners.delete(bound));
  };

  async fire(value: unknown): Promise<void> {
    for (const each of [...this.listeners]) {
      await each(value);
    }
  }

  dispose(): void {
    this.listeners.clear();
  }
}

class Position {
  constructor(
    readonly line: number,
    readonly character: number,
  ) {}
}

function order(one: Position, other: Position): number {
  return one.line - other.line || one.character - other.character;
}

export class Range {
  readonly start: Position;
  readonly end: Position;

  constructor(...places: [Position, Position] | [number, number, number, number]) {
    if (places.length === 2) {
      [this.start, this.end] = places;
    } else {
      this.start = new Position(places[0], places[1]);
      this.end = new Position(places[2], places[3]);
    }
  }

  intersection(other: Range): Range | undefined {
    const start = order(this.start, other.start) > 0 ? this.start : other.start;
    const end = order(this.end, other.end) < 0 ? this.end : other.end;
    return order(start, end) > 0 ? undefined : new Range(start, end);
  }
}

export class Uri {
  private constructor(
    readonly scheme: string,
    readonly path: string,
    readonly fragment: string,
  ) {}

  static parse(text: string): Uri {
    const [, scheme = "", path = "", fragment = ""] = /^([\w-]+):(?:\/\/)?([^#]*)#?(.*)$/.exec(text) ?? [];
    return new Uri(scheme, decodeURIComponent(path), fragment);
  }

  static file(path: string): Uri {
    return Uri.parse(pathToFileURL(path).toString());
  }

  get fsPath(): string {
    return this.path;
  }

  toString(): string {
    const slashes = this.path.startsWith("/") ? "//" : "";
    return `${this.scheme}:${slashes}${encodeURI(this.path)}${this.fragment ? `#${this.fragment}` : ""}`;
  }
}

class WorkspaceEdit {
  readonly edits = new Map<string, { range: Range; newText: string }[]>();

  set(uri: Uri, edits: ({ range: Range; newText: string } | [{ range: Range; newText: string }, unknown])[]): void {
    this.edits.set(
      uri.toString(),
      edits.map((each) => (Array.isArray(each) ? each[0] : each)),
    );
  }
}

class TextEdit {
  constructor(
    readonly range: Range,
    readonly newText: string,
  ) {}
}

class CancellationTokenSource {
  readonly token = { isCancellationRequested: false, onCancellationRequested: new EventEmitter().event };

  cancel(): void {
    this.token.isCancellationRequested = true;
  }

  dispose(): void {}
}

class CodeActionKind {
  static readonly Empty = new CodeActionKind("");

  constructor(readonly value: string) {}

  append(part: string): CodeActionKind {
    return new CodeActionKind(this.value ? `${this.value}.${part}` : part);
  }
}

class Diagnostic {
  source?: string;
  code?: unknown;

  constructor(
    readonly range: Range,
    readonly message: string,
    readonly severity: number,
  ) {}
}

interface TextDocument {
  uri: Uri;
  languageId: string;
  version: number;
  lineCount: number;
  isClosed: boolean;
  isDirty: boolean;
  fileName: string;
  getText(): string;
}

export function document(uri: Uri, text: string, languageId = "python"): TextDocument {
  const lineCount = text.split("\n").length;
  const getText = () => text;
  return { uri, languageId, version: 1, lineCount, isClosed: false, isDirty: false, fileName: uri.fsPath, getText };
}

/** What the tests set, and what the extension has done. */
export const state = {
  settings: {} as Record<string, unknown>,
  commands: new Map<string, (...given: unknown[]) => unknown>(),
  executed: [] as unknown[][],
  messages: [] as string[],
  answer: undefined as unknown,
  copied: "",
  edits: [] as WorkspaceEdit[],
  logged: [] as string[],
  shown: 0,
  diagnostics: new Map<string, Diagnostic[]>(),
  providers: new Map<string, unknown[]>(),
  extensions: {} as Record<string, unknown>,
  configuration: new EventEmitter(),
  watchers: [] as { onDisk: EventEmitter; glob: unknown }[],
  interpreter: new EventEmitter(),
};

/** What an extension is given when it is activated. */
export const context = { subscriptions: [] as Disposable[] };

export function reset(): void {
  for (const each of context.subscriptions.splice(0)) {
    each.dispose();
  }
  Object.assign(state, {
    settings: {},
    executed: [],
    messages: [],
    answer: undefined,
    copied: "",
    edits: [],
    watchers: [],
    logged: [],
    shown: 0,
    extensions: {},
  });
  for (const each of [state.commands, state.diagnostics, state.providers]) {
    each.clear();
  }
  Object.assign(vscode.workspace, { workspaceFolders: undefined, textDocuments: [], notebookDocuments: [] });
  Object.assign(vscode.window, { activeTextEditor: undefined });
}

/** Change settings, and tell of it. */
export async function configure(changed: Record<string, unknown>): Promise<void> {
  Object.assign(state.settings, changed);
  const names = Object.keys(changed).map((name) => `torchperfLint.${name}`);
  const affectsConfiguration = (asked: string) => names.some((name) => `${name}.`.startsWith(`${asked}.`));
  await state.configuration.fire({ affectsConfiguration });
}

/** The Python extension, with this interpreter. */
export function withPython(fsPath: string): void {
  const environments = {
    getActiveEnvironmentPath: () => ({ id: "chosen", path: fsPath }),
    resolveEnvironment: async () => ({ executable: { uri: Uri.file(fsPath) } }),
    onDidChangeActiveEnvironmentPath: state.interpreter.event,
  };
  state.extensions["ms-python.python"] = { isActive: false, activate: async () => ({ environments }) };
}

async function shown(message: string): Promise<unknown> {
  state.messages.push(message);
  return state.answer;
}

function log(line: unknown): void {
  state.logged.push(String(line));
}

/** An object with a harmless member for every name that it lacks. */
function open<T extends object>(members: T): T {
  const others = new Proxy(
    {},
    {
      get: (_, name: string | symbol) => {
        if (typeof name === "symbol" || name === "then") {
          return undefined;
        }
        if (/^on(Did|Will)/.test(name)) {
          return new EventEmitter().event;
        }
        if (/^[A-Z]/.test(name)) {
          return classes(name);
        }
        return (...given: unknown[]) => {
          if (name.startsWith("register")) {
            state.providers.set(name, given);
          }
          return new Disposable();
        };
      },
    },
  );
  return Object.setPrototypeOf(members, others);
}

const made = new Map<string, unknown>();

function classes(name: string): unknown {
  made.set(name, made.get(name) ?? class {});
  return made.get(name);
}

export const vscode = open({
  Disposable,
  EventEmitter,
  Position,
  Range,
  Selection: Range,
  Uri,
  WorkspaceEdit,
  TextEdit,
  CancellationTokenSource,
  CodeActionKind,
  Diagnostic,
  version: "1.91.0",
  DiagnosticSeverity: { Error: 0, Warning: 1, Information: 2, Hint: 3 },
  LogLevel: { Off: 0, Trace: 1, Debug: 2, Info: 3, Warning: 4, Error: 5 },
  NotebookCellKind: { Markup: 1, Code: 2 },
  env: open({
    appName: "Tests",
    language: "en",
    clipboard: {
      writeText: async (text: string) => {
        state.copied = text;
      },
    },
  }),
  extensions: open({
    all: [],
    getExtension: (name: string) => state.extensions[name],
  }),
  commands: open({
    registerCommand: (name: string, work: (...given: unknown[]) => unknown) => {
      state.commands.set(name, work);
      return new Disposable(() => state.commands.delete(name));
    },
    executeCommand: async (...given: unknown[]) => {
      state.executed.push(given);
    },
  }),
  languages: open({
    match: (selector: { scheme?: string; language?: string }[], asked: TextDocument) =>
      [selector].flat().some(({ scheme, language }) => {
        const fits = (scheme ?? asked.uri.scheme) === asked.uri.scheme;
        return fits && (language ?? asked.languageId) === asked.languageId;
      })
        ? 10
        : 0,
    getDiagnostics: (uri: Uri) => state.diagnostics.get(uri.toString()) ?? [],
    createDiagnosticCollection: () => ({
      set: (uri: Uri, found: Diagnostic[] | undefined) => state.diagnostics.set(uri.toString(), found ?? []),
      delete: (uri: Uri) => state.diagnostics.delete(uri.toString()),
      clear: () => state.diagnostics.clear(),
      dispose: () => state.diagnostics.clear(),
    }),
  }),
  window: open({
    activeTextEditor: undefined as unknown,
    visibleTextEditors: [],
    tabGroups: open({ all: [] }),
    createOutputChannel: () =>
      open({
        ...{ info: log, error: log, warn: log, debug: log, trace: log, append: log, appendLine: log },
        logLevel: 3,
        show: () => {
          state.shown += 1;
        },
        dispose: () => {},
      }),
    showErrorMessage: shown,
    showWarningMessage: shown,
    showInformationMessage: shown,
    showQuickPick: async (items: { label: string }[]) => items.find((each) => each.label === state.answer),
  }),
  workspace: open({
    workspaceFolders: undefined as unknown,
    textDocuments: [] as TextDocument[],
    notebookDocuments: [] as unknown[],
    getConfiguration: (section: string) => ({
      get: (name: string, other?: unknown) => {
        const declared = manifest.contributes.configuration.properties[`${section}.${name}`]?.default;
        return name in state.settings ? state.settings[name] : (declared ?? other);
      },
    }),
    onDidChangeConfiguration: state.configuration.event,
    createFileSystemWatcher: (glob: unknown) => {
      const onDisk = new EventEmitter();
      state.watchers.push({ glob, onDisk });
      const never = new EventEmitter().event;
      return { onDidCreate: never, onDidChange: onDisk.event, onDidDelete: never, dispose: () => {} };
    },
    applyEdit: async (edit: WorkspaceEdit) => {
      state.edits.push(edit);
      return true;
    },
    registerTextDocumentContentProvider: (scheme: string, provider: unknown) => {
      state.providers.set(scheme, [provider]);
      return new Disposable();
    },
  }),
});

const loader = Module as unknown as { _load(name: string, ...rest: unknown[]): unknown };
const load = loader._load.bind(Module);
loader._load = (name, ...rest) => (name === "vscode" ? vscode : load(name, ...rest));
