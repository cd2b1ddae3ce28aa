//! What a command works on: the manifest's topic, and the queue in the manifest's Redis.

use std::collections::BTreeSet;
use std::future::Future;

use duebox_job::{JobId, TopicName};
use duebox_queue::{ConnectionSettings, Job, JobState, Queue};

use super::failure::Failure;
use crate::background::rules;
use crate::manifest::{Manifest, RedisUrl, Secret, Topic, nearest};
use crate::redis_host::managed::socket_url;

/// The topic of that name, which must be in the manifest, by name or by a pattern.
pub(crate) fn topic<'m>(manifest: &'m Manifest, name: &TopicName) -> Result<&'m Topic, Failure> {
    manifest.topic_for(name).ok_or_else(|| unknown_topic(name, manifest.topics.keys()))
}

/// A topic that nobody knows, with those that are known.
pub(crate) fn unknown_topic<'t>(
    name: &TopicName,
    known: impl Iterator<Item = &'t TopicName>,
) -> Failure {
    let known: BTreeSet<&str> = known.map(TopicName::as_str).collect();
    let hint = match nearest(name.as_str(), known.iter().copied()) {
        Some(like) => format!("did you mean {like}?"),
        None if known.is_empty() => "no topic is known; add it to the manifest".to_owned(),
        None => format!("add it, or choose one of: {}", Vec::from_iter(known).join(", ")),
    };
    Failure::bad_input(format!("there is no topic {name} in the manifest"), hint)
}

/// Refuses a topic that neither the manifest nor Redis knows.
pub(crate) async fn known_topic(
    manifest: &Manifest,
    queue: &Queue,
    name: &TopicName,
) -> Result<(), Failure> {
    if manifest.topic_for(name).is_some() {
        return Ok(());
    }
    let in_redis = queue.topics().await?;
    if in_redis.contains(name) {
        return Ok(());
    }
    Err(unknown_topic(name, manifest.topics.keys().chain(&in_redis)))
}

/// Refuses ids and a filter at once: which would it be?
pub(crate) fn ids_or_filter(ids: &[JobId], is_unfiltered: bool) -> Result<(), Failure> {
    if ids.is_empty() || is_unfiltered {
        return Ok(());
    }
    Err(Failure::bad_input(
        "ids and a filter are both given",
        "name the jobs, or say which are meant by --class, --older-than and --newer-than",
    ))
}

/// A job that should wait and does not: what it is instead, and what can be done.
pub(crate) fn does_not_wait(topic: &TopicName, id: &JobId, found: Option<&Job>) -> Failure {
    let Some(job) = found else {
        return Failure::failed(
            format!("no job {id} waits or runs in {topic}"),
            "it is done and forgotten, or was never pushed; see duebox stats",
        );
    };
    let hint = match job.state {
        JobState::Dead => format!("give it another life with: duebox requeue {topic} {id}"),
        JobState::Done | JobState::Held => "push it anew, under another id".to_owned(),
        _ => "it has just changed: look at it with duebox get, and try again".to_owned(),
    };
    Failure::failed(
        format!("the job {id} of {topic} is {}; nothing has changed", job.state.word()),
        hint,
    )
}

/// How many jobs that are not what they should be are looked up, to say what they are.
const LOOKED_UP_MAX: usize = 20;

/// Says of jobs that should be dead what they are instead; of many, of the first only.
pub(crate) async fn what_they_are(
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
            Some(job) => format!("none {id}: it is {}, not dead", job.state.word()),
            None => format!("none {id}"),
        });
    }
    Ok(lines)
}

/// Connects to use a topic. One that nobody has used yet gets its rules first, so that they hold
/// for its first jobs too.
pub(crate) async fn connect_to_topic(
    manifest: &Manifest,
    name: &TopicName,
) -> Result<Queue, Failure> {
    let queue = connect(manifest).await?;
    if let Some(topic) = manifest.topic_for(name)
        && !queue.is_registered(name).await?
    {
        rules::write(&queue, &[(name.clone(), topic.rules())]).await?;
    }
    Ok(queue)
}

/// Connects to the queue that the manifest names; a managed Redis must be running already.
pub(crate) async fn connect(manifest: &Manifest) -> Result<Queue, Failure> {
    let url = match &manifest.redis.url {
        RedisUrl::Url(url) => url.clone(),
        RedisUrl::Managed { dir, .. } => socket_url(dir).map_err(|error| {
            Failure::failed(
                format!("no managed Redis runs in {}: {error}", dir.display()),
                "start the daemon first: duebox run",
            )
        })?,
    };
    let password = manifest.redis.password.as_ref().map(Secret::expose).map(str::to_owned);
    Ok(Queue::connect(&ConnectionSettings { url, password }, &manifest.redis.prefix).await?)
}

/// Runs a command's conversation with Redis to its end, on this thread.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| {
            Failure::failed(
                format!("the runtime does not start: {error}"),
                "raise the limits of this process (ulimit -n)",
            )
        })?
        .block_on(work)
}
