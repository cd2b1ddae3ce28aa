//! The command line of `duebox` and its help. Each command has its own file; shared code is in
//! `support/`.
//!
//! Data goes to stdout, logs and errors to stderr. Exit codes: 0 for success, 1 for a failure or a
//! refusal, 2 for bad input, after which nothing was changed.

mod build;
mod cancel;
mod check;
mod completions;
mod dead;
mod dev;
mod doctor;
mod done;
mod get;
mod health;
mod init;
mod inspect;
mod invoke;
mod list;
mod new;
mod pause;
mod project;
mod pull;
mod purge;
mod push;
#[cfg(test)]
mod reference;
mod replay;
mod requeue;
mod reschedule;
mod rollback;
mod run;
mod schedules;
mod settle;
mod stats;
mod support;
mod test;
mod token;
mod top;
mod version;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use duebox_job::{JobId, TopicName};

use self::dead::DeadCommandArgs;
use self::doctor::DoctorArgs;
use self::done::DoneCommandArgs;
use self::get::GetArgs;
use self::list::ListArgs;
use self::pause::{PauseArgs, ResumeArgs};
use self::pull::{ExtendArgs, PullArgs};
use self::push::args::PushArgs;
use self::requeue::RequeueArgs;
use self::reschedule::{RescheduleArgs, RunNowArgs};
use self::rollback::RollbackArgs;
pub use self::run::StartedLog;
use self::settle::SettleArgs;
use self::stats::check::CheckLimits;
pub use self::support::failure::Failure;
use crate::deploy::module_file::COMPILE_MODULE;
use crate::manifest::{Environment, Flags, Manifest};
use crate::service::value;

const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  the command failed or was refused
  2  bad input: nothing was done";

const RUN_EXAMPLES: &str = "\
Examples:
  duebox run
  duebox run --manifest deploy/duebox.toml --log debug

Exit codes:
  0  drained and stopped
  1  the daemon could not start, for example without Redis
  2  the manifest or a module is invalid";

/// Run background jobs in WebAssembly sandboxes
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

/// Options of every command: the path of the manifest and what overrides it.
#[derive(Args, Clone)]
pub struct Common {
    /// Path of the manifest
    ///
    /// The TOML file that names the Redis server and binds topics to modules. Paths inside it are
    /// relative to its folder. [default: ./duebox.toml]
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "DUEBOX_MANIFEST",
        help_heading = "Common options"
    )]
    manifest: Option<PathBuf>,
    /// The Redis to use instead of `redis.url`
    ///
    /// Overrides DUEBOX_REDIS_URL, which overrides the manifest.
    #[arg(long, global = true, value_name = "URL", help_heading = "Common options")]
    redis_url: Option<String>,
    /// The log filter to use instead of `runner.log`
    ///
    /// A level (error, warn, info, debug, trace) or target=level pairs, as in "info,handler=warn".
    /// Overrides DUEBOX_LOG, which overrides the manifest.
    #[arg(long, global = true, value_name = "FILTER", help_heading = "Common options")]
    log: Option<String>,
    /// The format of log lines instead of `runner.log_format`: auto, human or json
    ///
    /// Overrides DUEBOX_LOG_FORMAT, which overrides the manifest.
    #[arg(long, global = true, value_name = "FORM", help_heading = "Common options")]
    log_format: Option<String>,
}

#[derive(Subcommand)]
enum Command {
    /// Run the daemon: serve the topics of the manifest until SIGTERM
    ///
    /// Leases due jobs, runs each in its own sandbox, and settles it by its verdict. Watches the
    /// manifest and the modules, and applies changes without a restart. SIGTERM and SIGINT drain:
    /// running jobs may finish within `runner.drain_timeout`; the others are released.
    #[command(after_help = RUN_EXAMPLES)]
    Run {
        /// The process with which the daemon ends: `duebox dev`
        #[arg(long, hide = true, value_name = "PID")]
        parent: Option<u32>,
    },
    /// Compile one module for another process of this program
    #[command(name = COMPILE_MODULE, hide = true)]
    CompileModule,
    #[command(flatten)]
    Client(Box<ClientCommand>),
}

