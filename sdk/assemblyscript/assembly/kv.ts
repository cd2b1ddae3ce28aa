//! The topic's store (`sandbox.kv`): small values under keys, for counters, cursors and marks. All jobs of
//! the topic share it, whichever runner they run in.
//!
//! A key is 1 to 256 bytes, a value up to 64 KiB; a topic has at most 100,000 keys and 64 MiB. What is
//! written is written at once, and stays when the job fails: it may be there already when a job runs again.
//! A time to live is 1 ms to ten years, or 0 for good.

import { Code, Mode, isUtf8, kvAdd, kvDelete, kvGet, kvSet, text } from "./abi";

/** Values up to this length, in bytes, cost one call. */
const SHORT: i32 = 512;

/** What came of a call to the store. */
export class KvAnswer {
  /** Why the call did nothing; null if it did what it says. */
  error: string | null = null;
  /** What get found; null if there is no value. What add wrote is decimal text. */
  bytes: Uint8Array | null = null;
  /** What add made of the number. */
  sum: i64 = 0;

  constructor(
    /** Whether there was a value to get or to delete, or the value was written. */
    readonly done: bool,
  ) {}

  /** What get found, as text; null if there is no value, or it is not UTF-8. */
  get text(): string | null {
    const bytes = this.bytes;
    return bytes !== null && isUtf8(bytes) ? text(bytes, bytes.length) : null;
  }
}

export namespace kv {
  /** The value of a key. */
  export function get(key: string): KvAnswer {
    let value = new Uint8Array(SHORT);
    let length = kvGet(key, value);
    // Others may write it between two calls, so it is asked until it fits; each time takes a longer one, of
    // at most 64 KiB.
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

  /** Sets a key to a text, as UTF-8. */
  export function setText(key: string, value: string, ttlMs: i64 = 0): KvAnswer {
    return set(key, Uint8Array.wrap(String.UTF8.encode(value)), ttlMs);
  }

  /** Sets a key that has no value; `done` tells whether it did. Of several jobs that try, one does. */
  export function setIfAbsent(key: string, value: Uint8Array, ttlMs: i64 = 0): KvAnswer {
    return answerOf(kvSet(key, value, ttlMs, Mode.IfAbsent), Code.Conflict);
  }

  /**
   * Sets a key that nobody, this job included, has written since this job's last get of it; `done` tells
   * whether it did. A job that did not ask for the key before never writes it so; of more than 1,000 keys
   * the host does not remember what was seen.
   */
  export function setIfUnchanged(key: string, value: Uint8Array, ttlMs: i64 = 0): KvAnswer {
    return answerOf(kvSet(key, value, ttlMs, Mode.IfUnchanged), Code.Conflict);
  }

  /** Forgets a key; `done` tells whether it had a value. */
  export function remove(key: string): KvAnswer {
    return answerOf(kvDelete(key), Code.NotFound);
  }

  /** Adds to a key's number, which is 0 where there is none; `sum` is the new number. The key's time to
   *  live stays as it is. Of several jobs that add, each counts once. */
  export function add(key: string, delta: i64): KvAnswer {
    const bytes = new Uint8Array(8);
    const answer = answerOf(kvAdd(key, delta, bytes), Code.Done);
    if (answer.done) answer.sum = load<i64>(bytes.dataStart);
    return answer;
  }
}

/** Tells an answer that did it from the one that means no, and from the errors. */
function answerOf(code: i32, no: i32): KvAnswer {
  const answer = new KvAnswer(code == Code.Done);
  if (code != Code.Done && code != no) answer.error = errorOf(code);
  return answer;
}

function errorOf(code: i32): string {
  switch (code) {
    case Code.Invalid:
      return "a key has 1 to 256 bytes, a time to live is at most ten years, and a sum is of whole numbers of 64 bits";
    case Code.TooLarge:
      return "the value is over 64 KiB, or the topic's store is full";
    default:
      return "the topic's store cannot be reached";
  }
}
