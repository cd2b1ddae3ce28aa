//! A follow-up job: one that a handler asks for. It is pushed together with the ack of the job that
//! asked, or not at all: never lost, never doubled, whatever happens to the runner.
//!
//! Invariant: a head handed to the host is a block with one line a value; a value that could make two
//! of it is refused here.

import { Code, push } from "./abi";
import { hasControl, isName } from "./block";

/** The rank of a job among the due jobs of its topic. */
export enum Priority {
  Normal,
  High,
  Low,
}

/** A job to push when this one is acked. What is not set is the topic's own; of a value that is set
 *  twice, the last one counts. */
export class FollowUp {
  private names: Array<string> = new Array<string>();
  private lines: Array<string> = new Array<string>();
  private due: string = "";
  private body: Uint8Array = new Uint8Array(0);
  private forged: bool = false;

  /** A job for this topic, due at once, with an empty payload. The handler's topic must grant it. */
  constructor(topic: string) {
    this.line("topic", topic);
  }

  /** Sets the payload. */
  payload(bytes: Uint8Array): this {
    this.body = bytes;
    return this;
  }

  /** Sets the payload to a text, as UTF-8. */
  text(text: string): this {
    return this.payload(Uint8Array.wrap(String.UTF8.encode(text)));
  }

  /** Sets the id, 1 to 256 visible ASCII characters; without one it is `{id of this job}.{n}`, n
   *  counted from 1. One that is alive is kept. */
  id(id: string): this {
    return this.line("id", id);
  }

  /** Makes it fall due so many ms after the ack, up to ten years. */
  delay(ms: i64): this {
    this.due = "delay-ms: " + ms.toString() + "\n";
    return this;
  }

  /** Makes it fall due at a unix time in ms, instead of after a delay. */
  dueAt(unixMs: i64): this {
    this.due = "due-at-ms: " + unixMs.toString() + "\n";
    return this;
  }

  /** Sets the wall clock of one attempt, in ms. */
  ttr(ms: i64): this {
    return this.line("ttr-ms", ms.toString());
  }

  /** Sets the attempts in all, from 1. */
  maxAttempts(attempts: i32): this {
    return this.line("max-attempts", attempts.toString());
  }

  /** Sets how many ms after its due time it may wait for its start; 0 is for ever. */
  ttl(ms: i64): this {
    return this.line("ttl-ms", ms.toString());
  }

  /** Sets its rank among the due jobs of its topic. */
  priority(priority: Priority): this {
    const name = priority == Priority.High ? "high" : priority == Priority.Low ? "low" : "normal";
    return this.line("priority", name);
  }

  /** Sets the key whose jobs run one after the other, where the topic says so; 1 to 256 bytes. */
  key(key: string): this {
    return this.line("key", key);
  }

  /** Adds a header for its handler; the name is 1 to 62 of the characters a-z 0-9 . _ - */
  header(name: string, value: string): this {
    return this.line("h." + name, value);
  }

  /** Hands it to the host; null if it is taken, else why not. */
  push(): string | null {
    if (this.forged) return INVALID;
    switch (push(this.lines.join("") + this.due, this.body)) {
      case Code.Done:
        return null;
      case Code.Denied:
        return "the handler may not push to this topic; sandbox.push grants it";
      case Code.TooLarge:
        return "the follow-ups are over 100, over 4 MiB together, or one has a head over 16 KiB";
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

const INVALID = "the follow-up has a name or a value that no job can have";
