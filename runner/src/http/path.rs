//! Path parameters: a topic's name and a job's id. An invalid one is refused before anything is
//! done.

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use duebox_job::{JobId, TopicName};

use super::problem::Problem;

/// `{topic}` of a path.
pub(super) struct TopicPath(pub(super) TopicName);

/// `{topic}` and `{id}` of a path.
pub(super) struct JobPath {
    pub(super) topic: TopicName,
    pub(super) id: JobId,
}

impl<S: Send + Sync> FromRequestParts<S> for TopicPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        Ok(Self(topic(&params(parts, state).await?)?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for JobPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let params = params(parts, state).await?;
        // A producer with plain commands may have chosen any bytes.
        let id = JobId::from_redis(named(&params, "id").to_owned());
        Ok(Self { topic: topic(&params)?, id })
    }
}

async fn params<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<RawPathParams, Problem> {
    RawPathParams::from_request_parts(parts, state).await.map_err(|error| {
        Problem::bad(error.to_string(), "write the path in UTF-8, percent-encoded")
    })
}

/// The topic of a path.
pub(super) fn topic(params: &RawPathParams) -> Result<TopicName, Problem> {
    TopicName::new(named(params, "topic")).map_err(|error| {
        Problem::bad(error.to_string(), "GET /v1/topics lists the topics").of("topic")
    })
}

fn named<'p>(params: &'p RawPathParams, name: &str) -> &'p str {
    params.iter().find(|(found, _)| *found == name).map_or("", |(_, value)| value)
}
