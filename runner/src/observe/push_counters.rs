//! Counts of jobs that this process pushed, by source. Pushes of other processes are visible only in the
//! depths of the topics.

use std::sync::atomic::AtomicU64;

use super::counters::{add, read};

/// Counts since the start.
#[derive(Debug, Default)]
pub struct PushCounters {
    http: AtomicU64,
    follow_ups: AtomicU64,
    schedules: AtomicU64,
}

/// The source of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A client of the HTTP API.
    Http,
    /// A handler, with its ack.
    FollowUp,
    /// A schedule of the manifest.
    Schedule,
}

impl Source {
    /// Every source.
    pub const ALL: [Self; 3] = [Self::Http, Self::FollowUp, Self::Schedule];

    /// Its word in metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::FollowUp => "follow_up",
            Self::Schedule => "schedule",
        }
    }
}

impl PushCounters {
    /// Counts stored jobs.
    pub fn record(&self, source: Source, jobs: usize) {
        add(self.of(source), jobs);
    }

    /// The number of stored jobs of a source.
    pub fn count(&self, source: Source) -> u64 {
        read(self.of(source))
    }

    fn of(&self, source: Source) -> &AtomicU64 {
        match source {
            Source::Http => &self.http,
            Source::FollowUp => &self.follow_ups,
            Source::Schedule => &self.schedules,
        }
    }
}
