//! The report on one run of a handler, as text and as JSON, with the same content.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use bytesize::ByteSize;
use duebox_job::{FailureClass, FollowUp, FollowUpDue, Outcome, format_duration};
use duebox_sandbox::{Digest, RunReport};
use jiff::Timestamp;
use serde::Serialize;

use super::LogLine;
use crate::cli::support::failure::FAILED;
use crate::millis::{exact_millis, millis};

/// The report on a run; the JSON output.
#[derive(Serialize)]
pub(super) struct InvokeReport {
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
    /// The result in base64, if it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    result_base64: Option<String>,
    /// In the queue's JSON format.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    follow_ups: Vec<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_ms: Option<f64>,
    memory_peak_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    fuel: Option<u64>,
    host_calls: u64,
    bytes_in: u64,
    bytes_out: u64,
    digest: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<String>,
    logs: Vec<LogLine>,
    log_lines_dropped: u32,
    /// The store after the run, if its contents were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kv: Option<BTreeMap<String, String>>,
    #[serde(skip)]
    pushed: Vec<FollowUp>,
}

impl InvokeReport {
    pub(super) fn new(report: RunReport, digest: Digest, logs: Vec<LogLine>) -> Self {
        let mut run = Self {
            verdict: "ack",
            class: None,
            reason: None,
            retry_after_ms: None,
            snooze_ms: None,
            result: None,
            result_base64: None,
            follow_ups: report.follow_ups.iter().map(FollowUp::to_json).collect(),
            time_ms: Some(exact_millis(report.wall)),
            cpu_ms: Some(exact_millis(report.cpu)),
            memory_peak_bytes: report.memory_peak,
            fuel: report.fuel_used,
            host_calls: report.host_calls,
            bytes_in: report.bytes_in,
            bytes_out: report.bytes_out,
            digest: digest.to_string(),
            trace: report.backtrace,
            logs,
            log_lines_dropped: report.log_lines_dropped,
            kv: None,
            pushed: report.follow_ups,
        };
        if let Some(result) = report.result {
            run.set_result(result);
        }
        run.set_outcome(report.outcome);
        run
    }

    pub(super) fn is_ack(&self) -> bool {
        self.verdict == "ack"
    }

    /// The exit code of the command for this verdict.
    pub(super) fn exit_code(&self) -> u8 {
        match self.verdict {
            "ack" => 0,
            "nack" => 3,
            "drop" => 4,
            "snooze" => 5,
            _ => FAILED,
        }
    }

    /// Drops what differs from run to run.
    pub(super) fn forget_times(&mut self) {
        (self.time_ms, self.cpu_ms) = (None, None);
    }

    /// How it ended: the verdict, or the class of the failure.
    pub(super) fn end(&self) -> &'static str {
        match self.class {
            Some(class) if self.verdict == "failed" => class.name(),
            _ => self.verdict,
        }
    }

    /// The time that the run took, in milliseconds; 0 in a deterministic run.
    pub(super) fn time_ms(&self) -> f64 {
        self.time_ms.unwrap_or_default()
    }

    /// The end and the costs in one line.
    pub(super) fn summary(&self) -> String {
        let mut parts = vec![self.end().to_owned()];
        parts.extend(self.time_ms.map(|ms| format!("{ms:.3} ms")));
        parts.extend(self.fuel.map(|fuel| format!("{fuel} fuel")));
        parts.push(ByteSize(self.memory_peak_bytes as u64).display().iec().to_string());
        parts.extend(self.reason.clone());
        parts.join(", ")
    }

    fn set_result(&mut self, result: Bytes) {
        match String::from_utf8(result.into()) {
            Ok(text) => self.result = Some(text),
            Err(error) => self.result_base64 = Some(STANDARD.encode(error.as_bytes())),
        }
    }

    fn set_outcome(&mut self, outcome: Outcome) {
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

    /// The report as text: one name and value per line.
    pub(super) fn describe(&self) -> String {
        let mut lines = vec![format!("verdict  {}", self.verdict)];
        let mut add = |name: &str, value: String| {
            // A trace has several lines; the later ones are indented.
            lines.push(format!("{name:<8} {}", value.replace('\n', "\n         ")));
        };
        if let Some(class) = self.class {
            add("class", class.to_string());
        }
        if let Some(reason) = &self.reason {
            add("reason", reason.clone());
        }
        for (name, ms) in [("retry", self.retry_after_ms), ("snooze", self.snooze_ms)] {
            if let Some(ms) = ms {
                add(name, format!("in {}", format_duration(Duration::from_millis(ms))));
            }
        }
        if let Some(result) = self.result.as_ref().or(self.result_base64.as_ref()) {
            add("result", result.clone());
        }
        self.pushed.iter().for_each(|follow_up| add("push", pushed(follow_up)));
        if let Some(trace) = &self.trace {
            add("trace", trace.clone());
        }
        if let (Some(time), Some(cpu)) = (self.time_ms, self.cpu_ms) {
            add("time", format!("{time:.3} ms, {cpu:.3} ms CPU"));
        }
        let memory = ByteSize(self.memory_peak_bytes as u64).display().iec();
        add("memory", format!("{memory} peak"));
        if let Some(fuel) = self.fuel {
            add("fuel", format!("{fuel} units"));
        }
        let (calls, bytes_in, bytes_out) = (self.host_calls, self.bytes_in, self.bytes_out);
        add("host", format!("{calls} calls, {bytes_in} bytes in, {bytes_out} bytes out"));
        add("digest", self.digest.clone());
        for LogLine { level, text } in &self.logs {
            add("log", format!("{level:<5} {text}"));
        }
        if self.log_lines_dropped > 0 {
            add("log", format!("{} lines over the budget were dropped", self.log_lines_dropped));
        }
        for (key, value) in self.kv.iter().flatten() {
            add("kv", format!("{key} = {value}"));
        }
        add("summary", self.summary());
        lines.join("\n")
    }
}

/// A follow-up as text: topic, id and due time, then options and payload.
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
