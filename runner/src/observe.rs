//! Records of jobs and of the process: the log, counters, statistics, events and traces.
//!
//! All other layers write here; no write waits for a reader.

pub mod attempt_record;
pub mod cost;
pub mod counters;
pub mod events;
pub(crate) mod fail_point;
pub mod failure_reasons;
pub mod health;
pub mod history;
pub mod log;
pub mod module_stats;
pub mod panics;
pub mod printable;
pub mod pull_counters;
pub mod push_counters;
pub mod recent_attempts;
pub mod recording;
pub mod redaction;
pub mod sick_topics;
pub mod supervision;
pub mod tally;
pub mod traces;
