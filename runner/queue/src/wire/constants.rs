//! The numbers that Rust and Lua share. Each is written once, here: a script that names one of [`LUA`]
//! is sent with a `local` line for it.

use duebox_job::{ATTEMPTS_MAX, DELAY_MAX_MS, DUE_MS_RANGE, SNOOZES_MAX};

/// Jobs or ids that one script call handles at most, so that a backlog never blocks Redis.
pub const BATCH_MAX: usize = 1_000;

/// Payload bytes in one batch of a push, unless a single job has more.
pub(crate) const BATCH_BYTES: usize = 1 << 20;

/// The version of the layout in Redis. A change that an older program would misread raises it.
pub(crate) const LAYOUT: u64 = 1;

/// Bytes of payloads and of what is kept of jobs that one settle or relay call sends at most, unless a
/// single job has more: a few milliseconds of Redis' time.
pub const CALL_BYTES_MAX: usize = 1 << 20;

/// Names that the key-value store of one topic holds at most.
pub const KV_NAMES_MAX: usize = 100_000;
/// Bytes that the names and values of one topic's store take at most, together.
pub const KV_BYTES_MAX: usize = 64 << 20;

/// Failures, crashes and snoozes of a job share one number in Redis (docs/reference/queue.md, "Keys"):
/// failures + `CRASH` × crashes + `SNOOZE` × snoozes + `SUSPECT` for a suspect.
pub(crate) const CRASH: u64 = 1_000_000;
/// See [`CRASH`].
pub(crate) const SNOOZE: u64 = 1_000 * CRASH;
/// See [`CRASH`]. A suspect was leased ahead when its runner died, so it may have started.
pub(crate) const SUSPECT: u64 = 2_000_000 * SNOOZE;

/// By how much a priority other than normal moves a job's score in `ready`, in ms.
pub(crate) const PRIORITY_STEP: u64 = 200_000_000_000_000;
/// The latest due time, unix ms.
pub(crate) const DUE_MAX: u64 = *DUE_MS_RANGE.end();

/// The latest time, and the longest span, that a call may name, in ms.
pub(crate) const TIME_MAX: u64 = 1_000_000_000_000_000;
/// The longest lease and the longest extension of one: a day, in ms.
pub(crate) const LEASE_MAX_MS: u64 = 86_400_000;

/// The numbers by the names that scripts use.
pub(super) const LUA: [(&str, u64); 16] = [
    ("BATCH_MAX", BATCH_MAX as u64),
    ("CRASH", CRASH),
    ("SNOOZE", SNOOZE),
    ("SUSPECT", SUSPECT),
    ("ATTEMPTS_MAX", ATTEMPTS_MAX as u64),
    ("SNOOZES_MAX", SNOOZES_MAX as u64),
    ("PRIORITY_STEP", PRIORITY_STEP),
    ("DUE_MIN", *DUE_MS_RANGE.start()),
    ("DUE_MAX", DUE_MAX),
    ("TIME_MAX", TIME_MAX),
    ("DELAY_MAX_MS", DELAY_MAX_MS),
    ("LEASE_MAX_MS", LEASE_MAX_MS),
    ("KV_NAMES_MAX", KV_NAMES_MAX as u64),
    ("KV_BYTES_MAX", KV_BYTES_MAX as u64),
    ("KV_NAME_BYTES_MAX", 256),
    ("KV_VALUE_BYTES_MAX", 65_536),
];
