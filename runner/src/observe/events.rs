//! Events: what became of jobs, told to a stream in Redis that others read (`runner.events`).
//!
//! They are told after the fact, by whoever knows it: a worker when its verdicts are settled, the API when its
//! caller has the answer. They wait in a bounded queue and go out by a task and a connection of their own, so
//! that no job waits for one. A verdict that was refused as lost is none. What finds no room, or meets a Redis
//! that is away, is dropped and counted; a runner that dies takes with it what it had not told yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use duebox_job::{FailureClass, JobId, TopicName};
use duebox_queue::{BATCH_MAX, ConnectionSettings, Event, Queue, Settled};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tracing::{info, warn};

use super::counters::{add, read};
use super::log::attempt_log::Record;

/// Events that wait to be told.
const QUEUE_MAX: usize = 32_768;
/// How long an event waits for others to be told with.
const GATHER: Duration = Duration::from_millis(20);
/// How long a stop waits for the last ones.
const LAST_WITHIN: Duration = Duration::from_secs(2);
/// The wait before a Redis that was away is asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// Where events are given. Clones are the same.
#[derive(Clone)]
pub struct Events(Arc<Inner>);

struct Inner {
    /// Events that are kept; 0 for none.
    keep: AtomicU32,
    queue: mpsc::Sender<Event>,
    over: watch::Sender<bool>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    told: AtomicU64,
    dropped: AtomicU64,
}

/// The task that tells.
pub struct Telling(JoinHandle<()>);

impl Events {
    /// Nothing is told until it is said how many are kept. The connection is made with the first event.
    pub fn start(redis: ConnectionSettings, prefix: String) -> (Self, Telling) {
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        let (over, ends) = watch::channel(false);
        let (keep, counts) = (AtomicU32::new(0), Counts::default());
        let events = Self(Arc::new(Inner { keep, queue, over, counts }));
        let teller =
            Teller { events: events.clone(), redis, prefix, queue: None, is_failing: false };
        (events, Telling(tokio::spawn(teller.tell(waiting, ends))))
    }

    /// Keeps so many from now on; 0 for none.
    pub fn keep(&self, events: u32) {
        self.0.keep.store(events, Ordering::Relaxed);
    }

    /// Whether events are told.
    pub(crate) fn are_on(&self) -> bool {
        self.0.keep.load(Ordering::Relaxed) > 0
    }

    /// Ends: what waits is told within two seconds, or dropped.
    pub async fn stop(&self, telling: Telling) {
        self.0.over.send_replace(true);
        let mut task = telling.0;
        if tokio::time::timeout(LAST_WITHIN, &mut task).await.is_err() {
            task.abort();
        }
    }

    /// Events so far, by what became of them: `told`, `dropped`.
    pub fn counts(&self) -> [(&'static str, u64); 2] {
        let Counts { told, dropped } = &self.0.counts;
        [("told", read(told)), ("dropped", read(dropped))]
    }

    /// Something happened to a job outside of an attempt.
    pub(crate) fn happened(&self, topic: &TopicName, id: &JobId, event: &'static str) {
        if self.are_on() {
            self.give(Event { id: Some(id.clone()), ..of(topic, event) });
        }
    }

    /// A job failed, or was given up, of this class, outside of an attempt of this runner.
    pub(crate) fn failed(
        &self,
        topic: &TopicName,
        id: &JobId,
        event: &'static str,
        class: FailureClass,
    ) {
        if self.are_on() {
            self.give(Event { id: Some(id.clone()), class: Some(class), ..of(topic, event) });
        }
    }

    /// Something happened to jobs of which only the number is known.
    pub(crate) fn happened_to(
        &self,
        topic: &TopicName,
        jobs: u64,
        event: &'static str,
        class: Option<FailureClass>,
    ) {
        if jobs > 0 && self.are_on() {
            self.give(Event { jobs, class, ..of(topic, event) });
        }
    }

    /// An attempt of this runner is settled.
    pub(crate) fn settled(&self, topic: &TopicName, record: &Record, settled: Settled) {
        let Some(event) = word(settled).filter(|_| self.are_on()) else { return };
        self.give(Event {
            id: Some(record.id.clone()),
            attempt: Some(record.attempt),
            class: record.class(),
            digest: record.digest.map(|digest| digest.to_string()),
            ..of(topic, event)
        });
    }

    fn give(&self, event: Event) {
        if self.0.queue.try_send(event).is_err() {
            add(&self.0.counts.dropped, 1);
        }
    }
}

/// The event that a settled verdict is; none for one that was lost.
pub(crate) fn word(settled: Settled) -> Option<&'static str> {
    Some(match settled {
        Settled::Done => "acked",
        Settled::Retry => "retried",
        Settled::Lost => return None,
        other => other.word(),
    })
}

