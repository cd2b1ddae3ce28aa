//! What lies outside of the sandbox: where the guests' lines go, and what a grant opens. One for all
//! guests of a daemon; a trial run has one of its own, in which nothing has an effect.

use std::sync::Arc;

use crate::imports::http::HttpClient;
use crate::imports::kv::KeyValue;
use crate::imports::log::LogSink;

/// The world around a guest. Clones are the same world.
#[derive(Clone)]
pub struct World {
    /// Where log lines go.
    pub logs: Arc<dyn LogSink>,
    /// What `http` grants the use of; without one every request that is granted answers UNAVAILABLE.
    pub http: Option<HttpClient>,
    /// The store that `kv` grants; without one its calls answer UNAVAILABLE.
    pub kv: Option<Arc<dyn KeyValue>>,
}

impl World {
    /// A world with a log and nothing else.
    pub fn of(logs: Arc<dyn LogSink>) -> Self {
        Self { logs, http: None, kv: None }
    }
}
