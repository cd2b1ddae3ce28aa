//! The verbs of one topic, and of its store.

use std::time::Duration;

use bytes::Bytes;
use duebox_job::{JobId, TopicError, TopicName};

use crate::client::Queue;
use crate::error::QueueError;
use crate::operate::dead::{Requeued, RequeuedMany};
use crate::operate::inspect::Depths;
use crate::operate::job::Job;
use crate::operate::list::{DeadQuery, DeadSummary, DoneSummary, Page, PageQuery};
use crate::operate::list_live::LiveJob;
use crate::operate::list_state::{JobQuery, ListedJobs};
use crate::produce::cancel::Cancelled;
use crate::produce::push::{Due, IfExists, NewJob, Pushed};
use crate::produce::reschedule::Rescheduled;
use crate::store::kv::{KvCondition, KvEntry, KvWrite};
use crate::topic::limits::Limits;
use crate::work::lease::{Lease, Token};
use crate::work::pull::{PullOptions, Pulled};
use crate::work::settle::{Settled, Settlement};

/// One topic of a queue. Cheap to clone.
///
/// Every method costs one round trip to Redis, unless it says otherwise. On a topic that is split over
/// shards a method may take one more to learn their number, at most once a second.
///
/// # Errors
/// Every method fails with [`QueueError`] if Redis did not reply or refused. A job that is in another
/// state than the call expects is not an error: the result says so.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use duebox_queue::{
///     ConnectionSettings, DeadQuery, IfExists, JobId, NewJob, PullOptions, Queue, Requeued, Verdict,
/// };
///
/// # let server = duebox_harness::RedisServer::start();
/// # let url = server.url();
/// let queue = Queue::connect(&ConnectionSettings::new(url), "shop").await?;
/// let mail = queue.topic("mail")?;
/// let id = JobId::new("welcome-42")?;
/// mail.push(&[NewJob::new(id.clone(), "Hello, Ada!")], IfExists::Reject).await?;
///
/// // The job fails and is given up: it is dead, with its reason, until it is requeued.
/// let options = PullOptions::new("worker-1", 1, Duration::from_secs(15), Duration::from_secs(5))?;
/// let lease = mail.pull(&options).await?.leases.remove(0);
/// mail.settle(&[lease.settle(Verdict::drop("no such address"))]).await?;
/// let dead = mail.list_dead(&DeadQuery::default()).await?;
/// assert_eq!(dead.jobs[0].reason.as_deref(), Some("no such address"));
///
/// assert_eq!(mail.requeue(&[id]).await?, [Requeued::Ok]);
/// assert_eq!(mail.depths().await?.ready, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Topic {
    queue: Queue,
    name: TopicName,
}

/// The key-value store of one topic: values of at most 64 KiB, under names of 1 to 256 bytes.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use duebox_queue::{ConnectionSettings, KvCondition, KvWrite, Queue};
///
/// # let server = duebox_harness::RedisServer::start();
/// # let url = server.url();
/// let queue = Queue::connect(&ConnectionSettings::new(url), "shop").await?;
/// let store = queue.topic("mail")?.store();
///
/// // Only the first of two writers gets the name; it expires after a minute.
/// let (minute, first) = (Some(Duration::from_secs(60)), KvCondition::IfAbsent);
/// assert_eq!(store.set(b"sent", &"yes".into(), minute, first).await?, KvWrite::Done(()));
/// assert_eq!(store.set(b"sent", &"again".into(), minute, first).await?, KvWrite::Conflict);
/// assert_eq!(store.add(b"count", 2).await?, KvWrite::Done(2));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Store {
    queue: Queue,
    topic: TopicName,
}

impl Queue {
    /// The verbs of one topic. Redis is not asked: a topic exists as soon as a job is pushed to it.
    ///
    /// # Errors
    /// [`TopicError`] if no topic can have this name.
    pub fn topic(&self, name: &str) -> Result<Topic, TopicError> {
        Ok(Topic { queue: self.clone(), name: TopicName::new(name)? })
    }
}

#[expect(clippy::missing_errors_doc, reason = "the errors of all methods are those of the type")]
impl Topic {
    /// Its name.
    pub fn name(&self) -> &TopicName {
        &self.name
    }

    /// Pushes jobs and reports what became of each, in their order. See [`Queue::push`].
    pub async fn push(
        &self,
        jobs: &[NewJob],
        if_exists: IfExists,
    ) -> Result<Vec<Pushed>, QueueError> {
        self.queue.push(&self.name, jobs, if_exists).await
    }

    /// Leases jobs that are due; waits for one if no job is due. See [`Queue::pull`].
    pub async fn pull(&self, options: &PullOptions) -> Result<Pulled, QueueError> {
        self.queue.pull(&self.name, options).await
    }

    /// Ends leases with their verdicts. See [`Queue::settle`].
    pub async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, QueueError> {
        self.queue.settle(&self.name, settlements).await
    }

