//! Write Duebox handlers in Rust: a function that takes a [`Job`] and returns a [`Verdict`].
//!
//! ```
//! use duebox_sdk::{Job, Verdict, info};
//!
//! fn handle(job: Job) -> Verdict {
//!     match job.text() {
//!         Ok(order) => {
//!             info!("closing order {order} in attempt {}", job.attempt());
//!             Verdict::Ack
//!         }
//!         Err(error) => Verdict::drop(error),
//!     }
//! }
//!
//! duebox_sdk::handler!(handle);
//! # fn main() {}
//! ```
//!
//! The layers are: your function → [`Job`], [`Verdict`], [`log`] → `abi`, the only module with
//! `unsafe`, which calls the imports of `docs/reference/abi.md`. On targets other than wasm32, [`testing`]
//! provides these imports, so that handlers compile and are tested natively.

mod abi;
mod block;
mod config;
mod follow_up;
pub mod http;
mod job;
pub mod kv;
pub mod log;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
mod verdict;

pub use config::ConfigError;
#[cfg(feature = "json")]
pub use follow_up::ResultError;
pub use follow_up::{Due, FollowUp, Priority, PushError, ResultTooLarge};
pub use job::Job;
#[cfg(feature = "json")]
pub use job::JsonError;
pub use log::Level;
pub use verdict::{IntoVerdict, Verdict};

/// Fills `bytes` with random bytes from the host.
pub fn random(bytes: &mut [u8]) {
    abi::random(bytes);
}

/// Makes a function the module's handler: `duebox_sdk::handler!(handle);`, once in a crate of type
/// `cdylib`.
///
/// The function takes a [`Job`] and returns any type that implements [`IntoVerdict`]: a
/// [`Verdict`], or a `Result` whose error means nack.
#[macro_export]
macro_rules! handler {
    ($handle:path) => {
        const _: () = {
            #[cfg_attr(target_arch = "wasm32", unsafe(export_name = "handle"))]
            #[allow(dead_code, reason = "only the host calls it")]
            extern "C" fn duebox_handle(payload_len: u32) -> i32 {
                $crate::run(payload_len, $handle)
            }
        };
    };
}

/// Runs a handler on the job that the host passes in. Called by [`handler!`].
#[doc(hidden)]
pub fn run<V: IntoVerdict>(payload_len: u32, handle: impl FnOnce(Job) -> V) -> i32 {
    abi::report_panics();
    handle(Job::new(payload_len)).into_verdict().settle()
}

/// Compiles the README's code with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Compiles the handler in the project's README, which the published package does not contain.
#[cfg(all(doctest, duebox_checkout))]
#[doc = include_str!("../../../README.md")]
struct ProjectReadme;
