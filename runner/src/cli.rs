//! The command line: what can be said to `duebox`, and help that teaches it. Types only; each
//! command's work is in a file of its own.
//!
//! Logs and errors go to stderr, data to stdout. Exit codes: 0 done, 1 it failed or was refused,
//! 2 the input is bad and nothing was done.

mod cancel;
mod check;
mod due;
mod failure;
mod invoke;
mod output;
mod payload;
mod push;
mod push_lines;
mod requeue;
mod run;
mod stats;
mod target;
mod value;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use duebox_job::{ATTEMPTS_MAX, JobId, TopicName, parse_duration};

use self::failure::Failure;
use crate::manifest::{Flags, Manifest, Surroundings};

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  it failed, or was refused
  2  bad input: nothing was done";

const RUN_EXAMPLES: &str = "\
Examples:
  duebox run
  duebox run --manifest deploy/duebox.toml --log debug

Exit codes:
  0  drained and ended
  1  it could not start, such as without Redis
  2  the manifest or a module is bad";

/// Background jobs at the right moment, in WebAssembly sandboxes
///
/// Duebox runs background jobs when they fall due, each in a fresh WebAssembly sandbox, with Redis
/// as its only dependency. A manifest (duebox.toml) binds topics to handler modules.
#[derive(Parser)]
#[command(name = "duebox", version, after_help = EXIT_CODES, arg_required_else_help = true)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// What stands over the manifest, whatever the command.
#[derive(Args, Clone)]
struct Common {
    /// The manifest
    ///
    /// The TOML file that says where Redis is and which module runs which topic. Paths inside it are
    /// relative to its folder.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "DUEBOX_MANIFEST",
        default_value = "./duebox.toml",
        help_heading = "Common options"
    )]
    manifest: PathBuf,
    /// The Redis to use, instead of `redis.url`
    ///
    /// Stands over DUEBOX_REDIS_URL, which stands over the manifest.
    #[arg(long, global = true, value_name = "URL", help_heading = "Common options")]
    redis_url: Option<String>,
    /// What to log, instead of `runner.log`
    ///
    /// A level (error, warn, info, debug, trace) or target=level pairs, as in "info,handler=warn".
    /// Stands over DUEBOX_LOG, which stands over the manifest.
    #[arg(long, global = true, value_name = "FILTER", help_heading = "Common options")]
    log: Option<String>,
    /// The form of log lines: auto, human or json, instead of `runner.log_format`
    ///
    /// Stands over DUEBOX_LOG_FORMAT, which stands over the manifest.
    #[arg(long, global = true, value_name = "FORM", help_heading = "Common options")]
    log_format: Option<String>,
}

#[derive(Subcommand)]
enum Command {
    /// Run the daemon: serve the topics of the manifest until SIGTERM
    ///
    /// Leases due jobs, runs each in a sandbox of its own, and settles it by its verdict. Watches
    /// the manifest and the modules, and puts changed ones into service without a restart. SIGTERM
    /// and SIGINT drain: what runs may finish within `runner.drain_timeout`, the rest is given back.
    #[command(after_help = RUN_EXAMPLES)]
    Run,
    Check(CheckArgs),
    Push(PushArgs),
    Stats(StatsArgs),
    Invoke(invoke::InvokeArgs),
    Cancel(CancelArgs),
    Requeue(RequeueArgs),
}

/// Check the manifest and every module, and report all problems at once
///
/// Reads the manifest as `run` would, then loads each handler into the sandbox without running it.
/// Each problem is shown with its file, its line and a remedy. Needs no Redis.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox check
  duebox check --manifest deploy/duebox.toml --json

Exit codes:
  0  all is well
  2  there are problems")]
