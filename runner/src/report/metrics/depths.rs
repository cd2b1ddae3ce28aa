//! Job counts by topic and state, from Redis. A scrape reads them at most once a second; scrapes in
//! between reuse the last snapshot.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duebox_job::TopicName;
use duebox_queue::{Queue, QueueError};
use tokio::sync::Mutex;
use tracing::debug;

use super::TOPICS_MAX;
use super::page::{About, Labels, Page, topic, word};
use super::redis::RedisInfo;

/// How long a snapshot is reused.
const FRESH_FOR: Duration = Duration::from_secs(1);
/// Time limit for reading a snapshot.
const READ_WITHIN: Duration = Duration::from_secs(2);
/// Topics in one pipeline: none of them blocks Redis for more than about a millisecond.
const TOPICS_PER_PIPELINE: usize = 50;

/// The last snapshot.
#[derive(Default)]
pub(super) struct Depths(Mutex<Option<(Instant, Arc<DepthsSnapshot>)>>);

/// The depths at one moment.
#[derive(Default)]
pub(super) struct DepthsSnapshot {
    /// False if Redis did not reply.
    is_up: bool,
    /// Number of topics that were not read.
    more: usize,
    topics: Vec<(TopicName, duebox_queue::Depths)>,
    redis: RedisInfo,
}

impl Depths {
    /// The depths of these topics, at most [`TOPICS_MAX`]; empty if Redis does not reply in time.
    pub(super) async fn snapshot(
        &self,
        queue: &Queue,
        topics: &[TopicName],
    ) -> Arc<DepthsSnapshot> {
        let mut last = self.0.lock().await;
        if let Some((at, snapshot)) = &*last
            && at.elapsed() < FRESH_FOR
        {
            return Arc::clone(snapshot);
        }
        let asked = &topics[..topics.len().min(TOPICS_MAX)];
        let more = topics.len() - asked.len();
        let snapshot = match tokio::time::timeout(READ_WITHIN, read(queue, asked)).await {
            Ok(Ok((topics, redis))) => DepthsSnapshot { is_up: true, more, topics, redis },
            Ok(Err(error)) => {
                debug!(%error, "the depths could not be read for a scrape");
                DepthsSnapshot { more, ..DepthsSnapshot::default() }
            }
            Err(_) => DepthsSnapshot { more, ..DepthsSnapshot::default() },
        };
        let snapshot = Arc::new(snapshot);
        *last = Some((Instant::now(), Arc::clone(&snapshot)));
        snapshot
    }
}

async fn read(
    queue: &Queue,
    topics: &[TopicName],
) -> Result<(Vec<(TopicName, duebox_queue::Depths)>, RedisInfo), QueueError> {
    let mut all = Vec::with_capacity(topics.len());
    for some in topics.chunks(TOPICS_PER_PIPELINE) {
        all.extend(some.iter().cloned().zip(queue.depths(some).await?));
    }
    // Without topics, another command finds out whether Redis replies.
    if topics.is_empty() {
        queue.now_ms().await?;
    }
    Ok((all, RedisInfo::read(queue).await))
}

impl DepthsSnapshot {
    pub(super) fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        page.gauge(
            &About::new("redis_up", "1 if Redis replied to the queries of this scrape."),
            u64::from(self.is_up),
        )?;
        self.redis.write(page)?;
        page.gauge(
            &About::new("topics_omitted", "Topics beyond the first 1000, which this page omits."),
            self.more,
        )?;
        // The name before 0.1; it goes with 0.2.
        page.gauge(
            &About::new("topics_untold", "Deprecated: use duebox_topics_omitted."),
            self.more,
        )?;
        page.gauges(
            &About::new("queue_jobs", "Jobs in Redis by state; every runner reports the same."),
            self.topics.iter().flat_map(|(name, depths)| {
                by_state(depths)
                    .map(|(state, jobs)| (vec![topic(name.as_str()), word("state", state)], jobs))
            }),
        )?;
        page.gauges(
            &About::seconds(
                "queue_oldest_ready_age",
                "How long the oldest ready job has been due; 0 without ready jobs.",
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
