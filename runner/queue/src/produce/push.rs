//! Pushes jobs.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use duebox_job::{JobId, Options, Shard, TopicName};
use redis::{Cmd, Value};
use serde::{Deserialize, Serialize};

use super::combine::may_share;
use crate::client::Queue;
use crate::error::QueueError;
use crate::topic::shards::spread_by;
use crate::wire::callers::NumberedCall;
use crate::wire::connection::Repeat;
use crate::wire::constants::BATCH_MAX;
use crate::wire::keys::Keys;
use crate::wire::millis::millis;
use crate::wire::reply::{array, text, unexpected};
use crate::wire::script::{self, PUSH, Replies};

/// Batches in one pipeline: bounds what is in flight however many jobs are pushed.
const PIPELINE_BATCHES: usize = 16;
/// Payload bytes in one batch, unless a single job has more.
pub(super) const BATCH_BYTES: usize = 1 << 20;

/// One job to push.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// Its id.
    pub id: JobId,
    /// When it falls due.
    pub due: Due,
    /// The payload, as the handler receives it.
    pub payload: Bytes,
    /// Options that replace those of its topic.
    pub options: Options,
}

impl NewJob {
    /// A job that is due at once and sets no options.
    pub fn new(id: JobId, payload: impl Into<Bytes>) -> Self {
        Self { id, due: Due::Now, payload: payload.into(), options: Options::default() }
    }

    /// The same job with another due time.
    #[must_use]
    pub fn with_due(self, due: Due) -> Self {
        Self { due, ..self }
    }

    /// The same job with options of its own, which go before those of its topic.
    #[must_use]
    pub fn with_options(self, options: Options) -> Self {
        Self { options, ..self }
    }
}

/// When a job falls due, by Redis' clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// At once.
    Now,
    /// After a delay.
    In(Duration),
    /// At a unix time in ms, within [`duebox_job::DUE_MS_RANGE`]; a time in the past is due at once.
    At(u64),
}

/// What a push does if its id is live already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IfExists {
    /// Refuse the push: `exists`.
    #[default]
    Reject,
    /// Keep the live job: `kept`.
    Keep,
    /// Replace the live job; if it is leased, run after it.
    Replace,
}

/// The result of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// Stored.
    Pushed,
    /// Refused: the id is live.
    Exists,
    /// Ignored: the id is live.
    Kept,
    /// Stored instead of the job that waited.
    Replaced,
    /// Stored behind the leased job of this id.
    Successor,
    /// Refused: a job of this id is done, and its topic still reserves the id (`unique_for`).
    Held,
    /// Refused: the topic has as many waiting jobs as it allows.
    Full,
    /// Refused: the due time is outside [`duebox_job::DUE_MS_RANGE`].
    BadDue,
}

impl Pushed {
    /// True if the job was stored.
    pub fn is_stored(self) -> bool {
        match self {
            Self::Pushed | Self::Replaced | Self::Successor => true,
            Self::Exists | Self::Kept | Self::Held | Self::Full | Self::BadDue => false,
        }
    }

    /// True if a job of this id is there after the push, or was done.
    fn is_there(self) -> bool {
        !matches!(self, Self::Full | Self::BadDue)
    }

    /// The word for it in replies, logs and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pushed => "pushed",
            Self::Exists => "exists",
            Self::Kept => "kept",
            Self::Replaced => "replaced",
            Self::Successor => "successor",
            Self::Held => "held",
            Self::Full => "full",
            Self::BadDue => "bad_due",
        }
    }

    pub(crate) fn read(value: &Value) -> Result<Self, QueueError> {
        match text(value)? {
            "pushed" => Ok(Self::Pushed),
            "exists" => Ok(Self::Exists),
            "kept" => Ok(Self::Kept),
            "replaced" => Ok(Self::Replaced),
            "successor" => Ok(Self::Successor),
            "held" => Ok(Self::Held),
            "full" => Ok(Self::Full),
            "bad_due" => Ok(Self::BadDue),
            _ => Err(unexpected(value)),
        }
    }
}

impl Due {
    pub(crate) fn argument(self) -> String {
        match self {
            Self::Now => "0".to_owned(),
            Self::In(delay) => format!("+{}", millis(delay)),
            Self::At(ms) => ms.to_string(),
        }
    }
}

impl IfExists {
    fn word(self) -> &'static str {
        match self {
            Self::Reject => "reject",
            Self::Keep => "keep",
            Self::Replace => "replace",
        }
    }
}

/// Jobs of one script call, by their indices in the slice that is pushed.
struct Batch {
    shard: Shard,
    at: Vec<usize>,
    bytes: usize,
}

/// What one script call did.
pub(super) struct Stored {
    /// One for each job.
    words: Vec<Pushed>,
    /// What the call lacks of the copies that were waited for.
    missing: Option<String>,
}

impl Stored {
    /// The same for some of the jobs.
    pub(super) fn part(&self, jobs: Range<usize>) -> Self {
        let words = self.words.get(jobs).unwrap_or_default().to_vec();
        Self { words, missing: self.missing.clone() }
    }

    /// The words, if what they say has its copies.
    fn confirmed(self) -> Result<Vec<Pushed>, QueueError> {
        match self.missing {
            Some(missing) if self.words.iter().any(|word| word.is_there()) => {
                Err(QueueError::Unconfirmed(missing))
            }
            _ => Ok(self.words),
        }
    }
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
