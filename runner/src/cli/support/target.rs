//! The target of a command: a topic of the manifest, and the queue in its Redis.

use std::collections::BTreeSet;
use std::future::Future;

use duebox_job::{JobId, TopicName};
use duebox_queue::{ConnectionSettings, Due, Job, JobState, Queue};

use super::failure::Failure;
use crate::manifest::{Manifest, RedisUrl, Topic, nearest};
use crate::redis_host::managed::socket_url;
use crate::service::due::DueCheck;

/// The topic with this name; it must be in the manifest by name or by a pattern.
pub(crate) fn topic<'m>(manifest: &'m Manifest, name: &TopicName) -> Result<&'m Topic, Failure> {
    manifest.topic_for(name).ok_or_else(|| unknown_topic(name, manifest.topics.keys()))
}

/// The error for an unknown topic; it lists the known ones.
pub(crate) fn unknown_topic<'t>(
    name: &TopicName,
    known: impl Iterator<Item = &'t TopicName>,
) -> Failure {
    let known: BTreeSet<&str> = known.map(TopicName::as_str).collect();
    let hint = match nearest(name.as_str(), known.iter().copied()) {
        Some(like) => format!("did you mean {like}?"),
        None if known.is_empty() => "there are no topics; add it to the manifest".to_owned(),
        None => format!("add it, or choose one of: {}", Vec::from_iter(known).join(", ")),
    };
    Failure::bad_input(format!("there is no topic {name}"), hint)
}

/// Refuses a topic that neither the manifest names nor Redis knows. A name that only matches a pattern is
/// unknown until a job is pushed to it: it may be a typo.
pub(crate) async fn known_topic(
    manifest: &Manifest,
    queue: &Queue,
    name: &TopicName,
) -> Result<(), Failure> {
    if manifest.topics.contains_key(name) || queue.has_topic(name).await? {
        return Ok(());
    }
    // For the hint only.
    let in_redis = queue.topics().await.unwrap_or_default();
    Err(unknown_topic(name, manifest.topics.keys().chain(&in_redis)))
}

/// Refuses ids combined with a filter.
pub(crate) fn ids_or_filter(ids: &[JobId], is_unfiltered: bool) -> Result<(), Failure> {
    if ids.is_empty() || is_unfiltered {
        return Ok(());
    }
    Err(Failure::bad_input(
        "ids and a filter cannot be combined",
        "pass ids, or --class, --older-than and --newer-than",
    ))
}

/// The error for a job that should wait and does not; it names the job's state and a remedy.
pub(crate) fn does_not_wait(topic: &TopicName, id: &JobId, found: Option<&Job>) -> Failure {
    let Some(job) = found else {
        return Failure::failed(
            format!("job {id} of {topic} is in no state"),
            "it is done and was not kept, or was never pushed; duebox stats shows the topics",
        );
    };
    let hint = match job.state {
        JobState::Dead => format!("requeue it with: duebox requeue {topic} {id}"),
        JobState::Done | JobState::Held => "push it again with another id".to_owned(),
        _ => "its state has just changed; check it with duebox get, and try again".to_owned(),
    };
    Failure::failed(
        format!("job {id} of {topic} is {}; nothing was changed", job.state.shown()),
        hint,
    )
}

/// At most this many jobs are looked up to report their states.
const LOOKED_UP_MAX: usize = 20;

/// The states of jobs that should be dead; for many, only the first are looked up.
pub(crate) async fn states_of(
    queue: &Queue,
    topic: &TopicName,
    ids: &[String],
) -> Result<Vec<String>, Failure> {
    let mut lines = Vec::with_capacity(ids.len());
    for (at, id) in ids.iter().enumerate() {
        let job = match at < LOOKED_UP_MAX {
            true => queue.get(topic, &JobId::from_redis(id.clone())).await?,
            false => None,
        };
        lines.push(match job {
            Some(job) => format!("none {id}: it is {}, not dead", job.state.shown()),
            None => format!("none {id}"),
        });
    }
    Ok(lines)
}

/// Connects and registers the limits of a topic that Redis does not know yet, so that they apply to
/// its first jobs.
pub(crate) async fn connect_to_topic(
    manifest: &Manifest,
    name: &TopicName,
) -> Result<Queue, Failure> {
    let queue = connect(manifest).await?;
    register(manifest, &queue, name).await?;
    Ok(queue)
}

/// Registers the limits of a topic that Redis does not know yet.
pub(crate) async fn register(
    manifest: &Manifest,
    queue: &Queue,
    name: &TopicName,
) -> Result<(), Failure> {
    if let Some(topic) = manifest.topic_for(name)
        && !queue.is_registered(name).await?
    {
        queue.configure(name, &topic.limits()).await?;
    }
    Ok(())
}

/// Connects to the queue that the manifest names. A managed Redis must already be running.
pub(crate) async fn connect(manifest: &Manifest) -> Result<Queue, Failure> {
    Ok(Queue::connect(&settings(manifest)?, &manifest.redis.prefix).await?)
}

/// The settings of a connection to the Redis that the manifest names.
pub(crate) fn settings(manifest: &Manifest) -> Result<ConnectionSettings, Failure> {
    let url = match &manifest.redis.url {
        RedisUrl::Url(url) => url.clone(),
        RedisUrl::Managed { dir, .. } => socket_url(dir).map_err(|error| {
            Failure::failed(
                format!("no managed Redis runs in {}: {error}", dir.display()),
                "start the daemon first: duebox run",
            )
        })?,
    };
    Ok(manifest.redis.connection(&url))
}

/// Refuses a due time in the past, or too far ahead, by the clock of Redis.
pub(crate) async fn check_due(queue: &Queue, due: Due) -> Result<(), Failure> {
    let check = DueCheck::of(queue, std::iter::once(due)).await?;
    Ok(check.check(due)?)
}

/// Runs a command's future to its end on this thread.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            Failure::failed(
                format!("the runtime cannot be started: {error}"),
                "raise the limits of this process (ulimit -n)",
            )
        })?
        .block_on(work)
}
