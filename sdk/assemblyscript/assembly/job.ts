//! The current job: its payload, its metadata and its topic's configuration. Everything is read
//! from the host on demand, so a handler pays only for what it reads.

import { Meta, configText, isUtf8, metaInt, metaText, payloadRead, result, text } from "./abi";
import { FollowUp } from "./follow-up";
import { Json } from "./json";

/** One attempt of one job. */
export class Job {
  constructor(
    /** The payload's length in bytes. */
    readonly payloadLength: i32,
  ) {}

  /** The whole payload, copied from the host. */
  payload(): Uint8Array {
    const bytes = new Uint8Array(this.payloadLength);
    payloadRead(0, bytes);
    return bytes;
  }

  /**
   * Copies a part of the payload from offset on and returns the number of bytes copied, 0 at or
   * past the end. For payloads that need not be in memory at once.
   */
  readPayload(offset: i32, into: Uint8Array): i32 {
    return offset < 0 ? 0 : payloadRead(offset, into);
  }

  /** The payload as text; null if it is not UTF-8. */
  text(): string | null {
    const bytes = this.payload();
    return isUtf8(bytes) ? text(bytes, bytes.length) : null;
  }

  /** The payload as JSON. Check its `error` first: a malformed payload is a value, not a trap. */
  json(): Json {
    return Json.parse(this.payload());
  }

  /** The job's id. */
  get id(): string {
    return metaText(Meta.Id);
  }

  /** The job's topic. */
  get topic(): string {
    return metaText(Meta.Topic);
  }

  /** The number of this attempt, from 1. */
  get attempt(): i32 {
    return <i32>metaInt(Meta.Attempt);
  }

  /** The number of attempts in total. */
  get maxAttempts(): i32 {
    return <i32>metaInt(Meta.MaxAttempts);
  }

  /** Whether a nack would make the job dead. */
  get isLastAttempt(): bool {
    return this.attempt >= this.maxAttempts;
  }

  /** The job's due time, in unix milliseconds. */
  get dueAtMs(): i64 {
    return metaInt(Meta.DueAt);
  }

  /** The end of this attempt's time, in unix milliseconds. The host then stops the handler. */
  get deadlineMs(): i64 {
    return metaInt(Meta.Deadline);
  }

  /** The host's clock, in unix milliseconds. */
  get nowMs(): i64 {
    return metaInt(Meta.Now);
  }

  /** The remaining time of this attempt, in milliseconds; 0 when it is over. */
  get timeLeftMs(): i64 {
    return max<i64>(0, metaInt(Meta.TimeLeft));
  }

  /** The job's headers, by name in lower case. */
  headers(): Map<string, string> {
    const headers = new Map<string, string>();
    const lines = metaText(Meta.Headers).split("\n");
    for (let i = 0; i < lines.length; i++) {
      const colon = lines[i].indexOf(": ");
      if (colon >= 0) headers.set(lines[i].substring(0, colon), lines[i].substring(colon + 2));
    }
    return headers;
  }

  /** A header of the job; null if it does not exist. */
  header(name: string): string | null {
    const headers = this.headers();
    return headers.has(name) ? headers.get(name) : null;
  }

  /**
   * Requests a follow-up job. It is pushed together with the ack of this job; with any other
   * verdict, or after a trap, it is discarded. Returns null, or why it is refused.
   */
  push(followUp: FollowUp): string | null {
    return followUp.push();
  }

  /**
   * Sets the result to keep with the acked job, if the topic keeps done jobs. The last call counts.
   * Returns null, or why it is refused: a result over 64 KiB is, and the previous one then stays.
   */
  setResult(bytes: Uint8Array): string | null {
    return result(bytes) == 0 ? null : "the result is longer than 64 KiB";
  }

  /** Sets the result to a value as JSON. Returns null, or why it is refused. */
  setResultJson(value: Json): string | null {
    return this.setResult(value.toBytes());
  }

  /**
   * A configuration value or secret of the topic; null if it does not exist. Strings as they are,
   * other values as JSON text.
   */
  config(name: string): string | null {
    return configText(name);
  }

  /**
   * A configuration value as JSON; `isNumber`, `isInteger`, `isBool` … tell its type. Its kind is
   * Missing if the value does not exist, and Invalid if it is a plain string.
   */
  configJson(name: string): Json {
    const value = configText(name);
    if (value === null) return Json.missing();
    return Json.parse(Uint8Array.wrap(String.UTF8.encode(value)));
  }
}
