//! Smoke cases: jobs in the manifest that a module must answer as expected before it serves.
//!
//! They run in the module's own sandbox, without side effects: only recorded HTTP, a store of their own for
//! each case, and follow-up jobs that are checked and discarded. A case ends at the topic's ttr, or after 10 s if that is
//! sooner. All cases of a module end within 60 s.

use std::fmt::Display;
use std::time::{Duration, Instant};

use duebox_job::{TopicError, TopicName};
use duebox_sandbox::Handler;

use super::case_run::{self, CaseJob, CaseRun, Difference};
use crate::manifest::{Case, ExpectedVerdict, Topic};

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
    /// A case ends with the expected verdict, but with another content.
    #[error(
        "smoke case {case} of {cases}, payload {payload:?}, should have {} {:?} and has {:?}{log}",
        .difference.what, .difference.expected, .difference.found
    )]
    Content {
        /// The number of the case, from 1.
        case: usize,
        /// The number of cases.
        cases: usize,
        /// The start of its payload.
        payload: String,
        /// The first difference, shortened.
        difference: Box<Difference>,
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
        let job = CaseJob {
            id: format!("smoke-{case}"),
            topic: &name,
            max_attempts: topic.retries.max_attempts,
            ttr: topic.ttr.min(CASE_MAX),
        };
        let run = runtime.block_on(run(handler, smoke, &job));
        if let Some(difference) = run.differences(smoke).into_iter().next() {
            return Err(refusal(case, cases, smoke, &run, difference));
        }
    }
    Ok(())
}

/// The topic name for the cases: for a pattern, one that it matches.
///
/// # Errors
/// [`TopicError`] if the pattern matches no valid name.
pub fn topic_of(name: &str) -> Result<TopicName, TopicError> {
    match name.strip_suffix('*') {
        None => TopicName::new(name),
        // A prefix of the maximum length is itself a name.
        Some(prefix) => {
            TopicName::new(&format!("{prefix}smoke")).or_else(|_| TopicName::new(prefix))
        }
    }
}

/// Runs a case. After a host fault it is tried again for as long as the case itself may take.
async fn run(handler: &Handler, smoke: &Case, job: &CaseJob<'_>) -> CaseRun {
    let until = Instant::now() + job.ttr;
    loop {
        let run = case_run::run(handler, smoke, job).await;
        if run.verdict().is_some() || Instant::now() >= until {
            return run;
        }
        tokio::time::sleep(FAULT_DELAY).await;
    }
}

fn refusal(
    case: usize,
    cases: usize,
    smoke: &Case,
    run: &CaseRun,
    difference: Difference,
) -> SmokeError {
    let last = run.report.log_tail.len().saturating_sub(LOG_LINES_SHOWN);
    let lines: Vec<&str> = run.report.log_tail[last..].iter().map(|line| shorten(line)).collect();
    let log = match lines.as_slice() {
        [] => String::new(),
        lines => format!(" (its log ends: {})", lines.join(" | ")),
    };
    let payload = shorten(&String::from_utf8_lossy(&smoke.payload)).to_owned();
    let Difference { what, expected, found } = difference;
    if what != "expect" {
        let (expected, found) = (shorten(&expected).to_owned(), shorten(&found).to_owned());
        let difference = Box::new(Difference { what, expected, found });
        return SmokeError::Content { case, cases, payload, difference, log };
    }
    let with = |what: &str, reason: &str| match reason {
        "" => what.to_owned(),
        reason => format!("{what}: {}", shorten(reason)),
    };
    let came = with(run.verdict().map_or("no verdict", ExpectedVerdict::word), run.reason());
    SmokeError::Verdict { case, cases, payload, expected: smoke.expected.verdict.word(), came, log }
}

/// The start of a text, short enough for a log line.
fn shorten(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_SHOWN)]
}