/// An event of one job, about which no more is known.
fn of(topic: &TopicName, event: &'static str) -> Event {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Event {
        topic: topic.base(),
        id: None,
        event,
        attempt: None,
        class: None,
        digest: None,
        at_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
        jobs: 1,
    }
}

struct Teller {
    events: Events,
    redis: ConnectionSettings,
    prefix: String,
    queue: Option<Queue>,
    is_failing: bool,
}

impl Teller {
    async fn tell(mut self, mut waiting: mpsc::Receiver<Event>, mut ends: watch::Receiver<bool>) {
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                _ = waiting.recv_many(&mut batch, BATCH_MAX) => {}
                _ = ends.wait_for(|ends| *ends) => break,
            }
            if batch.len() < BATCH_MAX {
                // Others may come that can be told along.
                tokio::select! {
                    () = tokio::time::sleep(GATHER) => {}
                    _ = ends.wait_for(|ends| *ends) => {}
                }
                while batch.len() < BATCH_MAX
                    && let Ok(event) = waiting.try_recv()
                {
                    batch.push(event);
                }
            }
            self.tell_batch(&mut batch).await;
            if self.is_failing {
                tokio::select! {
                    () = tokio::time::sleep(AGAIN) => {}
                    _ = ends.wait_for(|ends| *ends) => {}
                }
            }
        }
        while let Ok(event) = waiting.try_recv() {
            batch.push(event);
            if batch.len() == BATCH_MAX {
                self.tell_batch(&mut batch).await;
            }
        }
        self.tell_batch(&mut batch).await;
    }

    async fn tell_batch(&mut self, batch: &mut Vec<Event>) {
        let (events, keep) = (batch.len(), self.events.0.keep.load(Ordering::Relaxed));
        let counts = &self.events.0.counts;
        if events == 0 || keep == 0 {
            add(&counts.dropped, events);
            batch.clear();
            return;
        }
        let queue = match &self.queue {
            Some(queue) => Ok(queue.clone()),
            None => Queue::connect(&self.redis, &self.prefix).await,
        };
        let told = match queue {
            Ok(queue) => self.queue.insert(queue).append_events(batch, keep).await,
            Err(error) => Err(error),
        };
        batch.clear();
        match told {
            Ok(()) => {
                add(&counts.told, events);
                if std::mem::take(&mut self.is_failing) {
                    info!("events are told again");
                }
            }
            // Whether some of them were told is not known: it is better that one is missing than told twice.
            Err(error) => {
                add(&counts.dropped, events);
                if !std::mem::replace(&mut self.is_failing, true) {
                    warn!(%error, "events cannot be told; jobs go on, events are lost until they can");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_that_was_lost_is_no_event() {
        assert_eq!(word(Settled::Lost), None);
        let told = [Settled::Done, Settled::Retry, Settled::Dead, Settled::Snoozed];
        assert_eq!(told.map(word), ["acked", "retried", "dead", "snoozed"].map(Some));
    }
}
