//! How many jobs wait where, as Redis says. It is asked at a scrape, and not again within a second: whoever
//! scrapes meanwhile gets what was seen.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duebox_job::TopicName;
use duebox_queue::{Queue, QueueError};
use tokio::sync::Mutex;
use tracing::debug;

use super::TOPICS_MAX;
use super::page::{About, Labels, Page, topic, word};
use super::redis::RedisFigures;

/// How long what was seen holds.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// How long Redis has for all of it.
const LOOK_MAX: Duration = Duration::from_secs(2);
/// Topics that are asked for in one pipeline, so that none holds Redis up for more than a millisecond or so.
const TOPICS_A_PIPELINE: usize = 50;

/// What was seen last.
#[derive(Default)]
pub(super) struct Depths(Mutex<Option<(Instant, Arc<Seen>)>>);

/// What was seen at one look.
#[derive(Default)]
pub(super) struct Seen {
    /// False if Redis did not answer.
    is_answered: bool,
    /// Topics that were not asked for.
    more: usize,
    topics: Vec<(TopicName, duebox_queue::Depths)>,
    redis: RedisFigures,
}

impl Depths {
    /// The depths of these topics, or of the first so many; none if Redis does not answer in time.
    pub(super) async fn look(&self, queue: &Queue, topics: &[TopicName]) -> Arc<Seen> {
        let mut last = self.0.lock().await;
        if let Some((at, seen)) = &*last
            && at.elapsed() < FRESH_FOR
        {
            return Arc::clone(seen);
        }
        let asked = &topics[..topics.len().min(TOPICS_MAX)];
        let more = topics.len() - asked.len();
        let seen = match tokio::time::timeout(LOOK_MAX, ask(queue, asked)).await {
            Ok(Ok((topics, redis))) => Seen { is_answered: true, more, topics, redis },
            Ok(Err(error)) => {
                debug!(%error, "a scrape goes without depths");
                Seen { more, ..Seen::default() }
            }
            Err(_) => Seen { more, ..Seen::default() },
        };
        let seen = Arc::new(seen);
        *last = Some((Instant::now(), Arc::clone(&seen)));
        seen
    }
}

async fn ask(
    queue: &Queue,
    topics: &[TopicName],
) -> Result<(Vec<(TopicName, duebox_queue::Depths)>, RedisFigures), QueueError> {
    let mut all = Vec::with_capacity(topics.len());
    for some in topics.chunks(TOPICS_A_PIPELINE) {
        all.extend(some.iter().cloned().zip(queue.depths(some).await?));
    }
    // A connection without a question in it says nothing of Redis.
    if topics.is_empty() {
        queue.now_ms().await?;
    }
    Ok((all, RedisFigures::ask(queue).await))
}

impl Seen {
    pub(super) fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        page.gauge(
            &About::new(
                "redis_up",
                "1 if Redis answered when it was asked for the depths of this page.",
            ),
            u64::from(self.is_answered),
        )?;
        self.redis.write(page)?;
        page.gauge(
            &About::new(
                "topics_untold",
                "Topics beyond the first 1000, of which this page tells nothing.",
            ),
            self.more,
        )?;
        page.gauges(
            &About::new("queue_jobs", "Jobs in Redis by their state; every runner tells the same."),
            self.topics.iter().flat_map(|(name, depths)| {
                by_state(depths)
                    .map(|(state, jobs)| (vec![topic(name.as_str()), word("state", state)], jobs))
            }),
        )?;
        page.gauges(
            &About::seconds(
                "queue_oldest_ready_age",
                "How long the oldest ready job has been due; 0 if none is ready.",
            ),
            self.each(|depths| {
                let due = depths.oldest_ready_ms.unwrap_or(depths.now_ms);
                depths.now_ms.saturating_sub(due) as f64 / 1_000.0
            }),
        )?;
        page.gauges(
            &About::new("queue_paused", "1 if the topic is paused: no runner starts its jobs."),
            self.each(|depths| u64::from(depths.paused)),
        )
    }

    fn each<V>(
        &self,
        value: impl Fn(&duebox_queue::Depths) -> V,
    ) -> impl Iterator<Item = (Labels<'_>, V)> {
        self.topics.iter().map(move |(name, depths)| (vec![topic(name.as_str())], value(depths)))
    }
}

fn by_state(depths: &duebox_queue::Depths) -> [(&'static str, u64); 8] {
    [
        ("pending", depths.pending),
        ("ready", depths.ready),
        ("blocked", depths.blocked),
        ("unack", depths.unack),
        ("retry", depths.retry),
        ("dead", depths.dead),
        ("done", depths.done),
        ("outbox", depths.outbox),
    ]
}
