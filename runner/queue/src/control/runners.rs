//! The status of running daemons: a text each, which expires soon after its daemon dies. The queue
//! does not read the texts.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::Value;

use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::reply::{array, text};
use crate::wire::script;

/// How long a status lasts unless it is renewed.
const STANDS: Duration = Duration::from_secs(30);
/// How long a daemon that vanished may stay in the list of names.
const LISTED: Duration = Duration::from_secs(86_400);
/// Statuses that are read at once.
const RUNNERS_MAX: usize = 1_000;

impl Queue {
    /// Publishes the status of a runner for 30 s; it replaces the one before.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn publish_status(&self, runner_id: &str, status: &str) -> Result<(), QueueError> {
        // Redis expires the key by its own clock; the scores only show which names are long unused.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (mut set, mut list) = (redis::cmd("SET"), redis::cmd("ZADD"));
        let mut tidy = redis::cmd("ZREMRANGEBYSCORE");
        let score = |at: Duration| u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        set.arg(self.keys.runner_key(runner_id)).arg(status).arg("PX").arg(score(STANDS));
        list.arg(self.keys.runners_key()).arg(score(now + STANDS)).arg(runner_id);
        tidy.arg(self.keys.runners_key()).arg("-inf").arg(score(now.saturating_sub(LISTED)));
        all_done(script::run_safe(&self.connection, vec![set, list, tidy]).await?)
    }

    /// Removes the status of a runner that ends.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn remove_status(&self, runner_id: &str) -> Result<(), QueueError> {
        let (mut forget, mut unlist) = (redis::cmd("DEL"), redis::cmd("ZREM"));
        forget.arg(self.keys.runner_key(runner_id));
        unlist.arg(self.keys.runners_key()).arg(runner_id);
        all_done(script::run_safe(&self.connection, vec![forget, unlist]).await?)
    }

    /// The statuses of live runners, by their names; the latest 1,000 of them.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused.
    pub async fn statuses(&self) -> Result<Vec<(String, String)>, QueueError> {
        let mut range = redis::cmd("ZREVRANGE");
        range.arg(self.keys.runners_key()).arg(0).arg(RUNNERS_MAX - 1);
        let names = array(script::run_one_safe(&self.connection, range).await?)?;
        let names = names.iter().map(|name| Ok(text(name)?.to_owned()));
        let mut names = names.collect::<Result<Vec<String>, QueueError>>()?;
        if names.is_empty() {
            return Ok(Vec::new());
        }
        names.sort();
        // One GET each: in a cluster they are in many slots.
        let get = |name: &String| {
            let mut get = redis::cmd("GET");
            get.arg(self.keys.runner_key(name));
            get
        };
        let answers = script::run_safe(&self.connection, names.iter().map(get).collect()).await?;
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
