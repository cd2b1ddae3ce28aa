//! Runs job handlers, which are WebAssembly modules, in sandboxes.
//!
//! ```text
//!  bytes ─ load ─▶ checked ─▶ compiled ─▶ Handler ─ run(Invocation) ─▶ RunReport { Outcome, … }
//!                                            │             ▲
//!                                            └─ instance ──┘  new for each job and dropped after it,
//!                                                             or reset to the state in which it began,
//!                                                             or kept as it is for a warm topic
//! ```
//!
//! docs/reference/abi.md is the contract with the guest; this crate is the host's side of it. It guarantees:
//! - No data of one job is visible to the next, unless the topic keeps instances warm.
//! - A guest ends at its deadline whatever it does, also while it waits.
//! - A guest reaches only its memory, its log, and what its topic grants.
//! - Whatever a guest does results in an [`Outcome`](duebox_job::Outcome), never in a panic or an error of
//!   the host.
//!
//! The crate knows neither Redis nor the manifest.
//!
//! # Example
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use duebox_job::{JobId, Outcome, TopicName};
//! use duebox_sandbox::{
//!     Grants, HostServices, Interrupt, Invocation, JobContext, Level, Limits, LogSink, Sandbox,
//!     SandboxConfig,
//! };
//!
//! /// Prints the log lines of handlers.
//! struct PrintLog;
//!
//! impl LogSink for PrintLog {
//!     fn line(&self, job: &JobContext<'_>, level: Level, text: &str) {
//!         println!("{} {}: {text}", job.topic, level.name());
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = SandboxConfig { max_jobs: 4, memory_max: 64 << 20, tables_max: 100_000 };
//! let sandbox = Sandbox::new(&config)?;
//!
//! // A handler that returns 0: ack.
//! let module = br#"(module (func (export "handle") (param i32) (result i32) (i32.const 0)))"#;
//! let handler = sandbox.load(module, Limits::default(), Grants::default())?;
//!
//! let invocation = Invocation {
//!     id: JobId::new("42")?,
//!     topic: TopicName::new("order.close")?,
//!     payload: "{}".into(),
//!     attempt: 1,
//!     max_attempts: 8,
//!     due_at_ms: 1_763_740_800_000,
//!     headers: BTreeMap::new(),
//!     ttr: Duration::from_secs(30),
//!     span: None,
//! };
//! let services = Arc::new(HostServices::with_logs(Arc::new(PrintLog)));
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
//! let report = runtime.block_on(handler.run(invocation, Interrupt::new(), services));
//! assert_eq!(report.outcome, Outcome::Acked);
//! # Ok(())
//! # }
//! ```
//!
//! # Modules
//!
//! Imports between the modules run in one direction:
//!
//! ```text
//! sandbox → handler → module → outcome → instance → imports → engine
//!   → memory_budget · grants · limits · invocation · config · digest · snapshot_seed · error
//! ```
//!
//! `imports` has one file for each import, which owns the state that it needs. `instance::guest` composes
//! these states.

mod config;
mod digest;
mod engine;
mod error;
mod grants;
mod handler;
mod imports;
mod instance;
mod invocation;
mod limits;
mod memory_budget;
mod module;
mod outcome;
mod sandbox;
mod snapshot_seed;
mod thread_slot;

pub use config::SandboxConfig;
pub use digest::Digest;
pub use error::{CacheDirError, SandboxError};
pub use grants::{Grants, HttpGrant, Origin, OriginError};
pub use handler::Handler;
pub use imports::http::{HttpClient, HttpConfig, TlsError, client_tls_config, is_public};
pub use imports::intercept::{
    HostAnswer, HostClock, HostRequest, HttpFailure, HttpResponse, Interceptor,
};
pub use imports::kv::{
    KV_BYTES_MAX, KV_KEY_MAX, KV_KEYS_MAX, KV_TTL_MAX, KV_VALUE_MAX, KeyValue, KvCondition,
    KvEntry, KvError, MemoryKv,
};
pub use imports::log::{JobContext, Level, LogSink};
pub use imports::services::HostServices;
pub use imports::spans::{AttemptTrace, CallTarget, HostCall};
pub use instance::cpu_time::thread_cpu_time;
pub use instance::interrupt::{Interrupt, InterruptReason};
pub use invocation::{AttemptSpan, Invocation};
pub use limits::{Instances, Limits};
pub use module::{
    Capability, CompilerProcess, LoadError, MissingCapabilities, ModuleOutline, OutlineExport,
    OutlineImport, OutlineSection, Producer, Script, SnapshotError, run_compiler,
    without_debug_sections,
};
pub use outcome::report::RunReport;
pub use sandbox::Sandbox;
pub use snapshot_seed::{InvalidSeed, SnapshotSeed};
