//! The host services behind the imports: the log, the HTTP client and the key-value store.

use std::sync::Arc;

use crate::imports::http::HttpClient;
use crate::imports::intercept::Interceptor;
use crate::imports::kv::KeyValue;
use crate::imports::log::LogSink;

/// The host services that guests use. All guests of a daemon share one value; a trial run has its own, in
/// which nothing has an effect. Clones share the services.
#[derive(Clone)]
pub struct HostServices {
    /// Receives the log lines.
    pub logs: Arc<dyn LogSink>,
    /// Sends requests of handlers with an HTTP grant. Without it, their requests return UNAVAILABLE.
    pub http: Option<HttpClient>,
    /// Stores values of handlers with a key-value grant. Without it, their calls return UNAVAILABLE.
    pub kv: Option<Arc<dyn KeyValue>>,
    /// Sees, and may answer, what guests read from the host.
    pub interceptor: Option<Arc<dyn Interceptor>>,
}

impl HostServices {
    /// Only a log; no network and no store.
    pub fn with_logs(logs: Arc<dyn LogSink>) -> Self {
        Self { logs, http: None, kv: None, interceptor: None }
    }
}
