//! What the servers of a cluster say of its slots. They may disagree while a primary is replaced or the network is
//! split; the one with the newest configuration (its epoch) is right, as among the servers themselves.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use redis::{Pipeline, Value};
use tokio::time::{Instant, timeout_at};

use crate::error::QueueError;
use crate::wire::address::NodeAddress;
use crate::wire::reply::text;
use crate::wire::server_connection::{Repeat, ServerConnection};
use crate::wire::settings::ConnectionSettings;
use crate::wire::slots::SlotMap;

/// How long the other servers may take after one has named a server for each slot.
const OTHERS_MAX: Duration = Duration::from_millis(100);

/// What one server says.
pub(super) struct View {
    pub(super) map: SlotMap,
    /// The version of the configuration that it knows. It grows with each failover and each slot that moves.
    epoch: u64,
    /// Every slot has a server.
    is_covered: bool,
    /// Also, the server serves.
    is_whole: bool,
}

impl View {
    /// The greatest one is right.
    fn rank(&self) -> (bool, bool, u64) {
        (self.is_whole, self.is_covered, self.epoch)
    }
}

/// Asks one server.
pub(super) async fn ask(
    server: &ServerConnection,
    node: &NodeAddress,
    settings: &ConnectionSettings,
) -> Result<View, QueueError> {
    let mut questions = Pipeline::with_capacity(2);
    questions.cmd("CLUSTER").arg("SLOTS");
    questions.cmd("CLUSTER").arg("INFO");
    let replies = server.send(&questions, 0..2, Repeat::Always).await;
    let mut values = replies.map_err(|failed| failed.error)?.values.into_iter();
    let slots = values.next().unwrap_or(Value::Nil);
    let Some(map) = SlotMap::read(&slots, node, settings.node_addresses()) else {
        return Err(settings.no_cluster(slots));
    };
    // A user may lack the permission for INFO: then the configuration counts as the oldest.
    let info = values.next();
    let info = info.as_ref().and_then(|info| text(info).ok()).unwrap_or_default();
    let field = |name: &str| info.lines().find_map(|line| line.trim_end().strip_prefix(name));
    let epoch = field("cluster_current_epoch:").and_then(|epoch| epoch.parse().ok());
    let is_covered = map.first_uncovered().is_none();
    let is_whole = is_covered && field("cluster_state:") == Some("ok");
    Ok(View { map, epoch: epoch.unwrap_or_default(), is_covered, is_whole })
}

/// The answer of the newest epoch; of a server that knows every slot, if one does. It waits for this time at most, and
/// not much longer than for the first such server, so that a silent one delays little. Without an answer, the failure
/// that says most.
pub(super) async fn newest<T>(
    asked: Vec<BoxFuture<'_, Result<(T, View), QueueError>>>,
    within: Duration,
    settings: &ConnectionSettings,
) -> Result<(T, View), QueueError> {
    let mut deadline = Instant::now() + within;
    let mut asked: FuturesUnordered<_> = asked.into_iter().collect();
    let (mut best, mut failure) = (None, None);
    while let Ok(Some(answer)) = timeout_at(deadline, asked.next()).await {
        match answer {
            Ok((from, view)) => {
                if view.is_covered {
                    deadline = deadline.min(Instant::now() + OTHERS_MAX);
                }
                if best.as_ref().is_none_or(|(_, known): &(T, View)| view.rank() > known.rank()) {
                    best = Some((from, view));
                }
            }
            Err(error) if failure.as_ref().is_none_or(says_little) => {
                failure = Some(error);
            }
            Err(_) => {}
        }
    }
    best.ok_or_else(|| failure.unwrap_or_else(|| settings.no_reply()))
}

fn says_little(error: &QueueError) -> bool {
    matches!(error, QueueError::Unreachable { .. } | QueueError::NoReply(_))
}
