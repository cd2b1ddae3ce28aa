//! The ABI as functions on bytes and strings: the only place of the SDK that knows of pointers.
//!
//! Invariant: a pointer handed to the host is the data of an array or a buffer that is in a local
//! variable through the call, with its own length. An import that a handler never reaches is not in
//! its module.

/** The metadata keys, with the host's numbers. */
export const enum Meta {
  Id = 1,
  Topic = 2,
  Attempt = 3,
  MaxAttempts = 4,
  DueAt = 5,
  Deadline = 6,
  Headers = 7,
  Now = 8,
  TimeLeft = 9,
}

/** The host's answers that have a meaning of their own. */
export const enum Code {
  Done = 0,
  NotFound = -1,
  Denied = -2,
  Invalid = -3,
  TooLarge = -4,
  Timeout = -5,
  Unavailable = -6,
  Conflict = -7,
}

/** The parts of the last answer to a request. */
export const enum Part {
  Head = 0,
  Body = 1,
  Error = 2,
}

/** When kvSet writes. */
export const enum Mode {
  Always = 0,
  IfAbsent = 1,
  IfUnchanged = 2,
}

@external("duebox_v1", "payload_read")
declare function hostPayloadRead(dst: usize, offset: i32, length: i32): i32;

@external("duebox_v1", "meta_read")
declare function hostMetaRead(key: i32, dst: usize, capacity: i32): i32;

@external("duebox_v1", "meta_int")
declare function hostMetaInt(key: i32): i64;

@external("duebox_v1", "config_read")
declare function hostConfigRead(name: usize, nameLength: i32, dst: usize, capacity: i32): i32;

@external("duebox_v1", "random")
declare function hostRandom(dst: usize, length: i32): void;

@external("duebox_v1", "retry_after")
declare function hostRetryAfter(ms: i64): void;

@external("duebox_v1", "snooze")
declare function hostSnooze(ms: i64): void;

@external("duebox_v1", "result")
declare function hostResult(bytes: usize, length: i32): i32;

@external("duebox_v1", "push")
declare function hostPush(head: usize, headLength: i32, body: usize, bodyLength: i32): i32;

@external("duebox_v1", "http_send")
declare function hostHttpSend(head: usize, headLength: i32, body: usize, bodyLength: i32, timeoutMs: i32): i32;

@external("duebox_v1", "http_read")
declare function hostHttpRead(part: i32, dst: usize, offset: i32, length: i32): i32;

@external("duebox_v1", "kv_get")
declare function hostKvGet(key: usize, keyLength: i32, dst: usize, capacity: i32): i32;

@external("duebox_v1", "kv_set")
declare function hostKvSet(key: usize, keyLength: i32, value: usize, valueLength: i32, ttlMs: i64, mode: i32): i32;

@external("duebox_v1", "kv_delete")
declare function hostKvDelete(key: usize, keyLength: i32): i32;

@external("duebox_v1", "kv_add")
declare function hostKvAdd(key: usize, keyLength: i32, delta: i64, dst: usize): i32;

@external("duebox_v1", "reason")
declare function hostReason(text: usize, length: i32): void;

@external("duebox_v1", "log")
declare function hostLog(level: i32, text: usize, length: i32): void;

/** Values up to this length, in bytes, cost one call. */
const SHORT: i32 = 128;

/** Copies a part of the payload and gives the bytes copied. */
export function payloadRead(offset: i32, into: Uint8Array): i32 {
  return max(0, hostPayloadRead(into.dataStart, offset, into.length));
}

/** A metadata value as text; empty if the host does not know the key. */
export function metaText(key: Meta): string {
  let value = new Uint8Array(SHORT);
  const length = hostMetaRead(key, value.dataStart, SHORT);
  if (length > SHORT) {
    value = new Uint8Array(length);
    hostMetaRead(key, value.dataStart, length);
  }
  return text(value, max(0, length));
}

/** A metadata value that is a number. */
export function metaInt(key: Meta): i64 {
  return hostMetaInt(key);
}

/** A configuration value; null if there is none of that name. */
export function configText(name: string): string | null {
  const key = String.UTF8.encode(name);
  let value = new Uint8Array(SHORT);
  const length = hostConfigRead(changetype<usize>(key), key.byteLength, value.dataStart, SHORT);
  if (length < 0) return null;
  if (length > SHORT) {
    value = new Uint8Array(length);
    hostConfigRead(changetype<usize>(key), key.byteLength, value.dataStart, length);
  }
  return text(value, length);
}

