//! Posts the job to a URL and settles it by the answer, so that an application in any language is
//! woken by plain HTTP and writes no handler at all.
//!
//! | the answer | verdict |
//! |---|---|
//! | 2xx | ack; the body is the job's result, if the topic keeps results |
//! | 408, 429, 5xx | nack, after its `Retry-After` if it has one |
//! | any other 4xx | drop: the same request would get the same answer |
//! | anything else, a redirect too | nack |
//! | none: refused, broken off, too late, too large, not granted | nack |
//!
//! The reason is the status and the beginning of the body. The body of the request is the payload as
//! it is; the headers are those of [`headers`]. Invariants: one line `verdict=…` a job; the
//! `webhook-id` is the same in every attempt, so that a receiver can tell a repetition.

mod headers;
mod signature;

use std::time::Duration;

use duebox_sdk::http::{Request, Response};
use duebox_sdk::{Job, Verdict, info};

/// How much of an answer's body stands in a reason, in characters.
const SHOWN_MAX: usize = 200;
/// What the host keeps of a result, in bytes.
const RESULT_MAX: usize = 64 << 10;
/// How long an answer is waited for where the topic does not say, in seconds.
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

/// Posts the job; without an answer it is a nack.
fn post(job: &Job) -> Result<Response, Verdict> {
    let missing = "the configuration value \"url\" is missing; it is where the job is posted to";
    let url = job.config("url").ok_or_else(|| Verdict::nack(missing))?;
    let body = job.payload();
    let request = headers::of(job, &body)?
        .into_iter()
        .fold(Request::post(&url), |request, (name, value)| request.header(name, &value));
    let sent = request.timeout(timeout(job)?).body(body).send();
    sent.map_err(|error| Verdict::nack(format!("no answer: {error}")))
}

/// The topic's `timeout_s`, but a little less than the job has left: an answer that is late is a nack
/// with its reason, and not the end of the job's time.
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
            // What is longer is no result: half of one could not be read.
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

/// The beginning of a body for people, in one line; empty if there is none.
fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(4 * SHOWN_MAX)]);
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let line = words.join(" ");
    if line.is_empty() {
        return line;
    }
    let mark = if line.chars().nth(SHOWN_MAX).is_some() { "…" } else { "" };
    format!(": {}{mark}", line.chars().take(SHOWN_MAX).collect::<String>())
}
