//! The daemon: config → build → run.
//!
//! ```text
//!  manifest ─▶ modules loaded ─▶ Redis, fit? ─▶ a worker a topic ─▶ supervise ─ SIGTERM ─▶ drain
//!                                                     ▲                │
//!                                                     └─── reload ◀────┘ file changed
//! ```
//!
//! It starts completely or not at all: if Redis is unreachable or unfit, or a handler is refused, no job
//! runs.
//!
//! | file | what |
//! |---|---|
//! | `config.rs` · `build.rs` · `services.rs` | from the manifest to what topics are served with |
//! | `redis.rs` · `threads.rs` · `file_limit.rs` | the connections, the threads, the limit of open files |
//! | `start.rs` · `loops.rs` · `supervise.rs` · `drain.rs` | the life of the daemon |
//! | `bind.rs` · `served.rs` · `published.rs` | the topics that are served, and what others read of them |
//! | `reload.rs` · `control.rs` · `file_watch.rs` | changes of files; orders of operators |
//! | `topic_status.rs` · `probe_routes.rs` | status, probes and metrics |
//! | `signals.rs` · `systemd.rs` | the system around the process |

mod bind;
mod build;
mod config;
mod control;
mod drain;
pub mod file_limit;
pub mod file_watch;
mod loops;
mod orphans;
mod probe_routes;
mod published;
mod redis;
mod reload;
mod served;
mod services;
pub mod signals;
mod start;
mod supervise;
pub mod systemd;
mod threads;
mod topic_status;

use std::sync::Arc;

use duebox_job::TopicName;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::Interval;
use tracing::info;

use self::published::Published;
use self::redis::WatchedRedis;
use self::served::Topics;
use self::services::Services;
use self::signals::Signals;
use self::start::Startup;
use self::threads::AllThreads;
use crate::deploy::deployments::{Deployments, Evidence};
use crate::deploy::entry::EntryName;
use crate::deploy::reload::Reloader;
use crate::http::HttpServer;
use crate::manifest::Manifest;
use crate::observe::events::EventsTask;
use crate::observe::panics;
use crate::observe::traces::ExportTask;

pub use self::config::Config;
pub use crate::deploy::modules::BadModules;

/// A daemon that is ready to run: its modules are compiled and Redis is connected.
pub struct Daemon {
    threads: AllThreads,
    signals: Signals,
    supervisor: Supervisor,
    startup: Startup,
}

impl Daemon {
    /// Compiles the modules, connects to Redis and binds the addresses. No job runs yet. `None` if a signal
    /// stopped it before it was done.
    ///
    /// # Errors
    /// What prevents the start, for people.
    pub fn build(config: Config) -> anyhow::Result<Option<Self>> {
        file_limit::raise();
        let threads = AllThreads::start(&config.manifest.runner)?;
        let built = threads.control.block_on(panics::or_abort("the start", async {
            let mut signals = Signals::listen()?;
            tokio::select! {
                built = build::build(config, &threads) => built.map(|built| Some((built, signals))),
                () = signals.stop() => Ok(None),
            }
        }));
        match built {
            Ok(Some(((supervisor, startup), signals))) => {
                Ok(Some(Self { threads, signals, supervisor, startup }))
            }
            Ok(None) => {
                info!("stopped before it served");
                threads.shutdown();
                Ok(None)
            }
            Err(error) => {
                threads.shutdown();
                Err(error)
            }
        }
    }

    /// Serves the topics until a signal stops the daemon, then drains.
    ///
    /// # Errors
    /// If the HTTP server cannot start, for people.
    pub fn run(self) -> anyhow::Result<()> {
        let Self { threads, signals, mut supervisor, startup } = self;
        // Nothing else knows which topics are served by which modules.
        let ended = threads.control.block_on(panics::or_abort("the supervisor", async {
            supervisor.start(startup, &threads.http).await?;
            supervisor.supervise(signals).await;
            Ok(())
        }));
        threads.shutdown();
        ended
    }
}

/// Decides which topics are served, and how. One task owns it; all others read what it publishes.
struct Supervisor {
    manifest: Arc<Manifest>,
    services: Services,
    deployments: Deployments,
    reloader: Reloader,
    topics: Topics,
    published: Published,
    inbox: Inbox,
    owned: Owned,
}

/// What the supervisor reacts to, apart from signals and files.
struct Inbox {
    /// New topics that match patterns of the manifest.
    found: mpsc::Receiver<TopicName>,
    /// Orders from the control channel.
    orders: mpsc::Receiver<String>,
    /// Notified by an order to look at the files.
    look: Arc<Notify>,
    /// When to judge the modules on trial.
    judge_at: Interval,
}

/// What the supervisor stops at its end.
struct Owned {
    managed: Option<WatchedRedis>,
    server: Option<HttpServer>,
    export_task: ExportTask,
    events_task: EventsTask,
    background: JoinSet<()>,
}

impl Supervisor {
    /// The results of an entry's jobs.
    fn evidence(topics: &Topics, manifest: &Manifest, entry: &EntryName) -> Evidence {
        let workers: Vec<_> = topics.workers_of(manifest, entry).collect();
        Evidence {
            stats: workers.iter().map(|workers| Arc::clone(&workers.stats.module_stats)).collect(),
            is_held_back: workers.iter().any(|workers| workers.is_held_back()),
        }
    }
}
