//! The instance cache: idle instances that wait for the next job of their owner: of their module, or of one
//! topic of it where jobs may see what earlier jobs left in memory.
//!
//! The cache is small and shared by all topics. The instance that has waited longest is dropped first, so no
//! topic keeps the pool slots of another.

use std::collections::VecDeque;

use duebox_job::TopicName;
use parking_lot::Mutex;

use crate::engine::IDLE_INSTANCES_MAX;
use crate::instance::Instance;
use crate::memory_budget::Reclaim;

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
#[derive(Default)]
pub(crate) struct InstanceCache(Mutex<VecDeque<(Owner, Box<Instance>)>>);

impl InstanceCache {
    /// Takes the instance of an owner that was put back last: its data is most likely still in the CPU
    /// caches.
    pub(crate) fn take(&self, owner: &Owner) -> Option<Box<Instance>> {
        let mut idle = self.0.lock();
        let at = idle.iter().rposition(|(of, _)| of == owner)?;
        idle.remove(at).map(|(_, instance)| instance)
    }

    /// Puts an instance back for the next job.
    pub(crate) fn put(&self, owner: Owner, instance: Box<Instance>) {
        let mut idle = self.0.lock();
        idle.push_back((owner, instance));
        let oldest = if idle.len() > IDLE_INSTANCES_MAX as usize { idle.pop_front() } else { None };
        // Dropping an instance is slow, so it happens after the lock is released.
        drop(idle);
        drop(oldest);
    }

    /// Drops all instances of a module.
    pub(crate) fn remove_module(&self, module: ModuleNumber) {
        let mut idle = self.0.lock();
        let all = std::mem::take(&mut *idle);
        let (removed, kept): (VecDeque<_>, VecDeque<_>) =
            all.into_iter().partition(|(owner, _)| owner.module == module);
        *idle = kept;
        drop(idle);
        drop(removed);
    }
}

impl Reclaim for InstanceCache {
    /// Drops the instances that have waited longest. If all together hold less memory than needed, drops
    /// none.
    fn reclaim(&self, bytes: usize) -> bool {
        let mut idle = self.0.lock();
        let (mut freed, mut count) = (0, 0);
        for (_, instance) in idle.iter() {
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
