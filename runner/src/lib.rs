//! The `duebox` daemon and its command line.
//!
//! Imports between these modules point one way:
//! `cli → daemon → http → report → service → worker → executor → deploy → background → observe →
//! language → manifest → auth · schedule · redis_host → monotonic · regular_file`.
//!
//! The path of a job: `background::poller` wakes the `worker` of its topic. The worker leases the
//! job, runs it on the `executor`, and settles it by `worker::verdict`. `background::scheduler`
//! pushes the jobs of the manifest's schedules, and `background::relay` pushes the follow-up jobs
//! of handlers.

pub mod auth;
pub mod background;
pub mod cli;
pub mod daemon;
pub mod deploy;
pub mod executor;
mod http;
pub mod language;
pub mod manifest;
mod millis;
pub mod monotonic;
pub mod observe;
pub mod redis_host;
mod regular_file;
pub mod report;
pub mod schedule;
pub mod service;
pub mod timer;
pub mod worker;

#[cfg(any(test, feature = "fuzzing"))]
pub use crate::http::fuzzing::PipeServer;
