//! The daemon's connections to Redis, and the Redis server that it manages, if any.

use std::sync::Arc;

use anyhow::Context as _;
use duebox_queue::{ConnectionSettings, Queue};
use tokio::task::JoinHandle;
use tracing::warn;

use crate::manifest::{Manifest, RedisUrl};
use crate::observe::supervision::{Supervision, TaskKind};
use crate::redis_host::fitness;
use crate::redis_host::handler_store::RedisKv;
use crate::redis_host::managed::ManagedRedis;

/// The managed server, and the task that restarts it when it dies.
pub(super) struct WatchedRedis {
    redis: ManagedRedis,
    watch: JoinHandle<()>,
}

/// The connections.
pub(super) struct Connected {
    /// The managed server; `None` for an external one.
    pub(super) managed: Option<WatchedRedis>,
    pub(super) queue: Queue,
    /// The handlers' store, over a connection of its own.
    pub(super) store: Arc<RedisKv>,
    pub(super) settings: ConnectionSettings,
}

/// Starts the managed Redis if the manifest asks for one, and connects.
pub(super) async fn connect(
    manifest: &Manifest,
    supervision: &Supervision,
) -> anyhow::Result<Connected> {
    let managed = match &manifest.redis.url {
        RedisUrl::Url(_) => None,
        RedisUrl::Managed { dir, fsync } => {
            Some(watched(ManagedRedis::start(dir, *fsync).await?, supervision))
        }
    };
    match connect_to(manifest, managed.as_ref().map(|managed| &managed.redis)).await {
        Ok((queue, store, settings)) => {
            supervision.watch_connection("jobs", queue.connection_task());
            supervision.watch_connection("kv", store.connection_task());
            Ok(Connected { managed, queue, store: Arc::new(store), settings })
        }
        Err(error) => {
            stop(managed).await;
            Err(error)
        }
    }
}

fn watched(redis: ManagedRedis, supervision: &Supervision) -> WatchedRedis {
    let (supervision, first) = (supervision.clone(), redis.watcher());
    let watch = tokio::spawn(async move {
        supervision.keep(TaskKind::ManagedRedis, || first.watch()).await;
    });
    WatchedRedis { redis, watch }
}

async fn connect_to(
    manifest: &Manifest,
    managed: Option<&ManagedRedis>,
) -> anyhow::Result<(Queue, RedisKv, ConnectionSettings)> {
    let url = match (&manifest.redis.url, managed) {
        (_, Some(managed)) => managed.url().to_owned(),
        (RedisUrl::Url(url), None) => url.clone(),
        (RedisUrl::Managed { dir, .. }, None) => {
            anyhow::bail!("no Redis runs in {}", dir.display())
        }
    };
    let settings = manifest.redis.connection(&url);
    // A Redis that is refused keeps no key of this daemon.
    let queue = Queue::connect_without_writing(&settings, &manifest.redis.prefix).await?;
    if let Some(missing) = queue.check_durability().await? {
        let wanted = settings.durability();
        warn!(%missing, "pushes are answered as unconfirmed: redis.durability is \"{wanted}\"; check the replicas of Redis");
    }
    if managed.is_none() {
        queue.check_permissions().await?;
        for (address, mut server) in queue.redis_of_each() {
            let checked = fitness::check(&mut server, settings.is_cluster()).await;
            match address {
                None => checked?.iter().for_each(|warning| warn!("{warning}")),
                Some(address) => {
                    let warnings = checked.with_context(|| format!("the primary {address}"))?;
                    warnings.iter().for_each(|warning| warn!(%address, "{warning}"));
                }
            }
        }
    }
    // Redis is accepted: this connection stores the version of the layout.
    let store = Queue::connect(&settings, &manifest.redis.prefix).await?;
    Ok((queue, RedisKv::new(store), settings))
}

/// Stops the managed Redis, if there is one.
pub(super) async fn stop(managed: Option<WatchedRedis>) {
    let Some(WatchedRedis { redis, watch }) = managed else { return };
    if let Err(error) = redis.stop().await {
        warn!(%error, "the managed Redis did not stop cleanly");
    }
    // It ends with the server.
    drop(watch.await);
}
