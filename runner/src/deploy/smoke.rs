//! Smoke cases: jobs of the manifest that a module must answer as expected before it serves.
//!
//! They run as jobs do, in the module's own sandbox, but in a world in which nothing has an effect: no
//! HTTP, a store of their own that is empty at each case, follow-up jobs that are checked and thrown away.
//! Each case ends at the topic's ttr, and after ten seconds at the latest; all of a module's in a minute.

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

/// How long one case may take, whatever the topic's ttr.
const CASE_MAX: Duration = Duration::from_secs(10);
/// How long all cases of a module may take together.
const ALL_MAX: Duration = Duration::from_secs(60);
/// How long it is waited before a case is tried again that a fault of the host kept from running.
const FAULT_DELAY: Duration = Duration::from_millis(100);
/// The last lines of a case's log that are told.
const LINES_TOLD: usize = 8;
/// How much of a payload, of a reason and of a line is told, in bytes.
const BYTES_TOLD: usize = 200;

/// Why a module does not serve.
#[derive(Debug, thiserror::Error)]
pub enum SmokeError {
    /// A case came to something else than it should.
    #[error(
        "smoke case {case} of {cases}, payload {payload:?}, should come to {expected} and came to {came}{log}"
    )]
    Verdict {
        /// Which case, from 1.
        case: usize,
        /// How many there are.
        cases: usize,
        /// Its payload, as far as it is told.
        payload: String,
        /// The verdict it must come to.
        expected: &'static str,
        /// What it came to, with the reason.
        came: String,
        /// The end of its log, as a clause of its own; empty if it said nothing.
        log: String,
    },
    /// The cases together take too long.
    #[error("its smoke cases are not done after {} s: case {case} of {cases} was the next", ALL_MAX.as_secs())]
    Long {
        /// The case that was not begun, from 1.
        case: usize,
        /// How many there are.
        cases: usize,
    },
    /// It serves no topic that a case could be told.
    #[error("its smoke cases cannot be run: {0}")]
    Topic(#[from] TopicError),
    /// The runtime they need does not start.
    #[error("its smoke cases cannot be run: {0}")]
    Runtime(std::io::Error),
}

/// Lines of a case, for who looks closer.
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

/// Runs the smoke cases of a topic, or of a pattern of topics, one after the other. Blocks, for a minute
/// and ten seconds at most; must not be called where a runtime runs tasks.
///
/// # Errors
/// [`SmokeError`] of the first case that does not come to what it should.
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
        if said(&report.outcome) != Some(smoke.expect) {
            return Err(refusal(case, cases, smoke, &report));
        }
    }
    Ok(())
}

/// The topic that a case is told: of a pattern, one that it stands for.
fn topic_of(name: &str) -> Result<TopicName, TopicError> {
    match name.strip_suffix('*') {
        None => TopicName::new(name),
        // A prefix as long as a name can be is a name of its own.
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

/// Runs a case; again where the host had no room for it, as long as the case itself could take.
async fn run(handler: &Handler, invocation: &Invocation) -> RunReport {
    let until = Instant::now() + invocation.ttr;
    loop {
        let kv = Some(Arc::new(MemoryKv::new()) as Arc<dyn KeyValue>);
        let world = Arc::new(HostServices { kv, ..HostServices::with_logs(Arc::new(SmokeLog)) });
        let report = handler.run(invocation.clone(), Interrupt::new(), world).await;
        if !matches!(report.outcome, Outcome::HostFault(_)) || Instant::now() >= until {
            return report;
        }
        tokio::time::sleep(FAULT_DELAY).await;
    }
}

/// The verdict, if the handler came to one.
fn said(outcome: &Outcome) -> Option<Expected> {
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
        reason => format!("{what}: {}", told(reason)),
    };
    let came = match &report.outcome {
        Outcome::Acked => "ack".to_owned(),
        Outcome::Snoozed { reason, .. } => with("snooze", reason),
        Outcome::Failed(failure) => with(failure.class.name(), &failure.reason),
        Outcome::HostFault(reason) => with("no verdict", reason),
    };
    let last = report.log_tail.len().saturating_sub(LINES_TOLD);
    let lines: Vec<&str> = report.log_tail[last..].iter().map(|line| told(line)).collect();
    let log = match lines.as_slice() {
        [] => String::new(),
        lines => format!(" (its log ends: {})", lines.join(" | ")),
    };
    let payload = told(&String::from_utf8_lossy(&smoke.payload)).to_owned();
    SmokeError::Verdict { case, cases, payload, expected: smoke.expect.word(), came, log }
}

/// As much of a text as a line of the log can show.
fn told(text: &str) -> &str {
    &text[..text.floor_char_boundary(BYTES_TOLD)]
}