    /// Makes a lease expire later, by 1 ms to one day. Stores the new token in the lease. False if the
    /// lease is lost: the job may run elsewhere.
    pub async fn extend(
        &self,
        lease: &mut Lease,
        consumer: &str,
        by: Duration,
    ) -> Result<bool, QueueError> {
        let token: Option<Token> =
            self.queue.extend_one(&self.name, consumer, &lease.id, &lease.token, by).await?;
        let is_held = token.is_some();
        if let Some(token) = token {
            lease.token = token;
        }
        Ok(is_held)
    }

    /// All that is known of one job. See [`Queue::get`].
    pub async fn get(&self, id: &JobId) -> Result<Option<Job>, QueueError> {
        self.queue.get(&self.name, id).await
    }

    /// Cancels jobs before they run. See [`Queue::cancel_many`].
    pub async fn cancel(&self, ids: &[JobId]) -> Result<Vec<Cancelled>, QueueError> {
        self.queue.cancel_many(&self.name, ids).await
    }

    /// Changes when a waiting job falls due; [`Due::Now`] runs it now. See [`Queue::reschedule`].
    pub async fn reschedule(&self, id: &JobId, due: Due) -> Result<Rescheduled, QueueError> {
        self.queue.reschedule(&self.name, id, due).await
    }

    /// Makes dead jobs ready again. See [`Queue::requeue`].
    pub async fn requeue(&self, ids: &[JobId]) -> Result<Vec<Requeued>, QueueError> {
        self.queue.requeue(&self.name, ids).await
    }

    /// Makes all dead jobs ready again that match a query. See [`Queue::requeue_matching`].
    pub async fn requeue_matching(&self, query: &DeadQuery) -> Result<RequeuedMany, QueueError> {
        self.queue.requeue_matching(&self.name, query).await
    }

    /// Deletes dead jobs; the result is their number. See [`Queue::prune`].
    pub async fn prune(&self, ids: &[JobId]) -> Result<u64, QueueError> {
        self.queue.prune(&self.name, ids).await
    }

    /// The live jobs that come first, at most `limit` of each state. See [`Queue::list_live`].
    pub async fn list_live(&self, limit: usize) -> Result<Vec<LiveJob>, QueueError> {
        self.queue.list_live(&self.name, limit).await
    }

    /// A page of the jobs of one state. See [`Queue::list_state`].
    pub async fn list_state(&self, query: &JobQuery) -> Result<ListedJobs, QueueError> {
        self.queue.list_state(&self.name, query).await
    }

    /// A page of dead jobs. See [`Queue::list_dead`].
    pub async fn list_dead(&self, query: &DeadQuery) -> Result<Page<DeadSummary>, QueueError> {
        self.queue.list_dead(&self.name, query).await
    }

    /// A page of done jobs. See [`Queue::list_done`].
    pub async fn list_done(&self, query: &PageQuery) -> Result<Page<DoneSummary>, QueueError> {
        self.queue.list_done(&self.name, query).await
    }

    /// How many jobs are in each state. See [`Queue::depths`].
    pub async fn depths(&self) -> Result<Depths, QueueError> {
        let depths = self.queue.depths(std::slice::from_ref(&self.name)).await?;
        Ok(depths.into_iter().next().unwrap_or_default())
    }

    /// Stops leasing, for all runners. False if the topic was paused before.
    pub async fn pause(&self) -> Result<bool, QueueError> {
        self.queue.pause(&self.name).await
    }

    /// Starts leasing again. False if the topic was not paused.
    pub async fn resume(&self) -> Result<bool, QueueError> {
        self.queue.resume(&self.name).await
    }

    /// True if the topic is paused.
    pub async fn is_paused(&self) -> Result<bool, QueueError> {
        self.queue.is_paused(&self.name).await
    }

    /// Sets the limits of the topic for all its runners and producers. True if they were others before.
    /// See [`Queue::configure`].
    pub async fn set_limits(&self, limits: &Limits) -> Result<bool, QueueError> {
        self.queue.configure(&self.name, limits).await
    }

    /// Its key-value store.
    pub fn store(&self) -> Store {
        Store { queue: self.queue.clone(), topic: self.name.clone() }
    }
}

#[expect(clippy::missing_errors_doc, reason = "the errors of all methods are those of `Topic`")]
impl Store {
    /// The value under a name. See [`Queue::kv_get`].
    pub async fn get(&self, name: &[u8]) -> Result<Option<KvEntry>, QueueError> {
        self.queue.kv_get(&self.topic, name).await
    }

    /// Writes a value, for a time or without an end. See [`Queue::kv_set`].
    pub async fn set(
        &self,
        name: &[u8],
        value: &Bytes,
        ttl: Option<Duration>,
        condition: KvCondition,
    ) -> Result<KvWrite<()>, QueueError> {
        self.queue.kv_set(&self.topic, name, value, ttl, condition).await
    }

    /// Deletes a value; false if the name had no value. See [`Queue::kv_delete`].
    pub async fn delete(&self, name: &[u8]) -> Result<bool, QueueError> {
        self.queue.kv_delete(&self.topic, name).await
    }

    /// Adds to a number. See [`Queue::kv_add`].
    pub async fn add(&self, name: &[u8], delta: i64) -> Result<KvWrite<i64>, QueueError> {
        self.queue.kv_add(&self.topic, name, delta).await
    }
}
