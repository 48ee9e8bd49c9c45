// Bundles the extension with the licences of the packages that it consists of, or with `--tests` its tests, for Node.

import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const tests = process.argv.includes("--tests");
const output = tests ? "build/test" : "dist";

rmSync(output, { recursive: true, force: true });
const { metafile } = await build({
  entryPoints: tests ? readdirSync("test").map((name) => `test/${name}`) : ["src/extension.ts"],
  outdir: output,
  bundle: true,
  platform: "node",
  format: "cjs",
  target: "node20",
  external: ["vscode", "./vscode"], // the second stands for the first in tests, which share it
  minify: !tests,
  sourcemap: tests ? "inline" : false,
  metafile: true,
  logLevel: "warning",
});

if (!tests) {
  const packages = Object.keys(metafile.inputs).map((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0]);
  const folders = [...new Set(packages)].filter((folder) => folder !== undefined).sort();
  writeFileSync(`${output}/LICENSES.txt`, folders.map(licence).join("\n"));
}

function licence(folder) {
  const { name, version } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
  if (file === undefined) {
    throw new Error(`${name} has no licence in its folder`);
  }
  return `${name} ${version}\n\n${readFileSync(`${folder}/${file}`, "utf8").trim()}\n`;
}
