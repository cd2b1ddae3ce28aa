//! Operations of pull consumers on a topic of the manifest: pull jobs, extend their leases, and
//! settle them by id and token under the topic's settings. The command line and the HTTP API both
//! use it.
//!
//! A consumer gets only jobs with valid options. Jobs with invalid options are settled here, as the
//! topic's policy for `bad_options` says.

use std::time::{Duration, Instant};

use bytes::Bytes;
use duebox_job::{Failure, FailureClass, JobId, Options, Outcome, Policy, TopicName};
use duebox_queue::{
    Job, Lease, LeasedJob, PullOptions, PullOptionsError, Pulled, Queue, QueueError, Settled,
    Token, Verdict, WakeUpReceiver, check_consumer,
};

use crate::executor::AttemptOutput;
use crate::manifest::Topic;
use crate::worker::verdict::{EndedAttempt, buried_info};

/// Maximum size of a result, in bytes.
pub const RESULT_MAX: usize = 64 << 10;

/// A topic as its pull consumers see it.
pub struct Consumer<'a> {
    /// The queue.
    pub queue: &'a Queue,
    /// Name of the topic.
    pub name: &'a TopicName,
    /// Settings of the topic.
    pub topic: &'a Topic,
}

/// Options of a pull.
#[derive(Debug, Clone)]
pub struct ConsumerPull<'a> {
    /// Name of the consumer, shown as the holder of its jobs: 1 to 128 visible ASCII characters.
    pub consumer: &'a str,
    /// Maximum number of jobs, 1 to 1,000.
    pub jobs: usize,
    /// Maximum total payload bytes; one job is always returned.
    pub bytes_max: Option<u64>,
    /// Only jobs that have been due for at least this long.
    pub min_age: Duration,
    /// Duration of each lease, 1 ms to one day.
    pub lease: Duration,
    /// How long to wait if no job is due, at most 60 s.
    pub wait: Duration,
    /// Poll interval that finds pushes by plain commands.
    pub poll: Duration,
}

/// A consumer's verdict on a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConsumerVerdict {
    /// The job is done. It may have a result if the topic keeps done jobs.
    Ack {
        /// The result, at most [`RESULT_MAX`] bytes.
        result: Option<Bytes>,
    },
    /// The job failed: retry after the job's backoff, or after this delay.
    Nack {
        /// The delay; `None` for the backoff.
        delay: Option<Duration>,
        /// The reason, for people.
        reason: String,
    },
    /// The job can never succeed: bury it.
    Drop {
        /// The reason, for people.
        reason: String,
    },
    /// The job was not tried: other consumers may have it, at once or after a delay. No attempt is
    /// spent.
    Release {
        /// The delay.
        delay: Duration,
    },
}

impl ConsumerVerdict {
    /// The failure, if the job failed.
    pub fn failure(&self) -> Option<Failure> {
        let (class, reason, retry_after) = match self {
            Self::Nack { delay, reason } => (FailureClass::Nack, reason, *delay),
            Self::Drop { reason } => (FailureClass::Drop, reason, None),
            Self::Ack { .. } | Self::Release { .. } => return None,
        };
        Some(Failure { class, reason: reason.clone(), retry_after })
    }
}

/// The response to a settle.
#[derive(Debug, Clone, PartialEq)]
pub enum SettleResponse {
    /// The job was settled.
    Settled(Settled),
    /// The caller no longer has the lease; with the job as it is now, if known.
    Lost(Option<Box<Job>>),
}

/// Why a verdict is invalid. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidVerdict {
    /// A result for a topic that keeps no results.
    #[error("the topic keeps no done jobs, so a result would be lost; set its done_retention")]
    ResultNotKept,
    /// The result is too long; its size in bytes.
    #[error("the result is {0} bytes long; at most 65536 are allowed")]
    ResultTooLong(usize),
}

