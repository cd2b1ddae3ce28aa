//! Looks up one job by its id, in any state and any shard. One read-only script for each shard, O(log
//! n).

use std::collections::HashMap;

use bytes::Bytes;
use duebox_job::{JobId, Options, Shard, TopicName};

use crate::client::Queue;
use crate::error::QueueError;
use crate::operate::job::{CurrentLease, DeadEntry, DoneEntry, Job, JobState};
use crate::wire::attempts::Attempts;
use crate::wire::reply::{array, bytes, info_value, score, text};
use crate::wire::score::due_of_ready;
use crate::wire::script::{self, GET};

impl Queue {
    /// Everything that is known of an id; none if it is unknown. O(log n) in each shard of the topic.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused.
    pub async fn get(&self, topic: &TopicName, id: &JobId) -> Result<Option<Job>, QueueError> {
        let shards = self.shards(topic).await?;
        let call = |shard: Shard| {
            let mut call = GET.call(&self.keys.of(&shard));
            call.arg(id.as_bytes());
            call
        };
        let replies =
            script::run_idempotent(&self.connection, shards.all().map(call).collect()).await?;
        let mut found: Option<Job> = None;
        for values in replies {
            let mut reply = Reply::read(array(values?)?)?;
            if let Some(state) = reply.state() {
                let job = reply.job(id.clone(), state);
                found = Some(match found {
                    Some(other) => job.beside(other),
                    None => job,
                });
            }
        }
        Ok(found)
    }
}

impl Job {
    /// Merges what two shards know of one id: the live job, else the one that ended last, with the
    /// other's end.
    fn beside(self, other: Self) -> Self {
        let rank = |job: &Self| {
            let died_at = job.dead.as_ref().map(|dead| dead.died_at_ms);
            let done_at = job.done.as_ref().map(|done| done.done_at_ms);
            (job.state.is_live(), died_at.max(done_at))
        };
        let (mut job, other) =
            if rank(&self) >= rank(&other) { (self, other) } else { (other, self) };
        job.dead = job.dead.or(other.dead);
        job.done = job.done.or(other.done);
        job.held_until_ms = job.held_until_ms.max(other.held_until_ms);
        job
    }
}

/// The script's reply, by name.
struct Reply(HashMap<String, Bytes>);

impl Reply {
    fn read(pairs: Vec<redis::Value>) -> Result<Self, QueueError> {
        let mut reply = HashMap::with_capacity(pairs.len() / 2);
        let mut pairs = pairs.into_iter();
        while let (Some(name), Some(value)) = (pairs.next(), pairs.next()) {
            reply.insert(text(&name)?.to_owned(), bytes(value)?);
        }
        Ok(Self(reply))
    }

    fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn take(&mut self, name: &str) -> Option<Bytes> {
        self.0.remove(name)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// A time or a count.
    fn number(&self, name: &str) -> Option<u64> {
        self.text(name).map(score)
    }

    fn state(&self) -> Option<JobState> {
        let live = [
            ("unack", JobState::Unack),
            // A newer push replaces what waits elsewhere.
            ("pending", JobState::Pending),
            ("ready", JobState::Ready),
            ("blocked", JobState::Blocked),
            ("retry", JobState::Retry),
        ];
        let found = live.into_iter().find(|(name, _)| self.has(name)).map(|(_, state)| state);
        found.or_else(|| match (self.number("dead"), self.number("done")) {
            (Some(died), done) if done.is_none_or(|done| died >= done) => Some(JobState::Dead),
            (_, Some(_)) => Some(JobState::Done),
            _ => self.has("held").then_some(JobState::Held),
        })
    }

    fn job(&mut self, id: JobId, state: JobState) -> Job {
        let due_at_ms = self.due_at_ms(state);
        let lease = self.lease();
        let successor_due_at_ms = self.number("pending").filter(|_| lease.is_some());
        let Attempts { failures, crashes, snoozes } =
            Attempts::unpack(self.number("attempts").unwrap_or(0));
        let dead = self.number("dead").map(|died_at_ms| DeadEntry {
            died_at_ms,
            info: info_value(&self.take("dead:info").unwrap_or_default()),
        });
        let done = self.number("done").map(|done_at_ms| DoneEntry {
            done_at_ms,
            info: info_value(&self.take("done:info").unwrap_or_default()),
            result: self.take("done:result"),
        });
        let (payload, options) = match state {
            JobState::Dead => ("dead:payload", "dead:options"),
            JobState::Done => ("done:payload", "none are kept"),
            _ => ("payload", "options"),
        };
        Job {
            id,
            state,
            due_at_ms,
            payload: self.take(payload),
            options: Options::from_json(&self.take(options).unwrap_or_default()),
            failures,
            crashes,
            snoozes,
            lease,
            successor_due_at_ms,
            last_error: self.take("error").map(|error| info_value(&error)),
            dead,
            done,
            held_until_ms: self.number("held"),
            now_ms: self.number("now").unwrap_or(0),
        }
    }

    fn lease(&self) -> Option<CurrentLease> {
        let token = self.text("unack")?;
        let holder = self.text("call").and_then(|call| call.rsplit_once(':')).map(|(name, _)| name);
        Some(CurrentLease {
            holder: holder.map(str::to_owned),
            expires_at_ms: score(token) / 1_000,
            token: token.to_owned(),
            cancelled: !self.has("payload"),
        })
    }

    /// A job that holds a permit of its key has the time at which it was admitted as its score in
    /// `ready`, and its due time in `turns:of`.
    fn due_at_ms(&self, state: JobState) -> Option<u64> {
        let permit = self.text("permit").and_then(|permit| permit.split_once(' '));
        let due_of_permit = permit.map(|(due, _)| score(due));
        match state {
            JobState::Pending => self.number("pending"),
            JobState::Retry => self.number("retry"),
            JobState::Blocked => self.number("blocked"),
            JobState::Unack => due_of_permit,
            JobState::Ready => due_of_permit.or_else(|| self.text("ready").map(due_of_ready)),
            JobState::Dead | JobState::Done | JobState::Held => None,
        }
    }
}
