//! What one job of a handler costs on this machine: some calls in a row, of which the middle one is shown.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use duebox_job::{JobId, Outcome, TopicName};
use duebox_sandbox::{
    AttemptSpan, Handler, HostServices, Interrupt, Invocation, JobContext, Level, LogSink,
    MemoryKv, RunReport,
};
use jiff::Timestamp;

use crate::cli::support::failure::Failure;
use crate::cli::support::target;

/// How many calls are made, in which time no further one is begun, and the longest call.
const CALLS_MAX: usize = 51;
const CALLS_FOR: Duration = Duration::from_millis(500);
const TTR: Duration = Duration::from_secs(5);

/// The costs of one job.
pub(super) struct Cost {
    /// Until an instance exists and is initialised; `None` if the handler ended before.
    pub(super) instantiate: Option<Duration>,
    /// The call of `handle`.
    pub(super) call: Duration,
    pub(super) memory_peak: usize,
    /// How the call ended.
    pub(super) verdict: String,
    pub(super) calls: usize,
}

/// Drops the log.
struct NoLog;

impl LogSink for NoLog {
    fn line(&self, _job: &JobContext<'_>, _level: Level, _text: &str) {}
}

/// Calls the handler without effects: no network, a new store for each call, and follow-ups that are dropped.
pub(super) fn measure(
    handler: &Handler,
    topic: &TopicName,
    payload: &Bytes,
) -> Result<Cost, Failure> {
    let began = Instant::now();
    let mut reports = Vec::new();
    while reports.is_empty() || (reports.len() < CALLS_MAX && began.elapsed() < CALLS_FOR) {
        let invocation = invocation(topic, payload)?;
        let services = HostServices {
            kv: Some(Arc::new(MemoryKv::new())),
            ..HostServices::with_logs(Arc::new(NoLog))
        };
        let run = handler.run(invocation, Interrupt::new(), Arc::new(services));
        reports.push(target::block_on(async { Ok(run.await) })?);
    }
    let instantiated =
        |report: &RunReport| report.attempt_trace.as_ref().and_then(|trace| trace.instantiated);
    let instantiate: Vec<Duration> = reports.iter().filter_map(instantiated).collect();
    let call = reports
        .iter()
        .map(|report| report.wall.saturating_sub(instantiated(report).unwrap_or_default()));
    Ok(Cost {
        instantiate: middle(instantiate),
        call: middle(call.collect()).unwrap_or_default(),
        memory_peak: reports.iter().map(|report| report.memory_peak).max().unwrap_or(0),
        verdict: reports.last().map_or_else(String::new, |report| verdict(&report.outcome)),
        calls: reports.len(),
    })
}

fn middle(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort();
    times.get(times.len() / 2).copied()
}

fn invocation(topic: &TopicName, payload: &Bytes) -> Result<Invocation, Failure> {
    let id = JobId::new("inspect");
    let id = id.map_err(|error| Failure::failed(error.to_string(), "report this"))?;
    // With a span the sandbox records when the instance exists.
    let span = AttemptSpan { trace_id: 1, id: 1, parent_id: None, state: String::new() };
    Ok(Invocation {
        id,
        topic: topic.clone(),
        payload: payload.clone(),
        attempt: 1,
        max_attempts: 8,
        due_at_ms: u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0),
        headers: BTreeMap::new(),
        ttr: TTR,
        span: Some(Box::new(span)),
    })
}

fn verdict(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Acked => "ack".to_owned(),
        Outcome::Snoozed { .. } => "snooze".to_owned(),
        Outcome::Failed(failure) if failure.reason.is_empty() => failure.class.name().to_owned(),
        Outcome::Failed(failure) => format!("{}: {}", failure.class.name(), failure.reason),
        Outcome::HostFault(why) => format!("host fault: {why}"),
    }
}
