//! Writes the limits of topics to Redis.

use duebox_job::TopicName;

use crate::client::Queue;
use crate::error::QueueError;
use crate::topic::limits::Limits;
use crate::wire::reply::count;
use crate::wire::script::{self, CONFIGURE};

impl Queue {
    /// Sets the limits of one shard for all its users. True if they were others before.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn configure(&self, topic: &TopicName, rules: &Limits) -> Result<bool, QueueError> {
        let mut changed = self.configure_all(&[(topic, rules)]).await?;
        Ok(changed.pop().unwrap_or_default())
    }

    /// Sets the limits of several shards, in one pipeline.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn configure_all(
        &self,
        rules: &[(&TopicName, &Limits)],
    ) -> Result<Vec<bool>, QueueError> {
        let configure = |(topic, rules): &(&TopicName, &Limits)| {
            let mut call = CONFIGURE.call(&self.keys.of(topic));
            for (field, value) in rules.fields() {
                call.arg(field).arg(value);
            }
            call
        };
        let answers =
            script::run_safe(&self.connection, rules.iter().map(configure).collect()).await?;
        for (topic, _) in rules {
            self.known_shards.forget(topic);
        }
        answers.into_iter().map(|answer| Ok(count(&answer?)? > 0)).collect()
    }
}
