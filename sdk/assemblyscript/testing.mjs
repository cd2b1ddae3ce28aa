// Runs a handler in Node, as a unit test does: `run(await load("build/test.wasm"), payload, { config, http, kv, job })`.
// The host is in memory: it does for the module what the daemon would do. No daemon, no network.

import { getRandomValues } from "node:crypto";
import { readFile } from "node:fs/promises";

/** What calls return, as docs/reference/abi.md has it. */
const [NOT_FOUND, DENIED, INVALID, TOO_LARGE, CONFLICT] = [-1, -2, -3, -4, -7];
const LEVELS = ["error", "warn", "info", "debug", "trace"];
const VERDICTS = ["ack", "nack", "drop"];
const RESULT_MAX = 64 << 10;
const TIME_MS = 60_000;

const encoder = new TextEncoder();
const text = (bytes) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
const bytesOf = (value) => (value instanceof Uint8Array ? value : encoder.encode(value ?? ""));
/** Lines `name: value` as an object, and back. */
const fields = (lines) => Object.fromEntries(lines.filter((line) => line !== "").map((line) => line.split(/: (.*)/s).slice(0, 2)));
const block = (entries) => Object.entries(entries).map(([name, value]) => `${name.toLowerCase()}: ${value}\n`).join("");

/** Compiles the module of a handler, which `asc` wrote. */
export async function load(file) {
  return WebAssembly.compile(await readFile(file));
}

/**
 * Runs a handler on a payload in an instance of its own. Returns its verdict and what it did: verdict, reason,
 * retryAfter and snooze in ms, result, pushed, kv, log, requests; and `error` if it trapped.
 */
export function run(module, payload, fake = {}) {
  const job = jobOf(payload, fake);
  const { exports } = new WebAssembly.Instance(module, importsOf(job, () => exports.memory));
  let code = 1;
  try {
    exports._initialize?.();
    code = exports.handle(job.payload.length);
  } catch (error) {
    Object.assign(job, { error, reason: error.message });
  }
  return reportOf(job, code);
}

function jobOf(payload, fake) {
  const { id = "test", topic = "test", attempt = 1, maxAttempts = 8, now = Date.now(), dueAt = now, headers = {} } = fake.job ?? {};
  const numbers = { 3: attempt, 4: maxAttempts, 5: Number(dueAt), 6: Number(now) + TIME_MS, 8: Number(now), 9: TIME_MS };
  const texts = { ...numbers, 1: id, 2: topic, 7: block(headers) };
  const kv = new Map(fake.kv instanceof Map ? fake.kv : Object.entries(fake.kv ?? {}));
  const isRaw = typeof payload === "string" || payload instanceof Uint8Array;
  const bytes = bytesOf(isRaw || payload === undefined ? payload : JSON.stringify(payload));
  return { fake, payload: bytes, numbers, texts, kv, seen: new Map(), pushed: [], log: [], requests: [], parts: [], reason: "" };
}

function reportOf(job, code) {
  const { reason, retryAfter, snooze, result, pushed, kv, log, requests, error } = job;
  const isSnoozed = code === 1 && snooze !== undefined && error === undefined;
  const verdict = isSnoozed ? "snooze" : VERDICTS[code] ?? "bad_verdict";
  // What an attempt that fails would have pushed or returned is not kept.
  const kept = verdict === "ack" ? { pushed, result } : { pushed: [], result: undefined };
  return { verdict, reason, retryAfter, snooze, kv, log, requests, error, ...kept };
}

/** Answers a request by the function `http` of the test. */
function send(job, head, body, timeout) {
  const [line, ...lines] = head.split("\n");
  const [method, url] = line.split(" ");
  const request = { method, url, headers: fields(lines), body: text(body), timeout };
  job.requests.push(request);
  const refuse = (code, why) => { job.parts = [new Uint8Array(), new Uint8Array(), encoder.encode(why)]; return code; };
  if (job.fake.http === undefined) return refuse(DENIED, "the test gives no http");
  const response = job.fake.http(request) ?? {};
  const { status = 200, headers = {}, body: content, json, error } = response;
  if (error !== undefined) return refuse({ denied: DENIED, invalid: INVALID, timeout: -5 }[error] ?? -6, error);
  job.parts = [encoder.encode(block(headers)), bytesOf(json === undefined ? content : JSON.stringify(json)), new Uint8Array()];
  return status;
}

