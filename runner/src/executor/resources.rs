//! What executors share: the threads, the slots and the host services of the daemon, and the part of them that a topic
//! has.

use std::sync::Arc;

use duebox_sandbox::HostServices;

use super::cpu_allowance::CpuAllowance;
use super::fair_semaphore::{FairSemaphore, PermitQueue};
use super::runs::Runs;
use super::threads::Threads;
use crate::observe::supervision::Supervision;

/// One slot in so many is reserved for topics with less than their share.
const SLOTS_RESERVED_ONE_IN: usize = 4;

/// What the executors of all topics share.
#[derive(Clone)]
pub struct ExecutorResources {
    /// The guests' threads.
    pub threads: Threads,
    /// One permit for each running guest: `runner.max_jobs`.
    pub slots: FairSemaphore,
    /// What guests reach outside of the sandbox.
    pub host_services: Arc<HostServices>,
    /// Counts the panics of the host while it runs a job.
    pub supervision: Supervision,
    /// What runs the modules.
    pub runs: Runs,
}

/// A topic's share of the resources. Clones are the share of the same topic.
#[derive(Clone)]
pub struct TopicShare {
    pub(super) slots: Arc<PermitQueue>,
    pub(super) long_running: Arc<PermitQueue>,
    pub(super) cpu_allowance: Arc<CpuAllowance>,
}

impl ExecutorResources {
    /// A semaphore for `max_jobs` jobs at once.
    pub fn slots(max_jobs: u32) -> FairSemaphore {
        let slots = max_jobs as usize;
        FairSemaphore::new(slots, slots / SLOTS_RESERVED_ONE_IN)
    }

    /// The share of a topic that runs so many jobs at once.
    pub fn share(&self, concurrency: usize) -> TopicShare {
        TopicShare {
            slots: self.slots.queue(concurrency),
            long_running: self.threads.long_running_permits.queue(usize::MAX),
            cpu_allowance: Arc::default(),
        }
    }
}
