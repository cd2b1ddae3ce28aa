//! What the sentinels of an address say, for people.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::QueueError;
use crate::wire::address::NodeAddress;
use crate::wire::sentinel::{self, View};
use crate::wire::settings::ConnectionSettings;

/// The longest wait for all sentinels.
const REPLY_MAX: Duration = Duration::from_secs(2);

/// What the sentinels of an address say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentinelReport {
    /// The name that they have for the primary and its replicas.
    pub master: String,
    /// The sentinels of the address, in its order.
    pub sentinels: Vec<SentinelView>,
}

/// What one sentinel says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentinelView {
    /// Its host and port.
    pub address: String,
    /// What it knows of the primary; the problem if it names none.
    pub primary: Result<SentinelPrimary, String>,
}

/// The primary, as one sentinel sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentinelPrimary {
    /// Its host and port.
    pub address: String,
    /// The replicas that the sentinel knows.
    pub replicas: u64,
    /// How many sentinels must agree that the primary is down.
    pub quorum: u64,
}

impl ConnectionSettings {
    /// Asks every sentinel of the address; `None` if the address has none.
    ///
    /// # Errors
    /// [`QueueError`] if the address or the password cannot be read.
    pub async fn ask_sentinels(&self) -> Result<Option<SentinelReport>, QueueError> {
        let Some(sentinels) = self.sentinels()? else { return Ok(None) };
        let deadline = Instant::now() + REPLY_MAX;
        let views = sentinel::ask_all(&sentinels, self, deadline, None).await;
        let view_of = |node: &NodeAddress| {
            let view = views.iter().find(|(of, _)| *of == node);
            let primary = match view {
                None => Err("it does not answer in time".to_owned()),
                Some((_, Err(QueueError::Unreachable { reason, .. }))) => Err(reason.clone()),
                Some((_, Err(error))) => Err(error.problem()),
                Some((_, Ok(View::NotWatched(_)))) => {
                    Err("it does not watch this master".to_owned())
                }
                Some((_, Ok(View::Primary(primary)))) => Ok(SentinelPrimary {
                    address: format!("{}:{}", primary.host, primary.port),
                    replicas: primary.replicas,
                    quorum: primary.quorum,
                }),
            };
            SentinelView { address: node.to_string(), primary }
        };
        let sentinels_said = sentinels.nodes.iter().map(view_of).collect();
        Ok(Some(SentinelReport { master: sentinels.master.clone(), sentinels: sentinels_said }))
    }
}
