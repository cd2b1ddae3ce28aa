//! The circuit breaker of a topic. After `failures` failures of the module in a row it opens: no job starts,
//! except probes, one at a time. Waiting jobs lose no attempt meanwhile.
//!
//! ```text
//!           a row of failures               its wait is over, one job is leased
//!  closed ────────────────────▶ open ◀──────────────────────────────▶ probing
//!     ▲                                 the probe failed, or did not run
//!     └──── the probe did not fail, or another module serves ────────────┘
//! ```
//!
//! Probes come in rounds of 1, 2, 4 … jobs, at most `failures`, so that a few jobs that fail for a reason of
//! their own do not keep it open. The wait is between rounds.
//!
//! All shard workers of a topic in this process share one breaker. The executor reports each attempt when it
//! ends, so that no job starts once the row is full. Attempts that started before it was last closed ran on
//! an earlier module or rule, and are not counted.

use std::num::NonZero;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use duebox_job::Outcome;
use tokio::sync::watch;

use crate::manifest::BreakerRule;
use crate::monotonic;

/// The state of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// All jobs run.
    Closed,
    /// No job is leased until `probe_at`, then one.
    Open {
        /// When it opened.
        since: Instant,
        /// When the probe may be leased.
        probe_at: Instant,
    },
    /// A worker leases or runs the probe; no other job is leased.
    Probing {
        /// When it opened.
        since: Instant,
    },
}

/// What became of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeResult {
    /// It did not fail: the breaker is closed.
    Closed,
    /// It failed, and was the last of a round of so many; so many follow after the wait.
    RoundFailed {
        /// The jobs of this round.
        jobs: u32,
        /// The jobs of the next round.
        next: u32,
    },
    /// It failed; another of its round follows at once.
    NextOfRound,
    /// The breaker was reset meanwhile.
    Ignored,
}

/// Whether an attempt counts as a failure of the module; `None` for a host fault. Drops do not count, nor
/// what the rule leaves out. A failure with a `retry_after` does not count either: the handler chose the
/// delay, so it works.
pub fn is_module_failure(rule: &BreakerRule, outcome: &Outcome) -> Option<bool> {
    match outcome {
        Outcome::HostFault(_) => None,
        Outcome::Failed(failure) => {
            Some(failure.retry_after.is_none() && rule.on.contains(failure.class))
        }
        Outcome::Acked | Outcome::Snoozed { .. } => Some(false),
    }
}

/// The state of a breaker and its count of failures.
#[derive(Debug)]
pub struct BreakerTracker {
    state: BreakerState,
    /// Jobs in the current round of probes, and how many of them are still to run.
    round_size: u32,
    probes_left: u32,
    /// Attempts that started before this moment are not counted.
    counts_from: Instant,
}

/// The breaker of one topic in this process.
pub struct Breaker {
    tracker: watch::Sender<BreakerTracker>,
    /// Failures in a row. It changes only while the tracker is locked; a success reads it without the lock.
    failures_in_row: AtomicU32,
}

/// Reports changes of a breaker.
pub type Changes = watch::Receiver<BreakerTracker>;

impl Breaker {
    /// Creates a closed breaker.
    pub fn new(now: Instant) -> Self {
        Self {
            tracker: watch::Sender::new(BreakerTracker::closed(now)),
            failures_in_row: AtomicU32::new(0),
        }
    }

    /// The current state.
    pub fn state(&self) -> BreakerState {
        self.tracker.borrow().state
    }

    /// True if no job may start that waits for a thread.
    pub fn holds_back(&self) -> bool {
        self.failures_in_row.load(Ordering::Relaxed) > 0
            && matches!(self.state(), BreakerState::Open { .. })
    }

    /// Subscribes to changes from now on.
    pub fn changes(&self) -> Changes {
        self.tracker.subscribe()
    }

    /// Counts an attempt that has ended; true if it opened the breaker. What probes do changes nothing
    /// here: their result is reported to [`record_probe`](Self::record_probe).
    pub fn record_outcome(&self, rule: &BreakerRule, failed: bool, started_at: Instant) -> bool {
        let Some(failures_max) = rule.failures else { return false };
        if !failed && self.failures_in_row.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.tracker.send_if_modified(|tracker| {
            if tracker.state != BreakerState::Closed || started_at < tracker.counts_from {
                return false;
            }
            let failures_in_row =
                if failed { self.failures_in_row.load(Ordering::Relaxed) + 1 } else { 0 };
            self.failures_in_row.store(failures_in_row, Ordering::Relaxed);
            let opens = failures_in_row >= failures_max.get();
            if opens {
                let since = monotonic::now();
                tracker.state = BreakerState::Open { since, probe_at: since + rule.probe };
            }
            opens
        })
    }

