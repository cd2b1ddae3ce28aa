//! Orders: a text to every daemon that listens, and the answers of each. What they say is none of the
//! queue's business.

use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::reply::{array, count, text};
use crate::wire::script;

/// How long answers are kept for who asked, in seconds.
const ANSWERS_KEPT_S: u64 = 60;
/// Answers that are read of one order.
const ANSWERS_MAX: usize = 10_000;

impl Queue {
    /// Tells every daemon that listens; answers how many there are.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn order(&self, order: &str) -> Result<u64, QueueError> {
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(self.keys.orders_channel()).arg(order);
        count(&script::run_one(&self.connection, publish).await?)
    }

    /// Answers the order of this id. Answers are kept for a minute.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn answer(&self, id: &str, answer: &str) -> Result<(), QueueError> {
        let key = self.keys.answers_key(id);
        let (mut push, mut expire) = (redis::cmd("RPUSH"), redis::cmd("EXPIRE"));
        push.arg(&key).arg(answer);
        expire.arg(&key).arg(ANSWERS_KEPT_S);
        for answer in script::run(&self.connection, vec![push, expire]).await? {
            answer?;
        }
        Ok(())
    }

    /// The answers to the order of this id, so far.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn answers(&self, id: &str) -> Result<Vec<String>, QueueError> {
        let mut range = redis::cmd("LRANGE");
        range.arg(self.keys.answers_key(id)).arg(0).arg(ANSWERS_MAX - 1);
        let answers = array(script::run_one(&self.connection, range).await?)?;
        answers.iter().map(|answer| text(answer).map(str::to_owned)).collect()
    }
}
