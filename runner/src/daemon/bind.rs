//! Binding: each topic is served as the manifest says now, by the module of its entry. It is done anew
//! after every change, and changes only what is to be changed.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use duebox_job::TopicName;
use duebox_queue::{Queue, QueueError};
use tokio::sync::watch;
use tracing::{info, warn};

use super::Supervisor;
use super::served::{Served, ShardWorker, Workers, binding, log_canary};
use crate::background::rules;
use crate::background::wake_up::WakeUp;
use crate::deploy::binding::{Binding, Handlers};
use crate::deploy::breaker::Breaker;
use crate::deploy::deployments::Service;
use crate::deploy::entry::entry_of;
use crate::executor::Executor;
use crate::manifest::Topic;
use crate::worker::{Command, Worker, WorkerParts};

/// Topics that are served because they match a pattern, at most.
const BY_PATTERN_MAX: usize = 10_000;

impl Supervisor {
    /// Serves every topic as the manifest says, and leaves those it says nothing of.
    pub(super) async fn bind_all(&mut self) {
        self.topics.are_unbound = false;
        let served = self.topics.served.keys();
        let names: BTreeSet<TopicName> =
            self.manifest.topics.keys().chain(served).cloned().collect();
        for name in names {
            self.bind(&name).await;
        }
        self.publish();
    }

    /// Serves the topics that Redis lists and a pattern stands for.
    pub(super) async fn bind_listed(&mut self) {
        if self.manifest.patterns.is_empty() {
            return;
        }
        match self.services.queue.topics().await {
            Ok(listed) => self.bind_found(listed).await,
            // The finder asks again.
            Err(error) => self.services.outage.noticed(&error),
        }
    }

    /// Serves topics that were found, as far as a pattern stands for them, and of those that are served
    /// the shards that were found.
    pub(super) async fn bind_found(&mut self, names: Vec<TopicName>) {
        let manifest = Arc::clone(&self.manifest);
        let named = &manifest.topics;
        let mut by_pattern =
            self.topics.served.keys().filter(|name| !named.contains_key(*name)).count();
        for name in names.into_iter().collect::<BTreeSet<_>>() {
            if self.topics.served.contains_key(&name) {
                self.widen(&name).await;
                continue;
            }
            if named.contains_key(&name) || manifest.patterns.find(&name).is_none() {
                continue;
            }
            if by_pattern < BY_PATTERN_MAX {
                self.bind(&name).await;
                by_pattern += 1;
            } else if !std::mem::replace(&mut self.topics.pattern_limit_logged, true) {
                warn!(topic = %name, "more than {BY_PATTERN_MAX} topics match patterns of the manifest; the rest wait, \
                    this one among them: serve fewer topics, or tell the jobs apart by their payload");
            }
        }
        self.publish();
    }

    /// Serves a topic as the manifest says, or leaves it. A topic whose module is not good yet stays
    /// as it is.
    async fn bind(&mut self, name: &TopicName) {
        let manifest = Arc::clone(&self.manifest);
        let lease = manifest.runner.lease;
        let Some((entry, settings)) = entry_of(&manifest, name) else {
            if self.topics.leave(name) {
                info!(topic = %name, "unbound: the manifest serves it no more; its jobs wait in Redis");
            }
            return;
        };
        let Some(service) = self.deployments.service(entry, settings) else { return };
        let Service { mut topic, handlers } = service;
        if let Some(served) = self.topics.served.get_mut(name)
            && served.workers.is_some() == handlers.is_some()
        {
            // Its workers are one a shard: another number of them is for the next start.
            topic.shards = served.topic.shards;
            return served.bind_anew(name, topic, handlers, lease);
        }
        self.topics.leave(name);
        if self.topics.are_unbound {
            // Redis has failed just now: the next try is for this one, too.
            return;
        }
        match prepare(&self.services.queue, name, &topic).await {
            Ok(shards) => self.serve_topic(name, topic, shards, handlers),
            Err(error) => {
                self.services.outage.noticed(&error);
                self.topics.are_unbound = true;
            }
        }
    }

