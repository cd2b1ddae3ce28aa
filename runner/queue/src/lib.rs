//! The queue in Redis: its keys, its scripts, and every verb of a job's life.
//!
//! One verb is one Lua script and one atomic transition (`src/lua/*/*.lua`). A job changes state only
//! in a script; the one exception is a push by plain Redis commands. Redis owns the clock. The crate
//! does not know that handlers are WebAssembly.
//!
//! # Layout
//!
//! | module | what it holds |
//! |---|---|
//! | `error` | why a call failed |
//! | `wire` | connection, scripts, keys, replies, latency |
//! | `topic` | the shards and the limits of a topic, as values |
//! | `client` | the handle; asks for shards, writes limits |
//! | `produce` | push, cancel, reschedule, follow-ups, ticks of schedules |
//! | `work` | one pipeline of extend, settle, reclaim, promote and lease; pull; wake-ups |
//! | `operate` | get, list, depths, requeue, prune, pause, doctor |
//! | `control` | the status of runners, the control channel, events |
//! | `store` | the key-value store of a topic |
//!
//! Imports point up this table only; `produce`, `work`, `operate`, `control` and `store` do not import
//! each other.

mod client;
mod control;
mod error;
mod operate;
mod produce;
mod store;
mod topic;
mod wire;
mod work;

pub use crate::client::Queue;
pub use crate::control::events::{Event, EventPage, EventPlace, EventPlaceError, KeptEvent};
pub use crate::error::QueueError;
pub use crate::operate::dead::{Requeued, RequeuedMany};
pub use crate::operate::doctor::{Checkup, Finding, FindingKind, Unexamined};
pub use crate::operate::inspect::Depths;
pub use crate::operate::job::{Buried, Finished, Job, JobState, LeaseHeld};
pub use crate::operate::list::{
    Cursor, CursorError, DeadQuery, DeadSummary, DoneSummary, Page, PageOrder, PageQuery,
};
pub use crate::operate::list_live::LiveJob;
pub use crate::operate::retention::{Keep, Swept, Tidied};
pub use crate::operate::scan::KeyScan;
pub use crate::produce::cancel::Cancelled;
pub use crate::produce::outbox::Relayed;
pub use crate::produce::push::{Due, IfExists, NewJob, Pushed};
pub use crate::produce::reschedule::Rescheduled;
pub use crate::produce::ticks::{ScheduleState, Tick, Ticked};
pub use crate::store::kv::{KvCondition, KvEntry, KvWrite};
pub use crate::topic::limits::Rules;
pub use crate::topic::shards::Shards;
pub use crate::wire::connection::ConnectionSettings;
pub use crate::wire::constants::{BATCH_MAX, KV_BYTES_MAX, KV_NAMES_MAX};
pub use crate::wire::latency::Traffic;
#[doc(hidden)]
pub use crate::wire::script::digest_and_keys;
pub use crate::work::lease::{Lease, LeaseCall, Leased, LeasedJobs, Token};
pub use crate::work::listen::{Wake, WakeListener};
pub use crate::work::pull::{Held, Pull, PullError, Pulled, TokenError, check_consumer};
pub use crate::work::settle::{Finish, Settled, Settlement, Verdict};
pub use crate::work::turn::{
    Extension, Promoted, Promotion, ReclaimRule, Reclaimed, Turn, TurnReply,
};
pub use crate::work::wake_up::{Bell, Bells};
