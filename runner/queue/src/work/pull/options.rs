//! What a pull consumer wants, checked once: what is out of range is refused by name.

use std::time::Duration;

use crate::wire::constants::BATCH_MAX;
use crate::work::lease::{Lease, LeaseCall};

/// The longest name of a consumer, in bytes.
const NAME_MAX: usize = 128;
/// The longest wait of a pull.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The shortest and the longest lease.
const LEASE_MIN: Duration = Duration::from_millis(1);
const LEASE_MAX: Duration = Duration::from_secs(24 * 3600);
/// How soon pushes by plain commands are found, where nothing else is said.
const POLL: Duration = Duration::from_secs(1);
/// The least poll: it bounds what an idle pull costs.
const POLL_MIN: Duration = Duration::from_millis(10);
/// Crashes allowed to a job, where nothing else is said.
const CRASHES_MAX: u32 = 3;

const CRASHED_INFO: &str = r#"{"class":"crashed","reason":"those who pulled it died, or lost the lease, as often as max_crashes allows"}"#;

/// A wish for jobs, with a wait.
#[derive(Debug, Clone)]
pub struct PullOptions {
    consumer: String,
    jobs: usize,
    lease: Duration,
    wait: Duration,
    poll: Duration,
    /// Payload bytes wanted at most; one job is always given. None is as many as there are.
    pub bytes_max: Option<u64>,
    /// How long the jobs must have been due.
    pub min_age: Duration,
    /// Crashes after which a job is buried whose lease has expired; its own option goes before.
    pub max_crashes: u32,
    /// What such a job keeps, as JSON; empty forgets it.
    pub crashed_info: String,
    /// What a job keeps that was not started within its ttl, as JSON; none is the usual, empty forgets.
    pub expired_info: Option<String>,
    /// Whether jobs with a due time that is none are forgotten; else they are buried.
    pub discards_bad_dues: bool,
}

/// Why a wish makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PullOptionsError {
    /// The consumer's name.
    #[error(
        "{0:?} is no name of a consumer; allowed are 1 to 128 visible ASCII characters, no spaces"
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
    /// A wish for up to `jobs` (1 to 1000), each held for `lease` (1 ms to one day), that waits for up
    /// to `wait` (60 s at most) if none is due. The consumer's name (1 to 128 visible ASCII characters)
    /// says later who holds a job.
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
        Ok(Self {
            consumer: consumer.to_owned(),
            jobs,
            lease,
            wait,
            poll: POLL,
            bytes_max: None,
            min_age: Duration::ZERO,
            max_crashes: CRASHES_MAX,
            crashed_info: CRASHED_INFO.to_owned(),
            expired_info: None,
            discards_bad_dues: false,
        })
    }

    /// How soon pushes by plain commands are found, 10 ms or more; one second if this is not called.
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

    /// A call, under a name that no other has, for what is wanted beside these jobs; none if they are
    /// enough. Bytes are counted by the script, so a wish that bounds them asks one shard only.
    pub(super) fn call_beside(&self, leases: &[Lease]) -> Option<LeaseCall> {
        if leases.len() >= self.jobs || (self.bytes_max.is_some() && !leases.is_empty()) {
            return None;
        }
        let call_id = format!("{}:{:016x}", self.consumer, fastrand::u64(..));
        let mut call = LeaseCall::new(self.jobs - leases.len(), self.lease, call_id);
        call.bytes_max = self.bytes_max;
        call.min_age = self.min_age;
        if let Some(info) = &self.expired_info {
            call.expired_info.clone_from(info);
        }
        Some(call)
    }
}

/// Whether a consumer may have this name: 1 to 128 visible ASCII characters.
///
/// # Errors
/// [`PullOptionsError::Consumer`], if not.
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
