// The SDK of JavaScript handlers: the module "duebox", and the globals that QuickJS lacks. The engine calls
// `begin`, `run` and `poll`. `host` has the functions of src/host.rs; programs cannot reach it.

const host = globalThis.__duebox;
const PENDING = -1;
const OUT_OF_MEMORY = 100;
const STACK_OVERFLOW = 101;
const SLEEP = 1000;

/** Whether there is a job. There is none while the program is loaded. */
let hasJob = false;

for (const name of ["meta", "number", "config", "push", "result", "send", "kvGet", "kvSet", "kvDelete", "kvAdd"]) {
  const call = host[name];
  host[name] = (...values) => {
    if (!hasJob) throw new Error("there is no job while the handler is loaded; do this in the handler");
    return call(...values);
  };
}

const text = (value) => String(value).toWellFormed();
const isBytes = (value) => value instanceof ArrayBuffer || ArrayBuffer.isView(value);

function bytesOf(value) {
  if (value instanceof Uint8Array) return value;
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
}

/** Bytes or text as they are, undefined as nothing, other values as JSON. */
function body(value) {
  if (value === undefined) return "";
  if (typeof value === "string") return text(value);
  return isBytes(value) ? bytesOf(value) : JSON.stringify(value).toWellFormed();
}

// --- verdicts ---

class Verdict {
  constructor(kind, reason, wait) {
    this.kind = kind;
    this.reason = reason;
    this.wait = wait;
  }
}

function milliseconds(name, value) {
  if (value === undefined || value === null) return undefined;
  const number = Number(value);
  if (!(number >= 0)) throw new TypeError(`${name} takes milliseconds, 0 or more, not ${text(value)}`);
  return number;
}

export const nack = (reason = "", { retryAfter } = {}) =>
  new Verdict("nack", text(reason), milliseconds("retryAfter", retryAfter));
export const drop = (reason = "") => new Verdict("drop", text(reason));
export const ack = () => new Verdict("ack", "");
export const snooze = (wait, reason = "") => new Verdict("snooze", text(reason), milliseconds("snooze", wait) ?? 0);

/** The verdict of what a handler returned, as the number that `handle` returns. */
function verdictOf(returned) {
  if (returned === undefined || returned === null || returned === "ack") return 0;
  if (returned === "drop") return 2;
  if (!(returned instanceof Verdict)) {
    const shown = typeof returned === "object" ? "an object" : JSON.stringify(returned) ?? typeof returned;
    host.reason(`the handler returned ${shown}; return nothing, "ack", "drop", nack(…), drop(…) or snooze(…)`.toWellFormed());
    return 3;
  }
  if (returned.kind === "ack") return 0;
  if (returned.reason) host.reason(returned.reason);
  if (returned.kind === "drop") return 2;
  if (returned.kind === "snooze") host.snooze(returned.wait);
  else if (returned.wait !== undefined) host.retryAfter(returned.wait);
  return 1;
}

const STREAMS = "a body is read and sent whole";
const EVENTS = "call a function; an AbortSignal has its own listeners";

/** What Node and browsers have and a handler does not. */
const MISSING = {
  require: "use import",
  module: "use export",
  process: "read settings with job.config(…)",
  Buffer: "use Uint8Array with TextEncoder and TextDecoder",
  __dirname: "a handler has no files",
  __filename: "a handler has no files",
  global: "use globalThis",
  XMLHttpRequest: "use fetch",
  WebSocket: "use fetch",
  Worker: "a handler runs on one thread",
  Request: "pass the URL and the options to fetch",
  FormData: "send a URLSearchParams, or write the multipart body yourself",
  Blob: "use Uint8Array",
  File: "use Uint8Array",
  ReadableStream: STREAMS,
  WritableStream: STREAMS,
  TransformStream: STREAMS,
  Event: EVENTS,
  EventTarget: EVENTS,
  setImmediate: "use setTimeout or queueMicrotask",
  Intl: "format numbers and dates in the handler; local time is UTC",
  WebAssembly: "build the module as a handler of its own",
};

/** The message of an error. A name that a handler does not have is reported with what to use instead. */
function messageOf(error) {
  const name = error instanceof ReferenceError ? /^(\w+) is not defined$/.exec(error.message)?.[1] : undefined;
  const instead = Object.hasOwn(MISSING, name ?? "") ? MISSING[name] : undefined;
  return instead === undefined ? error.message : `${error.message} in a Duebox handler; ${instead}`;
}

/** How many causes of an error are shown. */
const CAUSES_MAX = 4;

/** A thrown value with the stack lines of the author's own files. */
function describe(error, causes = CAUSES_MAX) {
  if (!(error instanceof Error)) return `thrown: ${inspect(error)}`;
  const stack = typeof error.stack === "string" ? error.stack : "";
  const own = stack.split("\n").filter((line) => line && !line.includes("(duebox:") && !line.includes("(native)"));
  const cause = error.cause === undefined || causes === 0 ? "" : `\ncaused by ${describe(error.cause, causes - 1)}`;
  return `${error.name}: ${messageOf(error)}\n${own.join("\n")}`.trimEnd() + cause;
}

