//! Follow-up jobs that a handler requests. The host pushes them together with the ack of the
//! handler's job, or not at all, so they are neither lost nor duplicated.
//!
//! Invariant: the head passed to the host is a block with one line per value. A value that would
//! forge a second line is refused here.

import { Code, push } from "./abi";
import { hasControl, isName } from "./block";
import { Json } from "./json";

/** The priority of a job among the due jobs of its topic. */
export enum Priority {
  /** The default. */
  Normal,
  /** Before the others. */
  High,
  /** After the others. */
  Low,
}

/**
 * A job to push when this one is acked. Unset options have the defaults of the target topic. If a
 * value is set twice, the last one counts.
 */
export class FollowUp {
  private names: Array<string> = new Array<string>();
  private lines: Array<string> = new Array<string>();
  private due: string = "";
  private body: Uint8Array = new Uint8Array(0);
  private forged: bool = false;

  /**
   * Creates a job for this topic that is due at once and has an empty payload. The handler's topic
   * must grant it.
   */
  constructor(topic: string) {
    this.line("topic", topic);
  }

  /** Sets the payload. */
  payload(bytes: Uint8Array): this {
    this.body = bytes;
    return this;
  }

  /** Sets the payload to a text as UTF-8. */
  text(text: string): this {
    return this.payload(Uint8Array.wrap(String.UTF8.encode(text)));
  }

  /** Sets the payload to a value as JSON. */
  json(value: Json): this {
    return this.payload(value.toBytes());
  }

  /**
   * Sets the id, 1 to 256 visible ASCII characters. The default is `{id of this job}.{n}` with n
   * counted from 1. If a job with this id is live, that job is kept.
   */
  id(id: string): this {
    return this.line("id", id);
  }

  /** Makes it due this many ms after the ack, at most ten years. */
  delay(ms: i64): this {
    this.due = "delay-ms: " + ms.toString() + "\n";
    return this;
  }

  /** Makes it due at a unix time in ms, instead of after a delay. */
  dueAt(unixMs: i64): this {
    this.due = "due-at-ms: " + unixMs.toString() + "\n";
    return this;
  }

  /** Sets the wall-clock limit of one attempt, in ms. */
  ttr(ms: i64): this {
    return this.line("ttr-ms", ms.toString());
  }

  /** Sets the number of attempts in total, at least 1. */
  maxAttempts(attempts: i32): this {
    return this.line("max-attempts", attempts.toString());
  }

  /** Sets how many ms after its due time it may wait to start; 0 means without limit. */
  ttl(ms: i64): this {
    return this.line("ttl-ms", ms.toString());
  }

  /** Sets its priority among the due jobs of its topic. */
  priority(priority: Priority): this {
    const name = priority == Priority.High ? "high" : priority == Priority.Low ? "low" : "normal";
    return this.line("priority", name);
  }

  /**
   * Sets the key, 1 to 256 bytes. Jobs with the same key run one after the other, if the topic is
   * configured so.
   */
  key(key: string): this {
    return this.line("key", key);
  }

  /** Adds a header for its handler. The name has 1 to 62 of the characters a-z 0-9 . _ - */
  header(name: string, value: string): this {
    return this.line("h." + name, value);
  }

  /** Passes it to the host; returns null, or why it is refused. */
  push(): string | null {
    if (this.forged) return INVALID;
    switch (push(this.lines.join("") + this.due, this.body)) {
      case Code.Done:
        return null;
      case Code.Denied:
        return "the handler may not push to this topic; sandbox.push grants it";
      case Code.TooLarge:
        return "there are over 100 follow-ups, over 4 MiB of them, or one has a head over 16 KiB";
      default:
        return INVALID;
    }
  }

  private line(name: string, value: string): this {
    if (!isName(name) || hasControl(value)) this.forged = true;
    const line = name + ": " + value + "\n";
    const at = this.names.indexOf(name);
    if (at >= 0) {
      this.lines[at] = line;
    } else {
      this.names.push(name);
      this.lines.push(line);
    }
    return this;
  }
}

const INVALID = "the follow-up has an invalid name or value";
