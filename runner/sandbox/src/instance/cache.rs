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
use std::sync::atomic::{AtomicUsize, Ordering};

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
    shared: Mutex<SharedInstances>,
    /// How many jobs wait or have given up. It is changed under the lock of `shared`.
    waiting: AtomicUsize,
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
        last(self.last.own()).or_else(shared).or_else(|| self.last.all().find_map(last))
    }

    /// The next instance of an owner that is put back, after those for the jobs that wait already.
    pub(crate) fn returned(&self, owner: Owner) -> oneshot::Receiver<Box<Instance>> {
        let (waiter, returned) = oneshot::channel();
        let mut shared = self.shared.lock();
        if shared.waiting.len() >= shared.sweep_at {
            shared.sweep();
            shared.sweep_at = SWEEP_AT_MIN.max(2 * shared.waiting.len());
        }
        shared.waiting.push_back((owner, waiter));
        self.waiting.store(shared.waiting.len(), Ordering::SeqCst);
        returned
    }

    /// Gives an instance to the job that has waited longest for one of this owner. Without such a job it stays here, and
    /// the result is true.
    pub(crate) fn put(&self, owner: Owner, instance: Box<Instance>) -> bool {
        let own = self.last.own();
        let before = own.lock().replace((owner, instance));
        before.into_iter().for_each(|before| self.shelve(before));
        // A job that begins to wait now looks here afterwards. Sequential consistency guarantees that it sees the instance,
        // or this call sees the job.
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return true;
        }
        let last = own.lock().take();
        last.is_none_or(|last| self.hand_over(last))
    }

    fn hand_over(&self, (owner, instance): Idle) -> bool {
        let mut shared = self.shared.lock();
        let left = shared.offer(&owner, instance);
        self.waiting.store(shared.waiting.len(), Ordering::SeqCst);
        drop(shared);
        let stays = left.is_some();
        left.into_iter().for_each(|instance| self.shelve((owner.clone(), instance)));
        stays
    }

    /// Keeps an instance for all threads. If there are too many, the one that has waited longest is dropped.
    fn shelve(&self, instance: Idle) {
        let mut shared = self.shared.lock();
        shared.idle.push_back(instance);
        let are_too_many = shared.idle.len() > IDLE_INSTANCES_MAX as usize;
        let oldest = if are_too_many { shared.idle.pop_front() } else { None };
        // Dropping an instance is slow, so it happens after the lock is released.
        drop(shared);
        drop(oldest);
    }

    /// Makes all instances those of all threads.
    fn gather(&self) -> MutexGuard<'_, SharedInstances> {
        let last: Vec<Idle> = self.last.all().filter_map(|last| last.lock().take()).collect();
        let mut shared = self.shared.lock();
        shared.idle.extend(last);
        shared
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
    /// Removes the jobs that have given up.
    fn sweep(&mut self) {
        self.waiting.retain(|(_, waiter)| !waiter.is_closed());
    }

    /// Gives an instance to a job that waits for it. Without such a job it is returned.
    fn offer(&mut self, owner: &Owner, mut instance: Box<Instance>) -> Option<Box<Instance>> {
        self.sweep();
        while let Some(at) = self.waiting.iter().position(|(of, _)| of == owner)
            && let Some((_, waiter)) = self.waiting.remove(at)
        {
            match waiter.send(instance) {
                Ok(()) => return None,
                // It has given up meanwhile.
                Err(back) => instance = back,
            }
        }
        Some(instance)
    }
}

impl Reclaim for InstanceCache {
    /// Drops the instances that have waited longest. If all together hold less memory than needed, drops
    /// none.
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
