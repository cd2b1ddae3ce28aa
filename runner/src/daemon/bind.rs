//! Binding: each topic is served as the manifest says now, by the module of its entry. It is done anew
//! after every change, and changes only what is to be changed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use duebox_job::{FailureClass, Policy, TopicName};
use duebox_queue::{Queue, QueueError};
use tokio::sync::watch;
use tracing::{info, warn};

use super::Daemon;
use super::served::{Served, ShardWorker, Workers, binding, tell_canary};
use crate::background::maintenance::{Pulled, Retention};
use crate::background::rules;
use crate::background::topic_discovery::Known;
use crate::background::wake_up::Poke;
use crate::deploy::binding::{Binding, CanaryHandler, Handlers};
use crate::deploy::breaker::Breaker;
use crate::deploy::entry::{EntryName, entry_of};
use crate::deploy::modules::Place;
use crate::executor::Lanes;
use crate::manifest::Topic;
use crate::worker::verdict::buried_info;
use crate::worker::{Order, Worker, WorkerParts};

/// Topics that are served because they match a pattern, at most.
const BY_PATTERN_MAX: usize = 10_000;

impl Daemon {
    /// Serves every topic as the manifest says, and leaves those it says nothing of.
    pub(super) async fn bind_all(&mut self) {
        self.unbound = false;
        let served = self.topics.keys();
        let names: BTreeSet<TopicName> =
            self.manifest.topics.keys().chain(served).cloned().collect();
        for name in names {
            self.bind(&name).await;
        }
        self.tell_topics();
    }

    /// Serves the topics that Redis lists and a pattern stands for.
    pub(super) async fn bind_listed(&mut self) {
        if self.manifest.patterns.is_empty() {
            return;
        }
        match self.queue.topics().await {
            Ok(listed) => self.bind_found(listed).await,
            // The finder asks again.
            Err(error) => self.outage.noticed(&error),
        }
    }

    /// Serves topics that were found, as far as a pattern stands for them, and of those that are served
    /// the shards that were found.
    pub(super) async fn bind_found(&mut self, names: Vec<TopicName>) {
        let manifest = Arc::clone(&self.manifest);
        let named = &manifest.topics;
        let mut by_pattern = self.topics.keys().filter(|name| !named.contains_key(*name)).count();
        for name in names.into_iter().collect::<BTreeSet<_>>() {
            if self.topics.contains_key(&name) {
                self.widen(&name).await;
                continue;
            }
            if named.contains_key(&name) || manifest.patterns.find(&name).is_none() {
                continue;
            }
            if by_pattern < BY_PATTERN_MAX {
                self.bind(&name).await;
                by_pattern += 1;
            } else if !std::mem::replace(&mut self.crowded, true) {
                warn!(topic = %name, "more than {BY_PATTERN_MAX} topics match patterns of the manifest; the rest wait, \
                    this one among them: serve fewer topics, or tell the jobs apart by their payload");
            }
        }
        self.tell_topics();
    }

    /// Serves a topic as the manifest says, or leaves it. A topic whose module is not good yet stays
    /// as it is.
    async fn bind(&mut self, name: &TopicName) {
        let manifest = Arc::clone(&self.manifest);
        let lease = manifest.runner.lease;
        let Some((entry, settings)) = entry_of(&manifest, name) else {
            if self.leave(name) {
                info!(topic = %name, "unbound: the manifest serves it no more; its jobs wait in Redis");
            }
            return;
        };
        let place = Place::handler(entry);
        let (mut topic, handlers) = match self.modules.get(&place) {
            Some(seat) => {
                let main = seat.module.handler.clone();
                let canary = self.canary_of(place.entry, settings);
                (seat.module.settings(settings), Some(Handlers { main, canary }))
            }
            None if settings.handler.is_none() => (settings.clone(), None),
            None => return,
        };
        if let Some(served) = self.topics.get_mut(name)
            && served.workers.is_some() == handlers.is_some()
        {
            // Its workers are one a shard: another number of them is for the next start.
            topic.shards = served.topic.shards;
            return served.bind_anew(name, topic, handlers, lease);
        }
        self.leave(name);
        if self.unbound {
            // Redis has failed just now: the next try is for this one, too.
            return;
        }
        match prepare(&self.queue, name, &topic).await {
            Ok(shards) => self.serve_topic(name, topic, shards, handlers),
            Err(error) => {
                self.outage.noticed(&error);
                self.unbound = true;
            }
        }
    }