/// A command that runs once and exits.
#[derive(Subcommand)]
enum ClientCommand {
    New(new::NewArgs),
    Build(build::BuildArgs),
    Dev(dev::DevArgs),
    Inspect(inspect::InspectArgs),
    Init(init::InitArgs),
    Check(CheckArgs),
    Push(PushArgs),
    Stats(StatsArgs),
    List(ListArgs),
    Get(GetArgs),
    Cancel(CancelArgs),
    Reschedule(RescheduleArgs),
    RunNow(RunNowArgs),
    Pause(PauseArgs),
    Resume(ResumeArgs),
    Rollback(RollbackArgs),
    Dead(DeadCommandArgs),
    Requeue(RequeueArgs),
    Done(DoneCommandArgs),
    Pull(PullArgs),
    Settle(SettleArgs),
    Extend(ExtendArgs),
    Invoke(invoke::InvokeArgs),
    Test(test::TestArgs),
    Replay(replay::ReplayArgs),
    Top(top::TopArgs),
    Health(health::HealthArgs),
    Doctor(DoctorArgs),
    Schedules(schedules::SchedulesArgs),
    Token(token::TokenArgs),
    Completions(completions::CompletionsArgs),
    #[command(hide = true)]
    Manual(completions::ManualArgs),
    Version(version::VersionArgs),
}

/// Check the manifest and every module, and report all problems at once
///
/// Reads the manifest as `run` would, loads each handler into the sandbox and runs the topic's
/// smoke cases on it. Prints each problem with its file, line and remedy. Warns about grants that
/// reach further than they seem to. Needs no Redis, except with --redis.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox check
  duebox check --strict
  duebox check --redis
  duebox check --manifest deploy/duebox.toml --json

Exit codes:
  0  no problems; there may be warnings
  1  with --redis: Redis cannot be reached
  2  there are problems, or with --strict warnings")]
struct CheckArgs {
    /// Treat warnings as problems
    #[arg(long)]
    strict: bool,
    /// Ask Redis too: warn of schedules whose topic is paused
    #[arg(long)]
    redis: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Show job counts by topic and state, and handler statistics
///
/// Shows the topics of the manifest and all others in Redis; those without an entry in the manifest
/// are marked "unbound". "late" is how long the oldest ready job has been due. "next due" is when
/// the next waiting job falls due. "blocked" jobs are due and wait for other jobs of their key. The
/// second table shows what running daemons report about their handlers since they started; with
/// topics named, by module. A job that was attempted three times counts as three attempts. "done" is
/// what `done_retention` keeps, "acked" counts all acked attempts.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox stats
  duebox stats order.close --watch
  duebox stats --json | jq '.topics[] | select(.dead > 0)'
  duebox stats --check --max-late 10s --max-dead 0

Exit codes:
  0  shown; with --check, nothing is wrong
  1  Redis failed; with --check, something is wrong
  2  bad input")]
struct StatsArgs {
    /// Only these topics
    #[arg(value_name = "TOPIC", value_parser = value::topic)]
    topics: Vec<TopicName>,
    /// Refresh every second until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// Print JSON; with --watch, one object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    limits: CheckLimits,
}

/// Remove a job before it runs
///
/// A running job is not interrupted, but it is not retried after its attempt.
#[derive(Args)]
#[command(after_help = "\
Examples:
  duebox cancel order.close 42

Exit codes:
  0  cancelled, or leased: a runner has the job, and it will not be retried
  1  no such job waits or runs, or Redis failed
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

/// What the command line requests.
pub enum Request {
    /// `duebox run`: the daemon, with the manifest that these options name.
    Daemon(Common),
    /// Compile one module for another process of this program.
    Compiler,
    /// A command that runs once and exits.
    Client(Client),
}

/// A command that runs once and exits.
pub struct Client {
    common: Common,
    command: Box<ClientCommand>,
}

/// Parses the command line of this process. `--help` and `--version` print and exit the process.
///
/// # Errors
/// [`Failure`] if the command line is invalid.
pub fn parse() -> Result<Request, Failure> {
    let Cli { common, command } = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => return Err(Failure::of_usage(&error)),
        Err(error) => error.exit(),
    };
    Ok(match command {
        Command::Run { parent } => {
            parent.into_iter().for_each(dev::end_with_parent);
            Request::Daemon(common)
        }
        Command::CompileModule => Request::Compiler,
        Command::Client(command) => Request::Client(Client { common, command }),
    })
}

