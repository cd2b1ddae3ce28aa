//! What running daemons say of themselves. What it is, is none of the queue's business: a text each,
//! which goes by itself soon after its daemon does.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::Value;

use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::reply::{array, text};
use crate::wire::script;

/// How long a daemon's word stands that is not renewed.
const STANDS: Duration = Duration::from_secs(30);
/// How long the name of a daemon that left without a word may stay listed.
const LISTED: Duration = Duration::from_secs(86_400);
/// Daemons that are asked for at once.
const RUNNERS_MAX: usize = 1_000;

impl Queue {
    /// Keeps what a runner says of itself for 30 seconds, in place of what it said before.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn tell_status(&self, runner_id: &str, status: &str) -> Result<(), QueueError> {
        // When it lapses is for Redis' clock; the scores only say which names are long out of use.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (mut set, mut list) = (redis::cmd("SET"), redis::cmd("ZADD"));
        let mut tidy = redis::cmd("ZREMRANGEBYSCORE");
        let score = |at: Duration| u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        set.arg(self.keys.runner_key(runner_id)).arg(status).arg("PX").arg(score(STANDS));
        list.arg(self.keys.runners_key()).arg(score(now + STANDS)).arg(runner_id);
        tidy.arg(self.keys.runners_key()).arg("-inf").arg(score(now.saturating_sub(LISTED)));
        all_done(script::run(&self.connection, vec![set, list, tidy]).await?)
    }

    /// Forgets what a runner said of itself: it ends.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn forget_status(&self, runner_id: &str) -> Result<(), QueueError> {
        let (mut forget, mut unlist) = (redis::cmd("DEL"), redis::cmd("ZREM"));
        forget.arg(self.keys.runner_key(runner_id));
        unlist.arg(self.keys.runners_key()).arg(runner_id);
        all_done(script::run(&self.connection, vec![forget, unlist]).await?)
    }

    /// What the runners that are alive said of themselves last, by their names; of more than 1,000, of
    /// those that spoke last.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn statuses(&self) -> Result<Vec<(String, String)>, QueueError> {
        let mut range = redis::cmd("ZREVRANGE");
        range.arg(self.keys.runners_key()).arg(0).arg(RUNNERS_MAX - 1);
        let names = array(script::run_one(&self.connection, range).await?)?;
        let names = names.iter().map(|name| Ok(text(name)?.to_owned()));
        let mut names = names.collect::<Result<Vec<String>, QueueError>>()?;
        if names.is_empty() {
            return Ok(Vec::new());
        }
        names.sort();
        // One by one, for in a cluster they are in many slots.
        let get = |name: &String| {
            let mut get = redis::cmd("GET");
            get.arg(self.keys.runner_key(name));
            get
        };
        let answers = script::run(&self.connection, names.iter().map(get).collect()).await?;
        let mut statuses = Vec::with_capacity(names.len());
        for (name, answer) in names.into_iter().zip(answers) {
            match answer? {
                Value::Nil => {}
                status => statuses.push((name, text(&status)?.to_owned())),
            }
        }
        Ok(statuses)
    }
}

fn all_done(answers: Vec<Result<Value, QueueError>>) -> Result<(), QueueError> {
    answers.into_iter().try_for_each(|answer| answer.map(drop))
}
