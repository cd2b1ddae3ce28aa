//! A leased job in the JSON that its consumer gets, on the command line and over HTTP.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use duebox_job::Options;
use duebox_queue::{Lease, Token};
use serde::Serialize;
use utoipa::ToSchema;

use crate::manifest::Topic;

/// A leased job.
#[derive(Serialize, ToSchema)]
pub(crate) struct LeasedJob<'a> {
    /// The job's id.
    id: String,
    /// Token of the lease: it is required to settle and extend the job.
    token: String,
    /// Number of this attempt, from 1.
    attempt: u32,
    /// Maximum number of attempts.
    max_attempts: u32,
    /// When it fell due, unix ms.
    due_at_ms: u64,
    /// When the lease expires, unix ms by Redis' clock.
    lease_expires_at_ms: u64,
    /// Its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    /// Headers of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<&'a BTreeMap<String, String>>,
    /// Its payload, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a str>,
    /// Its payload in base64, if it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
}

impl<'a> LeasedJob<'a> {
    /// The job of a lease; the topic's settings apply where the job has none.
    pub(crate) fn of(lease: &'a Lease, topic: &Topic) -> Self {
        // Jobs with invalid options are not given to consumers.
        let options = lease.options.as_ref().ok();
        let text = std::str::from_utf8(&lease.payload).ok();
        Self {
            id: lease.id.to_string(),
            token: token_text(&lease.token),
            attempt: lease.failures.saturating_add(1),
            max_attempts: max_attempts(lease, topic),
            due_at_ms: lease.due_at_ms,
            lease_expires_at_ms: lease.token.expires_at_us() / 1_000,
            key: options.and_then(Options::key),
            headers: options.map(Options::headers),
            payload: text,
            payload_base64: text.is_none().then(|| STANDARD.encode(&lease.payload)),
        }
    }
}

/// The maximum number of attempts of a job.
pub(crate) fn max_attempts(lease: &Lease, topic: &Topic) -> u32 {
    let own = lease.options.as_ref().ok().and_then(Options::max_attempts);
    own.unwrap_or(topic.retries.max_attempts)
}

/// The text form of a token.
pub(crate) fn token_text(token: &Token) -> String {
    token.expires_at_us().to_string()
}
