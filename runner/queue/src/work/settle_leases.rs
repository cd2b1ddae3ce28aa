//! Settles leases of a topic without knowing their shards.

use duebox_job::{Shard, TopicName};
use redis::Value;

use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::reply::{array, text};
use crate::wire::script;
use crate::work::settle::{Settled, Settlement};
use crate::work::turn::Turn;

impl Queue {
    /// Ends leases with their verdicts and reports what became of each job, in their order. As
    /// many of a shard as [`Settlement::fitting`] allows are one atomic transition. Takes one round trip
    /// for each of them; one more where the topic has several shards.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused. Without a reply the verdicts may have been
    /// carried out: the same call is safe to repeat, and then replies [`Settled::Lost`] for them.
    pub async fn settle(
        &self,
        topic: &TopicName,
        settlements: &[Settlement],
    ) -> Result<Vec<Settled>, QueueError> {
        let shards: Vec<Shard> = self.shards(topic).await?.all().collect();
        let mut settled = Vec::with_capacity(settlements.len());
        let mut rest = settlements;
        while !rest.is_empty() {
            let batch;
            (batch, rest) = rest.split_at(Settlement::fitting(rest));
            if let [shard] = shards.as_slice() {
                settled.extend(self.settle_in(shard, batch.iter().collect()).await?);
            } else {
                settled.extend(self.settle_spread(&shards, batch).await?);
            }
        }
        Ok(settled)
    }

    async fn settle_in(
        &self,
        shard: &Shard,
        settle: Vec<&Settlement>,
    ) -> Result<Vec<Settled>, QueueError> {
        let reply = self.turn(shard, &Turn { settle, ..Turn::default() }).await?;
        let missing = || QueueError::BadReply("a reply is missing".to_owned());
        reply.settled.ok_or_else(|| reply.error.unwrap_or_else(missing))
    }

    async fn settle_spread(
        &self,
        shards: &[Shard],
        batch: &[Settlement],
    ) -> Result<Vec<Settled>, QueueError> {
        let ask = |shard: &Shard| {
            let mut ask = redis::cmd("ZMSCORE");
            ask.arg(self.keys.of(shard).key("unack"));
            for settlement in batch {
                ask.arg(settlement.id().as_bytes());
            }
            ask
        };
        let replies = script::run(&self.connection, shards.iter().map(ask).collect()).await?;
        // A job that is leased nowhere is answered as lost by any shard.
        let mut shard_of = vec![0; batch.len()];
        for (shard, reply) in replies.into_iter().enumerate() {
            for (at, score) in array(reply?)?.iter().enumerate().take(batch.len()) {
                if *score != Value::Nil && text(score)?.as_bytes() == batch[at].token().as_bytes() {
                    shard_of[at] = shard;
                }
            }
        }
        let mut settled = vec![Settled::Lost; batch.len()];
        for (number, shard) in shards.iter().enumerate() {
            let indices: Vec<usize> =
                (0..batch.len()).filter(|&at| shard_of[at] == number).collect();
            if indices.is_empty() {
                continue;
            }
            let own = indices.iter().map(|&at| &batch[at]).collect();
            for (at, word) in indices.into_iter().zip(self.settle_in(shard, own).await?) {
                settled[at] = word;
            }
        }
        Ok(settled)
    }
}