    /// The canary of an entry; none as long as there is no good one.
    fn canary_of(&self, entry: EntryName, settings: &Topic) -> Option<CanaryHandler> {
        let share = settings.canary.as_ref()?.share;
        let seat = self.modules.get(&Place::canary(entry))?;
        Some(CanaryHandler { handler: seat.module.handler.clone(), share })
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
            tell_canary(name, None, handlers.canary.as_ref());
            self.start_workers(&shards, binding(&topic, handlers, self.manifest.runner.lease))
        });
        if workers.is_none() {
            info!(topic = %name, shards = shards.len(), "serving pull consumers: it has no handler");
        }
        self.topics.insert(name.clone(), Served { topic, shards, workers });
    }

    fn start_workers(&self, shards: &[TopicName], bound: Binding) -> Workers {
        let concurrency = bound.topic.concurrency as usize * shards.len();
        let mut workers = Workers {
            share: self.ground.share(concurrency),
            binding: watch::Sender::new(Arc::new(bound)),
            orders: watch::Sender::new(Order::Work),
            counters: Arc::default(),
            figures: Arc::default(),
            latest: Arc::default(),
            breaker: Arc::new(Breaker::new(Instant::now())),
            each: Vec::with_capacity(shards.len()),
        };
        for shard in shards {
            workers.each.push(self.start_worker(shard, &workers));
        }
        workers
    }

    /// Starts one more of a topic's workers.
    fn start_worker(&self, shard: &TopicName, beside: &Workers) -> ShardWorker {
        let bound = beside.binding.subscribe();
        let poke = Arc::new(Poke::default());
        let worker = Worker::new(WorkerParts {
            topic: shard.clone(),
            queue: self.queue.clone(),
            lanes: Lanes::new(self.ground.clone(), beside.share.clone(), bound.clone()),
            bound,
            poke: Arc::clone(&poke),
            counters: Arc::clone(&beside.counters),
            figures: Arc::clone(&beside.figures),
            latest: Arc::clone(&beside.latest),
            member: beside.share.member.clone(),
            breaker: Arc::clone(&beside.breaker),
            outage: Arc::clone(&self.outage),
            relay: self.relay.clone(),
            traces: self.traces.clone(),
            events: self.events.clone(),
            timer: self.timer.clone(),
            orders: beside.orders.subscribe(),
            runner_id: Arc::clone(&self.runner_id),
        });
        ShardWorker { poke, task: tokio::spawn(worker.run()) }
    }

    /// Serves the shards too that a runner of another manifest has added to a topic.
    async fn widen(&mut self, name: &TopicName) {
        let shards: Vec<TopicName> = match self.queue.shards_now(name).await {
            Ok(shards) => shards.all().collect(),
            Err(error) => return self.outage.noticed(&error),
        };
        let Some(mut served) = self.topics.remove(name) else { return };
        for shard in shards.into_iter().skip(served.shards.len()) {
            info!(topic = %name, shard = shard.shard_number(), "serving one more shard: another manifest splits the topic over more");
            if let Some(workers) = &mut served.workers {
                let worker = self.start_worker(&shard, workers);
                workers.each.push(worker);
            }
            served.shards.push(shard);
        }
        self.topics.insert(name.clone(), served);
    }

    /// Leaves a topic: what it has in flight may finish within its ttr. False if it is not served.
    fn leave(&mut self, name: &TopicName) -> bool {
        let Some(served) = self.topics.remove(name) else { return false };
        let until = Instant::now() + served.topic.ttr;
        self.leaving.retain(|leaving| !leaving.is_over());
        self.leaving.extend(served.leave(name.clone(), until));
        true
    }

    /// Tells the others which topics there are, and how they are served.
    pub(super) fn tell_topics(&self) {
        let mut pokes = Vec::new();
        let mut retentions = BTreeMap::new();
        let mut rules = Vec::new();
        for (name, served) in &self.topics {
            rules.push((name.clone(), served.topic.rules()));
            for (at, shard) in served.shards.iter().enumerate() {
                retentions.insert(shard.clone(), retention(&served.topic));
                if let Some(worker) = served.workers.as_ref().and_then(|them| them.each.get(at)) {
                    pokes.push((shard.clone(), Arc::clone(&worker.poke)));
                }
            }
        }
        // Topics that wait for a good module, or for Redis, are the manifest's too.
        let waiting =
            self.manifest.topics.iter().filter(|(name, _)| !self.topics.contains_key(*name));
        for (name, topic) in waiting {
            rules.push((name.clone(), topic.rules()));
            retentions.insert(name.clone(), retention(topic));
        }
        pokes.sort_by(|(one, _), (other, _)| one.cmp(other));
        self.pokes.store(Arc::new(pokes));
        self.retentions.store(Arc::new(retentions));
        let count = |served: &Served| u32::try_from(served.shards.len()).unwrap_or(u32::MAX);
        let served =
            self.topics.iter().map(|(name, served)| (name.clone(), count(served))).collect();
        let known = Known { manifest: Arc::clone(&self.manifest), served };
        self.finder.known.store(Arc::new(known));
        self.names.store(Arc::new(rules.iter().map(|(name, _)| name.clone()).collect()));
        self.rules.send_replace(rules.into());
        self.watched.send_replace(self.watched());
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

/// What the keeper is to know of each of a topic's shards.
fn retention(topic: &Topic) -> Retention {
    let pulled = topic.handler.is_none().then(|| Pulled {
        max_crashes: topic.max_crashes,
        crashed_info: buried_info(topic, FailureClass::Crashed),
        discards_bad: topic.on.get(&FailureClass::BadDue) == Some(&Policy::Discard),
    });
    let count = topic.max_dead.div_ceil(topic.shards.max(1).into());
    Retention { age: topic.retention, count, done_age: topic.done_retention, pulled }
}
