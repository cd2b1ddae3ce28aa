//! One sandbox for all inputs, host services without effects, and the properties that every report must have.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{JobId, Outcome, TopicName};
use duebox_sandbox::{
    Grants, Handler, HostServices, HttpGrant, Interrupt, Invocation, JobContext, Level, Limits,
    LoadError, LogSink, MemoryKv, RunReport, Sandbox, SandboxConfig,
};
use tokio::runtime::Runtime;

/// Maximum number of log lines for a job with a log limit of 4 KiB, including lines about a broken
/// directory or store.
const LINES_MAX: usize = 64 + (4 << 10) / 16;

/// Runs the inputs.
pub struct Fuzzer {
    sandbox: Sandbox,
    runtime: Runtime,
}

/// Counts log lines.
#[derive(Default)]
struct Lines(AtomicUsize);

impl LogSink for Lines {
    fn line(&self, _job: &JobContext<'_>, _level: Level, text: &str) {
        assert!(
            !text.contains('\n') && text.len() <= 3 * (4 << 10),
            "a line of {} bytes",
            text.len()
        );
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Fuzzer {
    /// The instance of this process.
    pub fn get() -> &'static Self {
        static FUZZER: LazyLock<Fuzzer> = LazyLock::new(|| {
            let config = SandboxConfig { max_jobs: 4, memory_max: 4 << 20, tables_max: 1_000 };
            let sandbox = Sandbox::new(&config).expect("the sandbox must start");
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            let runtime = builder.worker_threads(1).enable_time().build();
            Fuzzer { sandbox, runtime: runtime.expect("the runtime must start") }
        });
        &FUZZER
    }

    /// Loads a module with every grant except directories of this machine.
    ///
    /// # Errors
    /// The sandbox's reason for refusing it.
    pub fn load(&self, bytes: &[u8], limits: Limits) -> Result<Handler, LoadError> {
        let origin = "https://granted.example".parse().expect("an origin");
        let pair = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let grants = Grants {
            config: pair("region", "eu"),
            env: pair("A", "b"),
            push: Some(vec!["granted.*".to_owned()]),
            http: Some(HttpGrant { allow: vec![origin], ..HttpGrant::default() }),
            kv: true,
            dirs: BTreeMap::new(),
        };
        self.sandbox.load(bytes, limits, grants)
    }

    /// Runs a job with an empty store and without a network.
    pub fn run(&self, handler: &Handler, payload: &[u8], ttr: Duration) -> RunReport {
        let lines = Arc::new(Lines::default());
        let services = HostServices {
            kv: Some(Arc::new(MemoryKv::new())),
            ..HostServices::with_logs(lines.clone())
        };
        let job = Invocation {
            id: JobId::new("42").expect("an id"),
            topic: TopicName::new("fuzz").expect("a topic"),
            payload: Bytes::copy_from_slice(payload),
            attempt: 1,
            max_attempts: 8,
            due_at_ms: 1_763_740_800_000,
            headers: BTreeMap::from([("trace".to_owned(), "t-1".to_owned())]),
            ttr,
            span: None,
        };
        let report = self.runtime.block_on(handler.run(job, Interrupt::new(), Arc::new(services)));
        let logged = lines.0.load(Ordering::Relaxed);
        assert!(logged <= LINES_MAX, "{logged} lines");
        report
    }
}

/// Checks the properties that every report must have.
pub fn assert_bounded(report: &RunReport, memory_max: usize) {
    assert!(!matches!(report.outcome, Outcome::HostFault(_)), "{:?}", report.outcome);
    assert!(report.memory_peak <= memory_max, "{} bytes", report.memory_peak);
    assert!(report.result.as_ref().is_none_or(|result| result.len() <= 64 << 10));
    assert!(report.follow_ups.len() <= 100 && report.log_tail.len() <= 64);
    if let Outcome::Failed(failure) = &report.outcome {
        assert!(failure.reason.len() <= 4 << 10, "a reason of {} bytes", failure.reason.len());
    }
}
