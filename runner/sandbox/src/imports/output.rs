//! What a guest says about its job beyond the verdict. Each word counts only with the verdict it
//! belongs to, so nothing here is looked at before the verdict is known; what is not used is dropped
//! with the instance. A job that says nothing allocates nothing.

use std::time::Duration;

use bytes::Bytes;
use duebox_job::FollowUp;

/// The longest result, in bytes.
pub(crate) const RESULT_MAX: usize = 64 << 10;
/// Follow-ups of one job.
const FOLLOW_UPS_MAX: usize = 100;
/// What all follow-ups of one job may take, heads and bodies together, in bytes.
const FOLLOW_UP_BYTES_MAX: usize = 4 << 20;

/// A guest's words; of each kind the last one, of follow-ups all.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// Why; kept unless the job is acked.
    pub(crate) reason: Option<String>,
    /// The wait before the next attempt; for a nack.
    pub(crate) retry_after: Option<Duration>,
    /// Come back later, this is no failure; for a nack.
    pub(crate) snooze: Option<Duration>,
    /// What is kept with the job; for an ack.
    pub(crate) result: Option<Bytes>,
    /// Jobs to push; for an ack.
    pub(crate) follow_ups: FollowUps,
}

/// The follow-ups of one job, within their bounds.
#[derive(Debug, Default)]
pub(crate) struct FollowUps {
    jobs: Vec<FollowUp>,
    bytes: usize,
}

impl FollowUps {
    /// Which follow-up the next one is, from 1.
    pub(crate) fn next_number(&self) -> usize {
        self.jobs.len() + 1
    }

    /// Whether one more of so many bytes, head and body, is within the bounds.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let room = FOLLOW_UP_BYTES_MAX - self.bytes;
        self.jobs.len() < FOLLOW_UPS_MAX && bytes <= room
    }

    /// Takes one for which [`has_room`](Self::has_room) was true.
    pub(crate) fn add(&mut self, job: FollowUp, bytes: usize) {
        self.bytes = (self.bytes + bytes).min(FOLLOW_UP_BYTES_MAX);
        self.jobs.push(job);
    }

    /// Hands them over.
    pub(crate) fn take(&mut self) -> Vec<FollowUp> {
        self.bytes = 0;
        std::mem::take(&mut self.jobs)
    }
}
