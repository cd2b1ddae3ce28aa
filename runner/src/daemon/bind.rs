//! Binds topics: each is served as the manifest says, by the module of its entry. Binding runs again after
//! every change, and changes only what differs.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use duebox_job::{Shard, TopicName};
use duebox_queue::{Queue, QueueError};
use tokio::sync::watch;
use tracing::{info, warn};

use super::Supervisor;
use super::served::{Served, ShardWorker, Workers, binding, log_canary};
use crate::background::wake_up::WakeUp;
use crate::deploy::binding::{Binding, Handlers};
use crate::deploy::breaker::Breaker;
use crate::deploy::deployments::Service;
use crate::deploy::entry::entry_of;
use crate::executor::Executor;
use crate::manifest::Topic;
use crate::observe::sick_topics::TopicLoop;
use crate::observe::supervision::{TaskKind, TaskName};
use crate::worker::{TopicStats, Worker, WorkerCommand, WorkerParts};

/// The most topics that are served because they match a pattern.
const BY_PATTERN_MAX: usize = 10_000;

impl Supervisor {
    /// Serves every topic of the manifest, and stops serving the others.
    pub(super) async fn bind_all(&mut self) {
        (self.topics.are_unbound, self.topics.are_sick) = (false, false);
        let served = self.topics.served.keys();
        let names: BTreeSet<TopicName> =
            self.manifest.topics.keys().chain(served).cloned().collect();
        for name in names {
            self.bind(&name).await;
        }
        self.publish();
    }

    /// Serves the topics that Redis lists and that match a pattern.
    pub(super) async fn bind_listed(&mut self) {
        if self.manifest.patterns.is_empty() {
            return;
        }
        match self.services.records.sick_topics.known_topics(&self.services.queue).await {
            Ok(listed) => self.bind_found(listed).await,
            // Topic discovery tries again.
            Err(error) => self.services.outage.record_error(&error),
        }
    }

