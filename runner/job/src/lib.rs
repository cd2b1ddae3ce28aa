//! The vocabulary of Duebox: what a job is and what can come of it.
//!
//! ```text
//!  push ─ delay ─▶ pending ─ due ─▶ ready ─ lease ─▶ unack ── ack ──▶ gone
//!    └── no delay ─────────────────▶  ▲                │
//!                                     │                ├─ nack, trap, timeout …; attempts left ─┐
//!                                     │                └─ lease expired (runner died)           ▼
//!                                     └──────────────── due ──────────────────────────────── retry
//!                                         attempts spent, or drop ─▶ dead ── requeue ──▶ ready
//! ```
//!
//! The crate does no I/O and reads no clock: callers pass the time in. Every name from outside is
//! checked once, by its constructor, and is valid from then on.

mod backoff;
mod duration;
mod durations;
mod follow_up;
mod id;
mod options;
mod outcome;
mod rate;
mod topic;

pub use backoff::{Backoff, BackoffError};
pub use duration::{DurationError, format_duration, parse_duration};
pub use durations::{CountedDurations, Durations};
pub use follow_up::{FollowUp, FollowUpDue, FollowUpError, PARENT_HEADER};
pub use id::{IdError, JobId};
pub use options::{OptionError, Options, Priority};
pub use outcome::{Failure, FailureClass, Outcome, Policy};
pub use rate::{Rate, RateError};
pub use topic::{Shard, TopicError, TopicName};

/// The most attempts of a job; the failure counter in Redis holds no more (docs/reference/queue.md,
/// "Keys").
pub const ATTEMPTS_MAX: u32 = 999_999;

/// The most crashes allowed to a job; the same counter holds no more.
pub const CRASHES_MAX: u32 = 999;

/// The most snoozes allowed to a job; the same counter holds no more.
pub const SNOOZES_MAX: u32 = 1_000_000;

/// The longest delay of a push, a retry or a backoff: 10 years, in milliseconds.
pub const DELAY_MAX_MS: u64 = 10 * 365 * 86_400_000;

/// Absolute due times are unix milliseconds within these bounds; outside them a producer has mixed
/// up its units (seconds below, microseconds above).
pub const DUE_MS_RANGE: std::ops::RangeInclusive<u64> = 100_000_000_000..=100_000_000_000_000;

/// The README's code is compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
