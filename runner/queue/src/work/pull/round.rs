//! One round of a pull: a turn at each shard, and what their replies come to.

use std::time::Duration;

use crate::error::QueueError;
use crate::work::lease::{Lease, LeaseCall, Leased};
use crate::work::turn::TurnReply;

/// The result of a pull.
#[derive(Debug, Default)]
pub struct Pulled {
    /// The jobs, in the order in which they should run; empty if none fell due within the wait.
    pub leases: Vec<Lease>,
    /// True if jobs are held back because the topic is paused.
    pub paused: bool,
    /// True if jobs may be held back by the topic's rate or number of running jobs.
    pub limited: bool,
}

/// The result of one round: one turn at each shard until there are enough jobs.
#[derive(Default)]
pub(super) struct PullRound {
    pub(super) pulled: Pulled,
    /// Start the next round at once.
    pub(super) more: bool,
    /// The longest sleep before the next round, if anything is known to come.
    pub(super) wait: Option<Duration>,
}

impl PullRound {
    /// Adds the result of another shard.
    pub(super) fn add(&mut self, other: Self) {
        self.pulled.leases.extend(other.pulled.leases);
        self.pulled.paused |= other.pulled.paused;
        self.pulled.limited |= other.pulled.limited;
        self.more |= other.more;
        self.wait = earliest(self.wait, other.wait);
    }

    pub(super) fn of(reply: TurnReply, call: &LeaseCall) -> Result<Self, QueueError> {
        let TurnReply { reclaimed, promoted, leased, error, .. } = reply;
        let mut round = Self::default();
        let (more_due, next_due) =
            promoted.map_or((false, None), |promoted| (promoted.more, promoted.next_due_in));
        match leased {
            Some(Leased::Jobs(jobs)) => {
                round.pulled.leases = jobs.leases;
                // Superseded or expired jobs were removed; try again.
                round.more = round.pulled.leases.is_empty();
            }
            Some(Leased::Empty { wait }) => {
                round.more = more_due;
                let next_old = next_due.map(|due| due + call.min_age);
                round.wait = earliest(wait, next_old);
            }
            Some(Leased::Limited { wait }) => {
                round.pulled.limited = true;
                round.wait = wait;
            }
            Some(Leased::Paused) => round.pulled.paused = true,
            // Only a call that asks for limits is answered so.
            Some(Leased::NoLimits) => round.pulled.limited = true,
            // The clock of Redis was set, or the call took long. The reply told the clock.
            Some(Leased::Late) => round.wait = Some(Duration::ZERO),
            None => {}
        }
        let next_expiry = reclaimed.and_then(|reclaimed| reclaimed.next_expiry_in);
        round.wait = earliest(round.wait, next_expiry);
        // The caller gets the leased jobs, even if another part was refused.
        match error {
            Some(error) if round.pulled.leases.is_empty() => Err(error),
            _ => Ok(round),
        }
    }
}

fn earliest(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Promoted, Reclaimed};

    const SECOND: Duration = Duration::from_secs(1);

    fn reply(leased: Leased, next_due_in: Option<Duration>) -> TurnReply {
        let promoted = Promoted { moved: 0, skipped: 0, more: false, next_due_in, bad: 0 };
        let reclaimed = Reclaimed { next_expiry_in: Some(9 * SECOND), jobs: Vec::new() };
        TurnReply {
            leased: Some(leased),
            promoted: Some(promoted),
            reclaimed: Some(reclaimed),
            ..TurnReply::default()
        }
    }

    #[test]
    fn it_looks_again_when_the_first_thing_comes() {
        let mut call = LeaseCall::new(1, SECOND, "a:1");
        let wait =
            |leased, due, call: &LeaseCall| PullRound::of(reply(leased, due), call).unwrap().wait;
        assert_eq!(wait(Leased::Empty { wait: None }, Some(SECOND), &call), Some(SECOND));
        assert_eq!(wait(Leased::Empty { wait: None }, None, &call), Some(9 * SECOND));
        call.min_age = 3 * SECOND;
        let young = Leased::Empty { wait: Some(2 * SECOND) };
        assert_eq!(wait(young, Some(SECOND), &call), Some(2 * SECOND));
        assert_eq!(wait(Leased::Empty { wait: None }, Some(SECOND), &call), Some(4 * SECOND));
        // A due time does not matter while the topic is limited.
        let limited = Leased::Limited { wait: Some(5 * SECOND) };
        assert_eq!(wait(limited, Some(SECOND), &call), Some(5 * SECOND));
        assert_eq!(wait(Leased::Paused, Some(SECOND), &call), Some(9 * SECOND));
        assert_eq!(wait(Leased::Late, Some(SECOND), &call), Some(Duration::ZERO));
    }

    #[test]
    fn jobs_come_though_something_else_was_refused() {
        let call = LeaseCall::new(1, SECOND, "a:1");
        let refused = |leased| TurnReply {
            error: Some(QueueError::Refused("OOM".to_owned())),
            ..reply(leased, None)
        };
        assert!(PullRound::of(refused(Leased::Empty { wait: None }), &call).is_err());
        let lease = Lease {
            id: duebox_job::JobId::new("1").unwrap(),
            token: crate::Token::expiring_at_us(1),
            due_at_ms: 0,
            place: 0.0,
            payload: bytes::Bytes::new(),
            payload_bytes: 0,
            options: Ok(duebox_job::Options::default()),
            failures: 0,
            crashes: 0,
            snoozes: 0,
        };
        let jobs = crate::LeasedJobs { leases: vec![lease], ..Default::default() };
        let round = PullRound::of(refused(Leased::Jobs(jobs)), &call).unwrap();
        assert_eq!(round.pulled.leases.len(), 1);
    }
}
