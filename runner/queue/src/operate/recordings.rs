//! Recordings: what the last attempts of dead jobs read from the host, so that they can be replayed. A shard
//! keeps those of its last deaths, at most [`RECORDINGS_MAX`], and each only as long as its job is dead.

use bytes::Bytes;
use duebox_job::{JobId, Shard, TopicName};
use redis::Value;

use crate::client::Queue;
use crate::error::QueueError;
use crate::wire::bounds;
use crate::wire::constants::BATCH_MAX;
use crate::wire::reply::{array, bytes, count, score, text};
use crate::wire::script::{self, RECORD};

/// Recordings that a shard keeps at most; the oldest ones are deleted.
pub const RECORDINGS_MAX: usize = BATCH_MAX;

/// A recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecording {
    /// The job.
    pub id: JobId,
    /// When it died, in Unix milliseconds.
    pub died_at_ms: u64,
    /// The recording, as it was given.
    pub recording: Bytes,
}

impl Queue {
    /// Keeps the recordings of jobs that have died in this shard. A job that is not dead any more is left
    /// out. Returns how many were kept. Several calls are sent if they are long.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn keep_recordings(
        &self,
        shard: &Shard,
        recordings: &[(JobId, Vec<u8>)],
    ) -> Result<u64, QueueError> {
        let mut kept = 0_u64;
        let size = |(id, recording): &(JobId, Vec<u8>)| id.as_bytes().len() + recording.len();
        for some in bounds::parts(recordings, BATCH_MAX, size) {
            let mut call = RECORD.call(&self.keys.of(shard));
            call.arg(RECORDINGS_MAX);
            for (id, recording) in some {
                call.arg(id.as_bytes()).arg(recording.as_slice());
            }
            kept = kept
                .saturating_add(count(&script::run_one_idempotent(&self.connection, call).await?)?);
        }
        Ok(kept)
    }

    /// The recording of a dead job. `None` without one, or if the job has died again since.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn recording(
        &self,
        topic: &TopicName,
        id: &JobId,
    ) -> Result<Option<StoredRecording>, QueueError> {
        for shard in self.shards(topic).await?.all() {
            let keys = self.keys.of(&shard);
            let command = |name: &str, key: &str| {
                let mut command = redis::cmd(name);
                command.arg(keys.key(key)).arg(id.as_bytes());
                command
            };
            let calls = vec![
                command("HGET", "recordings"),
                command("ZSCORE", "recordings:at"),
                command("ZSCORE", "dead"),
            ];
            let mut replies = script::run_idempotent(&self.connection, calls).await?.into_iter();
            let mut next = || replies.next().unwrap_or(Ok(Value::Nil));
            let (recording, recorded, died) = (next()?, next()?, next()?);
            if recording != Value::Nil && died != Value::Nil && died == recorded {
                let died_at_ms = score_of(&died)?;
                let recording = bytes(recording)?;
                return Ok(Some(StoredRecording { id: id.clone(), died_at_ms, recording }));
            }
        }
        Ok(None)
    }

    /// The ids of the last deaths with a recording, the latest first.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn last_recorded(
        &self,
        topic: &TopicName,
        most: usize,
    ) -> Result<Vec<JobId>, QueueError> {
        if most == 0 {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for shard in self.shards(topic).await?.all() {
            let mut command = redis::cmd("ZREVRANGE");
            command.arg(self.keys.of(&shard).key("recordings:at")).arg(0).arg(most - 1);
            command.arg("WITHSCORES");
            let mut pairs =
                array(script::run_one_idempotent(&self.connection, command).await?)?.into_iter();
            while let (Some(id), Some(died)) = (pairs.next(), pairs.next()) {
                found.push((score_of(&died)?, JobId::from_redis(bytes(id)?.to_vec())));
            }
        }
        found.sort_by_key(|(died_at_ms, _)| std::cmp::Reverse(*died_at_ms));
        found.truncate(most);
        Ok(found.into_iter().map(|(_, id)| id).collect())
    }
}

fn score_of(value: &Value) -> Result<u64, QueueError> {
    Ok(score(text(value)?))
}