/** Whether the engine had no memory left. Where it had none for the error either, it has thrown null. */
function isOutOfMemory(error) {
  if (error === null) return host.isMemoryFull();
  return error instanceof Error && error.name === "InternalError" && error.message === "out of memory";
}

function failureOf(error) {
  try {
    if (isOutOfMemory(error)) return OUT_OF_MEMORY;
    host.reason(describe(error).toWellFormed());
    const isOverflow = error instanceof RangeError && error.message === "Maximum call stack size exceeded";
    return isOverflow ? STACK_OVERFLOW : 1;
  } catch (another) {
    // A getter or a proxy of the program has thrown.
    return failureToDescribe(another);
  }
}

function failureToDescribe(error) {
  try {
    if (isOutOfMemory(error)) return OUT_OF_MEMORY;
  } catch {
    // Neither can this one be looked at.
  }
  host.reason("the handler threw a value that cannot be shown");
  return 1;
}

// --- the life of a job ---

let handler;
let verdict;
let timers = [];
let nextTimer = 1;

function begin(namespace) {
  handler = namespace.default;
  const payloadKind = namespace.payload ?? "json";
  if (typeof handler !== "function") {
    throw new TypeError("the handler exports no function as default; write `export default function handle(payload) { … }`");
  }
  if (!["json", "text", "bytes"].includes(payloadKind)) {
    throw new TypeError(`export const payload is ${inspect(payloadKind)}; it can be "json", "text" or "bytes"`);
  }
  return payloadKind;
}

function run(payload) {
  hasJob = true;
  verdict = PENDING;
  if (timers.length > 0) timers = [];
  try {
    const returned = handler(payload);
    if (typeof returned?.then !== "function") return verdictOf(returned);
    Promise.resolve(returned).then(
      (value) => { verdict = settle(() => verdictOf(value)); },
      (error) => { verdict = settle(() => failureOf(error)); },
    );
    return PENDING;
  } catch (error) {
    return failureOf(error);
  }
}

function settle(find) {
  try {
    return find();
  } catch (error) {
    return failureOf(error);
  }
}

/** Called when no microtask is left, or after many of them. */
function poll(isBusy) {
  if (verdict !== PENDING || isBusy) return verdict;
  const next = timers[0];
  if (next === undefined) {
    host.reason("the handler returned a promise that nothing settles: no timer and no callback is left");
    return 1;
  }
  const wait = next.due - Date.now();
  if (wait > 0) return SLEEP + Math.ceil(wait);
  timers.shift();
  if (next.every !== undefined) addTimer({ ...next, due: Date.now() + next.every });
  try {
    next.callback(...next.values);
  } catch (error) {
    return failureOf(error);
  }
  return verdict;
}

function addTimer(timer) {
  const at = timers.findIndex((other) => other.due > timer.due);
  timers.splice(at < 0 ? timers.length : at, 0, timer);
  return timer.id;
}

function startTimer(callback, wait, values, isRepeated) {
  if (typeof callback !== "function") throw new TypeError("a timer takes a function");
  const delay = Math.max(1, Number(wait) || 0);
  return addTimer({ id: nextTimer++, due: Date.now() + delay, every: isRepeated ? delay : undefined, callback, values });
}

const stopTimer = (id) => { timers = timers.filter((timer) => timer.id !== id); };

// --- the job ---

/** Lines `name: value` as pairs. */
function pairs(lines) {
  const found = [];
  for (const line of lines.split("\n")) {
    const colon = line.indexOf(": ");
    if (colon > 0) found.push([line.slice(0, colon), line.slice(colon + 2)]);
  }
  return found;
}

function config(name, ...fallback) {
  const value = host.config(text(name));
  if (value !== undefined) return value;
  if (fallback.length > 0) return fallback[0];
  throw new Error(`config "${text(name)}" is not set; add it to sandbox.config or sandbox.secrets of the topic`);
}

const CODES = {
  "-1": "not_found", "-2": "denied", "-3": "invalid", "-4": "too_large", "-5": "timeout", "-6": "unavailable", "-7": "conflict",
};

/** Throws the error of a call of the host. Its `code` is for programs, its message for people. */
function refuse(code, messages) {
  const name = CODES[code] ?? "unknown";
  const error = new Error(messages[code] ?? name);
  error.code = name;
  throw error;
}

export function result(value) {
  const code = host.result(body(value));
  if (code !== 0) refuse(code, { "-4": "the result is longer than 64 KiB" });
}

const PUSH_OPTIONS = {
  id: "id", delay: "delay-ms", dueAt: "due-at-ms", ttr: "ttr-ms", maxAttempts: "max-attempts", ttl: "ttl-ms",
  priority: "priority", key: "key",
};

