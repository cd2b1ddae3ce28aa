// The host of a handler in a unit test: what the daemon would do for a job, in memory.

import { getRandomValues } from "node:crypto";

const NativeURL = globalThis.URL;
const URL_PARTS = [
  "href", "origin", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash",
];
/** The calls of a handler end with these numbers, as docs/reference/abi.md has them. */
const [NOT_FOUND, DENIED, INVALID, CONFLICT] = [-1, -2, -3, -7];
const LEVELS = ["error", "warn", "info", "debug", "trace"];

/** The job that runs, and what its handler does. */
export const state = { job: undefined };

const encoder = new globalThis.TextEncoder();
const bytesOf = (value) => (typeof value === "string" ? encoder.encode(value) : Uint8Array.from(value));
const decode = (bytes, fatal) => new globalThis.TextDecoder("utf-8", { fatal, ignoreBOM: true }).decode(bytes);

function parts(change) {
  try {
    const url = change();
    return URL_PARTS.map((part) => url[part]);
  } catch {
    return undefined;
  }
}

/** A part of a head: lines `name: value` as an object. */
const fields = (lines) => Object.fromEntries(lines.filter((line) => line !== "").map((line) => line.split(/: (.*)/s).slice(0, 2)));

function send(head, body, timeout) {
  const { fake, requests } = state.job;
  const [line, ...lines] = head.split("\n");
  const [method, url] = line.split(" ");
  const request = { method, url, headers: fields(lines), body: decode(bytesOf(body), false), timeout };
  requests.push(request);
  state.job.response = { head: "", body: new Uint8Array(), error: "" };
  const refuse = (code, error) => { state.job.response.error = error; return code; };
  if (fake.http === undefined) return refuse(DENIED, "the test gives no http");
  const answer = fake.http(request);
  if (typeof answer?.then === "function") throw new TypeError("http of a test returns a response, not a promise: requests of a handler wait");
  if (typeof answer?.error === "string") return refuse({ denied: DENIED, invalid: INVALID, timeout: -5 }[answer.error] ?? -6, answer.error);
  const { status = 200, headers = {}, body: content = "", json } = answer ?? {};
  state.job.response.head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\n`).join("");
  state.job.response.body = bytesOf(json === undefined ? content : JSON.stringify(json));
  return status;
}

function kvSet(key, value, ttl, mode) {
  const { kv, seen } = state.job;
  if (mode === 1 && kv.has(key)) return CONFLICT;
  if (mode === 2 && kv.get(key) !== seen.get(key)) return CONFLICT;
  kv.set(key, decode(bytesOf(value), false));
  seen.set(key, kv.get(key));
  return 0;
}

export const host = {
  encode: (text) => encoder.encode(text),
  decode(bytes, fatal) {
    try {
      return decode(bytes, fatal);
    } catch {
      return undefined;
    }
  },
  url: (href, base) => parts(() => new NativeURL(href, base)),
  setUrl: (href, part, value) => parts(() => Object.assign(new NativeURL(href), { [part]: value })),
  random: (length) => getRandomValues(new Uint8Array(length)),
  meta: (key) => state.job.meta[key],
  number: (key) => (key === 9 ? Math.max(0, state.job.meta[6] - Date.now()) : state.job.meta[key]),
  config: (name) => state.job.fake.config?.[name]?.toString(),
  retryAfter: (wait) => { state.job.retryAfter = wait; },
  snooze: (wait) => { state.job.snooze = wait; },
  reason: (text) => { state.job.reason = text; },
  result: (value) => {
    const bytes = bytesOf(value);
    if (bytes.length > 64 << 10) return -4;
    state.job.result = decode(bytes, false);
    return 0;
  },
  log: (level, text) => void state.job?.log.push({ level: LEVELS[level], text }),
  push(head, body) {
    const { topic, ...options } = fields(head.split("\n"));
    state.job.pushed.push({ topic, payload: decode(bytesOf(body), false), options });
    return 0;
  },
  send,
  response: (part) => state.job.response[["head", "body", "error"][part]],
  kvGet(key) {
    const { kv, seen } = state.job;
    seen.set(key, kv.get(key));
    return kv.has(key) ? encoder.encode(kv.get(key)) : NOT_FOUND;
  },
  kvSet,
  kvDelete: (key) => (state.job.kv.delete(key) ? 0 : NOT_FOUND),
  kvAdd(key, delta) {
    const before = state.job.kv.get(key) ?? "0";
    if (!/^-?\d+$/.test(before)) return [INVALID, 0];
    const sum = String(BigInt(before) + BigInt(delta));
    state.job.kv.set(key, sum);
    return [0, sum];
  },
};
