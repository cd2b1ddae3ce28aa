//! The common parts of the tests: a sandbox, a job, and a sink that collects log lines.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{Failure, FailureClass, JobId, Outcome, TopicName};
use duebox_sandbox::{
    Grants, Handler, HostServices, Interrupt, Invocation, JobContext, KeyValue, Level, Limits,
    LogSink, MemoryKv, RunReport, Sandbox, SandboxConfig,
};
use tokio::sync::Notify;

static SANDBOX: LazyLock<Sandbox> = LazyLock::new(|| {
    Sandbox::new(&SandboxConfig { max_jobs: 16, memory_max: 64 << 20, tables_max: 100_000 })
        .expect("the sandbox starts")
});

/// The sandbox that all tests share.
pub(crate) fn sandbox() -> &'static Sandbox {
    &SANDBOX
}

/// Loads a module's text with the default limits and no grants.
pub(crate) fn load(wat: &str) -> Handler {
    load_with(wat, Limits::default(), Grants::default())
}

/// Loads a module's text.
pub(crate) fn load_with(wat: &str, limits: Limits, grants: Grants) -> Handler {
    sandbox().load(wat.as_bytes(), limits, grants).unwrap_or_else(|error| panic!("{error}\n{wat}"))
}

/// A module with every import of `duebox_v1` that needs no grant, a memory of one page, and a `handle(len)` with this
/// body. [`TestRun::answer`] returns what `handle` returned.
pub(crate) fn probe(body: &str) -> String {
    format!(
        r#"(module
  (import "duebox_v1" "payload_read" (func $payload_read (param i32 i32 i32) (result i32)))
  (import "duebox_v1" "meta_read" (func $meta_read (param i32 i32 i32) (result i32)))
  (import "duebox_v1" "meta_int" (func $meta_int (param i32) (result i64)))
  (import "duebox_v1" "config_read" (func $config_read (param i32 i32 i32 i32) (result i32)))
  (import "duebox_v1" "random" (func $random (param i32 i32)))
  (import "duebox_v1" "retry_after" (func $retry_after (param i64)))
  (import "duebox_v1" "snooze" (func $snooze (param i64)))
  (import "duebox_v1" "reason" (func $reason (param i32 i32)))
  (import "duebox_v1" "result" (func $result (param i32 i32) (result i32)))
  (import "duebox_v1" "log" (func $log (param i32 i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 256) "region")
  (data (i32.const 272) "\ff\fe")
  (data (i32.const 288) "nothing")
  (data (i32.const 320) "a reason")
  (data (i32.const 336) "another")
  (data (i32.const 352) "bad \ff byte")
  (func (export "handle") (param $len i32) (result i32)
    {body}))"#
    )
}

/// A job for any handler. Tests change the fields that they test.
pub(crate) fn job() -> Invocation {
    Invocation {
        id: JobId::new("job-42").expect("an id"),
        topic: TopicName::new("order.close").expect("a topic"),
        payload: Bytes::from_static(b"{\"order\":42}"),
        attempt: 2,
        max_attempts: 8,
        due_at_ms: 1_763_740_800_000,
        headers: BTreeMap::from([("trace".to_owned(), "t-1".to_owned())]),
        ttr: Duration::from_secs(60),
        span: None,
    }
}

/// The report of one run, and its log lines.
#[derive(Debug)]
pub(crate) struct TestRun {
    pub(crate) report: RunReport,
    pub(crate) lines: Vec<(Level, String)>,
}

impl TestRun {
    /// The verdict as the guest returned it.
    pub(crate) fn answer(&self) -> i32 {
        match &self.report.outcome {
            Outcome::Acked => 0,
            Outcome::Failed(Failure { class: FailureClass::Nack, .. }) => 1,
            Outcome::Failed(Failure { class: FailureClass::Drop, .. }) => 2,
            Outcome::Failed(Failure { class: FailureClass::BadVerdict, reason, .. }) => {
                let number = reason.split([' ', ';']).find_map(|word| word.parse().ok());
                number.unwrap_or_else(|| panic!("no verdict in {reason}"))
            }
            other => panic!("no verdict: {other:?}"),
        }
    }

