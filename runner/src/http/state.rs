//! What the handlers of HTTP work with: a connection to Redis of their own, so that no load of theirs
//! delays a heartbeat; and the daemon's manifest, as it is now.

use std::ops::Deref;
use std::sync::Arc;

use duebox_job::{FailureClass, JobId, TopicName};
use duebox_queue::{IfExists, NewJob, Pushed, Queue, QueueError, Settled, WakeUpHub};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::problem::{Problem, UNKNOWN_TOPIC};
use super::routes::events::Readers;
use super::routes::samples::Samples;
use crate::auth::sessions::Sessions;
use crate::background::rules;
use crate::background::topic_discovery::Finder;
use crate::manifest::{Manifest, Topic, nearest};
use crate::observe::events::Events;
use crate::observe::pull_counters::PullCounters;
use crate::observe::push_counters::{PushCounters, Source};
use crate::observe::traces::{IncomingContext, Traces};
use crate::report::status::AllWatched;

/// What the handlers share; cheap to clone.
#[derive(Clone)]
pub(crate) struct ServerState(Arc<Parts>);

/// The parts of it.
pub(crate) struct Parts {
    /// The queue, over a connection of its own.
    pub(crate) queue: Queue,
    /// Who knows the manifest and the topics that are served.
    pub(crate) finder: Finder,
    /// What wakes those who wait for jobs.
    pub(crate) bells: WakeUpHub,
    /// Where it is counted what was pushed.
    pub(crate) pushes: Arc<PushCounters>,
    /// The topics that this daemon's handlers serve, as they are now.
    pub(crate) watched: watch::Receiver<AllWatched>,
    /// Names this daemon among all.
    pub(crate) runner_id: Arc<str>,
    /// Sessions of the page.
    pub(crate) sessions: Sessions,
    /// How topics did lately.
    pub(crate) samples: Samples,
    /// Where it is counted what consumers settled.
    pub(crate) consumed: Arc<PullCounters>,
    /// Where pushes are recorded.
    pub(crate) traces: Traces,
    /// Where it is told what became of jobs.
    pub(crate) events: Events,
    /// Those who read them.
    pub(crate) readers: Readers,
    /// Where the handlers run.
    pub(crate) threads: Handle,
    /// True from the moment at which the daemon stops.
    pub(crate) stops: watch::Receiver<bool>,
}

impl ServerState {
    pub(crate) fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    /// The manifest that holds now.
    pub(crate) fn manifest(&self) -> Arc<Manifest> {
        self.finder.manifest()
    }

    /// PushCounters jobs, in the trace that the request came with; counts and tells those that are stored.
    pub(super) async fn push(
        &self,
        queue: &Queue,
        topic: &TopicName,
        mut jobs: Vec<NewJob>,
        if_exists: IfExists,
        came: &IncomingContext,
    ) -> Result<Vec<(JobId, Pushed)>, QueueError> {
        let pushing = self.traces.pushing(came);
        pushing.mark(&mut jobs);
        let answer = queue.push(topic, &jobs, if_exists).await;
        let failed = match &answer {
            Err(error) => Some(error.to_string()),
            Ok(words) => Some("some were refused".to_owned())
                .filter(|_| words.iter().any(|word| !word.is_stored() && *word != Pushed::Kept)),
        };
        self.traces.pushed(pushing, topic, &jobs, failed);
        let words = answer?;
        let stored = words.iter().filter(|word| word.is_stored()).count();
        self.pushes.pushed(Source::Http, stored);
        for (job, _) in jobs.iter().zip(&words).filter(|(_, word)| word.is_stored()) {
            self.events.happened(topic, &job.id, "pushed");
        }
        Ok(jobs.into_iter().map(|job| job.id).zip(words).collect())
    }

    /// Counts and tells what became of a job that a consumer settled, who said that this had failed.
    pub(super) fn settled(
        &self,
        topic: &TopicName,
        id: &JobId,
        settled: Settled,
        class: Option<FailureClass>,
    ) {
        self.consumed.settled(topic, settled, class);
        let Some(event) = crate::observe::events::word(settled) else { return };
        match class.filter(|_| matches!(event, "retried" | "dead" | "discarded")) {
            Some(class) => self.events.failed(topic, id, event, class),
            None => self.events.happened(topic, id, event),
        }
    }

    /// Waits until the daemon stops.
    pub(super) fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stops = self.stops.clone();
        async move {
            // The sender is gone only when all is over.
            drop(stops.wait_for(|stops| *stops).await);
        }
    }

    /// The queue, for who uses a topic: one that nobody has used yet gets its rules first, so that they
    /// hold for its first jobs too.
    pub(super) async fn queue_of(
        &self,
        name: &TopicName,
        topic: &Topic,
    ) -> Result<&Queue, Problem> {
        if !self.finder.serves(name) && !self.queue.is_registered(name).await? {
            rules::write(&self.queue, &[(name.clone(), topic.rules())]).await?;
        }
        Ok(&self.queue)
    }
}

impl Deref for ServerState {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// Refuses a topic that neither the manifest nor Redis knows.
pub(super) async fn known(server: &ServerState, name: &TopicName) -> Result<(), Problem> {
    let manifest = server.manifest();
    if manifest.topic_for(name).is_some() || server.queue.is_registered(name).await? {
        return Ok(());
    }
    Err(unknown_topic(&manifest, name))
}

/// What the manifest says of a topic.
pub(super) fn settings<'m>(manifest: &'m Manifest, name: &TopicName) -> Result<&'m Topic, Problem> {
    manifest.topic_for(name).ok_or_else(|| unknown_topic(manifest, name))
}

/// A topic that nobody knows.
pub(super) fn unknown_topic(manifest: &Manifest, name: &TopicName) -> Problem {
    let remedy = match nearest(name.as_str(), manifest.topics.keys().map(TopicName::as_str)) {
        Some(like) => format!("did you mean {like}? GET /v1/topics lists those there are"),
        None => "add it to the manifest; GET /v1/topics lists those there are".to_owned(),
    };
    Problem::new(UNKNOWN_TOPIC, format!("there is no topic {name} in the manifest"), remedy)
        .of("topic")
}
