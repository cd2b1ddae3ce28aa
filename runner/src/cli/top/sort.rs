//! The column by which `duebox top` sorts the topics, which come sorted by name.

use super::rates::Rates;
use crate::cli::stats::TopicStats;

/// The column by which topics are sorted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum SortBy {
    #[default]
    Name,
    Rate,
    Failed,
    Ready,
    Late,
    Dead,
}

impl SortBy {
    /// The word for it on the screen.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Rate => "rate",
            Self::Failed => "failed",
            Self::Ready => "ready",
            Self::Late => "late",
            Self::Dead => "dead",
        }
    }

    /// The next column.
    pub(super) fn next(self) -> Self {
        match self {
            Self::Name => Self::Rate,
            Self::Rate => Self::Failed,
            Self::Failed => Self::Ready,
            Self::Ready => Self::Late,
            Self::Late => Self::Dead,
            Self::Dead => Self::Name,
        }
    }

    /// Sorts topics by this column: by name, else the largest first.
    pub(super) fn sort(self, rows: &mut [&TopicStats], rates: &Rates) {
        match self {
            Self::Name => {}
            Self::Rate => {
                let rate = |topic: &TopicStats| rates.of(&topic.topic).attempts;
                rows.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
            }
            Self::Failed => {
                let failed = |topic: &TopicStats| rates.of(&topic.topic).failed;
                rows.sort_by(|a, b| failed(b).total_cmp(&failed(a)));
            }
            Self::Ready => {
                rows.sort_by_key(|topic| std::cmp::Reverse(topic.ready + topic.blocked));
            }
            Self::Late => rows.sort_by_key(|topic| std::cmp::Reverse(topic.late_ms)),
            Self::Dead => rows.sort_by_key(|topic| std::cmp::Reverse(topic.dead)),
        }
    }
}
