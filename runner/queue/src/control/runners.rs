//! The status of running daemons: a text each, which expires soon after its daemon dies. The queue
//! does not read the texts.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::Value;

use crate::client::Queue;
use crate::error::{QueueError, for_each_topic};
use crate::wire::reply::{array, text};
use crate::wire::script;

/// How long a status lasts unless it is renewed.
const STANDS: Duration = Duration::from_secs(30);
/// How long a daemon that vanished may stay in the list of names.
const LISTED: Duration = Duration::from_secs(86_400);
/// Statuses that are read at once.
const RUNNERS_MAX: usize = 1_000;

/// The statuses of live runners.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statuses {
    /// Each runner's name and its status.
    pub texts: Vec<(String, String)>,
    /// Keys that hold no text.
    pub unreadable: Vec<String>,
}

impl Queue {
    /// Publishes the status of a runner for 30 s; it replaces the one before.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn publish_status(&self, runner_id: &str, status: &str) -> Result<(), QueueError> {
        // Redis expires the key by its own clock; the scores only show which names are long unused.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (mut set, mut list) = (redis::cmd("SET"), redis::cmd("ZADD"));
        let score = |at: Duration| u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        set.arg(self.keys.runner_key(runner_id)).arg(status).arg("PX").arg(score(STANDS));
        list.arg(self.keys.runners_key()).arg(score(now + STANDS)).arg(runner_id);
        let mut replies = script::run_idempotent(&self.connection, vec![set, list]).await?;
        let is_new = matches!(replies.last(), Some(Ok(Value::Int(1))));
        if is_new {
            // Only a new name makes the list longer.
            let mut tidy = redis::cmd("ZREMRANGEBYSCORE");
            tidy.arg(self.keys.runners_key()).arg("-inf").arg(score(now.saturating_sub(LISTED)));
            replies.extend(script::run_idempotent(&self.connection, vec![tidy]).await?);
        }
        all_done(replies)
    }

    /// Removes the status of a runner that ends.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn remove_status(&self, runner_id: &str) -> Result<(), QueueError> {
        let (mut forget, mut unlist) = (redis::cmd("DEL"), redis::cmd("ZREM"));
        forget.arg(self.keys.runner_key(runner_id));
        unlist.arg(self.keys.runners_key()).arg(runner_id);
        all_done(script::run_idempotent(&self.connection, vec![forget, unlist]).await?)
    }

    /// The statuses of live runners, by their names; the latest 1,000 of them. What is not text is left out
    /// and counted.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn statuses(&self) -> Result<Statuses, QueueError> {
        self.read_statuses(None).await
    }

    /// The statuses of live runners other than this one.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn other_statuses(&self, runner_id: &str) -> Result<Statuses, QueueError> {
        self.read_statuses(Some(runner_id)).await
    }

    async fn read_statuses(&self, without: Option<&str>) -> Result<Statuses, QueueError> {
        let mut range = redis::cmd("ZREVRANGE");
        range.arg(self.keys.runners_key()).arg(0).arg(RUNNERS_MAX - 1);
        let mut statuses = Statuses::default();
        let names = match script::run_one_idempotent(&self.connection, range).await.and_then(array)
        {
            Ok(names) => names,
            Err(error) if error.is_of_topic() => {
                statuses.unreadable.push(self.keys.runners_key());
                return Ok(statuses);
            }
            Err(error) => return Err(error),
        };
        let mut names: Vec<String> =
            names.iter().filter_map(|name| text(name).ok().map(str::to_owned)).collect();
        names.retain(|name| Some(name.as_str()) != without);
        names.sort();
        // One GET each: in a cluster they are in many slots.
        let get = |name: &String| {
            let mut get = redis::cmd("GET");
            get.arg(self.keys.runner_key(name));
            get
        };
        if names.is_empty() {
            return Ok(statuses);
        }
        let replies =
            script::run_idempotent(&self.connection, names.iter().map(get).collect()).await?;
        for (name, reply) in names.into_iter().zip(for_each_topic(replies)?) {
            match reply {
                // It has expired.
                Ok(Value::Nil) => {}
                reply => match reply.and_then(|status| Ok(text(&status)?.to_owned())) {
                    Ok(status) => statuses.texts.push((name, status)),
                    Err(_) => statuses.unreadable.push(self.keys.runner_key(&name)),
                },
            }
        }
        Ok(statuses)
    }
}

fn all_done(replies: Vec<Result<Value, QueueError>>) -> Result<(), QueueError> {
    replies.into_iter().try_for_each(|reply| reply.map(drop))
}
