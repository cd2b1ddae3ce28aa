//! The state shared by the routes: the server's own connection to Redis, whose load delays no
//! heartbeat, and the current manifest.

use std::ops::Deref;
use std::sync::Arc;

use duebox_job::{Failure, JobId, TopicName};
use duebox_queue::{IfExists, NewJob, Pushed, Queue, QueueError, Settled, WakeUpHub};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tracing::debug;

use super::body_memory::BodyMemory;
use super::event_readers::EventReaders;
use super::problem::{Problem, UNKNOWN_TOPIC};
use super::recorder::Recorder;
use crate::auth::sessions::Sessions;
use crate::background::topic_discovery::TopicDiscovery;
use crate::manifest::{Manifest, Topic, nearest};
use crate::observe::events::{EventKind, Events, Moment};
use crate::observe::pull_counters::PullCounters;
use crate::observe::push_counters::{PushCounters, Source};
use crate::observe::sick_topics::SickTopics;
use crate::observe::supervision::Supervision;
use crate::observe::traces::{IncomingContext, Traces};
use crate::report::status::AllWatched;

/// At most this many jobs of a push have a log line of their own, at level debug.
const LOGGED_MAX: usize = 20;

/// The shared state; cheap to clone.
#[derive(Clone)]
pub(crate) struct ServerState(Arc<Parts>);

/// The parts of the shared state.
pub(crate) struct Parts {
    /// The queue, over the server's own connection.
    pub(crate) queue: Queue,
    /// Gives access to the current manifest and the served topics.
    pub(crate) topic_discovery: TopicDiscovery,
    /// Wake-ups of waiting consumers.
    pub(crate) wake_up_hub: WakeUpHub,
    /// Counters of pushes.
    pub(crate) push_counters: Arc<PushCounters>,
    /// The topics that this daemon's handlers serve now.
    pub(crate) watched: watch::Receiver<AllWatched>,
    /// Unique id of this daemon.
    pub(crate) runner_id: Arc<str>,
    /// Sessions of the page.
    pub(crate) sessions: Sessions,
    /// What happened recently.
    pub(crate) recorder: Recorder,
    /// Counters of pull consumers.
    pub(crate) pull_counters: Arc<PullCounters>,
    /// Traces of pushes.
    pub(crate) traces: Traces,
    /// Events of jobs.
    pub(crate) events: Events,
    /// Topics whose keys Redis refuses.
    pub(crate) sick_topics: Arc<SickTopics>,
    /// The memory of request bodies.
    pub(super) bodies: BodyMemory,
    /// The memory of responses that clients have not taken.
    pub(super) responses: BodyMemory,
    /// The readers of events.
    pub(crate) readers: EventReaders,
    /// The server's runtime.
    pub(crate) threads: Handle,
    /// Contains panics of tasks.
    pub(super) supervision: Supervision,
    /// True once the daemon stops.
    pub(crate) stops: watch::Receiver<bool>,
}

impl ServerState {
    pub(crate) fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    /// The current manifest.
    pub(crate) fn manifest(&self) -> Arc<Manifest> {
        self.topic_discovery.manifest()
    }

    /// Pushes jobs within the request's trace; counts the stored jobs and reports their events.
    pub(super) async fn push(
        &self,
        topic: &TopicName,
        mut jobs: Vec<NewJob>,
        if_exists: IfExists,
        came: &IncomingContext,
    ) -> Result<Vec<(JobId, Pushed)>, QueueError> {
        let began = Moment::now();
        let pushing = self.traces.begin_push(came);
        pushing.mark(&mut jobs);
        let answer = self.queue.push(topic, &jobs, if_exists).await;
        let failed = match &answer {
            Err(error) => Some(error.to_string()),
            Ok(words) => Some("some were refused".to_owned())
                .filter(|_| words.iter().any(|word| !word.is_stored() && *word != Pushed::Kept)),
        };
        self.traces.end_push(pushing, topic, &jobs, failed);
        let words = answer?;
        for (job, word) in jobs.iter().zip(&words).take(LOGGED_MAX) {
            // The line also has the id of the request.
            debug!(%topic, job_id = %job.id, result = word.word(), "pushed by HTTP");
        }
        let stored = words.iter().filter(|word| word.is_stored()).count();
        self.push_counters.record(Source::Http, stored);
        let stored = jobs.iter().zip(&words).filter(|(_, word)| word.is_stored());
        self.events.report_pushed(topic, stored.map(|(job, _)| &job.id), began);
        Ok(jobs.into_iter().map(|job| job.id).zip(words).collect())
    }

    /// Counts a settle by a consumer and reports its event; with the failure that the consumer reported.
    pub(super) fn record_settled(
        &self,
        topic: &TopicName,
        id: &JobId,
        settled: Settled,
        failure: Option<Failure>,
    ) {
        let class = failure.as_ref().map(|failure| failure.class);
        self.pull_counters.count_settled(topic, id, settled, failure);
        let Some(event) = EventKind::of(settled) else { return };
        match class.filter(|_| event.is_failure()) {
            Some(class) => self.events.report_failed(topic, id, event, class),
            None => self.events.report(topic, id, event),
        }
    }

    /// Waits until the daemon stops.
    pub(super) fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stops = self.stops.clone();
        async move {
            // The sender is dropped only at the very end.
            drop(stops.wait_for(|stops| *stops).await);
        }
    }

    /// Registers the limits of a topic that Redis does not know yet, so that they apply to its
    /// first jobs.
    pub(super) async fn ensure_limits(
        &self,
        name: &TopicName,
        topic: &Topic,
    ) -> Result<(), Problem> {
        if !self.topic_discovery.serves(name) && !self.queue.is_registered(name).await? {
            self.queue.configure(name, &topic.limits()).await?;
        }
        Ok(())
    }
}

impl Deref for ServerState {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// Refuses a topic that neither the manifest names nor Redis knows. A name that only matches a pattern is
/// unknown until a job is pushed to it: it may be a typo.
pub(super) async fn known(server: &ServerState, name: &TopicName) -> Result<(), Problem> {
    let manifest = server.manifest();
    if manifest.topics.contains_key(name) || server.queue.has_topic(name).await? {
        return Ok(());
    }
    // For the remedy only.
    let in_redis = server.sick_topics.known_topics(&server.queue).await.unwrap_or_default();
    Err(unknown(name, manifest.topics.keys().chain(&in_redis)))
}

/// The settings of a topic in the manifest.
pub(super) fn settings<'m>(manifest: &'m Manifest, name: &TopicName) -> Result<&'m Topic, Problem> {
    manifest.topic_for(name).ok_or_else(|| unknown_topic(manifest, name))
}

/// The error for a topic that the manifest does not have.
pub(super) fn unknown_topic(manifest: &Manifest, name: &TopicName) -> Problem {
    unknown(name, manifest.topics.keys())
}

/// The error for an unknown topic; it names the nearest known one.
fn unknown<'t>(name: &TopicName, known: impl Iterator<Item = &'t TopicName>) -> Problem {
    let remedy = match nearest(name.as_str(), known.map(TopicName::as_str)) {
        Some(like) => format!("did you mean {like}? GET /v1/topics lists the topics"),
        None => "add it to the manifest; GET /v1/topics lists the topics".to_owned(),
    };
    Problem::new(UNKNOWN_TOPIC, format!("there is no topic {name}"), remedy).of("topic")
}
