// What the user can ask for by name.

import {
  commands,
  type Diagnostic,
  languages,
  type QuickPickItem,
  type TextDocumentContentProvider,
  type TextEditor,
  Uri,
  window,
  workspace,
} from "vscode";
import {
  type CodeAction,
  CodeActionRequest,
  CodeActionResolveRequest,
  Command,
  ExecuteCommandRequest,
  type LanguageClient,
} from "vscode-languageclient/node";
import { SERVER_SECTION } from "./settings";

/** The kind of the action that makes all safe fixes. */
export const FIX_ALL = "source.fixAll.torchperf-lint";

/** The command of the server that answers a code with a page. */
export const PAGE = "torchperf-lint.page";

/** The scheme of documents that are pages. */
export const PAGE_SCHEME = "torchperf-lint";

const NO_SERVER = "The server of torchperf-lint is not running.";
const NO_FILE = "No Python file is open in front.";

/** Make all safe fixes of the document in front. */
export async function fixAll(client: LanguageClient | undefined): Promise<void> {
  const editor = window.activeTextEditor;
  const reason = whyNot(client, editor);
  if (client === undefined || editor === undefined || reason !== undefined) {
    void window.showWarningMessage(`${reason}`);
    return;
  }
  const uri = client.code2ProtocolConverter.asUri(editor.document.uri);
  const everywhere = { start: { line: 0, character: 0 }, end: { line: editor.document.lineCount, character: 0 } };
  const actions = await client.sendRequest(CodeActionRequest.type, {
    textDocument: { uri },
    range: everywhere,
    context: { diagnostics: [], only: [FIX_ALL] },
  });
  const offered = actions?.find((each): each is CodeAction => !Command.is(each) && each.kind === FIX_ALL);
  if (offered === undefined) {
    void window.showInformationMessage("torchperf-lint has no safe fix here.");
    return;
  }
  const { edit } = offered.edit ? offered : await client.sendRequest(CodeActionResolveRequest.type, offered);
  const made = edit && (await workspace.applyEdit(await client.protocol2CodeConverter.asWorkspaceEdit(edit)));
  if (!made) {
    void window.showWarningMessage("The fixes of torchperf-lint were not made: the text has changed.");
  }
}

/** Show the page of a rule: the one that is given, or one of those that the document in front breaks. */
export async function openRule(client: LanguageClient | undefined, given?: string): Promise<void> {
  const editor = window.activeTextEditor;
  const reason = given === undefined ? whyNot(client, editor) : client === undefined ? NO_SERVER : undefined;
  if (reason !== undefined) {
    void window.showWarningMessage(reason);
    return;
  }
  const code = given ?? (editor && (await chosenCode(editor)));
  if (code !== undefined) {
    await commands.executeCommand("markdown.showPreview", Uri.parse(`${PAGE_SCHEME}:${code}.md`));
  }
}

/** The pages, as documents that are only read. */
export function pages(client: () => LanguageClient | undefined): TextDocumentContentProvider {
  return {
    async provideTextDocumentContent(uri: Uri): Promise<string> {
      const code = uri.path.replace(/\.md$/, "");
      const asked = { command: PAGE, arguments: [code] };
      const page: unknown = await client()?.sendRequest(ExecuteCommandRequest.type, asked);
      return typeof page === "string" ? page : `There is no page of ${code}. ${client() ? "" : NO_SERVER}`;
    },
  };
}

function whyNot(client: LanguageClient | undefined, editor: TextEditor | undefined): string | undefined {
  if (client === undefined) {
    return NO_SERVER;
  }
  return editor?.document.languageId === "python" ? undefined : NO_FILE;
}

/** A code of a finding where the cursor is; elsewhere, of any finding in the document. */
async function chosenCode(editor: TextEditor): Promise<string | undefined> {
  const found = languages.getDiagnostics(editor.document.uri).filter((each) => each.source === SERVER_SECTION);
  const here = found.filter((each) => each.range.intersection(editor.selection) !== undefined);
  const items = itemsOf(here.length > 0 ? here : found);
  if (items.length === 0) {
    void window.showInformationMessage("torchperf-lint has no finding here.");
    return undefined;
  }
  const chosen = items.length === 1 ? items[0] : await window.showQuickPick(items, { title: "The page of a rule" });
  return chosen?.label;
}

function itemsOf(found: readonly Diagnostic[]): QuickPickItem[] {
  const items = new Map<string, QuickPickItem>();
  for (const each of found) {
    if (typeof each.code === "string" && !items.has(each.code)) {
      items.set(each.code, { label: each.code, detail: each.message });
    }
  }
  return [...items.values()].sort((one, other) => one.label.localeCompare(other.label));
}
