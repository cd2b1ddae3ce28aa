//! `duebox invoke`: runs one handler on one payload, or on many, without Redis, alone or as the manifest
//! binds a topic. Follow-ups are shown and not pushed; the key-value store is discarded after the run.

mod exchange_files;
mod grants;
mod lines;
mod run_report;
mod setup;
mod trial;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use duebox_job::{ATTEMPTS_MAX, JobId, Options, TopicName};
use duebox_sandbox::{
    Handler, HostServices, HttpClient, Interrupt, Invocation, JobContext, Level, LogSink,
};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::runtime::Handle;

use self::grants::GrantArgs;
use self::run_report::InvokeReport;
use self::setup::InvokeSetup;
use self::trial::{Trial, TrialArgs};
use super::support::failure::Failure;
use super::support::payload::Source;
use super::support::{output, target};
use super::{Common, value};

/// The log of the handler. The sandbox bounds it by the log budget.
#[derive(Default)]
struct LogLines(Mutex<Vec<LogLine>>);

/// One line of a handler's log.
#[derive(Clone, Serialize)]
struct LogLine {
    level: &'static str,
    text: String,
}

impl LogSink for LogLines {
    fn line(&self, _job: &JobContext<'_>, level: Level, text: &str) {
        let line = LogLine { level: level.name(), text: text.to_owned() };
        self.0.lock().push(line);
    }
}

/// Run one handler on one payload, or on many, without Redis
///
/// The module runs in the same sandbox as under the daemon: with the default limits of a topic and
/// only the grants of the flags or, with --topic and a manifest, exactly as that topic is bound.
/// Prints the verdict, the log, the result, the follow-ups and the costs. Nothing is pushed.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox invoke handlers/order_close.wasm --payload '{\"order\":42}'
  duebox invoke close.wat --payload @order.json --attempt 3 --config region=eu --json
  duebox invoke welcome.wasm --payload '{\"user\":7}' --allow-push 'sms.*' --header lang=de
  duebox invoke pay.wasm --allow-http http://127.0.0.1:8080 --allow-private 127.0.0.1 --secret key=env:PAY_KEY
  duebox invoke --topic order.close --payload @order.json
  duebox invoke new.wasm --manifest duebox.toml --topic order.close --payload @order.json
  duebox invoke close.wasm --lines --payload @orders.ndjson --json
  duebox invoke pay.wasm --allow-http https://api.example --record responses/
  duebox invoke pay.wasm --allow-http https://api.example --http responses/ --deterministic

Exit codes:
  0  the handler acked; with --lines, every job
  1  it failed without a verdict: a trap, a timeout …; with --lines, any job was not acked
  2  bad input: the module was not run
  3  nack
  4  drop
  5  snooze")]
pub(super) struct InvokeArgs {
    /// The handler, .wasm, .wat, .js or .ts; default: the handler of --topic in the manifest
    #[arg(required_unless_present = "topic")]
    module: Option<PathBuf>,
    /// The payload: a text, @FILE for a file's content, - for stdin; empty by default
    #[arg(long, value_name = "PAYLOAD|@FILE|-", allow_hyphen_values = true)]
    payload: Option<String>,
    /// Run one job for each line of --payload, stdin by default, and print one line for each
    ///
    /// The jobs run in order and share a key-value store. Ids are those of --id with the line's
    /// number.
    #[arg(long)]
    lines: bool,
    #[command(flatten)]
    trial: TrialArgs,
    /// The attempt number that the handler sees, from 1
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(ATTEMPTS_MAX)))]
    attempt: u32,
    /// The maximum number of attempts that the handler sees, at least --attempt; default: the
    /// topic's, or 8
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(ATTEMPTS_MAX)))]
    max_attempts: Option<u32>,
    #[command(flatten)]
    grants: GrantArgs,
    /// A header of the job; may be repeated
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = value::pair)]
    headers: Vec<(String, String)>,
    /// The job id that the handler sees
    #[arg(long, value_name = "ID", default_value = "invoke", value_parser = value::id)]
    id: JobId,
    /// The topic that the handler sees; with a manifest, the topic whose grants and limits apply
    ///
    /// Grants, settings, secrets and limits are those of the topic if --manifest (or
    /// DUEBOX_MANIFEST) is given or MODULE is omitted; flags add to them. Otherwise no manifest is
    /// read.
    #[arg(long, value_name = "TOPIC", value_parser = value::topic)]
    topic: Option<TopicName>,
    /// Wall clock limit of the attempt, 1ms to 24h; default: the topic's, or 30s
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = value::ttr)]
    ttr: Option<Duration>,
    /// Linear memory limit, 64KiB to 4GiB; default: the topic's, or 64MiB
    #[arg(long, value_name = "SIZE", value_parser = value::memory)]
    memory: Option<usize>,
    /// Fuel limit, about one unit per instruction, 0 for no limit; default: the topic's, or 0
    ///
    /// The consumption is the same in every run and on every machine.
    #[arg(long, value_name = "N")]
    fuel: Option<u64>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// A handler with everything that its jobs have in common.
