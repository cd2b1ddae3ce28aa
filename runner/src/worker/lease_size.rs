//! How many jobs a turn leases: those that start at once, and ahead of them those that start soon.

use std::time::Instant;

use super::Worker;
use crate::executor::Load;

/// How many jobs a lease call may ask for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LeaseSize {
    pub(super) jobs: usize,
    /// How many of them would start at once.
    pub(super) at_once: usize,
}

/// How many more jobs would start at once: no more than may run, and than threads are free for. Others are leased
/// ahead, so that they do not count as crashed if the runner dies before they start.
fn starts_at_once(concurrency: usize, load: Load) -> usize {
    let may_run = concurrency.saturating_sub(load.waiting + load.running);
    may_run.min(load.free_threads.saturating_sub(load.waiting))
}

impl Worker {
    /// How many jobs can be leased now.
    pub(super) fn lease_size(&self, load: Load, now: Instant) -> LeaseSize {
        let ahead = self.ahead(load, now);
        if self.drain_until.is_some() || load.waiting > ahead / 2 {
            return LeaseSize::default();
        }
        if self.look.stalled && load.starting > 0 {
            return LeaseSize::default();
        }
        let concurrency = self.parts.bound.borrow().topic.concurrency as usize;
        let room = (concurrency + ahead).saturating_sub(load.waiting + load.running);
        let call_max = self.prefetch.call_max().min(self.parts.batch_limits.batch_max(now));
        let jobs = self.allowed_by_breaker(room.min(call_max), now);
        let at_once = starts_at_once(concurrency, load).min(jobs);
        // Suspects come first: other jobs would take each place in which one of them could start.
        if self.look.suspects && at_once == 0 {
            return LeaseSize::default();
        }
        LeaseSize { jobs, at_once }
    }

    /// How many jobs may be leased in addition to those that start at once. None if the topic limits
    /// running jobs, because Redis counts each leased job as running.
    pub(super) fn ahead(&self, load: Load, now: Instant) -> usize {
        if self.parts.bound.borrow().topic.starts.max_running.is_some() {
            return 0;
        }
        self.prefetch.ahead(load.longest(now))
    }
}
