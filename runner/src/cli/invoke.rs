//! `duebox invoke`: one handler on one payload, with no Redis and no manifest.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytesize::ByteSize;
use duebox_job::{FailureClass, Outcome, format_duration};
use duebox_sandbox::{
    Digest, Grants, Handler, Interrupt, Invocation, JobContext, Level, Limits, LogSink, Report,
    Sandbox, SandboxConfig,
};
use jiff::Timestamp;
use serde::Serialize;

use super::failure::{FAILED, Failure, split_remedy};
use super::payload::Source;
use super::{InvokeArgs, output, target};
use crate::module_file;

/// Keeps what the handler says. The sandbox bounds it: no more than the log budget gets here.
#[derive(Default)]
struct Kept(Mutex<Vec<Line>>);

/// One line of a handler's log.
#[derive(Clone, Serialize)]
struct Line {
    level: &'static str,
    text: String,
}

impl LogSink for Kept {
    fn line(&self, _job: &JobContext<'_>, level: Level, text: &str) {
        let line = Line { level: level.name(), text: text.to_owned() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

/// What came of the run, as JSON has it.
#[derive(Serialize)]
struct Account {
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<FailureClass>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u128>,
    time_ms: f64,
    memory_peak_bytes: usize,
    digest: String,
    logs: Vec<Line>,
    log_lines_dropped: u32,
}

pub(super) fn invoke(args: InvokeArgs) -> Result<ExitCode, Failure> {
    let json = args.json;
    let handler = load(&args)?;
    let payload = Source::new(args.payload.clone()).read(handler.payload_max())?;
    let max_attempts = args.max_attempts.unwrap_or_else(|| args.attempt.max(8));
    if max_attempts < args.attempt {
        return Err(Failure::bad_input(
            format!("--max-attempts {max_attempts} is below --attempt {}", args.attempt),
            "give the job at least as many attempts as the one that runs",
        ));
    }
    let invocation = Invocation {
        id: args.id,
        topic: args.topic,
        payload,
        attempt: args.attempt,
        max_attempts,
        due_at_ms: u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0),
        headers: Default::default(),
        ttr: args.ttr,
    };
    let kept = Arc::new(Kept::default());
    let sink: Arc<dyn LogSink> = kept.clone();
    let report =
        target::block_on(async { Ok(handler.run(invocation, Interrupt::new(), sink).await) })?;
    let logs = kept.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let account = account(report, handler.digest(), logs);
    if json {
        output::print_json(&account)?;
    } else {
        output::print(&describe(&account))?;
    }
    Ok(ExitCode::from(if account.verdict == "ack" { 0 } else { FAILED }))
}

fn load(args: &InvokeArgs) -> Result<Handler, Failure> {
    let limits = Limits { memory: args.memory, ..Limits::default() };
    let grants = Grants {
        config: args.config.iter().cloned().collect(),
        env: args.env.iter().cloned().collect(),
        push: None,
    };
    let file = args.module.display();
    let bytes = module_file::read(&args.module, limits.module).map_err(|error| {
        let message = format!("the module {file} cannot be read: {error}");
        Failure::bad_input(message, "name a module: a .wasm or .wat file")
    })?;
    let config =
        SandboxConfig { max_jobs: 1, memory_max: limits.memory, tables_max: limits.tables };
    let sandbox = Sandbox::new(&config).map_err(|error| {
        let (message, hint) = split_remedy(&error.to_string());
        Failure::failed(message, hint.unwrap_or_else(|| "check the limits of this machine".into()))
    })?;
    sandbox.load(&bytes, limits, grants).map_err(|error| {
        let (message, hint) = split_remedy(&error.to_string());
        let hint = hint.unwrap_or_else(|| "sdk/ABI.md says what a handler must have".into());
        Failure::bad_input(format!("module {file}: {message}"), hint)
    })
}

fn account(report: Report, digest: Digest, logs: Vec<Line>) -> Account {
    let (verdict, class, reason, retry_after) = match report.outcome {
        Outcome::Acked => ("ack", None, None, None),
        Outcome::HostFault(why) => ("host_fault", None, Some(why), None),
        Outcome::Snoozed { delay, reason } => {
            ("snooze", None, Some(reason).filter(|reason| !reason.is_empty()), Some(delay))
        }
        Outcome::Failed(failure) => {
            let verdict = match failure.class {
                FailureClass::Nack => "nack",
                FailureClass::Drop => "drop",
                _ => "failed",
            };
            let reason = Some(failure.reason).filter(|reason| !reason.is_empty());
            (verdict, Some(failure.class), reason, failure.retry_after)
        }
    };
    Account {
        verdict,
        class,
        reason,
        retry_after_ms: retry_after.map(|wait| wait.as_millis()),
        time_ms: (report.wall.as_secs_f64() * 1e6).round() / 1e3,
        memory_peak_bytes: report.memory_peak,
        digest: digest.to_string(),
        logs,
        log_lines_dropped: report.log_lines_dropped,
    }
}

fn describe(account: &Account) -> String {
    let mut lines = vec![format!("verdict  {}", account.verdict)];
    if let Some(class) = account.class {
        lines.push(format!("class    {class}"));
    }
    if let Some(reason) = &account.reason {
        // A trap's message has many lines; they stay below each other.
        lines.push(format!("reason   {}", reason.replace('\n', "\n         ")));
    }
    if let Some(ms) = account.retry_after_ms {
        let wait = Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX));
        lines.push(format!("retry    in {}", format_duration(wait)));
    }
    let memory = ByteSize(account.memory_peak_bytes as u64).display().iec();
    lines.push(format!("time     {:.3} ms", account.time_ms));
    lines.push(format!("memory   {memory} at most"));
    lines.push(format!("digest   {}", account.digest));
    for Line { level, text } in &account.logs {
        lines.push(format!("log      {level:<5} {text}"));
    }
    if account.log_lines_dropped > 0 {
        lines.push(format!("log      {} lines over the budget dropped", account.log_lines_dropped));
    }
    lines.join("\n")
}
