//! Dead jobs by the many: another life for some, and an end for others. Who asks for all of a class, or
//! of a span of time, is served oldest first in bounded batches, and what dies meanwhile is left alone.

use duebox_job::{JobId, TopicName};
use redis::{Cmd, Value};

use crate::client::Queue;
use crate::error::QueueError;
use crate::operate::list::{DeadQuery, PageOrder, PageQuery};
use crate::topic::shards::Shards;
use crate::wire::constants::BATCH_MAX;
use crate::wire::keys::TopicKeys;
use crate::wire::reply::{array, text, unexpected};
use crate::wire::script::{self, REQUEUE};

/// What became of a requeued job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeued {
    /// It is ready, with its options and without its attempts.
    Ok,
    /// Its id is live again: it stays dead.
    Exists,
    /// No such job is dead.
    None,
}

impl Requeued {
    /// The queue's word for it.
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

/// What became of dead jobs that were to be requeued.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequeuedMany {
    /// How many are ready.
    pub requeued: u64,
    /// How many stay dead, since their ids are live again.
    pub exists: u64,
    /// The first of those that stay dead, at most [`BATCH_MAX`].
    pub exists_ids: Vec<JobId>,
}

impl Queue {
    /// Gives dead jobs another life, every [`BATCH_MAX`] of a shard in one atomic transition.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
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
                // Who was not met yet may be dead in the next shard.
                let left: Vec<usize> =
                    (0..batch.len()).filter(|&at| met[at] == Requeued::None && !live[at]).collect();
                if left.is_empty() {
                    break;
                }
                let ids = left.iter().map(|&at| &batch[at]);
                let call = requeue_command(&self.keys.of(&shard), ids);
                let answers = array(script::run_one(&self.connection, call).await?)?;
                for (at, value) in left.into_iter().zip(answers) {
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

    /// Which of these ids are live in any shard, where there are several: an id may be dead in one and
    /// live in another, since the number of shards was changed between the two.
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

    /// Gives every dead job another life that the query means, whatever its page size and order.
    /// Costs a page and a script call for every [`BATCH_MAX`] dead jobs of the span.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused; batches before that one are requeued.
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

    /// Forgets every dead job that the query means, whatever its page size and order. Answers how
    /// many. Costs as much as [`Self::requeue_matching`].
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused; batches before that one are forgotten.
    pub async fn purge_matching(
        &self,
        topic: &TopicName,
        query: &DeadQuery,
    ) -> Result<u64, QueueError> {
        let mut walk = Some(self.dead_until_now(query).await?);
        let mut purged = 0;
        while let Some(ids) = self.next_dead(topic, &mut walk).await? {
            purged += self.prune(topic, &ids).await?;
        }
        Ok(purged)
    }

    /// The query's jobs that are dead now, oldest first, in pages as large as they can be.
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
            let page = self.dead_page(topic, query).await?;
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

fn requeue_command<'i>(keys: &TopicKeys, ids: impl Iterator<Item = &'i JobId>) -> Cmd {
    let mut call = REQUEUE.call(keys);
    for id in ids {
        call.arg(id.as_bytes());
    }
    call
}