/** The store, whose values are texts. */
function storeOf({ kv, seen }) {
  return {
    get(key) {
      seen.set(key, kv.get(key));
      return kv.has(key) ? encoder.encode(kv.get(key)) : NOT_FOUND;
    },
    set(key, value, mode) {
      if (mode === 1 && kv.has(key)) return CONFLICT;
      if (mode === 2 && !(seen.has(key) && kv.get(key) === seen.get(key))) return CONFLICT;
      kv.set(key, text(value));
      seen.delete(key);
      return 0;
    },
    add(key, delta) {
      const before = kv.get(key) ?? "0";
      if (!/^-?\d+$/.test(before)) return undefined;
      const sum = BigInt.asIntN(64, BigInt(before) + delta);
      kv.set(key, String(sum));
      return sum;
    },
    delete: (key) => (kv.delete(key) ? 0 : NOT_FOUND),
  };
}

/** The imports of docs/reference/abi.md. `memory` is there once the instance is. */
function importsOf(job, memory) {
  const bytes = (at, length) => new Uint8Array(memory().buffer, at >>> 0, length >>> 0).slice();
  const read = (at, length) => text(bytes(at, length));
  const copy = (from, to, capacity) => {
    new Uint8Array(memory().buffer).set(from.subarray(0, capacity >>> 0), to >>> 0);
    return from.length;
  };
  /** A part of some bytes, as payload_read and http_read copy it. */
  const part = (from, to, offset, length) => Math.min(copy(from.subarray(offset >>> 0), to, length), length >>> 0);
  const store = storeOf(job);
  const duebox_v1 = {
    payload_read: (to, offset, length) => part(job.payload, to, offset, length),
    meta_read: (key, to, capacity) => (key in job.texts ? copy(bytesOf(String(job.texts[key])), to, capacity) : NOT_FOUND),
    meta_int: (key) => BigInt(job.numbers[key] ?? -1),
    config_read(name, length, to, capacity) {
      const value = job.fake.config?.[read(name, length)];
      if (value === undefined) return NOT_FOUND;
      return copy(bytesOf(typeof value === "string" ? value : JSON.stringify(value)), to, capacity);
    },
    random: (to, length) => void copy(getRandomValues(new Uint8Array(length)), to, length),
    retry_after: (ms) => { job.retryAfter = Number(ms); },
    snooze: (ms) => { job.snooze = Number(ms); },
    reason: (at, length) => { job.reason = read(at, length); },
    result(at, length) {
      if (length > RESULT_MAX) return TOO_LARGE;
      job.result = read(at, length);
      return 0;
    },
    log: (level, at, length) => void job.log.push({ level: LEVELS[level], text: read(at, length) }),
    push(head, headLength, body, bodyLength) {
      const { topic, ...options } = fields(read(head, headLength).split("\n"));
      job.pushed.push({ topic, payload: read(body, bodyLength), options });
      return 0;
    },
    http_send: (head, headLength, body, bodyLength, timeout) => send(job, read(head, headLength), bytes(body, bodyLength), timeout),
    http_read: (which, to, offset, length) => part(job.parts[which] ?? new Uint8Array(), to, offset, length),
    kv_get(key, length, to, capacity) {
      const value = store.get(read(key, length));
      return typeof value === "number" ? value : copy(value, to, capacity);
    },
    kv_set: (key, length, value, valueLength, ttl, mode) => store.set(read(key, length), bytes(value, valueLength), mode),
    kv_delete: (key, length) => store.delete(read(key, length)),
    kv_add(key, length, delta, to) {
      const sum = store.add(read(key, length), delta);
      if (sum === undefined) return INVALID;
      new DataView(memory().buffer).setBigInt64(to >>> 0, sum, true);
      return 0;
    },
  };
  return { duebox_v1, env: assemblyscript(job, memory) };
}

/** What AssemblyScript's own library imports. Its strings are UTF-16, with their length in bytes before them. */
function assemblyscript(job, memory) {
  const string = (at) => {
    if (at === 0) return "";
    const length = new DataView(memory().buffer).getUint32(at - 4, true);
    return new TextDecoder("utf-16le").decode(new Uint8Array(memory().buffer, at, length));
  };
  const say = (level) => (at) => void job.log.push({ level, text: string(at) });
  return {
    abort(message, file, line, column) {
      throw new Error(`${string(message)} (${string(file)}:${line}:${column})`);
    },
    trace: (message, count, ...values) => say("debug")(message),
    seed: () => Math.random(),
    "console.log": say("info"),
    "console.debug": say("debug"),
    "console.info": say("info"),
    "console.warn": say("warn"),
    "console.error": say("error"),
    "Date.now": () => Number(job.numbers[8]),
    "performance.now": () => performance.now(),
  };
}