/** Fills the bytes with random ones. */
export function random(into: Uint8Array): void {
  hostRandom(into.dataStart, into.length);
}

/** Sets the wait before the next attempt, in milliseconds. */
export function retryAfter(ms: i64): void {
  hostRetryAfter(ms);
}

/** Puts the job off for so many milliseconds. */
export function snooze(ms: i64): void {
  hostSnooze(ms);
}

/** Sets what is kept with an acked job; 0, or an error. */
export function result(bytes: Uint8Array): i32 {
  return hostResult(bytes.dataStart, bytes.length);
}

/** Asks for a follow-up job; 0, or an error. */
export function push(head: string, body: Uint8Array): i32 {
  const bytes = String.UTF8.encode(head);
  return hostPush(changetype<usize>(bytes), bytes.byteLength, body.dataStart, body.length);
}

/** Sends a request and waits for its answer; the status, or an error. A timeout of 0 is the time that
 *  the job has left. */
export function httpSend(head: string, body: Uint8Array, timeoutMs: i32): i32 {
  const bytes = String.UTF8.encode(head);
  return hostHttpSend(changetype<usize>(bytes), bytes.byteLength, body.dataStart, body.length, timeoutMs);
}

/** A whole part of the last answer. Its length is not known before: it is read in pieces, each as large
 *  as what is there already. */
export function httpRead(part: Part): Uint8Array {
  let bytes = new Uint8Array(1024);
  let end = 0;
  while (true) {
    end += max(0, hostHttpRead(part, bytes.dataStart + end, end, bytes.length - end));
    if (end < bytes.length) return bytes.subarray(0, end);
    const more = new Uint8Array(2 * end);
    more.set(bytes);
    bytes = more;
  }
}

/** Copies what there is room for of the value of a key, and gives its whole length, or an error. */
export function kvGet(key: string, into: Uint8Array): i32 {
  const name = String.UTF8.encode(key);
  return hostKvGet(changetype<usize>(name), name.byteLength, into.dataStart, into.length);
}

/** Writes a key, for so many milliseconds or, with 0, for good; the host's answer. */
export function kvSet(key: string, value: Uint8Array, ttlMs: i64, mode: Mode): i32 {
  const name = String.UTF8.encode(key);
  return hostKvSet(changetype<usize>(name), name.byteLength, value.dataStart, value.length, ttlMs, mode);
}

/** Forgets a key; the host's answer. */
export function kvDelete(key: string): i32 {
  const name = String.UTF8.encode(key);
  return hostKvDelete(changetype<usize>(name), name.byteLength);
}

/** Adds to a key's number, which is then in the 8 bytes, the least first; the host's answer. */
export function kvAdd(key: string, delta: i64, sum: Uint8Array): i32 {
  const name = String.UTF8.encode(key);
  return hostKvAdd(changetype<usize>(name), name.byteLength, delta, sum.dataStart);
}

/** Tells the host why, for people. */
export function reason(text: string): void {
  const bytes = String.UTF8.encode(text);
  hostReason(changetype<usize>(bytes), bytes.byteLength);
}

/** Writes one log line. */
export function line(level: i32, text: string): void {
  const bytes = String.UTF8.encode(text);
  hostLog(level, changetype<usize>(bytes), bytes.byteLength);
}

/** The first bytes as text; they are UTF-8, because the host or isUtf8 says so. */
export function text(bytes: Uint8Array, length: i32): string {
  return String.UTF8.decodeUnsafe(bytes.dataStart, length);
}

/** True if the bytes are UTF-8: no stray or missing byte, no overlong form, no surrogate. */
export function isUtf8(bytes: Uint8Array): bool {
  const end = bytes.dataStart + bytes.length;
  let at = bytes.dataStart;
  while (at < end) {
    const first = load<u8>(at++);
    if (first < 0x80) continue;
    if (first < 0xc2 || first > 0xf4) return false;
    const more: usize = first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    if (at + more > end) return false;
    const second = load<u8>(at);
    if (first == 0xe0 && second < 0xa0) return false;
    if (first == 0xed && second > 0x9f) return false;
    if (first == 0xf0 && second < 0x90) return false;
    if (first == 0xf4 && second > 0x8f) return false;
    for (const stop = at + more; at < stop; at++) {
      if ((load<u8>(at) & 0xc0) != 0x80) return false;
    }
  }
  return true;
}