impl Client {
    /// Runs the command.
    ///
    /// # Errors
    /// [`Failure`] with the exit code and the remedy.
    pub fn run(self) -> Result<ExitCode, Failure> {
        let Self { common, command } = self;
        let common = &common;
        match *command {
            ClientCommand::New(args) => new::new(&args),
            ClientCommand::Build(args) => build::build(common, &args),
            ClientCommand::Dev(args) => dev::dev(common, args),
            ClientCommand::Inspect(args) => inspect::inspect(common, &args),
            ClientCommand::Init(args) => init::init(&args),
            ClientCommand::Check(args) => check::check(common, &args),
            ClientCommand::Push(args) => push::push(common, args),
            ClientCommand::Stats(args) => stats::stats(common, &args),
            ClientCommand::List(args) => list::list(common, args),
            ClientCommand::Get(args) => get::get(common, &args),
            ClientCommand::Pull(args) => pull::pull(common, args),
            ClientCommand::Settle(args) => settle::settle(common, args),
            ClientCommand::Extend(args) => pull::extend(common, args),
            ClientCommand::Invoke(args) => invoke::invoke(common, args),
            ClientCommand::Replay(args) => replay::replay(common, &args),
            ClientCommand::Test(args) => test::test(common, &args),
            ClientCommand::Cancel(args) => cancel::cancel(common, &args),
            ClientCommand::Reschedule(args) => reschedule::reschedule(common, &args),
            ClientCommand::RunNow(args) => reschedule::run_now(common, &args),
            ClientCommand::Pause(args) => pause::pause(common, &args),
            ClientCommand::Resume(args) => pause::resume(common, &args),
            ClientCommand::Rollback(args) => rollback::rollback(common, &args),
            ClientCommand::Dead(args) => dead::dead(common, &args),
            ClientCommand::Requeue(args) => requeue::requeue(common, &args),
            ClientCommand::Done(args) => done::done(common, &args),
            ClientCommand::Top(args) => top::top(common, &args),
            ClientCommand::Health(args) => health::health(common, &args),
            ClientCommand::Doctor(args) => doctor::doctor(common, &args),
            ClientCommand::Schedules(args) => schedules::schedules(common, &args),
            ClientCommand::Token(args) => token::token(&args),
            ClientCommand::Completions(args) => completions::completions(&args),
            ClientCommand::Manual(args) => completions::manual(&args),
            ClientCommand::Version(args) => version::version(&args),
        }
    }
}

impl Common {
    /// The path of the manifest.
    pub fn manifest(&self) -> &Path {
        self.manifest.as_deref().unwrap_or(Path::new("./duebox.toml"))
    }

    /// The flags and the environment of this process.
    pub fn environment(&self) -> Environment {
        Environment::of_process(Flags {
            redis_url: self.redis_url.clone(),
            log: self.log.clone(),
            log_format: self.log_format.clone(),
        })
    }

    /// Loads the manifest without the secrets of handlers, for commands that run none.
    fn load(&self) -> Result<Manifest, Failure> {
        Ok(Manifest::load_with(self.manifest(), &self.environment().without_handlers())?)
    }
}
