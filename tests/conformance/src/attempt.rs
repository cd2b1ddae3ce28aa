//! Runs one attempt of a job by a compiled module in the sandbox.

use std::collections::BTreeMap;
use std::env::vars;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use duebox::language::{Language, SourceHandler};
use duebox::manifest::{CacheFolder, Environment, Flags};
use duebox_job::{FollowUp, JobId, Outcome, TopicName};
use duebox_sandbox::{
    Grants, Handler, HostServices, HttpClient, HttpGrant, Instances, Interrupt, Invocation,
    JobContext, Level, Limits, LogSink, RunReport, Sandbox, SandboxConfig,
};

use crate::services::Services;

/// The time limit of an attempt that sets none: only a handler that hangs reaches it, also where other suites use the cores.
const TTR: Duration = Duration::from_secs(300);

/// A handler with its configuration, loaded as a topic loads it.
pub struct Module {
    handler: Handler,
    /// The servers and the store that it may use, if any.
    services: Option<Arc<Services>>,
}

/// A job built by a test. Defaults: attempt 1 of 8, due at its creation, 300 s to run.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// The job's id.
    pub id: String,
    /// Its topic.
    pub topic: String,
    /// Its payload.
    pub payload: Vec<u8>,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The number of attempts in total.
    pub max_attempts: u32,
    /// The due time, in unix milliseconds.
    pub due_at_ms: u64,
    /// Its headers.
    pub headers: BTreeMap<String, String>,
    /// The time limit of the attempt.
    pub ttr: Duration,
}

/// The outcome of an attempt.
#[derive(Debug)]
pub struct Run {
    /// The outcome as the sandbox reports it.
    pub outcome: Outcome,
    /// The log lines, each preceded by its level: `info closing order 42`.
    pub lines: Vec<String>,
    /// The result to keep with the job.
    pub result: Option<Bytes>,
    /// The follow-up jobs to push.
    pub follow_ups: Vec<FollowUp>,
    /// What ended the guest, and its call stack.
    pub trace: Option<String>,
    /// The last lines of the log, if the attempt was not acked.
    pub log_tail: Vec<String>,
    /// The largest memory of the guest, in bytes.
    pub memory_peak: usize,
}

impl Attempt {
    /// Creates the first attempt of a job with this payload.
    pub fn new(payload: impl Into<Vec<u8>>) -> Self {
        Self {
            id: "job-1".to_owned(),
            topic: "conformance".to_owned(),
            payload: payload.into(),
            attempt: 1,
            max_attempts: 8,
            due_at_ms: 1_764_000_000_000,
            headers: BTreeMap::new(),
            ttr: TTR,
        }
    }

    /// Sets the number of the attempt, from 1.
    #[must_use]
    pub fn number(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// Sets the time limit, in milliseconds.
    #[must_use]
    pub fn ttr_ms(mut self, ttr_ms: u64) -> Self {
        self.ttr = Duration::from_millis(ttr_ms);
        self
    }
}

impl Module {
    /// Loads a handler of `handlers/build`, or a source of `handlers`, by name. It may push to `sms.*` and `order.close`, and
    /// call servers on 127.0.0.1 over HTTP.
    ///
    /// # Panics
    /// If it is not built or the sandbox refuses it.
    pub fn built(name: &str, config: BTreeMap<String, String>) -> Self {
        Self::built_with(name, config, Instances::default())
    }

    /// Loads a handler with this instance mode.
    ///
    /// # Panics
    /// If it is not built or the sandbox refuses it.
    pub fn built_with(name: &str, config: BTreeMap<String, String>, instances: Instances) -> Self {
        Self::load(&built(name), config, Limits { instances, ..Limits::default() }, None)
    }

    /// Loads a handler that may also use these servers and this store.
    ///
    /// # Panics
    /// If it is not built or the sandbox refuses it.
    pub fn with_services(
        name: &str,
        config: BTreeMap<String, String>,
        instances: Instances,
        services: &Arc<Services>,
    ) -> Self {
        let limits = Limits { instances, ..Limits::default() };
        Self::load(&built(name), config, limits, Some(Arc::clone(services)))
    }

    /// Loads the handler in a file.
    ///
    /// # Panics
    /// If the file does not exist or the sandbox refuses it.
    pub fn from_file(path: &Path, config: BTreeMap<String, String>) -> Self {
        Self::from_file_with(path, config, Instances::default())
    }

