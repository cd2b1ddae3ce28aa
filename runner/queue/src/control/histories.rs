//! The histories of daemons: a hash each, which outlives its daemon, so that a daemon that starts can show the time
//! before. The queue does not read the fields.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::{Cmd, Value};

use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::reply::{array, bytes, text, unexpected};
use crate::wire::script;

/// How long a history is kept after its daemon has added to it last.
const KEPT: Duration = Duration::from_secs(48 * 3_600);
/// The histories that are kept: those of the daemons that added to theirs last.
const HISTORIES_MAX: isize = 64;

/// The fields of a history, by name.
pub type HistoryFields = Vec<(String, Vec<u8>)>;

impl Queue {
    /// Sets and removes fields of the history of a runner. With more than 64 runners, those that published longest
    /// ago lose theirs.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn publish_history(
        &self,
        runner_id: &str,
        set: &[(String, Vec<u8>)],
        removed: &[String],
    ) -> Result<(), QueueError> {
        let key = self.keys.history_key(runner_id);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (listed, kept) = (millis(now), millis(KEPT));
        let mut calls = Vec::new();
        if !set.is_empty() {
            let mut write = command("HSET", &key);
            for (name, value) in set {
                write.arg(name).arg(&value[..]);
            }
            calls.push(write);
        }
        if !removed.is_empty() {
            let mut remove = command("HDEL", &key);
            remove.arg(removed);
            calls.push(remove);
        }
        calls.push(command("PEXPIRE", &key).arg(kept).to_owned());
        let list = self.keys.histories_key();
        calls.push(command("ZADD", &list).arg(listed).arg(runner_id).to_owned());
        let old = listed.saturating_sub(kept);
        calls.push(command("ZREMRANGEBYSCORE", &list).arg("-inf").arg(old).to_owned());
        calls.push(command("ZRANGE", &list).arg(0).arg(-HISTORIES_MAX - 1).to_owned());
        let mut replies = script::run_idempotent(&self.connection, calls).await?;
        let too_many = replies.pop().unwrap_or(Ok(Value::Nil))?;
        replies.into_iter().try_for_each(|reply| reply.map(drop))?;
        self.forget_histories(array(too_many)?).await
    }

    async fn forget_histories(&self, runners: Vec<Value>) -> Result<(), QueueError> {
        let mut calls = Vec::new();
        for runner in &runners {
            let runner = text(runner)?;
            calls.push(command("DEL", &self.keys.history_key(runner)));
            calls.push(command("ZREM", &self.keys.histories_key()).arg(runner).to_owned());
        }
        if calls.is_empty() {
            return Ok(());
        }
        let replies = script::run_idempotent(&self.connection, calls).await?;
        replies.into_iter().try_for_each(|reply| reply.map(drop))
    }

    /// The runners with a history, those that published last first; at most 64.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn runners_with_history(&self) -> Result<Vec<String>, QueueError> {
        let range = command("ZREVRANGE", &self.keys.histories_key())
            .arg(0)
            .arg(HISTORIES_MAX - 1)
            .to_owned();
        let names = array(script::run_one_idempotent(&self.connection, range).await?)?;
        names.iter().map(|name| Ok(text(name)?.to_owned())).collect()
    }

    /// The history of a runner; empty if it has none any more.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn history_of(&self, runner_id: &str) -> Result<HistoryFields, QueueError> {
        let get = command("HGETALL", &self.keys.history_key(runner_id));
        let reply = script::run_one_idempotent(&self.connection, get).await?;
        let pairs: Vec<(Value, Value)> = match reply {
            Value::Map(pairs) => pairs,
            Value::Array(values) => {
                let mut values = values.into_iter();
                std::iter::from_fn(|| Some((values.next()?, values.next()?))).collect()
            }
            other => return Err(unexpected(&other)),
        };
        let pairs = pairs.into_iter();
        pairs.map(|(name, value)| Ok((text(&name)?.to_owned(), bytes(value)?.to_vec()))).collect()
    }
}

impl Queue {
    /// These fields of the history of a runner, as far as they exist.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn history_fields(
        &self,
        runner_id: &str,
        names: &[String],
    ) -> Result<HistoryFields, QueueError> {
        let get = command("HMGET", &self.keys.history_key(runner_id)).arg(names).to_owned();
        let values = array(script::run_one_idempotent(&self.connection, get).await?)?;
        let some = names.iter().zip(values).filter(|(_, value)| *value != Value::Nil);
        some.map(|(name, value)| Ok((name.clone(), bytes(value)?.to_vec()))).collect()
    }
}

fn command(name: &str, key: &str) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(key);
    command
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
