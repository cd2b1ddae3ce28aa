// A host of both modules in Node.

import fs from "node:fs";

import { evaluate, field } from "../../engine-abi/host.mjs";

const build = new URL("../build/", import.meta.url);
const compile = (name) => new WebAssembly.Module(fs.readFileSync(new URL(name, build)));
const engine = compile("engine.wasm");
const reader = compile("reader.wasm");
/** Pages of memory that the engine needs to start. */
const PAGES = 32;

const KINDS = { cjs: "commonjs", json: "json" };

/** A program as the daemon encodes it; the first module is the handler. A JSON file is a CommonJS module. */
function encode(modules, links) {
  const sources = Object.entries(modules).map(([name, source]) => [name, KINDS[name.split(".").pop()] ?? "module", source]);
  const fields = [sources[0][0], String(sources.length), ...sources.flat(), ...links.flat()];
  return Buffer.concat(fields.map(field));
}

/** Evaluates a program. Returns its error, or a function that runs a job. */
export function start(modules, { links = [], ...options } = {}) {
  return evaluate(engine, PAGES, encode(modules, links), options);
}

/** Runs one source once. */
export function runOnce(source, payload, options) {
  const program = start({ "close.js": source }, options);
  return program.error === undefined ? program.run(payload) : program;
}

/** Reads a file: its report without blanks, and the source with them. */
export function read(source, language = "t") {
  const payload = Buffer.from(language + source);
  let report = "";
  let memory;
  const duebox_v1 = {
    payload_read(dst, off, len) {
      new Uint8Array(memory.buffer).set(payload.subarray(off, off + len), dst);
      return len;
    },
    reason() {},
    result(p, l) {
      if (l > 65536) return -4;
      report = Buffer.from(new Uint8Array(memory.buffer, p, l)).toString();
      return 0;
    },
  };
  const { exports } = new WebAssembly.Instance(reader, { duebox_v1 });
  memory = exports.memory;
  const verdict = exports.handle(payload.length);
  const lines = report.split("\n").filter((line) => line !== "");
  let blanked = source;
  let at = 0;
  // Sources of tests are ASCII, so a byte is a character.
  let shift = 0;
  for (const [, gap, length, text = ""] of report.matchAll(/^- (\d+) (\d+)(?: (.*))?$/gm)) {
    const [from, to] = [at + Number(gap), at + Number(gap) + Number(length)];
    let written = text.length;
    const rest = source.slice(from, to).replace(/[^\n]/g, () => (written-- > 0 ? "" : " "));
    blanked = blanked.slice(0, from + shift) + text + rest + blanked.slice(to + shift);
    shift += text.length + rest.length - (to - from);
    at = to;
  }
  return { verdict, blanked, lines: lines.filter((line) => !line.startsWith("- ")) };
}
