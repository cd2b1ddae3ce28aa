//! From what came of an attempt to what is to become of the job: the topic's policy for the failure's
//! class, its backoff, and what a dead job keeps.

use std::time::Duration;

use duebox_job::{Failure, FailureClass, Outcome, Policy};
use duebox_queue::Verdict;
use duebox_sandbox::Digest;
use serde::Serialize;

use crate::manifest::Topic;

/// The wait before a job runs again that a fault of the host kept from running.
const FAULT_DELAY: Duration = Duration::from_millis(100);

/// What a dead job keeps, as JSON in `dead:info`.
#[derive(Serialize)]
struct Info<'a> {
    class: FailureClass,
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
}

/// The verdict on a job whose `attempt`-th attempt (from 1) of `max_attempts` came to `outcome`.
pub fn verdict(
    outcome: &Outcome,
    topic: &Topic,
    attempt: u32,
    max_attempts: u32,
    digest: Option<Digest>,
) -> Verdict {
    let failure = match outcome {
        Outcome::Acked => return Verdict::Ack,
        Outcome::Snoozed { delay, .. } => return Verdict::Release { delay: *delay },
        Outcome::HostFault(_) => return Verdict::Release { delay: FAULT_DELAY },
        Outcome::Failed(failure) => failure,
    };
    let policy = topic.on.get(&failure.class).copied();
    match policy.unwrap_or_else(|| failure.class.default_policy()) {
        Policy::Discard => Verdict::Ack,
        Policy::Dead => Verdict::Drop { info: info(failure, attempt, digest) },
        Policy::Retry => {
            let backoff = || topic.backoff.delay(attempt, fastrand::f64());
            Verdict::Nack {
                delay: failure.retry_after.unwrap_or_else(backoff),
                max_attempts,
                info: info(failure, attempt, digest),
            }
        }
    }
}

/// What a job keeps that its runners' deaths buried.
pub fn crashed_info() -> String {
    let reason = "its runner died, or lost the lease, as often as max_crashes allows";
    json(&Info { class: FailureClass::Crashed, reason, attempt: None, digest: None })
}

fn info(failure: &Failure, attempt: u32, digest: Option<Digest>) -> String {
    json(&Info {
        class: failure.class,
        reason: &failure.reason,
        attempt: Some(attempt),
        digest: digest.map(|digest| digest.to_string()),
    })
}

fn json(info: &Info<'_>) -> String {
    // Strings and numbers: there is nothing in it that JSON could not hold.
    serde_json::to_string(info).unwrap_or_default()
}
