//! Writes the limits of topics to Redis.

use duebox_job::{Shard, TopicName};
use redis::Value;

use crate::client::Queue;
use crate::error::{QueueError, for_each_topic};
use crate::topic::limits::Limits;
use crate::wire::reply::count;
use crate::wire::script::{self, CONFIGURE};

impl Queue {
    /// Sets the limits of one topic, as [`configure_all`](Self::configure_all). True if they were others
    /// before.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused. Some shards may have the limits then; repeat
    /// the call.
    pub async fn configure(&self, topic: &TopicName, limits: &Limits) -> Result<bool, QueueError> {
        let wanted = [(topic.clone(), limits.clone())];
        self.configure_all(&wanted).await?.pop().unwrap_or(Ok(false))
    }

    /// Sets the limits of topics for all their runners and producers: each shard gets its part, those of
    /// earlier numbers of shards too. Takes two round trips if no topic has several shards. Returns for
    /// each topic whether its limits were others before; a topic whose keys Redis refuses has an error of
    /// its own.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused. Some limits may be set then; repeat the call.
    pub async fn configure_all(
        &self,
        wanted: &[(TopicName, Limits)],
    ) -> Result<Vec<Result<bool, QueueError>>, QueueError> {
        // The first shard stores the number of shards.
        let first = wanted.iter().map(|(topic, limits)| (topic.first_shard(), limits));
        let mut changed = self.configure_shards(&first.collect::<Vec<_>>()).await?;
        let topics: Vec<TopicName> = wanted.iter().map(|(topic, _)| topic.clone()).collect();
        let (mut others, mut further) = (Vec::new(), Vec::new());
        for (at, shards) in self.shards_of_all(&topics).await?.into_iter().enumerate() {
            match shards {
                Ok(shards) => {
                    others.extend(shards.all().skip(1).map(|_| at));
                    further.extend(shards.all().skip(1).map(|shard| (shard, &wanted[at].1)));
                }
                Err(error) => changed[at] = Err(error),
            }
        }
        let written = self.configure_shards(&further).await?;
        for ((at, (shard, _)), is_new) in others.into_iter().zip(&further).zip(written) {
            // A new shard is paused if its topic is.
            let is_new = match is_new {
                Ok(true) => self.pause_as_topic(shard).await.map(|()| true),
                other => other,
            };
            match (&mut changed[at], is_new) {
                (Ok(changed), Ok(is_new)) => *changed |= is_new,
                (changed @ Ok(_), Err(error)) => *changed = Err(error),
                (Err(_), _) => {}
            }
        }
        for_each_topic(changed)
    }

    async fn pause_as_topic(&self, shard: &Shard) -> Result<(), QueueError> {
        if self.is_paused(shard.topic()).await? {
            self.pause_shard(shard).await?;
        }
        Ok(())
    }

    /// Writes to each shard its part of the limits.
    async fn configure_shards(
        &self,
        limits: &[(Shard, &Limits)],
    ) -> Result<Vec<Result<bool, QueueError>>, QueueError> {
        let configure = |(shard, limits): &(Shard, &Limits)| {
            let mut call = CONFIGURE.call(&self.keys.of(shard));
            for (field, value) in limits.part().fields() {
                call.arg(field).arg(value);
            }
            call
        };
        let replies =
            script::run_idempotent(&self.connection, limits.iter().map(configure).collect())
                .await?;
        for (shard, _) in limits {
            self.known_shards.forget(shard.topic());
        }
        let is_new = |reply: Result<Value, QueueError>| Ok(count(&reply?)? > 0);
        for_each_topic(replies.into_iter().map(is_new))
    }
}
