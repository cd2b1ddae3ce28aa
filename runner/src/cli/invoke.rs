//! `duebox invoke`: one handler on one payload, with no Redis; alone, or as the manifest binds a topic. What
//! the handler wants pushed is shown and goes nowhere; what it keeps is gone with the run.

mod account;
mod grants;
mod setup;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use duebox_job::{ATTEMPTS_MAX, JobId, Options, TopicName};
use duebox_sandbox::{
    HostServices, HttpClient, Interrupt, Invocation, JobContext, Level, LogSink, MemoryKv,
};
use jiff::Timestamp;
use serde::Serialize;
use tokio::runtime::Handle;

use self::account::Account;
use self::grants::GrantArgs;
use self::setup::Ground;
use super::support::failure::{FAILED, Failure};
use super::support::payload::Source;
use super::support::{output, target};
use super::{Common, value};

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

/// Run one handler on one payload, without Redis
///
/// The module runs in the same sandbox as under the daemon: with nothing granted but by flags and the
/// default limits of a topic, or, with --topic and a manifest, exactly as that topic is bound. Prints the
/// verdict, what the handler logged, what it wants kept and pushed, and what it took. Nothing is pushed.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox invoke handlers/order_close.wasm --payload '{\"order\":42}'
  duebox invoke close.wat --payload @order.json --attempt 3 --config region=eu --json
  duebox invoke welcome.wasm --payload '{\"user\":7}' --allow-push 'sms.*' --header lang=de
  duebox invoke pay.wasm --allow-http http://127.0.0.1:8080 --allow-private 127.0.0.1 --secret key=env:PAY_KEY
  duebox invoke --topic order.close --payload @order.json
  duebox invoke new.wasm --manifest duebox.toml --topic order.close --payload @order.json

Exit codes:
  0  the handler said ack
  1  anything else: nack, snooze, drop, a trap, a timeout …
  2  bad input: the module was not run")]
pub(super) struct InvokeArgs {
    /// The module, .wasm or .wat; without it the handler that the manifest binds --topic to
    #[arg(required_unless_present = "topic")]
    module: Option<PathBuf>,
    /// The payload: a text, @FILE for a file's content, - for stdin; none for an empty one
    #[arg(long, value_name = "PAYLOAD|@FILE|-", allow_hyphen_values = true)]
    payload: Option<String>,
    /// Which attempt the handler sees, from 1
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(ATTEMPTS_MAX)))]
    attempt: u32,
    /// How many attempts the handler sees the job has, at least --attempt; the topic's, or 8
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(ATTEMPTS_MAX)))]
    max_attempts: Option<u32>,
    #[command(flatten)]
    grants: GrantArgs,
    /// A header of the job; may be given again
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = value::pair)]
    headers: Vec<(String, String)>,
    /// The id the handler sees
    #[arg(long, value_name = "ID", default_value = "invoke", value_parser = value::id)]
    id: JobId,
    /// The topic the handler sees; with a manifest, the one whose grants and limits it has
    ///
    /// Grants, settings, secrets and limits are the topic's where --manifest (or DUEBOX_MANIFEST) names a
    /// manifest, or no MODULE is named; flags add to them. Otherwise no manifest is read.
    #[arg(long, value_name = "TOPIC", value_parser = value::topic)]
    topic: Option<TopicName>,
    /// Wall clock of the attempt, 1ms to 24h; the topic's, or 30s
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = value::ttr)]
    ttr: Option<Duration>,
    /// Linear memory the handler may have, 64KiB to 4GiB; the topic's, or 64MiB
    #[arg(long, value_name = "SIZE", value_parser = value::memory)]
    memory: Option<usize>,
    /// Fuel the handler may burn, about one unit an instruction, 0 for no limit; the topic's, or 0
    ///
    /// What is burnt is the same every time and on every machine.
    #[arg(long, value_name = "N")]
    fuel: Option<u64>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn invoke(common: &Common, args: InvokeArgs) -> Result<ExitCode, Failure> {
    let json = args.json;
    let ground = Ground::of(common, &args)?;
    let handler = ground.load()?;
    let payload = Source::new(args.payload).read(handler.payload_max())?;
    let max_attempts = args.max_attempts.unwrap_or_else(|| args.attempt.max(ground.max_attempts));
    if max_attempts < args.attempt {
        return Err(Failure::bad_input(
            format!("--max-attempts {max_attempts} is below --attempt {}", args.attempt),
            "give the job at least as many attempts as the one that runs",
        ));
    }
    let headers = headers(args.headers)?;
    let invocation = Invocation {
        id: args.id,
        topic: ground.topic,
        payload,
        attempt: args.attempt,
        max_attempts,
        due_at_ms: u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0),
        headers,
        ttr: ground.ttr,
        span: None,
    };
    let kept = Arc::new(Kept::default());
    let logs: Arc<dyn LogSink> = kept.clone();
    let report = target::block_on(async {
        let http = Some(HttpClient::new(Handle::current()));
        let world = Arc::new(HostServices {
            http,
            kv: Some(Arc::new(MemoryKv::new())),
            ..HostServices::with_logs(logs)
        });
        Ok(handler.run(invocation, Interrupt::new(), world).await)
    })?;
    let logs = kept.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let account = Account::new(report, handler.digest(), logs);
    if json {
        output::print_json(&account)?;
    } else {
        output::print(&account.describe())?;
    }
    Ok(ExitCode::from(if account.is_ack() { 0 } else { FAILED }))
}

/// The headers as a job could have them.
fn headers(given: Vec<(String, String)>) -> Result<BTreeMap<String, String>, Failure> {
    let headers: BTreeMap<_, _> = given.into_iter().collect();
    Options::default().with_headers(headers.clone()).map_err(|error| {
        Failure::bad_input(error.to_string(), "correct --header; a job could not have it")
    })?;
    Ok(headers)
}
