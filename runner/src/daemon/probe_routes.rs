//! The routes of the daemon's probes and metrics.

use std::sync::Arc;

use axum::Router;
use duebox_queue::Queue;

use super::Supervisor;
use crate::http::probes::Probes;
use crate::report::metrics::{Metrics, Sources};

impl Supervisor {
    /// Creates the routes; their caller provides a connection to Redis.
    pub(super) fn probes(&self) -> Box<dyn FnOnce(Queue) -> Router + Send> {
        let (services, records) = (&self.services, &self.services.records);
        let (health, watched) = (Arc::clone(&records.health), self.published.watched.subscribe());
        let (served, outage) = (Arc::clone(&self.published.names), Arc::clone(&services.outage));
        let (sandbox, push_counters) =
            (Arc::clone(&services.sandbox), Arc::clone(&records.push_counters));
        let (jobs, kv) = (services.queue.latency_stats(), Arc::clone(&services.store_latency));
        let copies = Arc::clone(&services.copy_stats);
        let primaries = Arc::clone(&services.primary_outages);
        let pull_counters = Arc::clone(&records.pull_counters);
        let handler_log = Arc::clone(&records.handler_log);
        let (traces, events) = (records.traces.clone(), records.events.clone());
        let sick_topics = Arc::clone(&records.sick_topics);
        let (slots, slots_max) = (services.executor.slots.clone(), self.manifest.runner.max_jobs);
        let cpu_quota = Arc::clone(&services.executor.threads.cpu_quota);
        Box::new(move |queue| {
            let traffic = vec![("jobs", jobs), ("kv", kv), ("http", queue.latency_stats())];
            let metrics = Metrics::new(Sources {
                queue: queue.clone(),
                served,
                watched: watched.clone(),
                health: Arc::clone(&health),
                outage,
                traffic,
                copies,
                primaries,
                push_counters,
                pull_counters,
                handler_log,
                traces,
                events,
                sick_topics,
                sandbox,
                slots,
                slots_max,
                cpu_quota,
            });
            Probes::new(metrics, queue, health, watched).router()
        })
    }
}
