// A host of engines in Node, with the imports of docs/reference/abi.md as far as their tests use them.

import { getRandomValues } from "node:crypto";

/** Pages of memory that a program may have: 64 MiB. */
const PAGES_MAX = 1024;

/** What the monotonic clock is behind the wall clock, in nanoseconds. */
const EPOCH_NS = BigInt(Date.now()) * 1_000_000n - process.hrtime.bigint();

/** A field of a program. */
export function field(text) {
  const bytes = Buffer.from(text);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(bytes.length);
  return Buffer.concat([length, bytes]);
}

/** Evaluates a program in a memory of this size. Returns its error, or a function that runs a job. */
export function evaluate(engine, pages, program, { config = {}, http } = {}) {
  const memory = new WebAssembly.Memory({ initial: pages, maximum: PAGES_MAX });
  const job = { payload: Buffer.alloc(0), log: [], out: {}, kv: {}, sent: [], response: {} };
  const bytes = (p, l) => Buffer.from(new Uint8Array(memory.buffer, p, l));
  const text = (p, l) => bytes(p, l).toString();
  const fill = (dst, cap, value) => {
    if (value === undefined) return -1;
    const from = Buffer.from(value);
    new Uint8Array(memory.buffer).set(from.subarray(0, cap), dst);
    return from.length;
  };
  const copy = (dst, from, off, len) => fill(dst, len, from.subarray(off, off + len));
  const numbers = { 3: 1, 4: 8, 5: 1000, 6: Date.now() + 1000, 9: 900 };
  const duebox_v1 = {
    payload_read: (dst, off, len) => copy(dst, job.payload, off, len),
    meta_read: (key, dst, cap) => fill(dst, cap, { 1: "id-1", 2: "mail", 7: "lang: de\n" }[key]),
    meta_int: (key) => BigInt(key === 8 ? Date.now() : numbers[key] ?? -1),
    config_read: (kp, kl, dst, cap) => fill(dst, cap, config[text(kp, kl)]),
    random: (dst, len) => void getRandomValues(new Uint8Array(memory.buffer, dst, len)),
    retry_after: (ms) => { job.out.retryAfter = Number(ms); },
    snooze: (ms) => { job.out.snooze = Number(ms); },
    reason: (p, l) => { job.out.reason = text(p, l); },
    result: (p, l) => { job.out.result = text(p, l); return 0; },
    log: (level, p, l) => void job.log.push(text(p, l)),
    http_send: (hp, hl, bp, bl, timeout) => {
      job.sent.push(text(hp, hl) + text(bp, bl));
      job.response = http(text(hp, hl), text(bp, bl), timeout);
      return job.response.status;
    },
    http_read: (part, dst, off, len) => {
      const { head = "", body = "", error = "" } = job.response;
      return copy(dst, Buffer.from([head, body, error][part]), off, len);
    },
    kv_get: (kp, kl, dst, cap) => fill(dst, cap, job.kv[text(kp, kl)]),
    kv_set: (kp, kl, vp, vl) => { job.kv[text(kp, kl)] = text(vp, vl); return 0; },
    kv_delete: (kp, kl) => (delete job.kv[text(kp, kl)] ? 0 : -1),
    kv_add: (kp, kl, delta, dst) => {
      const sum = BigInt(job.kv[text(kp, kl)] ?? 0) + delta;
      job.kv[text(kp, kl)] = String(sum);
      new DataView(memory.buffer).setBigInt64(dst, sum, true);
      return 0;
    },
    push: (hp, hl, bp, bl) => { (job.out.pushed ??= []).push([text(hp, hl), text(bp, bl)]); return 0; },
  };
  const wait = new Int32Array(new SharedArrayBuffer(4));
  const poll_oneoff = (at) => {
    const ns = new DataView(memory.buffer).getBigUint64(at + 24, true);
    Atomics.wait(wait, 0, 0, Number(ns) / 1e6);
    return 0;
  };
  const clock_time_get = (id, precision, at) => {
    new DataView(memory.buffer).setBigUint64(at, process.hrtime.bigint() + (id === 0 ? EPOCH_NS : 0n), true);
    return 0;
  };
  const imports = { duebox_v1, env: { memory }, wasi_snapshot_preview1: { poll_oneoff, clock_time_get } };
  const { exports } = new WebAssembly.Instance(engine, imports);
  // Before the buffer is taken: the call may grow the memory.
  const address = exports.program(program.length);
  new Uint8Array(memory.buffer).set(program, address);
  try {
    exports._initialize();
  } catch {
    return { error: job.log.join("\n") };
  }
  const evaluated = new Uint8Array(memory.buffer.slice(0));
  const stack = exports.__stack_pointer.value;
  return {
    run(payload = "{}") {
      // As the daemon does: every job starts with the memory after the evaluation.
      const whole = new Uint8Array(memory.buffer);
      whole.set(evaluated);
      whole.fill(0, evaluated.length);
      exports.__stack_pointer.value = stack;
      Object.assign(job, { payload: Buffer.from(payload), log: [], out: {}, sent: [] });
      let verdict;
      try {
        verdict = exports.handle(job.payload.length);
      } catch (error) {
        verdict = error.message;
      }
      return { verdict, ...job.out, log: job.log, sent: job.sent };
    },
  };
}
