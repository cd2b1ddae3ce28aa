//! Wasmtime, narrowed to what a job may do: load a handler module, run it on one job, say what came
//! of it.
//!
//! ```text
//!  bytes ─ load ─▶ checked ─ compiled ─▶ Handler ─ run(Invocation) ─▶ Report { Outcome, … }
//!                                          │              ▲
//!                                          └─ instance ───┘  a fresh one each job, dropped after it;
//!                                                            one of a snapshot is put back to its start;
//!                                                            a warm topic keeps it for the next as it is
//! ```
//!
//! The contract with the guest is docs/reference/abi.md; this crate is its host side. What it keeps: nothing of one
//! job is visible to the next, unless its topic keeps instances warm; a guest ends at its deadline whatever it does, also while it waits;
//! it reaches only the memory, the log and the values it was granted; whatever a guest does is an
//! [`Outcome`](duebox_job::Outcome), never a panic or an error of the host. Redis and the manifest
//! are unknown here.

mod digest;
mod engine;
mod handler;
mod imports;
mod instance;
mod invocation;
mod limits;
mod memory_budget;
mod module;
mod outcome;
mod sandbox;

pub use digest::Digest;
pub use handler::Handler;
pub use imports::http::{
    HttpClient, HttpConfig, HttpGrant, Origin, OriginError, is_public, trusting_tls,
};
pub use imports::kv::{
    BYTES_MAX, Condition, Entry, KEY_MAX, KEYS_MAX, KeyValue, KvError, MemoryKv, TTL_MAX, VALUE_MAX,
};
pub use imports::log::{JobContext, Level, LogSink};
pub use imports::services::World;
pub use imports::spans::{HostCall, Span, Target, Traced};
pub use instance::cpu_time::thread_time;
pub use instance::interrupt::{Interrupt, InterruptReason};
pub use invocation::Invocation;
pub use limits::{Grants, Instances, Limits};
pub use module::error::{LoadError, SandboxError};
pub use module::missing::{Grant, Missing};
pub use outcome::report::Report;
pub use sandbox::{Sandbox, SandboxConfig};
