//! What a topic's worker has done since it started. Only ever raised; read for the closing line.

use std::sync::atomic::{AtomicU64, Ordering};

use duebox_queue::Settled;

/// Counts of one topic in this process.
#[derive(Default)]
pub struct Counters {
    /// Jobs leased.
    pub leased: AtomicU64,
    /// Jobs acked, or forgotten by policy.
    pub acked: AtomicU64,
    /// Failed attempts that will be tried again.
    pub retried: AtomicU64,
    /// Jobs that their handler put off.
    pub snoozed: AtomicU64,
    /// Jobs buried.
    pub dead: AtomicU64,
    /// Jobs that were not started within their ttl.
    pub expired: AtomicU64,
    /// Leases given back with no attempt spent.
    pub released: AtomicU64,
    /// Jobs that were cancelled or superseded while they ran.
    pub overtaken: AtomicU64,
    /// Leases that were gone when their verdict came.
    pub lost: AtomicU64,
    /// Expired leases of any runner that this one ended.
    pub reclaimed: AtomicU64,
}

impl Counters {
    /// Counts a settled job.
    pub fn settled(&self, settled: Settled) {
        add(self.of(settled), 1);
    }

    fn of(&self, settled: Settled) -> &AtomicU64 {
        match settled {
            Settled::Done | Settled::Discarded => &self.acked,
            Settled::Snoozed => &self.snoozed,
            Settled::Retry => &self.retried,
            Settled::Dead => &self.dead,
            Settled::Released => &self.released,
            Settled::Superseded | Settled::Cancelled => &self.overtaken,
            Settled::Lost => &self.lost,
        }
    }
}

/// Raises a count.
pub fn add(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}

/// Reads a count.
pub fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
