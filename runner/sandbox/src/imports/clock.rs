//! The clocks that imports read: the time of one attempt, and the time since an instance started.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::imports::intercept::{self, HostClock, Interceptor};

/// The longest ttr that is applied: 100 years.
const TTR_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);

/// The time while a snapshot is taken, in Unix milliseconds: the start of 2020.
pub(crate) const FROZEN_UNIX_MS: u64 = 1_577_836_800_000;

/// The time of one attempt.
#[derive(Debug)]
pub(crate) struct AttemptClock {
    pub(crate) started: Instant,
    pub(crate) deadline: Instant,
    /// The deadline in Unix milliseconds, after the first request for it.
    deadline_ms: Cell<Option<u64>>,
}

impl AttemptClock {
    pub(crate) fn new(started: Instant, ttr: Duration) -> Self {
        let deadline = started.checked_add(ttr.min(TTR_MAX)).unwrap_or(started);
        Self { started, deadline, deadline_ms: Cell::new(None) }
    }

    /// The deadline in Unix milliseconds. It stays the same for the whole attempt.
    pub(crate) fn deadline_ms(&self, interceptor: Option<&Arc<dyn Interceptor>>) -> u64 {
        let host = || unix_ms().saturating_add(millis(self.remaining()));
        let ms = self.deadline_ms.get();
        let ms = ms.unwrap_or_else(|| intercept::clock(interceptor, HostClock::Deadline, host));
        self.deadline_ms.set(Some(ms));
        ms
    }

    /// The rest of the ttr.
    pub(crate) fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// The clock of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InstanceClock {
    /// The instance was started at this time.
    Running { since: Instant },
    /// A snapshot is being taken. The clock shows an early time, so that no instance of the snapshot sees
    /// the time run backwards.
    Frozen,
}

impl InstanceClock {
    /// The wall clock, in Unix milliseconds.
    pub(crate) fn unix_ms(&self) -> u64 {
        match self {
            Self::Running { .. } => unix_ms(),
            Self::Frozen => FROZEN_UNIX_MS,
        }
    }

    /// The time since the instance started.
    pub(crate) fn elapsed(&self) -> Duration {
        match self {
            Self::Running { since } => since.elapsed(),
            Self::Frozen => Duration::ZERO,
        }
    }
}

/// The current time in Unix milliseconds; 0 before 1970.
pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
}

/// A duration in nanoseconds.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A duration in whole milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
