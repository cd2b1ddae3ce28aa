//! Requeues and deletes dead jobs in bulk. Jobs of a class or a span of time are handled oldest first
//! in bounded batches; jobs that die meanwhile are left alone.

use duebox_job::{JobId, TopicName};
use redis::{Cmd, Value};

use crate::client::Queue;
use crate::error::QueueError;
use crate::operate::list::{DeadQuery, PageOrder, PageQuery};
use crate::topic::shards::Shards;
use crate::wire::constants::BATCH_MAX;
use crate::wire::keys::ShardKeys;
use crate::wire::reply::{array, text, unexpected};
use crate::wire::script::{self, REQUEUE};

/// The result of a requeue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeued {
    /// Ready, with its options and with no attempts.
    Ok,
    /// Its id is live again: it stays dead.
    Exists,
    /// No dead job has this id.
    None,
}

impl Requeued {
    /// The word for it in replies, logs and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Exists => "exists",
            Self::None => "none",
        }
    }

    fn read(value: &Value) -> Result<Self, QueueError> {
        match text(value)? {
            "ok" => Ok(Self::Ok),
            "exists" => Ok(Self::Exists),
            "none" => Ok(Self::None),
            _ => Err(unexpected(value)),
        }
    }
}

/// The result of requeueing all jobs of a query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequeuedMany {
    /// Jobs that are ready now.
    pub requeued: u64,
    /// Jobs that stay dead: their ids are live again.
    pub exists: u64,
    /// The first of those ids, at most [`BATCH_MAX`].
    pub exists_ids: Vec<JobId>,
}

impl Queue {
    /// Makes dead jobs ready again; every [`BATCH_MAX`] of a shard are one atomic transition.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn requeue(
        &self,
        topic: &TopicName,
        ids: &[JobId],
    ) -> Result<Vec<Requeued>, QueueError> {
        let shards = self.shards(topic).await?;
        let mut words = Vec::with_capacity(ids.len());
        for batch in ids.chunks(BATCH_MAX) {
            let mut met = vec![Requeued::None; batch.len()];
            let live = self.live_elsewhere(&shards, batch).await?;
            for shard in shards.all() {
                // A job that was not found yet may be dead in the next shard.
                let left: Vec<usize> =
                    (0..batch.len()).filter(|&at| met[at] == Requeued::None && !live[at]).collect();
                if left.is_empty() {
                    break;
                }
                let ids = left.iter().map(|&at| &batch[at]);
                let call = requeue_command(&self.keys.of(&shard), ids);
                let replies = array(script::run_one(&self.connection, call).await?)?;
                for (at, value) in left.into_iter().zip(replies) {
                    met[at] = Requeued::read(&value)?;
                }
            }
            for at in (0..batch.len()).filter(|&at| live[at]) {
                if self.get(topic, &batch[at]).await?.is_some_and(|job| job.dead.is_some()) {
                    met[at] = Requeued::Exists;
                }
            }
            words.append(&mut met);
        }
        Ok(words)
    }

    /// True for each id that is live in any shard, if there are several: an id may be dead in one
    /// shard and live in another after the number of shards changed.
    async fn live_elsewhere(
        &self,
        shards: &Shards,
        ids: &[JobId],
    ) -> Result<Vec<bool>, QueueError> {
        if shards.all().count() < 2 {
            return Ok(vec![false; ids.len()]);
        }
        self.live_anywhere(shards, ids).await
    }

    /// Makes all dead jobs of a query ready again; the page size and order of the query are ignored.
    /// Costs one page and one script call for every [`BATCH_MAX`] dead jobs of the span.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused; batches before that one are requeued.
    pub async fn requeue_matching(
        &self,
        topic: &TopicName,
        query: &DeadQuery,
    ) -> Result<RequeuedMany, QueueError> {
        let mut walk = Some(self.dead_until_now(query).await?);
        let mut total = RequeuedMany::default();
        while let Some(ids) = self.next_dead(topic, &mut walk).await? {
            for (id, word) in ids.iter().zip(self.requeue(topic, &ids).await?) {
                match word {
                    Requeued::Ok => total.requeued += 1,
                    Requeued::Exists => {
                        total.exists += 1;
                        if total.exists_ids.len() < BATCH_MAX {
                            total.exists_ids.push(id.clone());
                        }
                    }
                    // Somebody else requeued or pruned it since it was listed.
                    Requeued::None => {}
                }
            }
        }
        Ok(total)
    }

    /// Deletes all dead jobs of a query; its page size and order are ignored. Returns their number.
    /// Costs as much as [`Self::requeue_matching`].
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused; batches before that one are forgotten.
    pub async fn purge_matching(
        &self,
        topic: &TopicName,
        query: &DeadQuery,
    ) -> Result<u64, QueueError> {
        let mut walk = Some(self.dead_until_now(query).await?);
        let mut purged = 0;
        while let Some(ids) = self.next_dead(topic, &mut walk).await? {
            purged = self.prune(topic, &ids).await?.saturating_add(purged);
        }
        Ok(purged)
    }

    /// The query's jobs that are dead now, oldest first, in pages of the largest size.
    async fn dead_until_now(&self, query: &DeadQuery) -> Result<DeadQuery, QueueError> {
        let now_ms = self.now_ms().await?;
        let page = PageQuery {
            since_ms: query.page.since_ms,
            until_ms: Some(query.page.until_ms.map_or(now_ms, |until| until.min(now_ms))),
            order: PageOrder::Oldest,
            after: None,
            limit: BATCH_MAX,
        };
        Ok(DeadQuery { class: query.class, page })
    }

    /// The next ids of a walk; none at its end.
    async fn next_dead(
        &self,
        topic: &TopicName,
        walk: &mut Option<DeadQuery>,
    ) -> Result<Option<Vec<JobId>>, QueueError> {
        while let Some(query) = walk {
            let page = self.list_dead(topic, query).await?;
            match page.next {
                Some(cursor) => query.page.after = Some(cursor),
                None => *walk = None,
            }
            if !page.jobs.is_empty() {
                return Ok(Some(page.jobs.into_iter().map(|job| job.id).collect()));
            }
        }
        Ok(None)
    }
}

fn requeue_command<'i>(keys: &ShardKeys, ids: impl Iterator<Item = &'i JobId>) -> Cmd {
    let mut call = REQUEUE.call(keys);
    for id in ids {
        call.arg(id.as_bytes());
    }
    call
}
