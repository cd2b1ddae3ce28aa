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
