//! What a handler decides about its job. A verdict is a value; the host hears of it once, when the
//! handler has returned.

import { reason as tellReason, retryAfter as tellRetryAfter, snooze as tellSnooze } from "./abi";

const enum Kind {
  Ack = 0,
  Nack = 1,
  Drop = 2,
}

/** What becomes of the job. Made by ack, nack, retryAfter, snooze or drop. */
export class Verdict {
  private constructor(
    private kind: Kind,
    /** Why, for people; kept with the job, at most 4 KiB. */
    readonly reason: string,
    private waitMs: i64,
    private snoozes: bool = false,
  ) {}

  /** Done: the job is gone. */
  static ack(): Verdict {
    return new Verdict(Kind.Ack, "", -1);
  }

  /** Failed: it runs again after the topic's backoff while it has attempts left, then it is dead. */
  static nack(reason: string): Verdict {
    return new Verdict(Kind.Nack, reason, -1);
  }

  /** Failed; the next attempt is after so many ms, 0 to 365 days. It spends an attempt like any nack. */
  static retryAfter(ms: i64, reason: string): Verdict {
    return new Verdict(Kind.Nack, reason, max<i64>(0, ms));
  }

  /**
   * Not now, and no failure: what the job needs is taken, or not there yet. It comes back after so many
   * ms, 0 to 365 days, with all its attempts, as often as the topic's max_snoozes allows.
   */
  static snooze(ms: i64, reason: string): Verdict {
    return new Verdict(Kind.Nack, reason, max<i64>(0, ms), true);
  }

  /** Never again: the job is dead at once. */
  static drop(reason: string): Verdict {
    return new Verdict(Kind.Drop, reason, -1);
  }

  /** Tells the host the reason and the delay, and gives the number that the verdict is to it. */
  settle(): i32 {
    if (this.snoozes) tellSnooze(this.waitMs);
    else if (this.waitMs >= 0) tellRetryAfter(this.waitMs);
    if (this.reason.length > 0) tellReason(this.reason);
    return this.kind;
  }
}
