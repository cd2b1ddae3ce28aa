//! What others read of this process: its status in Redis and its metrics.
//!
//! Nothing here changes the state that it reports.

mod breaker_status;
mod lateness;
mod manifest_refusal;
pub mod metrics;
pub mod process;
pub mod status;