struct CheckArgs {
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Push jobs: one, or one for each line
///
/// The job is stored in Redis and runs when it falls due. Without --in and --at it gets the delay
/// that the topic has in the manifest. The topic must be in the manifest.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox push order.close '{\"order\":42}' --in 30m --id 42
  duebox push report @body.json --at 2026-12-24T18:00:00+01:00
  seq 1 100000 | duebox push squares - --lines

Exit codes:
  0  pushed (or kept, with --if-exists keep)
  1  the id exists already, or Redis failed
  2  bad input: nothing was pushed")]
struct PushArgs {
    /// The topic
    #[arg(value_parser = value::topic)]
    topic: TopicName,
    /// The payload: a text, @FILE for a file's content, - for stdin; none for an empty one
    ///
    /// The payload is bytes; the handler gets them as they are. For a text that starts with @ use -.
    #[arg(value_name = "PAYLOAD|@FILE|-")]
    payload: Option<String>,
    /// Run it after this while, such as 250ms, 30m, 1h30m or 7d
    #[arg(
        long = "in",
        value_name = "DURATION",
        conflicts_with = "at",
        allow_hyphen_values = true,
        value_parser = parse_duration
    )]
    delay: Option<Duration>,
    /// Run it at this time: RFC 3339 with its zone or offset, or unix milliseconds
    ///
    /// Such as 2026-12-24T18:00:00Z, 2026-12-24T18:00[Asia/Shanghai] or 1782324000000. A time in
    /// the past, or more than ten years away, is refused.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    at: Option<String>,
    /// The job's id, 1 to 256 visible ASCII characters; without it one is made
    ///
    /// Ids are unique among the live jobs of a topic: pushing an id that is alive does what
    /// --if-exists says. With --lines the ids are ID-1, ID-2 …, so a push that broke off can be
    /// repeated safely. Made ids are in the order of time.
    #[arg(long, value_name = "ID", value_parser = value::id)]
    id: Option<JobId>,
    /// Wall clock of one attempt, 1ms to 24h, instead of the topic's
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = value::ttr)]
    ttr: Option<Duration>,
    /// Attempts in all, instead of the topic's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(ATTEMPTS_MAX)))]
    max_attempts: Option<u32>,
    /// What to do about an id that is alive, instead of what the topic says
    #[arg(long, value_name = "WORD")]
    if_exists: Option<IfExistsWord>,
    /// Push one job for each line of the file or of stdin
    ///
    /// Goes out in batches of 1,000. Each line, without its line feed, is a payload; an empty line
    /// is an empty one.
    #[arg(long, requires = "payload")]
    lines: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// What a push does about an id that is alive.
#[derive(Clone, Copy, ValueEnum)]
enum IfExistsWord {
    /// Refuse the push
    Reject,
    /// Leave the live job and count it as success
    Keep,
    /// Replace it; where it runs now, follow it
    Replace,
}

/// Show how many jobs each topic has in each state
///
/// Topics of the manifest and all others that Redis knows (shown as unbound: no handler here). "late"
/// is how long the oldest ready job has been due; "next due" is when the next waiting one falls due.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox stats
  duebox stats order.close --watch
  duebox stats --json | jq '.topics[] | select(.dead > 0)'")]
struct StatsArgs {
    /// Only these topics
    #[arg(value_name = "TOPIC", value_parser = value::topic)]
    topics: Vec<TopicName>,
    /// Show it anew each second, until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// Print JSON; with --watch one object a line
    #[arg(long)]
    json: bool,
}

/// Remove a job before it runs
///
/// A job that runs right now cannot be stopped, but its verdict will not be retried.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox cancel order.close 42

Exit codes:
  0  cancelled, or leased: a runner has it, and it will not be tried again
  1  there is no such job, or Redis failed
  2  bad input")]
struct CancelArgs {
    /// The topic
    #[arg(value_parser = value::topic)]
    topic: TopicName,
    /// The job's id
    #[arg(value_parser = value::any_id)]
    id: JobId,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Run dead jobs again
///
/// They become ready at once, with their options and no attempts spent. A dead job whose id is alive
/// again stays dead.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox requeue order.close 42 43
  duebox requeue order.close --all

Exit codes:
  0  all were requeued
  1  some were not, or Redis failed
  2  bad input")]
struct RequeueArgs {
    /// The topic
    #[arg(value_parser = value::topic)]
    topic: TopicName,
    /// The ids of dead jobs
    #[arg(value_name = "ID", required_unless_present = "all", value_parser = value::any_id)]
    ids: Vec<JobId>,
    /// Every dead job of the topic
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Reads the command line of this process and does what it says.
pub fn main() -> ExitCode {
    let Cli { common, command } = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => return Failure::of_usage(&error).report(),
        // Help or the version was asked for.
        Err(error) => error.exit(),
    };
    let done = match command {
        Command::Run => run::run(&common),
        Command::Check(args) => check::check(&common, &args),
        Command::Push(args) => push::push(&common, args),
        Command::Stats(args) => stats::stats(&common, &args),
        Command::Invoke(args) => invoke::invoke(args),
        Command::Cancel(args) => cancel::cancel(&common, &args),
        Command::Requeue(args) => requeue::requeue(&common, &args),
    };
    done.unwrap_or_else(Failure::report)
}

impl Common {
    /// The flags and the environment of this process.
    fn surroundings(&self) -> Surroundings {
        Surroundings::of_process(Flags {
            redis_url: self.redis_url.clone(),
            log: self.log.clone(),
            log_format: self.log_format.clone(),
        })
    }

    fn load(&self) -> Result<Manifest, Failure> {
        Ok(Manifest::load_with(&self.manifest, &self.surroundings())?)
    }
}
