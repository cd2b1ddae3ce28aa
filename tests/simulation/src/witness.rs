//! What happened to each lease, as Redis and the network saw it, and the rules for leases that need no more.
//!
//! A lease is broken if something hit the client that holds it: a lost or late call, its death, a clock that was
//! set, or a Redis that refuses. What follows from a broken lease is excused, and nothing else.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::redis::server::LeaseEvent;

/// A job starts within this time after its lease, or goes back.
const START_MAX: Duration = Duration::from_millis(50);
/// A call that arrives later than this after it was sent leases nothing: its client waits 5 s for the reply, and knows the
/// clock of Redis to within half of a slow round trip.
const LEASE_CALL_MAX: Duration = Duration::from_secs(7);
/// How long a client may believe what it knew of the clock before that was set.
const CLOCK_UNKNOWN: Duration = Duration::from_secs(60);

/// A moment of a life, counted from its start.
pub(crate) type Moment = Duration;

/// The witness of a life. Clones are the same witness.
#[derive(Clone)]
pub struct Witness {
    began: Instant,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    /// What hit one client, by its link.
    hits: HashMap<u64, Vec<Span>>,
    /// When Redis refused.
    refused: Vec<Span>,
    /// When the clock of Redis was set.
    clock_set: Vec<Moment>,
    refuses_since: Option<Moment>,
    /// The clients that name the last moment of each lease call.
    name_moments: HashSet<u64>,
    /// The leases by job.
    leases: HashMap<String, Lease>,
    /// Leases that ended before the job started.
    went_back: u64,
    /// The leases that a failover lost, with their jobs.
    lost: Vec<(String, Lease)>,
    /// The crashes that were counted, by job.
    crashes: HashMap<String, usize>,
    violations: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
struct Span {
    from: Moment,
    until: Moment,
}

#[derive(Debug, Clone, Copy)]
struct Lease {
    link: u64,
    at: Moment,
    /// It was leased ahead of the jobs that start at once.
    is_ahead: bool,
    has_started: bool,
}

impl Witness {
    /// The witness of a life that begins.
    #[expect(clippy::new_without_default, reason = "it starts a clock")]
    pub fn new() -> Self {
        Self { began: Instant::now(), seen: Arc::default() }
    }

    /// The time since the life began.
    pub(crate) fn now(&self) -> Moment {
        self.began.elapsed()
    }

    /// Something hits a client from now on, for a time.
    pub(crate) fn hit(&self, link: u64, lasts: Duration) {
        let from = self.now();
        let span = Span { from, until: from.saturating_add(lasts) };
        self.seen.lock().hits.entry(link).or_default().push(span);
    }

    /// A client is gone.
    pub(crate) fn killed(&self, link: u64) {
        self.hit(link, Duration::MAX);
    }

    /// A client will name the last moment of each lease call.
    pub(crate) fn expect_last_moments(&self, link: u64) {
        self.seen.lock().name_moments.insert(link);
    }

    /// The clock of Redis is set.
    pub(crate) fn clock_set(&self) {
        let now = self.now();
        self.seen.lock().clock_set.push(now);
    }

    /// A replica takes over, on which these jobs are leased; its clock may differ.
    pub(crate) fn failed_over(&self, leased: &HashSet<String>) {
        self.clock_set();
        let mut seen = self.seen.lock();
        let lost: Vec<_> = seen.leases.extract_if(|id, _| !leased.contains(id)).collect();
        seen.lost.extend(lost);
    }

    /// Redis begins or ends to refuse.
    pub(crate) fn refuses(&self, is_refusing: bool) {
        let now = self.now();
        let mut seen = self.seen.lock();
        if let Some(from) = seen.refuses_since.take() {
            seen.refused.push(Span { from, until: now });
        }
        seen.refuses_since = is_refusing.then_some(now);
    }

    /// True if something hit this client, or all, between these moments.
    pub(crate) fn is_hit(&self, link: u64, from: Moment, until: Moment) -> bool {
        self.seen.lock().is_hit(link, from, until)
    }

    /// True if the clock was set between these moments.
    pub(crate) fn is_clock_set(&self, from: Moment, until: Moment) -> bool {
        self.seen.lock().is_clock_set(from, until)
    }

