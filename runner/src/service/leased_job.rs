//! A leased job as its consumer gets it in JSON, on the command line and over HTTP.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use duebox_job::Options;
use duebox_queue::{Lease, Token};
use serde::Serialize;
use utoipa::ToSchema;

use crate::manifest::Topic;

/// A job that is leased.
#[derive(Serialize, ToSchema)]
pub(crate) struct LeasedJob<'a> {
    /// The job's id.
    id: String,
    /// What fences the lease: it settles and extends the job.
    token: String,
    /// Which attempt this is, from 1.
    attempt: u32,
    /// How many attempts there are.
    max_attempts: u32,
    /// When it fell due, unix ms.
    due_at_ms: u64,
    /// Until when it is yours, unix ms by Redis' clock.
    lease_expires_at_ms: u64,
    /// Its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    /// What it was pushed with for its handler.
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<&'a BTreeMap<String, String>>,
    /// Its payload, where that is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a str>,
    /// Its payload in base64, where it is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
}

impl<'a> LeasedJob<'a> {
    /// Of a lease, on the topic's terms.
    pub(crate) fn of(lease: &'a Lease, topic: &Topic) -> Self {
        // Jobs whose options cannot be read are not given to consumers.
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

/// How many attempts a job has in all.
pub(crate) fn max_attempts(lease: &Lease, topic: &Topic) -> u32 {
    let own = lease.options.as_ref().ok().and_then(Options::max_attempts);
    own.unwrap_or(topic.max_attempts)
}

/// A token as its holder keeps it.
pub(crate) fn token_text(token: &Token) -> String {
    token.expires_at_us().to_string()
}
