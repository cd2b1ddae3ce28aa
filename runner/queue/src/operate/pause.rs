//! Pauses a topic for all runners. The pause is stored in Redis, so it survives their restarts.

use duebox_job::{Shard, TopicName};
use redis::{Cmd, Value};

use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::reply::{count, text};
use crate::wire::script::{self, PAUSE};

impl Queue {
    /// Pauses a topic: no runner leases its jobs. Jobs that run continue, and pushes are stored.
    /// False if it was paused before.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn pause(&self, topic: &TopicName) -> Result<bool, QueueError> {
        let is_changed = self.set_paused(topic, "pause").await?;
        match self.register(std::slice::from_ref(topic)).await {
            // The set of topics is advisory: without it the topic is paused all the same.
            Err(error) if !error.is_of_topic() => Err(error),
            _ => Ok(is_changed),
        }
    }

    /// Resumes a topic and wakes its runners. False if it was not paused.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn resume(&self, topic: &TopicName) -> Result<bool, QueueError> {
        self.set_paused(topic, "resume").await
    }

    /// True if the topic is paused, by its first shard.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn is_paused(&self, topic: &TopicName) -> Result<bool, QueueError> {
        let mut get = redis::cmd("HGET");
        get.arg(self.keys.of_first(topic).key("meta")).arg("paused");
        match script::run_one(&self.connection, get).await? {
            Value::Nil => Ok(false),
            value => Ok(text(&value)? != "0"),
        }
    }

    /// Pauses a shard that was added to a paused topic.
    pub(crate) async fn pause_shard(&self, shard: &Shard) -> Result<(), QueueError> {
        script::run_one(&self.connection, self.pause_call(shard, "pause")).await.map(drop)
    }

    fn pause_call(&self, shard: &Shard, action: &str) -> Cmd {
        let mut call = PAUSE.call(&self.keys.of(shard));
        call.arg(action);
        call
    }

    async fn set_paused(&self, topic: &TopicName, action: &str) -> Result<bool, QueueError> {
        let shards = self.shards(topic).await?;
        let calls = shards.all().map(|shard| self.pause_call(&shard, action)).collect();
        let replies = script::run(&self.connection, calls).await?;
        let mut is_changed = false;
        for reply in replies {
            is_changed |= count(&reply?)? > 0;
        }
        Ok(is_changed)
    }
}
