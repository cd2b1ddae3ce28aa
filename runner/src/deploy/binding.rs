//! A binding: the settings of a topic, and the modules that serve it.
//!
//! A reload replaces the binding. A running job keeps the one it started with.

use std::sync::Arc;
use std::time::Duration;

use duebox_job::JobId;
use duebox_sandbox::Handler;
use tokio::sync::watch;
use xxhash_rust::xxh3::xxh3_64;

use crate::manifest::{PARTS, Topic};

/// The settings of a topic and its modules.
pub struct Binding {
    /// The settings.
    pub topic: Topic,
    /// The compiled modules.
    pub handlers: Handlers,
    /// How long a lease lasts unless it is renewed.
    pub lease: Duration,
}

/// The modules that run a topic's jobs.
#[derive(Clone)]
pub struct Handlers {
    /// Runs the jobs that the canary does not run.
    pub main: Handler,
    /// Runs a part of the jobs.
    pub canary: Option<CanaryHandler>,
}

/// A canary: a module that runs a part of a topic's jobs.
#[derive(Clone)]
pub struct CanaryHandler {
    /// The compiled module.
    pub handler: Handler,
    /// Its part of the jobs, in units of 1 / [`PARTS`].
    pub share: u32,
}

impl Handlers {
    /// The module for a job. It depends on the id only, so it is the same at each attempt.
    pub fn of(&self, id: &JobId) -> &Handler {
        match &self.canary {
            Some(canary) if part_of(id) < canary.share => &canary.handler,
            _ => &self.main,
        }
    }

    /// True if the modules and the canary's part are the same.
    pub fn are(&self, other: &Self) -> bool {
        let canaries_are_the_same = match (&self.canary, &other.canary) {
            (None, None) => true,
            (Some(one), Some(other)) => one.share == other.share && one.handler.is(&other.handler),
            _ => false,
        };
        canaries_are_the_same && self.main.is(&other.main)
    }
}

/// Maps a job to a part, 0 to [`PARTS`] - 1.
fn part_of(id: &JobId) -> u32 {
    let part = xxh3_64(id.as_bytes()) % u64::from(PARTS);
    u32::try_from(part).unwrap_or(PARTS)
}

/// Holds the current binding of a topic.
pub type Bound = watch::Receiver<Arc<Binding>>;

/// The current binding, for a job that starts now.
pub fn current(bound: &Bound) -> Arc<Binding> {
    Arc::clone(&bound.borrow())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_split_evenly_by_id() {
        let mut small = 0;
        for number in 0..100_000 {
            let part = part_of(&JobId::from_redis(format!("order-{number}")));
            assert!(part < PARTS);
            small += usize::from(part < 500);
        }
        // One in twenty: 5,000 with a standard deviation of 69.
        assert!((4_650..5_350).contains(&small), "{small}");
        let id = JobId::from_redis("42");
        assert_eq!(part_of(&id), part_of(&id.clone()));
    }
}
