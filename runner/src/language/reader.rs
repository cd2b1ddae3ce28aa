//! Parses a file: `sdk/javascript/reader` in the sandbox, whose output `src/report.rs` there describes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{JobId, Outcome, TopicName};
use duebox_sandbox::{
    Grants, Handler, HostServices, Interrupt, Invocation, JobContext, Level, Limits, LogSink,
    Sandbox,
};
use parking_lot::Mutex;
use tokio::runtime::Runtime;
use tracing::debug;

use super::blank::Blank;
use super::error::SourceError;

/// The memory of the parser, in bytes. It needs some 30 times the size of a file.
const MEMORY_MAX: usize = 512 << 20;
/// The time in which one file is parsed.
const TIME_MAX: Duration = Duration::from_secs(10);

/// The parser, which is compiled once for all files.
static PARSER: Mutex<Option<Handler>> = Mutex::new(None);

pub(super) struct Reader {
    parser: Handler,
    runtime: Runtime,
}

/// What a file contains.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SourceReport {
    /// The place and the message of a syntax error.
    pub(super) error: Option<(usize, String)>,
    /// Whether it has neither import nor export.
    pub(super) is_script: bool,
    /// Its imports, with their places.
    pub(super) imports: Vec<(usize, String)>,
    pub(super) blanks: Vec<Blank>,
}

impl Reader {
    /// Starts the parser. The first time it is compiled, unless the cache has it.
    pub(super) fn start(sandbox: &Sandbox, module: &[u8]) -> Result<Self, SourceError> {
        let failed = |error: &dyn std::fmt::Display| SourceError::Start(error.to_string());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|error| failed(&error))?;
        let mut known = PARSER.lock();
        let parser = match &*known {
            Some(parser) => parser.clone(),
            None => {
                let limits = Limits { memory: MEMORY_MAX, ..Limits::default() };
                let loaded = sandbox.load(module, limits, Grants::default());
                known.insert(loaded.map_err(|error| failed(&error))?).clone()
            }
        };
        Ok(Self { parser, runtime })
    }

    /// Parses a file, or says why that is not possible.
    pub(super) fn read(&self, source: &str, is_typescript: bool) -> Result<SourceReport, String> {
        let language = if is_typescript { "t" } else { "j" };
        let payload = Bytes::from([language, source].concat());
        let services = Arc::new(HostServices::with_logs(Arc::new(ParserLog)));
        let topic = TopicName::new("parser").map_err(|error| error.to_string())?;
        let run = self.parser.run(invocation(topic, payload), Interrupt::new(), services);
        let report = self.runtime.block_on(run);
        match (report.outcome, report.result) {
            (Outcome::Acked, Some(lines)) => {
                Ok(SourceReport::parse(&String::from_utf8_lossy(&lines)))
            }
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

impl SourceReport {
    fn parse(lines: &str) -> Self {
        let (mut report, mut at) = (Self::default(), 0);
        for line in lines.lines() {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let number = |text: &str| text.parse().unwrap_or(0);
            let (first, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            match word {
                "error" => report.error = Some((number(first), rest.to_owned())),
                "script" => report.is_script = true,
                "import" => report.imports.push((number(first), rest.to_owned())),
                "-" => {
                    let (length, first_char) = rest.split_once(' ').unwrap_or((rest, " "));
                    let start = usize::saturating_add(at, number(first));
                    at = start.saturating_add(number(length));
                    let first = first_char.chars().next().unwrap_or(' ');
                    report.blanks.push(Blank { start, end: at, first });
                }
                _ => {}
            }
        }
        report
    }
}

/// The parser writes nothing but what ended it.
struct ParserLog;

impl LogSink for ParserLog {
    fn line(&self, _job: &JobContext<'_>, level: Level, text: &str) {
        debug!(said_at = level.name(), "the parser of JavaScript: {text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_line_by_line() {
        let report = SourceReport::parse("script\nimport 7 ./a b\n- 1 3 ;\n- 1 1\n");
        let blanks =
            vec![Blank { start: 1, end: 4, first: ';' }, Blank { start: 5, end: 6, first: ' ' }];
        let imports = vec![(7, "./a b".to_owned())];
        assert_eq!(report, SourceReport { error: None, is_script: true, imports, blanks });
        let report = SourceReport::parse("error 3 Unexpected token\n");
        assert_eq!(report.error, Some((3, "Unexpected token".to_owned())));
    }
}