struct Invoker {
    handler: Handler,
    trial: Trial,
    job: Invocation,
    is_deterministic: bool,
}

pub(super) fn invoke(common: &Common, mut args: InvokeArgs) -> Result<ExitCode, Failure> {
    if args.trial.grants_kv() {
        args.grants = args.grants.with_kv();
    }
    let setup = InvokeSetup::of(common, &args)?;
    let (trial, values) = (args.trial.trial(setup.redaction())?, args.trial.values()?);
    let handler = setup.load()?;
    let (json, source) = (args.json, Source::new(args.payload.take()));
    let (has_lines, is_deterministic) = (args.lines, args.trial.deterministic);
    let job = job(args, setup, trial.now_ms())?;
    let invoker = Invoker { handler, trial, job, is_deterministic };
    target::block_on(async {
        invoker.trial.fill(&invoker.job.topic, values).await?;
        match has_lines {
            true => lines::run(&invoker, source.of_lines(), json).await,
            false => invoker.run_one(&source, json).await,
        }
    })
}

/// The job without its payload.
fn job(args: InvokeArgs, setup: InvokeSetup, now_ms: u64) -> Result<Invocation, Failure> {
    let max_attempts = args.max_attempts.unwrap_or_else(|| args.attempt.max(setup.max_attempts));
    if max_attempts < args.attempt {
        return Err(Failure::bad_input(
            format!("--max-attempts {max_attempts} is below --attempt {}", args.attempt),
            "raise --max-attempts to --attempt or more",
        ));
    }
    Ok(Invocation {
        id: args.id,
        topic: setup.topic,
        payload: Bytes::new(),
        attempt: args.attempt,
        max_attempts,
        due_at_ms: now_ms,
        headers: headers(args.headers)?,
        ttr: setup.ttr,
        span: None,
    })
}

impl Invoker {
    async fn run_one(&self, source: &Source, json: bool) -> Result<ExitCode, Failure> {
        let payload = source.read(self.handler.payload_max())?;
        let mut report = self.run(self.job.id.clone(), payload).await?;
        report.kv = self.trial.shown_kv(&self.job.topic);
        if json {
            output::print_json(&report)?;
        } else {
            output::print(&report.describe())?;
        }
        Ok(ExitCode::from(report.exit_code()))
    }

    /// Runs the handler on one payload.
    ///
    /// # Errors
    /// A [`Failure`] if the HTTP requests cannot be recorded.
    async fn run(&self, id: JobId, payload: Bytes) -> Result<InvokeReport, Failure> {
        let invocation = Invocation { id, payload, ..self.job.clone() };
        let lines = Arc::new(LogLines::default());
        let host = self.trial.host(invocation.ttr);
        let http = self.trial.has_network().then(|| HttpClient::new(Handle::current()));
        let services = Arc::new(HostServices {
            http,
            kv: Some(self.trial.kv()),
            interceptor: Some(Arc::clone(&host) as _),
            ..HostServices::with_logs(Arc::clone(&lines) as _)
        });
        let report = self.handler.run(invocation, Interrupt::new(), services).await;
        self.trial.write(&host)?;
        let logs = std::mem::take(&mut *lines.0.lock());
        let mut report = InvokeReport::new(report, self.handler.digest(), logs);
        if self.is_deterministic {
            report.forget_times();
        }
        Ok(report)
    }
}

/// The headers, if a job could have them.
fn headers(given: Vec<(String, String)>) -> Result<BTreeMap<String, String>, Failure> {
    let headers: BTreeMap<_, _> = given.into_iter().collect();
    Options::default().with_headers(headers.clone()).map_err(|error| {
        Failure::bad_input(error.to_string(), "correct --header; no job can have it")
    })?;
    Ok(headers)
}