    /// Loads the handler in a file with this instance mode.
    ///
    /// # Panics
    /// If the file does not exist or the sandbox refuses it.
    pub fn from_file_with(
        path: &Path,
        config: BTreeMap<String, String>,
        instances: Instances,
    ) -> Self {
        Self::load(path, config, Limits { instances, ..Limits::default() }, None)
    }

    /// Loads the handler in a file, which may also use these servers and this store.
    ///
    /// # Panics
    /// If the file does not exist or the sandbox refuses it.
    pub fn from_file_with_services(
        path: &Path,
        config: BTreeMap<String, String>,
        services: &Arc<Services>,
    ) -> Self {
        Self::load(path, config, Limits::default(), Some(Arc::clone(services)))
    }

    /// Loads the handler in a file, if it is accepted.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn try_from_file(path: &Path) -> Result<Self, String> {
        Self::try_load(path, [].into(), Limits::default(), None)
    }

    /// Why the handler in a file is refused.
    ///
    /// # Panics
    /// If it is accepted.
    pub fn refusal(path: &Path) -> String {
        match Self::try_from_file(path) {
            Ok(_) => panic!("{} is accepted", path.display()),
            Err(error) => error,
        }
    }

    fn load(
        path: &Path,
        config: BTreeMap<String, String>,
        limits: Limits,
        services: Option<Arc<Services>>,
    ) -> Self {
        let loaded = Self::try_load(path, config, limits, services);
        loaded.unwrap_or_else(|error| panic!("{} is refused: {error}", path.display()))
    }

    fn try_load(
        path: &Path,
        config: BTreeMap<String, String>,
        limits: Limits,
        services: Option<Arc<Services>>,
    ) -> Result<Self, String> {
        let push = Some(vec!["sms.*".to_owned(), "order.close".to_owned()]);
        let kv = services.is_some();
        let http = Some(services.as_ref().map_or_else(loopback, |services| services.grant()));
        let grants = Grants { config, push, http, kv, ..Grants::default() };
        let handler = match Language::of(path) {
            Some(_) => load_source(path, limits, grants)?,
            None => load_module(path, limits, grants)?,
        };
        Ok(Self { handler, services })
    }

    /// Runs the handler on a job until it ends.
    ///
    /// # Panics
    /// If the job's id or topic is invalid, or the runtime does not start.
    pub fn run(&self, attempt: &Attempt) -> Run {
        let logs = Arc::new(Lines::default());
        let invocation = Invocation {
            id: JobId::new(&*attempt.id).unwrap_or_else(|error| panic!("{error}")),
            topic: TopicName::new(&attempt.topic).unwrap_or_else(|error| panic!("{error}")),
            payload: Bytes::from(attempt.payload.clone()),
            attempt: attempt.attempt,
            max_attempts: attempt.max_attempts,
            due_at_ms: attempt.due_at_ms,
            headers: attempt.headers.clone(),
            ttr: attempt.ttr,
            span: None,
        };
        let sink = Arc::clone(&logs) as _;
        let services = match &self.services {
            Some(services) => services.host_services(sink),
            None => HostServices { http: Some(http_client()), ..HostServices::with_logs(sink) },
        };
        let running = self.handler.run(invocation, Interrupt::new(), Arc::new(services));
        let RunReport {
            outcome, result, follow_ups, backtrace: trace, log_tail, memory_peak, ..
        } = runtime().block_on(running);
        Run { outcome, lines: logs.take(), result, follow_ups, trace, log_tail, memory_peak }
    }
}

impl Run {
    /// The reason of a failure; empty for an ack.
    pub fn reason(&self) -> &str {
        match &self.outcome {
            Outcome::Acked => "",
            Outcome::Snoozed { reason, .. } => reason,
            Outcome::Failed(failure) => &failure.reason,
            Outcome::HostFault(why) => why,
        }
    }

