//! Runs a parser of sources in the sandbox: a source is the payload of a job, and what was found in it is the result.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{JobId, Outcome, TopicName};
use duebox_sandbox::{Handler, HostServices, Interrupt, Invocation, JobContext, Level, LogSink};
use tokio::runtime::Runtime;
use tracing::debug;

use super::error::SourceError;

/// The memory of a parser, in bytes. It needs some 30 times the size of a file.
pub(super) const MEMORY_MAX: usize = 512 << 20;
/// The wall-clock limit for parsing one file. Parsing takes milliseconds on an idle machine; a busy one gets more time.
const TIME_MAX: Duration = Duration::from_secs(60);

pub(super) struct Parser {
    handler: Handler,
    runtime: Runtime,
}

impl Parser {
    pub(super) fn new(handler: Handler) -> Result<Self, SourceError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| SourceError::Start(error.to_string()))?;
        Ok(Self { handler, runtime })
    }

    /// The lines that the parser writes about a source, or why it wrote no lines.
    pub(super) fn run(&self, source: String) -> Result<String, String> {
        let services = Arc::new(HostServices::with_logs(Arc::new(ParserLog)));
        let topic = TopicName::new("parser").map_err(|error| error.to_string())?;
        let invocation = invocation(topic, Bytes::from(source));
        let run = self.handler.run(invocation, Interrupt::new(), services);
        let report = self.runtime.block_on(run);
        match (report.outcome, report.result) {
            (Outcome::Acked, Some(lines)) => Ok(String::from_utf8_lossy(&lines).into_owned()),
            (Outcome::Acked, None) => Err("the parser returned nothing".to_owned()),
            (Outcome::Failed(failure), _) => Err(format!("{} ({})", failure.reason, failure.class)),
            (Outcome::HostFault(reason), _) => Err(reason),
            (Outcome::Snoozed { .. }, _) => Err("the parser has no verdict".to_owned()),
        }
    }
}

fn invocation(topic: TopicName, payload: Bytes) -> Invocation {
    Invocation {
        id: JobId::from_redis("parse"),
        topic,
        payload,
        attempt: 1,
        max_attempts: 1,
        due_at_ms: 0,
        headers: BTreeMap::new(),
        ttr: TIME_MAX,
        span: None,
    }
}

/// A parser writes nothing but what ended it.
struct ParserLog;

impl LogSink for ParserLog {
    fn line(&self, _job: &JobContext<'_>, level: Level, text: &str) {
        debug!(said_at = level.name(), "the parser: {text}");
    }
}
