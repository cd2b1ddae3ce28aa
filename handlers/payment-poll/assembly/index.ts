//! Follows a payment until the provider has decided: topic `payment.poll`, on the schedule at once,
//! 2m, 10m, 10m, 1h, 2h, 6h, 15h. The schedule is the topic's `backoff`, so a nack here asks for no
//! delay of its own.
//!
//! | the provider says, at this look | verdict |
//! |---|---|
//! | paid | ack |
//! | open | nack: the schedule says when to look again; the last look logs a warning |
//! | failed, cancelled, expired or refused | drop: it is final |
//! | anything else, or the event is malformed | drop, with the reason |
//!
//! Invariant: one line `verdict=…` a job, so that a ledger can be read from the log.

import { Job, Verdict, log, run } from "duebox-as/assembly";
import { Payment, PaymentState } from "./payment";

export function handle(payloadLength: i32): i32 {
  return run(payloadLength, decide);
}

function decide(job: Job): Verdict {
  const payment = Payment.read(job.json(), job.attempt);
  const malformed = payment.malformed;
  if (malformed !== null) return dropped("malformed event: " + malformed);
  const about = "payment=" + payment.id + " state=" + payment.said;
  switch (payment.state) {
    case PaymentState.Paid:
      log.info("verdict=ack " + about);
      return Verdict.ack();
    case PaymentState.Final:
      log.info("verdict=drop " + about);
      return Verdict.drop("the payment " + payment.id + " is " + payment.said);
    default:
      return open(job, payment, about);
  }
}

function open(job: Job, payment: Payment, about: string): Verdict {
  const looks = job.attempt.toString() + " of " + job.maxAttempts.toString();
  if (job.isLastAttempt) {
    log.warn("giving up on the payment " + payment.id + ": still open at look " + looks);
  }
  log.info("verdict=nack " + about + " last_attempt=" + job.isLastAttempt.toString());
  return Verdict.nack("the payment " + payment.id + " is still open at look " + looks);
}

function dropped(reason: string): Verdict {
  log.info("verdict=drop reason=" + reason);
  return Verdict.drop(reason);
}
