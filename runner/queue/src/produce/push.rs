//! Pushes jobs.

use std::collections::BTreeMap;

use duebox_job::{Shard, TopicName};
use redis::{Cmd, Value};

use super::combine::may_share;
use crate::client::Queue;
use crate::client::push_lines::Stored;
use crate::error::QueueError;
use crate::topic::new_job::{IfExists, NewJob, Pushed};
use crate::topic::shards::spread_by;
use crate::wire::callers::NumberedCall;
use crate::wire::connection::Repeat;
use crate::wire::constants::{BATCH_BYTES, BATCH_MAX};
use crate::wire::keys::Keys;
use crate::wire::reply::array;
use crate::wire::script::{self, PUSH, Replies};

/// Batches in one pipeline: bounds what is in flight however many jobs are pushed.
const PIPELINE_BATCHES: usize = 16;

/// Jobs of one script call, by their indices in the slice that is pushed.
struct Batch {
    shard: Shard,
    at: Vec<usize>,
    bytes: usize,
}

/// The replies to some script calls, each a word for each job, and what they lack of copies.
type PushReplies = (Vec<Result<Vec<Pushed>, QueueError>>, Option<String>);

impl Queue {
    /// Pushes jobs and reports what became of each, in their order. Every [`BATCH_MAX`] of them
    /// (fewer where payloads are large) are one atomic transition in each shard of the topic; batches
    /// share pipelines. Small pushes to one shard share calls, so the jobs of a few callers may be one transition.
    ///
    /// A push whose reply is lost with the connection is repeated, and is answered as the first time, even
    /// if its jobs are done by then.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused; batches before the one that failed are
    /// stored, and pushing them again replies `exists`. [`QueueError::Unconfirmed`] if all batches were carried out,
    /// and do not have the copies that [`Durability`](crate::Durability) demands; a reply to the same push
    /// without an error confirms them.
    pub async fn push(
        &self,
        topic: &TopicName,
        jobs: &[NewJob],
        if_exists: IfExists,
    ) -> Result<Vec<Pushed>, QueueError> {
        let spread = jobs.iter().map(|job| (spread_by(&job.id, &job.options), &job.id));
        let shard_of_each = self.shard_of_each(topic, spread.collect()).await?;
        let batches = batches(jobs, shard_of_each);
        if let [one] = &batches[..]
            && may_share(jobs.len(), one.bytes)
        {
            return self.push_together(&one.shard, jobs, if_exists).await?.confirmed();
        }
        let mut words = vec![None; jobs.len()];
        let mut missing = None;
        for some in batches.chunks(PIPELINE_BATCHES) {
            let calls = some.iter().map(|batch| {
                (&batch.shard, batch.at.iter().map(|&at| &jobs[at]).collect::<Vec<_>>())
            });
            let (replies, lacks) = self.push_calls(calls.collect(), if_exists).await?;
            missing = missing.or(lacks);
            for (batch, reply) in some.iter().zip(replies) {
                for (&at, word) in batch.at.iter().zip(reply?) {
                    words[at] = Some(word);
                }
            }
        }
        let words: Option<Vec<Pushed>> = words.into_iter().collect();
        Stored { words: words.ok_or_else(cut_short)?, missing }.confirmed()
    }

    /// Pushes jobs of one shard in one call.
    pub(super) async fn push_once(
        &self,
        shard: &Shard,
        jobs: &[NewJob],
        if_exists: IfExists,
    ) -> Result<Stored, QueueError> {
        let calls = vec![(shard, jobs.iter().collect())];
        let (mut replies, missing) = self.push_calls(calls, if_exists).await?;
        Ok(Stored { words: replies.pop().ok_or_else(cut_short)??, missing })
    }