    /// Claims the probe; true for the one caller that may lease it.
    pub fn claim_probe(&self, now: Instant) -> bool {
        self.tracker.send_if_modified(|tracker| match tracker.state {
            BreakerState::Open { since, probe_at } if probe_at <= now => {
                tracker.state = BreakerState::Probing { since };
                true
            }
            _ => false,
        })
    }

    /// Returns a claimed probe without a result; another may be leased at once.
    pub fn return_probe(&self, now: Instant) {
        self.tracker.send_if_modified(|tracker| tracker.end_probe(now));
    }

    /// Reports the result of the probe. After a failed round the next one waits `rule.probe`.
    pub fn record_probe(&self, rule: &BreakerRule, failed: bool, now: Instant) -> ProbeResult {
        let mut result = ProbeResult::Ignored;
        self.tracker.send_if_modified(|tracker| {
            if !matches!(tracker.state, BreakerState::Probing { .. }) {
                return false;
            }
            if !failed {
                result = ProbeResult::Closed;
                self.close(tracker, now);
                return true;
            }
            tracker.probes_left -= 1;
            if tracker.probes_left > 0 {
                result = ProbeResult::NextOfRound;
                return tracker.end_probe(now);
            }
            let jobs = tracker.round_size;
            let next = (jobs * 2).clamp(1, rule.failures.map_or(1, NonZero::get));
            (tracker.round_size, tracker.probes_left) = (next, next);
            result = ProbeResult::RoundFailed { jobs, next };
            tracker.end_probe(now + rule.probe)
        });
        result
    }

    /// Closes the breaker because the module or the rule changed; true if it was not closed.
    pub fn reset(&self, now: Instant) -> bool {
        self.tracker.send_if_modified(|tracker| {
            let was_open = tracker.state != BreakerState::Closed;
            self.close(tracker, now);
            was_open
        })
    }

    fn close(&self, tracker: &mut BreakerTracker, now: Instant) {
        self.failures_in_row.store(0, Ordering::Relaxed);
        *tracker = BreakerTracker::closed(now);
    }
}

impl BreakerTracker {
    fn closed(now: Instant) -> Self {
        Self { state: BreakerState::Closed, round_size: 1, probes_left: 1, counts_from: now }
    }

