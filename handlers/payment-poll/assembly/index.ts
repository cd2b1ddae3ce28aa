//! Follows a payment until the provider has decided. Topic `payment.poll`, on the schedule at once,
//! 2m, 10m, 10m, 1h, 2h, 6h, 15h. The schedule is the topic's `backoff`, so an open payment sets no
//! delay of its own.
//!
//! | provider's response | verdict |
//! |---|---|
//! | paid | ack |
//! | open | nack; the next attempt is by the schedule; the last one logs a warning |
//! | failed, cancelled, expired or refused | drop; the state is final |
//! | 404 or 410: no such payment | drop, with the reason |
//! | 408, 429, 5xx, no response, or a malformed one | nack, after the `Retry-After` if there is one |
//! | 401 or 403 | nack; the job waits until the token is corrected |
//! | any other 4xx, or the event is malformed | drop, with the reason |
//!
//! Configuration: `shop`, the origin of the API, which `sandbox.http` must grant; the secret
//! `token`, if the API requires one.
//!
//! Invariant: each job logs one line `verdict=…`, so that a ledger can be read from the log.

import { Job, Verdict, log, run } from "duebox-as/assembly";
import { Event } from "./event";
import { PaymentQuery, PaymentState } from "./provider";

export function handle(payloadLength: i32): i32 {
  return run(payloadLength, decide);
}

function decide(job: Job): Verdict {
  const event = Event.read(job.json());
  const malformed = event.malformed;
  if (malformed !== null) return dropped("malformed event: " + malformed);
  const query = PaymentQuery.take(job, event.id);
  const about = "payment=" + event.id;
  const refused = query.refused;
  if (refused !== null) {
    log.info((query.isFinal ? "verdict=drop " : "verdict=nack ") + about + " reason=" + refused.reason);
    return refused;
  }
  const fields = about + " state=" + query.stateName;
  switch (query.state) {
    case PaymentState.Paid:
      log.info("verdict=ack " + fields);
      return Verdict.ack();
    case PaymentState.Final:
      log.info("verdict=drop " + fields);
      return Verdict.drop("the payment " + event.id + " is " + query.stateName);
    default:
      return open(job, event.id, fields);
  }
}

function open(job: Job, id: string, fields: string): Verdict {
  const attempt = job.attempt.toString() + " of " + job.maxAttempts.toString();
  if (job.isLastAttempt) {
    log.warn("giving up on the payment " + id + ": still open at attempt " + attempt);
  }
  log.info("verdict=nack " + fields + " last_attempt=" + job.isLastAttempt.toString());
  return Verdict.nack("the payment " + id + " is still open at attempt " + attempt);
}

function dropped(reason: string): Verdict {
  log.info("verdict=drop reason=" + reason);
  return Verdict.drop(reason);
}
