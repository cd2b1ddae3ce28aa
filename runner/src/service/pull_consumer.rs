//! What a pull consumer can do to a topic of the manifest: pull jobs, extend their leases, and settle
//! them by id and token under the topic's rules. The command line and HTTP are both made of it.
//!
//! A consumer sees only jobs that it can run as they were pushed: one whose options cannot be read is
//! settled here, as the topic wants for `bad_options`.

use std::time::{Duration, Instant};

use bytes::Bytes;
use duebox_job::{Failure, FailureClass, JobId, Options, Outcome, Policy, TopicName};
use duebox_queue::{
    Job, Lease, LeasedJob, PullOptions, PullOptionsError, Pulled, Queue, QueueError, Settled,
    Token, Verdict, WakeUpReceiver, check_consumer,
};

use crate::executor::AttemptOutput;
use crate::manifest::Topic;
use crate::worker::verdict::{Attempt, buried_info};

/// The longest result, in bytes.
pub const RESULT_MAX: usize = 64 << 10;

/// A topic as its pull consumers see it.
pub struct Consumer<'a> {
    /// The queue it is in.
    pub queue: &'a Queue,
    /// Its name.
    pub name: &'a TopicName,
    /// What the manifest says of it.
    pub topic: &'a Topic,
}

/// What a consumer wants to pull.
#[derive(Debug, Clone)]
pub struct Wish<'a> {
    /// Its name, for those who look who holds a job: 1 to 128 visible ASCII characters.
    pub consumer: &'a str,
    /// Jobs wanted, 1 to 1000.
    pub jobs: usize,
    /// Payload bytes wanted at most; one job is always given.
    pub bytes_max: Option<u64>,
    /// How long the jobs must have been due.
    pub min_age: Duration,
    /// How long each is held, 1 ms to one day.
    pub lease: Duration,
    /// How long to wait if none is due, 60 s at most.
    pub wait: Duration,
    /// How soon pushes by plain commands are found.
    pub poll: Duration,
}

/// What a consumer says of a job that it had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// It is done. Where the topic keeps done jobs it may have a result.
    Ack {
        /// The result, up to [`RESULT_MAX`] bytes.
        result: Option<Bytes>,
    },
    /// It failed: try again, by the job's backoff or after this while.
    Nack {
        /// The wait; none for the backoff.
        delay: Option<Duration>,
        /// Why, for people.
        reason: String,
    },
    /// It can never be done: bury it.
    Drop {
        /// Why, for people.
        reason: String,
    },
    /// It was not tried: others may have it, at once or after this while. No attempt is spent.
    Release {
        /// The wait.
        delay: Duration,
    },
}

impl Said {
    /// What failed, if the job did.
    pub fn class(&self) -> Option<FailureClass> {
        match self {
            Self::Nack { .. } => Some(FailureClass::Nack),
            Self::Drop { .. } => Some(FailureClass::Drop),
            Self::Ack { .. } | Self::Release { .. } => None,
        }
    }
}

/// What became of a settled job.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// It was settled.
    Settled(Settled),
    /// The lease is not the caller's any more. With it, what is known of the job now.
    Lost(Option<Box<Job>>),
}

/// Why what a consumer says of a job makes no sense. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A result for a topic that keeps none.
    #[error("the topic keeps no done jobs, so a result would be lost; set its done_retention")]
    ResultNotKept,
    /// The result.
    #[error("the result is {0} bytes long; at most 65536 are allowed")]
    ResultTooLong(usize),
}