    /// Sends calls in one pipeline.
    async fn push_calls(
        &self,
        jobs_of_calls: Vec<(&Shard, Vec<&NewJob>)>,
        if_exists: IfExists,
    ) -> Result<PushReplies, QueueError> {
        let numbered: Vec<_> = jobs_of_calls.iter().map(|_| self.push_callers.begin()).collect();
        let mut calls = Vec::with_capacity(jobs_of_calls.len() + 1);
        for ((shard, jobs), call) in jobs_of_calls.iter().zip(&numbered) {
            calls.push(push_command(&self.keys, shard, call, jobs, if_exists));
        }
        let topic = jobs_of_calls.first().map(|(shard, _)| shard.topic());
        let announced = topic.filter(|topic| !self.is_announced(topic));
        if let Some(topic) = announced {
            let mut seen = redis::cmd("SADD");
            seen.arg(self.keys.topics_key()).arg(topic.as_str());
            calls.push(seen);
        }
        let replies = script::send(&self.connection, calls, Repeat::Durably).await?;
        let Replies { mut values, are_repeated, missing } = replies;
        // The set of topics is advisory: without it the jobs are stored all the same.
        let seen = values.split_off(jobs_of_calls.len().min(values.len()));
        if let (Some(topic), Some(Ok(_))) = (announced, seen.first()) {
            self.announced_topics.set(topic);
        }
        let words = jobs_of_calls.iter().zip(values).map(|((_, jobs), reply)| {
            let reply =
                reply.map_err(|error| if are_repeated { error.of_repetition() } else { error });
            read_words(reply?, jobs.len())
        });
        Ok((words.collect(), missing))
    }

    /// True if the set of topics was told of a topic a moment ago, and Redis was within reach since.
    fn is_announced(&self, topic: &TopicName) -> bool {
        self.announced_topics.is_announced(topic, self.connection.unreachable_at())
    }
}

/// The words for the jobs of one call.
fn read_words(reply: Value, jobs: usize) -> Result<Vec<Pushed>, QueueError> {
    match &array(reply)?[..] {
        // One word stands for all jobs.
        [word] => Ok(vec![Pushed::read(word)?; jobs]),
        words if words.len() == jobs => words.iter().map(Pushed::read).collect(),
        _ => Err(cut_short()),
    }
}

fn cut_short() -> QueueError {
    QueueError::BadReply("not every push was answered".to_owned())
}

/// Groups jobs by shard, in their order.
fn batches(jobs: &[NewJob], shard_of_each: Vec<Shard>) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    let mut open: BTreeMap<Shard, usize> = BTreeMap::new();
    for (at, (job, shard)) in jobs.iter().zip(shard_of_each).enumerate() {
        let bytes = job.payload.len();
        let fits = |batch: &Batch| batch.at.len() < BATCH_MAX && batch.bytes + bytes <= BATCH_BYTES;
        match open.get(&shard).and_then(|&number| batches.get_mut(number)) {
            Some(batch) if fits(batch) => {
                batch.at.push(at);
                batch.bytes += bytes;
            }
            _ => {
                open.insert(shard.clone(), batches.len());
                batches.push(Batch { shard, at: vec![at], bytes });
            }
        }
    }
    batches
}

fn push_command(
    keys: &Keys,
    shard: &Shard,
    numbered: &NumberedCall<'_>,
    jobs: &[&NewJob],
    if_exists: IfExists,
) -> Cmd {
    let mut call = PUSH.call_with(&keys.of(shard), Some(keys.caller_key(shard, numbered.caller())));
    call.arg(format!("{} {}", if_exists.word(), numbered.number()));
    let due = jobs.first().map(|job| job.due);
    let is_plain = |job: &&NewJob| Some(job.due) == due && job.options.is_empty();
    if let Some(due) = due.filter(|_| jobs.iter().all(is_plain)) {
        call.arg(due.argument());
        for job in jobs {
            call.arg(job.id.as_bytes()).arg(&job.payload[..]);
        }
        return call;
    }
    call.arg("");
    for job in jobs {
        call.arg(job.id.as_bytes()).arg(job.due.argument());
        call.arg(&job.payload[..]).arg(job.options.to_json());
    }
    call
}
