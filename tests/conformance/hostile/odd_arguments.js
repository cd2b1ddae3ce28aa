// expect: ack
// Arguments of every kind are refused or taken, and end nothing.
import { job, kv, log, push, random, result, snooze, nack } from "duebox";
const odd = [
  undefined, null, NaN, Infinity, -1, 2 ** 53, 1e308, 10n ** 40n, "", "\0", "\n", "\ud800", "x".repeat(70_000), [], {}, () => {},
  Symbol("x"), new Proxy({}, {}), new Uint8Array(0), new ArrayBuffer(8), { toString() { throw 1; } }, { toJSON() { throw 1; } },
];
const calls = [
  (a) => job.config(a), (a) => kv.get(a), (a) => kv.set(a, a), (a) => kv.set("k", a, { ttl: a }), (a) => kv.set("k", "v", { if: a }),
  (a) => kv.add("n", a), (a) => kv.delete(a), (a) => log.info(a), (a) => push(a), (a) => push("other", a), (a) => push("other", 1, a),
  (a) => push("other", 1, { delay: a, key: a, headers: { a } }), (a) => random(typeof a === "number" && a > 1e6 ? -1 : a), (a) => result(a),
  (a) => snooze(a), (a) => nack(a, { retryAfter: a }), (a) => new URL(a, a), (a) => new URLSearchParams(a), (a) => new TextDecoder(a),
  (a) => new TextDecoder().decode(a), (a) => atob(a), (a) => btoa(a), (a) => structuredClone(a), (a) => setTimeout(a, a), (a) => clearTimeout(a),
  (a) => crypto.getRandomValues(a), (a) => new Headers(a), (a) => new Response(a, a), (a) => queueMicrotask(a),
];
export default () => {
  for (const call of calls) {
    for (const value of odd) {
      try {
        call(value);
      } catch {}
    }
  }
};
