//! Events: what became of jobs, published to a stream in Redis (`runner.events`).
//!
//! An event is published after the fact: by a worker when its verdicts are settled, by the API when its
//! caller has the reply. Events wait in a bounded queue, and a task with a connection of its own sends
//! them, so that no job waits. A lost verdict is no event. Events are dropped and counted if the queue is
//! full or Redis is away. If the runner dies, its unsent events are lost.

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

/// The most events that wait to be sent.
const QUEUE_MAX: usize = 32_768;
/// How long an event waits for others in its batch.
const GATHER: Duration = Duration::from_millis(20);
/// How long a stop waits for the last events.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// The delay before the next try after a failure.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Takes events. Clones share the same queue.
#[derive(Clone)]
pub struct Events(Arc<EventsInner>);

struct EventsInner {
    /// The length of the stream; 0 turns events off.
    keep: AtomicU32,
    queue: mpsc::Sender<Event>,
    over: watch::Sender<bool>,
    counts: EventCounts,
}

#[derive(Default)]
struct EventCounts {
    sent: AtomicU64,
    dropped: AtomicU64,
}

/// The task that sends events.
pub struct EventsTask(JoinHandle<()>);

impl Events {
    /// Starts the task. Events are off until [`keep`](Self::keep); the first event opens the connection.
    pub fn start(redis: ConnectionSettings, prefix: String) -> (Self, EventsTask) {
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        let (over, ends) = watch::channel(false);
        let (keep, counts) = (AtomicU32::new(0), EventCounts::default());
        let events = Self(Arc::new(EventsInner { keep, queue, over, counts }));
        let writer =
            EventWriter { events: events.clone(), redis, prefix, queue: None, is_failing: false };
        (events, EventsTask(tokio::spawn(writer.run(waiting, ends))))
    }

    /// Sets the length of the stream; 0 turns events off.
    pub fn keep(&self, events: u32) {
        self.0.keep.store(events, Ordering::Relaxed);
    }

    /// Whether events are on.
    pub(crate) fn are_on(&self) -> bool {
        self.0.keep.load(Ordering::Relaxed) > 0
    }

    /// Stops: sends what waits within 2 s, and drops the rest.
    pub async fn stop(&self, task: EventsTask) {
        self.0.over.send_replace(true);
        let mut task = task.0;
        if tokio::time::timeout(STOP_TIMEOUT, &mut task).await.is_err() {
            task.abort();
        }
    }

    /// The counts of events: `told` (sent) and `dropped`.
    pub fn counts(&self) -> [(&'static str, u64); 2] {
        let EventCounts { sent, dropped } = &self.0.counts;
        [("told", read(sent)), ("dropped", read(dropped))]
    }

    /// Reports an event of a job outside of an attempt.
    pub(crate) fn happened(&self, topic: &TopicName, id: &JobId, event: &'static str) {
        if self.are_on() {
            self.give(Event { id: Some(id.clone()), ..of(topic, event) });
        }
    }

    /// Reports a failure of a job outside of an attempt of this runner.
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

    /// Reports an event of several jobs whose ids are unknown.
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

    /// Reports a settled attempt of this runner.
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

/// The event of a settled verdict; `None` for a lost one.
pub(crate) fn word(settled: Settled) -> Option<&'static str> {
    Some(match settled {
        Settled::Done => "acked",
        Settled::Retry => "retried",
        Settled::Lost => return None,
        other => other.word(),
    })
}

/// An event of one job without further details.
fn of(topic: &TopicName, event: &'static str) -> Event {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Event {
        topic: topic.clone(),
        id: None,
        event,
        attempt: None,
        class: None,
        digest: None,
        at_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
        jobs: 1,
    }
}

struct EventWriter {
    events: Events,
    redis: ConnectionSettings,
    prefix: String,
    queue: Option<Queue>,
    is_failing: bool,
}

impl EventWriter {
    async fn run(mut self, mut waiting: mpsc::Receiver<Event>, mut ends: watch::Receiver<bool>) {
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                _ = waiting.recv_many(&mut batch, BATCH_MAX) => {}
                _ = ends.wait_for(|ends| *ends) => break,
            }
            if batch.len() < BATCH_MAX {
                // Wait for further events of this batch.
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
            self.write_batch(&mut batch).await;
            if self.is_failing {
                tokio::select! {
                    () = tokio::time::sleep(RETRY_AFTER) => {}
                    _ = ends.wait_for(|ends| *ends) => {}
                }
            }
        }
        while let Ok(event) = waiting.try_recv() {
            batch.push(event);
            if batch.len() == BATCH_MAX {
                self.write_batch(&mut batch).await;
            }
        }
        self.write_batch(&mut batch).await;
    }

    async fn write_batch(&mut self, batch: &mut Vec<Event>) {
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
        let sent = match queue {
            Ok(queue) => self.queue.insert(queue).append_events(batch, keep).await,
            Err(error) => Err(error),
        };
        batch.clear();
        match sent {
            Ok(()) => {
                add(&counts.sent, events);
                if std::mem::take(&mut self.is_failing) {
                    info!("events are published again");
                }
            }
            // It is unknown whether some were sent; losing one is better than sending it twice.
            Err(error) => {
                add(&counts.dropped, events);
                if !std::mem::replace(&mut self.is_failing, true) {
                    warn!(%error, "events cannot be published; jobs continue, events are lost until then");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_verdict_is_no_event() {
        assert_eq!(word(Settled::Lost), None);
        let settled = [Settled::Done, Settled::Retry, Settled::Dead, Settled::Snoozed];
        assert_eq!(settled.map(word), ["acked", "retried", "dead", "snoozed"].map(Some));
    }
}
