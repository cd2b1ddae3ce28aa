//! What handlers say, as lines of the daemon's own log: target `handler`, with the job they ran on.

use duebox_sandbox::{JobContext, Level, LogSink};
use tracing::{debug, error, info, trace, warn};

/// Sends every line to the daemon's log.
pub struct HandlerLog;

/// One line at the given level.
macro_rules! line {
    ($log:ident, $job:ident, $text:ident) => {
        $log!(
            target: "handler",
            topic = %$job.topic, job_id = %$job.id, attempt = $job.attempt,
            digest = %$job.digest.short(), "{}", $text
        )
    };
}

impl LogSink for HandlerLog {
    fn line(&self, job: &JobContext<'_>, level: Level, text: &str) {
        match level {
            Level::Error => line!(error, job, text),
            Level::Warn => line!(warn, job, text),
            Level::Info => line!(info, job, text),
            Level::Debug => line!(debug, job, text),
            Level::Trace => line!(trace, job, text),
        }
    }
}
