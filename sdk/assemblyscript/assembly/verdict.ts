//! What a handler decides about its job. The host receives the verdict once, when the handler has
//! returned.

import { reason as tellReason, retryAfter as tellRetryAfter, snooze as tellSnooze } from "./abi";

const enum Kind {
  Ack = 0,
  Nack = 1,
  Drop = 2,
}

/** The handler's decision, created by ack, nack, retryAfter, snooze or drop. */
export class Verdict {
  private constructor(
    private kind: Kind,
    /** The reason, kept with the job; at most 4 KiB. */
    readonly reason: string,
    private waitMs: i64,
    private snoozes: bool = false,
  ) {}

  /** Done: the job is removed. */
  static ack(): Verdict {
    return new Verdict(Kind.Ack, "", -1);
  }

  /**
   * Failed: the job runs again after the topic's backoff while it has attempts left, and is dead
   * afterwards.
   */
  static nack(reason: string): Verdict {
    return new Verdict(Kind.Nack, reason, -1);
  }

  /**
   * Failed; the next attempt is after this many ms, 0 to 365 days. It counts as an attempt like any
   * nack.
   */
  static retryAfter(ms: i64, reason: string): Verdict {
    return new Verdict(Kind.Nack, reason, max<i64>(0, ms));
  }

  /**
   * Not now, but not a failure: something the job needs is busy or missing. The job comes back
   * after this many ms, 0 to 365 days, with all its attempts, at most as often as the topic's
   * max_snoozes.
   */
  static snooze(ms: i64, reason: string): Verdict {
    return new Verdict(Kind.Nack, reason, max<i64>(0, ms), true);
  }

  /** Never again: the job is dead at once. */
  static drop(reason: string): Verdict {
    return new Verdict(Kind.Drop, reason, -1);
  }

  /** Passes the reason and the delay to the host, and returns the verdict's number. */
  settle(): i32 {
    if (this.snoozes) tellSnooze(this.waitMs);
    else if (this.waitMs >= 0) tellRetryAfter(this.waitMs);
    if (this.reason.length > 0) tellReason(this.reason);
    return this.kind;
  }
}
