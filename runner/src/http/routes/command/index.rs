//! In which topic a job is that came by the command protocol, whose ids are global: a key of Redis for each
//! id, `PREFIX:command:ID`, that holds the name of its topic.
//!
//! It is a hint and no more: who has a job, and what becomes of it, is decided by the topic's own keys. It
//! lapses by itself, thirty days after the job fell due or was popped last.

use std::time::Duration;

use duebox_job::TopicName;
use duebox_queue::Queue;
use redis::AsyncCommands;

use crate::http::problem::{Problem, REDIS};

/// How long a job is remembered that nobody finishes.
const KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// The index of a queue.
pub(super) struct CommandIndex<'a> {
    pub(super) queue: &'a Queue,
    pub(super) prefix: &'a str,
}

impl CommandIndex<'_> {
    /// Notes where a job is to be. Answers where one of that id was noted before, if it was; the note stays
    /// as it was then.
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

    /// Notes where a job is, whatever was noted before.
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

    /// Where a job is.
    pub(super) async fn find(&self, id: &str) -> Result<Option<TopicName>, Problem> {
        let found: Option<String> = self.queue.redis().get(self.key(id)).await.map_err(failed)?;
        Ok(found.and_then(|name| TopicName::new(&name).ok()))
    }

    /// Forgets a job.
    pub(super) async fn forget(&self, id: &str) -> Result<(), Problem> {
        self.queue.redis().del(self.key(id)).await.map_err(failed)
    }

    fn key(&self, id: &str) -> String {
        format!("{}:command:{id}", self.prefix)
    }
}

fn failed(error: redis::RedisError) -> Problem {
    let remedy = "whether it was carried out is not known: try again, with the same id";
    Problem::new(REDIS, format!("Redis did not do it: {error}"), remedy).retry_after(1)
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
