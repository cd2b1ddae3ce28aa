//! A delayed job queue in Redis: push a job now, and a worker gets it when it falls due.
//!
//! ```text
//!  push ─ delay ─▶ pending ─ due ─▶ ready ─ lease ─▶ unack ── ack ──▶ gone, or done for a while
//!    └── no delay ─────────────────▶  ▲                │
//!                                     │                ├─ nack; attempts left ──────────────────┐
//!                                     │                └─ lease expired (worker died)           ▼
//!                                     └──────────────── due ──────────────────────────────── retry
//!                                         attempts spent, or drop ─▶ dead ── requeue ──▶ ready
//! ```
//!
//! - Delivery is at least once. Two workers never hold the lease of one job at the same time.
//! - No job is leased before it is due. Redis owns the clock: the clocks of workers decide nothing.
//! - Every change of a job's state is one Lua script, so it happens as a whole or not at all.
//! - A settlement is fenced by the token of its lease: a worker that lost its lease changes nothing.
//!
//! Redis 7.0 or later is the only dependency at run time.
//!
//! # Example
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! use duebox_queue::{ConnectionSettings, IfExists, JobId, NewJob, PullOptions, Queue, Verdict};
//!
//! # let server = duebox_harness::RedisServer::start();
//! # let url = server.url();
//! let queue = Queue::connect(&ConnectionSettings::new(url), "shop").await?;
//! let mail = queue.topic("mail")?;
//!
//! let job = NewJob::new(JobId::new("welcome-42")?, "Hello, Ada!");
//! mail.push(&[job], IfExists::Reject).await?;
//!
//! // Up to ten jobs, each leased for 15 s; wait up to 5 s for the first.
//! let options = PullOptions::new("worker-1", 10, Duration::from_secs(15), Duration::from_secs(5))?;
//! for lease in mail.pull(&options).await?.leases {
//!     let verdict = match send(&lease.payload) {
//!         Ok(()) => Verdict::Ack,
//!         Err(reason) => Verdict::nack(Duration::from_secs(30), 5, &reason),
//!     };
//!     mail.settle(&[lease.settle(verdict)]).await?;
//! }
//! assert_eq!(mail.depths().await?.ready, 0);
//!
//! fn send(payload: &[u8]) -> Result<(), String> {
//!     println!("{}", String::from_utf8_lossy(payload));
//!     Ok(())
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Queue`] is the connection; [`Queue::topic`] gives the verbs of one [`Topic`]. The methods of `Queue`
//! itself serve programs that work on many topics, such as the Duebox daemon: [`Queue::turn`] does in one
//! pipeline what a worker needs between two batches. The feature `redis-connection` adds
//! `Queue::redis`, which gives out the connection of the redis crate.
//!
//! # Layout
//!
//! | module | what it holds |
//! |---|---|
//! | `error` | why a call failed |
//! | `wire` | connection, scripts, keys, replies, latency |
//! | `topic` | the shards and the limits of a topic, as values |
//! | `client` | the connection and its prefix; asks for shards, writes limits |
//! | `produce` | push, cancel, reschedule, follow-ups, ticks of schedules |
//! | `work` | one pipeline of extend, settle, reclaim, promote and lease; pull; wake-ups |
//! | `operate` | get, list, depths, requeue, prune, pause, doctor |
//! | `control` | the status of runners, the control channel, events |
//! | `store` | the key-value store of a topic |
//! | `handle` | the verbs of one topic, and of its store |
//!
//! Imports point up in this table; `produce`, `work`, `operate`, `control` and `store` do not import
//! each other.

mod client;
mod control;
mod error;
mod handle;
mod operate;
mod produce;
mod store;
mod topic;
mod wire;
mod work;

pub use duebox_job::{
    Backoff, FailureClass, FollowUp, FollowUpDue, IdError, JobId, OptionError, Options, Priority,
    Rate, TopicError, TopicName,
};

pub use crate::client::Queue;
pub use crate::control::events::{Event, EventId, EventIdError, EventPage, StoredEvent};
pub use crate::control::histories::HistoryFields;
pub use crate::control::runners::Statuses;
pub use crate::error::{QueueError, TlsProblem};
pub use crate::handle::{Store, Topic};
pub use crate::operate::dead::{Requeued, RequeuedMany};
pub use crate::operate::doctor::{Checkup, Finding, FindingKind, Unexamined};
pub use crate::operate::inspect::Depths;
pub use crate::operate::job::{CurrentLease, DeadEntry, DoneEntry, Job, JobState};
pub use crate::operate::list::{
    Cursor, CursorError, DeadQuery, DeadSummary, DoneSummary, Page, PageOrder, PageQuery,
};
pub use crate::operate::list_live::LiveJob;
pub use crate::operate::list_state::{
    JobQuery, ListCursor, ListCursorError, ListedJob, ListedJobs,
};
pub use crate::operate::permissions::{Role, rules_of_topology};
pub use crate::operate::recordings::{RECORDINGS_MAX, StoredRecording};
pub use crate::operate::retention::{Pruned, PrunedRecords, RetentionLimits};
pub use crate::operate::scan::KeyScan;
pub use crate::operate::slow_log::SlowCall;
pub use crate::produce::cancel::Cancelled;
pub use crate::produce::relay::{RelayPass, Relayed};
pub use crate::produce::reschedule::Rescheduled;
pub use crate::produce::ticks::{ScheduleState, Tick, Ticked};
pub use crate::store::kv::{KvCondition, KvEntry, KvWrite};
pub use crate::store::kv_writer::KvWriter;
pub use crate::topic::limits::Limits;
pub use crate::topic::new_job::{Due, IfExists, NewJob, Pushed};
pub use crate::topic::shards::Shards;
pub use crate::wire::cluster::PrimaryAway;
pub use crate::wire::connection_task::ConnectionTask;
pub use crate::wire::constants::{BATCH_MAX, CALL_BYTES_MAX, KV_BYTES_MAX, KV_NAMES_MAX};
pub use crate::wire::copy_waits::CopyStats;
pub use crate::wire::durability::Durability;
pub use crate::wire::last_attempt::LastAttempt;
pub use crate::wire::latency::LatencyStats;
pub use crate::wire::link::REPLY_MAX;
pub use crate::wire::redis_clock::RedisClock;
#[doc(hidden)]
pub use crate::wire::script::{digest_and_keys, script_paths};
pub use crate::wire::sentinel_report::{SentinelPrimary, SentinelReport, SentinelView};
pub use crate::wire::settings::ConnectionSettings;
pub use crate::wire::stream::TlsSession;
#[doc(hidden)]
pub use crate::wire::transport::Transport;
pub use crate::work::extend::Extension;
pub use crate::work::lease::{Lease, LeaseCall, Leased, LeasedJobs, Token};
pub use crate::work::listen::{Listener, Notification, ShardWatch};
pub use crate::work::promote::{Promoted, Promotion};
pub use crate::work::pull::{
    LeasedJob, PullOptions, PullOptionsError, Pulled, TokenError, check_consumer,
};
pub use crate::work::reclaim::{ReclaimRule, Reclaimed};
pub use crate::work::settle::{Finish, Remains, Settled, Settlement, Verdict};
pub use crate::work::turn::{Turn, TurnReply};
pub use crate::work::wake_up::{WakeUpHub, WakeUpReceiver};
