//! The control channel: a text to every daemon that listens, and their replies. The queue does not
//! read the texts.

use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::reply::{array, count, text};
use crate::wire::script;

/// How long replies are kept, in seconds.
const ANSWERS_KEPT_S: u64 = 60;
/// Replies that are read for one message.
const ANSWERS_MAX: usize = 10_000;

impl Queue {
    /// Publishes a text to every daemon that listens; returns how many there are.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn publish_control(&self, order: &str) -> Result<u64, QueueError> {
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(self.keys.control_channel()).arg(order);
        count(&script::run_one(&self.connection, publish).await?)
    }

    /// Replies to the message with this id. Replies are kept for one minute.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn reply_to_control(&self, id: &str, answer: &str) -> Result<(), QueueError> {
        let key = self.keys.answers_key(id);
        let (mut push, mut expire) = (redis::cmd("RPUSH"), redis::cmd("EXPIRE"));
        push.arg(&key).arg(answer);
        expire.arg(&key).arg(ANSWERS_KEPT_S);
        for answer in script::run(&self.connection, vec![push, expire]).await? {
            answer?;
        }
        Ok(())
    }

    /// The replies to the message with this id so far.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn control_replies(&self, id: &str) -> Result<Vec<String>, QueueError> {
        let mut range = redis::cmd("LRANGE");
        range.arg(self.keys.answers_key(id)).arg(0).arg(ANSWERS_MAX - 1);
        let answers = array(script::run_one(&self.connection, range).await?)?;
        answers.iter().map(|answer| text(answer).map(str::to_owned)).collect()
    }
}