impl Consumer<'_> {
    /// Pulls jobs, or waits for some. Jobs with invalid options are settled and not returned.
    ///
    /// # Errors
    /// [`PullFailure::Options`] if an option is out of range; [`PullFailure::Queue`] if Redis
    /// refused, or did not reply before the end of the wait.
    pub async fn pull(&self, options: &ConsumerPull<'_>) -> Result<Pulled, PullFailure> {
        self.pull_woken(options, None).await
    }

    /// Like [`pull`](Self::pull), for one of many waiting consumers in this process. Returns no
    /// jobs when the wake-ups end.
    ///
    /// # Errors
    /// As [`pull`](Self::pull).
    pub async fn pull_with_receiver(
        &self,
        options: &ConsumerPull<'_>,
        receiver: &mut WakeUpReceiver,
    ) -> Result<Pulled, PullFailure> {
        self.pull_woken(options, Some(receiver)).await
    }

    async fn pull_woken(
        &self,
        options: &ConsumerPull<'_>,
        mut receiver: Option<&mut WakeUpReceiver>,
    ) -> Result<Pulled, PullFailure> {
        let end = Instant::now() + options.wait;
        let mut wait = options.wait;
        loop {
            let pull = self.pull_of(options, wait)?;
            let mut pulled = match &mut receiver {
                Some(receiver) => self.queue.pull_with_receiver(self.name, &pull, receiver).await?,
                None => self.queue.pull(self.name, &pull).await?,
            };
            let count = pulled.leases.len();
            let (readable, bad): (Vec<_>, Vec<_>) =
                pulled.leases.into_iter().partition(|lease| lease.options.is_ok());
            for lease in bad {
                let settled = self.settle_unread(lease).await;
                // Without a reply its lease expires; the other pulled jobs belong to the caller.
                if readable.is_empty() {
                    settled?;
                }
            }
            pulled.leases = readable;
            if !pulled.leases.is_empty() || count == 0 {
                return Ok(pulled);
            }
            wait = end.saturating_duration_since(Instant::now());
        }
    }

    fn pull_of(
        &self,
        options: &ConsumerPull<'_>,
        wait: Duration,
    ) -> Result<PullOptions, PullOptionsError> {
        let pull = PullOptions::new(options.consumer, options.jobs, options.lease, wait)?;
        let mut pull = pull.with_poll(options.poll);
        pull.bytes_max = options.bytes_max;
        pull.min_age = options.min_age;
        pull.max_crashes = self.topic.retries.max_crashes;
        pull.crashed_info = buried_info(self.topic, FailureClass::Crashed);
        pull.expired_info = buried_info(self.topic, FailureClass::Expired);
        pull.discards_bad_dues = self.topic.policy(FailureClass::BadDue) == Policy::Discard;
        Ok(pull)
    }

    async fn settle_unread(&self, lease: Lease) -> Result<(), QueueError> {
        let Err(reason) = &lease.options else { return Ok(()) };
        let reason = format!("the job's options are invalid: {reason}");
        let failure = Failure { class: FailureClass::BadOptions, reason, retry_after: None };
        let verdict = self
            .attempt(None, lease.failures)
            .verdict(&Outcome::Failed(failure), AttemptOutput::default());
        self.queue.settle_one(self.name, &lease.id, &lease.token, verdict).await.map(drop)
    }

    /// Settles a job by a consumer's verdict, under the topic's settings and the job's own options.
    /// A stale token changes nothing.
    ///
    /// # Errors
    /// [`QueueError`] if Redis did not reply or refused. Without a reply the job may have been
    /// settled; repeating the call then returns [`SettleResponse::Lost`].
    pub async fn settle(
        &self,
        id: &JobId,
        token: &Token,
        verdict: ConsumerVerdict,
    ) -> Result<SettleResponse, QueueError> {
        let held = self.queue.leased_job(self.name, id).await?;
        let Some(held) = held.filter(|held| held.token == *token) else {
            return self.lost_response(id).await;
        };
        let verdict = self.verdict(&held, verdict);
        match self.queue.settle_one(self.name, id, token, verdict).await? {
            Settled::Lost => self.lost_response(id).await,
            settled => Ok(SettleResponse::Settled(settled)),
        }
    }

    /// Checks a verdict. Call it before [`settle`](Self::settle).
    ///
    /// # Errors
    /// [`InvalidVerdict`] if the topic does not accept the verdict.
    pub fn check(&self, verdict: &ConsumerVerdict) -> Result<(), InvalidVerdict> {
        match verdict {
            ConsumerVerdict::Ack { result: Some(_) } if self.topic.retention.done.is_none() => {
                Err(InvalidVerdict::ResultNotKept)
            }
            ConsumerVerdict::Ack { result: Some(result) } if result.len() > RESULT_MAX => {
                Err(InvalidVerdict::ResultTooLong(result.len()))
            }
            _ => Ok(()),
        }
    }

    fn verdict(&self, held: &LeasedJob, verdict: ConsumerVerdict) -> Verdict {
        let failed =
            |class, reason, retry_after| Outcome::Failed(Failure { class, reason, retry_after });
        let (outcome, result) = match verdict {
            ConsumerVerdict::Release { delay } => return Verdict::Release { delay },
            ConsumerVerdict::Ack { result } => (Outcome::Acked, result),
            ConsumerVerdict::Nack { delay, reason } => {
                (failed(FailureClass::Nack, reason, delay), None)
            }
            ConsumerVerdict::Drop { reason } => (failed(FailureClass::Drop, reason, None), None),
        };
        let remains = AttemptOutput { result, ..AttemptOutput::default() };
        self.attempt(held.options.as_ref().ok(), held.failures).verdict(&outcome, remains)
    }

    /// The attempt of a consumer; it has no module, and its duration is unknown.
    fn attempt<'o>(&'o self, options: Option<&'o Options>, failures: u32) -> EndedAttempt<'o> {
        let number = failures.saturating_add(1);
        // A consumer cannot snooze.
        let snoozes = 0;
        EndedAttempt {
            topic: self.topic,
            options,
            number,
            snoozes,
            digest: None,
            wall: Duration::ZERO,
            runner: "",
            started_at_ms: None,
        }
    }

    async fn lost_response(&self, id: &JobId) -> Result<SettleResponse, QueueError> {
        Ok(SettleResponse::Lost(self.queue.get(self.name, id).await?.map(Box::new)))
    }

    /// Extends a lease by 1 ms to one day. Returns the new token, or the job as far as it is known
    /// if the caller no longer has the lease.
    ///
    /// # Errors
    /// [`PullFailure`] if Redis did not reply or refused, or the consumer's name is invalid.
    /// Repeating the call is safe.
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

/// Why a pull or an extension failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PullFailure {
    /// An option is out of range.
    #[error(transparent)]
    Options(#[from] PullOptionsError),
    /// Redis did not reply, or refused.
    #[error(transparent)]
    Queue(#[from] QueueError),
}
