//! A topic bound to its handler: what the manifest says of the topic, and the module that serves it.
//!
//! A reload makes a new one and puts it in the old one's place; a job that runs keeps the one it
//! started with.

use std::sync::Arc;
use std::time::Duration;

use duebox_job::JobId;
use duebox_sandbox::Handler;
use tokio::sync::watch;
use xxhash_rust::xxh3::xxh3_64;

use crate::manifest::{PARTS, Topic};

/// A topic and the module that serves it now.
pub struct Binding {
    /// The topic's settings.
    pub topic: Topic,
    /// The compiled modules.
    pub handlers: Handlers,
    /// How long a lease holds unless it is renewed.
    pub lease: Duration,
}

/// The modules that run a topic's jobs.
#[derive(Clone)]
pub struct Handlers {
    /// The one that runs what no canary runs.
    pub main: Handler,
    /// One that runs a part of them.
    pub canary: Option<CanaryHandler>,
}

/// A module that runs a part of a topic's jobs.
#[derive(Clone)]
pub struct CanaryHandler {
    /// The compiled module.
    pub handler: Handler,
    /// Its part of the jobs, in [`PARTS`].
    pub share: u32,
}

impl Handlers {
    /// The module that runs the job of this id: the same at each attempt.
    pub fn of(&self, id: &JobId) -> &Handler {
        match &self.canary {
            Some(canary) if part_of(id) < canary.share => &canary.handler,
            _ => &self.main,
        }
    }

    /// True if they are the same modules, with the same parts of the jobs.
    pub fn are(&self, other: &Self) -> bool {
        let canaries_are_the_same = match (&self.canary, &other.canary) {
            (None, None) => true,
            (Some(one), Some(other)) => one.share == other.share && one.handler.is(&other.handler),
            _ => false,
        };
        canaries_are_the_same && self.main.is(&other.main)
    }
}

/// The part that a job is dealt into, 0 up to [`PARTS`].
fn part_of(id: &JobId) -> u32 {
    let part = xxh3_64(id.as_bytes()) % u64::from(PARTS);
    u32::try_from(part).unwrap_or(PARTS)
}

/// Where the current binding of a topic is looked up.
pub type Bound = watch::Receiver<Arc<Binding>>;

/// The binding a job that starts now gets.
pub fn current(bound: &Bound) -> Arc<Binding> {
    Arc::clone(&bound.borrow())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_dealt_evenly_by_their_ids() {
        let mut small = 0;
        for number in 0..100_000 {
            let part = part_of(&JobId::from_redis(format!("order-{number}")));
            assert!(part < PARTS);
            small += usize::from(part < 500);
        }
        // One in twenty: 5,000, and 69 are a standard deviation.
        assert!((4_650..5_350).contains(&small), "{small}");
        let id = JobId::from_redis("42");
        assert_eq!(part_of(&id), part_of(&id.clone()));
    }
}