    fn serve_topic(
        &mut self,
        name: &TopicName,
        topic: Topic,
        shards: Vec<TopicName>,
        handlers: Option<Handlers>,
    ) {
        let workers = handlers.map(|handlers| {
            let file = topic.handler.as_deref().map(Path::display);
            info!(topic = %name, handler = file.map(tracing::field::display), digest = %handlers.main.digest().short(), shards = shards.len(), "serving");
            log_canary(name, None, handlers.canary.as_ref());
            self.start_workers(&shards, binding(&topic, handlers, self.manifest.runner.lease))
        });
        if workers.is_none() {
            info!(topic = %name, shards = shards.len(), "serving pull consumers: it has no handler");
        }
        self.topics.served.insert(name.clone(), Served { topic, shards, workers });
    }

    fn start_workers(&self, shards: &[TopicName], bound: Binding) -> Workers {
        let concurrency = bound.topic.concurrency as usize * shards.len();
        let mut workers = Workers {
            share: self.services.executor.share(concurrency),
            batch_limits: self.services.batch_limits.join(),
            binding: watch::Sender::new(Arc::new(bound)),
            commands: watch::Sender::new(Command::Work),
            counters: Arc::default(),
            module_stats: Arc::default(),
            recent_attempts: Arc::default(),
            breaker: Arc::new(Breaker::new(Instant::now())),
            each: Vec::with_capacity(shards.len()),
        };
        for shard in shards {
            workers.each.push(self.start_worker(shard, &workers));
        }
        workers
    }

    /// Starts one more of a topic's workers.
    fn start_worker(&self, shard: &TopicName, siblings: &Workers) -> ShardWorker {
        let bound = siblings.binding.subscribe();
        let wake_up = Arc::new(WakeUp::default());
        let worker = Worker::new(WorkerParts {
            topic: shard.clone(),
            queue: self.services.queue.clone(),
            executor: Executor::new(
                self.services.executor.clone(),
                siblings.share.clone(),
                bound.clone(),
            ),
            bound,
            wake_up: Arc::clone(&wake_up),
            counters: Arc::clone(&siblings.counters),
            module_stats: Arc::clone(&siblings.module_stats),
            recent_attempts: Arc::clone(&siblings.recent_attempts),
            batch_limits: siblings.batch_limits.clone(),
            breaker: Arc::clone(&siblings.breaker),
            outage: Arc::clone(&self.services.outage),
            relay: self.services.relay.clone(),
            traces: self.services.records.traces.clone(),
            events: self.services.records.events.clone(),
            timer: self.services.timer.clone(),
            commands: siblings.commands.subscribe(),
            runner_id: Arc::clone(&self.services.runner_id),
        });
        ShardWorker { wake_up, task: tokio::spawn(worker.run()) }
    }

    /// Serves the shards too that a runner of another manifest has added to a topic.
    async fn widen(&mut self, name: &TopicName) {
        let shards: Vec<TopicName> = match self.services.queue.shards_now(name).await {
            Ok(shards) => shards.all().collect(),
            Err(error) => return self.services.outage.noticed(&error),
        };
        let Some(mut served) = self.topics.served.remove(name) else { return };
        for shard in shards.into_iter().skip(served.shards.len()) {
            info!(topic = %name, shard = shard.shard_number(), "serving one more shard: another manifest splits the topic over more");
            if let Some(workers) = &mut served.workers {
                let worker = self.start_worker(&shard, workers);
                workers.each.push(worker);
            }
            served.shards.push(shard);
        }
        self.topics.served.insert(name.clone(), served);
    }

    /// Publishes which topics there are, and how they are served.
    fn publish(&self) {
        self.published.publish(&self.manifest, &self.topics, self.watched());
    }
}

/// Makes a topic ready in Redis before its first job runs, and answers its shards.
async fn prepare(
    queue: &Queue,
    name: &TopicName,
    topic: &Topic,
) -> Result<Vec<TopicName>, QueueError> {
    queue.forget_old_shards(name).await?;
    rules::write(queue, &[(name.clone(), topic.rules())]).await?;
    queue.register(std::slice::from_ref(name)).await?;
    Ok(queue.shards(name).await?.all().collect())
}
