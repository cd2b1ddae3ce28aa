//! Closes an order that was not paid in time: topic `order.close`, pushed by the shop with the time
//! the customer has (say 30 minutes) as its delay. It asks the shop what came of the payment, and has
//! the shop close the order.
//!
//! | the shop says | verdict |
//! |---|---|
//! | unpaid, failed, cancelled or expired | the order is closed, then ack |
//! | paid or refunded, at the look or at the closing | ack: the order stays as it is |
//! | processing | nack: look again after `processing_wait_s` (configuration, 120 by default) |
//! | 404 or 410: there is no such order (any more) | drop, with the reason |
//! | 408, 429, 5xx, nothing at all, or what cannot be read | nack, after its `Retry-After` if it has one |
//! | 401 or 403 | nack: the job waits for whoever mends the token |
//! | any other 4xx, or the event is malformed | drop, with the reason |
//!
//! Configuration: `shop`, the shop's origin, which `sandbox.http` must grant; the secret `token`, if
//! the shop wants one. Invariants: one line `verdict=…` a job, so that a ledger can be read from the
//! log; an order that is closed and acked was unpaid at the shop when it was closed.

mod event;
mod shop;

use std::time::Duration;

use duebox_sdk::{Job, Verdict, info};
use event::Event;
use shop::{Closing, Payment, Shop};

/// Which build this is; set at compile time, so that a rebuilt module can be told from the last.
const EDITION: &str = match option_env!("ORDER_CLOSE_EDITION") {
    Some(edition) => edition,
    None => "1",
};

/// How long to wait for a payment in processing where the topic does not say, in seconds.
const PROCESSING_WAIT_S: f64 = 120.0;

/// The longest such wait a topic may ask for: 365 days, in seconds.
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

/// The verdict, and what the log line says of it; or one whose reason says all.
fn decide(job: &Job) -> Result<(Verdict, String), Verdict> {
    let event = job.json::<Event>().map_err(|error| error.to_string()).and_then(Event::check);
    let event = event.map_err(|why| Verdict::drop(format!("malformed event: {why}")))?;
    let shop = Shop::of(job)?;
    let about = format!("order={} shop={:?}", event.order, event.shop());
    match shop.look(job, &event.order)? {
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

/// The money is on its way: closing now would take the order from a customer who paid. A wrong value
/// is not the job's fault: it waits, by the topic's backoff, for whoever mends the manifest.
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