    /// Returns from probing to open; false if no probe is claimed.
    fn end_probe(&mut self, next_at: Instant) -> bool {
        let BreakerState::Probing { since } = self.state else { return false };
        self.state = BreakerState::Open { since, probe_at: next_at };
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use duebox_job::{Failure, FailureClass};

    use super::*;
    use crate::manifest::CountedClasses;

    const SECOND: Duration = Duration::from_secs(1);

    fn rule() -> BreakerRule {
        BreakerRule { failures: NonZero::new(3), probe: 10 * SECOND, ..BreakerRule::default() }
    }

    /// Reports attempts that failed (`f`) or not; true if one of them opened the breaker.
    fn ended(breaker: &Breaker, started_at: Instant, outcomes: &str) -> bool {
        outcomes.chars().any(|c| breaker.record_outcome(&rule(), c == 'f', started_at))
    }

    fn opened(now: Instant) -> Breaker {
        let breaker = Breaker::new(now);
        assert!(ended(&breaker, now, "fff"));
        breaker
    }

    fn probe_at(breaker: &Breaker) -> Instant {
        let BreakerState::Open { probe_at, .. } = breaker.state() else { panic!("not open") };
        probe_at
    }

    #[test]
    fn only_failures_in_a_row_open_it() {
        let now = Instant::now();
        let breaker = Breaker::new(now);
        assert!(!ended(&breaker, now, "ffaff") && !breaker.holds_back());
        assert_eq!(breaker.state(), BreakerState::Closed);
        assert!(!breaker.claim_probe(now));
        assert!(ended(&breaker, now, "f") && breaker.holds_back());
        assert!(probe_at(&breaker) >= now + 10 * SECOND);
        assert!(!ended(&breaker, now, "afff"), "it is already open");
    }

    #[test]
    fn failures_of_jobs_do_not_count_unless_the_rule_lists_them() {
        let failed = |class, retry_after| {
            Outcome::Failed(Failure { class, reason: String::new(), retry_after })
        };
        let of = |rule: &BreakerRule, class| is_module_failure(rule, &failed(class, None));
        for class in FailureClass::ALL {
            let of_module = CountedClasses::ALLOWED.contains(&class) && class != FailureClass::Nack;
            assert_eq!(of(&rule(), class), Some(of_module), "{class}");
        }
        let nacks = BreakerRule { on: [FailureClass::Nack].into_iter().collect(), ..rule() };
        assert_eq!(of(&nacks, FailureClass::Nack), Some(true));
        assert_eq!(of(&nacks, FailureClass::Trap), Some(false));
        let waits = failed(FailureClass::Nack, Some(SECOND));
        assert_eq!(is_module_failure(&nacks, &waits), Some(false), "it chose its delay");
        assert_eq!(is_module_failure(&nacks, &Outcome::Acked), Some(false));
        assert_eq!(is_module_failure(&nacks, &Outcome::HostFault(String::new())), None);
    }

    #[test]
    fn with_zero_failures_it_never_opens() {
        let now = Instant::now();
        let breaker = Breaker::new(now);
        let off = BreakerRule { failures: None, ..rule() };
        assert!((0..10_000).all(|_| !breaker.record_outcome(&off, true, now)));
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn one_probe_runs_at_a_time_after_the_wait() {
        let start = Instant::now();
        let breaker = opened(start);
        let at = probe_at(&breaker);
        assert!(!breaker.claim_probe(at - SECOND));
        assert!(breaker.claim_probe(at) && !breaker.claim_probe(at));
        assert!(matches!(breaker.state(), BreakerState::Probing { .. }));
        breaker.return_probe(at);
        assert!(breaker.claim_probe(at), "a probe without a result can be claimed again");
        let first = breaker.record_probe(&rule(), true, at);
        assert_eq!(first, ProbeResult::RoundFailed { jobs: 1, next: 2 });
        let at = at + 10 * SECOND;
        assert!(!breaker.claim_probe(at - SECOND) && breaker.claim_probe(at));
        assert_eq!(breaker.record_probe(&rule(), false, at), ProbeResult::Closed);
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn rounds_of_probes_grow_up_to_the_row_that_opens_it() {
        let breaker = opened(Instant::now());
        for (jobs, next) in [(1, 2), (2, 3), (3, 3)] {
            let at = probe_at(&breaker);
            for number in 1..=jobs {
                assert!(breaker.claim_probe(at), "no wait within a round");
                let result = breaker.record_probe(&rule(), true, at);
                let last = ProbeResult::RoundFailed { jobs, next };
                assert_eq!(result, if number < jobs { ProbeResult::NextOfRound } else { last });
            }
            assert_eq!(probe_at(&breaker), at + 10 * SECOND);
        }
        let at = probe_at(&breaker);
        assert!(breaker.claim_probe(at));
        assert_eq!(breaker.record_probe(&rule(), false, at), ProbeResult::Closed);
        assert!(ended(&breaker, at, "fff"));
        assert!(breaker.claim_probe(probe_at(&breaker)));
        let first = breaker.record_probe(&rule(), true, at);
        assert_eq!(
            first,
            ProbeResult::RoundFailed { jobs: 1, next: 2 },
            "it starts with one again"
        );
    }

    #[test]
    fn attempts_from_before_it_closed_do_not_count() {
        let start = Instant::now();
        let breaker = opened(start);
        let later = start + SECOND;
        assert!(breaker.reset(later) && !breaker.reset(later));
        assert!(!ended(&breaker, start, "ffff"));
        assert_eq!(breaker.state(), BreakerState::Closed);
        assert!(ended(&breaker, later, "fff"));
    }

    #[test]
    fn a_probe_that_ends_after_a_reset_changes_nothing() {
        let breaker = opened(Instant::now());
        let at = probe_at(&breaker);
        assert!(breaker.claim_probe(at) && breaker.reset(at));
        assert_eq!(breaker.record_probe(&rule(), true, at), ProbeResult::Ignored);
        breaker.return_probe(at);
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn only_state_changes_are_reported() {
        let now = Instant::now();
        let breaker = Breaker::new(now);
        let changes = breaker.changes();
        ended(&breaker, now, "ff");
        breaker.return_probe(now);
        assert!(!changes.has_changed().unwrap());
        ended(&breaker, now, "f");
        assert!(changes.has_changed().unwrap());
    }
}