impl Consumer<'_> {
    /// Pulls jobs, or waits for some. Jobs whose options cannot be read are settled and not given.
    ///
    /// # Errors
    /// [`PullFailure::Wish`] if the wish is out of range, [`PullFailure::Queue`] if Redis gave no
    /// answer until the end of the wait, or refused.
    pub async fn pull(&self, wish: &Wish<'_>) -> Result<Pulled, PullFailure> {
        self.pull_woken(wish, None).await
    }

    /// The same, for one of many who wait in this process. Where the bell says that nobody waits any more,
    /// it gives nothing.
    ///
    /// # Errors
    /// As [`pull`](Self::pull).
    pub async fn pull_with_receiver(
        &self,
        wish: &Wish<'_>,
        bell: &mut WakeUpReceiver,
    ) -> Result<Pulled, PullFailure> {
        self.pull_woken(wish, Some(bell)).await
    }

    async fn pull_woken(
        &self,
        wish: &Wish<'_>,
        mut bell: Option<&mut WakeUpReceiver>,
    ) -> Result<Pulled, PullFailure> {
        let end = Instant::now() + wish.wait;
        let mut wait = wish.wait;
        loop {
            let pull = self.pull_of(wish, wait)?;
            let mut pulled = match &mut bell {
                Some(bell) => self.queue.pull_with_receiver(self.name, &pull, bell).await?,
                None => self.queue.pull(self.name, &pull).await?,
            };
            let given = pulled.leases.len();
            let (readable, bad): (Vec<_>, Vec<_>) =
                pulled.leases.into_iter().partition(|lease| lease.options.is_ok());
            for lease in bad {
                let settled = self.settle_unread(lease).await;
                // Without an answer its lease expires; what else was pulled is the caller's.
                if readable.is_empty() {
                    settled?;
                }
            }
            pulled.leases = readable;
            if !pulled.leases.is_empty() || given == 0 {
                return Ok(pulled);
            }
            wait = end.saturating_duration_since(Instant::now());
        }
    }

    fn pull_of(&self, wish: &Wish<'_>, wait: Duration) -> Result<PullOptions, PullOptionsError> {
        let pull = PullOptions::new(wish.consumer, wish.jobs, wish.lease, wait)?;
        let mut pull = pull.with_poll(wish.poll);
        pull.bytes_max = wish.bytes_max;
        pull.min_age = wish.min_age;
        pull.max_crashes = self.topic.max_crashes;
        pull.crashed_info = buried_info(self.topic, FailureClass::Crashed);
        pull.expired_info = buried_info(self.topic, FailureClass::Expired);
        let bad_due = self.topic.on.get(&FailureClass::BadDue);
        pull.discards_bad_dues = bad_due == Some(&Policy::Discard);
        Ok(pull)
    }

    async fn settle_unread(&self, lease: Lease) -> Result<(), QueueError> {
        let Err(reason) = &lease.options else { return Ok(()) };
        let reason = format!("the job's options cannot be read: {reason}");
        let failure = Failure { class: FailureClass::BadOptions, reason, retry_after: None };
        let verdict = self
            .attempt(None, lease.failures)
            .verdict(&Outcome::Failed(failure), AttemptOutput::default());
        self.queue.settle_one(self.name, &lease.id, &lease.token, verdict).await.map(drop)
    }

    /// Ends the lease of a job by what its consumer says, under the topic's rules and the job's own
    /// options. A stale token changes nothing.
    ///
    /// # Errors
    /// [`QueueError`] if Redis gave no answer or refused. Where it gave none, the job may be settled
    /// all the same: repeating it then answers [`Answer::Lost`].
    pub async fn settle(
        &self,
        id: &JobId,
        token: &Token,
        said: Said,
    ) -> Result<Answer, QueueError> {
        let held = self.queue.leased_job(self.name, id).await?;
        let Some(held) = held.filter(|held| held.token == *token) else {
            return self.lost(id).await;
        };
        let verdict = self.verdict(&held, said);
        match self.queue.settle_one(self.name, id, token, verdict).await? {
            Settled::Lost => self.lost(id).await,
            settled => Ok(Answer::Settled(settled)),
        }
    }

    /// Why this makes no sense here; to be asked before it is settled.
    ///
    /// # Errors
    /// [`Refusal`], if so.
    pub fn check(&self, said: &Said) -> Result<(), Refusal> {
        match said {
            Said::Ack { result: Some(_) } if self.topic.done_retention.is_zero() => {
                Err(Refusal::ResultNotKept)
            }
            Said::Ack { result: Some(result) } if result.len() > RESULT_MAX => {
                Err(Refusal::ResultTooLong(result.len()))
            }
            _ => Ok(()),
        }
    }

    fn verdict(&self, held: &LeasedJob, said: Said) -> Verdict {
        let failed =
            |class, reason, retry_after| Outcome::Failed(Failure { class, reason, retry_after });
        let (outcome, result) = match said {
            Said::Release { delay } => return Verdict::Release { delay },
            Said::Ack { result } => (Outcome::Acked, result),
            Said::Nack { delay, reason } => (failed(FailureClass::Nack, reason, delay), None),
            Said::Drop { reason } => (failed(FailureClass::Drop, reason, None), None),
        };
        let remains = AttemptOutput { result, ..AttemptOutput::default() };
        self.attempt(held.options.as_ref().ok(), held.failures).verdict(&outcome, remains)
    }

    /// The attempt of a consumer: by no module, and how long it took nobody knows.
    fn attempt<'o>(&'o self, options: Option<&'o Options>, failures: u32) -> Attempt<'o> {
        let number = failures.saturating_add(1);
        Attempt { topic: self.topic, options, number, digest: None, wall: Duration::ZERO }
    }

    async fn lost(&self, id: &JobId) -> Result<Answer, QueueError> {
        Ok(Answer::Lost(self.queue.get(self.name, id).await?.map(Box::new)))
    }

    /// Extends a lease by 1 ms to one day. Answers the new token, or what is known of the job if the
    /// lease is not the caller's any more.
    ///
    /// # Errors
    /// [`PullFailure`] if Redis gave no answer or refused, or the consumer's name is none; repeating it
    /// is harmless.
    pub async fn extend(
        &self,
        consumer: &str,
        id: &JobId,
        token: &Token,
        by: Duration,
    ) -> Result<Result<Token, Option<Box<Job>>>, PullFailure> {
        check_consumer(consumer)?;
        match self.queue.extend_one(self.name, consumer, id, token, by).await? {
            Some(token) => Ok(Ok(token)),
            None => Ok(Err(self.queue.get(self.name, id).await?.map(Box::new))),
        }
    }
}

/// Why nothing was pulled, or extended.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PullFailure {
    /// The wish is out of range.
    #[error(transparent)]
    Wish(#[from] PullOptionsError),
    /// Redis gave no answer, or refused.
    #[error(transparent)]
    Queue(#[from] QueueError),
}
