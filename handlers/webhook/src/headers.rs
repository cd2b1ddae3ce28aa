//! The headers of a webhook request: those of Standard Webhooks (`webhook-id`, `webhook-timestamp`,
//! `webhook-signature`) and the job's metadata. The host adds `Idempotency-Key`, `Duebox-Attempt`
//! and `traceparent`.
//!
//! Invariant: an id or a topic can be decoded by the receiver. Characters that a header cannot
//! contain are percent-encoded.

use std::fmt::Write;

use duebox_sdk::{Job, Verdict};

use crate::signature::Key;

/// The content type if neither the job nor the topic sets one.
const CONTENT_TYPE: &str = "application/octet-stream";

/// All headers, in order. The `webhook-id` contains no dot, which separates the signed parts.
pub(crate) fn of(job: &Job, body: &[u8]) -> Result<Vec<(&'static str, String)>, Verdict> {
    let (topic, id) = (job.topic(), job.id());
    let webhook_id = encoded(&topic, b"") + "/" + &encoded(&id, b"");
    let sent_s = (job.now_ms() / 1_000).to_string();
    let mut headers = vec![
        ("content-type", content_type(job)),
        ("duebox-topic", encoded(&topic, VISIBLE)),
        ("duebox-id", encoded(&id, VISIBLE)),
        ("duebox-max-attempts", job.max_attempts().to_string()),
        ("duebox-due-at", job.due_at_ms().to_string()),
    ];
    if let Some(key) = job.config("signing_key") {
        let signature = Key::read(&key)?.sign(&webhook_id, &sent_s, body);
        headers.push(("webhook-signature", signature));
    }
    if let Some(authorization) = job.config("authorization") {
        headers.push(("authorization", authorization));
    }
    headers.extend([("webhook-id", webhook_id), ("webhook-timestamp", sent_s)]);
    Ok(headers)
}

/// The job's header `content-type`, or else the topic's `content_type`.
fn content_type(job: &Job) -> String {
    let own = job.header("content-type").or_else(|| job.config("content_type"));
    own.unwrap_or_else(|| CONTENT_TYPE.to_owned())
}

/// The characters of a header value apart from letters, digits, `-`, `_` and the percent sign.
const VISIBLE: &[u8] = b"!\"#$&'()*+,./:;<=>?@[\\]^`{|}~";

fn encoded(text: &str, kept: &[u8]) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-_".contains(&byte) || kept.contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _: std::fmt::Result = write!(out, "%{byte:02X}");
        }
        out
    })
}
