// Writes runtime.mjs: the SDK of the engine (../engine/src) for Node, on the fake host of host.mjs. npm runs it before it
// packs the package.

import fs from "node:fs";

const source = (name) => fs.readFileSync(new URL(`../engine/src/${name}.js`, import.meta.url), "utf8");

/** The part of a text before a mark, which must be there. */
function before(text, mark) {
  const at = text.indexOf(mark);
  if (at < 0) throw new Error(`${mark} is missing in the sources of the engine`);
  return text.slice(0, at);
}

const HOST = "const host = globalThis.__duebox;";
const duebox = source("duebox");
if (!duebox.includes(HOST)) throw new Error(`${HOST} is missing in duebox.js`);
const parts = [
  duebox.replace(HOST, 'import { host } from "./host.mjs";'),
  source("abort"),
  before(source("web"), "// --- globals ---"),
  `export const random = (length) => host.random(length);

/** What the engine calls, for testing.mjs. */
export const engine = {
  begin,
  verdictOf,
  failureOf,
  setJob(is) { hasJob = is; },
  globals: { fetch, Headers, Response, URL, URLSearchParams, AbortController, AbortSignal },
};
`,
];
fs.writeFileSync(new URL("runtime.mjs", import.meta.url), `// Made by build.mjs.\n${parts.join("\n")}`);
