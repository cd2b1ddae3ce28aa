//! The time before the start of a daemon: each daemon publishes in Redis what it did itself, a minute a step, and one
//! that starts reads once what the others have published. Daemons need no connection to each other.

use std::time::Duration;

use tracing::debug;

use super::{Others, Recorder};
use crate::http::state::ServerState;
use crate::observe::history::PublishedHistory;

/// How often what is new is published.
const PUBLISH_EVERY: Duration = Duration::from_secs(10);

/// Publishes until it is dropped.
pub(super) async fn publish(server: &ServerState) {
    loop {
        tokio::time::sleep(PUBLISH_EVERY).await;
        publish_once(server).await;
    }
}

/// Publishes what is not published.
pub(super) async fn publish_once(server: &ServerState) {
    let publication = {
        let mut own = server.recorder.own.lock();
        // Nothing may be added between the steps and the counts.
        let counted = Recorder::counted(&own);
        own.steps.publication(|| counted)
    };
    let Some(publication) = publication else { return };
    let (set, removed) = (&publication.set, &publication.removed);
    let reply = server.queue.publish_history(&server.runner_id, set, removed).await;
    let mut own = server.recorder.own.lock();
    match reply {
        Ok(()) => own.steps.confirm(&publication),
        Err(error) => {
            own.steps.publish_all();
            debug!(%error, "the history of this daemon was not published");
        }
    }
}

/// Adds what other daemons have recorded; returns whether Redis replied.
pub(super) async fn read(server: &ServerState, others: &mut Others) -> bool {
    let runners = match server.queue.runners_with_history().await {
        Ok(runners) => runners,
        Err(error) => {
            debug!(%error, "the histories of other daemons were not read");
            // A key of another type stays one.
            return error.is_of_topic();
        }
    };
    for runner in runners.into_iter().filter(|runner| **runner != *server.runner_id) {
        let fields = match server.queue.history_of(&runner).await {
            Ok(fields) => fields,
            Err(error) => {
                debug!(%error, %runner, "the history of another daemon was not read");
                continue;
            }
        };
        let history = PublishedHistory::read(&fields);
        server.recorder.history.add_past(server.recorder.now_ms(), &history);
        if let Some(counted) = history.counted {
            others.recorded.insert(runner, counted);
        }
        // The runtime also answers requests.
        tokio::task::yield_now().await;
    }
    true
}
