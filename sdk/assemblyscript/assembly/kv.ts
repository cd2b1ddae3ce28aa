//! The topic's store (`sandbox.kv`): small values under keys, for counters, cursors and markers.
//! All jobs of the topic share it, whichever daemon runs them.
//!
//! A key has 1 to 256 bytes, a value at most 64 KiB, and a topic at most 100,000 keys and 64 MiB. A
//! write takes effect at once and stays when the job fails, so it may already be there when the job
//! runs again. A time to live is 1 ms to ten years, or 0 for permanent.

import { Code, Mode, isUtf8, kvAdd, kvDelete, kvGet, kvSet, text } from "./abi";

/** Values up to this length, in bytes, need only one call. */
const SHORT: i32 = 512;

/** The result of a call to the store. */
export class KvAnswer {
  /** Why the call failed; null if it succeeded. */
  error: string | null = null;
  /**
   * The value that get found; null if there is none. A number written by add reads as decimal text.
   */
  bytes: Uint8Array | null = null;
  /** The new number after add. */
  sum: i64 = 0;

  constructor(
    /** Whether there was a value to get or to delete, or the value was written. */
    readonly done: bool,
  ) {}

  /** The value that get found as text; null if there is none or it is not UTF-8. */
  get text(): string | null {
    const bytes = this.bytes;
    return bytes !== null && isUtf8(bytes) ? text(bytes, bytes.length) : null;
  }
}

/** The calls to the store. */
export namespace kv {
  /** The value of a key. */
  export function get(key: string): KvAnswer {
    let value = new Uint8Array(SHORT);
    let length = kvGet(key, value);
    // Another job may write the key between two calls, so the read repeats with a longer buffer
    // until the value, of at most 64 KiB, fits.
    while (length > value.length) {
      value = new Uint8Array(length);
      length = kvGet(key, value);
    }
    const answer = answerOf(min(length, Code.Done), Code.NotFound);
    if (answer.done) answer.bytes = value.subarray(0, length);
    return answer;
  }

  /** Sets a key. */
  export function set(key: string, value: Uint8Array, ttlMs: i64 = 0): KvAnswer {
    return answerOf(kvSet(key, value, ttlMs, Mode.Always), Code.Done);
  }

  /** Sets a key to a text as UTF-8. */
  export function setText(key: string, value: string, ttlMs: i64 = 0): KvAnswer {
    return set(key, Uint8Array.wrap(String.UTF8.encode(value)), ttlMs);
  }

  /**
   * Sets a key that has no value; `done` tells whether it did. Of several jobs that try, one
   * succeeds.
   */
  export function setIfAbsent(key: string, value: Uint8Array, ttlMs: i64 = 0): KvAnswer {
    return answerOf(kvSet(key, value, ttlMs, Mode.IfAbsent), Code.Conflict);
  }

  /**
   * Sets a key that no job, including this one, has written since this job's last get of it; `done`
   * tells whether it did. Without an earlier get it writes nothing. The host remembers the last
   * reads of at most 1,000 keys.
   */
  export function setIfUnchanged(key: string, value: Uint8Array, ttlMs: i64 = 0): KvAnswer {
    return answerOf(kvSet(key, value, ttlMs, Mode.IfUnchanged), Code.Conflict);
  }

  /** Deletes a key; `done` tells whether it had a value. */
  export function remove(key: string): KvAnswer {
    return answerOf(kvDelete(key), Code.NotFound);
  }

  /**
   * Adds to a key's number, 0 if it has no value; `sum` is the new number. The key's time to live
   * does not change. Concurrent additions each count once.
   */
  export function add(key: string, delta: i64): KvAnswer {
    const bytes = new Uint8Array(8);
    const answer = answerOf(kvAdd(key, delta, bytes), Code.Done);
    if (answer.done) answer.sum = load<i64>(bytes.dataStart);
    return answer;
  }
}

/** Converts the host's return value; the code `no` means that the call did nothing. */
function answerOf(code: i32, no: i32): KvAnswer {
  const answer = new KvAnswer(code == Code.Done);
  if (code != Code.Done && code != no) answer.error = errorOf(code);
  return answer;
}

function errorOf(code: i32): string {
  switch (code) {
    case Code.Invalid:
      return "a key has 1 to 256 bytes, a time to live is at most ten years, and a sum is a 64-bit integer";
    case Code.TooLarge:
      return "the value is over 64 KiB, or the topic's store is full";
    default:
      return "the topic's store cannot be reached";
  }
}
