//! Smoke cases: jobs in the manifest that a module must answer as expected before it serves.
//!
//! They run in the module's own sandbox, without side effects: no HTTP, an empty store for each case, and
//! follow-up jobs that are checked and discarded. A case ends at the topic's ttr, or after 10 s if that is
//! sooner. All cases of a module end within 60 s.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duebox_job::{FailureClass, JobId, Outcome, TopicError, TopicName};
use duebox_sandbox::{
    Handler, HostServices, Interrupt, Invocation, JobContext, KeyValue, Level, LogSink, MemoryKv,
    RunReport,
};
use jiff::Timestamp;
use tracing::debug;

use crate::manifest::{Expected, SmokeCase, Topic};

/// The longest run of one case.
const CASE_MAX: Duration = Duration::from_secs(10);
/// The longest run of all cases of a module.
const ALL_MAX: Duration = Duration::from_secs(60);
/// The delay before a case is tried again after a host fault.
const FAULT_DELAY: Duration = Duration::from_millis(100);
/// The last log lines of a case that an error shows.
const LOG_LINES_SHOWN: usize = 8;
/// How much an error shows of a payload, a reason or a log line, in bytes.
const TEXT_BYTES_SHOWN: usize = 200;

/// Why a module fails its smoke cases.
#[derive(Debug, thiserror::Error)]
pub enum SmokeError {
    /// A case has another result than expected.
    #[error(
        "smoke case {case} of {cases}, payload {payload:?}, should end with {expected} and ended with {came}{log}"
    )]
    Verdict {
        /// The number of the case, from 1.
        case: usize,
        /// The number of cases.
        cases: usize,
        /// The start of its payload.
        payload: String,
        /// The expected verdict.
        expected: &'static str,
        /// The actual result, with its reason.
        came: String,
        /// The end of its log as a clause; may be empty.
        log: String,
    },
    /// The cases together take too long.
    #[error("its smoke cases did not finish within {} s: case {case} of {cases} was next", ALL_MAX.as_secs())]
    Long {
        /// The first case that was not started, from 1.
        case: usize,
        /// The number of cases.
        cases: usize,
    },
    /// The pattern matches no valid topic name.
    #[error("its smoke cases cannot run: {0}")]
    Topic(#[from] TopicError),
    /// The runtime for the cases does not start.
    #[error("its smoke cases cannot run: {0}")]
    Runtime(std::io::Error),
}

/// Logs the lines of cases at debug level.
struct SmokeLog;

impl LogSink for SmokeLog {
    fn line(&self, job: &JobContext<'_>, level: Level, text: &str) {
        debug!(
            target: "handler",
            topic = %job.topic, smoke = %job.id, digest = %job.digest.short(),
            said_at = level.name(), "{text}"
        );
    }
}

/// Runs the smoke cases of a topic or pattern, one after the other. It blocks for up to 70 s, and must not
/// be called on a runtime's thread.
///
/// # Errors
/// [`SmokeError`] for the first case with an unexpected result.
pub fn pass(handler: &Handler, name: &impl Display, topic: &Topic) -> Result<(), SmokeError> {
    if topic.smoke.is_empty() {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(SmokeError::Runtime)?;
    let name = topic_of(&name.to_string())?;
    let (cases, until) = (topic.smoke.len(), Instant::now() + ALL_MAX);
    for (case, smoke) in (1..).zip(&topic.smoke) {
        if Instant::now() >= until {
            return Err(SmokeError::Long { case, cases });
        }
        let invocation = invocation(&name, case, smoke, topic);
        let report = runtime.block_on(run(handler, &invocation));
        if verdict_of(&report.outcome) != Some(smoke.expect) {
            return Err(refusal(case, cases, smoke, &report));
        }
    }
    Ok(())
}

/// The topic name for the cases: for a pattern, one that it matches.
fn topic_of(name: &str) -> Result<TopicName, TopicError> {
    match name.strip_suffix('*') {
        None => TopicName::new(name),
        // A prefix of the maximum length is itself a name.
        Some(prefix) => {
            TopicName::new(&format!("{prefix}smoke")).or_else(|_| TopicName::new(prefix))
        }
    }
}

fn invocation(topic: &TopicName, case: usize, smoke: &SmokeCase, settings: &Topic) -> Invocation {
    Invocation {
        id: JobId::from_redis(format!("smoke-{case}")),
        topic: topic.clone(),
        payload: smoke.payload.clone(),
        attempt: 1,
        max_attempts: settings.max_attempts,
        due_at_ms: u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0),
        headers: BTreeMap::new(),
        ttr: settings.ttr.min(CASE_MAX),
        span: None,
    }
}

/// Runs a case. After a host fault it is tried again for as long as the case itself may take.
async fn run(handler: &Handler, invocation: &Invocation) -> RunReport {
    let until = Instant::now() + invocation.ttr;
    loop {
        let kv = Some(Arc::new(MemoryKv::new()) as Arc<dyn KeyValue>);
        let host_services =
            Arc::new(HostServices { kv, ..HostServices::with_logs(Arc::new(SmokeLog)) });
        let report = handler.run(invocation.clone(), Interrupt::new(), host_services).await;
        if !matches!(report.outcome, Outcome::HostFault(_)) || Instant::now() >= until {
            return report;
        }
        tokio::time::sleep(FAULT_DELAY).await;
    }
}

/// The verdict of the handler, if there is one.
fn verdict_of(outcome: &Outcome) -> Option<Expected> {
    match outcome {
        Outcome::Acked => Some(Expected::Ack),
        Outcome::Snoozed { .. } => Some(Expected::Snooze),
        Outcome::Failed(failure) => match failure.class {
            FailureClass::Nack => Some(Expected::Nack),
            FailureClass::Drop => Some(Expected::Drop),
            _ => None,
        },
        Outcome::HostFault(_) => None,
    }
}

fn refusal(case: usize, cases: usize, smoke: &SmokeCase, report: &RunReport) -> SmokeError {
    let with = |what: &str, reason: &str| match reason {
        "" => what.to_owned(),
        reason => format!("{what}: {}", shorten(reason)),
    };
    let came = match &report.outcome {
        Outcome::Acked => "ack".to_owned(),
        Outcome::Snoozed { reason, .. } => with("snooze", reason),
        Outcome::Failed(failure) => with(failure.class.name(), &failure.reason),
        Outcome::HostFault(reason) => with("no verdict", reason),
    };
    let last = report.log_tail.len().saturating_sub(LOG_LINES_SHOWN);
    let lines: Vec<&str> = report.log_tail[last..].iter().map(|line| shorten(line)).collect();
    let log = match lines.as_slice() {
        [] => String::new(),
        lines => format!(" (its log ends: {})", lines.join(" | ")),
    };
    let payload = shorten(&String::from_utf8_lossy(&smoke.payload)).to_owned();
    SmokeError::Verdict { case, cases, payload, expected: smoke.expect.word(), came, log }
}

/// The start of a text, short enough for a log line.
fn shorten(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_SHOWN)]
}