    /// `ack`, `snooze`, or the class of the failure.
    pub fn verdict(&self) -> &'static str {
        match &self.outcome {
            Outcome::Acked => "ack",
            Outcome::Snoozed { .. } => "snooze",
            Outcome::Failed(failure) => failure.class.name(),
            Outcome::HostFault(_) => "host fault",
        }
    }

    /// The line `verdict=…` of a handler, from which a ledger can be read.
    ///
    /// # Panics
    /// If the handler logged none or more than one.
    pub fn verdict_line(&self) -> &str {
        let mut lines = self.lines.iter().filter(|line| line.starts_with("info verdict="));
        match (lines.next(), lines.next()) {
            (Some(line), None) => line,
            (first, _) => {
                let count = if first.is_none() { "no" } else { "more than one" };
                panic!("{count} verdict line: {:?}", self.lines)
            }
        }
    }

    /// The delay of a snooze, in milliseconds.
    pub fn snooze_ms(&self) -> Option<u128> {
        match &self.outcome {
            Outcome::Snoozed { delay, .. } => Some(delay.as_millis()),
            _ => None,
        }
    }

    /// The delay that a nack asked for, in milliseconds.
    pub fn retry_after_ms(&self) -> Option<u128> {
        match &self.outcome {
            Outcome::Failed(failure) => failure.retry_after.map(|wait| wait.as_millis()),
            _ => None,
        }
    }
}

/// Starts the servers and the store of a case. They live as long as a module uses them.
///
/// # Panics
/// If no port is free.
pub fn services() -> Arc<Services> {
    let started = runtime().block_on(Services::start());
    Arc::new(started.unwrap_or_else(|error| panic!("cannot start the servers: {error}")))
}

fn load_module(path: &Path, limits: Limits, grants: Grants) -> Result<Handler, String> {
    let bytes = std::fs::read(path)
        .map_err(|error| format!("cannot be read ({error}); build it first: ./dev handlers"))?;
    sandbox().load(&bytes, limits, grants).map_err(|error| error.to_string())
}

fn load_source(path: &Path, limits: Limits, grants: Grants) -> Result<Handler, String> {
    let source =
        SourceHandler::read(sandbox(), path, &limits).map_err(|error| error.to_string())?;
    source.load(sandbox(), limits, grants).map_err(|error| error.to_string())
}

/// The path of a handler: its source in `handlers`, if it needs no build, or else its module in `handlers/build`.
fn built(name: &str) -> PathBuf {
    let handlers = repository().join("handlers");
    let sources = ["index.ts", "main.py"].map(|file| handlers.join(name).join(file));
    let source = sources.into_iter().find(|path| path.is_file());
    source.unwrap_or_else(|| handlers.join("build").join(format!("{name}.wasm")))
}

/// The root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sandbox() -> &'static Sandbox {
    static SANDBOX: OnceLock<Sandbox> = OnceLock::new();
    SANDBOX.get_or_init(|| {
        let config = SandboxConfig { max_jobs: 16, memory_max: 64 << 20, tables_max: 100_000 };
        let mut sandbox = Sandbox::new(&config)
            .unwrap_or_else(|error| panic!("cannot start the sandbox: {error}"));
        // Many tests load the same modules, and daemons of other tests compile them, too.
        if let Some(cache) = CacheFolder::of_user(&Environment::new(Flags::default(), vars())) {
            let used = sandbox.use_cache_dir(&cache.path);
            used.unwrap_or_else(|error| panic!("cannot use the cache: {error}"));
        }
        sandbox
    })
}

/// Grants the loopback servers of a test and nothing else.
fn loopback() -> HttpGrant {
    let parsed = "http://127.0.0.1:*".parse().ok().zip("127.0.0.1/32".parse().ok());
    let (origin, address) = parsed.unwrap_or_else(|| panic!("invalid loopback origin"));
    HttpGrant { allow: vec![origin], private: vec![address], ..HttpGrant::default() }
}

fn http_client() -> HttpClient {
    static CLIENT: OnceLock<HttpClient> = OnceLock::new();
    CLIENT.get_or_init(|| HttpClient::new(runtime().handle().clone())).clone()
}

/// The runtime of all attempts and of the servers.
///
/// # Panics
/// If it does not start.
pub fn runtime() -> &'static tokio::runtime::Runtime {
    static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder
            .enable_all()
            .build()
            .unwrap_or_else(|error| panic!("cannot start the runtime: {error}"))
    })
}

/// Collects the log lines of one run.
#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl Lines {
    fn take(&self) -> Vec<String> {
        self.0.lock().map(|mut lines| std::mem::take(&mut *lines)).unwrap_or_default()
    }
}

impl LogSink for Lines {
    fn line(&self, _job: &JobContext<'_>, level: Level, text: &str) {
        if let Ok(mut lines) = self.0.lock() {
            lines.push(format!("{} {text}", level.name()));
        }
    }
}
