//! The kinds of events. `docs/guide/events.md` describes each.

use std::fmt;

use duebox_queue::Settled;

/// What happened to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    Pushed,
    Acked,
    Retried,
    Snoozed,
    Released,
    Dead,
    Discarded,
    Superseded,
    Cancelled,
    Reclaimed,
    Expired,
    Requeued,
    Purged,
    Rescheduled,
}

impl EventKind {
    /// All kinds.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 14] = [
        Self::Pushed,
        Self::Acked,
        Self::Retried,
        Self::Snoozed,
        Self::Released,
        Self::Dead,
        Self::Discarded,
        Self::Superseded,
        Self::Cancelled,
        Self::Reclaimed,
        Self::Expired,
        Self::Requeued,
        Self::Purged,
        Self::Rescheduled,
    ];

    /// The event of a settled verdict; `None` for a lost one.
    pub(crate) fn of(settled: Settled) -> Option<Self> {
        Some(match settled {
            Settled::Done => Self::Acked,
            Settled::Superseded => Self::Superseded,
            Settled::Cancelled => Self::Cancelled,
            Settled::Released => Self::Released,
            Settled::Retry => Self::Retried,
            Settled::Snoozed => Self::Snoozed,
            Settled::Discarded => Self::Discarded,
            Settled::Dead => Self::Dead,
            Settled::Lost => return None,
        })
    }

    /// Whether an attempt has failed.
    pub(crate) fn is_failure(self) -> bool {
        matches!(self, Self::Retried | Self::Dead | Self::Discarded)
    }

    /// The word for it in the stream.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Pushed => "pushed",
            Self::Acked => "acked",
            Self::Retried => "retried",
            Self::Snoozed => "snoozed",
            Self::Released => "released",
            Self::Dead => "dead",
            Self::Discarded => "discarded",
            Self::Superseded => "superseded",
            Self::Cancelled => "cancelled",
            Self::Reclaimed => "reclaimed",
            Self::Expired => "expired",
            Self::Requeued => "requeued",
            Self::Purged => "purged",
            Self::Rescheduled => "rescheduled",
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