    /// Takes what a call, which a client sent at that moment, did to leases.
    pub(crate) fn saw(&self, link: u64, sent_at: Moment, events: Vec<LeaseEvent>) {
        if events.is_empty() {
            return;
        }
        let now = self.now();
        let mut seen = self.seen.lock();
        let mut ended = HashMap::new();
        for event in events {
            match event {
                LeaseEvent::Began { id, is_paused, is_ahead } => {
                    if is_paused {
                        seen.violations.push(format!("{id}: leased while its topic is paused"));
                    }
                    if seen.is_too_late(link, sent_at, now) {
                        let after = now.saturating_sub(sent_at);
                        seen.violations.push(format!("{id}: leased {after:?} after it was asked"));
                    }
                    let lease = Lease { link, at: now, is_ahead, has_started: false };
                    seen.leases.insert(id, lease);
                }
                LeaseEvent::CrashCounted { id } => {
                    *seen.crashes.entry(id.clone()).or_default() += 1;
                    let lease = seen.leases.get(&id).or_else(|| ended.get(&id)).copied();
                    let Some(lease) = lease else { continue };
                    if lease.is_ahead && !lease.has_started {
                        let text = format!("{id}: a crash is counted, and it had not started");
                        seen.violations.push(text);
                    }
                    // Also a lease that a late request made, whose client has given up and runs nothing.
                    if !seen.is_hit(lease.link, lease.at, now) {
                        let text = format!("{id}: a crash is counted, and nothing broke its lease");
                        seen.violations.push(text);
                    }
                }
                LeaseEvent::Ended { id, by_verdict } => {
                    let Some(lease) = seen.leases.remove(&id) else { continue };
                    if by_verdict && lease.link != link {
                        let text = format!("{id}: client {link} settled what {} holds", lease.link);
                        seen.violations.push(text);
                    }
                    if !lease.has_started {
                        seen.went_back += 1;
                        seen.check_wait(&id, lease, now, "went back");
                    }
                    ended.insert(id, lease);
                }
            }
        }
    }

    /// A client starts a job; returns when it was leased.
    pub(crate) fn starts(&self, id: &str, link: u64) -> Moment {
        let now = self.now();
        let mut seen = self.seen.lock();
        match seen.leases.get_mut(id).filter(|lease| lease.link == link) {
            Some(lease) => {
                let before = *lease;
                lease.has_started = true;
                if !before.has_started {
                    seen.check_wait(id, before, now, "started");
                }
                before.at
            }
            None => {
                // The reply to its lease call may be slower than the failover.
                let lost =
                    seen.lost.iter().rev().find(|(job, lost)| job == id && lost.link == link);
                let leased_at = lost.map_or(now.saturating_sub(START_MAX), |(_, lost)| lost.at);
                if !seen.is_hit(link, leased_at, now) {
                    let text = format!("{id}: client {link} runs it without a lease");
                    seen.violations.push(text);
                }
                leased_at
            }
        }
    }

    /// The number of leases that ended before their job started.
    pub(crate) fn went_back(&self) -> u64 {
        self.seen.lock().went_back
    }

    /// The number of leases that a failover lost.
    pub(crate) fn lost(&self) -> u64 {
        self.seen.lock().lost.len() as u64
    }

    /// The crashes of a job that were counted.
    pub(crate) fn crashes(&self, id: &str) -> usize {
        self.seen.lock().crashes.get(id).copied().unwrap_or_default()
    }

    /// The rules that did not hold.
    pub(crate) fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().violations)
    }
}

impl Seen {
    fn check_wait(&mut self, id: &str, lease: Lease, now: Moment, what: &str) {
        let waited = now.saturating_sub(lease.at);
        if waited > START_MAX && !self.is_hit(lease.link, lease.at, now) {
            self.violations.push(format!("{id}: {what} {waited:?} after its lease"));
        }
    }

    fn is_too_late(&self, link: u64, sent_at: Moment, now: Moment) -> bool {
        self.name_moments.contains(&link)
            && now.saturating_sub(sent_at) > LEASE_CALL_MAX
            && !self.is_clock_set(sent_at.saturating_sub(CLOCK_UNKNOWN), now)
    }

    fn is_hit(&self, link: u64, from: Moment, until: Moment) -> bool {
        let its = self.hits.get(&link).into_iter().flatten();
        let mut all = its.chain(&self.refused);
        self.is_clock_set(from, until)
            || self.refuses_since.is_some_and(|since| since <= until)
            || all.any(|span| span.meets(from, until))
    }

    fn is_clock_set(&self, from: Moment, until: Moment) -> bool {
        self.clock_set.iter().any(|at| (from..=until).contains(at))
    }
}

impl Span {
    fn meets(self, from: Moment, until: Moment) -> bool {
        self.from <= until && from <= self.until
    }
}
