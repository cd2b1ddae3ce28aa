//! Options of a pull. The constructor checks their ranges.

use std::num::NonZero;
use std::time::Duration;

use duebox_job::FailureClass;

use crate::wire::constants::BATCH_MAX;
use crate::wire::last_attempt::LastAttempt;
use crate::work::lease::{Lease, LeaseCall};

/// The longest name of a consumer, in bytes.
const NAME_MAX: usize = 128;
/// The longest wait of a pull.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The shortest and the longest lease.
const LEASE_MIN: Duration = Duration::from_millis(1);
const LEASE_MAX: Duration = Duration::from_secs(24 * 3600);
/// The default interval of the poll, which finds pushes by plain commands.
const POLL: Duration = Duration::from_secs(1);
/// The shortest poll interval: it bounds the cost of an idle pull.
const POLL_MIN: Duration = Duration::from_millis(10);
/// The default of `max_crashes`.
const CRASHES_MAX: NonZero<u32> = NonZero::new(3).unwrap();

/// What a pull asks for.
#[derive(Debug, Clone)]
pub struct PullOptions {
    consumer: String,
    jobs: usize,
    lease: Duration,
    wait: Duration,
    poll: Duration,
    /// Payload bytes at most, but at least one job; unbounded by default.
    pub bytes_max: Option<u64>,
    /// How long the jobs must have been due.
    pub min_age: Duration,
    /// Crashes after which a job is buried; the job's own option goes first, then
    /// [`Limits::max_crashes`](crate::Limits::max_crashes) of the topic.
    pub max_crashes: NonZero<u32>,
    /// What a job keeps that crashed too often, as JSON ([`LastAttempt`](crate::LastAttempt)); none deletes
    /// it.
    pub crashed_info: Option<String>,
    /// What a job keeps that was not started within its ttl, as JSON; none deletes it.
    pub expired_info: Option<String>,
    /// Deletes jobs with an invalid due time; else they are buried.
    pub discards_bad_dues: bool,
}

/// An option out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PullOptionsError {
    /// The consumer's name.
    #[error(
        "{0:?} is not a consumer name; allowed are 1 to 128 visible ASCII characters, no spaces"
    )]
    Consumer(String),
    /// The number of jobs.
    #[error("a pull takes 1 to 1000 jobs, and not {0}")]
    Jobs(usize),
    /// The lease.
    #[error("a lease lasts from 1ms to 24h")]
    Lease,
    /// The wait.
    #[error("a pull waits for 60s at most")]
    Wait,
}

impl PullOptions {
    /// Asks for up to `jobs` (1 to 1,000), each leased for `lease` (1 ms to one day). If no job is due,
    /// waits for up to `wait` (at most 60 s). The consumer's name (1 to 128 visible ASCII characters)
    /// is stored with its leases.
    ///
    /// # Errors
    /// [`PullOptionsError`] if one of them is out of range.
    pub fn new(
        consumer: &str,
        jobs: usize,
        lease: Duration,
        wait: Duration,
    ) -> Result<Self, PullOptionsError> {
        check_consumer(consumer)?;
        if !(1..=BATCH_MAX).contains(&jobs) {
            return Err(PullOptionsError::Jobs(jobs));
        }
        if !(LEASE_MIN..=LEASE_MAX).contains(&lease) {
            return Err(PullOptionsError::Lease);
        }
        if wait > WAIT_MAX {
            return Err(PullOptionsError::Wait);
        }
        let info = |class| Some(LastAttempt::without_attempt(class).to_json());
        Ok(Self {
            consumer: consumer.to_owned(),
            jobs,
            lease,
            wait,
            poll: POLL,
            bytes_max: None,
            min_age: Duration::ZERO,
            max_crashes: CRASHES_MAX,
            crashed_info: info(FailureClass::Crashed),
            expired_info: info(FailureClass::Expired),
            discards_bad_dues: false,
        })
    }

    /// Sets the poll interval, at least 10 ms; the default is 1 s. It bounds how late pushes by plain
    /// commands are found.
    #[must_use]
    pub fn with_poll(mut self, poll: Duration) -> Self {
        self.poll = poll.max(POLL_MIN);
        self
    }

    /// How long it waits if no job is due.
    pub fn wait(&self) -> Duration {
        self.wait
    }

    pub(super) fn poll(&self) -> Duration {
        self.poll
    }

    /// A lease call with a new name for what is missing next to these jobs; none if they are enough.
    /// The script counts bytes, so a pull with a bound on bytes asks one shard only.
    pub(super) fn call_beside(&self, leases: &[Lease]) -> Option<LeaseCall> {
        if leases.len() >= self.jobs || (self.bytes_max.is_some() && !leases.is_empty()) {
            return None;
        }
        let call_id = format!("{}:{:016x}", self.consumer, fastrand::u64(..));
        let mut call = LeaseCall::new(self.jobs - leases.len(), self.lease, call_id);
        call.bytes_max = self.bytes_max;
        call.min_age = self.min_age;
        call.expired_info.clone_from(&self.expired_info);
        Some(call)
    }
}

/// Checks a consumer's name: 1 to 128 visible ASCII characters.
///
/// # Errors
/// [`PullOptionsError::Consumer`] if it is invalid.
pub fn check_consumer(name: &str) -> Result<(), PullOptionsError> {
    let is_visible = name.chars().all(|c| c.is_ascii_graphic());
    if name.is_empty() || name.len() > NAME_MAX || !is_visible {
        return Err(PullOptionsError::Consumer(name.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_range_is_refused() {
        let second = Duration::from_secs(1);
        let refused = |consumer: &str, jobs, lease, wait| {
            PullOptions::new(consumer, jobs, lease, wait).err().map(|error| error.to_string())
        };
        assert_eq!(refused("me:1", 1_000, LEASE_MAX, WAIT_MAX), None);
        assert_eq!(refused("m", 1, LEASE_MIN, Duration::ZERO), None);
        for (refused, why) in [
            (refused("", 1, second, second), "1 to 128"),
            (refused("a b", 1, second, second), "\"a b\""),
            (refused(&"x".repeat(129), 1, second, second), "1 to 128"),
            (refused("m", 0, second, second), "not 0"),
            (refused("m", 1_001, second, second), "not 1001"),
            (refused("m", 1, Duration::ZERO, second), "1ms to 24h"),
            (refused("m", 1, LEASE_MAX + LEASE_MIN, second), "1ms to 24h"),
            (refused("m", 1, second, WAIT_MAX + LEASE_MIN), "60s"),
        ] {
            assert!(refused.as_ref().is_some_and(|text| text.contains(why)), "{refused:?} {why}");
        }
    }

    #[test]
    fn no_two_calls_have_the_same_name() {
        let pull = PullOptions::new("me:1", 1, LEASE_MIN, WAIT_MAX).unwrap();
        let name = || pull.call_beside(&[]).unwrap().call_id;
        let (one, other) = (name(), name());
        assert_ne!(one, other);
        assert_eq!(one.rsplit_once(':').unwrap().0, "me:1");
    }
}
