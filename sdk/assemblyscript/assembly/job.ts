//! The job in hand: its payload, its metadata and its topic's configuration. Everything is read from
//! the host when it is asked for, so a handler pays only for what it looks at.

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
   * Copies a part of the payload, from offset on, and gives the bytes copied: 0 at the end and past
   * it. For payloads that need not be in memory at once.
   */
  readPayload(offset: i32, into: Uint8Array): i32 {
    return offset < 0 ? 0 : payloadRead(offset, into);
  }

  /** The payload as text; null if it is not UTF-8. */
  text(): string | null {
    const bytes = this.payload();
    return isUtf8(bytes) ? text(bytes, bytes.length) : null;
  }

  /** The payload as JSON. Ask for its `error` first: a malformed payload is a value, not a trap. */
  json(): Json {
    return Json.parse(this.payload());
  }

  /** The id the producer gave the job. */
  get id(): string {
    return metaText(Meta.Id);
  }

  /** The topic the job came through. */
  get topic(): string {
    return metaText(Meta.Topic);
  }

  /** Which attempt this is, from 1. */
  get attempt(): i32 {
    return <i32>metaInt(Meta.Attempt);
  }

  /** How many attempts the job has in all. */
  get maxAttempts(): i32 {
    return <i32>metaInt(Meta.MaxAttempts);
  }

  /** True if a nack now makes the job dead. */
  get isLastAttempt(): bool {
    return this.attempt >= this.maxAttempts;
  }

  /** When the job fell due, in unix milliseconds. */
  get dueAtMs(): i64 {
    return metaInt(Meta.DueAt);
  }

  /** When this attempt is ended by force, in unix milliseconds. */
  get deadlineMs(): i64 {
    return metaInt(Meta.Deadline);
  }

  /** The host's clock now, in unix milliseconds. */
  get nowMs(): i64 {
    return metaInt(Meta.Now);
  }

  /** How long this attempt may still run, in milliseconds; 0 when its time is over. */
  get timeLeftMs(): i64 {
    return max<i64>(0, metaInt(Meta.TimeLeft));
  }

  /** The headers of the job, by name in lower case. */
  headers(): Map<string, string> {
    const headers = new Map<string, string>();
    const lines = metaText(Meta.Headers).split("\n");
    for (let i = 0; i < lines.length; i++) {
      const colon = lines[i].indexOf(": ");
      if (colon >= 0) headers.set(lines[i].substring(0, colon), lines[i].substring(colon + 2));
    }
    return headers;
  }

  /** One header; null if the job does not have it. */
  header(name: string): string | null {
    const headers = this.headers();
    return headers.has(name) ? headers.get(name) : null;
  }

  /**
   * Asks for a follow-up job, which is pushed together with the ack of this one, or not at all. With
   * any other verdict, or a trap, it is dropped. Null if it is taken, else why not.
   */
  push(followUp: FollowUp): string | null {
    return followUp.push();
  }

  /**
   * Sets what is kept with the job when it is acked, where the topic keeps done jobs. The last one
   * counts. Null if it is taken; a result over 64 KiB is not, and the one before stays.
   */
  setResult(bytes: Uint8Array): string | null {
    return result(bytes) == 0 ? null : "the result is longer than 64 KiB";
  }

  /** A configuration value or secret of the topic; null if there is none. Strings as they stand,
   *  others as JSON text. */
  config(name: string): string | null {
    return configText(name);
  }

  /**
   * A configuration value as JSON: its `isNumber`, `isInteger`, `isBool` … say what it is; its kind
   * is Missing if there is none, and Invalid if it is a bare string.
   */
  configJson(name: string): Json {
    const value = configText(name);
    if (value === null) return Json.missing();
    return Json.parse(Uint8Array.wrap(String.UTF8.encode(value)));
  }
}
