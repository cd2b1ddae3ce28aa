//! Finds the topic of a job of the command protocol, whose ids are global: the Redis key
//! `PREFIX:command:ID` holds the name of the topic. With tokens each token has ids of its own, in
//! `PREFIX:commands:TOKEN:ID`, so that no token reserves ids of another, or sees where they are.
//!
//! It is only a hint: the topic's own keys decide the state and the holder of a job. The key
//! expires thirty days after the job fell due or was last popped.

use std::time::Duration;

use duebox_job::TopicName;
use duebox_queue::Queue;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use redis::AsyncCommands;

use crate::http::problem::{Problem, REDIS};
use crate::millis::millis;

/// How long the entry of an unfinished job is kept.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// The index of a queue.
pub(super) struct CommandIndex<'a> {
    pub(super) queue: &'a Queue,
    pub(super) prefix: &'a str,
    /// The name of the token; `None` without tokens.
    pub(super) token: Option<&'a str>,
}

impl CommandIndex<'_> {
    /// Creates the entry of a job. Returns the topic of an existing entry, which stays unchanged.
    pub(super) async fn claim(
        &self,
        id: &str,
        topic: &TopicName,
        delay: Duration,
    ) -> Result<Option<TopicName>, Problem> {
        let mut set = redis::cmd("SET");
        set.arg(self.key(id)).arg(topic.as_str()).arg("NX").arg("GET");
        set.arg("PX").arg(millis(KEPT + delay));
        let before: Option<String> =
            set.query_async(&mut self.queue.redis()).await.map_err(failed)?;
        Ok(before.and_then(|name| TopicName::new(&name).ok()))
    }

    /// Writes the entry of a job, over an existing one.
    pub(super) async fn note(
        &self,
        id: &str,
        topic: &TopicName,
        delay: Duration,
    ) -> Result<(), Problem> {
        let mut set = redis::cmd("SET");
        set.arg(self.key(id)).arg(topic.as_str()).arg("PX").arg(millis(KEPT + delay));
        set.query_async(&mut self.queue.redis()).await.map_err(failed)
    }

    /// The topic of a job.
    pub(super) async fn find(&self, id: &str) -> Result<Option<TopicName>, Problem> {
        let found: Option<String> = self.queue.redis().get(self.key(id)).await.map_err(failed)?;
        Ok(found.and_then(|name| TopicName::new(&name).ok()))
    }

    /// Deletes the entry of a job.
    pub(super) async fn forget(&self, id: &str) -> Result<(), Problem> {
        self.queue.redis().del(self.key(id)).await.map_err(failed)
    }

    fn key(&self, id: &str) -> String {
        match self.token {
            None => format!("{}:command:{id}", self.prefix),
            // The name contains no colon then, so it ends at the first one.
            Some(name) => {
                let name = utf8_percent_encode(name, NON_ALPHANUMERIC);
                format!("{}:commands:{name}:{id}", self.prefix)
            }
        }
    }
}

fn failed(error: redis::RedisError) -> Problem {
    let remedy = "the command may have been carried out: retry with the same id";
    Problem::new(REDIS, format!("Redis failed: {error}"), remedy).retry_after(1)
}
