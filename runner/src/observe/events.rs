//! Events: what became of jobs, published to a stream in Redis (`runner.events`).
//!
//! An event is published after the fact: by a worker when its verdicts are settled, by the API when its
//! caller has the reply. Each has the moment at which it happened at the earliest: a push before it was
//! sent, a verdict after it was settled. Events are sent in the order of these moments, so that a job is
//! pushed before it is acked. Events wait in a bounded queue, and a task with a connection of its own sends
//! them, so that no job waits. A lost verdict is not an event. Events are dropped and counted if the queue is
//! full or Redis is away. If the runner dies, its unsent events are lost.

mod kind;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use duebox_job::{FailureClass, JobId, TopicName};
use duebox_queue::{BATCH_MAX, ConnectionSettings, Event, Queue, Settled};
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::JoinHandle;
use tracing::{info, warn};

pub(crate) use self::kind::EventKind;
use super::attempt_record::AttemptRecord;
use super::counters::{add, read};
use super::supervision::{Supervision, TaskKind};

/// The most events that wait to be sent.
const QUEUE_MAX: usize = 32_768;
/// How long an event waits for others in its batch, and for events of earlier moments.
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
    queue: mpsc::Sender<(Instant, Event)>,
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
    pub fn start(
        redis: ConnectionSettings,
        prefix: String,
        supervision: &Supervision,
    ) -> (Self, EventsTask) {
        let (queue, waiting) = mpsc::channel(QUEUE_MAX);
        let (over, ends) = watch::channel(false);
        let (keep, counts) = (AtomicU32::new(0), EventCounts::default());
        let events = Self(Arc::new(EventsInner { keep, queue, over, counts }));
        let (supervision, waiting) = (supervision.clone(), Arc::new(Mutex::new(waiting)));
        let its = events.clone();
        let task = async move {
            let start = || {
                let (events, redis, prefix) = (its.clone(), redis.clone(), prefix.clone());
                let writer = EventWriter { events, redis, prefix, queue: None, is_failing: false };
                writer.run(Arc::clone(&waiting), ends.clone())
            };
            supervision.keep(TaskKind::Events, start).await;
        };
        (events, EventsTask(tokio::spawn(task)))
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
    pub(crate) fn report(&self, topic: &TopicName, id: &JobId, event: EventKind) {
        if self.are_on() {
            self.give(Event { id: Some(id.clone()), ..of_now(topic, event) });
        }
    }

    /// Reports a failure of a job outside of an attempt of this runner.
    pub(crate) fn report_failed(
        &self,
        topic: &TopicName,
        id: &JobId,
        event: EventKind,
        class: FailureClass,
    ) {
        if self.are_on() {
            self.give(Event { id: Some(id.clone()), class: Some(class), ..of_now(topic, event) });
        }
    }

    /// Reports an event of several jobs whose ids are unknown.
    pub(crate) fn report_several(
        &self,
        topic: &TopicName,
        jobs: u64,
        event: EventKind,
        class: Option<FailureClass>,
    ) {
        if jobs > 0 && self.are_on() {
            self.give(Event { jobs, class, ..of_now(topic, event) });
        }
    }

    /// Reports a settled attempt of this runner.
    pub(crate) fn report_settled(
        &self,
        topic: &TopicName,
        record: &AttemptRecord,
        settled: Settled,
    ) {
        let Some(event) = EventKind::of(settled).filter(|_| self.are_on()) else { return };
        self.give(Event {
            id: Some(record.id.clone()),
            attempt: Some(record.attempt),
            class: record.class(),
            digest: record.digest.map(|digest| digest.to_string()),
            ..of_now(topic, event)
        });
    }

    /// Reports that jobs were pushed by a call that began at this moment.
    pub(crate) fn report_pushed<'i>(
        &self,
        topic: &TopicName,
        ids: impl Iterator<Item = &'i JobId>,
        began: Moment,
    ) {
        if self.are_on() {
            for id in ids {
                let event = of(topic, EventKind::Pushed, began);
                self.give_at(Event { id: Some(id.clone()), ..event }, began.0);
            }
        }
    }

    fn give(&self, event: Event) {
        self.give_at(event, Instant::now());
    }

    fn give_at(&self, event: Event, at: Instant) {
        if self.0.queue.try_send((at, event)).is_err() {
            add(&self.0.counts.dropped, 1);
        }
    }
}

