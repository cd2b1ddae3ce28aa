// Leaves a word wherever a program can leave something, and looks at everything that a program can reach.
//
// The payload is "look WORD", "leave WORD" or "leave WORD grow". The result describes what was seen, after leaving.
import * as sdk from "duebox";
export const payload = "text";

const own = { list: [], map: new Map(), pattern: /a/g, count: 0 };
let large;
const numbers = (function* () { for (;;) yield own.count++; })();

function leave(word) {
  const places = [
    globalThis, Object, Object.prototype, Array.prototype, Function.prototype, String.prototype, Number.prototype, Promise.prototype,
    RegExp.prototype, Map.prototype, Error, Error.prototype, Math, JSON, Reflect, Symbol, Uint8Array.prototype, setTimeout, fetch,
    Headers.prototype, Response.prototype, URL, URL.prototype, URLSearchParams.prototype, TextEncoder.prototype, crypto, performance,
    AbortSignal, AbortController.prototype, sdk.push, sdk.nack, handle, own,
  ];
  for (const place of places) {
    try {
      Object.defineProperty(place, "left", { value: word, configurable: true, writable: true, enumerable: false });
    } catch (error) {
      // What is frozen keeps nothing.
      if (!Object.isFrozen(place)) throw error;
    }
  }
  own.list.push(word);
  own.map.set(word, word);
  own.pattern.test("ab");
  numbers.next();
  Math.random = () => word.length;
  globalThis.console = { log: word };
  delete globalThis.structuredClone;
  setTimeout(() => { globalThis.late = word; }, 1);
  Promise.resolve().then(() => { globalThis.soon = word; });
}

/** A line for each value that can be reached. */
function* reached() {
  const seen = new Map();
  const found = [["globals", globalThis], ["sdk", sdk], ["own", own], ["handle", handle]];
  for (let at = 0; at < found.length; at++) {
    const [path, value] = found[at];
    if ((typeof value !== "object" && typeof value !== "function") || value === null) {
      yield `${path}=${String(value)}`;
      continue;
    }
    yield `${path}>${seen.get(value) ?? ""}`;
    if (seen.has(value)) continue;
    seen.set(value, path);
    found.push([`${path}^`, Object.getPrototypeOf(value)]);
    if (value instanceof Map) found.push([`${path}{}`, [...value].flat()]);
    for (const key of Reflect.ownKeys(value)) {
      const { value: of, get, set } = Object.getOwnPropertyDescriptor(value, key);
      found.push([`${path}.${String(key)}`, of], [`${path}.get ${String(key)}`, get], [`${path}.set ${String(key)}`, set]);
    }
  }
}

function look(word) {
  let [digest, count] = [7, 0];
  const leaks = [];
  for (const line of reached()) {
    count++;
    if (line.includes(word)) leaks.push(line.slice(0, 80));
    for (let at = 0; at < line.length; at++) digest = (Math.imul(digest, 31) + line.charCodeAt(at)) | 0;
  }
  return { digest, count, leaks: leaks.slice(0, 100) };
}

export default function handle(text) {
  const [what, word, grow] = text.split(" ");
  if (what === "leave") leave(word);
  if (grow !== undefined) large = new Uint8Array(8 << 20).fill(1);
  sdk.result(look(word));
}