    /// Serves new topics that match a pattern, and new shards of topics that are served.
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
                warn!(topic = %name, "more than {BY_PATTERN_MAX} topics match patterns of the manifest; the others wait, \
                    this one among them: serve fewer topics, or distinguish jobs by their payload");
            }
        }
        self.publish();
    }

    /// Serves a topic as the manifest says, or stops serving it. Nothing changes while its module is not
    /// valid.
    async fn bind(&mut self, name: &TopicName) {
        let manifest = Arc::clone(&self.manifest);
        let lease = manifest.runner.lease;
        let Some((entry, settings)) = entry_of(&manifest, name) else {
            if self.topics.leave(name) {
                info!(topic = %name, "unbound: the manifest no longer contains it; its jobs wait in Redis");
            }
            return;
        };
        let Some(service) = self.deployments.service(entry, settings) else { return };
        let Service { mut topic, handlers } = service;
        if let Some(served) = self.topics.served.get_mut(name)
            && served.workers.is_some() == handlers.is_some()
        {
            // There is one worker for each shard: another number takes effect at the next start.
            topic.shards = served.topic.shards;
            return served.rebind(name, topic, handlers, lease);
        }
        self.topics.leave(name);
        if self.topics.are_unbound {
            // Redis has just failed: the next try binds this topic too.
            return;
        }
        match self.prepare(name, &topic).await {
            Ok(Some(shards)) => self.serve_topic(name, topic, shards, handlers),
            // The other topics are bound meanwhile.
            Ok(None) => self.topics.are_sick = true,
            Err(error) => {
                self.services.outage.record_error(&error);
                self.topics.are_unbound = true;
            }
        }
    }

    fn serve_topic(
        &mut self,
        name: &TopicName,
        topic: Topic,
        shards: Vec<Shard>,
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

    fn start_workers(&self, shards: &[Shard], bound: Binding) -> Workers {
        let concurrency = bound.topic.concurrency as usize * shards.len();
        let mut workers = Workers {
            share: self.services.executor.share(concurrency),
            batch_limits: self.services.batch_limits.join(),
            binding: watch::Sender::new(Arc::new(bound)),
            commands: watch::Sender::new(WorkerCommand::Work),
            stats: TopicStats::default(),
            breaker: Arc::new(Breaker::new(Instant::now())),
            each: Vec::with_capacity(shards.len()),
        };
        for shard in shards {
            workers.each.push(self.start_worker(shard, &workers));
        }
        workers
    }

    /// Starts one more worker of a topic.
    fn start_worker(&self, shard: &Shard, siblings: &Workers) -> ShardWorker {
        let bound = siblings.binding.subscribe();
        let wake_up = Arc::new(WakeUp::default());
        let parts = WorkerParts {
            shard: shard.clone(),
            executor: Executor::new(
                self.services.executor.clone(),
                siblings.share.clone(),
                bound.clone(),
                Arc::clone(&siblings.breaker),
            ),
            bound,
            wake_up: Arc::clone(&wake_up),
            batch_limits: siblings.batch_limits.clone(),
            breaker: Arc::clone(&siblings.breaker),
            commands: siblings.commands.subscribe(),
            stats: siblings.stats.clone(),
            services: self.services.for_worker(),
        };
        let start = move || {
            // The jobs of a worker that panicked may still run in its executor, under keys that mean other
            // jobs to the next worker.
            let executor = parts.executor.without_jobs();
            Worker::new(WorkerParts { executor, ..parts.clone() }).run()
        };
        let name = TaskName::of(TaskKind::Worker, shard);
        let supervision = self.services.records.health.supervision().clone();
        let mut commands = siblings.commands.subscribe();
        let task = tokio::spawn(async move {
            // Without a worker there is nothing to drain: the leases expire.
            let over = commands.wait_for(|command| matches!(command, WorkerCommand::Drain(_)));
            drop(supervision.keep_until(name, start, over).await);
        });
        ShardWorker { wake_up, task }
    }

    /// Serves shards that a runner with another manifest has added to a topic.
    async fn widen(&mut self, name: &TopicName) {
        let shards = self.services.queue.shards_now(name).await;
        let sick_topics = &self.services.records.sick_topics;
        let shards: Vec<Shard> =
            match sick_topics.isolate(&name.first_shard(), TopicLoop::Bind, shards) {
                Ok(Some(shards)) => shards.all().collect(),
                Ok(None) => return,
                Err(error) => return self.services.outage.record_error(&error),
            };
        let Some(mut served) = self.topics.served.remove(name) else { return };
        for shard in shards.into_iter().skip(served.shards.len()) {
            info!(topic = %name, shard = shard.number(), "serving one more shard: another manifest splits the topic into more shards");
            if let Some(workers) = &mut served.workers {
                let worker = self.start_worker(&shard, workers);
                workers.each.push(worker);
            }
            served.shards.push(shard);
        }
        self.topics.served.insert(name.clone(), served);
    }

    /// Publishes the topics and how they are served.
    fn publish(&self) {
        self.published.publish(&self.manifest, &self.topics, self.watched());
    }

    /// Prepares a topic in Redis before its first job runs, and returns its shards; none if Redis refuses its
    /// keys.
    async fn prepare(
        &self,
        name: &TopicName,
        topic: &Topic,
    ) -> Result<Option<Vec<Shard>>, QueueError> {
        let (queue, sick_topics) = (&self.services.queue, &self.services.records.sick_topics);
        let shards = configured_shards(queue, name, topic).await;
        let shards = sick_topics.isolate(&name.first_shard(), TopicLoop::Bind, shards)?;
        if shards.is_some() {
            sick_topics.isolate_listing(queue.register(std::slice::from_ref(name)).await)?;
        }
        Ok(shards)
    }
}

/// Writes the limits of a topic to Redis, and returns its shards.
async fn configured_shards(
    queue: &Queue,
    name: &TopicName,
    topic: &Topic,
) -> Result<Vec<Shard>, QueueError> {
    queue.forget_old_shards(name).await?;
    queue.configure(name, &topic.limits()).await?;
    Ok(queue.shards(name).await?.all().collect())
}
