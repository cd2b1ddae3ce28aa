//! The instance cache: idle instances that wait for the next job of their owner: of their module, or of one
//! topic of it where jobs may see what earlier jobs left in memory.
//!
//! The cache is shared by all topics. The instance that has waited longest is dropped first, so no topic keeps
//! the pool slots of another. It holds as many instances as jobs ran at once a moment ago, and few after that.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use duebox_job::TopicName;
use parking_lot::Mutex;

use crate::instance::Instance;
use crate::memory_budget::Reclaim;

/// How many idle instances stay while no job runs.
const KEPT: usize = 64;
/// How long the others wait for a job while some run.
const UNUSED_MAX: Duration = Duration::from_secs(10);
/// Without a job for this long the cache is at rest.
const REST: Duration = Duration::from_millis(500);
/// So many are dropped at the end of one job: more than it puts back.
const DROPPED_AT_ONCE: usize = 2;

/// Identifies a loaded module in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ModuleNumber(pub(crate) u64);

/// Whose jobs an idle instance may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) module: ModuleNumber,
    /// None if instances are reset after each job: then they may run jobs of any topic.
    pub(crate) topic: Option<TopicName>,
}

/// The idle instances with their owners, the one that has waited longest first.
pub(crate) struct InstanceCache {
    idle: Mutex<VecDeque<Idle>>,
    max: usize,
}

struct Idle {
    owner: Owner,
    instance: Box<Instance>,
    since: Instant,
}

impl InstanceCache {
    /// An empty cache for this many instances.
    pub(crate) fn new(max: usize) -> Self {
        Self { idle: Mutex::default(), max }
    }

    /// Takes the instance of an owner that was put back last: its data is most likely still in the CPU
    /// caches.
    pub(crate) fn take(&self, owner: &Owner) -> Option<Box<Instance>> {
        let mut idle = self.idle.lock();
        let at = idle.iter().rposition(|idle| idle.owner == *owner)?;
        idle.remove(at).map(|idle| idle.instance)
    }

    /// Puts an instance back for the next job.
    pub(crate) fn put(&self, owner: Owner, instance: Box<Instance>) {
        let now = Instant::now();
        let mut idle = self.idle.lock();
        idle.push_back(Idle { owner, instance, since: now });
        let surplus =
            (0..DROPPED_AT_ONCE).take_while(|at| self.is_surplus(&idle, *at, now)).count();
        let dropped: Vec<_> = idle.drain(..surplus).collect();
        // Dropping an instance is slow, so it happens after the lock is released.
        drop(idle);
        drop(dropped);
    }

    /// Whether the instance at this place is one too many, or no job has needed it for a while.
    fn is_surplus(&self, idle: &VecDeque<Idle>, at: usize, now: Instant) -> bool {
        let left = idle.len() - at;
        let is_unused = || now.saturating_duration_since(idle[at].since) > UNUSED_MAX;
        left > self.max || (left > KEPT && is_unused())
    }

    /// Drops all but a few instances, unless jobs of another engine have just put some back.
    pub(crate) fn drop_most(&self) {
        let mut idle = self.idle.lock();
        let is_in_use = idle.back().is_some_and(|youngest| youngest.since.elapsed() < REST);
        let surplus = if is_in_use { 0 } else { idle.len().saturating_sub(KEPT) };
        let dropped: Vec<_> = idle.drain(..surplus).collect();
        drop(idle);
        drop(dropped);
    }

    /// Drops all instances of a module.
    pub(crate) fn remove_module(&self, module: ModuleNumber) {
        let mut idle = self.idle.lock();
        let all = std::mem::take(&mut *idle);
        let (removed, kept): (VecDeque<_>, VecDeque<_>) =
            all.into_iter().partition(|idle| idle.owner.module == module);
        *idle = kept;
        drop(idle);
        drop(removed);
    }
}

impl Reclaim for InstanceCache {
    /// Drops the instances that have waited longest. If all together hold less memory than needed, drops
    /// none.
    fn reclaim(&self, bytes: usize) -> bool {
        let mut idle = self.idle.lock();
        let (mut freed, mut count) = (0, 0);
        for Idle { instance, .. } in idle.iter() {
            if freed >= bytes {
                break;
            }
            freed += instance.memory_held();
            count += 1;
        }
        if freed < bytes {
            return false;
        }
        let dropped: Vec<_> = idle.drain(..count).collect();
        drop(idle);
        drop(dropped);
        true
    }
}
