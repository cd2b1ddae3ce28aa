//! The daemon's connections to Redis, and the Redis server that it manages, if any.

use std::sync::Arc;

use duebox_queue::{ConnectionSettings, Queue};
use tracing::warn;

use crate::manifest::{Manifest, RedisUrl};
use crate::redis_host::fitness;
use crate::redis_host::handler_store::RedisKv;
use crate::redis_host::managed::ManagedRedis;

/// The connections.
pub(super) struct Connected {
    /// The managed server; `None` for an external one.
    pub(super) managed: Option<ManagedRedis>,
    pub(super) queue: Queue,
    /// The handlers' store, over a connection of its own.
    pub(super) store: Arc<RedisKv>,
    pub(super) settings: ConnectionSettings,
}

/// Starts the managed Redis if the manifest asks for one, and connects.
pub(super) async fn connect(manifest: &Manifest) -> anyhow::Result<Connected> {
    let managed = match &manifest.redis.url {
        RedisUrl::Url(_) => None,
        RedisUrl::Managed { dir, fsync } => Some(ManagedRedis::start(dir, *fsync).await?),
    };
    match connect_to(manifest, managed.as_ref()).await {
        Ok((queue, store, settings)) => {
            Ok(Connected { managed, queue, store: Arc::new(store), settings })
        }
        Err(error) => {
            stop(managed).await;
            Err(error)
        }
    }
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
    let password = manifest.redis.password.as_ref().map(|password| password.expose().to_owned());
    let settings = ConnectionSettings { url, password };
    let queue = Queue::connect(&settings, &manifest.redis.prefix).await?;
    if managed.is_none() {
        for warning in fitness::check(&mut queue.redis()).await? {
            warn!("{warning}");
        }
    }
    let store = Queue::connect(&settings, &manifest.redis.prefix).await?;
    Ok((queue, RedisKv::new(store), settings))
}

/// Stops the managed Redis, if there is one.
pub(super) async fn stop(managed: Option<ManagedRedis>) {
    if let Some(managed) = managed
        && let Err(error) = managed.stop().await
    {
        warn!(%error, "the managed Redis did not stop cleanly");
    }
}
