//! The leases that a worker holds, and their heartbeat.
//!
//! A lease is renewed each third of its length. Its end is computed from before the call that made or
//! renewed it, so this runner always expects it earlier than Redis does. A guest whose lease cannot be
//! renewed therefore ends before another runner can lease the job.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::{Duration, Instant};

use duebox_queue::{Extension, Lease, Token};
use duebox_sandbox::{Interrupt, InterruptReason};

use crate::executor::LeaseNumber;

/// A lease in use.
pub struct HeldLease {
    /// The job and its fencing token.
    pub lease: Lease,
    /// The attempt number, from 1.
    pub attempt: u32,
    /// Interrupts its guest.
    pub interrupt: Interrupt,
    renewed_at: Instant,
    lasts: Duration,
}

impl HeldLease {
    fn ends_at(&self) -> Instant {
        self.renewed_at + self.lasts
    }
}

/// A lease to renew.
pub struct Renewal {
    /// Its number.
    pub lease: LeaseNumber,
    /// What Redis is asked for.
    pub extension: Extension,
}

/// The leases of one worker, by number.
#[derive(Default)]
pub struct InFlight {
    held: HashMap<LeaseNumber, HeldLease, BuildHasherDefault<NumberHasher>>,
    next: LeaseNumber,
    heartbeat_at: Option<Instant>,
    /// No lease ends before this moment.
    none_ends_before: Option<Instant>,
}

/// Hashes sequential numbers that no outsider chooses: one multiplication is enough.
#[derive(Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(self.0 ^ u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // 2^64 over the golden ratio (Knuth, The Art of Computer Programming 3, 6.4).
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl InFlight {
    /// Adds a lease made at `leased_at` or later that lasts `lasts` unless it is renewed. Returns its number.
    pub fn add(
        &mut self,
        lease: Lease,
        attempt: u32,
        lasts: Duration,
        leased_at: Instant,
    ) -> (LeaseNumber, Interrupt) {
        let (number, interrupt, renewed_at) = (self.next.count_on(), Interrupt::new(), leased_at);
        let held = HeldLease { lease, attempt, interrupt: interrupt.clone(), renewed_at, lasts };
        let end = held.ends_at();
        self.none_ends_before = Some(self.none_ends_before.map_or(end, |known| known.min(end)));
        self.held.insert(number, held);
        let beat = renewed_at + lasts / 3;
        self.heartbeat_at = Some(self.heartbeat_at.map_or(beat, |known| known.min(beat)));
        (number, interrupt)
    }

    /// Removes a lease so that it can be settled.
    pub fn take(&mut self, lease: LeaseNumber) -> Option<HeldLease> {
        let held = self.held.remove(&lease);
        if self.held.is_empty() {
            self.heartbeat_at = None;
            self.none_ends_before = None;
        }
        held
    }

    /// True if there is no lease.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The number of leases.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// When the next leases are to be renewed.
    pub fn heartbeat_at(&self) -> Option<Instant> {
        self.heartbeat_at
    }

    /// The leases to renew at `now`, at most `max`, each to its full length.
    pub fn due_renewals(&mut self, now: Instant, max: usize) -> Vec<Renewal> {
        let mut renewals = Vec::new();
        if self.heartbeat_at.is_none_or(|at| at > now) {
            return renewals;
        }
        let mut next: Option<Instant> = None;
        for (number, held) in &self.held {
            if held.interrupt.reason() == Some(InterruptReason::LeaseLost) {
                continue;
            }
            let third = held.lasts / 3;
            let age = now.saturating_duration_since(held.renewed_at);
            if age >= third && renewals.len() < max {
                let (id, token) = (held.lease.id.clone(), held.lease.token.clone());
                let extension = Extension { id, token, by: age };
                renewals.push(Renewal { lease: *number, extension });
            }
            let beat = if age >= third { now + third } else { held.renewed_at + third };
            next = Some(next.map_or(beat, |known| known.min(beat)));
        }
        // There may be more than `max` to renew: they follow at once.
        self.heartbeat_at = if renewals.len() == max { Some(now) } else { next };
        renewals
    }

    /// The last heartbeat was refused; the next one is at `when`.
    pub fn beat_again_at(&mut self, when: Instant) {
        self.heartbeat_at = Some(when);
    }

    /// Applies the reply to an extension: the new token, or `None` if the lease is lost. A lost lease
    /// interrupts its guest. Returns false if the job has a verdict.
    pub fn apply_extension(&mut self, renewal: &Renewal, token: Option<&Token>) -> bool {
        let Some(held) = self.held.get_mut(&renewal.lease) else { return false };
        match token {
            Some(token) => {
                held.lease.token = token.clone();
                // Redis counts whole milliseconds. This must do the same, or the two drift apart.
                held.renewed_at += Duration::from_millis(renewal.extension.by.as_millis() as u64);
            }
            None => held.interrupt.raise(InterruptReason::LeaseLost),
        }
        true
    }

    /// When the first lease ends unless it is renewed, or an earlier moment after `now`. The lower bound
    /// saves a scan of all leases as long as none can end.
    pub fn first_end(&mut self, now: Instant) -> Option<Instant> {
        if self.none_ends_before.is_some_and(|at| at <= now) {
            let not_lost = |held: &&HeldLease| held.interrupt.reason().is_none();
            self.none_ends_before =
                self.held.values().filter(not_lost).map(HeldLease::ends_at).min();
        }
        self.none_ends_before
    }

    /// Interrupts the guests whose lease is over at `now`, and returns their number.
    pub fn interrupt_ended(&self, now: Instant) -> usize {
        let over = |held: &&HeldLease| held.ends_at() <= now && held.interrupt.reason().is_none();
        let ended = self.held.values().filter(over);
        ended.map(|held| held.interrupt.raise(InterruptReason::LeaseLost)).count()
    }

    /// Interrupts all guests because the runner stops.
    pub fn interrupt_all(&self) {
        for held in self.held.values() {
            held.interrupt.raise(InterruptReason::Shutdown);
        }
    }
}