const PUSH_ERRORS = {
  "-2": "the handler may not push to this topic; sandbox.push grants it",
  "-3": "the follow-up has an invalid name or value",
  "-4": "there are over 100 follow-ups, over 4 MiB of them, or one has a head over 16 KiB",
};

/** One line of the head of a follow-up. A line break or a separator in it could add another option. */
function optionLine(name, value) {
  const written = text(value);
  if (/[\0-\x1f\x7f]/.test(name + written) || name.includes(": ")) refuse(-3, PUSH_ERRORS);
  return `${name}: ${written}\n`;
}

/** Pushes a follow-up job. It is committed with the ack of this job, or not at all. */
export function push(topic, payload, options = {}) {
  const lines = [optionLine("topic", topic)];
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined) continue;
    if (name === "headers") {
      for (const [header, of] of Object.entries(value)) lines.push(optionLine(`h.${text(header)}`, of));
    } else if (!Object.hasOwn(PUSH_OPTIONS, name)) {
      throw new TypeError(`push has no option ${text(name)}; known are ${Object.keys(PUSH_OPTIONS).join(", ")} and headers`);
    } else {
      lines.push(optionLine(PUSH_OPTIONS[name], value instanceof Date ? value.getTime() : value));
    }
  }
  const code = host.push(lines.join(""), body(payload));
  if (code !== 0) refuse(code, PUSH_ERRORS);
}

export const job = Object.freeze({
  get id() { return host.meta(1); },
  get topic() { return host.meta(2); },
  get attempt() { return host.number(3); },
  get maxAttempts() { return host.number(4); },
  get isLastAttempt() { return host.number(3) >= host.number(4); },
  get dueAt() { return new Date(host.number(5)); },
  get deadline() { return new Date(host.number(6)); },
  get timeLeft() { return host.number(9); },
  get headers() { return Object.fromEntries(pairs(host.meta(7) ?? "")); },
  config,
  secret: config,
  push,
  result,
});

// --- log ---

/** A value as console.log shows it. */
function inspect(value, depth = 2) {
  if (typeof value === "string") return depth === 2 ? value : JSON.stringify(value);
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "function") return `[function ${value.name || "anonymous"}]`;
  if (typeof value !== "object" || value === null) return String(value);
  if (value instanceof Error) return describe(value);
  try {
    return JSON.stringify(value, (_, of) => (typeof of === "bigint" ? `${of}n` : of)) ?? String(value);
  } catch {
    return Object.prototype.toString.call(value);
  }
}

const writer = (level) => (...values) => host.log(level, values.map((value) => inspect(value)).join(" ").toWellFormed());

export const log = Object.freeze({
  error: writer(0), warn: writer(1), info: writer(2), debug: writer(3), trace: writer(4),
});

// --- key-value store ---

const KV_ERRORS = {
  "-2": "the store is not granted; set `kv = true` in the topic's sandbox",
  "-3": "a key has 1 to 256 bytes, a time to live is at most ten years, and a sum is a 64-bit integer",
  "-4": "the value is over 64 KiB, or the topic's store is full",
  "-6": "the topic's store cannot be reached",
};

function kvGet(key) {
  const found = host.kvGet(text(key));
  if (typeof found !== "number") return found;
  return found === -1 ? undefined : refuse(found, KV_ERRORS);
}

const KV_MODES = { absent: 1, unchanged: 2 };

export const kv = Object.freeze({
  get(key) {
    const found = kvGet(key);
    return found === undefined ? undefined : host.decode(found, false);
  },
  getBytes: kvGet,
  getJson(key) {
    const found = kv.get(key);
    return found === undefined ? undefined : JSON.parse(found);
  },
  /** Returns whether it was written: `if: "absent"` and `if: "unchanged"` may forbid it. */
  set(key, value, options = {}) {
    const mode = options.if === undefined ? 0 : Object.hasOwn(KV_MODES, options.if) && KV_MODES[options.if];
    if (mode === false) throw new TypeError('kv.set: if can be "absent" or "unchanged"');
    const code = host.kvSet(text(key), body(value), milliseconds("ttl", options.ttl) ?? 0, mode);
    return code === 0 || (code !== -7 && refuse(code, KV_ERRORS));
  },
  delete(key) {
    const code = host.kvDelete(text(key));
    return code === 0 || (code !== -1 && refuse(code, KV_ERRORS));
  },
  /** The sum is of the type of `delta`: a number, or a bigint, which is exact above 2^53. */
  add(key, delta = 1) {
    if (typeof delta !== "bigint" && !Number.isSafeInteger(delta)) throw new TypeError("kv.add takes an integer");
    const [code, sum] = host.kvAdd(text(key), String(delta));
    if (code !== 0) refuse(code, KV_ERRORS);
    return typeof delta === "bigint" ? BigInt(sum) : Number(sum);
  },
});
