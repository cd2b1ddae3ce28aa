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
//! | `dead.rs` | requeue, prune |
//! | `inspect.rs` | peek, depths, topics |
//! | `wake.rs` | the wake-up of a sleeping runner |

mod connection;
mod dead;
mod error;
mod inspect;
mod keys;
mod lease;
mod push;
mod reply;
mod script;
mod settle;
mod turn;
mod wake;
mod withdraw;

pub use connection::ConnectionSettings;
pub use dead::Requeued;
pub use error::QueueError;
pub use inspect::Depths;
pub use lease::{Lease, LeaseCall, Leased, Token};
pub use push::{Due, IfExists, NewJob, Pushed};
pub use settle::{Settled, Settlement, Verdict};
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
}

impl Queue {
    /// Connects to Redis and loads the scripts.
    ///
    /// # Errors
    /// [`QueueError`] if the address is malformed, or Redis does not answer within 5 s or refuses.
    pub async fn connect(settings: &ConnectionSettings, prefix: &str) -> Result<Self, QueueError> {
        let connection = Connection::open(settings).await?;
        script::load(&connection).await?;
        Ok(Self { connection, prefix: prefix.into() })
    }

    /// The connection itself, for questions that are not about jobs (INFO, CONFIG).
    pub fn redis(&self) -> redis::aio::ConnectionManager {
        self.connection.manager()
    }
}
