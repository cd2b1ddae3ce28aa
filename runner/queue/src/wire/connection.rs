//! The connection to Redis: one, multiplexed, that reconnects by itself.
//!
//! Every wait is bounded. A command without an answer within [`ANSWER_MAX`] has failed, and it is
//! unknown whether Redis carried it out. Verbs are safe to repeat for that reason.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::io::tcp::TcpSettings;
use redis::io::tcp::socket2::TcpKeepalive;
use redis::{Client, ErrorKind, IntoConnectionInfo, Pipeline, Value};

use crate::error::QueueError;
use crate::wire::latency::LatencyStats;

/// The longest wait for an answer: shorter than a lease, longer than a fork of Redis takes.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// The longest wait for a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How long the server may be silent, or leave data unacknowledged, before the connection is dropped.
const PEER_SILENCE_MAX: Duration = Duration::from_secs(10);
/// Interval of keepalive probes on a silent connection.
const PEER_ASK_EVERY: Duration = Duration::from_secs(3);

/// The address of Redis and the login.
#[derive(Clone)]
pub struct ConnectionSettings {
    /// `redis://host:port/db` or `unix:///path/to.sock`.
    pub url: String,
    /// The password; it replaces one in the URL.
    pub password: Option<String>,
}

impl fmt::Debug for ConnectionSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionSettings")
            .field("url", &self.public_url())
            .finish_non_exhaustive()
    }
}

impl ConnectionSettings {
    /// The settings for an address without a separate password.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), password: None }
    }

    /// The address without what stands before its `@`, so that it can be logged.
    pub fn public_url(&self) -> String {
        match (self.url.find("://"), self.url.rfind('@')) {
            (Some(scheme), Some(at)) if at > scheme => {
                format!("{}…{}", &self.url[..scheme + 3], &self.url[at..])
            }
            _ => self.url.clone(),
        }
    }

    pub(crate) fn client(&self) -> Result<Client, QueueError> {
        let address = |error: redis::RedisError| QueueError::Address {
            url: self.public_url(),
            reason: error.to_string(),
        };
        let info = self.url.as_str().into_connection_info().map_err(address)?;
        let mut login = info.redis_settings().clone();
        if let Some(password) = &self.password {
            login = login.set_password(password);
        }
        let info = info.set_redis_settings(login).set_tcp_settings(tcp_settings());
        Client::open(info).map_err(address)
    }
}

/// Sends without delay, and notices a vanished server within seconds.
fn tcp_settings() -> TcpSettings {
    let keepalive = TcpKeepalive::new().with_time(PEER_SILENCE_MAX).with_interval(PEER_ASK_EVERY);
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(PEER_SILENCE_MAX);
    settings
}

#[derive(Clone)]
pub(crate) struct Connection {
    manager: ConnectionManager,
    settings: ConnectionSettings,
    latency: Arc<LatencyStats>,
}

impl Connection {
    pub(crate) async fn open(settings: &ConnectionSettings) -> Result<Self, QueueError> {
        let config = ConnectionManagerConfig::new()
            .set_response_timeout(Some(ANSWER_MAX))
            .set_connection_timeout(Some(CONNECT_MAX))
            .set_number_of_retries(1)
            .set_min_delay(Duration::from_millis(50))
            .set_max_delay(Duration::from_millis(500));
        let client = settings.client()?;
        let refused = |error: redis::RedisError| {
            let (url, reason) = (settings.public_url(), error.to_string());
            match (error.kind(), error.code()) {
                (ErrorKind::AuthenticationFailed, _) | (_, Some("NOAUTH" | "WRONGPASS")) => {
                    QueueError::Login { url, reason }
                }
                _ => QueueError::Unreachable { url, reason },
            }
        };
        let mut manager =
            ConnectionManager::new_with_config(client, config).await.map_err(refused)?;
        // A server that needs a password refuses the first command, not the connection.
        let () = redis::cmd("PING").query_async(&mut manager).await.map_err(refused)?;
        Ok(Self { manager, settings: settings.clone(), latency: Arc::default() })
    }

    /// Sends commands in one write; returns a value or an error for each.
    pub(crate) async fn send(&self, commands: &Pipeline) -> Result<Vec<Value>, QueueError> {
        let count = commands.len();
        let sent_at = Instant::now();
        let answers = self.manager.clone().send_packed_commands(commands, 0, count).await;
        self.latency.saw(sent_at.elapsed(), answers.is_ok());
        let answers = answers.map_err(QueueError::of_redis)?;
        if answers.len() == count {
            return Ok(answers);
        }
        Err(QueueError::Answer(format!("{} answers to {count} commands", answers.len())))
    }

    #[cfg(feature = "redis-connection")]
    pub(crate) fn manager(&self) -> ConnectionManager {
        self.manager.clone()
    }

    pub(crate) fn latency_stats(&self) -> &Arc<LatencyStats> {
        &self.latency
    }

    pub(crate) fn settings(&self) -> &ConnectionSettings {
        &self.settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let settings = |url: &str| ConnectionSettings { url: url.into(), password: None };
        assert_eq!(settings("redis://u:secret@h:1/0").public_url(), "redis://…@h:1/0");
        assert_eq!(settings("redis://h:1").public_url(), "redis://h:1");
        assert!(!format!("{:?}", settings("redis://:secret@h")).contains("secret"));
    }
}
