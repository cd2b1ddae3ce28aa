//! A breaker in the report of a daemon, with times by the daemon's clock.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::status::now_ms;
use crate::deploy::breaker::BreakerState;
use crate::millis::millis;

/// A breaker that is not closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakerStatus {
    /// Since when it has been open, unix ms by the daemon's clock.
    pub open_since_ms: u64,
    /// When the next probe may start; `None` while one runs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub probe_at_ms: Option<u64>,
}

impl BreakerStatus {
    pub(super) fn of(standing: BreakerState) -> Option<Self> {
        let (now_ms, now) = (now_ms(), Instant::now());
        let ago = |then: Instant| millis(now.saturating_duration_since(then));
        let ahead = |then: Instant| millis(then.saturating_duration_since(now));
        let (since, probe_at) = match standing {
            BreakerState::Closed => return None,
            BreakerState::Open { since, probe_at } => (since, Some(probe_at)),
            BreakerState::Probing { since } => (since, None),
        };
        Some(Self {
            open_since_ms: now_ms.saturating_sub(ago(since)),
            probe_at_ms: probe_at.map(|at| now_ms.saturating_add(ahead(at))),
        })
    }
}
