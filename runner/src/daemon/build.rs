//! Builds the daemon: compiles the modules, connects to Redis, creates the services. Nothing serves yet. A
//! failed step leaves nothing running.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tracing::info;

use super::config::Config;
use super::published::Published;
use super::served::Topics;
use super::services::Services;
use super::start::Startup;
use super::threads::AllThreads;
use super::{Inbox, Owned, Supervisor, redis};
use crate::background::topic_discovery::TopicDiscovery;
use crate::deploy::deployments::Deployments;
use crate::deploy::entry::entries;
use crate::deploy::reload::Reloader;
use crate::deploy::{module_file, modules};
use crate::http::Addresses;
use crate::observe::health::Health;

/// How often the modules on trial are judged.
const JUDGE_EVERY: Duration = Duration::from_millis(200);

/// The most orders that wait.
const ORDERS_MAX: usize = 16;

/// Builds the supervisor, and what it needs to start.
pub(super) async fn build(
    config: Config,
    threads: &AllThreads,
) -> anyhow::Result<(Supervisor, Startup)> {
    // Report an address in use before compiling anything.
    let addresses = Addresses::bind(&config.manifest.server)?;
    let topics = entries(&config.manifest).count();
    info!(manifest = %config.manifest.path.display(), topics, "starting: compiling the handlers");
    let (size, program) = (config.sandbox(), module_file::program());
    let sandbox = Arc::new(module_file::sandbox(&size, &config.manifest.runner, program)?);
    let Config { manifest, environment } = config;
    // Before the modules are read, so that a later change is found.
    let reloader = Reloader::new(&manifest, environment);
    let loaded = modules::load_all(&sandbox, &manifest).await?;
    let health = Arc::<Health>::default();
    let mut connected = redis::connect(&manifest, health.supervision()).await?;
    let managed = connected.managed.take();
    let prefix = &manifest.redis.prefix;
    let (services, (export_task, events_task)) =
        match Services::start(&manifest.runner, prefix, sandbox, &connected, (threads, health)) {
            Ok(started) => started,
            Err(error) => {
                redis::stop(managed).await;
                return Err(error);
            }
        };
    let topics = Topics::default();
    let mut deployments = Deployments::default();
    let evidence = |entry: &_| Supervisor::evidence(&topics, &manifest, entry);
    deployments.deploy(loaded, &manifest, evidence);
    let manifest = Arc::new(manifest);
    let (topic_discovery, found) = TopicDiscovery::new(Arc::clone(&manifest));
    let (given, orders) = mpsc::channel(ORDERS_MAX);
    let mut judge_at = tokio::time::interval(JUDGE_EVERY);
    judge_at.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let supervisor = Supervisor {
        published: Published::new(topic_discovery, &manifest),
        manifest,
        services,
        deployments,
        reloader,
        topics,
        inbox: Inbox { found, orders, look: Arc::default(), judge_at },
        owned: Owned {
            managed,
            server: None,
            export_task,
            events_task,
            background: JoinSet::new(),
        },
    };
    Ok((supervisor, Startup { addresses, redis: connected.settings, orders: given }))
}
