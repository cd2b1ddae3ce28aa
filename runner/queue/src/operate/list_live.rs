//! Lists the live jobs that come first: those that run, and the next of each state. These are plain
//! reads at a cost of O(log n) and the reply. A job that moves meanwhile may be listed twice, or not
//! at all.

use duebox_job::{JobId, Shard, TopicName};
use redis::Value;

use crate::client::Queue;
use crate::error::QueueError;
use crate::operate::job::JobState;
use crate::wire::constants::BATCH_MAX;
use crate::wire::reply::{array, bytes, score, text};
use crate::wire::score::due_of_ready;
use crate::wire::script;

/// A live job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveJob {
    /// Its id.
    pub id: JobId,
    /// Its state.
    pub state: JobState,
    /// Its due time, or that of its next attempt; of a leased job the end of its lease. Unix ms.
    pub at_ms: u64,
}

/// The states, in the order in which their jobs are listed.
const STAGES: [(&str, JobState); 5] = [
    ("unack", JobState::Unack),
    ("ready", JobState::Ready),
    ("blocked", JobState::Blocked),
    ("retry", JobState::Retry),
    ("pending", JobState::Pending),
];

impl Queue {
    /// The first jobs of each state, by time: at most `limit` of a state, 1 to [`BATCH_MAX`]; other
    /// values are moved to the nearest bound.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn list_live(
        &self,
        topic: &TopicName,
        limit: usize,
    ) -> Result<Vec<LiveJob>, QueueError> {
        let limit = limit.clamp(1, BATCH_MAX);
        let shards: Vec<Shard> = self.shards(topic).await?.all().collect();
        let mut calls = Vec::with_capacity(STAGES.len() * shards.len());
        for (stage, _) in STAGES {
            for shard in &shards {
                let mut call = redis::cmd("ZRANGE");
                call.arg(self.keys.of(shard).key(stage)).arg(0).arg(limit - 1).arg("WITHSCORES");
                calls.push(call);
            }
        }
        let mut replies = script::run_idempotent(&self.connection, calls).await?.into_iter();
        let mut all = Vec::new();
        for (_, state) in STAGES {
            let mut found = Vec::new();
            for reply in replies.by_ref().take(shards.len()) {
                found.extend(read(state, reply?)?);
            }
            found.sort_by_key(|job| job.at_ms);
            found.truncate(limit);
            all.append(&mut found);
        }
        Ok(all)
    }
}

/// Decodes the jobs of one state with their scores.
fn read(state: JobState, reply: Value) -> Result<Vec<LiveJob>, QueueError> {
    let mut fields = array(reply)?.into_iter();
    let mut jobs = Vec::with_capacity(fields.len() / 2);
    while let (Some(member), Some(number)) = (fields.next(), fields.next()) {
        let (member, number) = (bytes(member)?, text(&number)?);
        let (id, at_ms) = id_and_time(state, &member, number);
        jobs.push(LiveJob { id: JobId::from_redis(id.to_vec()), state, at_ms });
    }
    Ok(jobs)
}

/// The id of an entry, and its time: the due time or that of the next attempt, of a leased job the end of
/// its lease, of an ended job its end. Unix ms.
pub(crate) fn id_and_time<'m>(state: JobState, member: &'m [u8], number: &str) -> (&'m [u8], u64) {
    match state {
        JobState::Ready => (member, due_of_ready(number)),
        JobState::Unack => (member, score(number) / 1_000),
        JobState::Blocked => of_line(member),
        _ => (member, score(number)),
    }
}

/// Id and due time of a member of a line: key, due time, number and id, with a zero byte between them. Only
/// the id may hold more of these.
fn of_line(member: &[u8]) -> (&[u8], u64) {
    let mut parts = member.splitn(4, |byte| *byte == 0).skip(1);
    let due = parts.next().and_then(|due| std::str::from_utf8(due).ok()).map_or(0, score);
    (parts.nth(1).unwrap_or_default(), due)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_in_a_line_tells_id_and_due_time() {
        assert_eq!(
            of_line(b"user-7\x00001795262401000\x000000000000000001\x00a\x00b"),
            (&b"a\x00b"[..], 1_795_262_401_000)
        );
        assert_eq!(of_line(b"none"), (&b""[..], 0));
    }
}