/// A moment on both clocks: one never jumps, the other is shown.
#[derive(Clone, Copy)]
pub(crate) struct Moment(Instant, SystemTime);

impl Moment {
    pub(crate) fn now() -> Self {
        Self(Instant::now(), SystemTime::now())
    }
}

/// An event of one job that happened just now, without further details.
fn of_now(topic: &TopicName, event: EventKind) -> Event {
    of(topic, event, Moment::now())
}

fn of(topic: &TopicName, event: EventKind, at: Moment) -> Event {
    let at = at.1.duration_since(UNIX_EPOCH).unwrap_or_default();
    Event {
        topic: topic.clone(),
        id: None,
        event: event.word(),
        attempt: None,
        class: None,
        digest: None,
        at_us: u64::try_from(at.as_micros()).unwrap_or(u64::MAX),
        jobs: 1,
    }
}

/// Takes the events before which no other is expected, in the order of their moments. A full batch is taken
/// whole.
fn take_ready(batch: &mut Vec<(Instant, Event)>, now: Instant) -> Vec<Event> {
    batch.sort_by_key(|(at, _)| *at);
    let ready = match batch.len() < BATCH_MAX {
        true => batch.partition_point(|(at, _)| *at + GATHER <= now),
        false => BATCH_MAX,
    };
    batch.drain(..ready).map(|(_, event)| event).collect()
}

struct EventWriter {
    events: Events,
    redis: ConnectionSettings,
    prefix: String,
    queue: Option<Queue>,
    is_failing: bool,
}

impl EventWriter {
    async fn run(
        mut self,
        waiting: Arc<Mutex<mpsc::Receiver<(Instant, Event)>>>,
        mut ends: watch::Receiver<bool>,
    ) {
        let mut waiting = waiting.lock().await;
        let mut batch = Vec::new();
        loop {
            if batch.is_empty() {
                tokio::select! {
                    _ = waiting.recv_many(&mut batch, BATCH_MAX) => {}
                    _ = ends.wait_for(|ends| *ends) => break,
                }
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
            let mut ready = take_ready(&mut batch, Instant::now());
            if !ready.is_empty() {
                self.write_batch(&mut ready).await;
            }
            if *ends.borrow() {
                break;
            }
            if self.is_failing {
                tokio::select! {
                    () = tokio::time::sleep(RETRY_AFTER) => {}
                    _ = ends.wait_for(|ends| *ends) => {}
                }
            }
        }
        while let Ok(event) = waiting.try_recv() {
            batch.push(event);
        }
        batch.sort_by_key(|(at, _)| *at);
        let mut rest: Vec<Event> = batch.into_iter().map(|(_, event)| event).collect();
        while !rest.is_empty() {
            let mut some: Vec<Event> = rest.drain(..rest.len().min(BATCH_MAX)).collect();
            self.write_batch(&mut some).await;
        }
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
    fn events_are_taken_in_the_order_of_their_moments() {
        let (now, topic) = (Instant::now(), TopicName::new("mail").unwrap());
        let ms = Duration::from_millis;
        let given = |kind, ago: u64| (now - ms(ago), of_now(&topic, kind));
        // The push was answered after its job was acked.
        let mut batch = vec![
            given(EventKind::Acked, 29),
            given(EventKind::Pushed, 30),
            given(EventKind::Retried, 5),
        ];
        let words = |batch: &mut _, now| -> Vec<&str> {
            take_ready(batch, now).iter().map(|event| event.event).collect()
        };
        assert_eq!(words(&mut batch, now), ["pushed", "acked"]);
        assert_eq!(words(&mut batch, now), [""; 0], "an earlier one may still come");
        batch.push(given(EventKind::Snoozed, 6));
        assert_eq!(words(&mut batch, now + GATHER), ["snoozed", "retried"]);
        let mut batch: Vec<_> = (0..BATCH_MAX).map(|_| given(EventKind::Acked, 0)).collect();
        assert_eq!(take_ready(&mut batch, now).len(), BATCH_MAX, "a full batch waits for nothing");
    }

    #[test]
    fn a_lost_verdict_is_no_event() {
        let word = |settled| EventKind::of(settled).map(EventKind::word);
        assert_eq!(word(Settled::Lost), None);
        let settled = [Settled::Done, Settled::Retry, Settled::Dead, Settled::Snoozed];
        assert_eq!(settled.map(word), ["acked", "retried", "dead", "snoozed"].map(Some));
    }
}
