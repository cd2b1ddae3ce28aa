//! What the daemon gives to those who look after it: the routes of its probes and of its metrics.

use std::sync::Arc;

use axum::Router;
use duebox_queue::Queue;

use super::Daemon;
use crate::http::probes::Probes;
use crate::metrics::{Metrics, Sources};

impl Daemon {
    /// Makes the routes of the probes, over the connection to Redis of whoever serves them.
    pub(super) fn probes(&self) -> Box<dyn FnOnce(Queue) -> Router + Send> {
        let (health, watched) = (Arc::clone(&self.health), self.watched.subscribe());
        let (served, outage) = (Arc::clone(&self.names), Arc::clone(&self.outage));
        let (sandbox, pushes) = (Arc::clone(&self.sandbox), Arc::clone(&self.pushes));
        let (jobs, kv) = (self.queue.latency_stats(), Arc::clone(&self.kv_traffic));
        let (consumed, handler_log) = (Arc::clone(&self.consumed), Arc::clone(&self.handler_log));
        let (traces, events) = (self.traces.clone(), self.events.clone());
        let (slots, slots_max) = (self.ground.slots.clone(), self.manifest.runner.max_jobs);
        Box::new(move |queue| {
            let traffic = vec![("jobs", jobs), ("kv", kv), ("http", queue.latency_stats())];
            let metrics = Metrics::new(Sources {
                queue: queue.clone(),
                served,
                watched: watched.clone(),
                health: Arc::clone(&health),
                outage,
                traffic,
                pushes,
                consumed,
                handler_log,
                traces,
                events,
                sandbox,
                slots,
                slots_max,
            });
            Probes::new(metrics, queue, health, watched).router()
        })
    }
}
