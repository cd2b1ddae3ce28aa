//! What came of one run of a handler, for people and as JSON. Both say the same.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use bytesize::ByteSize;
use duebox_job::{FailureClass, FollowUp, FollowUpDue, Outcome, format_duration};
use duebox_sandbox::{Digest, RunReport};
use jiff::Timestamp;
use serde::Serialize;

use super::Line;

/// The account of a run, as JSON has it.
#[derive(Serialize)]
pub(super) struct Account {
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<FailureClass>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    snooze_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
    /// Where the result is no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    result_base64: Option<String>,
    /// As the queue writes them down.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    follow_ups: Vec<serde_json::Value>,
    time_ms: f64,
    cpu_ms: f64,
    memory_peak_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    fuel: Option<u64>,
    host_calls: u64,
    bytes_in: u64,
    bytes_out: u64,
    digest: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<String>,
    logs: Vec<Line>,
    log_lines_dropped: u32,
    #[serde(skip)]
    pushed: Vec<FollowUp>,
}

impl Account {
    pub(super) fn new(report: RunReport, digest: Digest, logs: Vec<Line>) -> Self {
        let mut account = Self {
            verdict: "ack",
            class: None,
            reason: None,
            retry_after_ms: None,
            snooze_ms: None,
            result: None,
            result_base64: None,
            follow_ups: report.follow_ups.iter().filter_map(written).collect(),
            time_ms: exact_millis(report.wall),
            cpu_ms: exact_millis(report.cpu),
            memory_peak_bytes: report.memory_peak,
            fuel: report.fuel_used,
            host_calls: report.host_calls,
            bytes_in: report.bytes_in,
            bytes_out: report.bytes_out,
            digest: digest.to_string(),
            trace: report.backtrace,
            logs,
            log_lines_dropped: report.log_lines_dropped,
            pushed: report.follow_ups,
        };
        if let Some(result) = report.result {
            account.keep(result);
        }
        account.decide(report.outcome);
        account
    }

    pub(super) fn is_ack(&self) -> bool {
        self.verdict == "ack"
    }

    fn keep(&mut self, result: Bytes) {
        match String::from_utf8(result.into()) {
            Ok(text) => self.result = Some(text),
            Err(error) => self.result_base64 = Some(STANDARD.encode(error.as_bytes())),
        }
    }

    fn decide(&mut self, outcome: Outcome) {
        let reason = match outcome {
            Outcome::Acked => return,
            Outcome::Snoozed { delay, reason } => {
                self.verdict = "snooze";
                self.snooze_ms = Some(millis(delay));
                reason
            }
            Outcome::HostFault(why) => {
                self.verdict = "host_fault";
                why
            }
            Outcome::Failed(failure) => {
                self.verdict = match failure.class {
                    FailureClass::Nack => "nack",
                    FailureClass::Drop => "drop",
                    _ => "failed",
                };
                self.class = Some(failure.class);
                self.retry_after_ms = failure.retry_after.map(millis);
                failure.reason
            }
        };
        self.reason = Some(reason).filter(|reason| !reason.is_empty());
    }

    /// The account for people: a line each, of a name and a value.
    pub(super) fn describe(&self) -> String {
        let mut lines = vec![format!("verdict  {}", self.verdict)];
        let mut say = |name: &str, value: String| {
            // A trace has many lines; they stay below each other.
            lines.push(format!("{name:<8} {}", value.replace('\n', "\n         ")));
        };
        if let Some(class) = self.class {
            say("class", class.to_string());
        }
        if let Some(reason) = &self.reason {
            say("reason", reason.clone());
        }
        for (name, ms) in [("retry", self.retry_after_ms), ("snooze", self.snooze_ms)] {
            if let Some(ms) = ms {
                say(name, format!("in {}", format_duration(Duration::from_millis(ms))));
            }
        }
        if let Some(result) = self.result.as_ref().or(self.result_base64.as_ref()) {
            say("result", result.clone());
        }
        self.pushed.iter().for_each(|follow_up| say("push", pushed(follow_up)));
        if let Some(trace) = &self.trace {
            say("trace", trace.clone());
        }
        say("time", format!("{:.3} ms, {:.3} ms of a processor", self.time_ms, self.cpu_ms));
        let memory = ByteSize(self.memory_peak_bytes as u64).display().iec();
        say("memory", format!("{memory} at most"));
        if let Some(fuel) = self.fuel {
            say("fuel", format!("{fuel} units"));
        }
        let (calls, bytes_in, bytes_out) = (self.host_calls, self.bytes_in, self.bytes_out);
        say("host", format!("{calls} calls, {bytes_in} bytes in, {bytes_out} bytes out"));
        say("digest", self.digest.clone());
        for Line { level, text } in &self.logs {
            say("log", format!("{level:<5} {text}"));
        }
        if self.log_lines_dropped > 0 {
            say("log", format!("{} lines over the budget dropped", self.log_lines_dropped));
        }
        lines.join("\n")
    }
}

/// A follow-up as the queue writes it down.
fn written(follow_up: &FollowUp) -> Option<serde_json::Value> {
    let json = FollowUp::to_json(std::slice::from_ref(follow_up));
    let all: Vec<serde_json::Value> = serde_json::from_str(&json).ok()?;
    all.into_iter().next()
}

/// A follow-up for people: where to, under which id and when; then its options and its payload.
fn pushed(follow_up: &FollowUp) -> String {
    let due = match follow_up.due {
        FollowUpDue::AfterMs(0) => "at once".to_owned(),
        FollowUpDue::AfterMs(ms) => format!("in {}", format_duration(Duration::from_millis(ms))),
        FollowUpDue::AtMs(ms) => match i64::try_from(ms).map(Timestamp::from_millisecond) {
            Ok(Ok(time)) => format!("at {time}"),
            _ => format!("at {ms} ms"),
        },
    };
    let mut lines = vec![format!("{} {} {due}", follow_up.topic, follow_up.id)];
    if !follow_up.options.is_empty() {
        lines.push(format!("options {}", follow_up.options.to_json()));
    }
    match std::str::from_utf8(&follow_up.payload) {
        Ok("") => {}
        Ok(text) => lines.push(format!("payload {text}")),
        Err(_) => lines.push(format!("payload of {} bytes", follow_up.payload.len())),
    }
    lines.join("\n")
}

/// With three digits: whole microseconds.
fn exact_millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
