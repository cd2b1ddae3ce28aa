//! Fault injection: how the shop misbehaves, on which paths and how often.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::Deserialize;

/// Maximum number of pending faults.
const PENDING_MAX: usize = 100;

/// The faults that were requested and not yet applied, in order.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<FaultRequest>);

/// A requested fault: it applies to the next `times` requests whose path starts with `on`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FaultRequest {
    on: String,
    #[serde(default = "once")]
    times: u32,
    fault: Fault,
}

/// What happens to a request.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Fault {
    /// The request is processed, and the response is delayed, by at most an hour.
    Slow { ms: u32 },
    /// No response is sent.
    Hang,
    /// The request is not processed, and the response has this status.
    Answer {
        status: u16,
        /// In seconds, or as a date.
        retry_after: Option<String>,
    },
    /// The request is processed, but the response is a 502, so the caller cannot know.
    Lost,
}

impl Faults {
    /// Adds a fault.
    ///
    /// # Errors
    /// If the fault cannot be applied.
    pub(crate) fn add(&mut self, pending: FaultRequest) -> Result<(), String> {
        if let Fault::Answer { status, retry_after } = &pending.fault {
            response_head(*status, retry_after.as_deref())?;
        }
        if self.0.len() == PENDING_MAX {
            return Err(format!("{PENDING_MAX} faults are already pending"));
        }
        self.0.push(pending);
        Ok(())
    }

    /// Removes all faults.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Takes the fault for a request to this path, and counts it.
    pub(crate) fn take(&mut self, path: &str) -> Option<Fault> {
        self.0.retain(|pending| pending.times > 0);
        let pending = self.0.iter_mut().find(|pending| path.starts_with(&pending.on))?;
        pending.times -= 1;
        Some(pending.fault.clone())
    }
}

/// Status and headers of a fault's response.
pub(crate) fn response_head(
    status: u16,
    retry_after: Option<&str>,
) -> Result<(StatusCode, HeaderMap), String> {
    let known = StatusCode::from_u16(status).ok().filter(|known| known.as_u16() >= 200);
    let known = known.ok_or_else(|| format!("{status} is not a status from 200 to 999"))?;
    let mut headers = HeaderMap::new();
    if let Some(wait) = retry_after {
        let value = HeaderValue::from_str(wait);
        let value = value.map_err(|_| format!("{wait:?} is not a valid header value"))?;
        headers.insert(header::RETRY_AFTER, value);
    }
    Ok((known, headers))
}

/// The delay of a slow response.
pub(crate) fn delay(ms: u32) -> Duration {
    Duration::from_millis(u64::from(ms.min(3_600_000)))
}

fn once() -> u32 {
    1
}
