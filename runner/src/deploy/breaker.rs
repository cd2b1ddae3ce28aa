//! The circuit breaker of a topic. After `failures` failures in a row it opens: no job starts, except one
//! probe at a time. Waiting jobs lose no attempt meanwhile.
//!
//! ```text
//!           a row of failures               its wait is over, one job is leased
//!  closed ────────────────────▶ open ◀──────────────────────────────▶ probing
//!     ▲                                 the probe failed, or did not run
//!     └──── the probe did not fail, or another module serves ────────────┘
//! ```
//!
//! All shard workers of a topic in this process share one breaker. Attempts that started before it was last
//! closed ran on an earlier module or rule, and are not counted.

use std::time::Instant;

use tokio::sync::watch;

use crate::manifest::BreakerRule;

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

/// The end of an attempt, as the breaker sees it.
#[derive(Debug, Clone, Copy)]
pub struct End {
    /// When the attempt started.
    pub started_at: Instant,
    /// Whether it failed.
    pub failed: bool,
}

/// The state of a breaker and its count of failures.
#[derive(Debug)]
pub struct BreakerTracker {
    state: BreakerState,
    /// Failures in a row.
    row: u32,
    /// Attempts that started before this moment are not counted.
    counts_from: Instant,
}

/// The breaker of one topic in this process.
pub struct Breaker(watch::Sender<BreakerTracker>);

/// Reports changes of a breaker.
pub type Changes = watch::Receiver<BreakerTracker>;

impl Breaker {
    /// Creates a closed breaker.
    pub fn new(now: Instant) -> Self {
        Self(watch::Sender::new(BreakerTracker {
            state: BreakerState::Closed,
            row: 0,
            counts_from: now,
        }))
    }

    /// The current state.
    pub fn state(&self) -> BreakerState {
        self.0.borrow().state
    }

    /// Subscribes to changes from now on.
    pub fn changes(&self) -> Changes {
        self.0.subscribe()
    }

    /// Counts ended attempts in their order; true if they opened the breaker. The end of a probe is
    /// reported to [`probed`](Self::probed) instead.
    pub fn ended(&self, rule: BreakerRule, ends: impl Iterator<Item = End>, now: Instant) -> bool {
        self.0.send_if_modified(|state| {
            for end in ends.filter(|end| end.started_at >= state.counts_from) {
                state.row = if end.failed { state.row.saturating_add(1) } else { 0 };
                if rule.failures > 0 && state.row >= rule.failures {
                    break;
                }
            }
            let opens = rule.failures > 0
                && state.row >= rule.failures
                && state.state == BreakerState::Closed;
            if opens {
                state.state = BreakerState::Open { since: now, probe_at: now + rule.probe };
            }
            opens
        })
    }

    /// Claims the probe; true for the one caller that may lease it.
    pub fn claim(&self, now: Instant) -> bool {
        self.0.send_if_modified(|state| match state.state {
            BreakerState::Open { since, probe_at } if probe_at <= now => {
                state.state = BreakerState::Probing { since };
                true
            }
            _ => false,
        })
    }

    /// Returns a claimed probe without a result; another may be leased at once.
    pub fn unclaim(&self, now: Instant) {
        self.0.send_if_modified(|state| state.end_probe(now));
    }

    /// Reports the result of the probe; true if that closes the breaker. After a failure the next probe
    /// waits `rule.probe`.
    pub fn probed(&self, rule: BreakerRule, failed: bool, now: Instant) -> bool {
        let mut closes = false;
        self.0.send_if_modified(|state| {
            closes = !failed && matches!(state.state, BreakerState::Probing { .. });
            if closes {
                state.close(now);
                return true;
            }
            state.end_probe(now + rule.probe)
        });
        closes
    }

    /// Closes the breaker because the module or the rule changed; true if it was not closed.
    pub fn reset(&self, now: Instant) -> bool {
        self.0.send_if_modified(|state| {
            let was_open = state.state != BreakerState::Closed;
            state.close(now);
            was_open
        })
    }
}

impl BreakerTracker {
    fn close(&mut self, now: Instant) {
        *self = Self { state: BreakerState::Closed, row: 0, counts_from: now };
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

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const RULE: BreakerRule = BreakerRule { failures: 3, probe: Duration::from_secs(10) };

    fn ends(started_at: Instant, outcomes: &str) -> impl Iterator<Item = End> {
        outcomes.chars().map(move |c| End { started_at, failed: c == 'f' })
    }

    fn opened(now: Instant) -> Breaker {
        let breaker = Breaker::new(now);
        assert!(breaker.ended(RULE, ends(now, "fff"), now));
        breaker
    }

    #[test]
    fn only_failures_in_a_row_open_it() {
        let now = Instant::now();
        let breaker = Breaker::new(now);
        assert!(!breaker.ended(RULE, ends(now, "ffaff"), now));
        assert_eq!(breaker.state(), BreakerState::Closed);
        assert!(!breaker.claim(now));
        assert!(breaker.ended(RULE, ends(now, "faaa"), now));
        assert_eq!(breaker.state(), BreakerState::Open { since: now, probe_at: now + 10 * SECOND });
        assert!(!breaker.ended(RULE, ends(now, "fff"), now), "it is already open");
    }

    #[test]
    fn with_zero_failures_it_never_opens() {
        let now = Instant::now();
        let breaker = Breaker::new(now);
        let off = BreakerRule { failures: 0, ..RULE };
        assert!(!breaker.ended(off, ends(now, &"f".repeat(10_000)), now));
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn one_probe_runs_at_a_time_after_the_wait() {
        let start = Instant::now();
        let breaker = opened(start);
        assert!(!breaker.claim(start + 9 * SECOND));
        let at = start + 10 * SECOND;
        assert!(breaker.claim(at) && !breaker.claim(at));
        assert_eq!(breaker.state(), BreakerState::Probing { since: start });
        breaker.unclaim(at);
        assert!(breaker.claim(at), "a probe without a result can be claimed again");
        assert!(!breaker.probed(RULE, true, at));
        let probe_at = at + 10 * SECOND;
        assert_eq!(breaker.state(), BreakerState::Open { since: start, probe_at });
        assert!(!breaker.claim(at + 9 * SECOND) && breaker.claim(probe_at));
        assert!(breaker.probed(RULE, false, probe_at));
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn attempts_from_before_it_closed_do_not_count() {
        let start = Instant::now();
        let breaker = opened(start);
        let later = start + SECOND;
        assert!(breaker.reset(later) && !breaker.reset(later));
        assert!(!breaker.ended(RULE, ends(start, "ffff"), later));
        assert_eq!(breaker.state(), BreakerState::Closed);
        assert!(breaker.ended(RULE, ends(later, "fff"), later));
    }

    #[test]
    fn a_probe_that_ends_after_a_reset_changes_nothing() {
        let start = Instant::now();
        let breaker = opened(start);
        let at = start + 10 * SECOND;
        assert!(breaker.claim(at) && breaker.reset(at));
        assert!(!breaker.probed(RULE, true, at));
        breaker.unclaim(at);
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn only_state_changes_are_reported() {
        let now = Instant::now();
        let breaker = Breaker::new(now);
        let changes = breaker.changes();
        breaker.ended(RULE, ends(now, "ff"), now);
        breaker.unclaim(now);
        assert!(!changes.has_changed().unwrap());
        breaker.ended(RULE, ends(now, "f"), now);
        assert!(changes.has_changed().unwrap());
    }
}
