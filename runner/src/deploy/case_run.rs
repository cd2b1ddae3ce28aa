//! Runs a test case in the sandbox, without side effects, and compares what came of it with what the case
//! expects.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{FollowUp, FollowUpDue, JobId, Outcome, TopicName, format_duration};
use duebox_sandbox::{
    Handler, HostServices, Interrupt, Invocation, JobContext, KeyValue, KvCondition, Level,
    LogSink, MemoryKv, RunReport,
};
use jiff::Timestamp;
use parking_lot::Mutex;
use tracing::debug;

use super::trial::{TrialHost, same_content};
use crate::manifest::{Case, ExpectedFollowUp, ExpectedVerdict};

/// A job of a case.
pub struct CaseJob<'a> {
    /// The job's id.
    pub id: String,
    /// The topic that the handler sees.
    pub topic: &'a TopicName,
    /// The attempts that the job has.
    pub max_attempts: u32,
    /// The time that it may take.
    pub ttr: Duration,
}

/// What came of a case.
pub struct CaseRun {
    /// The report of the run.
    pub report: RunReport,
    /// The log, each line with its level: `info: text`.
    pub log: Vec<String>,
    /// The store after the run.
    pub kv: BTreeMap<String, Bytes>,
    trial: Arc<TrialHost>,
}

/// A part of a run that is not what the case expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The key of the case: `expect`, `reason`, `log` …
    pub what: &'static str,
    /// What the case expects.
    pub expected: String,
    /// What came.
    pub found: String,
}

/// Collects the log of a case, and passes it on at debug level.
#[derive(Default)]
struct CaseLog(Mutex<Vec<String>>);

impl LogSink for CaseLog {
    fn line(&self, job: &JobContext<'_>, level: Level, text: &str) {
        debug!(
            target: "handler",
            topic = %job.topic, smoke = %job.id, digest = %job.digest.short(),
            said_at = level.name(), "{text}"
        );
        self.0.lock().push(format!("{}: {text}", level.name()));
    }
}

/// Runs a case once. It needs a Tokio runtime with time enabled.
pub async fn run(handler: &Handler, case: &Case, job: &CaseJob<'_>) -> CaseRun {
    let mut trial = TrialHost::default().with_fixed_random();
    if let Some(now_ms) = case.now_ms {
        trial = trial.with_clock(now_ms, job.ttr);
    }
    if !case.http.is_empty() {
        trial = trial.with_exchanges(case.http.iter().cloned());
    }
    let (trial, logs, kv) = (Arc::new(trial), Arc::new(CaseLog::default()), MemoryKv::new());
    for (key, value) in &case.kv {
        // A value that does not fit is missing in the run.
        let set = kv.set(job.topic, key.as_bytes(), value.clone(), None, KvCondition::Always);
        drop(set.await);
    }
    let kv = Arc::new(kv);
    let services = Arc::new(HostServices {
        kv: Some(Arc::clone(&kv) as Arc<dyn KeyValue>),
        interceptor: Some(Arc::clone(&trial) as _),
        ..HostServices::with_logs(Arc::clone(&logs) as _)
    });
    let configured = (!case.config.is_empty()).then(|| {
        let mut config = handler.config().clone();
        config.extend(case.config.clone());
        handler.with_config(config)
    });
    let handler = configured.as_ref().unwrap_or(handler);
    let report = handler.run(invocation(case, job), Interrupt::new(), services).await;
    let log = std::mem::take(&mut *logs.0.lock());
    let text = |key: Vec<u8>| String::from_utf8_lossy(&key).into_owned();
    let kv = kv.contents(job.topic).into_iter().map(|(key, value)| (text(key), value)).collect();
    CaseRun { report, log, kv, trial }
}

fn invocation(case: &Case, job: &CaseJob<'_>) -> Invocation {
    let attempt = case.attempt.unwrap_or(1);
    let now_ms = || u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0);
    Invocation {
        id: JobId::from_redis(job.id.clone()),
        topic: job.topic.clone(),
        payload: case.payload.clone(),
        attempt,
        max_attempts: job.max_attempts.max(attempt),
        due_at_ms: case.now_ms.unwrap_or_else(now_ms),
        headers: case.headers.clone(),
        ttr: job.ttr,
        span: None,
    }
}

impl CaseRun {
    /// How the run ended. `None` after a fault of the host.
    pub fn verdict(&self) -> Option<ExpectedVerdict> {
        match &self.report.outcome {
            Outcome::Acked => Some(ExpectedVerdict::Ack),
            Outcome::Snoozed { .. } => Some(ExpectedVerdict::Snooze),
            Outcome::Failed(failure) => Some(ExpectedVerdict::Failed(failure.class)),
            Outcome::HostFault(_) => None,
        }
    }

    /// The reason; empty with an ack.
    pub fn reason(&self) -> &str {
        match &self.report.outcome {
            Outcome::Acked => "",
            Outcome::Snoozed { reason, .. } | Outcome::HostFault(reason) => reason,
            Outcome::Failed(failure) => &failure.reason,
        }
    }

    /// The wait until the next attempt that the handler asked for.
    pub fn delay(&self) -> Option<Duration> {
        match &self.report.outcome {
            Outcome::Snoozed { delay, .. } => Some(*delay),
            Outcome::Failed(failure) => failure.retry_after,
            Outcome::Acked | Outcome::HostFault(_) => None,
        }
    }

