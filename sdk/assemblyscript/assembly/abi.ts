//! The ABI as functions on bytes and strings. This is the only file of the SDK that handles
//! pointers.
//!
//! Invariant: a pointer passed to the host is the data of an array or a buffer that a local
//! variable holds during the call, with its own length. The compiler drops imports that a handler
//! never calls.

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

/** Return values of the host that callers distinguish. */
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

/** The parts of the last response to a request. */
export const enum Part {
  Head = 0,
  Body = 1,
  Error = 2,
}

/** The condition under which kvSet writes. */
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

/** Values up to this length, in bytes, need only one call. */
const SHORT: i32 = 128;

/** Copies a part of the payload and returns the number of bytes copied. */
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

/** A metadata value that is an integer. */
export function metaInt(key: Meta): i64 {
  return hostMetaInt(key);
}

/** A configuration value; null if it does not exist. */
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

/** Fills the buffer with random bytes. */
export function random(into: Uint8Array): void {
  hostRandom(into.dataStart, into.length);
}

/** Sets the delay before the next attempt, in milliseconds. */
export function retryAfter(ms: i64): void {
  hostRetryAfter(ms);
}

/** Puts the job off by this many milliseconds. */
export function snooze(ms: i64): void {
  hostSnooze(ms);
}

/** Sets the result to keep with an acked job; returns 0 or an error code. */
export function result(bytes: Uint8Array): i32 {
  return hostResult(bytes.dataStart, bytes.length);
}

/** Requests a follow-up job; returns 0 or an error code. */
export function push(head: string, body: Uint8Array): i32 {
  const bytes = String.UTF8.encode(head);
  return hostPush(changetype<usize>(bytes), bytes.byteLength, body.dataStart, body.length);
}

/**
 * Sends a request and waits for its response; returns the status or an error code. A timeout of 0
 * means the job's remaining time.
 */
export function httpSend(head: string, body: Uint8Array, timeoutMs: i32): i32 {
  const bytes = String.UTF8.encode(head);
  return hostHttpSend(changetype<usize>(bytes), bytes.byteLength, body.dataStart, body.length, timeoutMs);
}

/**
 * Reads a whole part of the last response. Its length is unknown, so it is read in pieces, each as
 * large as everything read before it.
 */
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

/** Copies as much of a key's value as fits, and returns its full length or an error code. */
export function kvGet(key: string, into: Uint8Array): i32 {
  const name = String.UTF8.encode(key);
  return hostKvGet(changetype<usize>(name), name.byteLength, into.dataStart, into.length);
}

/** Writes a key, for ttlMs milliseconds or, with 0, permanently; returns 0 or an error code. */
export function kvSet(key: string, value: Uint8Array, ttlMs: i64, mode: Mode): i32 {
  const name = String.UTF8.encode(key);
  return hostKvSet(changetype<usize>(name), name.byteLength, value.dataStart, value.length, ttlMs, mode);
}

/** Deletes a key; returns 0 or an error code. */
export function kvDelete(key: string): i32 {
  const name = String.UTF8.encode(key);
  return hostKvDelete(changetype<usize>(name), name.byteLength);
}

/**
 * Adds to a key's number and writes the new number to the 8 bytes in little-endian order; returns 0
 * or an error code.
 */
export function kvAdd(key: string, delta: i64, sum: Uint8Array): i32 {
  const name = String.UTF8.encode(key);
  return hostKvAdd(changetype<usize>(name), name.byteLength, delta, sum.dataStart);
}

/** Sets the reason of the verdict. */
export function reason(text: string): void {
  const bytes = String.UTF8.encode(text);
  hostReason(changetype<usize>(bytes), bytes.byteLength);
}

/** Writes one log line. */
export function line(level: i32, text: string): void {
  const bytes = String.UTF8.encode(text);
  hostLog(level, changetype<usize>(bytes), bytes.byteLength);
}

/** The first bytes as text; the host or isUtf8 guarantees that they are UTF-8. */
export function text(bytes: Uint8Array, length: i32): string {
  return String.UTF8.decodeUnsafe(bytes.dataStart, length);
}

/** Whether the bytes are UTF-8: no stray or missing byte, no overlong form, no surrogate. */
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
