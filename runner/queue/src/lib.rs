//! The queue in Redis: its keys, its scripts, and every verb of a job's life.
//!
//! One verb is one Lua script and one atomic transition (`src/lua/*.lua`); no job changes state
//! outside of them, except that plain Redis commands may push. Redis owns the clock. Nothing here
//! knows that handlers are WebAssembly.
//!
//! | file | verbs |
//! |---|---|
//! | `push.rs` | push |
//! | `turn.rs` | extend, settle, reclaim, promote, lease: one pipeline |
//! | `withdraw.rs` | cancel, reschedule |
//! | `rules.rs` | configure: what the manifest says of a topic |
//! | `outbox.rs` | relay: follow-up jobs to their topics |
//! | `dead.rs` | requeue |
//! | `prune.rs` | prune, tidy |
//! | `pause.rs` | pause, resume |
//! | `get.rs` | get |
//! | `live.rs` | the live jobs that come first |
//! | `list.rs` | pages of dead and done jobs |
//! | `find.rs` | topics by their keys |
//! | `shards.rs` | the slots a topic is split over |
//! | `inspect.rs` | peek, depths, topics |
//! | `tick.rs` | tick: the jobs of schedules |
//! | `kv.rs` | the store of a topic: get, set, delete, add |
//! | `pull.rs` | pull: lease with a wait; settle and extend by id and token |
//! | `doctor.rs` | examine: what bad producers left, found and put right |
//! | `runners.rs` | what running daemons say of themselves |
//! | `events.rs` | what became of jobs, as a stream that others read |
//! | `traffic.rs` | how long Redis takes to answer |
//! | `wake.rs` | the wake-up of a sleeping runner |
//! | `bell.rs` | the same for many who wait in one process |
//! | `orders.rs` | order, answer: what people tell all daemons |

mod bell;
mod connection;
mod dead;
mod dead_info;
mod doctor;
mod error;
mod events;
mod find;
mod get;
mod inspect;
mod job;
mod keys;
mod kv;
mod lease;
mod list;
mod live;
mod orders;
mod outbox;
mod pause;
mod prune;
mod pull;
mod push;
mod reply;
mod rules;
mod runners;
mod script;
mod settle;
mod shards;
mod tick;
mod traffic;
mod turn;
mod wake;
mod withdraw;

pub use bell::{Bell, Bells};
pub use connection::ConnectionSettings;
pub use dead::{Requeued, RequeuedMany};
pub use dead_info::DeadInfo;
pub use doctor::{Checkup, Finding, FindingKind, Unexamined};
pub use error::QueueError;
pub use events::{Event, EventPage, EventPlace, EventPlaceError, KeptEvent};
pub use find::KeyScan;
pub use inspect::Depths;
pub use job::{Buried, Finished, Job, JobState, LeaseHeld};
pub use kv::{KV_BYTES_MAX, KV_NAMES_MAX, KvCondition, KvEntry, KvWrite};
pub use lease::{Lease, LeaseCall, Leased, LeasedJobs, Token};
pub use list::{
    Cursor, CursorError, DeadQuery, DeadSummary, DoneSummary, Page, PageOrder, PageQuery,
};
pub use live::LiveJob;
pub use outbox::Relayed;
pub use prune::{Keep, Swept, Tidied};
pub use pull::{Held, Pull, PullError, Pulled, TokenError, check_consumer};
pub use push::{Due, IfExists, NewJob, Pushed};
pub use rules::Rules;
pub use settle::{Finish, Settled, Settlement, Verdict};
pub use shards::Shards;
pub use tick::{ScheduleState, Tick, Ticked};
pub use traffic::Traffic;
pub use turn::{Extension, Promoted, Promotion, ReclaimRule, Reclaimed, Turn, TurnReply};
pub use wake::{Wake, WakeListener};
pub use withdraw::{Cancelled, Rescheduled};

use connection::Connection;

/// Ids one script handles at most: a backlog never blocks Redis.
pub const BATCH_MAX: usize = 1_000;

/// A handle on the queue: cheap to clone, and shared by all who use one Redis.
#[derive(Clone)]
pub struct Queue {
    connection: Connection,
    prefix: std::sync::Arc<str>,
    known_shards: std::sync::Arc<shards::KnownShards>,
}

impl Queue {
    /// Connects to Redis and loads the scripts.
    ///
    /// # Errors
    /// [`QueueError`] if the address is malformed, or Redis does not answer within 5 s or refuses.
    pub async fn connect(settings: &ConnectionSettings, prefix: &str) -> Result<Self, QueueError> {
        let connection = Connection::open(settings).await?;
        script::load(&connection).await?;
        Ok(Self { connection, prefix: prefix.into(), known_shards: Default::default() })
    }

    /// What this handle and its clones asked of Redis so far, and how long the answers took.
    pub fn traffic(&self) -> std::sync::Arc<Traffic> {
        std::sync::Arc::clone(self.connection.traffic())
    }

    /// The connection itself, for questions that are not about jobs (INFO, CONFIG).
    pub fn redis(&self) -> redis::aio::ConnectionManager {
        self.connection.manager()
    }
}
