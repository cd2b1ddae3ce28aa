//! Detects a half-open connection: it stays open and silent, because a part of the network between both ends has
//! lost it.
//!
//! An overdue reply alone proves nothing: Redis may be busy or stopped. So a second connection asks Redis. The
//! first one is half open if Redis answers there and the first one stays silent.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Value};
use tokio::time::Instant;

use crate::wire::abort_on_drop::AbortOnDrop;
use crate::wire::login::{LoggedIn, login};
use crate::wire::settings::ConnectionSettings;
use crate::wire::stream::Traffic;

/// How long a reply may take before Redis is asked over a second connection.
const OVERDUE_AFTER: Duration = Duration::from_secs(1);
/// How many bytes a second the slowest usable network carries. Requests may still be on their way.
const BYTES_PER_SECOND_MIN: u64 = 1 << 20;
/// How often a connection is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The longest wait for a reply over the second connection.
const PROBE_MAX: Duration = Duration::from_secs(1);
/// How long after that answer the overdue reply may still arrive.
const GRACE: Duration = Duration::from_millis(250);

/// Returns when the connection with this traffic is half open.
pub(super) async fn wait_until_half_open(traffic: &Traffic, settings: &ConnectionSettings) {
    let mut silence = Silence::begins(traffic);
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if !silence.lasts(traffic) {
            silence = Silence::begins(traffic);
            continue;
        }
        if !silence.is_too_long(traffic) {
            continue;
        }
        if replies_on_second_connection(settings).await {
            tokio::time::sleep(GRACE).await;
            if silence.lasts(traffic) {
                return;
            }
        }
        silence = Silence::begins(traffic);
    }
}

/// A time in which replies are awaited and nothing arrives.
struct Silence {
    since: Instant,
    read: u64,
    written: u64,
}

impl Silence {
    fn begins(traffic: &Traffic) -> Self {
        Self { since: Instant::now(), read: traffic.read(), written: traffic.written() }
    }

    fn lasts(&self, traffic: &Traffic) -> bool {
        traffic.awaits_replies() && traffic.read() == self.read
    }

    fn is_too_long(&self, traffic: &Traffic) -> bool {
        let sent = traffic.written().saturating_sub(self.written);
        let on_the_way = Duration::from_millis(sent.saturating_mul(1_000) / BYTES_PER_SECOND_MIN);
        self.since.elapsed() >= OVERDUE_AFTER + on_the_way
    }
}

/// Whether Redis runs a script over another connection. While it delays writes (CLIENT PAUSE) it delays scripts too,
/// and answers a PING.
async fn replies_on_second_connection(settings: &ConnectionSettings) -> bool {
    let asked = login(settings, PROBE_MAX, async |login, stream| {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(PROBE_MAX));
        let (mut connection, driver) =
            MultiplexedConnection::new_with_config(login, stream, config).await?;
        let _driver = AbortOnDrop(tokio::spawn(driver));
        connection.send_packed_command(redis::cmd("EVAL").arg("return 1").arg(0)).await
    });
    match asked.await {
        // A user that may only read is refused, which is a reply too.
        Ok(LoggedIn { begun: Value::ServerError(error), .. }) => error.code() == "NOPERM",
        Ok(_) => true,
        Err(_) => false,
    }
}
