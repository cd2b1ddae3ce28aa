// A host of the engine in Node.

import fs from "node:fs";

import { evaluate, field } from "../../engine-abi/host.mjs";

const engine = new WebAssembly.Module(fs.readFileSync(new URL("../build/engine.wasm", import.meta.url)));
/** Pages of memory that the engine needs to start. */
const PAGES = 256;

/** A program as the daemon encodes it: sources by file. The first one is the handler. */
function encode(files) {
  const nameOf = (file) => file.replace(/(\/__init__)?\.py$/, "").replaceAll("/", ".");
  const modules = Object.entries(files).map(([file, source]) => {
    const kind = file.endsWith("__init__.py") ? "package" : "module";
    return [nameOf(file), file, kind, source];
  });
  return Buffer.concat([modules[0][0], ...modules.flat()].map(field));
}

/** Evaluates a program. Returns its error, or a function that runs a job. */
export function start(files, options) {
  return evaluate(engine, PAGES, encode(files), options);
}

/** Runs one source once. */
export function runOnce(source, payload, options) {
  const program = start({ "report.py": source }, options);
  return program.error === undefined ? program.run(payload) : program;
}

/** The lines about the imports of a source. */
export function read(source) {
  const { run } = evaluate(engine, PAGES, Buffer.alloc(0));
  return run(source).result.trimEnd().split("\n");
}