    /// The follow-ups with the fields that a case can name.
    pub fn follow_ups(&self) -> Vec<ExpectedFollowUp> {
        let due = |follow_up: &FollowUp| match follow_up.due {
            FollowUpDue::AfterMs(ms) => Some(Duration::from_millis(ms)),
            FollowUpDue::AtMs(_) => None,
        };
        let follow_up = |follow_up: &FollowUp| ExpectedFollowUp {
            topic: follow_up.topic.to_string(),
            id: Some(follow_up.id.to_string()),
            payload: Some(follow_up.payload.clone()),
            delay: due(follow_up),
        };
        self.report.follow_ups.iter().map(follow_up).collect()
    }

    /// What differs from the case's expectations; empty if it passes.
    pub fn differences(&self, case: &Case) -> Vec<Difference> {
        let expected = &case.expected;
        let mut found = Differences::default();
        if self.verdict() != Some(expected.verdict) {
            let verdict = self.verdict().map_or("no verdict", ExpectedVerdict::word);
            let found_text = match self.reason() {
                "" => verdict.to_owned(),
                reason => format!("{verdict}: {reason}"),
            };
            found.add("expect", expected.verdict.word().to_owned(), found_text);
        }
        let reason = self.reason();
        if let Some(wanted) = expected.reason.as_ref().filter(|wanted| *wanted != reason) {
            found.add("reason", wanted.clone(), reason.to_owned());
        }
        if expected.delay.is_some() && self.delay() != expected.delay {
            found.add("delay", delay_text(expected.delay), delay_text(self.delay()));
        }
        let result = self.report.result.clone().unwrap_or_default();
        if let Some(wanted) = expected.result.as_ref().filter(|it| !same_content(it, &result)) {
            found.add("result", text(wanted), text(&result));
        }
        self.compare_follow_ups(case, &mut found);
        if let Some(lines) = expected.log.as_ref().filter(|lines| !self.has_lines(lines)) {
            found.add("log", lines.join("\n"), self.log.join("\n"));
        }
        if let Some(wanted) = expected.kv_after.as_ref().filter(|it| !self.has_values(it)) {
            found.add("kv_after", values_text(wanted), values_text(&self.kv));
        }
        self.compare_requests(&mut found);
        found.0
    }

    fn compare_follow_ups(&self, case: &Case, found: &mut Differences) {
        let Some(wanted) = &case.expected.follow_ups else { return };
        let pushed = self.follow_ups();
        let fits = |(wanted, pushed): (&ExpectedFollowUp, &ExpectedFollowUp)| {
            let payload = pushed.payload.as_deref().unwrap_or_default();
            wanted.topic == pushed.topic
                && (wanted.id.is_none() || wanted.id == pushed.id)
                && wanted.payload.as_ref().is_none_or(|wanted| same_content(wanted, payload))
                && (wanted.delay.is_none() || wanted.delay == pushed.delay)
        };
        if wanted.len() != pushed.len() || !wanted.iter().zip(&pushed).all(fits) {
            let lines = |all: &[ExpectedFollowUp]| {
                all.iter().map(follow_up_text).collect::<Vec<_>>().join("\n")
            };
            found.add("follow_ups", lines(wanted), lines(&pushed));
        }
    }

    fn compare_requests(&self, found: &mut Differences) {
        for request in self.trial.unplanned() {
            found.add("http", "a recorded response".to_owned(), request);
        }
        for request in self.trial.unused() {
            found.add("http", request, "the request was not sent".to_owned());
        }
    }

    /// Whether the log has these lines, in their order. A line without a level fits any level.
    fn has_lines(&self, lines: &[String]) -> bool {
        let mut log = self.log.iter();
        let text = |line: &String| line.split_once(": ").map(|(_, text)| text.to_owned());
        lines.iter().all(|wanted| {
            log.any(|line| line == wanted || text(line).as_deref() == Some(wanted.as_str()))
        })
    }

    fn has_values(&self, wanted: &BTreeMap<String, Bytes>) -> bool {
        let same = |((key, value), (other, found)): ((&String, &Bytes), (&String, &Bytes))| {
            key == other && same_content(value, found)
        };
        wanted.len() == self.kv.len() && wanted.iter().zip(&self.kv).all(same)
    }
}

#[derive(Default)]
struct Differences(Vec<Difference>);

impl Differences {
    fn add(&mut self, what: &'static str, expected: String, found: String) {
        self.0.push(Difference { what, expected, found });
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn delay_text(delay: Option<Duration>) -> String {
    delay.map_or_else(|| "none".to_owned(), format_duration)
}

fn values_text(values: &BTreeMap<String, Bytes>) -> String {
    let line = |(key, value): (&String, &Bytes)| format!("{key} = {}", text(value));
    values.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn follow_up_text(follow_up: &ExpectedFollowUp) -> String {
    let mut line = follow_up.topic.clone();
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            line.push_str(&format!(" {name}={value}"));
        }
    };
    add("id", follow_up.id.clone());
    add("delay", follow_up.delay.map(format_duration));
    add("payload", follow_up.payload.as_deref().map(text));
    line
}
