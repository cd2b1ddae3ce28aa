//! Closes an order that was not paid in time: topic `order.close`, pushed by the shop with the time
//! the customer has (say 30 minutes) as its delay.
//!
//! | the payment is | verdict |
//! |---|---|
//! | unknown, unpaid, failed, cancelled or expired | ack: the order is closed |
//! | paid or refunded | ack: the order stays as it is |
//! | processing | nack: look again after `processing_wait_s` (configuration, 120 by default) |
//! | in an unknown state, or the event is malformed | drop, with the reason |
//!
//! Invariant: one line `verdict=…` a job, so that a ledger can be read from the log.

mod event;

use std::time::Duration;

use duebox_sdk::{Job, Verdict, info};
use event::{Event, Payment};

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
    let event = match job.json::<Event>().map_err(|error| error.to_string()).and_then(Event::check)
    {
        Ok(event) => event,
        Err(reason) => return dropped(format!("malformed event: {reason}")),
    };
    let (order, shop) = (&event.order, event.shop());
    match event.payment(job.attempt()) {
        Payment::Unpaid | Payment::Failed | Payment::Cancelled | Payment::Expired => {
            let amount = event.amount();
            info!("verdict=ack edition={EDITION} order={order} shop={shop:?} closed=true {amount}");
            Verdict::Ack
        }
        Payment::Paid | Payment::Refunded => {
            info!(
                "verdict=ack edition={EDITION} order={order} shop={shop:?} closed=false paid=true"
            );
            Verdict::Ack
        }
        Payment::Processing => processing(&job, &event),
    }
}

/// The money is on its way: closing now would take the order from a customer who paid.
fn processing(job: &Job, event: &Event) -> Verdict {
    let order = &event.order;
    let wait_s = match job.config_as::<f64>("processing_wait_s") {
        Ok(wait_s) => wait_s.unwrap_or(PROCESSING_WAIT_S),
        Err(error) => return misconfigured(error.to_string()),
    };
    if !(0.0..=PROCESSING_WAIT_S_MAX).contains(&wait_s) {
        return misconfigured(format!(
            "the configuration value \"processing_wait_s\" is {wait_s}; it must be seconds from 0 to {PROCESSING_WAIT_S_MAX}"
        ));
    }
    info!(
        "verdict=nack edition={EDITION} order={order} payment=processing wait_s={wait_s} last_attempt={}",
        job.is_last_attempt()
    );
    let reason = format!("the payment of order {order} is still processing");
    Verdict::retry_after(Duration::from_secs_f64(wait_s), reason)
}

/// The job is not at fault: it waits, by the topic's backoff, for whoever mends the manifest.
fn misconfigured(reason: String) -> Verdict {
    info!("verdict=nack edition={EDITION} reason={reason:?}");
    Verdict::nack(reason)
}

fn dropped(reason: String) -> Verdict {
    info!("verdict=drop edition={EDITION} reason={reason:?}");
    Verdict::drop(reason)
}
