//! The relatives of a job: the job whose ack pushed it, and the jobs that its own ack pushed, each with its state as
//! far as Redis still knows it.

use duebox_job::{JobId, TopicName};
use duebox_queue::QueueError;
use futures_util::future::try_join_all;
use serde::Serialize;
use utoipa::ToSchema;

use crate::auth::tokens::Scope;
use crate::http::access::{Caller, RequiredScope};
use crate::http::state::ServerState;
use crate::service::timeline::Timeline;

/// A relative of a job.
#[derive(Serialize, ToSchema)]
#[schema(as = JobRelative)]
pub(in crate::http) struct Relative {
    /// `parent` or `follow_up`.
    role: &'static str,
    /// Its topic.
    topic: String,
    /// Its id.
    id: String,
    /// Its state; null if Redis has no record of it, or the caller may not read it.
    state: Option<&'static str>,
    /// True if the caller may read it.
    readable: bool,
}

/// The relatives that a job's timeline names; the parent and at most 20 follow-ups.
pub(super) async fn relatives(
    server: &ServerState,
    caller: &Caller,
    life: &Timeline,
) -> Result<Vec<Relative>, QueueError> {
    let parent = life.parent.iter().map(|name| ("parent", name));
    let named = parent.chain(life.follow_ups.iter().map(|name| ("follow_up", name)));
    // A producer may have set the header to any text.
    let named = named.filter_map(|(role, name)| {
        let (topic, id) = name.split_once('/')?;
        let topic = TopicName::new(topic).ok()?;
        Some((role, topic, JobId::from_redis(id.to_owned()))).filter(|_| !id.is_empty())
    });
    let looks = named.map(|(role, topic, id)| look(server, caller, role, topic, id));
    try_join_all(looks.collect::<Vec<_>>()).await
}

/// Looks one relative up.
async fn look(
    server: &ServerState,
    caller: &Caller,
    role: &'static str,
    topic: TopicName,
    id: JobId,
) -> Result<Relative, QueueError> {
    let readable = caller.check(RequiredScope::One(Scope::Read), Some(&topic)).is_ok();
    let job = if readable { server.queue.get(&topic, &id).await? } else { None };
    let state = job.map(|job| job.state.word());
    Ok(Relative { role, topic: topic.to_string(), id: id.to_string(), state, readable })
}
