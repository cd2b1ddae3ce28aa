//! A consumer that pulls the jobs of one topic and settles them, one after the other.

use std::sync::Arc;
use std::time::Duration;

use duebox_queue::{Lease, PullOptions, Queue, Verdict};
use tokio::time::sleep;

use super::daemon::topic;
use super::handler::REPLACEMENT;
use super::ledger::{End, Ledger, Start};
use super::plan::{MAX_ATTEMPTS, PULLED, Plan, TOPICS};
use crate::network::Network;

/// Longer than each job, because the consumer extends no lease.
const LEASE: Duration = Duration::from_secs(20);
/// The wait between pulls of an empty topic. A pull itself waits for none: it would listen for wake-ups on a
/// connection of its own, past the simulated network.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The wait after a call without a reply.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// The consumer.
pub(super) struct Consumer {
    plan: Arc<Plan>,
    ledger: Ledger,
    queue: Queue,
    /// The number of its link.
    link: u64,
}

impl Consumer {
    /// A consumer with a connection of its own.
    pub(super) fn new(plan: Arc<Plan>, ledger: Ledger, network: &Network) -> Self {
        let link = network.link_of_runner();
        let number = link.number();
        Self { plan, ledger, queue: Queue::over(link, "duebox"), link: number }
    }

    /// Pulls until it is aborted.
    pub(super) async fn run(self) {
        let pull = PullOptions::new("consumer", 1, LEASE, Duration::ZERO).expect("valid options");
        loop {
            match self.queue.pull(&topic(TOPICS[PULLED]), &pull).await {
                Ok(pulled) if pulled.leases.is_empty() => sleep(LOOK_AGAIN).await,
                Ok(pulled) => {
                    for lease in pulled.leases {
                        self.work(lease).await;
                    }
                }
                Err(_) => sleep(AGAIN_AFTER).await,
            }
        }
    }

    async fn work(&self, lease: Lease) {
        let id = lease.id.to_string();
        let attempt = lease.failures.saturating_add(1);
        let version = if &lease.payload[..] == REPLACEMENT.as_bytes() { 2 } else { 1 };
        let start = Start { id: &id, daemon: self.link, attempt, version };
        let run = self.ledger.begins(start);
        let job = self.plan.job(&id);
        sleep(job.map_or(Duration::ZERO, |job| job.length)).await;
        let (end, verdict) = match job {
            Some(job) if attempt <= job.nacks => {
                (End::Nacked, Verdict::nack(Duration::from_millis(700), MAX_ATTEMPTS, "as planned"))
            }
            Some(job) if job.is_dropped => (End::Dropped, Verdict::drop("as planned")),
            _ => (End::Acked, Verdict::Ack),
        };
        self.ledger.ends(&run, end);
        self.settle(lease, verdict).await;
    }

    /// Settles until there is a reply. A repetition of a verdict that was carried out replies `lost`.
    async fn settle(&self, lease: Lease, verdict: Verdict) {
        let settlement = lease.settle(verdict);
        let settlements = std::slice::from_ref(&settlement);
        while self.queue.settle(&topic(TOPICS[PULLED]), settlements).await.is_err() {
            sleep(AGAIN_AFTER).await;
        }
    }
}
