//! Closes an order that was not paid in time. The shop pushes the job to topic `order.close` with
//! the customer's time to pay, such as 30 minutes, as its delay. The handler asks the shop for the
//! state of the payment and tells it to close the order.
//!
//! | shop's response | verdict |
//! |---|---|
//! | unpaid, failed, cancelled or expired | the order is closed, then ack |
//! | paid or refunded, when asked or when closing | ack; the order stays as it is |
//! | processing | nack; the next attempt is after `processing_wait_s` (configuration, 120 by default) |
//! | 404 or 410: no such order | drop, with the reason |
//! | 408, 429, 5xx, no response, or a malformed one | nack, after the `Retry-After` if there is one |
//! | 401 or 403 | nack; the job waits until the token is corrected |
//! | any other 4xx, or the event is malformed | drop, with the reason |
//!
//! Configuration: `shop`, the shop's origin, which `sandbox.http` must grant; the secret `token`,
//! if the shop requires one.
//!
//! Invariants: each job logs one line `verdict=…`, so that a ledger can be read from the log. An
//! order that was closed and acked was unpaid at the shop when it was closed.

mod event;
mod shop;

use std::time::Duration;

use duebox_sdk::{Job, Verdict, info};
use event::Event;
use shop::{Closing, Payment, Shop};

/// The build, set at compile time, so that a rebuilt module can be told apart from the last.
const EDITION: &str = match option_env!("ORDER_CLOSE_EDITION") {
    Some(edition) => edition,
    None => "1",
};

/// The default delay for a payment in processing, in seconds.
const PROCESSING_WAIT_S: f64 = 120.0;

/// The maximum of that delay: 365 days, in seconds.
const PROCESSING_WAIT_S_MAX: f64 = 31_536_000.0;

duebox_sdk::handler!(handle);

fn handle(job: Job) -> Verdict {
    let (verdict, about) = decide(&job).unwrap_or_else(|verdict| {
        let about = format!("reason={:?}", reason(&verdict));
        (verdict, about)
    });
    info!("verdict={} edition={EDITION} {about}", word(&verdict));
    verdict
}

/// Returns the verdict and the text of its log line, or a verdict whose reason is enough.
fn decide(job: &Job) -> Result<(Verdict, String), Verdict> {
    let event = job.json::<Event>().map_err(|error| error.to_string()).and_then(Event::check);
    let event = event.map_err(|why| Verdict::drop(format!("malformed event: {why}")))?;
    let shop = Shop::of(job)?;
    let about = format!("order={} shop={:?}", event.order, event.shop());
    match shop.payment(job, &event.order)? {
        Payment::Unpaid | Payment::Failed | Payment::Cancelled | Payment::Expired => {
            let about = match shop.close(job, &event.order)? {
                Closing::Closed => format!("{about} closed=true {}", event.amount()),
                Closing::PaidMeanwhile => format!("{about} closed=false paid=true"),
            };
            Ok((Verdict::Ack, about))
        }
        Payment::Paid | Payment::Refunded => {
            Ok((Verdict::Ack, format!("{about} closed=false paid=true")))
        }
        Payment::Processing => {
            let wait = processing_wait(job)?;
            let (wait_s, is_last) = (wait.as_secs_f64(), job.is_last_attempt());
            let about =
                format!("{about} payment=processing wait_s={wait_s} last_attempt={is_last}");
            let reason = format!("the payment of order {} is still processing", event.order);
            Ok((Verdict::retry_after(wait, reason), about))
        }
    }
}

/// The delay for a payment in processing: closing now would cancel the order of a customer who
/// paid. If the configured value is invalid, the job is not at fault and waits, by the topic's
/// backoff, until the manifest is corrected.
fn processing_wait(job: &Job) -> Result<Duration, Verdict> {
    let wait_s = job.config_as::<f64>("processing_wait_s")?.unwrap_or(PROCESSING_WAIT_S);
    if !(0.0..=PROCESSING_WAIT_S_MAX).contains(&wait_s) {
        return Err(Verdict::nack(format!(
            "the configuration value \"processing_wait_s\" is {wait_s}; it must be seconds from 0 to {PROCESSING_WAIT_S_MAX}"
        )));
    }
    Ok(Duration::from_secs_f64(wait_s))
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Ack => "ack",
        Verdict::Drop { .. } => "drop",
        Verdict::Nack { .. } | Verdict::Snooze { .. } => "nack",
    }
}

fn reason(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Ack => "",
        Verdict::Nack { reason, .. }
        | Verdict::Snooze { reason, .. }
        | Verdict::Drop { reason } => reason,
    }
}
