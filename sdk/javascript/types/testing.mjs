// Runs a handler in Node, as a unit test does: `run(handler, payload, { config, http, kv, job })`.

import { state } from "./host.mjs";
import { engine, log } from "./runtime.mjs";

const VERDICTS = ["ack", "nack", "drop", "nack"];
const TIME_MS = 60_000;
const COLLECTED = { log: "info", info: "info", warn: "warn", error: "error", debug: "debug", trace: "trace" };

/** Runs a handler on a payload, and returns its verdict and what it did. One run after the other. */
export async function run(handler, payload, fake = {}) {
  if (state.job !== undefined) throw new Error("a handler runs already; await the end of the first run");
  const namespace = typeof handler === "function" ? { default: handler } : handler;
  const kind = engine.begin(namespace);
  const job = jobOf(fake);
  const undo = replaceGlobals();
  state.job = job;
  engine.setJob(true);
  let code;
  try {
    code = engine.verdictOf(await namespace.default(payloadOf(payload, kind)));
  } catch (error) {
    code = engine.failureOf(error);
    job.error = error;
  } finally {
    engine.setJob(false);
    state.job = undefined;
    undo();
  }
  return reportOf(job, code);
}

function jobOf(fake) {
  const { id = "1", topic = "test", attempt = 1, maxAttempts = 8, dueAt = Date.now(), headers = {} } = fake.job ?? {};
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\n`).join("");
  const meta = { 1: id, 2: topic, 3: attempt, 4: maxAttempts, 5: Number(dueAt), 6: Date.now() + TIME_MS, 7: lines };
  const kv = fake.kv instanceof Map ? fake.kv : new Map(Object.entries(fake.kv ?? {}));
  return { fake, meta, kv, seen: new Map(), pushed: [], log: [], requests: [], reason: "" };
}

/** The payload as the daemon gives it. */
function payloadOf(payload, kind) {
  if (kind === "bytes") return typeof payload === "string" ? new TextEncoder().encode(payload) : payload;
  if (kind === "text") return typeof payload === "string" ? payload : JSON.stringify(payload);
  return payload === undefined ? undefined : JSON.parse(JSON.stringify(payload));
}

/** Gives the handler the globals of the engine, and collects what it writes. Returns what undoes that. */
function replaceGlobals() {
  const names = Object.keys(COLLECTED);
  const write = Object.fromEntries(names.map((name) => [name, log[COLLECTED[name]]]));
  const globals = { ...engine.globals, console: { ...globalThis.console, ...write } };
  const before = Object.keys(globals).map((name) => [name, Object.getOwnPropertyDescriptor(globalThis, name)]);
  for (const [name, value] of Object.entries(globals)) {
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
  }
  return () => before.forEach(([name, property]) => Object.defineProperty(globalThis, name, property));
}

function reportOf(job, code) {
  const { reason, retryAfter, snooze, result, pushed, kv, log: lines, requests, error } = job;
  const verdict = snooze === undefined ? VERDICTS[code] ?? "nack" : "snooze";
  const report = { verdict, reason, retryAfter, snooze, result, pushed, kv, log: lines, requests, error };
  if (code === 3) report.class = "bad_verdict";
  // What an attempt that fails would have pushed or returned is not kept.
  if (verdict !== "ack") Object.assign(report, { pushed: [], result: undefined });
  return report;
}
