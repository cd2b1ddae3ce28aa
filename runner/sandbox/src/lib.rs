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

mod abi;
mod assemblyscript;
mod backtrace;
mod block;
mod budget;
mod cache;
mod compile;
mod digest;
mod engine;
mod failure;
mod guest;
mod handler;
mod http;
mod instance;
mod interrupt;
mod invocation;
mod kv;
mod limits;
mod log;
mod memory;
mod meter;
mod missing;
mod module;
mod pagemap;
mod processor;
mod push;
mod refusal;
mod report;
mod rewind;
mod room;
mod said;
mod sandbox;
mod segments;
mod shelf;
mod snapshot;
mod span;
mod stdio;
mod tail;
mod traffic;
mod wasi;
mod world;

pub use digest::Digest;
pub use handler::Handler;
pub use http::{HttpClient, HttpConfig, HttpGrant, Origin, OriginError, is_public, trusting_tls};
pub use interrupt::{Interrupt, InterruptReason};
pub use invocation::Invocation;
pub use kv::{
    BYTES_MAX, Condition, Entry, KEY_MAX, KEYS_MAX, KeyValue, KvError, MemoryKv, TTL_MAX, VALUE_MAX,
};
pub use limits::{Grants, Instances, Limits};
pub use log::{JobContext, Level, LogSink};
pub use missing::{Grant, Missing};
pub use processor::thread_time;
pub use refusal::{LoadError, SandboxError};
pub use report::Report;
pub use sandbox::{Sandbox, SandboxConfig};
pub use span::{HostCall, Span, Target, Traced};
pub use world::World;
