//! Posts the job to a URL and settles it by the response, so that an application in any language
//! can handle jobs over plain HTTP without writing a handler.
//!
//! | response | verdict |
//! |---|---|
//! | 2xx | ack; the body is the job's result, if the topic keeps results |
//! | 408, 429, 5xx | nack, after the `Retry-After` if there is one |
//! | any other 4xx | drop; a repeat would get the same response |
//! | anything else, redirects included | nack |
//! | none: refused, aborted, timed out, too large, not granted | nack |
//!
//! The reason is the status and the start of the body. The request's body is the payload as it is;
//! its headers are those of [`headers`].
//!
//! Invariants: each job logs one line `verdict=…`. The `webhook-id` is the same in every attempt,
//! so that a receiver can detect a repeat.

mod headers;
mod signature;

use std::time::Duration;

use duebox_sdk::http::{Request, Response};
use duebox_sdk::{Job, Verdict, info};

/// How much of a response's body a reason contains, in characters.
const SHOWN_MAX: usize = 200;
/// The maximum length of a result, in bytes.
const RESULT_MAX: usize = 64 << 10;
/// The default timeout of a request, in seconds.
const TIMEOUT_S: f64 = 30.0;

duebox_sdk::handler!(handle);

fn handle(job: Job) -> Verdict {
    let (verdict, status) = match post(&job) {
        Ok(response) => (settle(&job, &response), format!(" status={}", response.status())),
        Err(verdict) => (verdict, String::new()),
    };
    match &verdict {
        Verdict::Ack => info!("verdict=ack{status}"),
        Verdict::Drop { reason } => info!("verdict=drop{status} reason={reason:?}"),
        Verdict::Nack { reason, .. } | Verdict::Snooze { reason, .. } => {
            info!("verdict=nack{status} reason={reason:?}");
        }
    }
    verdict
}

/// Posts the job; a missing response is a nack.
fn post(job: &Job) -> Result<Response, Verdict> {
    let missing = "the configuration value \"url\" is missing; it is where the job is posted to";
    let url = job.config("url").ok_or_else(|| Verdict::nack(missing))?;
    let body = job.payload();
    let request = headers::of(job, &body)?
        .into_iter()
        .fold(Request::post(&url), |request, (name, value)| request.header(name, &value));
    let sent = request.timeout(timeout(job)?).body(body).send();
    sent.map_err(|error| Verdict::nack(format!("no response: {error}")))
}

/// The topic's `timeout_s`, or a little less than the job's remaining time if that is shorter, so
/// that a late response leads to a nack with a reason and not to a timeout of the job.
fn timeout(job: &Job) -> Result<Duration, Verdict> {
    let wanted_s = job.config_as::<f64>("timeout_s")?.unwrap_or(TIMEOUT_S);
    if !(0.001..=86_400.0).contains(&wanted_s) {
        return Err(Verdict::nack(format!(
            "the configuration value \"timeout_s\" is {wanted_s}; it must be seconds from 0.001 to 86400"
        )));
    }
    let left = job.time_left().mul_f64(0.9).max(Duration::from_millis(1));
    Ok(Duration::from_secs_f64(wanted_s).min(left))
}

fn settle(job: &Job, response: &Response) -> Verdict {
    let body = response.bytes();
    let reason = format!("the receiver answered {}{}", response.status(), shown(body));
    match response.verdict() {
        Verdict::Ack => {
            // A longer body is not kept: half a result would be useless.
            if !body.is_empty() && body.len() <= RESULT_MAX {
                let _: Result<(), _> = job.set_result(body);
            }
            Verdict::Ack
        }
        Verdict::Nack { retry_after, .. } => Verdict::Nack { reason, retry_after },
        Verdict::Snooze { delay, .. } => Verdict::Snooze { delay, reason },
        Verdict::Drop { .. } => Verdict::Drop { reason },
    }
}

/// The start of a body as one line; empty if the body is.
fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(4 * SHOWN_MAX)]);
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    if line.is_empty() {
        return line;
    }
    let ellipsis = if line.chars().nth(SHOWN_MAX).is_some() { "…" } else { "" };
    format!(": {}{ellipsis}", line.chars().take(SHOWN_MAX).collect::<String>())
}
