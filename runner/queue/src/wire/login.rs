//! Connects to Redis and logs in, with the settings as they are on disk at that moment.

use std::sync::Arc;
use std::time::Duration;

use redis::{RedisConnectionInfo, RedisResult};
use tokio::time::{Instant, timeout_at};

use crate::error::QueueError;
use crate::wire::address::{NodeAddress, Target};
use crate::wire::sentinel;
use crate::wire::settings::ConnectionSettings;
use crate::wire::stream::{Stream, Traffic};

/// A connection after its login.
pub(super) struct LoggedIn<T> {
    /// What the login began.
    pub(super) begun: T,
    pub(super) traffic: Arc<Traffic>,
    /// The server that was reached.
    pub(super) node: NodeAddress,
}

/// Connects to the server of the address, or to the primary that its sentinels name, and lets `begin` log in. Says
/// what failed if one of them did.
pub(super) async fn login<T>(
    settings: &ConnectionSettings,
    within: Duration,
    begin: impl AsyncFnOnce(&RedisConnectionInfo, Stream) -> RedisResult<T>,
) -> Result<LoggedIn<T>, QueueError> {
    let deadline = Instant::now() + within;
    let address = settings.address()?;
    let node = match &address.target {
        Target::Server(node) => node.clone(),
        Target::Sentinels(sentinels) => sentinel::locate(sentinels, settings, deadline).await?,
        Target::Cluster(seeds) => seeds.first().cloned().ok_or_else(|| settings.no_reply())?,
    };
    let stream = Stream::open(&node, &settings.tls, deadline).await;
    let stream = stream.map_err(|error| settings.dial_failed(error))?;
    let traffic = Arc::clone(stream.traffic());
    match timeout_at(deadline, begin(&address.login, stream)).await {
        Ok(Ok(begun)) => Ok(LoggedIn { begun, traffic, node }),
        Ok(Err(error)) => Err(settings.login_failed(&error, &traffic)),
        Err(_) => Err(settings.no_reply()),
    }
}
