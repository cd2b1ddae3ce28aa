//! The instance cache: idle instances that wait for the next job of their owner: of their module, or of one
//! topic of it where jobs may see what earlier jobs left in memory.
//!
//! The cache is small and shared by all topics. The instance that has waited longest is dropped first, so no
//! topic keeps the pool slots of another.
//!
//! Each thread puts its last instance into a place of its own, so that threads do not wait for each other.
//!
//! While the memory budget has no room, a job waits for an instance of its owner to be put back, and gets it at once.

use std::collections::VecDeque;

use duebox_job::TopicName;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use crate::engine::IDLE_INSTANCES_MAX;
use crate::instance::Instance;
use crate::memory_budget::Reclaim;
use crate::thread_slot::BySlot;

/// Jobs that wait for an instance, before those that have given up are removed.
const SWEEP_AT_MIN: usize = 64;

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

/// An instance with its owner.
type Idle = (Owner, Box<Instance>);

/// The idle instances, and the jobs that wait for one.
#[derive(Default)]
pub(crate) struct InstanceCache {
    /// The instance that each thread put back last. A thread that runs job after job of one topic needs no other, and
    /// shares nothing with other threads.
    last: BySlot<Mutex<Option<Idle>>>,
    /// Locked after a thread's own place, never before it: an instance that moves here is always in one of the two.
    shared: Mutex<SharedInstances>,
}

#[derive(Default)]
struct SharedInstances {
    /// The one that has waited longest first.
    idle: VecDeque<Idle>,
    /// Jobs that found no memory for an instance of their own, in the order in which they came. Some have given up.
    waiting: VecDeque<(Owner, oneshot::Sender<Box<Instance>>)>,
    /// With so many, those that have given up are removed.
    sweep_at: usize,
}

impl InstanceCache {
    /// Takes an instance of an owner: the one that this thread put back last, or else the one that came last to all
    /// others, since its data is most likely still in the CPU caches.
    pub(crate) fn take(&self, owner: &Owner) -> Option<Box<Instance>> {
        let last = |last: &Mutex<Option<Idle>>| {
            let taken = last.lock().take_if(|(of, _)| of == owner);
            taken.map(|(_, instance)| instance)
        };
        let shared = || {
            let idle = &mut self.shared.lock().idle;
            let at = idle.iter().rposition(|(of, _)| of == owner)?;
            idle.remove(at).map(|(_, instance)| instance)
        };
        last(self.last.own()).or_else(shared).or_else(|| self.last.all().skip(1).find_map(last))
    }

    /// The next instance of an owner that is put back, after those for the jobs that wait already.
    pub(crate) fn returned(&self, owner: Owner) -> oneshot::Receiver<Box<Instance>> {
        let (waiter, returned) = oneshot::channel();
        let mut shared = self.shared.lock();
        if shared.waiting.len() >= shared.sweep_at {
            shared.waiting.retain(|(_, waiter)| !waiter.is_closed());
            shared.sweep_at = SWEEP_AT_MIN.max(2 * shared.waiting.len());
        }
        shared.waiting.push_back((owner, waiter));
        returned
    }

    /// Keeps an instance for the next job of its owner.
    pub(crate) fn put(&self, owner: Owner, instance: Box<Instance>) {
        let mut last = self.last.own().lock();
        let before = last.replace((owner, instance));
        let oldest = before.and_then(|before| self.shelve(before));
        // Dropping an instance is slow, so it happens after the locks are released.
        drop(last);
        drop(oldest);
    }

    /// Gives the instance that this thread put back last to the job that has waited longest for one of its owner. Without
    /// such a job it stays.
    pub(crate) fn hand_over(&self) {
        let mut last = self.last.own().lock();
        if let Some(idle) = last.take() {
            *last = self.shared.lock().offer(idle);
        }
    }

    /// Moves an instance to those of all threads. If there are too many, the one that has waited longest is returned.
    fn shelve(&self, instance: Idle) -> Option<Idle> {
        let idle = &mut self.shared.lock().idle;
        idle.push_back(instance);
        if idle.len() > IDLE_INSTANCES_MAX as usize { idle.pop_front() } else { None }
    }

    /// Moves all instances to those of all threads.
    fn gather(&self) -> MutexGuard<'_, SharedInstances> {
        for last in self.last.all() {
            let mut last = last.lock();
            let oldest = last.take().and_then(|instance| self.shelve(instance));
            drop(last);
            drop(oldest);
        }
        self.shared.lock()
    }

    /// Drops all instances of a module.
    pub(crate) fn remove_module(&self, module: ModuleNumber) {
        let mut shared = self.gather();
        let all = std::mem::take(&mut shared.idle);
        let (removed, kept): (VecDeque<_>, VecDeque<_>) =
            all.into_iter().partition(|(owner, _)| owner.module == module);
        shared.idle = kept;
        drop(shared);
        drop(removed);
    }
}

impl SharedInstances {
    /// Gives an instance to a job that waits for it. Without such a job it is returned.
    fn offer(&mut self, (owner, mut instance): Idle) -> Option<Idle> {
        while let Some(at) = self.waiting.iter().position(|(of, _)| *of == owner)
            && let Some((_, waiter)) = self.waiting.remove(at)
        {
            match waiter.send(instance) {
                Ok(()) => return None,
                // It has given up.
                Err(back) => instance = back,
            }
        }
        Some((owner, instance))
    }
}

impl Reclaim for InstanceCache {
    /// Drops the instances that have waited longest, and those that a thread put back last at the end. If all together
    /// hold less memory than needed, drops none for it.
    fn reclaim(&self, bytes: usize) -> bool {
        let mut shared = self.gather();
        let (mut freed, mut count) = (0, 0);
        for (_, instance) in &shared.idle {
            if freed >= bytes {
                break;
            }
            freed += instance.memory_held();
            count += 1;
        }
        if freed < bytes {
            return false;
        }
        let dropped: Vec<_> = shared.idle.drain(..count).collect();
        drop(shared);
        drop(dropped);
        true
    }
}