    /// The failure, if it is one.
    pub(crate) fn failure(&self) -> &Failure {
        match &self.report.outcome {
            Outcome::Failed(failure) => failure,
            other => panic!("no failure: {other:?}"),
        }
    }

    /// The failure's class and text.
    pub(crate) fn class(&self) -> (FailureClass, &str) {
        (self.failure().class, &self.failure().reason)
    }

    /// The text of the lines.
    pub(crate) fn texts(&self) -> Vec<&str> {
        self.lines.iter().map(|(_, text)| text.as_str()).collect()
    }
}

/// Host services with a log and an empty store.
pub(crate) fn services_with_logs(lines: Arc<dyn LogSink>) -> Arc<HostServices> {
    Arc::new(HostServices { kv: Some(Arc::new(MemoryKv::new())), ..HostServices::with_logs(lines) })
}

/// Runs a handler on a job.
pub(crate) async fn run(handler: &Handler, job: Invocation) -> TestRun {
    run_on(handler, job, Some(Arc::new(MemoryKv::new()))).await
}

/// Runs a handler on a job with this store.
pub(crate) async fn run_on(
    handler: &Handler,
    job: Invocation,
    kv: Option<Arc<dyn KeyValue>>,
) -> TestRun {
    run_in(handler, job, |logs| HostServices { kv, ..HostServices::with_logs(logs) }).await
}

/// Runs a handler on a job with services that are created from its log.
pub(crate) async fn run_in(
    handler: &Handler,
    job: Invocation,
    services: impl FnOnce(Arc<dyn LogSink>) -> HostServices,
) -> TestRun {
    let lines = Lines::new();
    let services = Arc::new(services(lines.clone()));
    let report = handler.run(job, Interrupt::new(), services).await;
    TestRun { report, lines: lines.take() }
}

/// Runs [`probe`] with this body on the default job.
pub(crate) async fn run_probe(body: &str) -> TestRun {
    run(&load(&probe(body)), job()).await
}

/// A sink that collects lines, and wakes a waiting test.
pub(crate) struct Lines {
    kept: Mutex<Vec<(Level, String)>>,
    more: Notify,
}

impl Lines {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { kept: Mutex::default(), more: Notify::new() })
    }

    pub(crate) fn take(&self) -> Vec<(Level, String)> {
        std::mem::take(&mut self.kept.lock().expect("no panic in a sink"))
    }

    /// Waits for a line since the last wait.
    pub(crate) async fn one(&self) {
        let patience = Duration::from_secs(30);
        tokio::time::timeout(patience, self.more.notified()).await.expect("the guest says a line");
    }
}

impl LogSink for Lines {
    fn line(&self, job: &JobContext<'_>, level: Level, text: &str) {
        assert_eq!(job.topic.as_str(), "order.close");
        self.kept.lock().expect("no panic in a sink").push((level, text.to_owned()));
        self.more.notify_one();
    }
}

/// The directory of the hostile modules.
pub(crate) fn hostile_modules() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/hostile")
}

/// Logs a line, then sleeps an hour in the host (WASI's poll_oneoff with a relative clock).
pub(crate) const SLEEPER: &str = r#"(module
  (import "duebox_v1" "log" (func $log (param i32 i32 i32)))
  (import "wasi_snapshot_preview1" "poll_oneoff"
    (func $poll_oneoff (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 256) "asleep")
  (func (export "handle") (param i32) (result i32)
    (call $log (i32.const 2) (i32.const 256) (i32.const 6))
    (i32.store (i32.const 16) (i32.const 1))
    (i64.store (i32.const 24) (i64.const 3600000000000))
    (call $poll_oneoff (i32.const 0) (i32.const 64) (i32.const 1) (i32.const 128))))"#;

/// Logs a line, then loops endlessly.
pub(crate) const SPINNER: &str = r#"(module
  (import "duebox_v1" "log" (func $log (param i32 i32 i32)))
  (memory (export "memory") 1)
  (data (i32.const 256) "spinning")
  (func (export "handle") (param i32) (result i32)
    (call $log (i32.const 2) (i32.const 256) (i32.const 8))
    (loop $again (br $again))
    (i32.const 0)))"#;

/// Acks immediately.
pub(crate) const ACKS: &str =
    r#"(module (func (export "handle") (param i32) (result i32) (i32.const 0)))"#;
