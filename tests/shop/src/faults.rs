//! Faults to order: what a shop under stress does to those who ask it, on paths and as often as told.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Deserialize;

/// Orders that wait at once.
const ORDERED_MAX: usize = 100;

/// The faults that were ordered and not yet delivered, first come first served.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<Ordered>);

/// One order: the next `times` requests whose path begins with `on` meet it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ordered {
    on: String,
    #[serde(default = "once")]
    times: u32,
    fault: Fault,
}

/// What befalls a request.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Fault {
    /// All is done, and the answer comes late, by at most an hour.
    Slow { ms: u32 },
    /// No answer comes at all.
    Hang,
    /// Another status, and nothing is done.
    Answer {
        status: u16,
        /// In seconds, or as a date.
        retry_after: Option<String>,
    },
    /// All is done, and the answer is a 502 all the same: whoever asked cannot know.
    Lost,
}

impl Faults {
    /// Takes an order.
    ///
    /// # Errors
    /// If it is none that can be delivered.
    pub(crate) fn order(&mut self, ordered: Ordered) -> Result<(), String> {
        if let Fault::Answer { status, retry_after } = &ordered.fault {
            answer(*status, retry_after.as_deref())?;
        }
        if self.0.len() == ORDERED_MAX {
            return Err(format!("{ORDERED_MAX} faults are waiting already"));
        }
        self.0.push(ordered);
        Ok(())
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// What befalls a request to this path; it counts.
    pub(crate) fn take(&mut self, path: &str) -> Option<Fault> {
        self.0.retain(|ordered| ordered.times > 0);
        let ordered = self.0.iter_mut().find(|ordered| path.starts_with(&ordered.on))?;
        ordered.times -= 1;
        Some(ordered.fault.clone())
    }
}

/// The head of an answer that says no.
pub(crate) fn answer(
    status: u16,
    retry_after: Option<&str>,
) -> Result<(StatusCode, HeaderMap), String> {
    let known = StatusCode::from_u16(status).ok().filter(|known| known.as_u16() >= 200);
    let known = known.ok_or_else(|| format!("{status} is no status from 200 to 999"))?;
    let mut headers = HeaderMap::new();
    if let Some(wait) = retry_after {
        let value = HeaderValue::from_str(wait);
        let value = value.map_err(|_| format!("{wait:?} cannot stand in a header"))?;
        headers.insert(header::RETRY_AFTER, value);
    }
    Ok((known, headers))
}

/// How late a slow answer is.
pub(crate) fn late(ms: u32) -> Duration {
    Duration::from_millis(u64::from(ms.min(3_600_000)))
}

fn once() -> u32 {
    1
}
