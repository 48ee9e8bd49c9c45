// The interpreter that the Python extension has chosen, where that extension is installed.

import { type Disposable, extensions, type Uri } from "vscode";

const PYTHON_EXTENSION = "ms-python.python";

/** The part of the extension's interface that is asked. */
interface Environments {
  getActiveEnvironmentPath(resource?: Uri): { id: string; path: string };
  resolveEnvironment(environment: { id: string; path: string }): Promise<Environment | undefined>;
  onDidChangeActiveEnvironmentPath(listener: () => void): Disposable;
}

interface Environment {
  executable: { uri?: { fsPath: string } };
}

async function environments(): Promise<Environments | undefined> {
  const extension = extensions.getExtension<{ environments?: Environments }>(PYTHON_EXTENSION);
  if (extension === undefined) {
    return undefined;
  }
  const made = extension.isActive ? extension.exports : await extension.activate();
  return made?.environments;
}

/** The path of the interpreter; undefined where there is none, or the extension fails. */
export async function activeInterpreter(resource: Uri | undefined): Promise<string | undefined> {
  try {
    const known = await environments();
    const found = await known?.resolveEnvironment(known.getActiveEnvironmentPath(resource));
    return found?.executable.uri?.fsPath;
  } catch {
    return undefined;
  }
}

/** Call `changed` when another interpreter is chosen. */
export async function onInterpreterChange(changed: () => void): Promise<Disposable | undefined> {
  try {
    return (await environments())?.onDidChangeActiveEnvironmentPath(changed);
  } catch {
    return undefined;
  }
}
