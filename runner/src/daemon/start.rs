//! Starts a built daemon: workers, background loops and the HTTP server.

use std::sync::Arc;

use duebox_queue::ConnectionSettings;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tracing::info;

use super::{Supervisor, redis, systemd};
use crate::http::{self, Addresses, HttpServer, ServerSetup};
use crate::observe::health::Phase;

/// What only the start needs.
pub(super) struct Startup {
    /// The bound addresses of the HTTP server.
    pub(super) addresses: Addresses,
    /// The Redis for the HTTP server's connection.
    pub(super) redis: ConnectionSettings,
    /// The channel for orders from the control channel.
    pub(super) orders: mpsc::Sender<String>,
}

impl Supervisor {
    /// Starts everything. On an error it stops the managed Redis.
    pub(super) async fn start(&mut self, startup: Startup, http: &Runtime) -> anyhow::Result<()> {
        let Startup { addresses, redis, orders } = startup;
        self.bind_all().await;
        self.bind_listed().await;
        self.start_loops(orders, addresses.api.as_ref().map(http::Listening::address));
        if let Err(error) = self.start_http(addresses, redis, http).await {
            redis::stop(self.owned.managed.take()).await;
            return Err(error);
        }
        self.services.records.health.enter(Phase::Serving);
        systemd::ready();
        info!(topics = self.topics.served.len(), runner = %self.services.runner_id, "ready");
        Ok(())
    }

    /// Starts the HTTP server, if it has an address.
    async fn start_http(
        &mut self,
        addresses: Addresses,
        redis: ConnectionSettings,
        threads: &Runtime,
    ) -> anyhow::Result<()> {
        if addresses.is_empty() {
            return Ok(());
        }
        let (services, records) = (&self.services, &self.services.records);
        let setup = ServerSetup {
            threads: threads.handle().clone(),
            redis,
            prefix: self.manifest.redis.prefix.clone(),
            topic_discovery: self.published.topic_discovery.clone(),
            wake_up_hub: services.wake_up_hub.clone(),
            probes: self.probes(),
            push_counters: Arc::clone(&records.push_counters),
            watched: self.published.watched.subscribe(),
            runner_id: Arc::clone(&services.runner_id),
            pull_counters: Arc::clone(&records.pull_counters),
            traces: records.traces.clone(),
            events: records.events.clone(),
            sick_topics: Arc::clone(&records.sick_topics),
            supervision: records.health.supervision().clone(),
        };
        self.owned.server = Some(HttpServer::start(addresses, setup).await?);
        Ok(())
    }
}
