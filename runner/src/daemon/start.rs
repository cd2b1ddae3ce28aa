//! The start of a daemon that is built: workers, background loops and the HTTP server.

use std::net::SocketAddr;
use std::sync::Arc;

use duebox_queue::ConnectionSettings;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tracing::info;

use super::{Supervisor, redis, systemd};
use crate::background::{maintenance, poller, rules, scheduler};
use crate::http::{self, Addresses, HttpServer, ServerSetup};
use crate::observe::health::Phase;
use crate::report::status;

/// What is needed at the start only.
pub(super) struct Startup {
    /// The addresses of the HTTP server, bound already.
    pub(super) addresses: Addresses,
    /// Where the HTTP server connects to.
    pub(super) redis: ConnectionSettings,
    /// Where orders of operators are sent.
    pub(super) orders: mpsc::Sender<String>,
}

impl Supervisor {
    /// Starts all that serves. On an error the managed Redis is stopped again.
    pub(super) async fn start(&mut self, startup: Startup, http: &Runtime) -> anyhow::Result<()> {
        let Startup { addresses, redis, orders } = startup;
        self.bind_all().await;
        self.bind_listed().await;
        self.start_loops(orders, addresses.api.as_ref().map(http::Listening::address));
        if let Err(error) = self.start_http(addresses, redis, http).await {
            redis::stop(self.owned.managed.take()).await;
            return Err(error);
        }
        self.services.records.health.enters(Phase::Serving);
        systemd::ready();
        info!(topics = self.topics.served.len(), runner = %self.services.runner_id, "ready");
        Ok(())
    }

    /// Starts the background loops; `api` is the address that the status reports.
    fn start_loops(&mut self, orders: mpsc::Sender<String>, api: Option<SocketAddr>) {
        let (services, published) = (&self.services, &self.published);
        let queue = || services.queue.clone();
        let outage = || Arc::clone(&services.outage);
        let pokes = || Arc::clone(&published.pokes);
        let pushes = || Arc::clone(&services.records.pushes);
        let finder = || published.finder.clone();
        let loops = &mut self.owned.background;
        loops.spawn(poller::look(queue(), pokes(), self.manifest.redis.poll, outage()));
        loops.spawn(poller::listen(queue(), pokes(), services.bells.clone(), finder(), orders));
        loops.spawn(maintenance::keep(queue(), Arc::clone(&published.retentions), outage()));
        loops.spawn(services.relay.clone().run(queue(), pokes(), pushes(), outage()));
        loops.spawn(rules::keep(queue(), published.rules.subscribe(), finder(), outage()));
        loops.spawn(finder().look(queue(), outage()));
        let schedules = published.schedules.subscribe();
        loops.spawn(scheduler::keep_time(queue(), schedules, pushes(), outage()));
        let identity = (Arc::clone(&services.runner_id), api);
        let (watched, refused) = (published.watched.subscribe(), published.refused.subscribe());
        loops.spawn(status::publish(queue(), identity, watched, refused, outage()));
        loops.spawn(systemd::pulse(Arc::clone(&services.records.health)));
    }

    /// Starts the HTTP server, if there is an address to serve on.
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
            finder: self.published.finder.clone(),
            bells: services.bells.clone(),
            probes: self.probes(),
            pushes: Arc::clone(&records.pushes),
            watched: self.published.watched.subscribe(),
            runner_id: Arc::clone(&services.runner_id),
            consumed: Arc::clone(&records.consumed),
            traces: records.traces.clone(),
            events: records.events.clone(),
        };
        self.owned.server = Some(HttpServer::start(addresses, setup).await?);
        Ok(())
    }
}
