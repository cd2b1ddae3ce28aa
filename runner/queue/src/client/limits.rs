//! Writes the limits of topics to Redis.

use duebox_job::{Shard, TopicName};

use crate::client::Queue;
use crate::error::QueueError;
use crate::topic::limits::Limits;
use crate::wire::reply::count;
use crate::wire::script::{self, CONFIGURE};

impl Queue {
    /// Sets the limits of one topic, as [`configure_all`](Self::configure_all). True if they were others
    /// before.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused. Some shards may have the limits then; repeat
    /// the call.
    pub async fn configure(&self, topic: &TopicName, limits: &Limits) -> Result<bool, QueueError> {
        let mut changed = self.configure_all(&[(topic.clone(), limits.clone())]).await?;
        Ok(changed.pop().unwrap_or_default())
    }

    /// Sets the limits of topics for all their runners and producers: each shard gets its part, those of
    /// earlier numbers of shards too. Takes two round trips if no topic has several shards. Returns for
    /// each topic whether its limits were others before.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused. Some limits may be set then; repeat the call.
    pub async fn configure_all(
        &self,
        wanted: &[(TopicName, Limits)],
    ) -> Result<Vec<bool>, QueueError> {
        // The first shard stores the number of shards.
        let first = wanted.iter().map(|(topic, limits)| (topic.first_shard(), limits));
        let mut changed = self.configure_shards(&first.collect::<Vec<_>>()).await?;
        let topics: Vec<TopicName> = wanted.iter().map(|(topic, _)| topic.clone()).collect();
        let (mut others, mut further) = (Vec::new(), Vec::new());
        for (at, shards) in self.shards_of_all(&topics).await?.iter().enumerate() {
            for shard in shards.all().skip(1) {
                others.push(at);
                further.push((shard, &wanted[at].1));
            }
        }
        let new = self.configure_shards(&further).await?;
        for ((at, (shard, _)), is_new) in others.into_iter().zip(&further).zip(new) {
            // A new shard is paused if its topic is.
            if is_new && self.is_paused(&topics[at]).await? {
                self.pause_shard(shard).await?;
            }
            changed[at] |= is_new;
        }
        Ok(changed)
    }

    /// Writes to each shard its part of the limits.
    async fn configure_shards(&self, limits: &[(Shard, &Limits)]) -> Result<Vec<bool>, QueueError> {
        let configure = |(shard, limits): &(Shard, &Limits)| {
            let mut call = CONFIGURE.call(&self.keys.of(shard));
            for (field, value) in limits.part().fields() {
                call.arg(field).arg(value);
            }
            call
        };
        let answers = script::run(&self.connection, limits.iter().map(configure).collect()).await?;
        for (shard, _) in limits {
            self.known_shards.forget(shard.topic());
        }
        answers.into_iter().map(|answer| Ok(count(&answer?)? > 0)).collect()
    }
}
